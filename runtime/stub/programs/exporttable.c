// cuGetExportTable (C07): for an identifier that the stub has and for one that it hasn't. Prints `known STATUS W0 W1 W2 W3`
// with the table's words, and `unknown STATUS ADDRESS`, where the address is what was there before the call.
#include "cuda_min.h"

int main(void) {
  const CUuuid known = {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9}};
  const CUuuid unknown = {{1, 2, 3}};
  const void *table = NULL;
  CUresult status = cuGetExportTable(&table, &known);
  const size_t *words = table;
  if (status != CUDA_SUCCESS || !words) return 1;
  printf("known %d %zu %#zx %#zx %#zx\n", status, words[0], words[1], words[2], words[3]);
  table = (void *)0x1234;
  status = cuGetExportTable(&table, &unknown);
  printf("unknown %d %p\n", status, table);
  return 0;
}
