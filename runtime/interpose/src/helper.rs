//! The helper thread of a high-priority process: finds the end of work that nobody waits for, and samples the launch rate
//! for policies that limit by it.
//!
//! It holds nothing that the program needs: while it asks the driver about a stream, only who destroys that stream or begins a
//! capture waits for the answer.

use crate::client::{Mode, State, mode};
use crate::device::{Cuda, Device};
use protocol::clock;
use sched::tgs::{Meter, SAMPLE_NS};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static STOP: AtomicBool = AtomicBool::new(false);
static ASKING: AtomicBool = AtomicBool::new(false);

/// Starts the thread.
///
/// # Errors
/// The system has no room for a thread.
pub fn start(state: &'static State) -> std::io::Result<()> {
    // Signals of the program are for its own threads.
    let blocked = Blocked::all();
    let thread = std::thread::Builder::new().name("tally".to_owned()).spawn(move || run(state));
    drop(blocked);
    thread.map(drop)
}

/// The process ends: waits until the thread is not in the driver, for a moment, since the driver is about to be taken down.
pub fn stop() {
    STOP.store(true, Ordering::SeqCst);
    // The child of a fork has no such thread, whatever it was doing.
    if mode() == Mode::Forked {
        return;
    }
    for _ in 0..1000 {
        if !ASKING.load(Ordering::SeqCst) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All signals of this thread are blocked until this is dropped.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Blocked {
        // SAFETY: sets of signals are plain numbers, written by the calls that follow.
        let (mut all, mut before) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: pointers to locals.
        unsafe {
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        }
        Blocked(before)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: a set that the system has written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

fn run(state: &'static State) {
    let period = state.settings.helper.duration();
    let mut meter = Meter::default();
    let mut next_sample = clock::now() + SAMPLE_NS;
    let mut seen = state.activity.total();
    while !STOP.load(Ordering::SeqCst) && matches!(mode(), Mode::High | Mode::Starting) {
        std::thread::sleep(period);
        if state.metered.load(Ordering::Relaxed) && clock::now() >= next_sample {
            next_sample += SAMPLE_NS;
            sample(state, &mut meter);
        }
        let total = state.activity.total();
        let quiet = total == seen && state.activity.waiting().load(Ordering::SeqCst) == 0;
        seen = total;
        if state.activity.is_active() && quiet && state.activity.captures() == 0 {
            ask(state, &Cuda);
        }
    }
}

fn ask(state: &State, device: &impl Device) {
    ASKING.store(true, Ordering::SeqCst);
    // `stop` writes its word and then looks at this one.
    if !STOP.load(Ordering::SeqCst) && state.activity.ask(device) && !state.activity.is_active() {
        state.activity.slot().counters.found_idle.fetch_add(1, Ordering::Relaxed);
    }
    ASKING.store(false, Ordering::SeqCst);
}

fn sample(state: &State, meter: &mut Meter) {
    meter.launch(state.blocks.swap(0, Ordering::Relaxed));
    let rate = meter.sample();
    let sample = &state.activity.slot().sample;
    sample.rate.store(rate.to_bits(), Ordering::Relaxed);
    sample.number.fetch_add(1, Ordering::Release);
}
