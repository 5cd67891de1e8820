// Repeats a recorded sequence of calls: `replay FILE [--times N]`; sequences/README.md describes the file.
//
// Each recorded thread is a thread here, and the calls come in the file's order. What existed before the recording (streams,
// events, kernels, graphs) is made first. Addresses are scratch memory; sizes are cut at 16 MiB. Prints
// `calls N skipped N differences N`: skipped are entry points that the table below lacks, differences are results other than
// recorded (a query may be done earlier or later) and capture states other than recorded.
#include "cuda_min.h"
#include <ctype.h>
#include <pthread.h>

enum { MAX_LINES = 100000, MAX_IDS = 4096, MAX_THREADS = 64, SCRATCH = 16 << 20 };
typedef uint64_t u64;
typedef u64 (*Call)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);

// Letters, one per argument: s stream, v event, n bytes, i integer, p address, S E P G new stream, event, graph, executable
// graph, g graph, x executable graph, K kernel, 3 three integers, o scratch to write to, I the same, its value recorded,
// h host memory, M N new device, host memory, D H its release, 2 4 description of a copy, C launch configuration and kernel,
// f a host function and its data, c a callback, its data and flags, m a capture mode, B a library's image, L a library's
// kernel, F a kernel's function.
static const char *const table[][2] = {
    {"cuLaunchKernel", "K33is"}, {"cuLaunchKernelEx", "C"}, {"cuLaunchCooperativeKernel", "K33is"},
    {"cuGraphLaunch", "xs"}, {"cuGraphUpload", "xs"}, {"cuLaunchHostFunc", "sf"}, {"cuStreamAddCallback", "sc"},
    {"cuGraphInstantiate", "Gg"}, {"cuGraphInstantiate_v2", "Gg"}, {"cuGraphInstantiateWithFlags", "Ggi"},
    {"cuGraphInstantiateWithParams", "Ggo"}, {"cuGraphExecDestroy", "x"}, {"cuGraphDestroy", "g"},
    {"cuStreamBeginCapture_v2", "si"}, {"cuStreamEndCapture", "sP"}, {"cuStreamIsCapturing", "sI"},
    {"cuStreamGetCaptureInfo", "sI"}, {"cuStreamGetCaptureInfo_v2", "sI"}, {"cuStreamGetCaptureInfo_v3", "sI"},
    {"cuThreadExchangeStreamCaptureMode", "m"}, {"cuStreamCreate", "Si"}, {"cuStreamCreateWithPriority", "Sii"},
    {"cuStreamDestroy_v2", "s"}, {"cuStreamQuery", "s"}, {"cuStreamSynchronize", "s"}, {"cuStreamWaitEvent", "svi"},
    {"cuStreamGetFlags", "so"}, {"cuStreamGetPriority", "so"}, {"cuStreamGetId", "so"}, {"cuEventCreate", "Ei"},
    {"cuEventRecord", "vs"}, {"cuEventRecordWithFlags", "vsi"}, {"cuEventQuery", "v"}, {"cuEventSynchronize", "v"},
    {"cuEventDestroy_v2", "v"}, {"cuEventElapsedTime", "ovv"}, {"cuEventElapsedTime_v2", "ovv"}, {"cuCtxSynchronize", ""},
    {"cuCtxSynchronize_v2", ""}, {"cuMemcpyAsync", "ppns"}, {"cuMemcpyHtoDAsync_v2", "ppns"},
    {"cuMemcpyDtoHAsync_v2", "ppns"}, {"cuMemcpyDtoDAsync_v2", "ppns"}, {"cuMemcpy", "ppn"}, {"cuMemcpyHtoD_v2", "ppn"},
    {"cuMemcpyDtoH_v2", "ppn"}, {"cuMemcpyDtoD_v2", "ppn"}, {"cuMemcpy2DAsync_v2", "2s"}, {"cuMemcpy3DAsync_v2", "4s"},
    {"cuMemcpy2D_v2", "2"}, {"cuMemcpy2DUnaligned_v2", "2"}, {"cuMemsetD8Async", "pins"}, {"cuMemsetD16Async", "pins"},
    {"cuMemsetD32Async", "pins"}, {"cuMemsetD8_v2", "pin"}, {"cuMemsetD32_v2", "pin"}, {"cuMemAlloc_v2", "Mn"},
    {"cuMemFree_v2", "D"}, {"cuMemAllocAsync", "Mns"}, {"cuMemFreeAsync", "Ds"}, {"cuMemHostAlloc", "Nni"},
    {"cuMemFreeHost", "H"}, {"cuMemHostRegister_v2", "hni"}, {"cuMemHostUnregister", "h"},
    {"cuLibraryLoadData", "B"}, {"cuLibraryGetKernel", "L"}, {"cuKernelGetFunction", "F"},
};

