//! The wrappers, exported under the driver's names: one per row and symbol of the hook list.
//!
//! A wrapper passes its arguments on as they are, and calls the real function exactly once. What differs between kinds is
//! in [`wrapper!`]: every launch and every copy goes through [`admit::launch`], and there is no other path to the real
//! function while this library is switched on.

use crate::admit::{self, Note, Unit, Wait, Work};
use crate::arguments::*;
use crate::question::{Question, answer};
use crate::{driver, is_on, types::*};
use hooks::Hook;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering};

/// Panics of our own code that wrappers caught.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many calls were passed on unscheduled since our own code panicked.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The real function with its arguments, and what it answered.
struct Once<R> {
    real: R,
    answer: Cell<Option<CUresult>>,
}

impl<R: Fn() -> CUresult> Once<R> {
    #[inline]
    fn call(&self) -> CUresult {
        let result = (self.real)();
        self.answer.set(Some(result));
        result
    }
}

/// Runs what a wrapper does around the real function. If that panics, the program still gets the driver's answer: the
/// panic does not cross into it, and the real function is called if it was not yet. Costs nothing while nothing panics.
#[inline]
fn guarded<R: Fn() -> CUresult>(real: R, body: impl FnOnce(&Once<R>) -> CUresult) -> CUresult {
    let once = Once { real, answer: Cell::new(None) };
    match catch_unwind(AssertUnwindSafe(|| body(&once))) {
        Ok(result) => result,
        Err(payload) => {
            // Dropping it could panic again.
            std::mem::forget(payload);
            PANICS.fetch_add(1, Ordering::Relaxed);
            once.answer.get().unwrap_or_else(|| once.call())
        }
    }
}

/// A stream's own name: the null stream is one of two.
#[inline]
fn home(hook: Hook, stream: CUstream) -> CUstream {
    match stream.is_null() {
        true if hook.entry().per_thread => PER_THREAD,
        true => LEGACY,
        false => stream,
    }
}

#[inline]
fn launch(hook: Hook, (stream, work): (CUstream, Work), real: impl FnOnce() -> CUresult) -> CUresult {
    admit::launch(&Unit { hook, stream: home(hook, stream), work }, real)
}

#[inline]
fn copy(hook: Hook, copy: Copy, real: impl FnOnce() -> CUresult) -> CUresult {
    let stream = home(hook, CUstream::NULL);
    let wait = if stream == LEGACY { Wait::Legacy } else { Wait::Stream(stream) };
    launch(
        hook,
        (stream, copy.work()),
        || {
            if copy.to_host { admit::waiting(hook, wait, real) } else { real() }
        },
    )
}

#[inline]
fn wait(hook: Hook, wait: impl Into<Option<Wait>>, real: impl FnOnce() -> CUresult) -> CUresult {
    let named = match wait.into() {
        Some(Wait::Stream(stream)) => Some(Wait::Stream(home(hook, stream))),
        Some(Wait::QueryStream(stream)) => Some(Wait::QueryStream(home(hook, stream))),
        other => other,
    };
    // The legacy default stream is more than a stream: others wait for it, and it for others.
    match named {
        Some(Wait::Stream(LEGACY)) => admit::waiting(hook, Wait::Legacy, real),
        Some(wait) => admit::waiting(hook, wait, real),
        None => real(),
    }
}

/// A note with its stream's own name.
fn at_home(hook: Hook, note: Note) -> Note {
    match note {
        Note::EventRecorded { event, stream } => Note::EventRecorded { event, stream: home(hook, stream) },
        Note::CaptureBegan(stream) => Note::CaptureBegan(home(hook, stream)),
        Note::CaptureEnded(stream) => Note::CaptureEnded(home(hook, stream)),
        other => other,
    }
}

fn begin(hook: Hook, (note, failure): (Note, Note), real: impl FnOnce() -> CUresult) -> CUresult {
    admit::note(at_home(hook, note));
    let result = real();
    if !result.is_success() {
        admit::note(at_home(hook, failure));
    } else if let Note::EventRecorded { event, .. } = note {
        admit::note(Note::EventTaken(event));
    }
    result
}

/// A capture has also ended when it turned out to be broken; other failures leave it as it was.
fn ended(hook: Hook, note: Note, real: impl FnOnce() -> CUresult) -> CUresult {
    let result = real();
    let broken = [CUresult::STREAM_CAPTURE_INVALIDATED, CUresult::STREAM_CAPTURE_UNJOINED];
    if result.is_success() || broken.contains(&result) {
        admit::note(at_home(hook, note));
    }
    result
}

