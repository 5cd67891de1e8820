//! Every wrapper, called in this process over a driver made from the hook list: through which door it goes, that the driver
//! is called exactly once and its answer comes back, and that null pointers do no harm.

#[path = "it/build.rs"]
#[allow(dead_code, reason = "this test needs no programs")]
mod build;

use hooks::{Hook, Kind};
use std::ffi::CString;
use tally_interpose::admit;
use tally_interpose::types::*;
use tally_interpose::wrappers;

/// Zeros that pointers point to while another argument is null.
static mut ROOM: [[u64; 512]; 16] = [[0; 512]; 16];

/// An argument that isn't null: numbers are 1, pointers point to zeros, handles are never looked into.
trait Sample: Sized {
    fn sample(place: usize) -> Self;
    fn null() -> Self {
        // SAFETY: every implementer is a number or a pointer.
        unsafe { std::mem::zeroed() }
    }
}

impl<T> Sample for *mut T {
    fn sample(place: usize) -> Self {
        // SAFETY: an address within the array.
        unsafe { (&raw mut ROOM).cast::<[u64; 512]>().add(place).cast() }
    }
}

impl<T> Sample for *const T {
    fn sample(place: usize) -> Self {
        <*mut T>::sample(place)
    }
}

macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl Sample for $type {
            fn sample(_: usize) -> Self { 1 }
        }
    )+};
}
numbers!(u8 u16 u32 u64 usize i32);

macro_rules! handles {
    ($($type:ident)+) => {$(
        impl Sample for $type {
            fn sample(place: usize) -> Self { $type(<*mut c_void>::sample(place)) }
        }
    )+};
}
handles!(CUfunction CUkernel CUmodule CUlibrary CUstream CUevent CUcontext CUgreenCtx CUarray CUgraph CUgraphExec);

impl Sample for CUmemLocation {
    fn sample(_: usize) -> Self {
        CUmemLocation { kind: 1, id: 0 }
    }
}

/// Calls a wrapper with the argument at `null` zero, or all of them; says whether there is such an argument.
type Call = fn(null: Option<usize>) -> (usize, CUresult);

macro_rules! calls {
    (@one $name:ident ($($argument:ident: $type:ty),*)) => {{
        #[allow(unused_assignments, unused_mut, unused_variables, reason = "one of the calls has no arguments")]
        fn call(null: Option<usize>) -> (usize, CUresult) {
            let mut place = 0;
            $(
                let $argument = if null.is_none_or(|null| null == place) {
                    <$type>::null()
                } else {
                    <$type>::sample(place)
                };
                place += 1;
            )*
            // SAFETY: the driver of this test reads nothing but what the samples hold.
            (place, unsafe { wrappers::$name($($argument),*) })
        }
        call as Call
    }};
    ($($kind:ident [$($since:literal $name:ident),+] $arguments:tt => $what:expr;)+) => {
        [$($((Hook::$name, calls!(@one $name $arguments))),+),+]
    };
}

struct Driver {
    calls: *const [u64; 512],
    result: *mut i32,
}

impl Driver {
    /// Builds the driver and names it in the environment, before any wrapper is called.
    fn open(folder: &build::Folder) -> Driver {
        let path = folder.path().join("libcuda.so.1");
        // SAFETY: the only test of this process, before it starts anything.
        unsafe {
            std::env::set_var("TALLY_SOCKET", "/nonexistent/socket");
            std::env::set_var("TALLY_START_LIMIT_MS", "100");
            std::env::set_var("TALLY_PRIORITY", "high");
            std::env::set_var("TALLY_DRIVER", &path);
        }
        let path = CString::new(path.to_str().expect("UTF-8")).expect("no zero");
        // SAFETY: names and path end with a zero; the symbols are the driver's variables.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!handle.is_null());
            Driver {
                calls: libc::dlsym(handle, c"stub_calls".as_ptr()).cast(),
                result: libc::dlsym(handle, c"stub_result".as_ptr()).cast(),
            }
        }
    }

    fn calls(&self, hook: Hook) -> u64 {
        // SAFETY: the driver's counters.
        unsafe { (*self.calls)[hook as usize] }
    }

    fn answer(&self, result: i32) {
        // SAFETY: the driver's variable.
        unsafe { *self.result = result };
    }
}

#[test]
fn every_wrapper_goes_through_its_door_and_calls_the_driver_once() {
    let folder = build::Folder::new();
    let driver = Driver::open(&folder);
    let calls: [(Hook, Call); Hook::COUNT] = hooks::hooks!(calls);
    for (hook, call) in calls {
        let kind = hook.entry().kind;
        let mut made = 0;
        // An answer of its own for each symbol, so that it can't be another's; then success, which is when wrappers read
        // what the driver wrote.
        for result in [700 + hook as i32, 0] {
            driver.answer(result);
            let (arguments, _) = call(None);
            for null in (0..arguments).map(Some).chain([None, Some(usize::MAX)]) {
                let (_, answer) = call(null);
                if kind != Kind::Lookup {
                    assert_eq!(answer, CUresult(result), "{hook:?} with argument {null:?} null");
                }
                made += 1;
            }
            made += 1;
        }
        assert_eq!(driver.calls(hook), made, "{hook:?} calls the driver once");
        // Waiting for a context that isn't current says nothing.
        if matches!(kind, Kind::Launch | Kind::Copy | Kind::Wait) && hook != Hook::cuCtxSynchronize_v2 {
            assert_eq!(admit::calls(hook), made, "{hook:?} goes through its door");
        }
    }
    assert_eq!(wrappers::panics(), 0);
}
