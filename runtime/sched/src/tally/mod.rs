//! Upstream's central scheduler (Tally): one scheduler sees all clients' launches and orders them by priority.
//!
//! Upstream polls in an endless loop; here every event runs the passes that the loop would make until nothing changes.
//! What the loop would find by polling the device arrives as an event.

mod choice;
mod systems;

pub use choice::{Config, Limits, Shape, candidates, choose, slices};
pub use systems::SYSTEMS;

use crate::Ns;

/// How long the high-priority client must be idle before best effort may run (upstream's default), ns.
pub const MIN_WAIT_NS: Ns = 100_000;
/// After so long an idle time best-effort kernels run untransformed (upstream's default), ns.
pub const USE_ORIGINAL_AFTER_NS: Ns = 100_000_000;

/// What the scheduler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The high-priority client's queue became non-empty: its kernels are launched at once.
    HighLaunched,
    /// Everything that the high-priority client launched has completed.
    HighCompleted,
    /// A best-effort client queued one more kernel.
    Queued { client: usize },
    /// What was launched last for this client has left the device: a kernel, a slice, or workers that retreated.
    Completed { client: usize },
    /// The time of an earlier [`Op::WakeAt`] has come.
    Timer,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Launch the client's next queued kernel; the caller looks up its configuration unless `original` is set.
    Launch { client: usize, original: bool },
    /// Launch the next slice, or the persistent workers again with the kept block counter.
    Continue { client: usize },
    /// Set the retreat flag of the client's persistent workers.
    Retreat { client: usize },
    /// The client's kernel counts as done.
    Close { client: usize },
    /// Call again with [`Event::Timer`] at this time.
    WakeAt(Ns),
}

/// The kernel of a best-effort client that is on the device or half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    config: Config,
    /// Not told to stop.
    running: bool,
    /// Nothing of it is on the device.
    complete: bool,
    /// Slices launched so far.
    slice: u32,
}

impl Record {
    fn finished(&self) -> bool {
        self.complete
            && match self.config {
                Config::Original => true,
                // Workers that were told to stop are launched once more even if no block is left.
                Config::Persistent { .. } => self.running,
                Config::Sliced { slices } => self.slice == slices,
            }
    }
}

#[derive(Clone, Debug, Default)]
struct Client {
    queued: u32,
    record: Option<Record>,
}

/// The scheduler's state.
#[derive(Clone, Debug)]
pub struct Scheduler {
    high_active: bool,
    idle_since: Ns,
    min_wait_ns: Ns,
    /// In descending order of priority; equal priorities are served strictly in this order, as upstream does.
    clients: Vec<Client>,
}

impl Scheduler {
    /// A scheduler started at `now`; `min_wait_ns` is [`MIN_WAIT_NS`], or 0 with transformation disabled.
    pub fn new(best_effort_clients: usize, min_wait_ns: Ns, now: Ns) -> Self {
        Scheduler {
            high_active: false,
            idle_since: now,
            min_wait_ns,
            clients: vec![Client::default(); best_effort_clients],
        }
    }

    /// Tells which configuration the caller chose for the kernel of the last [`Op::Launch`].
    pub fn launched(&mut self, client: usize, config: Config) {
        self.clients[client].record = Some(Record { config, running: true, complete: false, slice: 1 });
    }

