// What may be called while a stream captures, as the table that was measured on an H200
// (machines/evidence/driver/captures.csv): for each mode of the capture, from the capturing and from another thread, in the
// thread's default and in relaxed mode, one call; its result, the capture's state after it, the results of a launch and of
// the capture's end. Run with STUB_CAPTURE_STRICT=1 and STUB_DURATION_US="busy=10000".
#include "cuda_min.h"
#include <pthread.h>

static CUcontext context;
static CUfunction function, busy_function;
static CUstream captured, idle, busy;
static CUevent event;

static const char *const names[] = {
    "nothing", "cuStreamQuery(idle stream)", "cuStreamQuery(busy stream)", "cuStreamQuery(capturing stream)",
    "cuStreamQuery(legacy)", "cuStreamQuery(per thread)", "cuEventQuery(of other stream)", "cuEventRecord(other stream)",
    "cuEventRecord(legacy)", "cuEventSynchronize", "cuEventCreate", "cuStreamSynchronize(other stream)",
    "cuCtxSynchronize", "cuMemAlloc", "cuStreamIsCapturing(capturing stream)", "cuStreamIsCapturing(legacy)",
    "launch(other stream)", "launch(legacy)", "cuStreamGetFlags(legacy)", "cuStreamGetFlags(capturing)",
};
enum { CALLS = sizeof names / sizeof *names };

static CUresult make(int call) {
  CUevent other;
  CUdeviceptr memory;
  int state;
  unsigned flags;
  switch (call) {
    case 1: return cuStreamQuery(idle);
    case 2: return cuStreamQuery(busy);
    case 3: return cuStreamQuery(captured);
    case 4: return cuStreamQuery((CUstream)1);
    case 5: return cuStreamQuery((CUstream)2);
    case 6: return cuEventQuery(event);
    case 7: return cuEventRecord(event, idle);
    case 8: return cuEventRecord(event, NULL);
    case 9: return cuEventSynchronize(event);
    case 10: return cuEventCreate(&other, 0);
    case 11: return cuStreamSynchronize(idle);
    case 12: return cuCtxSynchronize();
    case 13: return cuMemAlloc_v2(&memory, 64);
    case 14: return cuStreamIsCapturing(captured, &state);
    case 15: return cuStreamIsCapturing(NULL, &state);
    case 16: return launch(function, idle);
    case 17: return launch(function, NULL);
    case 18: return cuStreamGetFlags(NULL, &flags);
    case 19: return cuStreamGetFlags(captured, &flags);
    default: return CUDA_SUCCESS;
  }
}

typedef struct {
  int call, relaxed;
  CUresult result;
} Attempt;

static void *attempt(void *data) {
  Attempt *what = data;
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuCtxSetCurrent(context));
  if (what->relaxed) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  what->result = make(what->call);
  if (what->relaxed) CHECK(cuThreadExchangeStreamCaptureMode(&mode));
  return NULL;
}

int main(void) {
  static const char *const modes[] = {"global", "thread_local", "relaxed"};
  context = start();
  function = load(PTX PTX_KERNEL("short"), "short");
  busy_function = load(PTX PTX_KERNEL("busy"), "busy");
  CHECK(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  printf("capture_mode,thread,thread_mode,call,result,status_after,launch_after,end_capture\n");
  for (int mode = 0; mode < 3; mode++)
    for (int same = 0; same < 2; same++)
      for (int relaxed = 0; relaxed < 2; relaxed++)
        for (int call = 0; call < CALLS; call++) {
          Attempt what = {call, relaxed, 0};
          int state;
          CUgraph graph;
          CHECK(cuEventRecord(event, idle));
          if (call == 2) CHECK(launch(busy_function, busy));
          CHECK(cuStreamBeginCapture_v2(captured, mode));
          CHECK(launch(function, captured));
          if (same) {
            attempt(&what);
          } else {
            pthread_t thread;
            pthread_create(&thread, NULL, attempt, &what);
            pthread_join(thread, NULL);
          }
          CHECK(cuStreamIsCapturing(captured, &state));
          CUresult after = launch(function, captured), end = cuStreamEndCapture(captured, &graph);
          if (end == CUDA_SUCCESS) CHECK(cuGraphDestroy(graph));
          printf("%s,%s,%s,%s,%d,%d,%d,%d\n", modes[mode], same ? "same" : "other", relaxed ? "relaxed" : "default",
                 names[call], what.result, state, after, end);
          if (call == 2) CHECK(cuCtxSynchronize());
        }
  return 0;
}
