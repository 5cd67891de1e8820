//! The policies of `sched`, wired to the simulated clients.
//!
//! Nothing here decides anything: events go in, operations come out, and the world carries them out.

use crate::scenario::Ns;
use crate::system::{Gate, Substrate, System, TallyMode};
use sched::batch::Batch;
use sched::gate::{self, Activity};
use sched::tally::{self, Scheduler};
use sched::tgs::{self, Limiter, Meter};

/// Something that falls due at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The shared word becomes visible to the best-effort clients.
    Word(Activity),
    /// A policy asked to be called again for this best-effort client.
    Retry(usize),
    /// The central scheduler asked to be called again.
    Tally,
    /// A rate sample is due.
    Sample,
    /// A stop flag becomes visible on the device.
    Halt(usize),
    /// The high-priority job launches the first kernel of a segment.
    HighLaunch,
}

/// What the world has to do for a best-effort client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Issue the held launch.
    Admit { client: usize, original: bool },
    /// Launch the rest of an interrupted kernel.
    Continue { client: usize },
    /// Raise the stop flag.
    Retreat { client: usize },
    /// The kernel counts as done.
    Close { client: usize },
    /// Set a timer.
    At(Ns, Timer),
}

/// The policy in force; best-effort clients are numbered from 0.
#[derive(Debug)]
pub enum Control {
    /// Nobody holds anything back.
    Free,
    Gate {
        high: gate::High,
        clients: Vec<gate::BestEffort>,
        armed: Vec<Ns>,
        word_delay: Ns,
    },
    Tgs {
        meter: Meter,
        limiters: Vec<Limiter>,
    },
    Batch {
        batch: Batch,
        held: Vec<bool>,
    },
    Tally {
        scheduler: Scheduler,
        ops: Vec<tally::Op>,
    },
}

impl Control {
    /// The policy of a system for so many best-effort clients. `closed_loop_rate` is the high-priority job's rate in
    /// thread blocks per sampling period when it runs back to back, which TGS measures before the start.
    pub fn new(system: &System, clients: usize, closed_loop_rate: f64, word_delay: Ns) -> Control {
        match system {
            System::NoSharing | System::TimeSlicing | System::Mps | System::MpsPriority => Control::Free,
            System::Tally(t) if t.mode == TallyMode::NoScheduling => Control::Free,
            System::Tgs(_) => Control::Tgs {
                meter: Meter::default(),
                limiters: (0..clients).map(|_| Limiter::new(closed_loop_rate)).collect(),
            },
            System::TgsArtifact => Control::Batch { batch: Batch::default(), held: vec![false; clients] },
            System::Tally(t) => {
                let wait = if t.mode == TallyMode::Full { tally::MIN_WAIT_NS } else { 0 };
                Control::Tally { scheduler: Scheduler::new(clients, wait, 0), ops: Vec::new() }
            }
            System::Gate(g) => Control::Gate {
                high: gate::High::default(),
                clients: (0..clients).map(|_| gate::BestEffort::new(settings(g), 0)).collect(),
                armed: vec![Ns::MAX; clients],
                word_delay,
            },
        }
    }

    /// Launches need consent.
    pub fn hooks(&self) -> bool {
        !matches!(self, Control::Free)
    }

    /// A held launch keeps its host inside the call; upstream's server queues instead.
    pub fn blocks_host(&self) -> bool {
        !matches!(self, Control::Tally { .. } | Control::Batch { .. })
    }

    /// Timers that run from the start.
    pub fn first_timer(&self) -> Option<(Ns, Timer)> {
        matches!(self, Control::Tgs { .. }).then_some((tgs::SAMPLE_NS, Timer::Sample))
    }

    /// The high-priority job launches a segment of so many blocks.
    pub fn high_launch(&mut self, blocks: u64, now: Ns, orders: &mut Vec<Order>) {
        match self {
            Control::Gate { high, word_delay, .. } => {
                if let Some(word) = high.step(gate::HighEvent::Launch, now) {
                    orders.push(Order::At(now + *word_delay, Timer::Word(word)));
                }
            }
            Control::Tgs { meter, .. } => meter.launch(blocks),
            Control::Tally { .. } => self.tally(tally::Event::HighLaunched, now, orders),
            Control::Free | Control::Batch { .. } => {}
        }
    }

    /// The high-priority job's host saw the end of what it launched.
    pub fn high_idle(&mut self, now: Ns, orders: &mut Vec<Order>) {
        match self {
            Control::Gate { high, word_delay, .. } => {
                let launches_at_entry = high.launches();
                if let Some(word) = high.step(gate::HighEvent::SyncReturned { launches_at_entry }, now) {
                    orders.push(Order::At(now + *word_delay, Timer::Word(word)));
                }
            }
            Control::Tally { .. } => self.tally(tally::Event::HighCompleted, now, orders),
            Control::Free | Control::Tgs { .. } | Control::Batch { .. } => {}
        }
    }

    /// A best-effort client wants to launch a kernel of so many blocks.
    pub fn request(&mut self, client: usize, blocks: u64, now: Ns, orders: &mut Vec<Order>) {
        match self {
            Control::Free => orders.push(Order::Admit { client, original: true }),
            Control::Gate { .. } => self.gate(client, gate::Event::Launch, now, orders),
            Control::Tgs { limiters, .. } => match limiters[client].launch(blocks, now) {
                Ok(()) => orders.push(Order::Admit { client, original: true }),
                Err(again) => orders.push(Order::At(again, Timer::Retry(client))),
            },
            Control::Batch { batch, held } => {
                if batch.admit() {
                    orders.push(Order::Admit { client, original: true });
                } else {
                    held[client] = true;
                }
            }
            Control::Tally { .. } => self.tally(tally::Event::Queued { client }, now, orders),
        }
    }

