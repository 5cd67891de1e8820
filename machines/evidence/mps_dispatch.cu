// Whose blocks does a GPU place first when two clients of one MPS server launch kernels?
// Two processes of this program run at the same time (mps_dispatch.sh starts them):
//   neighbour  launches one long kernel after the other into one stream and stays ahead of the device.
//   chains     launches now and then a CUDA graph of short kernels, each of which depends on the one before.
// Every kernel keeps the device's time of its first and last block's start and of its last block's end. A file that
// both map makes `chains` measure all its shapes beside one shape of the neighbour, then beside the next. Raw samples
// go to FOLDER/neighbour.csv and FOLDER/chains.csv, which analyse.py reads. README.md explains the shapes.

#include <cuda_runtime.h>
#include <err.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using DeviceNs = unsigned long long;  // as CUDA's atomics take it
using HostNs = int64_t;

constexpr int kKernelsPerChain = 20;
constexpr int kChainBlockUs = 5;

// Two batches of this many launches are in flight; the next one follows when the older one has ended.
constexpr int kLaunchesPerBatch = 16;
// The neighbour runs alone for this long first, so that its gaps without the other client are known, too.
constexpr int kAloneUs = 30'000;
constexpr int kMostAlone = 200;
constexpr useconds_t kHeadStartUs = 1000;
constexpr useconds_t kPollUs = 50;
// Shapes of 20 us and one wave make 150,000 kernels in four chains of the longest SECONDS.
constexpr int kMostKernels = 200'000;
constexpr double kMostSeconds = 1.0;
// Between two chains at least this, and up to as much again, so that they meet all stages of the neighbour's kernels.
constexpr HostNs kPauseNs = 500'000;
constexpr int kClockRounds = 200;

struct Neighbour {
  const char *name;
  int threads, shared_bytes, blocks_per_sm;
  int waves = 0, block_us = 0;  // no waves: nothing is launched
  // `neighbour,waves,block_us` of the samples; a missing number is an empty field.
  std::string columns = {};
};

struct Chain {
  const char *name;
  int blocks, threads, shared_bytes, cluster;
  // Each `period`-th kernel has this shape, the others that of `kSmall`.
  int period;
};

struct Run {
  // In ascending order of shared memory, without waves and durations; neighbours_of adds both.
  std::vector<Neighbour> neighbours;
  std::vector<Chain> chains;
};

constexpr Chain kSmall = {"small", 132, 128, 0, 1, 1};

static const Run kRuns[] = {
    {{{"full", 1024, 0, 2}, {"room", 768, 0, 2}, {"smem", 1024, 120 * 1024, 1}},
     {{"1-block", 1, 128, 0, 1, 1}, {"132-blocks", 132, 128, 0, 1, 1}, {"528-blocks", 528, 128, 0, 1, 1}}},
    {{{"half", 512, 100 * 1024, 2}, {"one", 1024, 120 * 1024, 1}},
     {kSmall,
      {"whole", 132, 384, 200 * 1024, 1, 1},
      {"cluster", 96, 384, 200 * 1024, 8, 1},
      {"mixed", 96, 384, 200 * 1024, 8, 4}}},
};

// In the order in which they are measured.
static std::vector<Neighbour> neighbours_of(const Run &run) {
  std::vector<Neighbour> all = {{"none", 0, 0, 0, 0, 0, "none,,"}};
  for (Neighbour neighbour : run.neighbours)
    for (int waves : {1, 4, 16})
      for (int block_us : {20, 100}) {
        neighbour.waves = waves;
        neighbour.block_us = block_us;
        neighbour.columns = std::string(neighbour.name) + ',' + std::to_string(waves) + ',' + std::to_string(block_us);
        all.push_back(neighbour);
      }
  return all;
}