static char *lines[MAX_LINES];
static int owners[MAX_LINES], line_count, thread_count, times, turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long calls, skipped, differences;
static CUcontext context;
static CUfunction functions[MAX_IDS], kernels[MAX_IDS];
static void *streams[MAX_IDS], *events[MAX_IDS], *graphs[MAX_IDS], *execs[MAX_IDS];
static u64 device_memory[MAX_IDS], host_memory[MAX_IDS];
static int device_count, host_count;
static CUdeviceptr device;
static char *host, scratch[256];

// The value of the next ` key=` from *at on, which moves behind it; null if there is none.
static const char *value(const char **at, const char *key) {
  size_t length = strlen(key);
  for (const char *word = *at; (word = strchr(word, ' ')); word++)
    if (strncmp(word + 1, key, length) == 0 && word[1 + length] == '=') {
      *at = word + 1 + length;
      return *at + 1;
    }
  return NULL;
}
static long integer(const char **at, const char *key) {
  const char *text = value(at, key);
  return text ? strtol(text, NULL, 10) : 0;
}
static int id(const char **at, const char *key) {
  long number = integer(at, key);
  return number > 0 && number < MAX_IDS ? (int)number : 0;
}

// Kernels and functions by number: names, the library of a kernel, the kernel that a function is of.
static char names[2][MAX_IDS][128];
static CUlibrary libraries[MAX_IDS];
static int kernel_of[MAX_IDS];

