// A driver for tests: every wrapped symbol counts its calls and answers what it is told to. names.h is generated from the
// hook list: SYMBOL(index, name, base, since, per_thread) for each.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "driver.h"

int stub_result;
unsigned long stub_calls[512];
unsigned char stub_attributes[512];
unsigned long stub_attribute_bytes;
unsigned long stub_init_calls;
static __thread int depth;
int stub_nested;

#define SYMBOL(index, name, base, since, per_thread) int name();
#define SPECIAL(index, name, base, since, per_thread)
#include "names.h"
#undef SYMBOL
#undef SPECIAL

static int enter(int index) {
    __atomic_add_fetch(&stub_calls[index], 1, __ATOMIC_SEQ_CST);
    return stub_result;
}

// Each has a twin that is not exported, which the driver may answer with.
#define SYMBOL(index, name, base, since, per_thread) \
    int name() { return enter(index); }              \
    static int inner_##name() { return enter(index); }
#define SPECIAL(index, name, base, since, per_thread) enum { index_of_##name = index };
#include "names.h"
#undef SYMBOL
#undef SPECIAL

int cuGraphLaunch_v9(void) { return 0; }

static const struct {
    const char *name, *base;
    int since, per_thread;
    void *address, *inner;
} table[] = {
#define SYMBOL(index, name, base, since, per_thread) \
    {#name, base, since, per_thread, (void *)name, (void *)inner_##name},
#define SPECIAL(index, name, base, since, per_thread) {#name, base, since, per_thread, (void *)name, (void *)name},
#include "names.h"
#undef SYMBOL
#undef SPECIAL
    {"cuInit", "cuInit", 2000, 0, (void *)cuInit, (void *)cuInit},
    // A form that no list knows yet.
    {"cuGraphLaunch_v9", "cuGraphLaunch", 14000, 0, (void *)cuGraphLaunch_v9, (void *)cuGraphLaunch_v9},
};

// The newest form that is not newer than the version, of the wanted default stream if there are two.
const char *stub_answer(const char *base, int version, uint64_t flags, void **address) {
    int best = -1;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].base, base) || table[i].since > version) continue;
        if (table[i].per_thread && !(flags & 2)) continue;
        if (best < 0 || table[i].since > table[best].since ||
            (table[i].since == table[best].since && table[i].per_thread > table[best].per_thread))
            best = (int)i;
    }
    if (address) *address = best < 0 ? 0 : getenv("STUB_INNER") ? table[best].inner : table[best].address;
    return best < 0 ? 0 : table[best].name;
}

int cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags) {
    enter(index_of_cuGetProcAddress);
    if (!symbol || !address) return 1;
    return stub_answer(symbol, version, flags, address) ? 0 : 500;
}

int cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags, int *status) {
    enter(index_of_cuGetProcAddress_v2);
    if (!symbol || !address) return 1;
    int found = stub_answer(symbol, version, flags, address) != 0;
    if (status) *status = found ? 0 : 1;
    return 0;
}

int cuLaunchKernelEx(const struct config *config, void *function, void **parameters, void **extra) {
    (void)function, (void)parameters, (void)extra;
    if (config && config->attributes) {
        stub_attribute_bytes = config->attribute_count * ATTRIBUTE_BYTES;
        memcpy(stub_attributes, config->attributes, stub_attribute_bytes);
    }
    return enter(index_of_cuLaunchKernelEx);
}

int cuInit(unsigned flags) {
    (void)flags;
    if (depth++) stub_nested = 1;
    __atomic_add_fetch(&stub_init_calls, 1, __ATOMIC_SEQ_CST);
    depth--;
    return 0;
}

static const void *const export_table[] = {(void *)0x30, (void *)0xabcd};

int cuGetExportTable(const void **tables, const unsigned char *uuid) {
    if (uuid[0] != 7) return 500;
    *tables = export_table;
    return 0;
}

int cuModuleGetFunctionCount(unsigned *count, void *module) {
    (void)module;
    *count = 1;
    return 0;
}

int cuLibraryGetKernelCount(unsigned *count, void *library) {
    (void)library;
    *count = 1;
    return 0;
}

int cuCtxGetCurrent(void **context) {
    *context = (void *)0x51;
    return 0;
}

int cuParamSetf(void *function, int offset, float value) { return (int)(long)function + offset + (int)value; }

int cuLinkAddData_v2(void *state, int type, void *data, unsigned long bytes, const char *name, unsigned count, int *options,
                     void **values) {
    return (int)((long)state + type + (long)data + bytes + (long)name + count + (long)options + (long)values);
}