    /// A best-effort launch completed as a whole.
    pub fn completed(&mut self, client: usize, now: Ns, orders: &mut Vec<Order>) {
        match self {
            Control::Gate { .. } => self.gate(client, gate::Event::Completed, now, orders),
            Control::Batch { batch, held } => {
                if batch.completed() {
                    for (client, held) in held.iter_mut().enumerate() {
                        if *held && batch.admit() {
                            *held = false;
                            orders.push(Order::Admit { client, original: true });
                        }
                    }
                }
            }
            Control::Tally { .. } => self.tally(tally::Event::Completed { client }, now, orders),
            Control::Free | Control::Tgs { .. } => {}
        }
    }

    /// What was interrupted has left the device.
    pub fn stopped(&mut self, client: usize, now: Ns, orders: &mut Vec<Order>) {
        match self {
            Control::Gate { .. } => self.gate(client, gate::Event::Stopped, now, orders),
            _ => self.completed(client, now, orders),
        }
    }

    /// Nothing of this client's is known to be on the device.
    pub fn drained(&self, client: usize) -> bool {
        matches!(self, Control::Gate { clients, .. } if clients[client].in_flight() == 0)
    }

    /// A timer has come due; `blocks` are those of a client's held launch.
    pub fn timer(&mut self, timer: Timer, blocks: impl Fn(usize) -> u64, now: Ns, orders: &mut Vec<Order>) {
        match timer {
            Timer::Word(word) => {
                let Control::Gate { clients, .. } = self else { return };
                for client in 0..clients.len() {
                    self.gate(client, gate::Event::Word(word), now, orders);
                }
            }
            Timer::Retry(client) => match self {
                Control::Gate { armed, .. } => {
                    armed[client] = Ns::MAX;
                    self.gate(client, gate::Event::Timer, now, orders);
                }
                _ => self.request(client, blocks(client), now, orders),
            },
            Timer::Tally => self.tally(tally::Event::Timer, now, orders),
            Timer::Sample => {
                let Control::Tgs { meter, limiters } = self else { return };
                let rate = meter.sample();
                for limiter in limiters {
                    limiter.sample(rate, now);
                }
                orders.push(Order::At(now + tgs::SAMPLE_NS, Timer::Sample));
            }
            Timer::Halt(_) | Timer::HighLaunch => {}
        }
    }

    /// Tells the central scheduler in which form a kernel was launched.
    pub fn launched(&mut self, client: usize, config: tally::Config) {
        if let Control::Tally { scheduler, .. } = self {
            scheduler.launched(client, config);
        }
    }

    fn gate(&mut self, client: usize, event: gate::Event, now: Ns, orders: &mut Vec<Order>) {
        let Control::Gate { clients, armed, .. } = self else { return };
        match clients[client].step(event, now) {
            None => {}
            Some(gate::Op::Admit) => orders.push(Order::Admit { client, original: true }),
            Some(gate::Op::Resume) => orders.push(Order::Continue { client }),
            Some(gate::Op::Retreat) => orders.push(Order::Retreat { client }),
            // Asking twice for the same time would only wake it twice.
            Some(gate::Op::WakeAt(at)) if armed[client] != at => {
                armed[client] = at;
                orders.push(Order::At(at, Timer::Retry(client)));
            }
            Some(gate::Op::WakeAt(_)) => {}
        }
    }

    fn tally(&mut self, event: tally::Event, now: Ns, orders: &mut Vec<Order>) {
        let Control::Tally { scheduler, ops } = self else { return };
        scheduler.step(event, now, ops);
        orders.extend(ops.drain(..).map(|op| match op {
            tally::Op::Launch { client, original } => Order::Admit { client, original },
            tally::Op::Continue { client } => Order::Continue { client },
            tally::Op::Retreat { client } => Order::Retreat { client },
            tally::Op::Close { client } => Order::Close { client },
            tally::Op::WakeAt(at) => Order::At(at, Timer::Tally),
        }));
    }
}

fn settings(gate: &Gate) -> gate::Settings {
    gate::Settings { level: gate.level, depth: gate.depth, idle_wait_ns: gate.idle_wait_ns }
}

/// How a system's clients share the device, and whether the high-priority one is placed first.
pub fn substrate(system: &System) -> (Substrate, bool) {
    match system {
        System::NoSharing | System::TimeSlicing => (Substrate::Contexts, false),
        System::Mps => (Substrate::Mps, false),
        System::MpsPriority => (Substrate::Mps, true),
        // Upstream's server runs all clients in one context, on streams with priorities.
        System::TgsArtifact | System::Tally(_) => (Substrate::Mps, true),
        System::Tgs(substrate) => (*substrate, false),
        System::Gate(gate) => (gate.substrate, true),
    }
}

/// The clients talk to the device through the MPS daemon.
pub fn through_mps(system: &System) -> bool {
    match system {
        System::Mps | System::MpsPriority | System::Tgs(Substrate::Mps) => true,
        System::Gate(gate) => gate.substrate == Substrate::Mps,
        _ => false,
    }
}
