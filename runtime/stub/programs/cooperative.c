// A cooperative grid at exactly the occupancy limit, and one block above (C12). Prints `limit N`, `at STATUS`,
// `above STATUS`.
#include "cuda_min.h"

int main(void) {
  start();
  CUfunction function = load(PTX PTX_KERNEL("barrier"), "barrier");
  int blocks, multiprocessors;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 0));
  CHECK(cuDeviceGetAttribute(&multiprocessors, 16, 0));
  unsigned limit = (unsigned)(blocks * multiprocessors);
  printf("limit %u\n", limit);
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  printf("at %d\n", cuLaunchCooperativeKernel(function, limit, 1, 1, 256, 1, 1, 0, stream, NULL));
  printf("above %d\n", cuLaunchCooperativeKernel(function, limit + 1, 1, 1, 256, 1, 1, 0, stream, NULL));
  CHECK(cuStreamSynchronize(stream));
  return 0;
}
