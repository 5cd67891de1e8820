// Eight threads open the driver, find cuInit and cuLaunchKernel, and call them at once.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t barrier;

static void *run(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit");
    int (*launch)() = dlsym(driver, "cuLaunchKernel");
    if (!init || !launch) return (void *)1;
    if (init(0) || launch(0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)) return (void *)2;
    return 0;
}

int main(void) {
    pthread_t threads[8];
    pthread_barrier_init(&barrier, 0, 8);
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result) return (int)(long)result;
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    unsigned long *calls = dlsym(driver, "stub_init_calls");
    int *nested = dlsym(driver, "stub_nested");
    printf("init %lu nested %d\n", *calls, *nested);
    return 0;
}