fn made<N: IntoIterator<Item = Note>>(
    notes: impl FnOnce() -> N,
    real: impl FnOnce() -> CUresult,
) -> CUresult {
    let result = real();
    if result.is_success() {
        notes().into_iter().for_each(admit::note);
    }
    result
}

fn gone(note: Note, real: impl FnOnce() -> CUresult) -> CUresult {
    admit::note(note);
    real()
}

/// What the wrapper does with the expression of its kind.
macro_rules! around {
    (launch $hook:expr, $real:expr, $what:expr) => {
        launch($hook, $what(), $real)
    };
    (copy $hook:expr, $real:expr, $what:expr) => {
        copy($hook, $what(), $real)
    };
    (wait $hook:expr, $real:expr, $what:expr) => {
        wait($hook, $what(), $real)
    };
    (begin $hook:expr, $real:expr, $what:expr) => {
        begin($hook, $what(), $real)
    };
    (ended $hook:expr, $real:expr, $what:expr) => {
        ended($hook, $what(), $real)
    };
    (made $hook:expr, $real:expr, $what:expr) => {
        made($what, $real)
    };
    (gone $hook:expr, $real:expr, $what:expr) => {
        gone($what(), $real)
    };
    (lookup $hook:expr, $real:expr, $what:expr) => {
        answer($what(), $real)
    };
}

/// Look-ups are answered even while this library is switched off: the wrappers then pass everything on.
macro_rules! switched_off {
    (lookup) => {
        false
    };
    ($kind:ident) => {
        !is_on()
    };
}

macro_rules! wrapper {
    ($kind:ident $name:ident ($($argument:ident: $type:ty),*) => $what:expr) => {
        /// # Safety
        /// As the driver's function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the driver's name")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            let Some(function) = driver::real(Hook::$name) else {
                return CUresult::NOT_FOUND;
            };
            // SAFETY: the driver's function of this name has this signature.
            let function: unsafe extern "C" fn($($type),*) -> CUresult = unsafe { std::mem::transmute(function) };
            // SAFETY: the caller's own arguments.
            let real = || unsafe { function($($argument),*) };
            if switched_off!($kind) {
                return real();
            }
            // SAFETY: the caller's own arguments, read as the driver reads them.
            #[allow(unused_unsafe, reason = "some expressions only name arguments")]
            let what = || unsafe { $what };
            guarded(real, |once| around!($kind Hook::$name, || once.call(), what))
        }
    };
}

macro_rules! wrappers {
    ($($kind:ident [$($since:literal $name:ident),+] $arguments:tt => $what:expr;)+) => {
        $($(wrapper!($kind $name $arguments => $what);)+)+

        /// The address of a hook's wrapper.
        pub fn address(hook: Hook) -> *mut c_void {
            match hook {
                $($(Hook::$name => $name as *mut c_void),+),+
            }
        }
    };
}

hooks::hooks!(wrappers);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_stream_is_one_of_two() {
        let some = CUstream(std::ptr::without_provenance_mut(64));
        assert_eq!(home(Hook::cuLaunchKernel, CUstream::NULL), LEGACY);
        assert_eq!(home(Hook::cuLaunchKernel_ptsz, CUstream::NULL), PER_THREAD);
        assert_eq!(home(Hook::cuMemcpyDtoH_v2_ptds, CUstream::NULL), PER_THREAD);
        for stream in [some, LEGACY, PER_THREAD] {
            assert_eq!(home(Hook::cuLaunchKernel, stream), stream);
            assert_eq!(home(Hook::cuLaunchKernel_ptsz, stream), stream);
        }
    }

    /// The driver is called once and its answer counts, before a panic and after one.
    #[test]
    fn a_panic_does_not_reach_the_program() {
        let calls = Cell::new(0);
        let real = || {
            calls.set(calls.get() + 1);
            CUresult(700 + calls.get())
        };
        let before = panics();
        assert_eq!(guarded(real, |_| panic!("before the call")), CUresult(701));
        let after = guarded(real, |once| {
            once.call();
            panic!("after the call")
        });
        assert_eq!((after, calls.get(), panics() - before), (CUresult(702), 2, 2));
    }
}
