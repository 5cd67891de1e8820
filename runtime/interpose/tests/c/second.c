// A second library that is preloaded behind ours: it finds the next malloc, and the next cudnnCreate, from where it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

unsigned long second_mallocs;
unsigned long second_creates;

void *malloc(size_t bytes) {
    static void *(*next)(size_t);
    if (!next) next = dlsym(RTLD_NEXT, "malloc");
    __atomic_add_fetch(&second_mallocs, 1, __ATOMIC_SEQ_CST);
    return next(bytes);
}

// A name that begins like the driver's and is none of them.
int cudnnCreate(void) {
    int (*next)(void) = dlsym(RTLD_NEXT, "cudnnCreate");
    second_creates++;
    return next ? next() + 1 : -1;
}
