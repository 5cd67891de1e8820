/*
 * A small CUDA client for the faults: it opens the device, waits to be told to go, and launches until it is told to stop,
 * killed, or refused by the driver. What it does stands in a file of eight 64-bit words that it maps and gpu-check reads:
 *
 *   0 pid            1 state           2 rounds done     3 time of the last one (CLOCK_MONOTONIC, ns)
 *   4 longest round since word 6 last changed, ns        5 CUDA error, or 0
 *   6 written by gpu-check: start a new longest round    7 written by gpu-check: 1 go, 2 stop
 *
 *   victim MODE FILE
 *     busy     launches without a pause, so that a high-priority client is always active
 *     server   a round every 2 ms, as a server with requests
 *     train    rounds of many small kernels, without a pause
 *     illegal  20 rounds of train, then a store to an address that is not there
 *     memory   20 rounds of train, then allocations until there is no memory
 *              (both end by themselves if nothing has come of it after 100 rounds)
 *
 * It links nothing of CUDA: libcuda.so.1 is opened as an application would open it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PID, STATE, ROUNDS, LAST_NS, LONGEST_NS, ERROR, RESET, COMMAND, WORDS };
enum { STARTING, READY, RUNNING, STOPPED, REFUSED };
enum { GO = 1, STOP = 2 };

static volatile uint64_t *words;

typedef void *Handle;
static int (*Init)(unsigned);
static int (*DeviceGet)(int *, int);
static int (*PrimaryCtxRetain)(Handle *, int);
static int (*CtxSetCurrent)(Handle);
static int (*ModuleLoadData)(Handle *, const void *);
static int (*ModuleGetFunction)(Handle *, Handle, const char *);
static int (*StreamCreate)(Handle *, unsigned);
static int (*StreamSynchronize)(Handle);
static int (*MemAlloc)(uint64_t *, size_t);
static int (*LaunchKernel)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **,
                           void **);

/* `spin` takes so many ns on one block; `poke` stores where nothing can be mapped. Compiled by the driver; sm_75 is the oldest
 * target that CUDA 13 knows. */
static const char PTX[] =
    ".version 7.0\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry spin(.param .u64 ns)\n"
    "{\n"
    "  .reg .pred %p<2>;\n"
    "  .reg .b64 %rd<5>;\n"
    "  ld.param.u64 %rd1, [ns];\n"
    "  mov.u64 %rd2, %globaltimer;\n"
    "again:\n"
    "  mov.u64 %rd3, %globaltimer;\n"
    "  sub.s64 %rd4, %rd3, %rd2;\n"
    "  setp.lt.u64 %p1, %rd4, %rd1;\n"
    "  @%p1 bra again;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry poke(.param .u64 address)\n"
    "{\n"
    "  .reg .b32 %r<2>;\n"
    "  .reg .b64 %rd<2>;\n"
    "  ld.param.u64 %rd1, [address];\n"
    "  mov.u32 %r1, 1;\n"
    "  st.global.u32 [%rd1], %r1;\n"
    "  ret;\n"
    "}\n";

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait_us(unsigned us)
{
    struct timespec t = {0, (long)us * 1000};
    nanosleep(&t, NULL);
}

/* The driver's refusals are what is observed here, so they end the program with code 3 and stand in the file. */
static void want(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s: CUDA error %d\n", what, error);
    words[ERROR] = (uint64_t)error;
    words[STATE] = REFUSED;
    _exit(3);
}

static int look_up(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    if (!found)
        fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static int open_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 0;
    }
    return look_up(library, "cuInit", &Init) && look_up(library, "cuDeviceGet", &DeviceGet) &&
           look_up(library, "cuDevicePrimaryCtxRetain", &PrimaryCtxRetain) &&
           look_up(library, "cuCtxSetCurrent", &CtxSetCurrent) && look_up(library, "cuModuleLoadData", &ModuleLoadData) &&
           look_up(library, "cuModuleGetFunction", &ModuleGetFunction) &&
           look_up(library, "cuStreamCreate", &StreamCreate) &&
           look_up(library, "cuStreamSynchronize", &StreamSynchronize) && look_up(library, "cuMemAlloc_v2", &MemAlloc) &&
           look_up(library, "cuLaunchKernel", &LaunchKernel);
}

static void launch(Handle function, uint64_t argument, Handle stream)
{
    void *arguments[] = {&argument};
    want(LaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel");
}

int main(int count, char **arguments)
{
    if (count != 3) {
        fprintf(stderr, "usage: victim busy|server|train|illegal|memory FILE\n");
        return 2;
    }
    const char *mode = arguments[1];
    int file = open(arguments[2], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, WORDS * 8) != 0) {
        perror(arguments[2]);
        return 2;
    }
    words = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    words[PID] = (uint64_t)getpid();
    if (!open_driver())
        return 2;

    int device;
    Handle context, module, spin, poke, stream;
    want(Init(0), "cuInit");
    want(DeviceGet(&device, 0), "cuDeviceGet");
    want(PrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    want(CtxSetCurrent(context), "cuCtxSetCurrent");
    want(ModuleLoadData(&module, PTX), "cuModuleLoadData");
    want(ModuleGetFunction(&spin, module, "spin"), "cuModuleGetFunction");
    want(ModuleGetFunction(&poke, module, "poke"), "cuModuleGetFunction");
    want(StreamCreate(&stream, 1), "cuStreamCreate");
    words[STATE] = READY;
    while (words[COMMAND] == 0)
        wait_us(200);
    words[STATE] = RUNNING;

    const int is_server = strcmp(mode, "server") == 0;
    const int is_high = is_server || strcmp(mode, "busy") == 0;
    const int launches = is_high ? 4 : 20;
    const int is_fault = strcmp(mode, "illegal") == 0 || strcmp(mode, "memory") == 0;
    uint64_t reset = words[RESET];
    for (uint64_t round = 0; words[COMMAND] != STOP && !(is_fault && round == 100); round++) {
        uint64_t begin = now();
        for (int i = 0; i < launches; i++)
            launch(spin, 50000, stream);
        if (round == 20 && strcmp(mode, "illegal") == 0)
            launch(poke, 16, stream);
        if (round == 20 && strcmp(mode, "memory") == 0) {
            uint64_t address;
            for (;;)
                want(MemAlloc(&address, (size_t)1 << 30), "cuMemAlloc_v2");
        }
        want(StreamSynchronize(stream), "cuStreamSynchronize");
        uint64_t end = now();
        if (words[RESET] != reset) {
            reset = words[RESET];
            words[LONGEST_NS] = 0;
        }
        if (end - begin > words[LONGEST_NS])
            words[LONGEST_NS] = end - begin;
        words[LAST_NS] = end;
        words[ROUNDS] = round + 1;
        if (is_server)
            wait_us(2000);
    }
    words[STATE] = STOPPED;
    return 0;
}
