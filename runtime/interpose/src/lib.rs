//! In front of the CUDA driver: a library that is preloaded into a program and sees its calls.
//!
//! Calls arrive in one of four ways: through symbols of the driver's names that this library exports ([`wrappers`]),
//! through `dlsym` and `dlvsym`, which it exports as well ([`lookup`]), and through `cuGetProcAddress`, which is one of
//! the wrapped functions. The list of what is wrapped is the crate `hooks`.
//!
//! **Invariants:** nothing runs when the library is loaded. Without `TALLY_SOCKET` in the environment the wrappers only
//! pass calls on. Real functions are found without going through an exported `dlsym` ([`elf`]), and no thread waits for
//! another to find them. A wrapper calls the real function exactly once, whatever happens in our code, and reads nothing
//! that the driver would not read. Every launch goes through [`admit::launch`].

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("only Linux with glibc, on x86-64 and aarch64");

pub mod activity;
pub mod admit;
mod arguments;
pub mod best_effort;
pub mod client;
pub mod device;
pub mod driver;
pub mod elf;
pub mod events;
pub mod flights;
pub mod helper;
pub mod image;
pub mod kernels;
pub mod log;
pub mod lookup;
pub mod profile;
pub mod question;
pub mod report;
pub mod streams;
pub mod turn;
pub mod types;
pub mod wrappers;

pub use hooks::{HOOKS, Hook, Kind};

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, Ordering};

/// The value of a variable of the environment, if it is there and not empty. Valid until the program changes it.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a value of the environment ends with a zero.
    Some(unsafe { CStr::from_ptr(value) }).filter(|value| !value.is_empty())
}

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether the program was started to be scheduled: `TALLY_SOCKET` is set. Looked up at the first call of a wrapper.
#[inline]
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        UNKNOWN => read_state(),
        state => state == ON,
    }
}

#[cold]
fn read_state() -> bool {
    let on = variable(c"TALLY_SOCKET").is_some();
    STATE.store(if on { ON } else { OFF }, Ordering::Relaxed);
    on
}

/// A line on stderr, without the allocator or a lock: the program may be in the middle of either.
pub(crate) fn say(line: &CStr) {
    let bytes = line.to_bytes();
    // SAFETY: as many bytes as the line has. Nobody could be told if stderr is closed.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}
