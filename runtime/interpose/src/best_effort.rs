//! The best-effort half: every launch asks the policy, and waits until it is admitted.
//!
//! One thread at a time negotiates ([`Turn`]); it gives the turn away before the driver gets the launch. What is in flight is
//! followed by events behind launches ([`Flights`]). No lock is held across a driver call, except that the thread that waits
//! has the turn while it asks about events, which load no code.

use crate::device::{Device, Progress};
use crate::flights::{Flights, Landed, Launch, Watched};
use crate::profile::{Plan, Profile};
use crate::turn::Turn;
use crate::types::*;
use protocol::clock;
use protocol::segment::{Segment, Slot};
use sched::client::Event;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between looks while a launch waits and has given its core away.
const STEP: Duration = Duration::from_micros(50);
/// How often a launch that waits looks after the daemon, ns.
const CHECK_NS: u64 = 100_000_000;
/// A launch that has been in flight for so long while another one waits for nothing but it, ns: it may itself wait for that
/// other one (kernels that spin on memory, host functions that take a lock), and then holding it would be for ever.
const STALLED_NS: u64 = 2_000_000_000;

/// How much is in flight without an event behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// An event is recorded from so much GPU time on, ns; 0 if time does not count.
    pub ns: u64,
    /// And from so many launches on.
    pub launches: usize,
    /// The policy looks at completions at all.
    pub needed: bool,
}

impl Marking {
    /// For a policy with these parameters: an eighth of what may be in flight.
    pub fn of(depth: u64, budget_ns: u64, needed: bool) -> Marking {
        Marking { ns: budget_ns / 8, launches: (depth / 8).max(1) as usize, needed }
    }
}

/// One launch, as the policy and the profile see it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub stream: CUstream,
    pub key: u64,
    pub plan: Plan,
    pub blocks: u64,
}

/// What happened beside the counters of the slot.
#[derive(Debug, Default)]
pub struct Seen {
    /// Launches that were let go because what was in flight stalled.
    pub stalled: AtomicU64,
    /// Events that the driver would not record.
    pub unmarked: AtomicU64,
}

/// The best-effort half of a process.
#[derive(Debug)]
pub struct BestEffort<D> {
    device: D,
    segment: &'static Segment,
    slot: &'static Slot,
    marking: Marking,
    spin_ns: u64,
    turn: Mutex<Turn>,
    flights: Mutex<Flights>,
    /// Threads that are recording events behind launches of any stream, or asking about events.
    recording: AtomicU32,
    /// Completions that the policy has not been told of.
    landed: Mutex<Vec<u64>>,
    pub profile: Profile,
    pub seen: Seen,
}

