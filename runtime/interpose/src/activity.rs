//! The high-priority half: whether this process has work on the device, as one shared word.
//!
//! The launch path takes no lock, allocates nothing and makes no system call. The sequential rule is
//! [`sched::gate::Streams`]; here several threads follow it at once:
//!
//! - `undone` counts launches that are not known to be done. A launch raises it, then looks at the word; whoever lowers it to
//!   zero writes the word, then looks at `undone` again. Both are sequentially consistent, so one of the two sees the other.
//! - A synchronising call proves done what the driver had *taken* when the call was entered. A launch that another thread
//!   has counted and not yet handed over is not among it.

use crate::device::{Device, Progress};
use crate::events::Events;
use crate::streams::{Class, Key, OVERFLOW, Streams, Undone};
use crate::types::*;
use protocol::clock;
use protocol::segment::{ACTIVE, Slot};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// What a call proves done if it succeeds. Made when it is entered; nothing of it is on the heap.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the path of high priority allocates nothing")]
pub enum Mark {
    Nothing,
    /// So many launches of the stream in this place.
    One(usize, u64),
    /// So many of each of the first places of the list.
    Many {
        count: usize,
        marks: [(u16, u64); OVERFLOW + 1],
    },
}

/// The state of a process.
#[derive(Debug)]
pub struct Activity {
    undone: AtomicI64,
    streams: Streams,
    events: Events,
    /// Where the word and the counters are: the process's own until it is registered, then its slot.
    slot: AtomicPtr<Slot>,
    /// Threads inside calls that wait.
    waiting: AtomicU32,
    /// Stream captures that are open.
    captures: AtomicU32,
    /// The stream that the helper thread asks the driver about: `destroying` and `capture_begins` wait for it.
    asked: AtomicU64,
}

