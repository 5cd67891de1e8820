//! CUDA's types as the wrappers need them. Layouts: `cuda.h` of CUDA 12.9 and 13.5 (they are equal in both).

#![allow(non_camel_case_types, reason = "CUDA's names")]

pub use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

/// Handles that are distinct to the compiler and pointers to the driver.
macro_rules! handles {
    ($($name:ident)+) => {$(
        #[doc = concat!("An opaque `", stringify!($name), "`.")]
        #[repr(transparent)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub *mut c_void);

        impl $name {
            pub const NULL: $name = $name(std::ptr::null_mut());

            pub fn is_null(self) -> bool {
                self.0.is_null()
            }
        }

        // SAFETY: a handle is a name that the driver gives meaning to; the driver's functions may be called from any
        // thread with it, and nothing here looks behind it.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}
    )+};
}

handles! {
    CUfunction CUkernel CUmodule CUlibrary CUstream CUevent CUcontext CUgreenCtx CUarray CUgraph CUgraphNode CUgraphExec
}

/// The legacy default stream by its own name (`CU_STREAM_LEGACY`).
pub const LEGACY: CUstream = CUstream(std::ptr::without_provenance_mut(1));
/// The calling thread's default stream (`CU_STREAM_PER_THREAD`).
pub const PER_THREAD: CUstream = CUstream(std::ptr::without_provenance_mut(2));

pub type CUdevice = c_int;
/// An address of the device since CUDA 3.2; before it was 32 bits wide.
pub type CUdeviceptr = c_ulonglong;
pub type CUhostFn = *mut c_void;
pub type CUstreamCallback = *mut c_void;

/// What a driver call returns; 0 is success.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUresult(pub c_int);

impl CUresult {
    pub const SUCCESS: CUresult = CUresult(0);
    pub const INVALID_VALUE: CUresult = CUresult(1);
    pub const NOT_FOUND: CUresult = CUresult(500);
    pub const NOT_READY: CUresult = CUresult(600);
    pub const STREAM_CAPTURE_INVALIDATED: CUresult = CUresult(901);
    pub const STREAM_CAPTURE_UNJOINED: CUresult = CUresult(904);

    pub fn is_success(self) -> bool {
        self == CUresult::SUCCESS
    }
}

/// What cuLaunchKernelEx is given; the attributes are passed on unread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUlaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    /// Bytes.
    pub shared: c_uint,
    pub stream: CUstream,
    pub attributes: *mut c_void,
    pub attribute_count: c_uint,
}

/// One device's part of cuLaunchCooperativeKernelMultiDevice.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_LAUNCH_PARAMS {
    pub function: CUfunction,
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    /// Bytes.
    pub shared: c_uint,
    pub stream: CUstream,
    pub params: *mut *mut c_void,
}

/// `CUmemorytype` of ordinary host memory.
pub const MEMORY_HOST: c_uint = 1;

/// A copy of a plane. Sizes are bytes, heights are rows.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY2D {
    pub from_x: usize,
    pub from_y: usize,
    pub from_type: c_uint,
    pub from_host: *const c_void,
    pub from_device: CUdeviceptr,
    pub from_array: CUarray,
    pub from_pitch: usize,
    pub to_x: usize,
    pub to_y: usize,
    pub to_type: c_uint,
    pub to_host: *mut c_void,
    pub to_device: CUdeviceptr,
    pub to_array: CUarray,
    pub to_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// [`CUDA_MEMCPY2D`] with 32-bit sizes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY2D_v1 {
    pub from_x: c_uint,
    pub from_y: c_uint,
    pub from_type: c_uint,
    pub from_host: *const c_void,
    pub from_device: c_uint,
    pub from_array: CUarray,
    pub from_pitch: c_uint,
    pub to_x: c_uint,
    pub to_y: c_uint,
    pub to_type: c_uint,
    pub to_host: *mut c_void,
    pub to_device: c_uint,
    pub to_array: CUarray,
    pub to_pitch: c_uint,
    pub width: c_uint,
    pub height: c_uint,
}

