// A high-priority client: requests of N launches and a wait for their end, pauses between.
//   server [--requests N] [--launches N] [--pause-us N] [--mode ctx|stream|event|query|poll|nosync|memcpy] [--threads N]
//          [--streams N] [--graph 1] [--file PATH]
// Each thread has its own streams and spreads a request's launches over them. How a request is waited for: `ctx`
// cuCtxSynchronize, `stream` cuStreamSynchronize, `event` cuEventSynchronize, `query` cuStreamQuery until it is done, `poll`
// cuEventQuery until it is done, `memcpy` a synchronous copy to the host behind an event on each stream, `nosync` not at all.
// Writes `request THREAD I BEGIN_NS END_NS` to stdout, or to the file.
#include "cuda_min.h"
#include <pthread.h>

enum { MAX_STREAMS = 16, MAX_THREADS = 16 };
static long requests, launches, pause_us, streams_each, as_graph;
static const char *mode;
static CUcontext context;
static CUfunction function;
static FILE *out;

typedef struct {
  CUstream streams[MAX_STREAMS];
  CUevent events[MAX_STREAMS];
  CUgraphExec exec;
  CUdeviceptr memory;
} Worker;

static void wait_for(Worker *worker) {
  char answer[16];
  if (strcmp(mode, "ctx") == 0) {
    CHECK(cuCtxSynchronize());
    return;
  }
  // The default stream waits for blocking streams only, so the copy is put behind all of them by events.
  for (long i = 0; i < streams_each; i++) {
    CUresult status;
    if (strcmp(mode, "stream") == 0) {
      CHECK(cuStreamSynchronize(worker->streams[i]));
    } else if (strcmp(mode, "event") == 0) {
      CHECK(cuEventSynchronize(worker->events[i]));
    } else if (strcmp(mode, "query") == 0) {
      while ((status = cuStreamQuery(worker->streams[i])) == CUDA_ERROR_NOT_READY) sleep_us(50);
      CHECK(status);
    } else if (strcmp(mode, "poll") == 0) {
      while ((status = cuEventQuery(worker->events[i])) == CUDA_ERROR_NOT_READY) sleep_us(50);
      CHECK(status);
    } else if (strcmp(mode, "memcpy") == 0) {
      CHECK(cuStreamWaitEvent(NULL, worker->events[i], 0));
    }
  }
  if (strcmp(mode, "memcpy") == 0) CHECK(cuMemcpyDtoH_v2(answer, worker->memory, sizeof answer));
}

static void *serve(void *data) {
  long thread = (long)(intptr_t)data;
  Worker worker;
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc_v2(&worker.memory, 64));
  for (long i = 0; i < streams_each; i++) {
    CHECK(cuStreamCreateWithPriority(&worker.streams[i], CU_STREAM_NON_BLOCKING, -1));
    CHECK(cuEventCreate(&worker.events[i], CU_EVENT_DISABLE_TIMING));
  }
  if (as_graph) {
    CUgraph graph;
    CHECK(cuStreamBeginCapture_v2(worker.streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (long i = 0; i < launches; i++) CHECK(launch(function, worker.streams[0]));
    CHECK(cuStreamEndCapture(worker.streams[0], &graph));
    CHECK(cuGraphInstantiateWithFlags(&worker.exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
  }
  int with_events = strcmp(mode, "event") == 0 || strcmp(mode, "poll") == 0 || strcmp(mode, "memcpy") == 0;
  for (long request = 0; requests < 0 || request < requests; request++) {
    uint64_t begin = now_ns();
    if (as_graph) CHECK(cuGraphLaunch(worker.exec, worker.streams[0]));
    for (long i = 0; !as_graph && i < launches; i++) CHECK(launch(function, worker.streams[i % streams_each]));
    for (long i = 0; with_events && i < streams_each; i++) CHECK(cuEventRecord(worker.events[i], worker.streams[i]));
    wait_for(&worker);
    fprintf(out, "request %ld %ld %llu %llu\n", thread, request, (unsigned long long)begin,
            (unsigned long long)now_ns());
    if (pause_us > 0) sleep_us((uint64_t)pause_us);
  }
  return NULL;
}

int main(int argc, char **argv) {
  requests = number(argc, argv, "--requests", -1);
  launches = number(argc, argv, "--launches", 10);
  pause_us = number(argc, argv, "--pause-us", 1000);
  streams_each = number(argc, argv, "--streams", 1);
  as_graph = number(argc, argv, "--graph", 0);
  mode = option(argc, argv, "--mode", "stream");
  long threads = number(argc, argv, "--threads", 1);
  const char *path = option(argc, argv, "--file", NULL);
  static const char *const modes[] = {"ctx", "stream", "event", "query", "poll", "nosync", "memcpy"};
  int known = 0;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) known |= strcmp(mode, modes[i]) == 0;
  if (!known || streams_each < 1 || streams_each > MAX_STREAMS || threads < 1 || threads > MAX_THREADS) return 2;
  out = path ? fopen(path, "w") : stdout;
  if (!out) return 1;
  setvbuf(out, NULL, _IOLBF, 0);
  context = start();
  function = load(PTX PTX_KERNEL("serve"), "serve");
  pthread_t handles[MAX_THREADS];
  for (long i = 0; i < threads; i++) pthread_create(&handles[i], NULL, serve, (void *)(intptr_t)i);
  for (long i = 0; i < threads; i++) pthread_join(handles[i], NULL);
  CHECK(cuCtxSynchronize());
  return 0;
}
