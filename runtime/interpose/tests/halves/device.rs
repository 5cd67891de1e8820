//! A device that does what the test says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use tally_interpose::device::{Device, Progress};
use tally_interpose::types::*;

/// What the test and the device share.
#[derive(Debug, Default)]
pub struct World {
    pub non_blocking: BTreeSet<usize>,
    pub capturing: BTreeSet<usize>,
    /// Launches per stream, and how many of them are complete.
    launched: BTreeMap<usize, (u64, u64)>,
    /// Stream and launches before it, by event.
    events: BTreeMap<usize, (usize, u64)>,
    next_event: usize,
    pub records: usize,
    pub queries: usize,
    /// Contexts that were waited for as a whole; 0 stands for none.
    pub synchronized: Vec<usize>,
    current: usize,
    pub destroyed_events: usize,
    /// The driver takes no event any more.
    pub broken: bool,
}

impl World {
    /// All that was launched on a stream is complete.
    pub fn complete(&mut self, stream: usize) {
        let counts = self.launched.entry(stream).or_default();
        counts.1 = counts.0;
    }

    /// Questions about streams, and waits for whole contexts.
    pub fn asked(&self) -> (usize, usize) {
        (self.queries, self.synchronized.len())
    }

    pub fn events_made(&self) -> usize {
        self.next_event / 16
    }

    pub fn launch(&mut self, stream: usize) {
        self.launched.entry(stream).or_default().0 += 1;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Fake(pub Arc<Mutex<World>>);

pub const CONTEXT: usize = 0x1000;

pub fn stream(handle: usize) -> CUstream {
    CUstream(std::ptr::without_provenance_mut(handle))
}

pub fn event(handle: usize) -> CUevent {
    CUevent(std::ptr::without_provenance_mut(handle))
}

impl Fake {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics while it holds the world")
    }
}

impl Device for Fake {
    fn context(&self) -> CUcontext {
        CUcontext(std::ptr::without_provenance_mut(CONTEXT))
    }

    fn within<R>(&self, context: CUcontext, body: impl FnOnce() -> R) -> R {
        self.world().current = context.0.addr();
        body()
    }

    fn is_capturing(&self, stream: CUstream) -> bool {
        self.world().capturing.contains(&stream.0.addr())
    }

    fn is_non_blocking(&self, stream: CUstream) -> bool {
        self.world().non_blocking.contains(&stream.0.addr())
    }

    fn query_stream(&self, stream: CUstream) -> Progress {
        self.world().queries += 1;
        let (launched, complete) = self.world().launched.get(&stream.0.addr()).copied().unwrap_or_default();
        if launched == complete { Progress::Done } else { Progress::Running }
    }

    fn create_event(&self, _: bool) -> Option<CUevent> {
        let mut world = self.world();
        world.next_event += 16;
        (!world.broken).then(|| event(world.next_event))
    }

    fn destroy_event(&self, event: CUevent) {
        let mut world = self.world();
        world.events.remove(&event.0.addr()).expect("an event that is there");
        world.destroyed_events += 1;
    }

    fn record_event(&self, event: CUevent, stream: CUstream) -> bool {
        let mut world = self.world();
        let launched = world.launched.get(&stream.0.addr()).map_or(0, |counts| counts.0);
        world.events.insert(event.0.addr(), (stream.0.addr(), launched));
        world.records += 1;
        !world.broken
    }

    fn query_event(&self, event: CUevent) -> Progress {
        let world = self.world();
        let Some((stream, launched)) = world.events.get(&event.0.addr()) else { return Progress::Lost };
        let complete = world.launched.get(stream).map_or(0, |counts| counts.1);
        if complete >= *launched { Progress::Done } else { Progress::Running }
    }

    fn elapsed_ns(&self, _: CUevent, _: CUevent) -> Option<u64> {
        Some(700)
    }

    fn synchronize(&self) -> bool {
        let mut world = self.world();
        let current = world.current;
        world.synchronized.push(current);
        true
    }
}
