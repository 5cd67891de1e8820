// Run with librtldnext.so preloaded: `rtldnext PATH_OF_libcudnn_fake.so`. Opens the library for everybody, allocates, asks for
// cudnnCreate by the library's handle and by RTLD_DEFAULT, and launches. Prints `mallocs N creates N recursions N status S S`.
#include "cuda_min.h"

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  void *cudnn = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (!cudnn) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void (*counts)(int *) = (void (*)(int *))dlsym(RTLD_DEFAULT, "librtldnext_counts");
  if (!counts) return 1;
  start();
  CHECK(launch(load(PTX PTX_KERNEL("work"), "work"), NULL));
  // By its own handle comes the library's, by the default scope the preloaded wrapper, which calls the library's.
  int (*own)(void **) = (int (*)(void **))dlsym(cudnn, "cudnnCreate");
  int (*wrapped)(void **) = (int (*)(void **))dlsym(RTLD_DEFAULT, "cudnnCreate");
  void *handle = NULL;
  if (!own || !wrapped) return 1;
  int first = own(&handle), second = wrapped(&handle);
  void *volatile block = malloc(100);
  free(block);
  int seen[3];
  counts(seen);
  printf("mallocs %d creates %d recursions %d status %d %d\n", seen[0] > 0, seen[1], seen[2], first, second);
  return 0;
}
