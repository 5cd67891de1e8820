// Beside a second preloaded library: its RTLD_NEXT must mean behind it, not behind ours.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int cudnnCreate(void);

int main(void) {
    volatile unsigned long *mallocs = dlsym(RTLD_DEFAULT, "second_mallocs");
    volatile unsigned long *creates = dlsym(RTLD_DEFAULT, "second_creates");
    if (!mallocs || !creates) return 1;
    unsigned long before = *mallocs;
    void *volatile block = malloc(10);
    free(block);
    if (*mallocs != before + 1) return 2;
    if (cudnnCreate() != 42 || *creates != 1) return 3;
    // Our own RTLD_NEXT: behind the program.
    if (dlsym(RTLD_NEXT, "cudnnCreate") != dlsym(RTLD_DEFAULT, "cudnnCreate")) return 4;
    return 0;
}
