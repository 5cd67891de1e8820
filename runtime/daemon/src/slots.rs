//! The slots of the shared segment: who has which, and what the daemon writes into them.

use anyhow::{Context, Result};
use protocol::Priority;
use protocol::process::Process;
use protocol::segment::{Counters, Owner, SLOTS, Sample, Segment, Slot};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// A segment with its free slots.
pub struct Slots {
    segment: Segment,
    file: OwnedFd,
    taken: [bool; SLOTS],
}

impl Slots {
    /// A new segment without clients.
    ///
    /// # Errors
    /// The system has no memory for it.
    pub fn new() -> Result<Slots> {
        let (segment, file) = Segment::create().context("cannot make the shared segment")?;
        Ok(Slots { segment, file, taken: [false; SLOTS] })
    }

    /// What clients map.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub fn counters(&self, slot: usize) -> &Counters {
        &self.segment.slots()[slot].counters
    }

    /// The word of a slot.
    pub fn word(&self, slot: usize) -> u64 {
        self.segment.slots()[slot].word.load(SeqCst)
    }

    /// Gives a slot to a client, idle since `now`; `None` if all are taken.
    pub fn take(&mut self, process: Process, priority: Priority, now: u64) -> Option<usize> {
        let index = self.taken.iter().position(|taken| !taken)?;
        self.taken[index] = true;
        let slot = &self.segment.slots()[index];
        clear(slot);
        slot.word.store(now, SeqCst);
        slot.owner.priority.store(if priority == Priority::High { 1 } else { 2 }, Relaxed);
        slot.owner.start.store(process.start, Relaxed);
        slot.owner.pid.store(process.pid, SeqCst);
        if priority == Priority::High {
            // Last: from here on best effort looks at the word.
            self.segment.header().high_mask.fetch_or(1 << index, SeqCst);
        }
        Some(index)
    }

    /// Nobody waits for this client any more. The slot is still its own: it may be about to end, or live on without its
    /// socket.
    pub fn retire(&mut self, index: usize, now: u64) {
        self.segment.header().high_mask.fetch_and(!(1 << index), SeqCst);
        self.segment.slots()[index].word.store(now, SeqCst);
    }

    /// The slot can be given to another client: its owner writes no more.
    pub fn free(&mut self, index: usize) {
        self.segment.slots()[index].owner.pid.store(0, SeqCst);
        self.taken[index] = false;
    }
}

/// Sets everything to 0. The fields are named one by one so that a new one cannot be forgotten.
fn clear(slot: &Slot) {
    let Slot { word, active_since, sample, owner, counters } = slot;
    let Sample { rate, number } = sample;
    let Owner { pid, priority, start } = owner;
    let Counters {
        calls,
        held,
        waited_ns,
        admitted,
        passed,
        activations,
        profiled,
        unprotected,
        overflows,
        found_idle,
    } = counters;
    let single = [
        word,
        active_since,
        rate,
        number,
        start,
        held,
        waited_ns,
        admitted,
        activations,
        profiled,
        unprotected,
        overflows,
        found_idle,
    ];
    single.into_iter().chain(calls).chain(passed).for_each(|counter| counter.store(0, SeqCst));
    pid.store(0, SeqCst);
    priority.store(0, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::segment::ACTIVE;

    const CLIENT: Process = Process { pid: 7, start: 8 };

    #[test]
    fn a_client_that_was_active_stops_nobody_once_retired() {
        let mut slots = Slots::new().unwrap();
        let low = slots.take(CLIENT, Priority::BestEffort, 5).unwrap();
        assert_eq!(slots.segment.activity(), 0, "best effort is not looked at");
        let high = slots.take(CLIENT, Priority::High, 6).unwrap();
        assert_eq!((low, high, slots.segment.activity()), (0, 1, 6));
        slots.segment.slots()[high].word.store(ACTIVE, SeqCst);
        assert_eq!(slots.segment.activity(), ACTIVE);
        slots.retire(high, 9);
        assert_eq!(slots.segment.activity(), 0);
        assert_eq!(slots.take(CLIENT, Priority::High, 10), Some(2), "a retired slot is not given away");
    }

    #[test]
    fn a_freed_slot_starts_from_zero() {
        let mut slots = Slots::new().unwrap();
        for _ in 0..SLOTS {
            slots.take(CLIENT, Priority::BestEffort, 1).unwrap();
        }
        assert_eq!(slots.take(CLIENT, Priority::High, 1), None);
        slots.counters(3).held.store(4, Relaxed);
        slots.counters(3).calls[2].store(4, Relaxed);
        slots.retire(3, 2);
        slots.free(3);
        assert_eq!(slots.take(Process { pid: 9, start: 9 }, Priority::High, 3), Some(3));
        let counters = slots.counters(3);
        assert_eq!((counters.held.load(Relaxed), counters.calls[2].load(Relaxed)), (0, 0));
        assert_eq!(slots.segment.slots()[3].owner.pid.load(Relaxed), 9);
        assert_eq!(slots.word(3), 3);
    }
}
