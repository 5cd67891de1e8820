"""A Triton kernel under trace.so."""

import ctypes
import glob
import os
import torch
import triton
import triton.language as tl

lib = ctypes.CDLL(None)


@triton.jit
def add(a, b, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(b + i, tl.load(a + i, mask=i < n) + 1, mask=i < n)


x = torch.zeros(10000, device="cuda")
y = torch.empty_like(x)
add[(10,)](x, y, 10000, B=1024)
torch.cuda.synchronize()
lib.trace_mark(b"triton, first")
lib.trace_begin(b"triton", ctypes.c_uint64(100))
for _ in range(3):
    add[(10,)](x, y, 10000, B=1024)
torch.cuda.synchronize()
lib.trace_end(b"triton")
print(float(y.sum()), [os.path.basename(f) for f in glob.glob(os.path.expanduser("~/.triton/cache/*/*"))][:20])
