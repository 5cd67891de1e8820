// Launches into a capturing stream (C06): `capture [--launches N] [--mode global|thread|relaxed] [--replays N]
// [--intrude query|alloc|sync] [--relaxed 1]`, seven streams, the last captures. Prints `errors N nodes N replays N`. With
// --intrude another thread makes one call of that kind half-way and prints `intruder STATUS`, with --relaxed 1 in relaxed
// capture mode: with STUB_CAPTURE_STRICT=1 it breaks the capture without.
#include "cuda_min.h"
#include <pthread.h>

static CUcontext context;
static CUevent event;
static const char *intrusion;
static int relaxed;

static void *intrude(void *data) {
  CUdeviceptr memory;
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuCtxSetCurrent(context));
  if (relaxed) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  CUresult status = strcmp(intrusion, "query") == 0   ? cuEventQuery(event)
                    : strcmp(intrusion, "alloc") == 0 ? cuMemAlloc_v2(&memory, 64)
                                                      : cuCtxSynchronize();
  printf("intruder %d\n", status);
  return data;
}

int main(int argc, char **argv) {
  long launches = number(argc, argv, "--launches", 1000), replays = number(argc, argv, "--replays", 100);
  const char *text = option(argc, argv, "--mode", "global");
  int mode = strcmp(text, "global") == 0   ? CU_STREAM_CAPTURE_MODE_GLOBAL
             : strcmp(text, "thread") == 0 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                           : CU_STREAM_CAPTURE_MODE_RELAXED;
  intrusion = option(argc, argv, "--intrude", NULL);
  relaxed = (int)number(argc, argv, "--relaxed", 0);
  context = start();
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUfunction function = load(PTX PTX_KERNEL("captured"), "captured");
  CUstream streams[7];
  for (int i = 0; i < 7; i++) {
    CHECK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CHECK(launch(function, streams[i]));
  }
  CHECK(cuCtxSynchronize());
  CUstream stream = streams[6];
  CUgraph graph = NULL;
  CUgraphExec exec;
  long errors = 0, replayed = 0;
  size_t nodes = 0;
  CHECK(cuStreamBeginCapture_v2(stream, mode));
  for (long i = 0; i < launches; i++) {
    if (intrusion && i == launches / 2) {
      pthread_t thread;
      pthread_create(&thread, NULL, intrude, NULL);
      pthread_join(thread, NULL);
    }
    errors += launch(function, stream) != CUDA_SUCCESS;
  }
  errors += cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS;
  if (graph) {
    CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (; replayed < replays; replayed++) errors += cuGraphLaunch(exec, stream) != CUDA_SUCCESS;
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
  }
  printf("errors %ld nodes %zu replays %ld\n", errors, nodes, replayed);
  return errors != 0;
}
