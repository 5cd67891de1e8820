//! The interface's types that calls read or write. Layouts: `cuda.h` 13.0, x86-64.

use std::ffi::c_void;

/// `CUresult`.
pub type Status = i32;
/// Any handle of the driver. Numbers of ours, never followed.
pub type Handle = usize;
/// `CUdeviceptr` of the second generation of the interface; here an address of host memory.
pub type DevicePtr = usize;
/// `CUhostFn`.
pub type HostFn = Option<unsafe extern "C" fn(*mut c_void)>;
/// `CUstreamCallback`.
pub type StreamCallback = Option<unsafe extern "C" fn(Handle, Status, *mut c_void)>;

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: Handle,
    pub attributes: *const c_void,
    pub attribute_count: u32,
}

/// Bytes of one `CUlaunchAttribute`: identifier, padding to 8, a union of 64.
pub const LAUNCH_ATTRIBUTE_BYTES: usize = 72;

/// `CUDA_LAUNCH_PARAMS`, of a cooperative launch on several devices.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchParams {
    pub function: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: Handle,
    pub parameters: *mut *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`; the first version ends before `kernel`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParams {
    pub function: Handle,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub parameters: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kernel: Handle,
    pub context: Handle,
}

/// One side of `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side2d {
    pub x: usize,
    pub y: usize,
    pub kind: u32,
    pub host: usize,
    pub device: DevicePtr,
    pub array: Handle,
    pub pitch: usize,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy2d {
    pub source: Side2d,
    pub target: Side2d,
    pub width: usize,
    pub height: usize,
}

/// One side of `CUDA_MEMCPY3D` and of `CUDA_MEMCPY3D_PEER`, which has a context where the former has a reserved word.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side3d {
    pub x: usize,
    pub y: usize,
    pub z: usize,
    pub lod: usize,
    pub kind: u32,
    pub host: usize,
    pub device: DevicePtr,
    pub array: Handle,
    pub context: Handle,
    pub pitch: usize,
    pub height: usize,
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy3d {
    pub source: Side3d,
    pub target: Side3d,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes as a C compiler gives them for the structures of `cuda.h` 13.0.
    #[test]
    fn layouts() {
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(size_of::<LaunchParams>(), 56);
        assert_eq!(size_of::<KernelNodeParams>(), 72);
        assert_eq!(size_of::<Memcpy2d>(), 128);
        assert_eq!(size_of::<Memcpy3d>(), 200);
    }
}
