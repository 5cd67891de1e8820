// Where kernels come from (C08). Prints what was launched and with which handle:
//   `a KERNEL FUNCTION`: a library's kernel is launched by its own handle, then by that of its function;
//   `b FIRST SECOND`: a module is unloaded and another loaded whose function gets the same address;
//   `fat`, `ex`: a module from a fat binary and one by cuModuleLoadDataEx.
#include "cuda_min.h"

// A fat binary around a PTX text: wrapper, container's header, one entry's header, text.
typedef struct {
  uint32_t magic, version;
  const void *data;
  void *file;
} Wrapper;
typedef struct {
  struct {
    uint32_t magic;
    uint16_t version, header;
    uint64_t bytes;
  } container;
  struct {
    uint16_t kind, version;
    uint32_t header;
    uint64_t bytes;
    uint32_t compressed, options, minor_major, arch;
    char rest[32];
  } entry;
  char text[256];
} FatBinary;

int main(void) {
  start();
  CUlibrary library;
  CUkernel kernel;
  CUfunction function;
  const char *name;
  const char *image = PTX PTX_KERNEL("library_kernel") PTX_KERNEL("other_kernel");
  CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, "library_kernel"));
  CHECK(launch((CUfunction)kernel, NULL));
  CHECK(cuKernelGetFunction(&function, kernel));
  CHECK(launch(function, NULL));
  CHECK(cuKernelGetName(&name, kernel));
  printf("a %p %p %s", (void *)kernel, (void *)function, name);
  CHECK(cuFuncGetName(&name, function));
  printf(" %s\n", name);
  CHECK(cuLibraryUnload(library));

  CUmodule module;
  CUfunction first, second;
  CHECK(cuModuleLoadData(&module, PTX PTX_KERNEL("first")));
  CHECK(cuModuleGetFunction(&first, module, "first"));
  CHECK(launch(first, NULL));
  CHECK(cuModuleUnload(module));
  CHECK(cuModuleLoadData(&module, PTX PTX_KERNEL("second")));
  CHECK(cuModuleGetFunction(&second, module, "second"));
  CHECK(launch(second, NULL));
  CUmodule of;
  CHECK(cuFuncGetModule(&of, second));
  printf("b %p %p %d\n", (void *)first, (void *)second, of == module);

  FatBinary fat;
  memset(&fat, 0, sizeof fat);
  snprintf(fat.text, sizeof fat.text, "%s", PTX PTX_KERNEL("fat_kernel"));
  fat.container.magic = 0xba55ed50;
  fat.container.version = 1;
  fat.container.header = sizeof fat.container;
  fat.container.bytes = sizeof fat.entry + sizeof fat.text;
  fat.entry.kind = 1;
  fat.entry.version = 0x101;
  fat.entry.header = sizeof fat.entry;
  fat.entry.bytes = sizeof fat.text;
  fat.entry.arch = 90;
  Wrapper wrapper = {0x466243b1, 1, &fat, NULL};
  CHECK(cuModuleLoadFatBinary(&module, &wrapper));
  CHECK(cuModuleGetFunction(&function, module, "fat_kernel"));
  CHECK(launch(function, NULL));
  printf("fat %p\n", (void *)function);
  int options[] = {7};
  void *values[] = {(void *)4};
  CHECK(cuModuleLoadDataEx(&module, PTX PTX_KERNEL("ex_kernel"), 1, options, values));
  CHECK(cuModuleGetFunction(&function, module, "ex_kernel"));
  CHECK(launch(function, NULL));
  printf("ex %p\n", (void *)function);
  CHECK(cuCtxSynchronize());
  return 0;
}
