//! The real driver: where it is, and its functions.

use crate::{lookup, types::*};
use hooks::Hook;
use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

const SONAME: &CStr = c"libcuda.so.1";

/// Path of the driver's library, for when none is loaded under its usual name or this library has that name itself.
const PATH: &CStr = c"TALLY_DRIVER";

/// Where distributions, containers and the Linux subsystem of Windows put the driver, in the order of the loader's search.
const FOLDERS: [&CStr; 9] = [
    #[cfg(target_arch = "x86_64")]
    c"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    #[cfg(target_arch = "x86_64")]
    c"/lib/x86_64-linux-gnu/libcuda.so.1",
    #[cfg(target_arch = "aarch64")]
    c"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    #[cfg(target_arch = "aarch64")]
    c"/lib/aarch64-linux-gnu/libcuda.so.1",
    c"/usr/lib64/libcuda.so.1",
    c"/lib64/libcuda.so.1",
    c"/usr/lib/libcuda.so.1",
    c"/usr/lib/wsl/lib/libcuda.so.1",
    c"/usr/local/nvidia/lib64/libcuda.so.1",
    c"/usr/local/nvidia/lib/libcuda.so.1",
    c"/run/opengl-driver/lib/libcuda.so.1",
];

/// The driver's handle. Written by whoever comes first; opening it twice gives the same handle.
static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Addresses of the wrapped functions, by hook.
static REAL: [AtomicPtr<c_void>; Hook::COUNT] = [const { AtomicPtr::new(ptr::null_mut()) }; Hook::COUNT];

/// All of [`REAL`] that there are have been looked up.
static COMPLETE: AtomicBool = AtomicBool::new(false);

/// Opens a library, or finds it with `RTLD_NOLOAD`; never this one.
fn open(path: &CStr, flags: c_int) -> Option<NonNull<c_void>> {
    // SAFETY: the path ends with a zero.
    let handle =
        NonNull::new(unsafe { libc::dlopen(path.as_ptr(), flags | libc::RTLD_LAZY | libc::RTLD_LOCAL) })?;
    (!is_this_library(handle)).then_some(handle)
}

/// The shim has the driver's name: what is found under it may be the shim.
fn is_this_library(handle: NonNull<c_void>) -> bool {
    let mut own = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    let mut map: *mut *mut c_void = ptr::null_mut();
    // SAFETY: the address of something in this library, and room for the answer.
    let known = unsafe { libc::dladdr((&raw const HANDLE).cast(), &raw mut own) } != 0;
    // SAFETY: a handle from dlopen, and room for the answer, which is a `struct link_map *`.
    let answered =
        unsafe { libc::dlinfo(handle.as_ptr(), libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) } == 0;
    // SAFETY: the first field of `struct link_map` is the address at which the object is loaded.
    known && answered && !map.is_null() && unsafe { *map } == own.dli_fbase
}

/// The driver if it is loaded already.
fn present() -> Option<NonNull<c_void>> {
    let known = NonNull::new(HANDLE.load(Ordering::Acquire));
    known.or_else(|| open(SONAME, libc::RTLD_NOLOAD).inspect(remember))
}

fn remember(handle: &NonNull<c_void>) {
    HANDLE.store(handle.as_ptr(), Ordering::Release);
}

/// The handle of the driver, which is opened if need be: what is loaded under its name; else what `TALLY_DRIVER` names;
/// else what the loader finds under its name; else, if that is this library, the first in the usual folders.
pub fn handle() -> Option<NonNull<c_void>> {
    present().or_else(|| {
        let named = crate::variable(PATH).and_then(|path| open(path, 0));
        let found =
            named.or_else(|| open(SONAME, 0)).or_else(|| FOLDERS.iter().find_map(|path| open(path, 0)));
        match found {
            Some(handle) => remember(&handle),
            None => missing(),
        }
        found
    })
}

#[cold]
fn missing() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        crate::say(c"tally: no libcuda.so.1 can be opened; TALLY_DRIVER=<path> names one\n");
    }
}

