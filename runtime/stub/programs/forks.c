// Launches, forks children, launches again (C10): `forks [--children N] [--sleep-ms N] [--use 1] [--exec PROGRAM]`.
// The children sleep; with --use 1 they first try a launch, which the driver refuses in a forked child; with --exec the last
// step replaces the process by the program. Prints `parent STATUS STATUS` and, from each child that tries, `child STATUS`.
#include "cuda_min.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  long children = number(argc, argv, "--children", 4), sleep_ms = number(argc, argv, "--sleep-ms", 200);
  long use = number(argc, argv, "--use", 0);
  const char *next = option(argc, argv, "--exec", NULL);
  start();
  CUfunction function = load(PTX PTX_KERNEL("parent"), "parent");
  CUresult before = launch(function, NULL);
  CHECK(cuCtxSynchronize());
  for (long i = 0; i < children; i++) {
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
      if (use) {
        printf("child %d\n", launch(function, NULL));
        fflush(stdout);
      }
      sleep_us((uint64_t)sleep_ms * 1000);
      _exit(0);
    }
  }
  CUresult after = launch(function, NULL);
  CHECK(cuCtxSynchronize());
  printf("parent %d %d\n", before, after);
  fflush(stdout);
  int status, failed = 0;
  while (wait(&status) > 0) failed |= status != 0;
  if (next) {
    execl(next, next, (char *)NULL);
    return 1;
  }
  return failed || before != CUDA_SUCCESS || after != CUDA_SUCCESS;
}
