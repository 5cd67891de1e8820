//! Functions of CUDA 2 and 3 whose device addresses have 32 bits. A real driver still exports them for old programs; here
//! no address fits, so they are an invalid value.

use crate::entry::export;
use crate::error::Code;

macro_rules! refused {
    ($($name:ident $version:literal),* $(,)?) => {
        export! { $($name: [$name $version] () |_call| Err(Code::INVALID_VALUE);)* }
    };
}

refused! {
    cuMemAlloc 2000, cuMemAllocPitch 2000, cuMemFree 2000, cuMemGetInfo 2000, cuMemGetAddressRange 2000,
    cuMemAllocHost 2000, cuMemHostGetDevicePointer 2020, cuDeviceTotalMem 2000, cuCtxCreate 2000,
    cuMemcpyHtoD 2000, cuMemcpyDtoH 2000, cuMemcpyDtoD 2000, cuMemcpyHtoDAsync 2000, cuMemcpyDtoHAsync 2000,
    cuMemcpyDtoDAsync 3000, cuMemcpy2D 2000, cuMemcpy2DUnaligned 2000, cuMemcpy2DAsync 2000, cuMemcpy3D 2000,
    cuMemcpy3DAsync 2000, cuMemsetD8 2000, cuMemsetD16 2000, cuMemsetD32 2000, cuMemsetD2D8 2000,
    cuMemsetD2D16 2000, cuMemsetD2D32 2000,
}
