extern "C" __global__ void empty() {}
extern "C" __global__ void spin(long long cycles) {
    const long long t = clock64();
    while (clock64() - t < cycles) {}
}
