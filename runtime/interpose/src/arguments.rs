//! What the expressions of the hook list are made of: reads arguments as far as the driver itself would.
//!
//! A null pointer is passed on to the driver, which answers; here it counts as no work.

use crate::admit::{Note, Wait, Work};
use crate::{driver, types::*};

/// A synchronous copy or memset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    pub bytes: u64,
    /// From the host's memory.
    pub from_host: bool,
    /// Into the host's memory: the call returns when the copy is complete.
    pub to_host: bool,
}

impl Copy {
    pub fn inside(bytes: usize) -> Copy {
        Copy { bytes: bytes as u64, from_host: false, to_host: false }
    }

    pub fn from_host(bytes: usize) -> Copy {
        Copy { from_host: true, ..Copy::inside(bytes) }
    }

    pub fn to_host(bytes: usize) -> Copy {
        Copy { to_host: true, ..Copy::inside(bytes) }
    }

    /// From memory of one `CUmemorytype` to that of another.
    fn between(from: c_uint, to: c_uint, bytes: usize) -> Copy {
        Copy { bytes: bytes as u64, from_host: from == MEMORY_HOST, to_host: to == MEMORY_HOST }
    }

    pub fn work(self) -> Work {
        Work::Bytes { from_host: self.from_host, bytes: self.bytes }
    }
}

pub fn kernel(function: CUfunction, grid: [u32; 3], block: [u32; 3], shared: u32) -> Work {
    Work::Kernel { function, grid, block, shared }
}

/// Bytes that come from the host or may do so.
pub fn from_host(bytes: usize) -> Work {
    Copy::from_host(bytes).work()
}

/// Bytes that are moved or written on the device, or leave it.
pub fn inside(bytes: usize) -> Work {
    Copy::inside(bytes).work()
}

/// Bytes of `width * height` elements, at most all that there are.
pub fn area(width: usize, height: usize, size: usize) -> usize {
    width.saturating_mul(height).saturating_mul(size)
}

/// # Safety
/// `config` must be null or valid.
pub unsafe fn configured(config: *const CUlaunchConfig, function: CUfunction) -> (CUstream, Work) {
    // SAFETY: the caller's promise.
    match unsafe { config.as_ref() } {
        Some(config) => (config.stream, kernel(function, config.grid, config.block, config.shared)),
        None => (LEGACY, kernel(function, [0; 3], [0; 3], 0)),
    }
}

/// The first device's part stands for the launch.
///
/// # Safety
/// `list` must be null or hold `count` entries.
pub unsafe fn first_of(list: *const CUDA_LAUNCH_PARAMS, count: c_uint) -> (CUstream, Work) {
    // SAFETY: the caller's promise.
    match unsafe { list.as_ref() } {
        Some(first) if count > 0 => {
            (first.stream, kernel(first.function, first.grid, first.block, first.shared))
        }
        _ => (LEGACY, kernel(CUfunction::NULL, [0; 3], [0; 3], 0)),
    }
}

/// Sizes of a copy of a plane or a volume, in either width of integers.
pub trait Sizes {
    fn copy(&self) -> Copy;
}

impl Sizes for CUDA_MEMCPY2D {
    fn copy(&self) -> Copy {
        Copy::between(self.from_type, self.to_type, area(self.width, self.height, 1))
    }
}

impl Sizes for CUDA_MEMCPY2D_v1 {
    fn copy(&self) -> Copy {
        Copy::between(self.from_type, self.to_type, area(self.width as usize, self.height as usize, 1))
    }
}

impl Sizes for CUDA_MEMCPY3D {
    fn copy(&self) -> Copy {
        Copy::between(self.from_type, self.to_type, area(self.width, self.height, self.depth))
    }
}

impl Sizes for CUDA_MEMCPY3D_v1 {
    fn copy(&self) -> Copy {
        let bytes = area(self.width as usize, self.height as usize, self.depth as usize);
        Copy::between(self.from_type, self.to_type, bytes)
    }
}

/// # Safety
/// `copy` must be null or valid.
pub unsafe fn plane<S: Sizes>(copy: *const S) -> Copy {
    // SAFETY: the caller's promise.
    unsafe { copy.as_ref() }.map_or(Copy::inside(0), Sizes::copy)
}

/// # Safety
/// `copy` must be null or valid.
pub unsafe fn space<S: Sizes>(copy: *const S) -> Copy {
    // SAFETY: the caller's promise.
    unsafe { plane(copy) }
}

/// The list that an array and its length are; empty if the array is null.
///
/// # Safety
/// `first` must be null or hold `count` entries.
unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// Bytes of a batch.
///
/// # Safety
/// `sizes` must be null or hold `count` entries.
pub unsafe fn sum(sizes: *const usize, count: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { list(sizes, count) }.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
}

/// Bytes of a batch of volumes.
///
/// # Safety
/// `copies` must be null or hold `count` entries.
pub unsafe fn extents(copies: *const CUDA_MEMCPY3D_BATCH_OP, count: usize) -> usize {
    // SAFETY: the caller's promise.
    let copies = unsafe { list(copies, count) };
    copies.iter().fold(0, |sum, copy| sum.saturating_add(area(copy.width, copy.height, copy.depth)))
}

