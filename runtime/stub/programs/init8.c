// Gets cuInit by dlopen and dlsym and calls it from 8 threads at once (C01). Prints `ok 8`. Not one symbol of the driver is
// linked against.
#include "cuda_min.h"
#include <pthread.h>

static CUresult (*init)(unsigned);
static pthread_barrier_t barrier;

static void *call(void *data) {
  (void)data;
  pthread_barrier_wait(&barrier);
  return (void *)(intptr_t)init(0);
}

int main(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  init = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
  if (!init) return 1;
  pthread_t threads[8];
  int ok = 0;
  pthread_barrier_init(&barrier, NULL, 8);
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, call, NULL);
  for (int i = 0; i < 8; i++) {
    void *status;
    pthread_join(threads[i], &status);
    ok += status == (void *)CUDA_SUCCESS;
  }
  printf("ok %d\n", ok);
  return ok != 8;
}
