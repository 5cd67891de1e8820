// One call of every entry point that gives work to the device, found in one of the ways in which programs find them:
//   launches direct|dlsym|dlvsym|default|getproc|getproc_v2
// direct: linked; dlsym, dlvsym: with the handle of libcuda.so.1; default: dlsym(RTLD_DEFAULT); getproc, getproc_v2: through
// cuGetProcAddress of either version, itself found by dlsym. Prints `symbol status` per call, and `total N`. The driver's
// symbols have no versions, so that dlvsym alone finds none: `symbol not found`.
#include "cuda_min.h"

static CUfunction function;
static CUstream stream;
static CUgraphExec exec;
static CUdeviceptr memory;
static char host[4096];

static void nothing(void *data) { (void)data; }

typedef CUresult (*Kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                           void **, void **);
typedef CUresult (*Cooperative)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                void **);

static CUresult kernel(void *f) { return ((Kernel)f)(function, 2, 1, 1, 32, 1, 1, 0, stream, NULL, NULL); }
static CUresult kernel_ex(void *f) {
  CUlaunchConfig config = {{2, 1, 1}, {32, 1, 1}, 0, stream, NULL, 0};
  return ((CUresult(*)(const CUlaunchConfig *, CUfunction, void **, void **))f)(&config, function, NULL, NULL);
}
static CUresult cooperative(void *f) { return ((Cooperative)f)(function, 2, 1, 1, 32, 1, 1, 0, stream, NULL); }
static CUresult multi_device(void *f) {
  CUDA_LAUNCH_PARAMS one = {function, {2, 1, 1}, {32, 1, 1}, 0, stream, NULL};
  return ((CUresult(*)(CUDA_LAUNCH_PARAMS *, unsigned, unsigned))f)(&one, 1, 0);
}
static CUresult graph(void *f) { return ((CUresult(*)(CUgraphExec, CUstream))f)(exec, stream); }
static CUresult host_function(void *f) { return ((CUresult(*)(CUstream, CUhostFn, void *))f)(stream, nothing, NULL); }