/// The real function of a hook, from the driver, which is opened if need be.
#[inline]
pub fn real(hook: Hook) -> Option<NonNull<c_void>> {
    NonNull::new(REAL[hook as usize].load(Ordering::Acquire)).or_else(|| find(hook, handle()))
}

/// The real function of a hook, if the driver is loaded.
pub fn loaded(hook: Hook) -> Option<NonNull<c_void>> {
    NonNull::new(REAL[hook as usize].load(Ordering::Acquire)).or_else(|| find(hook, present()))
}

#[cold]
fn find(hook: Hook, handle: Option<NonNull<c_void>>) -> Option<NonNull<c_void>> {
    let mut name = [0; 64];
    let bytes = hook.name().as_bytes();
    name[..bytes.len()].copy_from_slice(bytes);
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    lookup::dlsym(handle?, name).inspect(|found| REAL[hook as usize].store(found.as_ptr(), Ordering::Release))
}

/// The hook whose real function is at this address.
pub fn hook_at(address: NonNull<c_void>) -> Option<Hook> {
    if !COMPLETE.load(Ordering::Acquire) {
        let all = Hook::all().filter(|&hook| loaded(hook).is_some()).count();
        COMPLETE.store(all > 0, Ordering::Release);
    }
    Hook::all().find(|&hook| REAL[hook as usize].load(Ordering::Relaxed) == address.as_ptr())
}

/// The real function of any symbol of the driver, for those that have no hook.
pub fn symbol(slot: &AtomicPtr<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    NonNull::new(slot.load(Ordering::Acquire)).or_else(|| {
        let found = lookup::dlsym(handle()?, name)?;
        slot.store(found.as_ptr(), Ordering::Release);
        Some(found)
    })
}

/// Functions that call the driver behind the wrappers.
macro_rules! calls {
    ($($name:ident ( $($argument:ident: $type:ty),* );)+) => {$(
        #[doc = concat!("The driver's `", stringify!($name), "`; `NOT_FOUND` if this driver has none.")]
        ///
        /// # Safety
        /// As the driver's function.
        #[allow(non_snake_case, reason = "CUDA's name")]
        pub unsafe fn $name($($argument: $type),*) -> CUresult {
            static SLOT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            };
            let Some(function) = symbol(&SLOT, NAME) else {
                return CUresult::NOT_FOUND;
            };
            // SAFETY: the driver's function of this name has this signature.
            let function: unsafe extern "C" fn($($type),*) -> CUresult = unsafe { std::mem::transmute(function) };
            // SAFETY: the caller's promise.
            unsafe { function($($argument),*) }
        }
    )+};
}

calls! {
    cuCtxGetCurrent(context: *mut CUcontext);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    cuCtxGetDevice(device: *mut CUdevice);
    cuCtxGetId(context: CUcontext, id: *mut c_ulonglong);
    cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: CUdevice);
    cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice);
    cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: CUdevice);
    cuDriverGetVersion(version: *mut c_int);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventQuery(event: CUevent);
    cuEventSynchronize(event: CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, from: CUevent, to: CUevent);
    cuStreamQuery(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuStreamGetFlags(stream: CUstream, flags: *mut c_uint);
    cuStreamGetCtx(stream: CUstream, context: *mut CUcontext);
    cuStreamGetId(stream: CUstream, id: *mut c_ulonglong);
    cuStreamGetPriority(stream: CUstream, priority: *mut c_int);
    cuStreamIsCapturing(stream: CUstream, status: *mut c_uint);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: CUfunction);
    cuFuncGetModule(module: *mut CUmodule, function: CUfunction);
    cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
    cuKernelGetName(name: *mut *const c_char, kernel: CUkernel);
    cuKernelGetLibrary(library: *mut CUlibrary, kernel: CUkernel);
    cuLibraryGetKernelCount(count: *mut c_uint, library: CUlibrary);
    cuModuleGetFunctionCount(count: *mut c_uint, module: CUmodule);
    cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    cuGraphNodeGetType(node: CUgraphNode, kind: *mut c_uint);
    cuGraphKernelNodeGetParams_v2(node: CUgraphNode, parameters: *mut c_void);
}
