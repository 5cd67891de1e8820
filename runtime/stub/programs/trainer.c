// A best-effort client: endless launches of several kernels.
//   trainer [--iterations N] [--launches N] [--kernels N] [--sync-every N] [--graph 1]
// An iteration is `launches` launches, alternating between the kernels `train0`, `train1`, ... and a copy to the host at its
// end (or, with --graph 1, one graph of them); every `sync-every` iterations (1) the stream is synchronised. Prints
// `iteration I NS` after each, NS on CLOCK_MONOTONIC. Without --iterations it never ends.
#include "cuda_min.h"

int main(int argc, char **argv) {
  long iterations = number(argc, argv, "--iterations", -1), launches = number(argc, argv, "--launches", 20);
  long kernels = number(argc, argv, "--kernels", 4), sync_every = number(argc, argv, "--sync-every", 1);
  long as_graph = number(argc, argv, "--graph", 0);
  if (kernels < 1 || kernels > 64 || sync_every < 1) return 2;
  start();
  CUfunction functions[64];
  for (long i = 0; i < kernels; i++) {
    char image[256], name[16];
    snprintf(name, sizeof name, "train%ld", i);
    snprintf(image, sizeof image, PTX ".visible .entry %s()\n{\n\tret;\n}\n", name);
    functions[i] = load(image, name);
  }
  CUstream stream;
  CUdeviceptr memory;
  CUgraphExec exec = NULL;
  char loss[64];
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc_v2(&memory, sizeof loss));
  if (as_graph) {
    CUgraph graph;
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (long i = 0; i < launches; i++) CHECK(launch(functions[i % kernels], stream));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphDestroy(graph));
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (long iteration = 0; iterations < 0 || iteration < iterations; iteration++) {
    if (as_graph) CHECK(cuGraphLaunch(exec, stream));
    for (long i = 0; !as_graph && i < launches; i++) CHECK(launch(functions[i % kernels], stream));
    CHECK(cuMemcpyDtoHAsync_v2(loss, memory, sizeof loss, stream));
    if ((iteration + 1) % sync_every == 0) CHECK(cuStreamSynchronize(stream));
    printf("iteration %ld %llu\n", iteration, (unsigned long long)now_ns());
  }
  CHECK(cuCtxSynchronize());
  return 0;
}
