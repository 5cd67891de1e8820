//! `cuGetProcAddress`: the driver answers, and its answer is replaced by the wrapper of exactly the form that it chose.

use crate::{arguments::out, driver, types::*, wrappers};
use hooks::{HOOKS, Hook};
use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Asks for the form of the calling thread's default stream (`CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`).
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// Answers for wrapped names that have no wrapper.
static UNKNOWN: AtomicU64 = AtomicU64::new(0);

/// How often the driver found a form of a wrapped function that the hook list does not know, as a newer form. Calls
/// through it go by unseen.
pub fn unknown() -> u64 {
    UNKNOWN.load(Ordering::Relaxed)
}

/// What a program asks, and where it wants the answer.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    pub symbol: *const c_char,
    pub address: *mut *mut c_void,
    /// CUDA version that the program was written for: 1000 * major + 10 * minor.
    pub version: c_int,
    pub flags: u64,
}

/// Passes the question on as it is, and replaces the address in the answer; the rest of the answer stays.
pub fn answer(question: Question, real: impl FnOnce() -> CUresult) -> CUresult {
    let result = real();
    // SAFETY: null, or where the driver has just written its answer.
    let found =
        result.is_success().then(|| unsafe { out(question.address) }).flatten().and_then(NonNull::new);
    if let Some(found) = found {
        // By the address first: that is what the driver chose, whatever the name.
        if let Some(hook) = driver::hook_at(found).or_else(|| by_name(&question, found)) {
            // SAFETY: not null, as above.
            unsafe { *question.address = wrappers::address(hook) };
        }
    }
    result
}

/// The form that is meant, for a driver that answers with a function inside it which is none of its exports.
fn by_name(question: &Question, found: NonNull<c_void>) -> Option<Hook> {
    if question.symbol.is_null() {
        return None;
    }
    // SAFETY: the driver found a function of this name.
    let name = unsafe { CStr::from_ptr(question.symbol) }.to_bytes();
    if !HOOKS.iter().any(|entry| entry.base().as_bytes() == name) {
        return None;
    }
    let version = u32::try_from(question.version).ok()?;
    let per_thread = question.flags & PER_THREAD_DEFAULT_STREAM != 0;
    let meant = Hook::meant(name, version, per_thread, |hook| driver::loaded(hook).is_some());
    if is_export(found) || meant.is_none() {
        // An export of another name is a form of its own.
        UNKNOWN.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    meant
}

/// Whether an exported symbol of some library begins at this address.
fn is_export(address: NonNull<c_void>) -> bool {
    let mut info = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: room for the answer; any address may be asked for.
    unsafe { libc::dladdr(address.as_ptr(), &raw mut info) != 0 && info.dli_saddr == address.as_ptr() }
}