static const char *name_of(char kind, int number) {
  const char *name = names[kind == 'k'][number];
  return *name ? name : "unnamed";
}
static CUfunction make_kernel(char kind, int number) {
  CUfunction *known = (kind == 'k' ? kernels : functions) + number;
  if (*known) return *known;
  char image[512];
  snprintf(image, sizeof image, PTX ".visible .entry %s()\n{\n\tret;\n}\n", name_of(kind, number));
  if (kind == 'k') {
    CHECK(cuLibraryLoadData(&libraries[number], image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel((CUkernel *)known, libraries[number], name_of(kind, number)));
  } else if (kernel_of[number]) {
    CHECK(cuKernelGetFunction(known, (CUkernel)make_kernel('k', kernel_of[number])));
  } else {
    *known = load(image, name_of(kind, number));
  }
  return *known;
}
// A line `kernel k1 NAME`; `-` is one without a name. What a name may not have in PTX becomes `_`.
static int named(const char *text) {
  char kind, name[128];
  int number;
  if (sscanf(text, "%*[a-z] %c%d %127s", &kind, &number, name) != 3 || number <= 0 || number >= MAX_IDS) return 0;
  if (!strchr("kfu", kind)) return 0;
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_' && *c != '$') *c = '_';
  if (strcmp(name, "_") != 0) strcpy(names[kind == 'k'][number], name);
  return 1;
}
static u64 kernel(const char **at) {
  const char *text = value(at, "kernel");
  if (!text) return 0;
  int number = atoi(text + 1);
  return number > 0 && number < MAX_IDS ? (u64)(uintptr_t)make_kernel(*text, number) : 0;
}
static u64 stream(const char **at) {
  const char *text = value(at, "stream");
  if (!text || strncmp(text, "0 ", 2) == 0) return 0;
  if (strncmp(text, "legacy", 6) == 0) return 1;
  if (strncmp(text, "thread", 6) == 0) return 2;
  long number = strtol(text, NULL, 10);
  if (number <= 0 || number >= MAX_IDS) return 0;
  if (!streams[number]) CHECK(cuStreamCreate((CUstream *)&streams[number], CU_STREAM_NON_BLOCKING));
  return (u64)(uintptr_t)streams[number];
}
static u64 event(const char **at) {
  int number = id(at, "event");
  if (!events[number]) CHECK(cuEventCreate((CUevent *)&events[number], CU_EVENT_DISABLE_TIMING));
  return (u64)(uintptr_t)events[number];
}
// A graph that was instantiated before the recording: one kernel.
static u64 exec(const char **at) {
  int number = id(at, "exec");
  if (!execs[number]) {
    CUstream on;
    CUgraph graph;
    CHECK(cuStreamCreate(&on, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(on, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(launch(make_kernel('f', MAX_IDS - 1), on));
    CHECK(cuStreamEndCapture(on, &graph));
    CHECK(cuGraphInstantiateWithFlags((CUgraphExec *)&execs[number], graph, 0));
  }
  return (u64)(uintptr_t)execs[number];
}

// The mode that an exchange set is what the thread's next exchange got.
static int mode_after(int line) {
  for (int i = line + 1; i < line_count; i++)
    if (owners[i] == owners[line] && strstr(lines[i], "cuThreadExchangeStreamCaptureMode")) {
      const char *at = lines[i];
      return (int)integer(&at, "got");
    }
  return CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static void nothing(void *data) { (void)data; }
static void nothing_more(CUstream on, CUresult status, void *data) { (void)on, (void)status, (void)data; }
static u64 put(void *address) { return (u64)(uintptr_t)address; }

static void configure(const char **at, CUlaunchConfig *config, CUlaunchAttribute *attributes, unsigned room) {
  unsigned *to[] = {config->grid, config->block};
  const char *keys[] = {"grid", "block"};
  for (int i = 0; i < 2; i++) {
    const char *text = value(at, keys[i]);
    if (text) sscanf(text, "%u,%u,%u", &to[i][0], &to[i][1], &to[i][2]);
  }
  config->shared = (unsigned)integer(at, "shared");
  config->stream = (CUstream)(uintptr_t)stream(at);
  const char *text = value(at, "attributes");
  char *next = NULL;
  unsigned count = text ? (unsigned)strtoul(text, &next, 10) : 0;
  for (unsigned i = 0; i < count && i < room && (*next == '=' || *next == ','); i++) {
    attributes[i].id = (int)strtol(next + 1, &next, 10);
    attributes[i].value.cluster[0] = (unsigned)strtoul(next + 1, &next, 10);
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      attributes[i].value.cluster[1] = attributes[i].value.cluster[2] = 1;
    config->count = i + 1;
  }
  config->attributes = config->count ? attributes : NULL;
}

static void repeat(int line) {
  char name[96], base[96];
  const char *text = lines[line], *letters = NULL, *at = text, *got = NULL;
  u64 a[12] = {0};
  u64 expected = 0;
  int n = 0, mode = 0;
  unsigned status = 0;
  void **made = NULL, *fresh = NULL;
  CUlaunchConfig config = {.shared = 0};
  CUlaunchAttribute attributes[8];
  memset(attributes, 0, sizeof attributes);
  CUDA_MEMCPY2D flat = {.width = 64, .height = 4, .source = {.kind = 1, .host = host, .pitch = 64}};
  CUDA_MEMCPY3D deep = {.width = 64, .height = 4, .depth = 1, .source = {.kind = 1, .host = host, .pitch = 64, .height = 4}};
  flat.target = (Side2d){.kind = 2, .device = device, .pitch = 64};
  deep.target = (Side3d){.kind = 2, .device = device, .pitch = 64, .height = 4};
  void *extra[] = {NULL};
  if (sscanf(text, "t%*d %95s", name) != 1) return;
  strcpy(base, name);
  char *suffix = strstr(base, "_ptsz") ? strstr(base, "_ptsz") : strstr(base, "_ptds");
  if (suffix) *suffix = 0;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i][0], base) == 0) letters = table[i][1];
  Call call = letters ? (Call)dlsym(RTLD_DEFAULT, name) : NULL;
  if (!call) {
    skipped++;
    return;
  }
  for (const char *letter = letters; *letter; letter++) switch (*letter) {
      case 's': a[n++] = stream(&at); break;
      case 'v': a[n++] = event(&at); break;
      case 'n': {
        // Of a memset it is the number of elements, which have four bytes at most.
        u64 most = strstr(base, "Memset") ? SCRATCH / 4 : SCRATCH;
        a[n] = (u64)integer(&at, "bytes");
        if (a[n] > most) a[n] = most;
        n++;
        break;
      }
      case 'i': a[n++] = (u64)integer(&at, strstr(base, "Launch") ? "shared" : "value"); break;
      case 'p': {
        const char *kind = value(&at, n == 0 ? "to" : "from");
        a[n] = !kind ? device : strncmp(kind, "device", 6) == 0 ? device : put(host);
        n++;
        break;
      }
      case 'S': made = &streams[id(&at, "stream")]; a[n++] = put(&fresh); break;
      case 'E': made = &events[id(&at, "event")]; a[n++] = put(&fresh); break;
      case 'P': made = &graphs[id(&at, "graph")]; a[n++] = put(&fresh); break;
      case 'G': made = &execs[id(&at, "exec")]; a[n++] = put(&fresh); break;
      case 'g': a[n++] = put(graphs[id(&at, "graph")]); break;
      case 'x': a[n++] = exec(&at); break;
      case 'K': a[n++] = kernel(&at); break;
      case '3': {
        unsigned d[3] = {1, 1, 1};
        const char *dimensions = value(&at, n == 1 ? "grid" : "block");
        if (dimensions) sscanf(dimensions, "%u,%u,%u", &d[0], &d[1], &d[2]);
        for (int i = 0; i < 3; i++) a[n++] = d[i];
        break;
      }
      case 'o': a[n++] = put(scratch); break;
      case 'I': got = value(&at, "got"); a[n++] = put(&status); break;
      case 'h': a[n++] = put(host); break;
      case 'M': a[n++] = put(&device_memory[device_count % MAX_IDS]); device_count++; break;
      case 'N': a[n++] = put(&host_memory[host_count % MAX_IDS]); host_count++; break;
      case 'D': a[n++] = device_count > 0 ? device_memory[--device_count % MAX_IDS] : 0; break;
      case 'H': a[n++] = host_count > 0 ? host_memory[--host_count % MAX_IDS] : 0; break;
      case '2': a[n++] = put(&flat); break;
      case '4': a[n++] = put(&deep); break;
      case 'f': a[n++] = (u64)(uintptr_t)nothing; n++; break;
      case 'c': a[n++] = (u64)(uintptr_t)nothing_more; n += 2; break;
      case 'm': mode = mode_after(line); a[n++] = put(&mode); break;
      case 'B': a[n++] = put(&fresh); a[n++] = put(PTX PTX_KERNEL("unused")); n = 8; break;
      case 'L': {
        u64 found = kernel(&at);
        for (int i = 0; i < MAX_IDS; i++)
          if (found && kernels[i] == (CUfunction)(uintptr_t)found) a[1] = put(libraries[i]), a[2] = put((void *)name_of('k', i));
        a[0] = put(&fresh);
        expected = found;
        break;
      }
      case 'F': {
        a[1] = kernel(&at);
        a[0] = put(&fresh);
        int number = value(&at, "function") ? atoi(at + 2) : 0;
        expected = number > 0 && number < MAX_IDS ? put(functions[number]) : 0;
        break;
      }
      case 'C':
        a[1] = kernel(&at);
        configure(&at, &config, attributes, 8);
        a[0] = put(&config);
        if (integer(&at, "extra")) a[3] = put(extra);
        n = 4;
        break;
    }
  if (strcmp(base, "cuLaunchKernel") == 0 && integer(&at, "extra")) a[10] = put(extra);
  CUresult result = (CUresult)call(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
  if (made) *made = result == CUDA_SUCCESS ? fresh : NULL;
  calls++;
  at = text;
  CUresult recorded = (CUresult)integer(&at, "result");
  int query = strstr(base, "Query") && result % 600 == 0 && recorded % 600 == 0;
  if ((result != recorded && !query) || (expected && put(fresh) != expected) || (got && status != (unsigned)strtoul(got, NULL, 10))) {
    differences++;
    fprintf(stderr, "line `%s`: %d, state %u\n", text, result, status);
  }
}

static void *run(void *data) {
  int self = (int)(intptr_t)data;
  CHECK(cuCtxSetCurrent(context));
  for (int i = 0; i < line_count * times; i++) {
    if (owners[i % line_count] != self) continue;
    pthread_mutex_lock(&lock);
    while (turn != i) pthread_cond_wait(&turned, &lock);
    pthread_mutex_unlock(&lock);
    repeat(i % line_count);
    pthread_mutex_lock(&lock);
    turn++;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

int main(int argc, char **argv) {
  FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
  if (!file) return 2;
  times = (int)number(argc, argv, "--times", 1);
  context = start();
  CHECK(cuMemAlloc_v2(&device, SCRATCH));
  host = calloc(1, SCRATCH);
  char *text = NULL;
  size_t room = 0;
  for (ssize_t length; (length = getline(&text, &room, file)) > 0;) {
    if (text[length - 1] == '\n') text[length - 1] = 0;
    int thread, offset = 0;
    const char *at = text;
    if (named(text)) {
    } else if (sscanf(text, "t%d %n", &thread, &offset) == 1 && thread >= 0 && thread < MAX_THREADS) {
      if (line_count == MAX_LINES) return 3;
      // What a new handle doesn't name existed before, and must not be made during a capture.
      int creates = strstr(text, "Create") != NULL;
      if (!creates) stream(&at);
      for (at = text; !creates && value(&at, "event");) {
        const char *from = at - strlen(" event");
        event(&from);
      }
      if (strstr(text, "cuKernelGetFunction")) {
        const char *of = text, *made = text;
        int kernel_number = value(&of, "kernel") ? atoi(of + 2) : 0, function = value(&made, "function") ? atoi(made + 2) : 0;
        if (kernel_number > 0 && kernel_number < MAX_IDS && function > 0 && function < MAX_IDS) {
          kernel_of[function] = kernel_number;
          // The recording has a name only for what was launched.
          if (!*names[1][kernel_number]) strcpy(names[1][kernel_number], name_of('f', function));
        }
      }
      owners[line_count] = thread;
      lines[line_count++] = strdup(text);
      if (thread >= thread_count) thread_count = thread + 1;
    }
  }
  for (int i = 1; i < MAX_IDS; i++) {
    if (*names[1][i]) make_kernel('k', i);
    if (*names[0][i] || kernel_of[i]) make_kernel('f', i);
  }
  pthread_t threads[MAX_THREADS];
  for (int i = 0; i < thread_count; i++) pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
  for (int i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
  CHECK(cuCtxSynchronize());
  printf("calls %ld skipped %ld differences %ld\n", calls, skipped, differences);
  return differences != 0;
}
