//! Functions that a real driver exports and that can't work here.

use crate::entry::export;
use crate::error::Code;

macro_rules! refused {
    ($($code:ident: $($name:ident [$($symbol:ident $version:literal),+]),* $(,)?;)*) => {
        export! { $($($name: [$($symbol $version),+] () |_call| Err(Code::$code);)*)* }
    };
}

refused! {
    // CUDA 2 had device addresses of 32 bits. No address fits.
    INVALID_VALUE:
        cuMemAlloc [cuMemAlloc 2000], cuMemAllocPitch [cuMemAllocPitch 2000], cuMemFree [cuMemFree 2000],
        cuMemGetInfo [cuMemGetInfo 2000], cuMemGetAddressRange [cuMemGetAddressRange 2000],
        cuMemAllocHost [cuMemAllocHost 2000], cuMemHostGetDevicePointer [cuMemHostGetDevicePointer 2020],
        cuDeviceTotalMem [cuDeviceTotalMem 2000], cuCtxCreate [cuCtxCreate 2000],
        cuMemcpyHtoD [cuMemcpyHtoD 2000], cuMemcpyDtoH [cuMemcpyDtoH 2000], cuMemcpyDtoD [cuMemcpyDtoD 2000],
        cuMemcpyHtoDAsync [cuMemcpyHtoDAsync 2000], cuMemcpyDtoHAsync [cuMemcpyDtoHAsync 2000],
        cuMemcpyDtoDAsync [cuMemcpyDtoDAsync 3000], cuMemcpy2D [cuMemcpy2D 2000],
        cuMemcpy2DUnaligned [cuMemcpy2DUnaligned 2000], cuMemcpy2DAsync [cuMemcpy2DAsync 2000],
        cuMemcpy3D [cuMemcpy3D 2000], cuMemcpy3DAsync [cuMemcpy3DAsync 2000],
        cuMemsetD8 [cuMemsetD8 2000], cuMemsetD16 [cuMemsetD16 2000], cuMemsetD32 [cuMemsetD32 2000],
        cuMemsetD2D8 [cuMemsetD2D8 2000], cuMemsetD2D16 [cuMemsetD2D16 2000], cuMemsetD2D32 [cuMemsetD2D32 2000];
    // There are no arrays, and no work that waits for a value.
    NOT_SUPPORTED:
        cuMemcpyAtoA [cuMemcpyAtoA 2000, cuMemcpyAtoA_v2 3020, cuMemcpyAtoA_v2_ptds 7000],
        cuMemcpyAtoD [cuMemcpyAtoD 2000, cuMemcpyAtoD_v2 3020, cuMemcpyAtoD_v2_ptds 7000],
        cuMemcpyAtoH [cuMemcpyAtoH 2000, cuMemcpyAtoH_v2 3020, cuMemcpyAtoH_v2_ptds 7000],
        cuMemcpyDtoA [cuMemcpyDtoA 2000, cuMemcpyDtoA_v2 3020, cuMemcpyDtoA_v2_ptds 7000],
        cuMemcpyHtoA [cuMemcpyHtoA 2000, cuMemcpyHtoA_v2 3020, cuMemcpyHtoA_v2_ptds 7000],
        cuMemcpyAtoHAsync [cuMemcpyAtoHAsync 2000, cuMemcpyAtoHAsync_v2 3020, cuMemcpyAtoHAsync_v2_ptsz 7000],
        cuMemcpyHtoAAsync [cuMemcpyHtoAAsync 2000, cuMemcpyHtoAAsync_v2 3020, cuMemcpyHtoAAsync_v2_ptsz 7000],
        cuMemcpy3DBatchAsync [cuMemcpy3DBatchAsync 12080, cuMemcpy3DBatchAsync_ptsz 12080,
            cuMemcpy3DBatchAsync_v2 13000, cuMemcpy3DBatchAsync_v2_ptsz 13000],
        cuStreamBatchMemOp [cuStreamBatchMemOp 8000, cuStreamBatchMemOp_ptsz 8000,
            cuStreamBatchMemOp_v2 11070, cuStreamBatchMemOp_v2_ptsz 11070],
        cuStreamWaitValue32 [cuStreamWaitValue32 8000, cuStreamWaitValue32_ptsz 8000,
            cuStreamWaitValue32_v2 11070, cuStreamWaitValue32_v2_ptsz 11070],
        cuStreamWaitValue64 [cuStreamWaitValue64 9000, cuStreamWaitValue64_ptsz 9000,
            cuStreamWaitValue64_v2 11070, cuStreamWaitValue64_v2_ptsz 11070],
        cuMemBatchDecompressAsync [cuMemBatchDecompressAsync 12060, cuMemBatchDecompressAsync_ptsz 12060],
        cuMemMapArrayAsync [cuMemMapArrayAsync 11010, cuMemMapArrayAsync_ptsz 11010];
}
