// Through the shim: functions without a wrapper get their arguments, at the first call and later.
#include <dlfcn.h>

int cuInit(unsigned flags);
int cuParamSetf(void *function, int offset, float value);
int cuLinkAddData_v2(void *state, int type, void *data, unsigned long bytes, const char *name, unsigned count, int *options,
                     void **values);

int main(void) {
    int (*absent)(void *) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuArrayDestroy");
    for (int i = 0; i < 3; i++) {
        if (cuInit(0)) return 1;
        // The driver answers with the sum of its arguments.
        if (cuParamSetf((void *)100, 20, 3.0f) != 123) return 2;
        if (cuLinkAddData_v2((void *)1, 2, (void *)4, 8, (const char *)16, 32, (int *)64, (void **)128) != 255) return 3;
        // This driver has no such function.
        if (absent((void *)1) != 500) return 4;
    }
    return 0;
}
