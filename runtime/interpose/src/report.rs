//! The report of this process, written when it ends.

use crate::client::{self, Mode, State};
use crate::helper;
use crate::profile::Profile;
use protocol::clock;
use protocol::message::Request;
use protocol::process::Process;
use protocol::report::{Ended, Mode as Done, Report};
use protocol::segment::{Counters, Slot};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a program waits for the daemon to take its durations.
const LIMIT: Duration = Duration::from_secs(1);
/// How long a measured duration is kept for others to be sent along, ns.
const AGE_NS: u64 = 2_000_000_000;

/// What to call this program: the file's name, and with an interpreter the script's.
pub fn program() -> String {
    let mut words = std::env::args_os().take(2).map(|word| {
        Path::new(&word).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    });
    let name = words.next().unwrap_or_default();
    let interpreter = ["python", "bash", "sh"].iter().any(|known| name.starts_with(known));
    match words.next().filter(|script| interpreter && !script.is_empty() && !script.starts_with('-')) {
        Some(script) => format!("{name} {script}"),
        None => name,
    }
}

/// Has the report written when the program exits. The handler runs before those of the driver, which was opened earlier.
pub fn at_exit() {
    // SAFETY: the handler takes no argument and does not unwind.
    unsafe { libc::atexit(ended) };
}

extern "C" fn ended() {
    let _ = std::panic::catch_unwind(|| {
        helper::stop();
        if let Some(state) = client::state() {
            finish(state);
        }
    });
}

fn finish(state: &State) {
    if client::mode() == Mode::BestEffort {
        send_durations(state);
    }
    let Some(folder) = state.report_folder() else { return };
    let Some(report) = report(state) else { return };
    if let Err(error) = report.write(folder) {
        client::say(&format!("the report cannot be written to {}: {error}", folder.display()));
    }
}

/// Sends what was measured some time ago: a program that is killed, as best effort may be when its server ends, could not do
/// so at its end.
pub fn send_durations_in_time(state: &State, profile: &Profile) {
    if profile.is_due(AGE_NS, clock::now) {
        send_durations(state);
    }
}

fn send_durations(state: &State) {
    let (Some(registered), Some(best_effort)) = (state.registered.get(), state.best_effort.get()) else {
        return;
    };
    let measured = best_effort.profile.take_measured();
    if measured.0.is_empty() || registered.channel.is_closed() {
        return;
    }
    let sent = measured
        .to_memfd()
        .and_then(|file| registered.channel.ask(&Request::Durations, &[file.as_fd()], LIMIT));
    if let Err(error) = sent {
        client::say(&format!("the measured durations were not taken: {error}"));
    }
}

/// `None` for a process that never launched anything.
fn report(state: &State) -> Option<Report> {
    let process = Process::this().ok()?;
    let mode = client::mode();
    let done = match mode {
        Mode::New | Mode::Starting => return None,
        Mode::High => Done::Observed,
        Mode::BestEffort if state.best_effort.get().is_some() => Done::Scheduled,
        Mode::BestEffort => Done::Unscheduled("the policy holds nothing back".to_owned()),
        Mode::Unscheduled => {
            Done::Unscheduled(state.why.get().cloned().unwrap_or_else(|| "settings".to_owned()))
        }
        Mode::Forked => Done::Unscheduled("the child of a program that had used the device".to_owned()),
    };
    let names: Vec<String> = hooks::Hook::all().map(|hook| hook.name().to_owned()).collect();
    let counters = total(state, mode);
    let mut report = Report::new(process, state.priority, done, Ended::Exit);
    report.count(&counters, &names);
    if mode == Mode::Forked && report.calls.is_empty() {
        return None;
    }
    report.program = program();
    if let Some(registered) = state.registered.get() {
        report.policy.clone_from(&registered.policy);
        report.substrate.clone_from(&registered.substrate);
        report.gpu.clone_from(&registered.gpu);
        report.daemon_lost = matches!(mode, Mode::High | Mode::BestEffort)
            && (state.daemon_lost.load(Ordering::Relaxed) || registered.channel.is_closed());
    }
    if mode != Mode::Forked
        && let Some(best_effort) = state.best_effort.get()
    {
        report.kernels = best_effort.profile.report();
    }
    report.notes = notes(state);
    Some(report)
}

fn notes(state: &State) -> Vec<String> {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut counts = vec![
        (get(&state.nameless), "launches of kernels whose code is not known: each ran alone in flight"),
        (crate::wrappers::panics(), "calls passed on after an error of ours"),
    ];
    if let Some(best_effort) = state.best_effort.get() {
        counts.push((
            get(&best_effort.seen.stalled),
            "launches were let go because what was in flight did not end for 2 s",
        ));
        counts.push((get(&best_effort.seen.unmarked), "times the driver recorded no event behind launches"));
    }
    let weakened = state.weakened.get().map(|()| client::WEAKENED.to_owned());
    let counted = counts.into_iter().filter(|(count, _)| *count > 0);
    weakened.into_iter().chain(counted.map(|(count, what)| format!("{count} {what}"))).collect()
}

/// What was counted before registration, or after it by threads that had begun before, and the slot's.
fn total(state: &State, mode: Mode) -> Counters {
    let sum = Counters::default();
    add(&state.local.counters, &sum, |counter| counter.load(Ordering::Relaxed));
    if let (Some(registered), Mode::High | Mode::BestEffort) = (state.registered.get(), mode) {
        let own = &registered.segment.slots()[registered.slot];
        add(&own.counters, &sum, |counter| counter.load(Ordering::Relaxed));
    }
    sum
}

/// Moves what was counted before registration.
pub fn move_counters(from: &Slot, to: &Slot) {
    add(&from.counters, &to.counters, |counter| counter.swap(0, Ordering::Relaxed));
}

/// Forgets what was counted: in the child of a fork it is the parent's.
pub fn forget(slot: &Slot) {
    pairs(&slot.counters, &slot.counters).for_each(|(counter, _)| counter.store(0, Ordering::Relaxed));
}

fn add(from: &Counters, to: &Counters, take: impl Fn(&AtomicU64) -> u64) {
    pairs(from, to).for_each(|(from, to)| {
        to.fetch_add(take(from), Ordering::Relaxed);
    });
}

fn pairs<'a>(a: &'a Counters, b: &'a Counters) -> impl Iterator<Item = (&'a AtomicU64, &'a AtomicU64)> {
    // Named one by one, so that a new counter is not forgotten.
    fn singles(counters: &Counters) -> [&AtomicU64; 8] {
        let Counters {
            calls: _,
            held,
            waited_ns,
            admitted,
            passed: _,
            activations,
            profiled,
            unprotected,
            overflows,
            found_idle,
        } = counters;
        [held, waited_ns, admitted, activations, profiled, unprotected, overflows, found_idle]
    }
    let lists = a.calls.iter().zip(&b.calls).chain(a.passed.iter().zip(&b.passed));
    singles(a).into_iter().zip(singles(b)).chain(lists)
}
