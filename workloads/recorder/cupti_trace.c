// Device activity trace and launch survey of the calling process, through CUPTI.
//
// Two independent parts, both driven from Python through ctypes:
//   trace_*   every kernel, copy and fill with device times, and the launch
//             calls with host times; dumped as one CSV.
//   survey_*  every distinct (function, block size, dynamic shared memory)
//             that is launched, with the driver's own attributes and its own
//             occupancy answer.
//
// Nothing is linked: the symbols of libcupti and libcuda are found in the
// copies that the process has loaded already, so that the traced framework and
// this library never use two different CUPTI versions. KERNEL_RECORD,
// MEMCPY_RECORD and MEMSET_RECORD are given by the build from the header at
// hand, as CUPTI renames them from release to release.

#include <cuda.h>
#include <cupti.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 8 << 20, NAME_SLOTS = 1 << 14, SURVEY_MAX = 1 << 14 };

typedef struct {
  char kind;  // K kernel, C copy, S fill, A host call
  uint64_t start, end, node, bytes;
  uint32_t correlation, stream, grid[3], block[3], registers, copy_kind, cluster;
  int32_t smem_static, smem_dynamic;
  const char *name;
} Row;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Row *rows;
static size_t row_count, row_capacity, lost;
static char *names[NAME_SLOTS];
static int last_error;

static int check(CUptiResult result, const char *what) {
  if (result == CUPTI_SUCCESS) return 0;
  const char *text = "?";
  cuptiGetResultString(result, &text);
  fprintf(stderr, "cupti: %s: %s\n", what, text);
  last_error = (int)result;
  return 1;
}

// Records point at names that live only as long as their module, so each name
// is kept once. A full table yields "?" rather than a wrong name.
static const char *keep_name(const char *name) {
  if (!name) return "?";
  uint64_t hash = 1469598103934665603u;
  for (const char *c = name; *c; c++) hash = (hash ^ (uint8_t)*c) * 1099511628211u;
  for (size_t probe = 0; probe < NAME_SLOTS; probe++) {
    char **slot = &names[(hash + probe) % NAME_SLOTS];
    if (!*slot) return *slot = strdup(name);
    if (!strcmp(*slot, name)) return *slot;
  }
  return "?";
}

static Row *add_row(void) {
  if (row_count == row_capacity) {
    size_t wanted = row_capacity ? row_capacity * 2 : 1 << 16;
    Row *grown = realloc(rows, wanted * sizeof *rows);
    if (!grown) {
      lost++;
      return NULL;
    }
    rows = grown;
    row_capacity = wanted;
  }
  return memset(&rows[row_count++], 0, sizeof *rows);
}

// Only calls that put work on the device (or wait for it) are kept. The filter is
// here, as switching single calls on in CUPTI 13.0 yielded no record of any call.
static int is_wanted(int driver, uint32_t id, const char *name) {
  static const char *const prefixes[] = {
      "cudaLaunch",  "cudaGraphLaunch",       "cudaMemcpy",            "cudaMemset",
      "cuLaunch",    "cuGraphLaunch",         "cuMemcpy",              "cuMemset",
      "cudaDeviceSynchronize", "cudaStreamSynchronize"};
  enum { IDS = 4096 };
  static signed char known[2][IDS];  // 0 not yet asked, 1 wanted, -1 not
  if (!name || id >= IDS) return 0;
  signed char *answer = &known[driver][id];
  for (size_t i = 0; !*answer && i < sizeof prefixes / sizeof *prefixes; i++)
    if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) *answer = 1;
  if (!*answer) *answer = -1;
  return *answer > 0;
}

