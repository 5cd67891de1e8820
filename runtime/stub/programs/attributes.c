// One cuLaunchKernelEx with three attributes (C05): cluster 2x1x1, programmatic stream serialisation, priority -1. The
// unused bytes of the attributes are a pattern, so that a copy which loses them shows. Prints the array in hexadecimal.
#include "cuda_min.h"

int main(void) {
  start();
  CUfunction function = load(PTX PTX_KERNEL("clustered"), "clustered");
  CUlaunchAttribute attributes[3];
  for (size_t i = 0; i < sizeof attributes; i++) ((unsigned char *)attributes)[i] = (unsigned char)(i * 7 + 1);
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attributes[0].value.cluster[0] = 2;
  attributes[0].value.cluster[1] = 1;
  attributes[0].value.cluster[2] = 1;
  attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attributes[1].value.number = 1;
  attributes[2].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  attributes[2].value.number = -1;
  CUlaunchConfig config = {{4, 1, 1}, {64, 1, 1}, 128, NULL, attributes, 3};
  CHECK(cuLaunchKernelEx(&config, function, NULL, NULL));
  CHECK(cuCtxSynchronize());
  for (size_t i = 0; i < sizeof attributes; i++) printf("%02x", ((unsigned char *)attributes)[i]);
  printf("\n");
  return 0;
}