// Copies and memsets: addresses as 64-bit numbers, which is how the ABI passes pointers too.
typedef uint64_t u64;
static const u64 half = 2048;
static u64 at_host(void) { return (u64)(uintptr_t)host; }
static CUresult to_device(void *f) { return ((CUresult(*)(u64, u64, u64))f)(memory, at_host(), half); }
static CUresult to_device_async(void *f) {
  return ((CUresult(*)(u64, u64, u64, CUstream))f)(memory, at_host(), half, stream);
}
static CUresult to_host(void *f) { return ((CUresult(*)(u64, u64, u64))f)(at_host(), memory, half); }
static CUresult to_host_async(void *f) {
  return ((CUresult(*)(u64, u64, u64, CUstream))f)(at_host(), memory, half, stream);
}
static CUresult within(void *f) { return ((CUresult(*)(u64, u64, u64))f)(memory, memory + half, half); }
static CUresult within_async(void *f) {
  return ((CUresult(*)(u64, u64, u64, CUstream))f)(memory, memory + half, half, stream);
}
static CUresult peer(void *f) { return ((CUresult(*)(u64, u64, u64, u64, u64))f)(memory, 0, memory + half, 0, half); }
static CUresult peer_async(void *f) {
  return ((CUresult(*)(u64, u64, u64, u64, u64, CUstream))f)(memory, 0, memory + half, 0, half, stream);
}
static CUDA_MEMCPY2D flat(void) {
  CUDA_MEMCPY2D copy = {.width = 16, .height = 4};
  copy.source = (Side2d){.kind = CU_MEMORYTYPE_HOST, .host = host, .pitch = 64};
  copy.target = (Side2d){.kind = CU_MEMORYTYPE_DEVICE, .device = memory, .pitch = 32};
  return copy;
}
static CUDA_MEMCPY3D deep(void) {
  CUDA_MEMCPY3D copy = {.width = 16, .height = 4, .depth = 2};
  copy.source = (Side3d){.kind = CU_MEMORYTYPE_HOST, .host = host, .pitch = 64, .height = 4};
  copy.target = (Side3d){.kind = CU_MEMORYTYPE_DEVICE, .device = memory, .pitch = 32, .height = 4};
  return copy;
}
static CUresult flat_sync(void *f) {
  CUDA_MEMCPY2D copy = flat();
  return ((CUresult(*)(const CUDA_MEMCPY2D *))f)(&copy);
}
static CUresult flat_async(void *f) {
  CUDA_MEMCPY2D copy = flat();
  return ((CUresult(*)(const CUDA_MEMCPY2D *, CUstream))f)(&copy, stream);
}
static CUresult deep_sync(void *f) {
  CUDA_MEMCPY3D copy = deep();
  return ((CUresult(*)(const CUDA_MEMCPY3D *))f)(&copy);
}
static CUresult deep_async(void *f) {
  CUDA_MEMCPY3D copy = deep();
  return ((CUresult(*)(const CUDA_MEMCPY3D *, CUstream))f)(&copy, stream);
}
static CUresult fill(void *f) { return ((CUresult(*)(u64, unsigned, u64))f)(memory, 1, 64); }
static CUresult fill_async(void *f) { return ((CUresult(*)(u64, unsigned, u64, CUstream))f)(memory, 1, 64, stream); }
static CUresult fill_rows(void *f) { return ((CUresult(*)(u64, u64, unsigned, u64, u64))f)(memory, 256, 1, 8, 4); }
static CUresult fill_rows_async(void *f) {
  return ((CUresult(*)(u64, u64, unsigned, u64, u64, CUstream))f)(memory, 256, 1, 8, 4, stream);
}
static CUresult old(void *f) { return ((CUresult(*)(CUfunction))f)(function); }
static CUresult old_grid(void *f) { return ((CUresult(*)(CUfunction, int, int))f)(function, 2, 1); }
static CUresult old_grid_async(void *f) {
  return ((CUresult(*)(CUfunction, int, int, CUstream))f)(function, 2, 1, stream);
}
static CUresult batch_old(void *f) {
  u64 targets[] = {memory, memory + 64}, sources[] = {at_host(), at_host() + 64}, sizes[] = {64, 32}, failed;
  return ((CUresult(*)(u64 *, u64 *, u64 *, u64, void *, void *, u64, u64 *, CUstream))f)(targets, sources, sizes, 2, NULL,
                                                                                          NULL, 0, &failed, stream);
}
static CUresult batch(void *f) {
  u64 targets[] = {memory, memory + 64}, sources[] = {at_host(), at_host() + 64}, sizes[] = {64, 32};
  return ((CUresult(*)(u64 *, u64 *, u64 *, u64, void *, void *, u64, CUstream))f)(targets, sources, sizes, 2, NULL, NULL,
                                                                                   0, stream);
}
static CUresult prefetch_old(void *f) { return ((CUresult(*)(u64, u64, int, CUstream))f)(memory, half, 0, stream); }
static CUresult prefetch(void *f) {
  return ((CUresult(*)(u64, u64, u64, unsigned, CUstream))f)(memory, half, 1, 0, stream);
}