/// A copy of a volume. Sizes are bytes, heights rows, depths slices.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY3D {
    pub from_x: usize,
    pub from_y: usize,
    pub from_z: usize,
    pub from_lod: usize,
    pub from_type: c_uint,
    pub from_host: *const c_void,
    pub from_device: CUdeviceptr,
    pub from_array: CUarray,
    /// A context in the form between two devices, else reserved.
    pub from_context: *mut c_void,
    pub from_pitch: usize,
    pub from_height: usize,
    pub to_x: usize,
    pub to_y: usize,
    pub to_z: usize,
    pub to_lod: usize,
    pub to_type: c_uint,
    pub to_host: *mut c_void,
    pub to_device: CUdeviceptr,
    pub to_array: CUarray,
    pub to_context: *mut c_void,
    pub to_pitch: usize,
    pub to_height: usize,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// Between two devices: the same layout.
pub type CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D;

/// [`CUDA_MEMCPY3D`] with 32-bit sizes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY3D_v1 {
    pub from_x: c_uint,
    pub from_y: c_uint,
    pub from_z: c_uint,
    pub from_lod: c_uint,
    pub from_type: c_uint,
    pub from_host: *const c_void,
    pub from_device: c_uint,
    pub from_array: CUarray,
    pub from_reserved: *mut c_void,
    pub from_pitch: c_uint,
    pub from_height: c_uint,
    pub to_x: c_uint,
    pub to_y: c_uint,
    pub to_z: c_uint,
    pub to_lod: c_uint,
    pub to_type: c_uint,
    pub to_host: *mut c_void,
    pub to_device: c_uint,
    pub to_array: CUarray,
    pub to_reserved: *mut c_void,
    pub to_pitch: c_uint,
    pub to_height: c_uint,
    pub width: c_uint,
    pub height: c_uint,
    pub depth: c_uint,
}

/// One copy of a batch: both ends are 40 bytes that nothing here reads.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUDA_MEMCPY3D_BATCH_OP {
    pub ends: [[u64; 5]; 2],
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub order: c_uint,
    pub flags: c_uint,
}

/// One buffer of cuMemBatchDecompressAsync.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemDecompressParams {
    pub from_bytes: usize,
    pub to_bytes: usize,
    pub rest: [u64; 6],
}

/// Passed by value: two words of 32 bits.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CUmemLocation {
    pub kind: c_uint,
    pub id: c_int,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Printed by a C program that includes cuda.h.
    #[test]
    fn layouts_are_those_of_cuda_h() {
        assert_eq!(size_of::<CUlaunchConfig>(), 56);
        assert_eq!(offset_of!(CUlaunchConfig, shared), 24);
        assert_eq!(offset_of!(CUlaunchConfig, stream), 32);
        assert_eq!(size_of::<CUDA_LAUNCH_PARAMS>(), 56);
        assert_eq!(offset_of!(CUDA_LAUNCH_PARAMS, stream), 40);
        assert_eq!(size_of::<CUDA_MEMCPY2D>(), 128);
        assert_eq!(offset_of!(CUDA_MEMCPY2D, from_type), 16);
        assert_eq!(offset_of!(CUDA_MEMCPY2D, to_type), 72);
        assert_eq!(offset_of!(CUDA_MEMCPY2D, width), 112);
        assert_eq!(size_of::<CUDA_MEMCPY2D_v1>(), 96);
        assert_eq!(offset_of!(CUDA_MEMCPY2D_v1, from_type), 8);
        assert_eq!(offset_of!(CUDA_MEMCPY2D_v1, to_type), 52);
        assert_eq!(offset_of!(CUDA_MEMCPY2D_v1, width), 84);
        assert_eq!(size_of::<CUDA_MEMCPY3D>(), 200);
        assert_eq!(offset_of!(CUDA_MEMCPY3D, from_type), 32);
        assert_eq!(offset_of!(CUDA_MEMCPY3D, to_type), 120);
        assert_eq!(offset_of!(CUDA_MEMCPY3D, width), 176);
        assert_eq!(size_of::<CUDA_MEMCPY3D_v1>(), 144);
        assert_eq!(offset_of!(CUDA_MEMCPY3D_v1, from_type), 16);
        assert_eq!(offset_of!(CUDA_MEMCPY3D_v1, to_type), 80);
        assert_eq!(offset_of!(CUDA_MEMCPY3D_v1, width), 128);
        assert_eq!(size_of::<CUDA_MEMCPY3D_BATCH_OP>(), 112);
        assert_eq!(offset_of!(CUDA_MEMCPY3D_BATCH_OP, width), 80);
        assert_eq!(size_of::<CUmemDecompressParams>(), 64);
        assert_eq!(size_of::<CUmemLocation>(), 8);
    }
}