static void take_record(const CUpti_Activity *record) {
  Row *row;
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const KERNEL_RECORD *k = (const KERNEL_RECORD *)record;
      if (!(row = add_row())) return;
      *row = (Row){.kind = 'K', .start = k->start, .end = k->end, .node = k->graphNodeId,
                   .correlation = k->correlationId, .stream = k->streamId,
                   .grid = {k->gridX, k->gridY, k->gridZ},
                   .block = {k->blockX, k->blockY, k->blockZ},
                   .registers = k->registersPerThread,
                   .cluster = k->clusterX * k->clusterY * k->clusterZ,
                   .smem_static = k->staticSharedMemory,
                   .smem_dynamic = k->dynamicSharedMemory, .name = keep_name(k->name)};
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const MEMCPY_RECORD *c = (const MEMCPY_RECORD *)record;
      if (!(row = add_row())) return;
      *row = (Row){.kind = 'C', .start = c->start, .end = c->end, .node = c->graphNodeId,
                   .bytes = c->bytes, .correlation = c->correlationId, .stream = c->streamId,
                   .copy_kind = c->copyKind, .name = "memcpy"};
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const MEMSET_RECORD *s = (const MEMSET_RECORD *)record;
      if (!(row = add_row())) return;
      *row = (Row){.kind = 'S', .start = s->start, .end = s->end, .node = s->graphNodeId,
                   .bytes = s->bytes, .correlation = s->correlationId, .stream = s->streamId,
                   .name = "memset"};
      return;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const CUpti_ActivityAPI *a = (const CUpti_ActivityAPI *)record;
      int driver = record->kind == CUPTI_ACTIVITY_KIND_DRIVER;
      const char *name = NULL;
      cuptiGetCallbackName(driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API,
                           a->cbid, &name);
      if (!is_wanted(driver, a->cbid, name)) return;
      if (!(row = add_row())) return;
      *row = (Row){.kind = 'A', .start = a->start, .end = a->end,
                   .correlation = a->correlationId, .stream = a->threadId,
                   .copy_kind = (uint32_t)driver, .name = keep_name(name)};
      return;
    }
    default:
      return;
  }
}

static void CUPTIAPI buffer_wanted(uint8_t **buffer, size_t *size, size_t *max_records) {
  *buffer = aligned_alloc(64, BUFFER_BYTES);
  *size = *buffer ? BUFFER_BYTES : 0;
  *max_records = 0;
}

static void CUPTIAPI buffer_full(CUcontext context, uint32_t stream, uint8_t *buffer,
                                 size_t size, size_t valid) {
  (void)size;
  CUpti_Activity *record = NULL;
  pthread_mutex_lock(&lock);
  while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    take_record(record);
  size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
    lost += dropped;
  pthread_mutex_unlock(&lock);
  free(buffer);
}

int trace_start(void) {
  static int registered;
  last_error = 0;
  if (!registered && check(cuptiActivityRegisterCallbacks(buffer_wanted, buffer_full), "register"))
    return last_error;
  registered = 1;
  check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "enable kernels");
  check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY), "enable copies");
  check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET), "enable fills");
  check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME), "enable runtime calls");
  check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER), "enable driver calls");
  return last_error;
}

int trace_stop(void) {
  last_error = 0;
  check(cuptiActivityFlushAll(0), "flush");
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_DRIVER);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMSET);
  check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "forced flush");
  return last_error;
}

uint64_t trace_now(void) {
  uint64_t now = 0;
  cuptiGetTimestamp(&now);
  return now;
}

uint64_t trace_lost(void) { return lost; }

// Returns the number of rows written, or -1. Names come last: they hold no line
// break, but nothing promises that they hold no comma.
long trace_dump(const char *path) {
  FILE *out = fopen(path, "w");
  if (!out) return -1;
  fprintf(out, "record,start,end,correlation,stream,node,bytes,copy_kind,gx,gy,gz,bx,by,bz,regs,"
               "smem_static,smem_dynamic,cluster,name\n");
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < row_count; i++) {
    const Row *r = &rows[i];
    fprintf(out, "%c,%llu,%llu,%u,%u,%llu,%llu,%u,%u,%u,%u,%u,%u,%u,%u,%d,%d,%u,%s\n", r->kind,
            (unsigned long long)r->start, (unsigned long long)r->end, r->correlation, r->stream,
            (unsigned long long)r->node, (unsigned long long)r->bytes, r->copy_kind, r->grid[0],
            r->grid[1], r->grid[2], r->block[0], r->block[1], r->block[2], r->registers,
            r->smem_static, r->smem_dynamic, r->cluster, r->name);
  }
  long written = (long)row_count;
  row_count = 0;
  pthread_mutex_unlock(&lock);
  return fclose(out) ? -1 : written;
}