/// Nothing is asked.
const NOBODY: u64 = 0;
/// More than one stream.
const EVERYTHING: u64 = u64::MAX;

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number of the calling thread, for its default stream.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    THREAD
        .try_with(|number| {
            if number.get() == 0 {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
        // In a destructor of a thread that ends.
        .unwrap_or(0)
}

fn bits(stream: CUstream) -> u64 {
    stream.0 as u64
}

impl Activity {
    /// With a slot of the process's own.
    pub const fn new(slot: &'static Slot) -> Activity {
        Activity {
            undone: AtomicI64::new(0),
            streams: Streams::new(),
            events: Events::new(),
            slot: AtomicPtr::new(std::ptr::from_ref(slot).cast_mut()),
            waiting: AtomicU32::new(0),
            captures: AtomicU32::new(0),
            asked: AtomicU64::new(NOBODY),
        }
    }

    /// Where the word and the counters are now.
    #[inline]
    pub fn slot(&self) -> &Slot {
        // SAFETY: only references that live for ever are stored, see `new` and `publish_in`.
        unsafe { &*self.slot.load(Ordering::SeqCst) }
    }

    /// From now on in this slot; what was launched before counts there.
    pub fn publish_in(&self, slot: &'static Slot) {
        slot.word.store(clock::now(), Ordering::SeqCst);
        // A launch raises `undone` and then looks for the slot: either it finds this one, or it is seen below.
        self.slot.store(std::ptr::from_ref(slot).cast_mut(), Ordering::SeqCst);
        if self.undone.load(Ordering::SeqCst) > 0 {
            self.publish_active(slot);
        }
        self.publish_idle(slot);
    }

    /// Before a launch is handed to the driver; what is returned goes to [`Activity::handed`] after.
    #[inline]
    pub fn launch(&self, device: &impl Device, stream: CUstream) -> usize {
        let place = self.place(device, stream);
        self.undone.fetch_add(1, Ordering::SeqCst);
        let slot = self.slot();
        if slot.word.load(Ordering::SeqCst) != ACTIVE {
            self.publish_active(slot);
        }
        place
    }

    /// The driver has taken the launch, or refused it, in which case it is done.
    #[inline]
    pub fn handed(&self, place: usize, taken: bool) {
        if taken {
            self.streams.hand(place);
        } else {
            self.lower(1);
        }
    }

    fn lower(&self, newly: i64) {
        if newly > 0 && self.undone.fetch_sub(newly, Ordering::SeqCst) == newly {
            self.publish_idle(self.slot());
        }
    }

    #[cold]
    fn publish_active(&self, slot: &Slot) {
        slot.active_since.store(clock::now(), Ordering::Relaxed);
        if slot.word.swap(ACTIVE, Ordering::SeqCst) != ACTIVE {
            slot.counters.activations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Until the word and the count agree.
    fn publish_idle(&self, slot: &Slot) {
        while self.undone.load(Ordering::SeqCst) <= 0 {
            slot.word.store(clock::now(), Ordering::SeqCst);
            if self.undone.load(Ordering::SeqCst) <= 0 {
                return;
            }
            // Somebody has launched meanwhile, and may have seen the word before it was overwritten.
            slot.word.store(ACTIVE, Ordering::SeqCst);
        }
    }

    fn key(device: &impl Device, stream: CUstream) -> (Key, Option<CUcontext>) {
        match stream {
            LEGACY => {
                let context = device.context();
                (Key::legacy(context.0 as u64), Some(context))
            }
            PER_THREAD => (Key::of_thread(thread()), None),
            other => (Key::handle(bits(other)), None),
        }
    }

    #[inline]
    fn place(&self, device: &impl Device, stream: CUstream) -> usize {
        let (key, context) = Activity::key(device, stream);
        self.streams.find(key).unwrap_or_else(|| self.first_seen(device, stream, key, context))
    }

    #[cold]
    fn first_seen(
        &self,
        device: &impl Device,
        stream: CUstream,
        key: Key,
        context: Option<CUcontext>,
    ) -> usize {
        let context = context.unwrap_or_else(|| device.context());
        let class = match stream {
            LEGACY => Class::Legacy,
            PER_THREAD => Class::PerThread,
            other if device.is_non_blocking(other) => Class::NonBlocking,
            _ => Class::Blocking,
        };
        let place = self.streams.insert(key, context.0 as u64, class);
        if place == OVERFLOW {
            self.slot().counters.overflows.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    fn one(&self, place: usize) -> Mark {
        Mark::One(place, self.streams.handed(place))
    }

    fn many(&self, places: impl Iterator<Item = usize>) -> Mark {
        let mut marks = [(0, 0); OVERFLOW + 1];
        let mut count = 0;
        for place in places {
            marks[count] = (place as u16, self.streams.handed(place));
            count += 1;
        }
        Mark::Many { count, marks }
    }

    /// A call that waits or asks for a stream is entered. A synchronous copy is itself a launch on that stream, which its
    /// own return proves done: `own` is 1 for it, else 0.
    pub fn enter_stream(&self, device: &impl Device, stream: CUstream, own: u64) -> Mark {
        if stream == LEGACY {
            return self.enter_legacy(device, own);
        }
        let (key, _) = Activity::key(device, stream);
        match self.streams.find(key) {
            Some(place) => Mark::One(place, self.streams.handed(place) + own),
            None => Mark::Nothing,
        }
    }

    /// The legacy default stream, with the streams that it waits for.
    fn enter_legacy(&self, device: &impl Device, own: u64) -> Mark {
        let context = device.context().0 as u64;
        let mut mark = self.many(self.streams.of_legacy(context));
        let place = self.streams.find(Key::legacy(context));
        if let (Mark::Many { count, marks }, Some(place)) = (&mut mark, place) {
            let own_place = marks[..*count].iter_mut().find(|(at, _)| usize::from(*at) == place);
            own_place.into_iter().for_each(|(_, handed)| *handed += own);
        }
        mark
    }

    /// A call that waits for all of the current context is entered. With more than one context the overflow belongs to
    /// nobody knows which, so it is proved done only by the helper.
    pub fn enter_context(&self, device: &impl Device) -> Mark {
        let context = device.context().0 as u64;
        self.many(self.streams.of_context(context))
    }

    /// A call that waits or asks for an event is entered.
    pub fn enter_event(&self, event: CUevent) -> Mark {
        self.events.mark(event.0 as u64).map_or(Mark::Nothing, |(place, handed)| Mark::One(place, handed))
    }

    /// The call that made this mark has returned and its work is done.
    pub fn done(&self, mark: &Mark) {
        let newly: u64 = match mark {
            Mark::Nothing => 0,
            Mark::One(place, handed) => self.streams.done(*place, *handed),
            Mark::Many { count, marks } => marks[..*count]
                .iter()
                .map(|&(place, handed)| self.streams.done(usize::from(place), handed))
                .fold(0, u64::wrapping_add),
        };
        self.lower(newly as i64);
    }

    /// Threads inside calls that wait: the helper leaves the word to them.
    pub fn waiting(&self) -> &AtomicU32 {
        &self.waiting
    }

    /// An event is about to be recorded; [`Activity::recorded`] says that it was.
    pub fn record(&self, device: &impl Device, event: CUevent, stream: CUstream) {
        let (key, _) = Activity::key(device, stream);
        if self.captures() > 0 && device.is_capturing(stream) {
            return self.events.forget(event.0 as u64);
        }
        let noted = match self.streams.find(key) {
            Some(place) => match self.one(place) {
                Mark::One(place, handed) => self.events.record(event.0 as u64, place, handed),
                _ => true,
            },
            // Nothing was launched there: nothing is proved.
            None => {
                self.events.forget(event.0 as u64);
                true
            }
        };
        if !noted {
            self.slot().counters.overflows.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An event was recorded.
    pub fn recorded(&self, event: CUevent) {
        self.events.recorded(event.0 as u64);
    }

    /// An event stands for nothing any more.
    pub fn forget(&self, event: CUevent) {
        self.events.forget(event.0 as u64);
    }

    /// A stream is about to be destroyed; returns when the helper is not asking about it.
    pub fn destroying(&self, stream: CUstream) {
        if bits(stream) > bits(PER_THREAD) {
            // Threads that saw it first at once may have given it several places.
            while self.streams.remove(Key::handle(bits(stream))).is_some() {}
            self.until_not_asked(|asked| asked == bits(stream));
        }
    }

    /// A capture is about to begin; returns when the helper is asking about nothing.
    pub fn capture_begins(&self) {
        self.captures.fetch_add(1, Ordering::SeqCst);
        self.until_not_asked(|asked| asked != NOBODY);
    }

    fn until_not_asked(&self, about: impl Fn(u64) -> bool) {
        // Either the helper sees what was written before this, or its question is seen here.
        fence(Ordering::SeqCst);
        while about(self.asked.load(Ordering::SeqCst)) {
            std::thread::yield_now();
        }
    }

    /// A capture has ended.
    pub fn capture_ended(&self) {
        let lower = |open: u32| open.checked_sub(1);
        let _ = self.captures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lower);
    }

    /// Captures that are open.
    #[inline]
    pub fn captures(&self) -> u32 {
        self.captures.load(Ordering::SeqCst)
    }

    /// Whether any launch is not known to be done.
    pub fn is_active(&self) -> bool {
        self.undone.load(Ordering::SeqCst) > 0
    }

    /// Launches handed to the driver: differs after any of them.
    pub fn total(&self) -> u64 {
        self.streams.total()
    }

    /// Launches that were counted and are not handed over yet. One that stays so is held by the driver, whose queue is full.
    fn under_way(&self) -> bool {
        let undone = self.undone.load(Ordering::SeqCst);
        undone > self.streams.all().map(|at| self.streams.undone_at(at)).sum::<i64>()
    }

    /// For the helper: asks the driver about streams with undone work, one after the other, until one of them runs. Whether
    /// it found all of them done. Asks nothing while a launch is under way: the driver lets a question about the stream of a
    /// launch that it holds wait as long, and the beginning of a capture would wait for the helper.
    pub fn ask(&self, device: &impl Device) -> bool {
        let mut found = false;
        for undone in self.streams.undone() {
            if self.captures() > 0 || self.under_way() || !self.ask_one(device, undone) {
                return false;
            }
            found = true;
        }
        found
    }

    /// Whether it is done.
    fn ask_one(&self, device: &impl Device, undone: Undone) -> bool {
        let Undone { place, handle, context, handed, .. } = undone;
        // Whoever destroys the stream or begins a capture looks here after saying so; look there after writing this.
        self.asked.store(handle.unwrap_or(EVERYTHING), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let key = match handle {
            Some(1) => Some(Key::legacy(context)),
            Some(handle) => Some(Key::handle(handle)),
            None => None,
        };
        let allowed = self.captures() == 0
            && key.map_or(self.streams.has_undone(place), |key| self.streams.find(key) == Some(place));
        let done = allowed
            && device.within(CUcontext(context as *mut c_void), || match handle {
                Some(handle) => device.query_stream(CUstream(handle as *mut c_void)) != Progress::Running,
                // Nobody can ask about a stream without a handle. This thread waits for all of the context, which holds up
                // no other.
                None => {
                    device.synchronize();
                    true
                }
            });
        self.asked.store(NOBODY, Ordering::SeqCst);
        if done {
            self.done(&Mark::One(place, handed));
        }
        done
    }

    /// A context is about to be destroyed, with its streams and all that runs in it; returns when the helper is asking about
    /// nothing.
    pub fn context_gone(&self, context: CUcontext) {
        let context = context.0 as u64;
        let mark = self.many(self.streams.of_context(context).filter(|&at| at != OVERFLOW));
        self.done(&mark);
        self.streams.remove_context(context);
        self.until_not_asked(|asked| asked != NOBODY);
    }

    /// A primary context, it is not known which, may be about to go with its streams: their handles are not used any more,
    /// until something is launched there again. Returns when the helper is asking about nothing.
    pub fn any_context_gone(&self) {
        self.streams.remove_handles();
        self.until_not_asked(|asked| asked != NOBODY);
    }

    /// In the child of a fork: it has launched nothing.
    pub fn forked(&self, slot: &'static Slot) {
        self.slot.store(std::ptr::from_ref(slot).cast_mut(), Ordering::SeqCst);
    }
}
