// A tool that counts launches: kernels by going on to the next library, graphs by looking the driver up.
#define _GNU_SOURCE
#include <dlfcn.h>

unsigned long tool_kernels, tool_graphs;

int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **params, void **extra) {
    int (*next)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
        dlsym(RTLD_NEXT, "cuLaunchKernel");
    tool_kernels++;
    return next(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

int cuGraphLaunch(void *exec, void *stream) {
    int (*next)(void *, void *) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGraphLaunch");
    tool_graphs++;
    return next(exec, stream);
}
