//! The policy of a best-effort process, with what it was told last. One thread at a time has it: the one whose launch is
//! next.

use crate::log::Log;
use protocol::segment::{ACTIVE, Segment};
use sched::client::{Client, Event, Op};
use sched::gate::Activity;
use std::sync::atomic::Ordering;

/// The policy's state and the world as it knows it.
#[derive(Debug)]
pub struct Turn {
    client: Client,
    log: Option<Log>,
    /// The word that the policy was told last, as in [`Segment::activity`].
    word: u64,
    /// The rate sample that it was told last.
    sample: u64,
    wake: Option<u64>,
    admitted: Option<u64>,
    /// Launches admitted so far.
    count: u64,
}

/// Launches that any policy has in flight at most, see the parameter `depth` of [`sched::gate`].
const MOST: u64 = 1024;

impl Turn {
    /// A policy that has just been made: it takes the high-priority side for idle since then.
    pub fn new(client: Client, now: u64, log: Option<Log>) -> Turn {
        Turn { client, log, word: now, sample: 0, wake: None, admitted: None, count: 0 }
    }

    /// Tells the policy.
    pub fn step(&mut self, event: Event, now: u64) {
        let op = self.client.step(event, now);
        if let Some(log) = &mut self.log {
            log.step(now, event, op);
        }
        match op {
            Some(Op::Admit { launch }) => {
                self.admitted = Some(launch);
                self.count = launch + 1;
                self.wake = None;
            }
            Some(Op::WakeAt(at)) => self.wake = Some(at),
            None => {}
        }
    }

    /// The launch that it has admitted since this was asked last.
    pub fn admitted(&mut self) -> Option<u64> {
        self.admitted.take()
    }

    /// Tells what has changed in the segment and whether a timer is due. When high-priority work has become active: since
    /// when, ns.
    pub fn look(&mut self, segment: &Segment, now: u64) -> Option<u64> {
        let mut activated = None;
        let word = segment.activity();
        if word != self.word {
            self.word = word;
            let activity = match word {
                ACTIVE => Activity::Active,
                since => Activity::IdleSince(since),
            };
            self.step(Event::Word(activity), now);
            activated = (word == ACTIVE).then(|| since(segment).min(now));
        }
        self.rate(segment, now);
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
            self.step(Event::Timer, now);
        }
        activated
    }

    /// The rate of the first high-priority client: the policies that ask for it know one.
    fn rate(&mut self, segment: &Segment, now: u64) {
        let mask = segment.header().high_mask.load(Ordering::Acquire);
        if mask == 0 {
            return;
        }
        let sample = &segment.slots()[mask.trailing_zeros() as usize].sample;
        let number = sample.number.load(Ordering::Acquire);
        if number != self.sample {
            self.sample = number;
            if number > 0 {
                self.step(Event::Rate(f64::from_bits(sample.rate.load(Ordering::Relaxed))), now);
            }
        }
    }

    /// Whatever the policy has in flight counts as complete.
    pub fn forget_all(&mut self, now: u64) {
        for launch in self.count.saturating_sub(MOST)..self.count {
            self.step(Event::Completed { launch }, now);
        }
    }

    /// Whether the high-priority side is the reason to wait, as far as is known.
    pub fn is_active(&self) -> bool {
        self.word == ACTIVE
    }

    /// When the policy wants to be told the time, ns.
    pub fn wake(&self) -> Option<u64> {
        self.wake
    }
}

/// Since when any high-priority client that is active has been so.
fn since(segment: &Segment) -> u64 {
    let mut mask = segment.header().high_mask.load(Ordering::Acquire);
    let mut earliest = u64::MAX;
    while mask != 0 {
        let slot = &segment.slots()[mask.trailing_zeros() as usize];
        if slot.word.load(Ordering::SeqCst) == ACTIVE {
            earliest = earliest.min(slot.active_since.load(Ordering::Relaxed));
        }
        mask &= mask - 1;
    }
    earliest
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched::System;
    use sched::client::{Header, replay};

    #[test]
    fn what_changes_is_told_once_and_logged() {
        let (segment, _file) = Segment::create().unwrap();
        segment.header().high_mask.store(0b10, Ordering::SeqCst);
        let high = &segment.slots()[1];
        high.word.store(ACTIVE, Ordering::SeqCst);
        high.active_since.store(1200, Ordering::SeqCst);
        let system = "gate:idle_wait_us=0.1".to_owned();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Log::create(&path, &Header { system: system.clone(), start: 1000, max_rate: 0.0 }).unwrap();
        let client = System::parse(&system).unwrap().client(1000, 0.0).unwrap();
        let mut turn = Turn::new(client, 1000, Some(log));
        assert_eq!(turn.look(&segment, 1300), Some(1200));
        assert_eq!(turn.look(&segment, 1301), None);
        turn.step(Event::Launch { duration_ns: None, blocks: 1 }, 1302);
        assert_eq!((turn.admitted(), turn.is_active()), (None, true));
        high.word.store(2000, Ordering::SeqCst);
        turn.look(&segment, 2001);
        assert_eq!(turn.wake(), Some(2100));
        turn.look(&segment, 2099);
        assert_eq!(turn.admitted(), None);
        turn.look(&segment, 2100);
        assert_eq!((turn.admitted(), turn.admitted()), (Some(0), None));
        let replayed = replay(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!((replayed.events, replayed.admitted), (4, 1));
    }

    #[test]
    fn a_rate_sample_is_told_once() {
        let (segment, _file) = Segment::create().unwrap();
        segment.header().high_mask.store(1, Ordering::SeqCst);
        let client = System::parse("tgs").unwrap().client(0, 0.0).unwrap();
        let mut turn = Turn::new(client, 0, None);
        turn.look(&segment, 1);
        assert_eq!(turn.sample, 0);
        segment.slots()[0].sample.rate.store(4990f64.to_bits(), Ordering::SeqCst);
        segment.slots()[0].sample.number.store(1, Ordering::SeqCst);
        turn.look(&segment, 2);
        assert_eq!(turn.sample, 1);
    }
}
