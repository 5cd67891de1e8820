// Best-effort kernels without a framework: `spin` = back to back kernels of about 10 ms of arithmetic on the whole
// device, `empty` = endless empty kernels. Starts at a line on stdin, stops at the next; prints counts as JSON.
#include <cuda_runtime.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#define CHECK(e)                                                    \
    do {                                                            \
        cudaError_t r = (e);                                        \
        if (r != cudaSuccess) {                                     \
            printf("{\"error\": \"%s\"}\n", cudaGetErrorString(r)); \
            return 1;                                               \
        }                                                           \
    } while (0)
__global__ void empty() {}
__global__ void spin(float* out, int n) {
    float a = threadIdx.x, b = 1.0001f;
    for (int i = 0; i < n; i++) {
        a = a * b + 0.5f;
        b = b * 0.9999f + 1e-5f;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b;
}
static double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static bool line() {
    pollfd p{0, POLLIN, 0};
    return poll(&p, 1, 0) > 0;
}
static bool readline() {
    char c;
    while (read(0, &c, 1) == 1)
        if (c == '\n') return true;
    return false;
}
int main(int argc, char** argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    const bool spinning = argc > 1 && !strcmp(argv[1], "spin");
    float* out;
    CHECK(cudaMalloc(&out, 132 * 8 * 256 * 4));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    int n = 100000;
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    float ms = 0;
    for (int i = 0; i < 3 && spinning; i++) {
        CHECK(cudaEventRecord(a, s));
        spin<<<132 * 8, 256, 0, s>>>(out, n);
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaEventSynchronize(b));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        n = int(n * 10.0 / ms);
    }
    empty<<<1, 1, 0, s>>>();
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaGetLastError());
    printf("{\"ready\": \"kernels\", \"spin_ms\": %.3f, \"iterations\": %d}\n", ms, n);
    while (readline()) {
        printf("{\"ready\": \"running\"}\n");
        const double t0 = now();
        long count = 0;
        while (!line()) {
            if (spinning) {
                spin<<<132 * 8, 256, 0, s>>>(out, n);
                if (++count % 4 == 0) CHECK(cudaStreamSynchronize(s));
            } else
                for (int i = 0; i < 16; i++) {
                    empty<<<1, 1, 0, s>>>();
                    count++;
                }
        }
        CHECK(cudaStreamSynchronize(s));
        CHECK(cudaGetLastError());
        const double t1 = now();
        printf("{\"result\": {\"t0\": %.6f, \"t1\": %.6f, \"count\": %ld}}\n", t0, t1, count);
        if (!readline()) break;  // the stop line
    }
    return 0;
}
