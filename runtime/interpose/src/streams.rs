//! What a high-priority process has launched on each of its streams, and how much of it is known to be done.
//!
//! A table of fixed size without locks or allocation: the launch path writes it. Counts never go back, not even when a
//! place is given to another stream, so that a mark that was taken earlier never claims too much.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Streams at most.
pub const PLACES: usize = 256;
/// Launches on streams that found no place are counted here; its work is known to be done only when the whole context is.
pub const OVERFLOW: usize = PLACES;
const ALL: usize = PLACES + 1;
/// How far from its hash a stream may be.
const REACH: usize = 32;

const EMPTY: u64 = 0;
/// The stream was destroyed and all of its work is done: free for another one.
const FREE: u64 = u64::MAX;
/// The stream was destroyed while it had work.
const ORPHAN: u64 = u64::MAX - 1;

/// How a stream stands to the legacy default stream of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// It is that stream: waiting for it is waiting for the blocking ones too.
    Legacy,
    Blocking,
    /// A thread's own default stream: blocking, and no other thread can ask about it.
    PerThread,
    NonBlocking,
}

/// A stream, as a key: handles of default streams mean another one in each context or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// The legacy default stream of a context. Contexts are addresses, so their lowest bit is free.
    pub fn legacy(context: u64) -> Key {
        Key(context | 1)
    }

    /// The default stream of a thread, by a number of the thread.
    pub fn of_thread(thread: u64) -> Key {
        Key(1 << 63 | thread)
    }

    /// Any other stream, by its handle.
    pub fn handle(handle: u64) -> Key {
        Key(handle)
    }
}

/// One stream. On lines of its own, since threads launch on different streams.
#[repr(align(128))]
#[derive(Debug)]
struct Place {
    key: AtomicU64,
    /// Launches that the driver has taken.
    handed: AtomicU64,
    /// Of them, those that are known to be done.
    done: AtomicU64,
    context: AtomicU64,
    class: AtomicU8,
}

/// What the helper thread has to find out about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undone {
    pub place: usize,
    /// The stream's handle, if it has one that any thread can use.
    pub handle: Option<u64>,
    pub context: u64,
    pub class: Class,
    /// What is done if the stream is found to have nothing left.
    pub handed: u64,
}

/// The table.
#[derive(Debug)]
pub struct Streams {
    places: [Place; ALL],
    /// Bit per place: it has been used.
    used: [AtomicU64; ALL.div_ceil(64)],
}

impl Streams {
    #[allow(clippy::new_without_default, reason = "a constant, so that it can be a static")]
    pub const fn new() -> Streams {
        const fn place() -> Place {
            Place {
                key: AtomicU64::new(EMPTY),
                handed: AtomicU64::new(0),
                done: AtomicU64::new(0),
                context: AtomicU64::new(0),
                class: AtomicU8::new(Class::NonBlocking as u8),
            }
        }
        Streams { places: [const { place() }; ALL], used: [const { AtomicU64::new(0) }; ALL.div_ceil(64)] }
    }

    /// The stream's place, if it has one.
    pub fn find(&self, key: Key) -> Option<usize> {
        for at in probes(key) {
            match self.places[at].key.load(Ordering::Acquire) {
                EMPTY => return None,
                found if found == key.0 => return Some(at),
                _ => {}
            }
        }
        None
    }

