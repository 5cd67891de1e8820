// Launches beside a tool that wraps launches itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include "driver.h"

int cuLaunchKernel();
int cuGraphLaunch();

static unsigned long total(void) {
    unsigned long sum = 0;
    for (int i = 0; i < 512; i++) sum += ((volatile unsigned long *)stub_calls)[i];
    return sum;
}

int main(void) {
    cuLaunchKernel((void *)1, 1, 1, 1, 1, 1, 1, 0, (void *)0, (void **)0, (void **)0);
    if (total() != 1) return 1;
    cuGraphLaunch((void *)1, (void *)0);
    if (total() != 2) return 2;
    int (*found)() = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuLaunchKernel");
    found((void *)1, 1, 1, 1, 1, 1, 1, 0, (void *)0, (void **)0, (void **)0);
    if (total() != 3) return 3;
    return 0;
}
