// Has nothing to do with CUDA.
#include <stdio.h>
int main(void) {
    puts("plain");
    return 0;
}
