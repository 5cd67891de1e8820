//! `dlsym` and `dlvsym`: the real ones, and ours in front of them.
//!
//! Ours are exported, so that a preloaded library sees every look-up of the process. They answer themselves only when the
//! real answer is, by its address, one of the driver's functions that have a wrapper. Anything else goes to the real
//! function by a jump, with registers and return address as they were: it finds out by the return address who calls, and
//! `RTLD_NEXT` means "behind the caller".

use crate::{driver, elf, wrappers};
use hooks::Hook;
use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Dlvsym = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char) -> *mut c_void;

/// The real functions. Written by whoever comes first, always with the same values: nobody waits for anybody.
static DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static DLVSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The address in `slot`, or that of `name` in the C library: since glibc 2.34 in libc, before in libdl.
fn real(slot: &AtomicPtr<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    if let Some(known) = NonNull::new(slot.load(Ordering::Acquire)) {
        return Some(known);
    }
    let found = [c"libc.so.6", c"libdl.so.2"].into_iter().find_map(|file| elf::loaded(file)?.find(name))?;
    slot.store(found.as_ptr(), Ordering::Release);
    Some(found)
}

/// The real `dlsym`, called from here: for handles of objects, for which it does not matter who calls.
pub fn dlsym(handle: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    let function = real(&DLSYM, c"dlsym")?;
    // SAFETY: the C library's function of this name.
    let function: Dlsym = unsafe { std::mem::transmute(function) };
    // SAFETY: the name ends with a zero; a handle that is none makes the function return null.
    NonNull::new(unsafe { function(handle.as_ptr(), name.as_ptr()) })
}

/// The hook of a name, if it is one, and the handle is that of an object.
fn hook(handle: *mut c_void, name: *const c_char) -> Option<(NonNull<c_void>, Hook, &'static CStr)> {
    let object = NonNull::new(handle).filter(|handle| handle.as_ptr() != libc::RTLD_NEXT)?;
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's name ends with a zero; it is used during its call only.
    let name: &'static CStr = unsafe { CStr::from_ptr(name) };
    if !name.to_bytes().starts_with(b"cu") {
        return None;
    }
    Some((object, Hook::from_name(name.to_bytes())?, name))
}

/// The wrapper in place of the driver's function.
fn replaced(hook: Hook, found: Option<NonNull<c_void>>) -> *mut c_void {
    match (found, driver::loaded(hook)) {
        (Some(found), Some(real)) if found == real => wrappers::address(hook),
        _ => ptr::null_mut(),
    }
}

/// What our `dlsym` answers itself; null: the real one is to answer, and [`DLSYM`] is known.
unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if real(&DLSYM, c"dlsym").is_none() {
        missing();
    }
    hook(handle, name).map_or(ptr::null_mut(), |(object, hook, name)| replaced(hook, dlsym(object, name)))
}

/// The same for `dlvsym`.
unsafe extern "C" fn decide_version(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    let Some(function) = real(&DLVSYM, c"dlvsym") else {
        missing();
        return ptr::null_mut();
    };
    let Some((object, hook, _)) = hook(handle, name) else {
        return ptr::null_mut();
    };
    // SAFETY: the C library's function of this name.
    let function: Dlvsym = unsafe { std::mem::transmute(function) };
    // SAFETY: the caller's own arguments.
    replaced(hook, NonNull::new(unsafe { function(object.as_ptr(), name, version) }))
}

/// Without the real function nothing can be looked up any more, which a program takes for missing symbols.
#[cold]
fn missing() {
    crate::say(
        c"tally: neither libc.so.6 nor libdl.so.2 has dlsym; only glibc from 2.31 on is known to work\n",
    );
}

#[cfg(target_arch = "x86_64")]
mod exports {
    use super::*;

    /// The C library's `dlsym`, with our wrappers in place of the driver's functions.
    ///
    /// # Safety
    /// As the C library's.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        naked_asm!(
            "endbr64",
            "push rdi",
            "push rsi",
            "sub rsp, 8",
            "call {decide}",
            "add rsp, 8",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jnz 2f",
            "mov rax, qword ptr [rip + {real}]",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2: ret",
            decide = sym decide,
            real = sym DLSYM,
        )
    }

    /// The C library's `dlvsym`, with our wrappers in place of the driver's functions.
    ///
    /// # Safety
    /// As the C library's.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn dlvsym(
        handle: *mut c_void,
        name: *const c_char,
        version: *const c_char,
    ) -> *mut c_void {
        naked_asm!(
            "endbr64",
            "push rdi",
            "push rsi",
            "push rdx",
            "call {decide}",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jnz 2f",
            "mov rax, qword ptr [rip + {real}]",
            "test rax, rax",
            "jz 2f",
            "jmp rax",
            "2: ret",
            decide = sym decide_version,
            real = sym DLVSYM,
        )
    }
}

#[cfg(target_arch = "aarch64")]
mod exports {
    use super::*;

    /// The C library's `dlsym`, with our wrappers in place of the driver's functions.
    ///
    /// # Safety
    /// As the C library's.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        naked_asm!(
            "hint #34", // bti c
            "stp x29, x30, [sp, #-32]!",
            "stp x0, x1, [sp, #16]",
            "mov x29, sp",
            "bl {decide}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x29, x30, [sp], #32",
            "cbnz x16, 2f",
            "adrp x16, {real}",
            "ldr x16, [x16, :lo12:{real}]",
            "cbz x16, 2f",
            "br x16",
            "2: mov x0, x16",
            "ret",
            decide = sym decide,
            real = sym DLSYM,
        )
    }

    /// The C library's `dlvsym`, with our wrappers in place of the driver's functions.
    ///
    /// # Safety
    /// As the C library's.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn dlvsym(
        handle: *mut c_void,
        name: *const c_char,
        version: *const c_char,
    ) -> *mut c_void {
        naked_asm!(
            "hint #34", // bti c
            "stp x29, x30, [sp, #-48]!",
            "stp x0, x1, [sp, #16]",
            "str x2, [sp, #32]",
            "mov x29, sp",
            "bl {decide}",
            "mov x16, x0",
            "ldr x2, [sp, #32]",
            "ldp x0, x1, [sp, #16]",
            "ldp x29, x30, [sp], #48",
            "cbnz x16, 2f",
            "adrp x16, {real}",
            "ldr x16, [x16, :lo12:{real}]",
            "cbz x16, 2f",
            "br x16",
            "2: mov x0, x16",
            "ret",
            decide = sym decide_version,
            real = sym DLVSYM,
        )
    }
}
