//! Which launches an event stands for: those of its stream when it was recorded last.
//!
//! Of fixed size and without locks, like [`crate::streams`]; an event that finds no place stands for nothing.

use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 1024;
const REACH: usize = 16;
const EMPTY: u64 = 0;
const FREE: u64 = u64::MAX;
/// Stands for nothing.
const NOTHING: u64 = u64::MAX;
/// The driver is being asked to record it: a question about it may be answered of an earlier record. [`NOTHING`] has this bit.
const PENDING: u64 = 1 << 63;
/// Bits of a value that hold the count of launches; the place of the stream is above.
const COUNT_BITS: u32 = 54;

#[derive(Debug)]
struct Place {
    key: AtomicU64,
    /// Stream and count in one word, so that nothing is torn.
    value: AtomicU64,
}

/// The table.
#[derive(Debug)]
pub struct Events {
    places: [Place; PLACES],
}

impl Events {
    #[allow(clippy::new_without_default, reason = "a constant, so that it can be a static")]
    pub const fn new() -> Events {
        const fn place() -> Place {
            Place { key: AtomicU64::new(EMPTY), value: AtomicU64::new(NOTHING) }
        }
        Events { places: [const { place() }; PLACES] }
    }

    /// An event is about to be recorded on the stream of this place, of which the driver has taken so many launches; it
    /// stands for them from [`Events::recorded`] on. Whether there was room to note it.
    pub fn record(&self, event: u64, stream: usize, handed: u64) -> bool {
        let value = PENDING | (stream as u64) << COUNT_BITS | (handed & ((1 << COUNT_BITS) - 1));
        if let Some(place) = self.find(event) {
            place.value.store(value, Ordering::Release);
            return true;
        }
        for place in self.probes(event) {
            let found = place.key.load(Ordering::Acquire);
            let free = found == EMPTY || found == FREE;
            if free && place.key.compare_exchange(found, event, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                place.value.store(value, Ordering::Release);
                return true;
            }
        }
        false
    }

    /// The driver has recorded it.
    pub fn recorded(&self, event: u64) {
        if let Some(place) = self.find(event) {
            let taken = |value| (value != NOTHING).then_some(value & !PENDING);
            let _ = place.value.fetch_update(Ordering::AcqRel, Ordering::Acquire, taken);
        }
    }

    /// Place of its stream, and launches that are done when the event is.
    pub fn mark(&self, event: u64) -> Option<(usize, u64)> {
        let value = self.find(event)?.value.load(Ordering::Acquire);
        (value & PENDING == 0).then_some(((value >> COUNT_BITS) as usize, value & ((1 << COUNT_BITS) - 1)))
    }

    /// The event is destroyed, or stands for something else than launches of a stream.
    pub fn forget(&self, event: u64) {
        if let Some(place) = self.find(event) {
            // First: the next event of this place must not stand for the launches of this one.
            place.value.store(NOTHING, Ordering::Release);
            place.key.store(FREE, Ordering::Release);
        }
    }

    fn find(&self, event: u64) -> Option<&Place> {
        for place in self.probes(event) {
            match place.key.load(Ordering::Acquire) {
                EMPTY => return None,
                found if found == event => return Some(place),
                _ => {}
            }
        }
        None
    }

    fn probes(&self, event: u64) -> impl Iterator<Item = &Place> {
        let start = (event.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize;
        (0..REACH).map(move |step| &self.places[(start + step) % PLACES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stands_for_its_last_record() {
        let events = Events::new();
        assert_eq!(events.mark(4096), None);
        assert!(events.record(4096, 256, 7));
        assert_eq!(events.mark(4096), None, "the driver has not recorded it yet");
        events.recorded(4096);
        assert_eq!(events.mark(4096), Some((256, 7)));
        assert!(events.record(4096, 3, 1 << 40));
        assert_eq!(events.mark(4096), None, "it may be complete from before");
        events.recorded(4096);
        assert_eq!(events.mark(4096), Some((3, 1 << 40)));
        events.forget(4096);
        events.recorded(4096);
        assert_eq!(events.mark(4096), None);
    }

    #[test]
    fn a_full_table_says_so_and_takes_others_again_later() {
        let events = Events::new();
        let noted = (1..=2000u64).filter(|n| events.record(n * 4096, 0, *n)).count();
        assert!((900..=PLACES).contains(&noted), "{noted}");
        for n in 1..=2000 {
            events.recorded(n * 4096);
            if let Some(mark) = events.mark(n * 4096) {
                assert_eq!(mark, (0, n));
            }
            events.forget(n * 4096);
        }
        assert!((1..=500).all(|n| events.record(n * 512 + 1, 0, n)));
    }
}
