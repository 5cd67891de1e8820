// What must arrive bit for bit: launch attributes, and the driver's hidden tables.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "driver.h"

int main(void) {
    unsigned char attributes[3 * ATTRIBUTE_BYTES];
    for (unsigned i = 0; i < sizeof attributes; i++) attributes[i] = (unsigned char)(i * 7 + 3);
    struct config config = {{2, 3, 4}, {32, 1, 1}, 1024, 0, attributes, 3};
    if (cuLaunchKernelEx(&config, (void *)0x77, 0, 0)) return 1;
    if (stub_attribute_bytes != sizeof attributes) return 2;
    if (memcmp(stub_attributes, attributes, sizeof attributes)) return 3;

    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*tables)(const void **, const unsigned char *) = dlsym(driver, "cuGetExportTable");
    const void *table = 0;
    unsigned char known[16] = {7}, unknown[16] = {8};
    if (tables(&table, known) || ((const void **)table)[1] != (void *)0xabcd) return 4;
    table = (void *)0x99;
    if (tables(&table, unknown) != 500 || table != (void *)0x99) return 5;
    if ((void *)tables != (void *)cuGetExportTable) return 6;
    return 0;
}
