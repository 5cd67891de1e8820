#pragma once
#include <stdint.h>

enum { ATTRIBUTE_BYTES = 72 };

struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    void *attributes;
    unsigned attribute_count;
};

int cuInit(unsigned flags);
int cuGetProcAddress(const char *symbol, void **address, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *symbol, void **address, int version, uint64_t flags, int *status);
int cuLaunchKernelEx(const struct config *config, void *function, void **parameters, void **extra);
int cuGetExportTable(const void **tables, const unsigned char *uuid);
const char *stub_answer(const char *base, int version, uint64_t flags, void **address);
extern unsigned long stub_calls[512], stub_attribute_bytes, stub_init_calls;
extern unsigned char stub_attributes[512];
extern int stub_nested, stub_result;