thread_local! {
    /// This thread is inside a launch that was admitted: what the driver calls in turn belongs to it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Device> BestEffort<D> {
    pub fn new(
        device: D,
        (segment, slot): (&'static Segment, &'static Slot),
        turn: Turn,
        marking: Marking,
        spin: Duration,
        profile: Profile,
    ) -> BestEffort<D> {
        BestEffort {
            device,
            segment,
            slot,
            marking,
            spin_ns: spin.as_nanos() as u64,
            turn: Mutex::new(turn),
            flights: Mutex::default(),
            recording: AtomicU32::new(0),
            landed: Mutex::default(),
            profile,
            seen: Seen::default(),
        }
    }

    /// Asks, waits, launches. `capturing` says that some capture is open, so that no event may be left for later.
    pub fn launch(
        &self,
        asked: Asked,
        capturing: bool,
        check: &dyn Fn(),
        real: impl FnOnce() -> CUresult,
    ) -> CUresult {
        if INSIDE.try_with(Cell::get).unwrap_or(true) {
            return real();
        }
        let Asked { stream, key, plan, .. } = asked;
        let context = self.device.context();
        let mut turn = lock(&self.turn);
        let number = self.admit(&mut turn, asked, check);
        let timed = self.marking.needed && plan.timed && lock(&self.flights).is_empty();
        let start = if timed { self.timing_event(context) } else { None };
        if self.marking.needed {
            let launch = Launch { number, stream, context, key, estimate_ns: plan.duration_ns };
            lock(&self.flights).admit(launch, start);
        }
        drop(turn);
        self.slot.counters.admitted.fetch_add(1, Ordering::Relaxed);
        if let Some(start) = start {
            self.device.record_event(start, stream);
        }
        let _ = INSIDE.try_with(|inside| inside.set(true));
        let result = real();
        let _ = INSIDE.try_with(|inside| inside.set(false));
        if self.marking.needed {
            self.launched(number, stream, context, capturing, result.is_success());
        }
        result
    }

    /// Until the policy admits it.
    fn admit(&self, turn: &mut Turn, asked: Asked, check: &dyn Fn()) -> u64 {
        let Asked { stream, plan, blocks, .. } = asked;
        let begun = clock::now();
        self.tell(turn, begun);
        turn.step(Event::Launch { duration_ns: plan.duration_ns, blocks }, begun);
        if let Some(number) = turn.admitted() {
            return number;
        }
        // Whatever has completed already is no reason to wait, and no reason to have waited.
        self.mark_all(Some(stream));
        self.mark(stream, self.device.context(), false);
        self.poll();
        self.tell(turn, clock::now());
        if let Some(number) = turn.admitted() {
            return number;
        }
        self.slot.counters.held.fetch_add(1, Ordering::Relaxed);
        let number = self.wait(turn, begun, check);
        self.slot.counters.waited_ns.fetch_add(clock::now().saturating_sub(begun), Ordering::Relaxed);
        number
    }

    fn wait(&self, turn: &mut Turn, begun: u64, check: &dyn Fn()) -> u64 {
        let mut checked = begun;
        // Since when nothing but what is in flight is the reason to wait.
        let mut blocked = begun;
        loop {
            let now = clock::now();
            self.poll();
            self.tell(turn, now);
            if let Some(number) = turn.admitted() {
                return number;
            }
            if turn.is_active() || turn.wake().is_some() {
                blocked = now;
            } else if now - blocked > STALLED_NS {
                blocked = now;
                self.give_up(turn, now);
                continue;
            }
            if now - checked > CHECK_NS {
                checked = now;
                check();
                self.mark_all(None);
            }
            if now - begun < self.spin_ns {
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
            } else {
                std::thread::sleep(STEP);
            }
        }
    }

    fn give_up(&self, turn: &mut Turn, now: u64) {
        let oldest = lock(&self.flights).give_up();
        self.seen.stalled.fetch_add(1, Ordering::Relaxed);
        match oldest {
            Some(launch) => turn.step(Event::Completed { launch }, now),
            // Nothing is in flight, and the policy thinks otherwise: an error of ours must not hold the program for ever.
            None => turn.forget_all(now),
        }
    }

    /// Tells the policy what is known: the word first, since a completion may admit a launch; `now` is a time before.
    fn tell(&self, turn: &mut Turn, now: u64) {
        if let Some(since) = turn.look(self.segment, now) {
            lock(&self.flights).stop(since);
        }
        let landed = std::mem::take(&mut *lock(&self.landed));
        for launch in landed {
            turn.step(Event::Completed { launch }, now);
        }
    }

    /// After the driver call.
    fn launched(&self, number: u64, stream: CUstream, context: CUcontext, capturing: bool, taken: bool) {
        let (timed, due) = {
            let mut flights = lock(&self.flights);
            if !taken {
                if let Some(start) = flights.discard(number) {
                    flights.free(context, true, start);
                }
                drop(flights);
                lock(&self.landed).push(number);
                return;
            }
            if !flights.handed(number) {
                return;
            }
            let timed = flights.is_timed(number);
            let (ns, launches) = flights.unmarked(stream);
            let much = self.marking.ns > 0 && ns.is_none_or(|ns| ns >= self.marking.ns);
            // No other thread can record an event on this thread's default stream.
            let now = capturing || timed || stream == PER_THREAD;
            (timed, now || much || launches >= self.marking.launches)
        };
        // Launches of other streams are not left without an event for long: nobody may come back to them.
        self.mark_all(Some(stream));
        if due {
            self.mark(stream, context, timed);
        }
    }

    /// Records an event behind what the driver has of a stream.
    fn mark(&self, stream: CUstream, context: CUcontext, timed: bool) {
        self.recording.fetch_add(1, Ordering::SeqCst);
        let marked = lock(&self.flights).mark(stream, context, timed);
        if let Some((marking, free)) = marked {
            let recorded = self.device.within(context, || {
                let used = free.filter(|&event| self.device.record_event(event, stream));
                // A free event may be dead with its context: one more try with a new one.
                used.or_else(|| {
                    let event = self.device.create_event(timed)?;
                    let taken = self.device.record_event(event, stream);
                    if !taken {
                        self.device.destroy_event(event);
                    }
                    taken.then_some(event)
                })
            });
            match recorded {
                Some(event) => lock(&self.flights).marked(marking, event),
                None => {
                    self.seen.unmarked.fetch_add(1, Ordering::Relaxed);
                    let landed = lock(&self.flights).lost(marking);
                    self.land(landed, context);
                }
            }
        }
        self.recording.fetch_sub(1, Ordering::SeqCst);
    }

    fn mark_all(&self, but: Option<CUstream>) {
        let streams = lock(&self.flights).unmarked_streams(but);
        for (stream, context) in streams.into_iter().filter(|(stream, _)| *stream != PER_THREAD) {
            self.mark(stream, context, false);
        }
    }

    fn timing_event(&self, context: CUcontext) -> Option<CUevent> {
        let free = lock(&self.flights).event(context, true);
        free.or_else(|| self.device.within(context, || self.device.create_event(true)))
    }

    /// Asks the driver which launches are complete.
    fn poll(&self) {
        self.recording.fetch_add(1, Ordering::SeqCst);
        let watched = lock(&self.flights).watched();
        for Watched { event, context, .. } in watched {
            let progress = self.device.within(context, || self.device.query_event(event));
            if progress != Progress::Running {
                let landed = lock(&self.flights).completed(event);
                self.land(landed, context);
            }
        }
        self.recording.fetch_sub(1, Ordering::SeqCst);
    }

    fn land(&self, landed: Landed, context: CUcontext) {
        let Landed { numbers, timed, stopped, plain, timing } = landed;
        if let Some((key, start, end)) = timed {
            if let Some(ns) = self.device.within(context, || self.device.elapsed_ns(start, end)) {
                self.profile.sample(key, ns, clock::now());
                self.slot.counters.profiled.fetch_add(1, Ordering::Relaxed);
            }
            let mut flights = lock(&self.flights);
            flights.free(context, true, start);
            flights.free(context, true, end);
        }
        if let Some((key, since)) = stopped {
            self.profile.stop(key, clock::now().saturating_sub(since));
        }
        if !plain.is_empty() || !timing.is_empty() {
            let mut flights = lock(&self.flights);
            plain.into_iter().for_each(|event| flights.free(context, false, event));
            timing.into_iter().for_each(|event| flights.free(context, true, event));
        }
        lock(&self.landed).extend(numbers);
    }

    /// A stream is about to be destroyed, or a capture about to begin, after which no event can be recorded behind what was
    /// launched; returns when nobody is recording one.
    pub fn settle(&self) {
        self.mark_all(None);
        self.until_nobody_records();
    }

    fn until_nobody_records(&self) {
        while self.recording.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }

    /// A context is about to be destroyed, with all that is in flight there and its events; returns when nobody is using one.
    pub fn context_gone(&self, context: CUcontext) {
        self.forget(context);
    }

    /// The events that nobody uses any more.
    fn forget(&self, context: CUcontext) -> Vec<CUevent> {
        let (mut numbers, mut events) = lock(&self.flights).context_gone(context);
        self.until_nobody_records();
        // And what was given back meanwhile.
        let (late, free) = lock(&self.flights).context_gone(context);
        numbers.extend(late);
        events.extend(free);
        lock(&self.landed).extend(numbers);
        events
    }

    /// A primary context, it is not known which, may be about to go: as if all did. Their events are destroyed, since most
    /// often it stays.
    pub fn any_context_gone(&self) {
        let contexts = lock(&self.flights).contexts();
        for context in contexts {
            let events = self.forget(context);
            self.device
                .within(context, || events.into_iter().for_each(|event| self.device.destroy_event(event)));
        }
    }
}