#define CHECK(call)                                                                                        \
  do {                                                                                                     \
    cudaError_t error = (call);                                                                            \
    if (error != cudaSuccess) errx(1, "line %d: %s: %s", __LINE__, #call, cudaGetErrorString(error));      \
  } while (0)

struct Record {
  DeviceNs first_start, last_start, end;
};

constexpr Record kBlank = {~0ull, 0, 0};  // what the minimum and the maxima begin with

__device__ DeviceNs timer() {
  DeviceNs now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Uniform in all 32 bits (the mixing function "lowbias32" of Chris Wellons' hash-prospector).
__device__ unsigned mix(unsigned x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

__device__ void occupy(Record *record, long long cycles) {
  if (threadIdx.x == 0) {
    DeviceNs now = timer();
    atomicMin(&record->first_start, now);
    atomicMax(&record->last_start, now);
  }
  long long begin = clock64();
  while (clock64() - begin < cycles) {}
  __syncthreads();
  if (threadIdx.x == 0) atomicMax(&record->end, timer());
}

// Uniformly 0.75 to 1.25 of `cycles` for each block. Blocks of equal length would end, and leave room, all at once.
__global__ void __launch_bounds__(1024, 2) neighbour_kernel(Record *records, unsigned kernel, int cycles) {
  long long shortest = cycles * 3ll / 4;
  long long extra = static_cast<DeviceNs>(cycles / 2) * mix(kernel * 7919u + blockIdx.x) >> 32;
  occupy(records + kernel, shortest + extra);
}

__global__ void chain_kernel(Record *records, int kernel, int cycles) { occupy(records + kernel, cycles); }

// In memory of the host; on two cache lines, as each side polls one of them.
struct Exchange {
  volatile int round;
  alignas(64) volatile DeviceNs answer;
};

// Answers each new round with the device's time.
__global__ void echo_time(Exchange *exchange) {
  for (int i = 1; i <= kClockRounds; i++) {
    while (exchange->round < i) {}
    exchange->answer = timer();
    __threadfence_system();
  }
}

static HostNs host_now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * HostNs{1'000'000'000} + time.tv_nsec;
}

struct Device {
  int sms, cycles_per_us;
  cudaStream_t stream;
};

static Device open_device(const Run &run) {
  Device device;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int clock_khz;
  CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  CHECK(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
  device.sms = properties.multiProcessorCount;
  device.cycles_per_us = clock_khz / 1000;
  printf("%s, %d SMs, %d MHz\n", properties.name, device.sms, device.cycles_per_us);

  const cudaFuncAttribute most_shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  for (const Chain &chain : run.chains)
    if (chain.shared_bytes > 0) CHECK(cudaFuncSetAttribute(chain_kernel, most_shared, chain.shared_bytes));
  for (const Neighbour &shape : run.neighbours) {
    CHECK(cudaFuncSetAttribute(neighbour_kernel, most_shared, shape.shared_bytes));
    int fit;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, neighbour_kernel, shape.threads, shape.shared_bytes));
    if (fit != shape.blocks_per_sm)
      errx(1, "%d blocks of `%s` fit on an SM of this GPU, not %d; use one of compute capability 9.0, or adapt kRuns",
           fit, shape.name, shape.blocks_per_sm);
  }
  return device;
}

// Device's time less host's, from the fastest of many questions; wrong by half its round trip at most, and by drift.
static HostNs clock_offset(const Device &device) {
  Exchange *exchange;
  CHECK(cudaHostAlloc(&exchange, sizeof *exchange, cudaHostAllocDefault));
  exchange->round = 0;
  exchange->answer = 0;
  echo_time<<<1, 1, 0, device.stream>>>(exchange);
  CHECK(cudaGetLastError());
  HostNs best = INT64_MAX, offset = 0;
  DeviceNs last = 0;
  for (int i = 1; i <= kClockRounds; i++) {
    HostNs asked = host_now();
    exchange->round = i;
    while (exchange->answer == last) {}
    HostNs answered = host_now();
    last = exchange->answer;
    if (answered - asked < best) {
      best = answered - asked;
      offset = static_cast<HostNs>(last) - (asked + best / 2);
    }
  }
  CHECK(cudaStreamSynchronize(device.stream));
  printf("clock offset: round trip %lld ns\n", static_cast<long long>(best));
  return offset;
}

// How many of the neighbours are launched, measured, and written to the file. Each process waits for the other without
// end; mps_dispatch.sh stops both when one has failed or took too long.
struct Turns {
  std::atomic<int> running, measured, written;
  static_assert(std::atomic<int>::is_always_lock_free, "only such atomics work between processes");
};

static Turns *open_turns(const std::string &folder) {
  std::string path = folder + "/turns";
  int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  // What a file grows by is filled with zeros, which is how both begin.
  if (file < 0 || ftruncate(file, sizeof(Turns)) != 0) err(1, "%s: does the folder exist?", path.c_str());
  void *memory = mmap(nullptr, sizeof(Turns), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) err(1, "%s", path.c_str());
  return static_cast<Turns *>(memory);
}

static FILE *create(const std::string &path, const char *header) {
  FILE *file = fopen(path.c_str(), "wx");
  if (!file) err(1, "%s: give an empty FOLDER", path.c_str());
  fprintf(file, "%s\n", header);
  return file;
}

// `columns` are those before the times.
static void write_record(FILE *file, const std::string &columns, const Record &record) {
  fprintf(file, "%s,%llu,%llu,%llu\n", columns.c_str(), record.first_start, record.last_start, record.end);
}

static void close_written(FILE *file) {
  if (ferror(file) || fclose(file) != 0) err(1, "the samples could not be written: is the disk full?");
}

static void run_neighbour(const Run &run, const std::string &folder) {
  Turns *turns = open_turns(folder);
  FILE *file = create(folder + "/neighbour.csv", "neighbour,waves,block_us,kernel,first_start_ns,last_start_ns,end_ns");
  Device device = open_device(run);
  Record *records;
  std::vector<Record> blank(kMostKernels, kBlank), read(kMostKernels);
  CHECK(cudaMalloc(&records, kMostKernels * sizeof(Record)));
  cudaEvent_t batch_done[2];
  for (cudaEvent_t &event : batch_done) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  int turn = 0;
  for (const Neighbour &neighbour : neighbours_of(run)) {
    int blocks = neighbour.waves * neighbour.blocks_per_sm * device.sms;
    int cycles = neighbour.block_us * device.cycles_per_us;
    int launched = 0;
    auto launch = [&] {
      if (launched == kMostKernels) errx(1, "%s: more than %d kernels; give less SECONDS", neighbour.name, launched);
      neighbour_kernel<<<blocks, neighbour.threads, neighbour.shared_bytes, device.stream>>>(records, launched, cycles);
      launched++;
    };
    turn++;
    CHECK(cudaMemcpy(records, blank.data(), kMostKernels * sizeof(Record), cudaMemcpyHostToDevice));
    int alone = neighbour.waves > 0 ? std::min(kAloneUs / (neighbour.waves * neighbour.block_us), kMostAlone) : 0;
    while (launched < alone) launch();
    CHECK(cudaStreamSynchronize(device.stream));
    turns->running = turn;
    while (neighbour.waves == 0 && turns->measured < turn) usleep(kPollUs);
    for (int batch = 0; turns->measured < turn; batch++) {
      if (batch >= 2) CHECK(cudaEventSynchronize(batch_done[batch % 2]));
      for (int i = 0; i < kLaunchesPerBatch; i++) launch();
      CHECK(cudaEventRecord(batch_done[batch % 2], device.stream));
    }
    CHECK(cudaStreamSynchronize(device.stream));
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(read.data(), records, launched * sizeof(Record), cudaMemcpyDeviceToHost));
    for (int i = 0; i < launched; i++) write_record(file, neighbour.columns + ',' + std::to_string(i), read[i]);
    printf("%s: %d kernels\n", neighbour.columns.c_str(), launched);
    turns->written = turn;
  }
  close_written(file);
}

static cudaGraphExec_t capture(const Device &device, const Chain &chain, Record *records) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  int cycles = kChainBlockUs * device.cycles_per_us;
  CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
  for (int kernel = 0; kernel < kKernelsPerChain; kernel++) {
    const Chain &shape = kernel % chain.period == 0 ? chain : kSmall;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.blocks;
    config.blockDim = shape.threads;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = device.stream;
    config.attrs = &cluster;
    config.numAttrs = shape.cluster > 1;
    CHECK(cudaLaunchKernelEx(&config, chain_kernel, records, kernel, cycles));
  }
  CHECK(cudaStreamEndCapture(device.stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphUpload(executable, device.stream));
  return executable;
}

static void run_chains(const Run &run, const std::string &folder, double seconds) {
  Turns *turns = open_turns(folder);
  FILE *file = create(folder + "/chains.csv",
                      "neighbour,waves,block_us,chain,number,launch_ns,kernel,first_start_ns,last_start_ns,end_ns");
  Device device = open_device(run);
  HostNs offset = clock_offset(device);
  Record *records, *blank, *read;
  constexpr size_t kBytes = kKernelsPerChain * sizeof(Record);
  CHECK(cudaMalloc(&records, kBytes));
  // Pinned, so that the copies before and after a chain need no other copy.
  CHECK(cudaHostAlloc(&blank, kBytes, cudaHostAllocDefault));
  CHECK(cudaHostAlloc(&read, kBytes, cudaHostAllocDefault));
  std::fill(blank, blank + kKernelsPerChain, kBlank);
  std::vector<cudaGraphExec_t> graphs;
  for (const Chain &chain : run.chains) graphs.push_back(capture(device, chain, records));

  uint32_t random = 1;
  // Leaves the records in `read`; returns when it was launched, on the device's clock.
  auto measure = [&](cudaGraphExec_t graph) {
    CHECK(cudaMemcpyAsync(records, blank, kBytes, cudaMemcpyHostToDevice, device.stream));
    CHECK(cudaStreamSynchronize(device.stream));
    // The linear congruential generator of Numerical Recipes; its high bits are good enough to vary a pause.
    random = random * 1664525u + 1013904223u;
    HostNs until = host_now() + kPauseNs + (random >> 8) * kPauseNs / (1 << 24);
    while (host_now() < until) {}
    HostNs launch = host_now() + offset;
    CHECK(cudaGraphLaunch(graph, device.stream));
    CHECK(cudaStreamSynchronize(device.stream));
    CHECK(cudaMemcpyAsync(read, records, kBytes, cudaMemcpyDeviceToHost, device.stream));
    CHECK(cudaStreamSynchronize(device.stream));
    return static_cast<DeviceNs>(launch);
  };
  // The first launch of a graph takes longer than all others.
  for (cudaGraphExec_t graph : graphs) measure(graph);
  int turn = 0;
  for (const Neighbour &neighbour : neighbours_of(run)) {
    turn++;
    while (turns->running < turn) usleep(kPollUs);
    usleep(kHeadStartUs);
    for (size_t chain = 0; chain < graphs.size(); chain++) {
      std::string columns = neighbour.columns + ',' + run.chains[chain].name;
      HostNs began = host_now();
      int number = 0;
      while (host_now() - began < seconds * 1e9) {
        std::string start = columns + ',' + std::to_string(number) + ',' + std::to_string(measure(graphs[chain])) + ',';
        for (int kernel = 0; kernel < kKernelsPerChain; kernel++)
          write_record(file, start + std::to_string(kernel), read[kernel]);
        number++;
      }
      printf("%s: %d chains\n", columns.c_str(), number);
    }
    turns->measured = turn;
    while (turns->written < turn) usleep(kPollUs);
  }
  close_written(file);
}

static const char kUsage[] =
    "usage: mps_dispatch neighbour|chains RUN FOLDER SECONDS\n"
    "Both run at the same time as clients of one MPS server; mps_dispatch.sh starts it and them.\n"
    "  RUN      1 or 2: which of the configurations that README.md describes\n"
    "  FOLDER   an empty folder for neighbour.csv, chains.csv and the file through which both take turns\n"
    "  SECONDS  how long each chain is measured beside each neighbour, 1 at most\n";

int main(int count, char **arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  double seconds = words.size() == 4 ? atof(words[3].c_str()) : 0;
  bool valid = seconds > 0 && seconds <= kMostSeconds;
  valid = valid && (words[0] == "neighbour" || words[0] == "chains") && (words[1] == "1" || words[1] == "2");
  if (!valid) {
    bool help = words.size() == 1 && words[0] == "--help";
    fputs(kUsage, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  // Lines reach a log as they are printed.
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const Run &run = kRuns[words[1] == "2"];
  if (words[0] == "neighbour")
    run_neighbour(run, words[2]);
  else
    run_chains(run, words[2], seconds);
  return 0;
}
