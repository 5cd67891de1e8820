// What driver calls that an interposer adds cost on the host, and what they do beside a stream capture, from other
// threads and with handles of the other kind. probe KERNELS.cubin [handle N]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>
#include <atomic>
#include <cuda.h>
static long ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000l + t.tv_nsec;
}
static void must(CUresult r, const char* what) {
    if (r) {
        printf("probe: %s gave %d\n", what, r);
        fflush(stdout);
        _exit(3);
    }
}
#define MUST(e) must(e, #e)
static CUcontext ctx;
static CUdevice dev;
static CUmodule module_;
static CUlibrary lib;
static CUfunction f_empty, f_spin;
static CUkernel k_empty;
static const char* cubin;
static void setup() {
    MUST(cuInit(0));
    MUST(cuDeviceGet(&dev, 0));
    MUST(cuDevicePrimaryCtxRetain(&ctx, dev));
    MUST(cuCtxSetCurrent(ctx));
    MUST(cuModuleLoad(&module_, cubin));
    MUST(cuModuleGetFunction(&f_empty, module_, "empty"));
    MUST(cuModuleGetFunction(&f_spin, module_, "spin"));
    MUST(cuLibraryLoadFromFile(&lib, cubin, nullptr, nullptr, 0, nullptr, nullptr, 0));
    MUST(cuLibraryGetKernel(&k_empty, lib, "empty"));
}
static CUresult empty(CUstream s) { return cuLaunchKernel(f_empty, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr); }
static CUresult spin(CUstream s, double ms) {
    long long c = (long long)(ms * 1.9e6);
    void* p[] = {&c};
    return cuLaunchKernel(f_spin, 1, 1, 1, 1, 1, 1, 0, s, p, nullptr);
}
static long timer;
static void cost(const char* name, const std::function<void()>& call, const std::function<void()>& every = nullptr,
                 int n = 10000, int period = 200) {
    std::vector<long> v;
    v.reserve(n);
    for (int i = 0; i < n; i++) {
        if (every && i % period == 0) every();
        long a = ns();
        call();
        long b = ns();
        v.push_back(b - a);
    }
    std::sort(v.begin(), v.end());
    printf("cost,%s,%ld,%ld,%ld,%d\n", name, v[n / 2] - timer, v[n * 9 / 10] - timer, v[n * 99 / 100] - timer, n);
    fflush(stdout);
}
static void costs() {
    CUstream s, b;
    MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    CUevent e, t, busy;
    MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&t, 0));
    MUST(cuEventCreate(&busy, CU_EVENT_DISABLE_TIMING));
    CUevent t2;
    MUST(cuEventCreate(&t2, 0));
    {
        std::vector<long> v;
        for (int i = 0; i < 10000; i++) {
            long a = ns(), c = ns();
            v.push_back(c - a);
        }
        std::sort(v.begin(), v.end());
        timer = v[5000];
        printf("timer_ns,%ld\n", timer);
    }
    puts("kind,call,median_ns,p90_ns,p99_ns,n");
    auto sync = [&] { cuStreamSynchronize(s); };
    for (int rep = 0; rep < 2; rep++) {
        cost("cuLaunchKernel of an empty kernel", [&] { empty(s); }, sync);
        cost(
            "cuLaunchKernel of a CUkernel",
            [&] { cuLaunchKernel((CUfunction)k_empty, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr); }, sync);
        cost(
            "cuLaunchKernel + cuEventRecord without timing",
            [&] {
                empty(s);
                cuEventRecord(e, s);
            },
            sync);
        cost(
            "cuLaunchKernel between two cuEventRecord with timing",
            [&] {
                cuEventRecord(t, s);
                empty(s);
                cuEventRecord(t2, s);
            },
            sync);
        cost("cuEventRecord without timing", [&] { cuEventRecord(e, s); }, sync);
        cost("cuEventRecord with timing", [&] { cuEventRecord(t, s); }, sync);
        sync();
        cost("cuEventQuery of a done event without timing", [&] { cuEventQuery(e); });
        cost("cuEventQuery of a done event with timing", [&] { cuEventQuery(t); });
        cost("cuEventElapsedTime", [&] {
            float x;
            cuEventElapsedTime(&x, t, t2);
        });
        cost("cuStreamQuery of an idle stream", [&] { cuStreamQuery(s); });
        cost("cuStreamQuery of the legacy default stream, idle", [&] { cuStreamQuery(nullptr); });
        cost("cuStreamSynchronize of an idle stream", [&] { cuStreamSynchronize(s); });
        cost("cuCtxSynchronize, idle", [&] { cuCtxSynchronize(); });
        spin(b, 400);
        cuEventRecord(busy, b);
        cost("cuEventQuery of an event that is not done", [&] { cuEventQuery(busy); });
        cost("cuStreamQuery of a busy stream", [&] { cuStreamQuery(b); });
        printf("still busy: %d\n", cuStreamQuery(b));
        MUST(cuStreamSynchronize(b));
        CUstreamCaptureStatus st;
        cost("cuStreamIsCapturing, not capturing", [&] { cuStreamIsCapturing(s, &st); });
        cost("cuStreamIsCapturing of the legacy default stream", [&] { cuStreamIsCapturing(nullptr, &st); });
        MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        cost("cuStreamIsCapturing, capturing", [&] { cuStreamIsCapturing(s, &st); });
        CUgraph g;
        MUST(cuStreamEndCapture(s, &g));
        cuGraphDestroy(g);
        const char* name;
        CUmodule m;
        CUlibrary l;
        CUfunction f;
        unsigned fl;
        unsigned long long id;
        CUcontext c;
        CUstreamCaptureMode mode;
        cost("cuFuncGetName", [&] { cuFuncGetName(&name, f_empty); });
        cost("cuFuncGetModule", [&] { cuFuncGetModule(&m, f_empty); });
        cost("cuKernelGetName", [&] { cuKernelGetName(&name, k_empty); });
        cost("cuKernelGetLibrary", [&] { cuKernelGetLibrary(&l, k_empty); });
        cost("cuKernelGetFunction", [&] { cuKernelGetFunction(&f, k_empty); });
        cost("cuStreamGetFlags", [&] { cuStreamGetFlags(s, &fl); });
        cost("cuStreamGetId", [&] { cuStreamGetId(s, &id); });
        cost("cuStreamGetCtx", [&] { cuStreamGetCtx(s, &c); });
        cost("cuCtxGetCurrent", [&] { cuCtxGetCurrent(&c); });
        cost("cuCtxPushCurrent + cuCtxPopCurrent", [&] {
            cuCtxPushCurrent(ctx);
            cuCtxPopCurrent(&c);
        });
        cost("cuThreadExchangeStreamCaptureMode", [&] {
            mode = CU_STREAM_CAPTURE_MODE_RELAXED;
            cuThreadExchangeStreamCaptureMode(&mode);
        });
        mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
        cuThreadExchangeStreamCaptureMode(&mode);
        CUdeviceptr p;
        MUST(cuMemAlloc(&p, 4096));
        unsigned kind;
        cost("cuPointerGetAttribute(MEMORY_TYPE)",
             [&] { cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p); });
        MUST(cuMemFree(p));
        cost("clock_gettime", [&] { ns(); });
    }
    cuStreamDestroy(s);
    cuStreamDestroy(b);
}
static const char* modes[] = {"global", "thread_local", "relaxed"};
static void captures() {
    CUstream s1, s2;
    MUST(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING));
    CUevent e;
    MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(e, s2));
    MUST(cuCtxSynchronize());
    struct op {
        const char* name;
        std::function<CUresult()> f;
    };
    std::vector<op> ops = {{"nothing", [&] { return CUDA_SUCCESS; }},
                           {"cuStreamQuery(idle stream)", [&] { return cuStreamQuery(s2); }},
                           {"cuStreamQuery(busy stream)",
                            [&] {
                                spin(s2, 20);
                                return cuStreamQuery(s2);
                            }},
                           {"cuStreamQuery(capturing stream)", [&] { return cuStreamQuery(s1); }},
                           {"cuStreamQuery(legacy)", [&] { return cuStreamQuery(nullptr); }},
                           {"cuStreamQuery(per thread)", [&] { return cuStreamQuery(CU_STREAM_PER_THREAD); }},
                           {"cuEventQuery(of other stream)", [&] { return cuEventQuery(e); }},
                           {"cuEventRecord(other stream)", [&] { return cuEventRecord(e, s2); }},
                           {"cuEventRecord(legacy)", [&] { return cuEventRecord(e, nullptr); }},
                           {"cuEventSynchronize", [&] { return cuEventSynchronize(e); }},
                           {"cuEventCreate",
                            [&] {
                                CUevent x;
                                return cuEventCreate(&x, CU_EVENT_DISABLE_TIMING);
                            }},
                           {"cuStreamSynchronize(other stream)", [&] { return cuStreamSynchronize(s2); }},
                           {"cuCtxSynchronize", [&] { return cuCtxSynchronize(); }},
                           {"cuMemAlloc",
                            [&] {
                                CUdeviceptr p;
                                return cuMemAlloc(&p, 1 << 20);
                            }},
                           {"cuStreamIsCapturing(capturing stream)",
                            [&] {
                                CUstreamCaptureStatus t;
                                CUresult r = cuStreamIsCapturing(s1, &t);
                                printf("[status %d] ", t);
                                return r;
                            }},
                           {"cuStreamIsCapturing(legacy)",
                            [&] {
                                CUstreamCaptureStatus t;
                                CUresult r = cuStreamIsCapturing(nullptr, &t);
                                printf("[status %d] ", t);
                                return r;
                            }},
                           {"launch(other stream)", [&] { return empty(s2); }},
                           {"launch(legacy)", [&] { return empty(nullptr); }},
                           {"cuStreamGetFlags(legacy)",
                            [&] {
                                unsigned f;
                                return cuStreamGetFlags(nullptr, &f);
                            }},
                           {"cuStreamGetFlags(capturing)", [&] {
                                unsigned f;
                                return cuStreamGetFlags(s1, &f);
                            }}};
    puts(
        "capture: mode of the capture / who, mode of the caller's thread / call: result | status of the capture after "
        "it, next launch into it, end of the capture");
    for (int mode = 0; mode < 3; mode++)
        for (int who = 0; who < 4; who++)
            for (auto& o : ops) {
                MUST(cuCtxSynchronize());
                MUST(cuStreamBeginCapture(s1, (CUstreamCaptureMode)mode));
                CUresult l1 = empty(s1);
                (void)l1;
                CUresult r = CUDA_SUCCESS;
                auto body = [&] {
                    CUstreamCaptureMode m = CU_STREAM_CAPTURE_MODE_RELAXED;
                    if (who & 1) cuThreadExchangeStreamCaptureMode(&m);
                    r = o.f();
                    if (who & 1) cuThreadExchangeStreamCaptureMode(&m);
                };
                printf("capture,%s,%s %s,%s,", modes[mode], who & 2 ? "same thread" : "other thread",
                       who & 1 ? "relaxed" : "default", o.name);
                if (who & 2)
                    body();
                else
                    std::thread([&] {
                        cuCtxSetCurrent(ctx);
                        body();
                    }).join();
                CUstreamCaptureStatus st = (CUstreamCaptureStatus)9;
                CUresult q = cuStreamIsCapturing(s1, &st), l = empty(s1);
                CUgraph g = nullptr;
                CUresult en = cuStreamEndCapture(s1, &g);
                if (g) cuGraphDestroy(g);
                printf("%d,%d:%d,%d,%d\n", r, q, st, l, en);
                fflush(stdout);
                cuCtxSynchronize();
            }
}
static void threads() {
    CUstream s, o, blocking;
    MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&o, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&blocking, 0));
    CUevent e;
    MUST(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    MUST(spin(blocking, 50));
    printf("legacy: cuStreamQuery(0) beside a busy blocking stream: %d\n", cuStreamQuery(nullptr));
    MUST(cuCtxSynchronize());
    MUST(spin(s, 50));
    printf("legacy: cuStreamQuery(0) beside a busy non-blocking stream: %d\n", cuStreamQuery(nullptr));
    MUST(cuCtxSynchronize());
    MUST(spin(nullptr, 50));
    printf("legacy: cuStreamQuery(blocking) beside a busy legacy stream: %d, non-blocking: %d\n",
           cuStreamQuery(blocking), cuStreamQuery(s));
    MUST(cuCtxSynchronize());
    for (CUstream q : {(CUstream) nullptr, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, s, blocking}) {
        unsigned f = 9;
        unsigned long long id = 0;
        CUresult r = cuStreamGetFlags(q, &f), i = cuStreamGetId(q, &id);
        printf("flags of stream %p: result %d flags %u; id: result %d, %llu\n", (void*)q, r, f, i, id);
    }
    MUST(spin(s, 100));
    std::thread([&] {
        CUcontext c = nullptr;
        cuCtxGetCurrent(&c);
        CUresult a = cuStreamQuery(s), b = cuStreamQuery(nullptr), d = cuEventQuery(e), r = cuEventRecord(e, s),
                 x = cuStreamQuery(CU_STREAM_PER_THREAD);
        unsigned f;
        CUresult g = cuStreamGetFlags(s, &f);
        printf(
            "thread without context (%p): cuStreamQuery(busy) %d, (0) %d, (per thread) %d, cuEventQuery %d, "
            "cuEventRecord %d, cuStreamGetFlags %d\n",
            (void*)c, a, b, x, d, r, g);
    }).join();
    MUST(cuCtxSynchronize());
    auto probe = [&](const char* what) {
        std::thread([&] {
            cuCtxSetCurrent(ctx);
            usleep(20000);
            for (int i = 0; i < 3; i++) {
                long t0 = ns();
                CUresult a = cuStreamQuery(s);
                long t1 = ns();
                CUresult b = cuStreamQuery(o);
                long t2 = ns();
                CUresult c = cuEventRecord(e, o);
                long t3 = ns();
                CUresult d = cuEventQuery(e);
                long t4 = ns();
                CUresult l = empty(o);
                long t5 = ns();
                unsigned f;
                CUresult g = cuStreamGetFlags(s, &f);
                long t6 = ns();
                printf(
                    "%s: us(result) cuStreamQuery(busy) %.1f(%d) cuStreamQuery(other) %.1f(%d) cuEventRecord(other) "
                    "%.1f(%d) cuEventQuery %.1f(%d) launch(other) %.1f(%d) cuStreamGetFlags %.1f(%d)\n",
                    what, (t1 - t0) / 1e3, a, (t2 - t1) / 1e3, b, (t3 - t2) / 1e3, c, (t4 - t3) / 1e3, d,
                    (t5 - t4) / 1e3, l, (t6 - t5) / 1e3, g);
                fflush(stdout);
                usleep(5000);
            }
            long t0 = ns();
            CUresult a = cuEventRecord(e, s);
            long t1 = ns();
            CUresult q = cuEventQuery(e);
            printf("%s: cuEventRecord(busy) from the other thread %.1f us(%d), then cuEventQuery %d\n", what,
                   (t1 - t0) / 1e3, a, q);
            fflush(stdout);
        }).join();
    };
    for (int k = 0; k < 5; k++) {
        MUST(spin(s, 300));
        std::atomic<int> done{0};
        const char* names[] = {"main thread asleep", "main thread in cuStreamSynchronize",
                               "main thread in cuCtxSynchronize", "main thread in cuEventSynchronize",
                               "main thread blocked by a full queue"};
        CUevent w;
        MUST(cuEventCreate(&w, CU_EVENT_DISABLE_TIMING));
        MUST(cuEventRecord(w, s));
        long t0 = ns();
        std::thread t([&] {
            probe(names[k]);
            done = 1;
        });
        if (k == 0) usleep(200000);
        if (k == 1) cuStreamSynchronize(s);
        if (k == 2) cuCtxSynchronize();
        if (k == 3) cuEventSynchronize(w);
        if (k == 4) {
            long worst = 0;
            int at = 0;
            for (int i = 0; i < 4000; i++) {
                long a = ns();
                empty(s);
                long d = ns() - a;
                if (d > worst) worst = d, at = i;
            }
            printf("longest launch of 4000: %.1f ms, number %d\n", worst / 1e6, at);
        }
        printf("%s: the call took %.1f ms\n", names[k], (ns() - t0) / 1e6);
        t.join();
        MUST(cuCtxSynchronize());
    }
}
static int handle(int n) {
    setup();
    const char* name = "-";
    CUmodule m = nullptr;
    CUlibrary l = nullptr;
    CUstream s;
    CUevent e;
    CUresult r;
    switch (n) {
        case 0:
            r = cuFuncGetName(&name, (CUfunction)k_empty);
            printf("cuFuncGetName(CUkernel): %d %s\n", r, r ? "-" : name);
            break;
        case 1:
            r = cuKernelGetName(&name, (CUkernel)f_empty);
            printf("cuKernelGetName(CUfunction of a module): %d %s\n", r, r ? "-" : name);
            break;
        case 2:
            r = cuFuncGetModule(&m, (CUfunction)k_empty);
            printf("cuFuncGetModule(CUkernel): %d\n", r);
            break;
        case 3:
            r = cuKernelGetLibrary(&l, (CUkernel)f_empty);
            printf("cuKernelGetLibrary(CUfunction): %d\n", r);
            break;
        case 4: {
            CUfunction f;
            MUST(cuKernelGetFunction(&f, k_empty));
            CUmodule lm;
            MUST(cuLibraryGetModule(&lm, lib));
            r = cuFuncGetModule(&m, f);
            printf("function of kernel: same handle %d, cuFuncGetModule %d, equals cuLibraryGetModule %d; ",
                   (void*)f == (void*)k_empty, r, m == lm);
            r = cuFuncGetName(&name, f);
            printf("cuFuncGetName %d %s; ", r, r ? "-" : name);
            fflush(stdout);
            r = cuKernelGetName(&name, (CUkernel)f);
            printf("cuKernelGetName(that function) %d\n", r);
            break;
        }
        case 5:
            r = cuFuncGetName(&name, (CUfunction)0x12345670);
            printf("cuFuncGetName(garbage): %d\n", r);
            break;
        case 6:
            r = cuFuncGetName(&name, nullptr);
            printf("cuFuncGetName(null): %d\n", r);
            break;
        case 7:
            MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
            MUST(empty(s));
            MUST(cuStreamSynchronize(s));
            MUST(cuStreamDestroy(s));
            r = cuStreamQuery(s);
            printf("cuStreamQuery after cuStreamDestroy: %d\n", r);
            break;
        case 8:
            MUST(cuEventCreate(&e, 2));
            MUST(cuEventRecord(e, nullptr));
            MUST(cuEventDestroy(e));
            r = cuEventQuery(e);
            printf("cuEventQuery after cuEventDestroy: %d\n", r);
            break;
        case 9: {
            CUmodule m2;
            MUST(cuFuncGetModule(&m2, f_empty));
            printf("cuFuncGetModule(CUfunction): equals its module %d; ", m2 == module_);
            MUST(cuModuleUnload(module_));
            r = cuFuncGetName(&name, f_empty);
            printf("cuFuncGetName after cuModuleUnload: %d\n", r);
            break;
        }
        case 10: {
            unsigned f;
            r = cuStreamGetFlags((CUstream)0x12345670, &f);
            printf("cuStreamGetFlags(garbage): %d\n", r);
            break;
        }
        case 11: {
            CUfunction before = f_empty;
            MUST(cuModuleUnload(module_));
            CUmodule again;
            CUfunction g;
            MUST(cuModuleLoad(&again, cubin));
            MUST(cuModuleGetFunction(&g, again, "spin"));
            printf("load after unload: module handle again %d; ", again == module_);
            CUfunction h;
            MUST(cuModuleGetFunction(&h, again, "empty"));
            printf("function handle again %d\n", g == before || h == before);
            break;
        }
        case 12:
            MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
            {
                CUstream t;
                MUST(cuStreamDestroy(s));
                MUST(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
                unsigned long long a = 0;
                cuStreamGetId(t, &a);
                printf("stream made after a destroyed one: same handle %d, id %llu\n", s == t, a);
                break;
            }
        default: return 9;
    }
    fflush(stdout);
    return 0;
}
int main(int argc, char** argv) {
    cubin = argv[1];
    if (argc > 3) return handle(atoi(argv[3]));
    setup();
    int v;
    MUST(cuDriverGetVersion(&v));
    printf("driver %d\n", v);
    costs();
    threads();
    captures();
    fflush(stdout);
    return 0;
}