// What callers ask for, the symbol that this is, how to call it, and the version and flags that lead to the symbol.
#define ENTRIES(X) \
  X(cuLaunchKernel, cuLaunchKernel, kernel, 4000, 0) \
  X(cuLaunchKernel, cuLaunchKernel_ptsz, kernel, 7000, 2) \
  X(cuLaunchKernelEx, cuLaunchKernelEx, kernel_ex, 11060, 0) \
  X(cuLaunchKernelEx, cuLaunchKernelEx_ptsz, kernel_ex, 11060, 2) \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, cooperative, 9000, 0) \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel_ptsz, cooperative, 9000, 2) \
  X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, multi_device, 9000, 0) \
  X(cuGraphLaunch, cuGraphLaunch, graph, 10000, 0) \
  X(cuGraphLaunch, cuGraphLaunch_ptsz, graph, 10000, 2) \
  X(cuLaunchHostFunc, cuLaunchHostFunc, host_function, 10000, 0) \
  X(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, host_function, 10000, 2) \
  X(cuMemcpy, cuMemcpy, within, 4000, 0) \
  X(cuMemcpy, cuMemcpy_ptds, within, 7000, 2) \
  X(cuMemcpyAsync, cuMemcpyAsync, within_async, 4000, 0) \
  X(cuMemcpyAsync, cuMemcpyAsync_ptsz, within_async, 7000, 2) \
  X(cuMemcpyHtoD, cuMemcpyHtoD_v2, to_device, 3020, 0) \
  X(cuMemcpyHtoD, cuMemcpyHtoD_v2_ptds, to_device, 7000, 2) \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, to_device_async, 3020, 0) \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2_ptsz, to_device_async, 7000, 2) \
  X(cuMemcpyDtoH, cuMemcpyDtoH_v2, to_host, 3020, 0) \
  X(cuMemcpyDtoH, cuMemcpyDtoH_v2_ptds, to_host, 7000, 2) \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, to_host_async, 3020, 0) \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2_ptsz, to_host_async, 7000, 2) \
  X(cuMemcpyDtoD, cuMemcpyDtoD_v2, within, 3020, 0) \
  X(cuMemcpyDtoD, cuMemcpyDtoD_v2_ptds, within, 7000, 2) \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, within_async, 3020, 0) \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2_ptsz, within_async, 7000, 2) \
  X(cuMemcpyPeer, cuMemcpyPeer, peer, 4000, 0) \
  X(cuMemcpyPeer, cuMemcpyPeer_ptds, peer, 7000, 2) \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, peer_async, 4000, 0) \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, peer_async, 7000, 2) \
  X(cuMemcpy2D, cuMemcpy2D_v2, flat_sync, 3020, 0) \
  X(cuMemcpy2D, cuMemcpy2D_v2_ptds, flat_sync, 7000, 2) \
  X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, flat_sync, 3020, 0) \
  X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2_ptds, flat_sync, 7000, 2) \
  X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, flat_async, 3020, 0) \
  X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2_ptsz, flat_async, 7000, 2) \
  X(cuMemcpy3D, cuMemcpy3D_v2, deep_sync, 3020, 0) \
  X(cuMemcpy3D, cuMemcpy3D_v2_ptds, deep_sync, 7000, 2) \
  X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, deep_async, 3020, 0) \
  X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2_ptsz, deep_async, 7000, 2) \
  X(cuMemcpy3DPeer, cuMemcpy3DPeer, deep_sync, 4000, 0) \
  X(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, deep_sync, 7000, 2) \
  X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, deep_async, 4000, 0) \
  X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, deep_async, 7000, 2) \
  X(cuMemsetD8, cuMemsetD8_v2, fill, 3020, 0) \
  X(cuMemsetD8, cuMemsetD8_v2_ptds, fill, 7000, 2) \
  X(cuMemsetD16, cuMemsetD16_v2, fill, 3020, 0) \
  X(cuMemsetD16, cuMemsetD16_v2_ptds, fill, 7000, 2) \
  X(cuMemsetD32, cuMemsetD32_v2, fill, 3020, 0) \
  X(cuMemsetD32, cuMemsetD32_v2_ptds, fill, 7000, 2) \
  X(cuMemsetD8Async, cuMemsetD8Async, fill_async, 3020, 0) \
  X(cuMemsetD8Async, cuMemsetD8Async_ptsz, fill_async, 7000, 2) \
  X(cuMemsetD16Async, cuMemsetD16Async, fill_async, 3020, 0) \
  X(cuMemsetD16Async, cuMemsetD16Async_ptsz, fill_async, 7000, 2) \
  X(cuMemsetD32Async, cuMemsetD32Async, fill_async, 3020, 0) \
  X(cuMemsetD32Async, cuMemsetD32Async_ptsz, fill_async, 7000, 2) \
  X(cuMemsetD2D8, cuMemsetD2D8_v2, fill_rows, 3020, 0) \
  X(cuMemsetD2D8, cuMemsetD2D8_v2_ptds, fill_rows, 7000, 2) \
  X(cuMemsetD2D16, cuMemsetD2D16_v2, fill_rows, 3020, 0) \
  X(cuMemsetD2D16, cuMemsetD2D16_v2_ptds, fill_rows, 7000, 2) \
  X(cuMemsetD2D32, cuMemsetD2D32_v2, fill_rows, 3020, 0) \
  X(cuMemsetD2D32, cuMemsetD2D32_v2_ptds, fill_rows, 7000, 2) \
  X(cuMemsetD2D8Async, cuMemsetD2D8Async, fill_rows_async, 3020, 0) \
  X(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, fill_rows_async, 7000, 2) \
  X(cuMemsetD2D16Async, cuMemsetD2D16Async, fill_rows_async, 3020, 0) \
  X(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, fill_rows_async, 7000, 2) \
  X(cuMemsetD2D32Async, cuMemsetD2D32Async, fill_rows_async, 3020, 0) \
  X(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, fill_rows_async, 7000, 2) \
  X(cuLaunch, cuLaunch, old, 2000, 0) \
  X(cuLaunchGrid, cuLaunchGrid, old_grid, 2000, 0) \
  X(cuLaunchGridAsync, cuLaunchGridAsync, old_grid_async, 2000, 0) \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, batch_old, 12080, 0) \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, batch_old, 12080, 2) \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, batch, 13000, 0) \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2_ptsz, batch, 13000, 2) \
  X(cuMemPrefetchAsync, cuMemPrefetchAsync, prefetch_old, 8000, 0) \
  X(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz, prefetch_old, 8000, 2) \
  X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, prefetch, 12020, 0) \
  X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2_ptsz, prefetch, 12020, 2)