    /// A place for a stream that has none; [`OVERFLOW`] if all within reach are taken. Two threads that see a stream for the
    /// first time at once may give it two places: then nobody but the helper and the whole context's end tells of one of them.
    pub fn insert(&self, key: Key, context: u64, class: Class) -> usize {
        for at in probes(key) {
            let place = &self.places[at];
            let found = place.key.load(Ordering::Acquire);
            let free = found == EMPTY || found == FREE || (found == ORPHAN && !self.has_undone(at));
            if found == key.0 {
                return at;
            }
            if !free {
                continue;
            }
            match place.key.compare_exchange(found, key.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    place.context.store(context, Ordering::Relaxed);
                    place.class.store(class as u8, Ordering::Release);
                    self.mark_used(at);
                    return at;
                }
                Err(other) if other == key.0 => return at,
                Err(_) => {}
            }
        }
        // The helper can only ask about a context that it knows: of several, the last one that came here.
        self.places[OVERFLOW].context.store(context, Ordering::Relaxed);
        self.mark_used(OVERFLOW);
        OVERFLOW
    }

    fn mark_used(&self, at: usize) {
        self.used[at / 64].fetch_or(1 << (at % 64), Ordering::Release);
    }

    /// The driver has taken one launch more.
    #[inline]
    pub fn hand(&self, place: usize) {
        self.places[place].handed.fetch_add(1, Ordering::SeqCst);
    }

    /// Launches that the driver has taken so far.
    #[inline]
    pub fn handed(&self, place: usize) -> u64 {
        self.places[place].handed.load(Ordering::SeqCst)
    }

    /// The first `handed` launches of this place are done: how many were not known to be.
    pub fn done(&self, place: usize, handed: u64) -> u64 {
        let before = self.places[place].done.fetch_max(handed, Ordering::SeqCst);
        handed.saturating_sub(before)
    }

    /// How many launches of this place are not known to be done. Less than none for a moment, as a call that waits for its own
    /// copy is counted before the copy.
    pub fn undone_at(&self, at: usize) -> i64 {
        let done = self.places[at].done.load(Ordering::SeqCst);
        self.handed(at).wrapping_sub(done) as i64
    }

    /// Whether this place has launches that are not known to be done.
    pub fn has_undone(&self, at: usize) -> bool {
        let place = &self.places[at];
        place.done.load(Ordering::SeqCst) != place.handed.load(Ordering::SeqCst)
    }

    /// The stream is about to be destroyed; its handle may come again. Its work goes on, which `undone` then shows as that
    /// of a stream without a handle.
    pub fn remove(&self, key: Key) -> Option<usize> {
        let at = self.find(key)?;
        self.leave(at);
        Some(at)
    }

    fn leave(&self, at: usize) {
        let left = if self.has_undone(at) { ORPHAN } else { FREE };
        self.places[at].key.store(left, Ordering::Release);
    }

    /// All streams of a context are about to be destroyed, and it with them.
    pub fn remove_context(&self, context: u64) {
        for at in self.all().filter(|&at| self.places[at].context.load(Ordering::Relaxed) == context) {
            self.places[at].context.store(0, Ordering::Relaxed);
            if at != OVERFLOW {
                self.leave(at);
            }
        }
    }

    /// Streams of some context that have handles are about to be destroyed, or none are.
    pub fn remove_handles(&self) {
        let has_handle = |at| matches!(self.class(at), Class::Blocking | Class::NonBlocking);
        self.all().filter(|&at| at != OVERFLOW && has_handle(at)).for_each(|at| self.leave(at));
    }

    /// All places that were ever used and belong to streams of this context; of the overflow it is not known.
    pub fn of_context(&self, context: u64) -> impl Iterator<Item = usize> {
        self.all()
            .filter(move |&at| at == OVERFLOW || self.places[at].context.load(Ordering::Relaxed) == context)
    }

    /// The legacy default stream's place, if any, and those of the streams that it waits for.
    pub fn of_legacy(&self, context: u64) -> impl Iterator<Item = usize> {
        self.of_context(context).filter(|&at| {
            // Whoever destroyed a stream cannot have launched on it since; what is left of it is counted in its class.
            at != OVERFLOW && self.class(at) != Class::NonBlocking
        })
    }

    /// Streams with work that is not known to be done.
    pub fn undone(&self) -> impl Iterator<Item = Undone> {
        self.all().filter(|&at| self.has_undone(at)).map(|at| {
            let place = &self.places[at];
            let (class, key) = (self.class(at), place.key.load(Ordering::Acquire));
            let handle = match class {
                _ if at == OVERFLOW || key == ORPHAN || key == FREE => None,
                Class::Legacy => Some(1),
                Class::Blocking | Class::NonBlocking => Some(key),
                Class::PerThread => None,
            };
            let (context, handed) = (place.context.load(Ordering::Relaxed), self.handed(at));
            Undone { place: at, handle, context, class, handed }
        })
    }

    fn class(&self, at: usize) -> Class {
        match self.places[at].class.load(Ordering::Acquire) {
            0 => Class::Legacy,
            1 => Class::Blocking,
            2 => Class::PerThread,
            _ => Class::NonBlocking,
        }
    }

    /// Launches that the driver has taken on all streams: differs after any launch.
    pub fn total(&self) -> u64 {
        self.all().map(|at| self.handed(at)).fold(0, u64::wrapping_add)
    }

    /// All places that were ever used.
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.used.iter().enumerate().flat_map(|(word, bits)| {
            let mut bits = bits.load(Ordering::Acquire);
            std::iter::from_fn(move || {
                let at = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(word * 64 + at)
            })
        })
    }
}

