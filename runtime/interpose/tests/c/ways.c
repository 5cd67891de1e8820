// Finds every wrapped symbol in every way, and prints for each way and symbol which library the address is in and under
// which name: "way symbol file name".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "driver.h"

#define SYMBOL(index, name, base, since, per_thread) int name();
#define SPECIAL(index, name, base, since, per_thread)
#include "names.h"
#undef SYMBOL
#undef SPECIAL

static void print(const char *way, const char *symbol, void *address) {
    Dl_info info = {0};
    if (!address) {
        printf("%s %s - -\n", way, symbol);
        return;
    }
    dladdr(address, &info);
    const char *file = strrchr(info.dli_fname, '/');
    printf("%s %s %s %s\n", way, symbol, file ? file + 1 : info.dli_fname, info.dli_sname ? info.dli_sname : "?");
}

static const struct {
    const char *name, *base;
    int since, per_thread;
    void *direct;
} table[] = {
#define SYMBOL(index, name, base, since, per_thread) {#name, base, since, per_thread, (void *)name},
#define SPECIAL SYMBOL
#include "names.h"
#undef SYMBOL
#undef SPECIAL
};

int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) return 2;
    int (*ask)(const char *, void **, int, uint64_t) = dlsym(driver, "cuGetProcAddress");
    int (*ask_v2)(const char *, void **, int, uint64_t, int *) = dlsym(driver, "cuGetProcAddress_v2");
    // The real driver's own answer, behind any wrapper.
    const char *path = getenv("TALLY_DRIVER");
    void *real = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    if (!real) return 10;
    const char *(*answer_of)(const char *, int, uint64_t, void **) = dlsym(real, "stub_answer");
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        const char *name = table[i].name, *base = table[i].base;
        int since = table[i].since;
        uint64_t flags = table[i].per_thread ? 2 : 0;
        void *found = 0;
        print("direct", name, table[i].direct);
        print("dlsym", name, dlsym(driver, name));
        print("default", name, dlsym(RTLD_DEFAULT, name));
        print("dlvsym", name, dlvsym(driver, name, "STUB_1"));
        // Several symbols may share base, version and flags; then the driver chooses, and its choice is what counts.
        const char *answer = answer_of(base, since, flags, 0);
        if (ask(base, &found, since, flags) != 0) return 3;
        print("ask", answer, found);
        int status = -1;
        found = 0;
        if (ask_v2(base, &found, since, flags, &status) != 0 || status != 0) return 4;
        print("ask_v2", answer, found);
    }
    // What programs of several versions get: the driver's choice, wrapped.
    static const int versions[] = {2000, 4000, 7000, 9000, 11030, 12000, 12080, 13000, 13050};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        for (unsigned v = 0; v < sizeof versions / sizeof *versions; v++)
            for (uint64_t flags = 0; flags < 3; flags++) {
                void *found = 0;
                int status = -1;
                const char *answer = answer_of(table[i].base, versions[v], flags, 0);
                if (ask_v2(table[i].base, &found, versions[v], flags, &status) != 0 || status != !answer) return 11;
                if (answer) print("grid", answer, found);
                else if (found) return 12;
            }
    // What is not wrapped stays the driver's, or absent.
    print("dlsym", "cuInit", dlsym(driver, "cuInit"));
    print("dlsym", "cudnnCreate", dlsym(driver, "cudnnCreate"));
    print("dlvsym", "cuInit", dlvsym(driver, "cuInit", "STUB_1"));
    void *found = 0;
    int status = -1;
    if (ask("cuInit", &found, 12000, 0) != 0) return 5;
    print("ask", "cuInit", found);
    if (ask("cuGraphLaunch", &found, 14000, 0) != 0) return 13;
    print("ask", "cuGraphLaunch_v9", found);
    if (ask_v2("cuNothing", &found, 12000, 0, &status) != 0 || status != 1 || found) return 6;
    if (ask("cuNothing", &found, 12000, 0) != 500) return 7;
    // The reason of a failed look-up is the C library's own.
    dlerror();
    if (dlsym(driver, "cuNothing")) return 8;
    const char *reason = dlerror();
    if (!reason || !strstr(reason, "cuNothing")) return 9;
    return 0;
}
