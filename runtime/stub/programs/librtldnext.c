// A second preloaded library: it wraps malloc, and cudnnCreate, which is no name of the driver although it starts with `cu`.
// Both find the next definition by RTLD_NEXT, which is relative to the caller: if somebody else's dlsym asks in our place, it
// finds the wrong one, in the worst case this one again (C02).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static _Thread_local int depth;
static int mallocs, creates, recursions;

void *malloc(size_t bytes) {
  static void *(*next)(size_t);
  if (!next) next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
  __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
  return next(bytes);
}

int cudnnCreate(void **handle) {
  int (*next)(void **) = (int (*)(void **))dlsym(RTLD_NEXT, "cudnnCreate");
  if (depth++ > 0 || next == cudnnCreate) {
    recursions++;
    return -1;
  }
  creates++;
  int status = next ? next(handle) : -2;
  depth--;
  return status;
}

// What the program reads.
void librtldnext_counts(int *out) {
  out[0] = mallocs;
  out[1] = creates;
  out[2] = recursions;
}