// Second names for the linked symbols, since some have prototypes in the header.
#define LINKED(name, symbol, call, version, flags) extern void linked_##symbol(void) __asm__(#symbol);
ENTRIES(LINKED)

typedef struct {
  const char *name, *symbol;
  CUresult (*call)(void *);
  int version, flags;
  void *linked;
} Entry;
#define ROW(name, symbol, call, version, flags) {#name, #symbol, call, version, flags, (void *)linked_##symbol},
static const Entry entries[] = {ENTRIES(ROW)};

typedef CUresult (*GetProc)(const char *, void **, int, uint64_t);
typedef CUresult (*GetProc2)(const char *, void **, int, uint64_t, int *);

static void *find(const char *way, void *driver, const Entry *entry) {
  void *address = NULL;
  if (strcmp(way, "direct") == 0) return entry->linked;
  if (strcmp(way, "dlsym") == 0) return dlsym(driver, entry->symbol);
  if (strcmp(way, "dlvsym") == 0) return dlvsym(driver, entry->symbol, "libcuda.so.1");
  if (strcmp(way, "default") == 0) return dlsym(RTLD_DEFAULT, entry->symbol);
  if (strcmp(way, "getproc") == 0) {
    GetProc get = (GetProc)dlsym(driver, "cuGetProcAddress");
    CHECK(get(entry->name, &address, entry->version, (uint64_t)entry->flags));
  } else if (strcmp(way, "getproc_v2") == 0) {
    // As the runtime library does: the first version gives the second, which gives the rest.
    GetProc first = (GetProc)dlsym(driver, "cuGetProcAddress");
    void *second = NULL;
    int status = -1;
    CHECK(first("cuGetProcAddress", &second, 12000, 0));
    CHECK(((GetProc2)second)(entry->name, &address, entry->version, (uint64_t)entry->flags, &status));
    if (status != 0) address = NULL;
  } else {
    fprintf(stderr, "no such way: %s\n", way);
    exit(2);
  }
  return address;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "direct";
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  start();
  function = load(PTX PTX_KERNEL("work"), "work");
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc_v2(&memory, 4096));
  CUgraph captured;
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(launch(function, stream));
  CHECK(cuStreamEndCapture(stream, &captured));
  CHECK(cuGraphInstantiateWithFlags(&exec, captured, 0));
  int failed = 0;
  size_t count = sizeof entries / sizeof *entries;
  for (size_t i = 0; i < count; i++) {
    void *address = find(way, driver, &entries[i]);
    if (!address) {
      printf("%s not found\n", entries[i].symbol);
      failed = 1;
      continue;
    }
    CUresult status = entries[i].call(address);
    printf("%s %d\n", entries[i].symbol, status);
    failed |= status != CUDA_SUCCESS;
  }
  CHECK(cuCtxSynchronize());
  printf("total %zu\n", count);
  return failed;
}
