// Launches into a capturing stream (C06): `capture [--launches N] [--mode global|thread|relaxed] [--replays N]`, seven
// streams, the last captures. Prints `errors N nodes N replays N`. With STUB_CAPTURE_STRICT=1 whatever somebody else calls
// meanwhile breaks the capture.
#include "cuda_min.h"

int main(int argc, char **argv) {
  long launches = number(argc, argv, "--launches", 1000), replays = number(argc, argv, "--replays", 100);
  const char *text = option(argc, argv, "--mode", "global");
  int mode = strcmp(text, "global") == 0   ? CU_STREAM_CAPTURE_MODE_GLOBAL
             : strcmp(text, "thread") == 0 ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                           : CU_STREAM_CAPTURE_MODE_RELAXED;
  start();
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
  for (long i = 0; i < launches; i++) errors += launch(function, stream) != CUDA_SUCCESS;
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