/// Bytes that a batch of decompressions writes.
///
/// # Safety
/// `buffers` must be null or hold `count` entries.
pub unsafe fn decompressed(buffers: *const CUmemDecompressParams, count: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { list(buffers, count) }.iter().fold(0, |sum, buffer| sum.saturating_add(buffer.to_bytes))
}

/// What waiting for a context is: nothing is known of contexts other than the calling thread's.
///
/// # Safety
/// `context` must be null or a context.
pub unsafe fn of_context(context: CUcontext) -> Option<Wait> {
    let mut current = CUcontext::NULL;
    // SAFETY: room for the answer.
    let is_current =
        || unsafe { driver::cuCtxGetCurrent(&raw mut current) }.is_success() && current == context;
    (context.is_null() || { is_current }()).then_some(Wait::Context)
}

/// What the driver wrote, after success.
///
/// # Safety
/// `pointer` must be null or valid.
pub unsafe fn out<T: std::marker::Copy>(pointer: *const T) -> Option<T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.copied()
}

/// # Safety
/// `functions` must be null or have been filled by the driver.
pub unsafe fn functions_of(functions: *const CUfunction, count: c_uint, module: CUmodule) -> Vec<Note> {
    let mut present = 0;
    // SAFETY: room for the answer.
    let known = unsafe { driver::cuModuleGetFunctionCount(&raw mut present, module) }.is_success();
    let count = if known { count.min(present) } else { 0 };
    // SAFETY: the driver filled as many as there are.
    let functions = unsafe { list(functions, count as usize) };
    functions
        .iter()
        .map(|&function| Note::FunctionFound { function, module, name: std::ptr::null() })
        .collect()
}

/// # Safety
/// `kernels` must be null or have been filled by the driver.
pub unsafe fn kernels_of(kernels: *const CUkernel, count: c_uint, library: CUlibrary) -> Vec<Note> {
    let mut present = 0;
    // SAFETY: room for the answer.
    let known = unsafe { driver::cuLibraryGetKernelCount(&raw mut present, library) }.is_success();
    let count = if known { count.min(present) } else { 0 };
    // SAFETY: the driver filled as many as there are.
    let kernels = unsafe { list(kernels, count as usize) };
    kernels.iter().map(|&kernel| Note::KernelFound { kernel, library, name: std::ptr::null() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null;

    #[test]
    fn null_arguments_are_no_work() {
        // SAFETY: null is allowed.
        unsafe {
            assert_eq!(plane(null::<CUDA_MEMCPY2D>()), Copy::inside(0));
            assert_eq!(space(null::<CUDA_MEMCPY3D>()), Copy::inside(0));
            assert_eq!(sum(null(), 7), 0);
            assert_eq!(extents(null(), 7), 0);
            assert_eq!(decompressed(null(), 7), 0);
            assert_eq!(out(null::<CUstream>()), None);
            assert!(matches!(
                configured(null(), CUfunction::NULL),
                (LEGACY, Work::Kernel { grid: [0, 0, 0], .. })
            ));
            assert!(matches!(first_of(null(), 2), (LEGACY, Work::Kernel { .. })));
        }
    }

    #[test]
    fn bytes_are_the_product_of_the_sides() {
        // SAFETY: all zeros is a valid copy.
        let mut copy: CUDA_MEMCPY3D = unsafe { std::mem::zeroed() };
        (copy.width, copy.height, copy.depth) = (10, 20, 30);
        (copy.from_type, copy.to_type) = (2, MEMORY_HOST);
        // SAFETY: valid.
        assert_eq!(unsafe { space(&copy) }, Copy::to_host(6000));
        // SAFETY: as above.
        let mut flat: CUDA_MEMCPY2D_v1 = unsafe { std::mem::zeroed() };
        (flat.width, flat.height, flat.from_type, flat.to_type) = (7, 3, MEMORY_HOST, 2);
        // SAFETY: valid.
        assert_eq!(unsafe { plane(&flat) }, Copy::from_host(21));
        assert_eq!(area(usize::MAX, 2, 4), usize::MAX);
        // SAFETY: three sizes.
        assert_eq!(unsafe { sum([1, 2, 3].as_ptr(), 3) }, 6);
    }

    #[test]
    fn a_launch_config_is_read_as_it_is() {
        let stream = CUstream(std::ptr::without_provenance_mut(64));
        let config = CUlaunchConfig {
            grid: [2, 3, 4],
            block: [32, 2, 1],
            shared: 1024,
            stream,
            attributes: std::ptr::null_mut(),
            attribute_count: 0,
        };
        // SAFETY: valid.
        let (found, work) = unsafe { configured(&config, CUfunction::NULL) };
        assert_eq!(found, stream);
        assert!(matches!(work, Work::Kernel { grid: [2, 3, 4], block: [32, 2, 1], shared: 1024, .. }));
    }
}
