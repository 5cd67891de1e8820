//! A library that stands in for `libcuda.so.1`, for programs that drop `LD_PRELOAD`: found first on the search path, it
//! passes every call on to the real driver, the wrapped ones through the interposer's wrappers.
//!
//! The real driver is the one that `TALLY_DRIVER` names, else the first that is not this library in the usual folders.
//! It is opened at the first call. A function that the real driver lacks is found here all the same and answers
//! `CUDA_ERROR_NOT_FOUND`; `cuGetProcAddress` answers as the real driver does. The interposer's `dlsym` and `dlvsym` are
//! exported here as well; a program that is linked with the driver gets them, and they change nothing for it.
//!
//! **Invariant:** a call that has no wrapper reaches the real driver with registers and stack as they were.

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("only Linux with glibc, on x86-64 and aarch64");

mod names;

use names::names;
use std::arch::naked_asm;
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
// The wrappers, which this library exports as well.
use tally_interpose::{driver, types::CUresult};

/// Where each call goes: null until it was looked up.
static TARGETS: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

/// Stands for a function that the driver lacks.
extern "C" fn not_found() -> CUresult {
    CUresult::NOT_FOUND
}

/// Where calls of a name go. What the driver lacks is remembered, a driver that can't be opened is tried again.
unsafe extern "C" fn resolve(index: usize) -> *mut c_void {
    let name = NAMES[index];
    driver::symbol(&TARGETS[index], name).map_or_else(
        || {
            let absent = not_found as extern "C" fn() -> CUresult as *mut c_void;
            if driver::handle().is_some() {
                TARGETS[index].store(absent, Ordering::Release);
            }
            absent
        },
        ptr::NonNull::as_ptr,
    )
}

/// Looks a target up with all registers that carry arguments kept, and goes there. The index comes in a register that
/// carries none.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, 128",
        "movaps [rsp], xmm0",
        "movaps [rsp + 16], xmm1",
        "movaps [rsp + 32], xmm2",
        "movaps [rsp + 48], xmm3",
        "movaps [rsp + 64], xmm4",
        "movaps [rsp + 80], xmm5",
        "movaps [rsp + 96], xmm6",
        "movaps [rsp + 112], xmm7",
        "mov rdi, r11",
        "call {resolve}",
        "mov r11, rax",
        "movaps xmm0, [rsp]",
        "movaps xmm1, [rsp + 16]",
        "movaps xmm2, [rsp + 32]",
        "movaps xmm3, [rsp + 48]",
        "movaps xmm4, [rsp + 64]",
        "movaps xmm5, [rsp + 80]",
        "movaps xmm6, [rsp + 96]",
        "movaps xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        resolve = sym resolve,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        "stp x29, x30, [sp, #-208]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "stp q0, q1, [sp, #80]",
        "stp q2, q3, [sp, #112]",
        "stp q4, q5, [sp, #144]",
        "stp q6, q7, [sp, #176]",
        "mov x0, x17",
        "bl {resolve}",
        "mov x16, x0",
        "ldp q6, q7, [sp, #176]",
        "ldp q4, q5, [sp, #144]",
        "ldp q2, q3, [sp, #112]",
        "ldp q0, q1, [sp, #80]",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #208",
        "br x16",
        resolve = sym resolve,
    )
}

macro_rules! trampolines {
    ($($name:ident)+) => {
        /// The functions that have no wrapper, in the order of their targets.
        const NAMES: &[&CStr] = &[$(
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name holds a zero"),
            }
        ),+];

        #[allow(non_camel_case_types, reason = "the driver's names")]
        enum Index { $($name),+ }

        /// The exports: each goes to its target, or finds it.
        #[allow(non_snake_case, reason = "the driver's names")]
        mod exports {
            use super::*;
            $(
                /// # Safety
                /// As the driver's function of this name.
                #[cfg(target_arch = "x86_64")]
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $name() {
                    naked_asm!(
                        "endbr64",
                        "mov r11, qword ptr [rip + {targets} + {offset}]",
                        "test r11, r11",
                        "jz 2f",
                        "jmp r11",
                        "2: mov r11d, {index}",
                        "jmp {first_call}",
                        targets = sym TARGETS,
                        offset = const { 8 * Index::$name as usize },
                        index = const { Index::$name as usize },
                        first_call = sym first_call,
                    )
                }

                /// # Safety
                /// As the driver's function of this name.
                #[cfg(target_arch = "aarch64")]
                #[unsafe(naked)]
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $name() {
                    naked_asm!(
                        "hint #34", // bti c
                        "adrp x16, {targets} + {offset}",
                        "ldr x16, [x16, :lo12:{targets} + {offset}]",
                        "cbz x16, 2f",
                        "br x16",
                        "2: mov w17, #{index}",
                        "b {first_call}",
                        targets = sym TARGETS,
                        offset = const { 8 * Index::$name as usize },
                        index = const { Index::$name as usize },
                        first_call = sym first_call,
                    )
                }
            )+
        }
    };
}

names!(trampolines);