/// Where a stream may be, the likeliest place first. Handles are addresses: Fibonacci hashing spreads their middle bits.
fn probes(key: Key) -> impl Iterator<Item = usize> {
    let start = (key.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize;
    (0..REACH).map(move |step| (start + step) % PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_kept_until_its_stream_is_destroyed_and_done() {
        let streams = Streams::new();
        let key = Key::handle(0x5000);
        let at = streams.insert(key, 8, Class::Blocking);
        assert_eq!((streams.find(key), streams.insert(key, 8, Class::Blocking)), (Some(at), at));
        streams.hand(at);
        assert_eq!(streams.remove(key), Some(at));
        let orphan = Undone { place: at, handle: None, context: 8, class: Class::Blocking, handed: 1 };
        assert_eq!(streams.undone().collect::<Vec<_>>(), [orphan]);
        assert_ne!(streams.insert(key, 8, Class::Blocking), at, "the same handle, another stream");
        assert_eq!(streams.done(at, 1), 1);
        assert_eq!(streams.done(at, 1), 0);
        assert_eq!(
            streams.insert(Key::handle(0x5000 + (1 << 40)), 8, Class::Blocking),
            OVERFLOW.min(streams.find(Key::handle(0x5000 + (1 << 40))).unwrap())
        );
    }

    #[test]
    fn too_many_streams_share_the_overflow() {
        let streams = Streams::new();
        let places: Vec<usize> =
            (1..=400u64).map(|n| streams.insert(Key::handle(n * 4096), 8, Class::NonBlocking)).collect();
        let overflowed = places.iter().filter(|&&at| at == OVERFLOW).count();
        assert!(overflowed >= 400 - PLACES, "{overflowed}");
        streams.hand(OVERFLOW);
        assert_eq!(
            streams.undone().next().map(|undone| (undone.place, undone.handle)),
            Some((OVERFLOW, None))
        );
        assert!(streams.of_context(99).any(|at| at == OVERFLOW));
        assert!(!streams.of_legacy(8).any(|at| at == OVERFLOW));
    }

    #[test]
    fn the_default_stream_waits_for_blocking_streams_of_its_context() {
        let streams = Streams::new();
        let legacy = streams.insert(Key::legacy(8), 8, Class::Legacy);
        let blocking = streams.insert(Key::handle(4096), 8, Class::Blocking);
        let thread = streams.insert(Key::of_thread(3), 8, Class::PerThread);
        streams.insert(Key::handle(8192), 8, Class::NonBlocking);
        streams.insert(Key::handle(12288), 16, Class::Blocking);
        let mut waits: Vec<usize> = streams.of_legacy(8).collect();
        waits.sort_unstable();
        let mut expected = vec![legacy, blocking, thread];
        expected.sort_unstable();
        assert_eq!(waits, expected);
        assert_eq!(streams.of_context(8).count(), 4);
    }
}