typedef struct {
  CUfunction function;
  uint32_t threads, smem_dynamic;
  const char *name;
} Launch;

static Launch launches[SURVEY_MAX];
static size_t launch_count;
static CUpti_SubscriberHandle subscriber;

static void note_launch(CUfunction function, uint32_t threads, uint32_t smem, const char *name) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < launch_count; i++)
    if (launches[i].function == function && launches[i].threads == threads &&
        launches[i].smem_dynamic == smem) {
      pthread_mutex_unlock(&lock);
      return;
    }
  if (launch_count < SURVEY_MAX)
    launches[launch_count++] = (Launch){function, threads, smem, keep_name(name)};
  pthread_mutex_unlock(&lock);
}

static void CUPTIAPI on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                             const void *data) {
  (void)unused;
  const CUpti_CallbackData *call = data;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || call->callbackSite != CUPTI_API_ENTER) return;
  if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel ||
      id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz) {
    const cuLaunchKernel_params *p = call->functionParams;
    note_launch(p->f, p->blockDimX * p->blockDimY * p->blockDimZ, p->sharedMemBytes,
                call->symbolName);
  } else if (id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ||
             id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz) {
    const cuLaunchKernelEx_params *p = call->functionParams;
    const CUlaunchConfig *c = p->config;
    note_launch(p->f, c->blockDimX * c->blockDimY * c->blockDimZ, c->sharedMemBytes,
                call->symbolName);
  }
}

int survey_start(void) {
  static const CUpti_CallbackId ids[] = {
      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz};
  last_error = 0;
  if (check(cuptiSubscribe(&subscriber, on_call, NULL), "subscribe")) return last_error;
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    check(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, ids[i]), "callback");
  return last_error;
}

int survey_stop(void) {
  last_error = 0;
  check(cuptiUnsubscribe(subscriber), "unsubscribe");
  return last_error;
}

// An attribute of a handle that may be a function or a context-free kernel; the
// driver takes either in a launch, but has one query for each.
static int attribute(CUfunction_attribute which, CUfunction function) {
  int value = -1;
  if (cuFuncGetAttribute(&value, which, function) == CUDA_SUCCESS) return value;
  if (cuKernelGetAttribute(&value, which, (CUkernel)function, 0) != CUDA_SUCCESS) value = -1;
  return value;
}

// Asks the driver outside of the callbacks, where it is free to take its locks.
// Each line is flushed: if a handle has gone stale, the lines before it remain.
long survey_dump(const char *path) {
  FILE *out = fopen(path, "w");
  if (!out) return -1;
  fprintf(out, "threads,smem_dynamic,blocks_per_sm,smem_static,regs,max_threads,binary,name\n");
  for (size_t i = 0; i < launch_count; i++) {
    const Launch *l = &launches[i];
    int blocks = -1;
    if (cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, l->function, (int)l->threads,
                                                    l->smem_dynamic) != CUDA_SUCCESS)
      blocks = -1;
    fprintf(out, "%u,%u,%d,%d,%d,%d,%d,%s\n", l->threads, l->smem_dynamic, blocks,
            attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, l->function),
            attribute(CU_FUNC_ATTRIBUTE_NUM_REGS, l->function),
            attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, l->function),
            attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION, l->function), l->name);
    fflush(out);
  }
  return fclose(out) ? -1 : (long)launch_count;
}