    /// One event; operations are appended to `ops` in the order in which they must be carried out. After each
    /// [`Op::Launch`] the caller must call [`Scheduler::launched`] before the next step.
    pub fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>) {
        match event {
            Event::HighLaunched => {
                self.high_active = true;
                self.interrupt(ops);
            }
            Event::HighCompleted => {
                self.high_active = false;
                self.idle_since = now;
            }
            Event::Queued { client } => self.clients[client].queued += 1,
            Event::Completed { client } => {
                if let Some(record) = &mut self.clients[client].record {
                    record.complete = true;
                }
            }
            Event::Timer => {}
        }
        self.pass(now, ops);
    }

    /// A client above dequeued a kernel: the first kernel that is still running is told to stop. The new kernel does
    /// not wait for it to drain.
    fn interrupt(&mut self, ops: &mut Vec<Op>) {
        let running = |c: &Client| c.record.is_some_and(|r| r.running);
        let Some(client) = self.clients.iter().position(running) else { return };
        let record = self.clients[client].record.as_mut().expect("position() found one");
        let sliced = matches!(record.config, Config::Sliced { .. });
        if record.complete && !sliced {
            self.clients[client].record = None;
            ops.push(Op::Close { client });
            return;
        }
        record.running = false;
        if matches!(record.config, Config::Persistent { .. }) {
            ops.push(Op::Retreat { client });
        }
    }

    fn pass(&mut self, now: Ns, ops: &mut Vec<Op>) {
        if self.high_active || self.clients.iter().all(|c| c.record.is_none() && c.queued == 0) {
            return;
        }
        let due = self.idle_since + self.min_wait_ns;
        if now < due {
            ops.push(Op::WakeAt(due));
            return;
        }
        for client in 0..self.clients.len() {
            if let Some(record) = &mut self.clients[client].record {
                if !record.complete {
                    return;
                }
                if !record.finished() {
                    record.running = true;
                    record.complete = false;
                    record.slice += 1;
                    ops.push(Op::Continue { client });
                    return;
                }
                self.clients[client].record = None;
                ops.push(Op::Close { client });
            }
            if self.clients[client].queued > 0 {
                self.interrupt(ops);
                self.clients[client].queued -= 1;
                let original = now - self.idle_since > USE_ORIGINAL_AFTER_NS;
                ops.push(Op::Launch { client, original });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheduler: &mut Scheduler, event: Event, now: Ns) -> Vec<Op> {
        let mut ops = Vec::new();
        scheduler.step(event, now, &mut ops);
        ops
    }

    const LAUNCH: Op = Op::Launch { client: 0, original: false };
    const CLOSE: Op = Op::Close { client: 0 };

    #[test]
    fn waits_for_the_idle_time_before_the_first_launch() {
        let mut s = Scheduler::new(1, MIN_WAIT_NS, 0);
        assert_eq!(run(&mut s, Event::Queued { client: 0 }, 10), [Op::WakeAt(100_000)]);
        assert_eq!(run(&mut s, Event::Timer, 100_000), [LAUNCH]);
    }

    #[test]
    fn persistent_workers_retreat_and_are_launched_again() {
        let mut s = Scheduler::new(1, MIN_WAIT_NS, 0);
        assert_eq!(run(&mut s, Event::Queued { client: 0 }, 200_000), [LAUNCH]);
        s.launched(0, Config::Persistent { workers: 264 });
        assert_eq!(run(&mut s, Event::HighLaunched, 210_000), [Op::Retreat { client: 0 }]);
        assert_eq!(run(&mut s, Event::Completed { client: 0 }, 220_000), []);
        assert_eq!(run(&mut s, Event::HighCompleted, 300_000), [Op::WakeAt(400_000)]);
        assert_eq!(run(&mut s, Event::Timer, 400_000), [Op::Continue { client: 0 }]);
        assert_eq!(run(&mut s, Event::Completed { client: 0 }, 500_000), [CLOSE]);
    }

    #[test]
    fn slices_are_withheld_while_high_priority_runs() {
        let mut s = Scheduler::new(1, 0, 0);
        assert_eq!(run(&mut s, Event::Queued { client: 0 }, 0), [LAUNCH]);
        s.launched(0, Config::Sliced { slices: 2 });
        assert_eq!(run(&mut s, Event::HighLaunched, 1), []);
        assert_eq!(run(&mut s, Event::Completed { client: 0 }, 2), []);
        assert_eq!(run(&mut s, Event::HighCompleted, 3), [Op::Continue { client: 0 }]);
        assert_eq!(run(&mut s, Event::Completed { client: 0 }, 4), [CLOSE]);
    }

    #[test]
    fn original_kernels_cannot_be_stopped_and_close_after_high_priority_is_idle() {
        let mut s = Scheduler::new(1, 0, 0);
        run(&mut s, Event::Queued { client: 0 }, 0);
        s.launched(0, Config::Original);
        assert_eq!(run(&mut s, Event::HighLaunched, 1), []);
        assert_eq!(run(&mut s, Event::Completed { client: 0 }, 2), []);
        // A finished kernel stays open, its client blocked, until high priority idles.
        assert_eq!(run(&mut s, Event::HighCompleted, 3), [CLOSE]);
    }

    #[test]
    fn long_idleness_allows_original_kernels() {
        let mut s = Scheduler::new(1, MIN_WAIT_NS, 0);
        assert_eq!(
            run(&mut s, Event::Queued { client: 0 }, 100_000_001),
            [Op::Launch { client: 0, original: true }]
        );
    }

    #[test]
    fn equal_priorities_are_served_strictly_in_order() {
        let mut s = Scheduler::new(2, 0, 0);
        assert_eq!(run(&mut s, Event::Queued { client: 1 }, 0), [Op::Launch { client: 1, original: false }]);
        s.launched(1, Config::Persistent { workers: 132 });
        let ops = run(&mut s, Event::Queued { client: 0 }, 1);
        assert_eq!(ops, [Op::Retreat { client: 1 }, LAUNCH]);
    }
}
