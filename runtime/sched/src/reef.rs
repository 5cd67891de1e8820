//! Reset and padding in the style of REEF: a high-priority request kills what best effort has on the device; beside it,
//! only kernels that fit into what it leaves over and are over sooner may run.
//!
//! Source: Han, Zhang, Chen and Chen, "Microsecond-scale Preemption for Concurrent GPU-accelerated DNN Inferences",
//! OSDI'22, and its code (SJTU-IPADS/reef, `src/reef/server/scheduler.cpp`). Normal mode: best-effort kernels go to the
//! device, few at a time (the code bounds its device queue to two). Real-time mode begins with a request: queued
//! best-effort kernels are withdrawn and running ones killed, to be run again from their first block; while the request
//! runs, its kernels are padded with best-effort kernels (dynamic kernel padding).
//!
//! Left out: that killing is only right for idempotent kernels (REEF's inference kernels are; a training step updates
//! weights in place, so that here idempotence is assumed and not given), and that the mechanism changes the driver of one
//! AMD GPU (MI50), while on NVIDIA's the paper's REEF-N cannot kill running kernels. Restricted: REEF merges two
//! kernels into one and bounds its registers; here a padding kernel is a launch of lower priority, admitted if its
//! duration is at most the mean of the request's kernels and it needs no more multiprocessors than these leave over.
//! REEF is told where a request ends; this policy waits for the high-priority client to be idle for a while.

use crate::Ns;
use crate::high::High;
use crate::parameter::Parameter;
use crate::policy::{Event, Kernel, Op, Policy};
use crate::system::{Entry, Wiring};
use std::collections::VecDeque;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Multiprocessors of the device.
    pub sms: u64,
    /// From asking for a reset to the device being free of the kernel, ns.
    pub reset_ns: Ns,
    /// Launches of one client on the device or queued there.
    pub depth: usize,
    /// How long high priority must not have launched for normal mode to begin, ns.
    pub idle_wait_ns: Ns,
}

#[derive(Clone, Debug, Default)]
struct Client {
    held: Option<Kernel>,
    /// Admitted and not completed, in order; the first is on the device or was killed.
    in_flight: VecDeque<Kernel>,
    /// A reset was asked for and what it hit has not been launched again.
    reset: bool,
    /// It was killed and has not been launched again.
    killed: bool,
}

/// The scheduler's state.
#[derive(Clone, Debug)]
pub struct Reef {
    settings: Settings,
    high: High,
    /// A request runs.
    real_time: bool,
    /// Its kernels' means.
    mean: Kernel,
    clients: Vec<Client>,
}

impl Reef {
    /// A scheduler for so many best-effort clients.
    pub fn new(clients: usize, settings: Settings) -> Reef {
        Reef {
            settings,
            high: High::new(settings.idle_wait_ns),
            real_time: false,
            mean: Kernel::default(),
            clients: vec![Client::default(); clients],
        }
    }

    fn begin(&mut self, ops: &mut Vec<Op>) {
        if std::mem::replace(&mut self.real_time, true) {
            return;
        }
        for (client, state) in self.clients.iter_mut().enumerate() {
            if !state.in_flight.is_empty() && !state.reset {
                state.reset = true;
                ops.push(Op::Reset { client, latency_ns: self.settings.reset_ns });
            }
        }
    }

    /// Multiprocessors that neither the request's kernels nor padding of others needs.
    fn left_over(&self, client: usize) -> u64 {
        let padding = self.clients.iter().enumerate().filter(|(k, c)| *k != client && !c.killed);
        let padding: u64 = padding.filter_map(|(_, c)| c.in_flight.front()).map(|k| k.sms).sum();
        self.settings.sms.saturating_sub(self.mean.sms + padding)
    }

    fn pads(&self, kernel: &Kernel, left_over: u64) -> bool {
        kernel.duration_ns <= self.mean.duration_ns && kernel.sms <= left_over
    }

    fn pass(&mut self, now: Ns, ops: &mut Vec<Op>) {
        if self.high.is_idle(now) {
            self.real_time = false;
        }
        let mut waits = false;
        for client in 0..self.clients.len() {
            let left_over = self.left_over(client);
            let state = &self.clients[client];
            let may = |kernel: &Kernel| !self.real_time || self.pads(kernel, left_over);
            if state.killed {
                // What was queued behind it follows by itself.
                if state.in_flight.iter().all(may) {
                    let state = &mut self.clients[client];
                    (state.reset, state.killed) = (false, false);
                    ops.push(Op::Continue { client });
                } else {
                    waits = true;
                }
            } else if let Some(kernel) = state.held
                && !state.reset
                && state.in_flight.len() < self.settings.depth
            {
                if may(&kernel) {
                    let state = &mut self.clients[client];
                    state.held = None;
                    state.in_flight.push_back(kernel);
                    ops.push(Op::Admit { client, original: true });
                } else {
                    waits = true;
                }
            }
        }
        if waits && let Some(at) = self.high.wake(now) {
            ops.push(Op::WakeAt { at, timer: 0 });
        }
    }
}

impl Policy for Reef {
    fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>) {
        match event {
            Event::Start | Event::Launched { .. } => return,
            Event::HighLaunch { mean, .. } => {
                // Idle for the wait, but nothing has happened since to find that out.
                self.real_time &= !self.high.is_idle(now);
                self.high.launch();
                self.mean = mean;
                self.begin(ops);
            }
            Event::HighIdle => self.high.idle(now),
            Event::Request { client, kernel } => self.clients[client].held = Some(kernel),
            Event::Completed { client } => {
                let state = &mut self.clients[client];
                state.in_flight.pop_front();
                if state.reset && state.in_flight.is_empty() {
                    state.reset = false;
                    ops.push(Op::Lower { client });
                }
            }
            Event::Stopped { client } => self.clients[client].killed = true,
            Event::Timer { .. } => {}
        }
        self.pass(now, ops);
    }
}

/// With the code's queue, and a reset that takes as long as the slower of what is reported: REEF's README says a few
/// microseconds on its GPU, GPreempt (ATC'25) 40 us for preemption on NVIDIA's.
pub static SYSTEMS: &[Entry] = &[Entry {
    name: "reef",
    title: "REEF-style",
    note: "REEF-style: best effort is killed and run again (after OSDI'22; idempotent kernels assumed).",
    color: (0xB0, 0x2A, 0x1E),
    source: "REEF (OSDI'22) and SJTU-IPADS/reef",
    parameters: &[
        Parameter::us("reset_us", "from asking for a reset to a free device", 40_000),
        Parameter::count("depth", "best-effort launches in flight", 2, 1, 1024),
        Parameter::us("idle_wait_us", "how long the high-priority side must be idle", 100_000),
    ],
    settles_s: 0,
    wiring: |_| Wiring::SERVER,
    policy: |values, setting| {
        let settings = Settings {
            sms: u64::from(setting.sms),
            reset_ns: values.number("reset_us"),
            depth: values.number("depth") as usize,
            idle_wait_ns: values.number("idle_wait_us"),
        };
        Box::new(Reef::new(setting.clients, settings))
    },
}];

#[cfg(test)]
mod tests {
    use super::*;

    const ADMIT: Op = Op::Admit { client: 0, original: true };
    const CONTINUE: Op = Op::Continue { client: 0 };
    const RESET: Op = Op::Reset { client: 0, latency_ns: 40 };
    const HIGH: Event =
        Event::HighLaunch { blocks: 500, mean: Kernel { sms: 90, duration_ns: 1000, ..NOTHING } };
    const NOTHING: Kernel =
        Kernel { blocks: 0, threads: 0, duration_ns: 0, sms: 0, sm_permille: 0, dram_permille: 0 };
    const LARGE: Kernel = Kernel { sms: 100, duration_ns: 9000, ..NOTHING };
    const SMALL: Kernel = Kernel { sms: 10, duration_ns: 1000, ..NOTHING };

    fn reef() -> Reef {
        Reef::new(1, Settings { sms: 100, reset_ns: 40, depth: 2, idle_wait_ns: 100 })
    }

    fn step(reef: &mut Reef, event: Event, now: Ns) -> Vec<Op> {
        let mut ops = Vec::new();
        reef.step(event, now, &mut ops);
        ops
    }

    fn request(kernel: Kernel) -> Event {
        Event::Request { client: 0, kernel }
    }

    #[test]
    fn a_request_kills_what_runs_and_it_runs_again_afterwards() {
        let mut reef = reef();
        assert_eq!(step(&mut reef, request(LARGE), 100), [ADMIT]);
        assert_eq!(step(&mut reef, HIGH, 200), [RESET]);
        assert_eq!(step(&mut reef, Event::Stopped { client: 0 }, 240), []);
        assert_eq!(step(&mut reef, HIGH, 300), [], "the second launch of a request resets nothing");
        assert_eq!(step(&mut reef, Event::HighIdle, 500), [Op::WakeAt { at: 600, timer: 0 }]);
        assert_eq!(step(&mut reef, Event::Timer { timer: 0 }, 600), [CONTINUE]);
        assert_eq!(step(&mut reef, Event::Completed { client: 0 }, 9600), []);
        assert_eq!(step(&mut reef, request(LARGE), 9601), [ADMIT]);
    }

    #[test]
    fn a_kernel_that_fits_pads_the_request() {
        let mut reef = reef();
        assert_eq!(step(&mut reef, HIGH, 200), []);
        assert_eq!(step(&mut reef, request(SMALL), 210), [ADMIT]);
        assert_eq!(step(&mut reef, Event::Completed { client: 0 }, 1210), []);
        for kernel in [LARGE, Kernel { sms: 11, ..SMALL }, Kernel { duration_ns: 1001, ..SMALL }] {
            assert_eq!(step(&mut reef, request(kernel), 1211), [], "{kernel:?}");
        }
        // What pads is not killed by the request's next launch.
        assert_eq!(step(&mut reef, request(SMALL), 1212), [ADMIT]);
        assert_eq!(step(&mut reef, HIGH, 1300), []);
    }

    #[test]
    fn a_killed_kernel_pads_only_if_what_is_queued_behind_it_would_too() {
        for (second, pads) in [(SMALL, true), (LARGE, false)] {
            let mut reef = reef();
            assert_eq!(step(&mut reef, request(SMALL), 100), [ADMIT]);
            assert_eq!(step(&mut reef, request(second), 101), [ADMIT]);
            assert_eq!(step(&mut reef, HIGH, 200), [RESET]);
            let ops = step(&mut reef, Event::Stopped { client: 0 }, 240);
            assert_eq!(ops == [CONTINUE], pads, "{second:?}");
        }
    }

    #[test]
    fn a_reset_that_came_too_late_is_called_off() {
        let mut reef = reef();
        assert_eq!(step(&mut reef, request(LARGE), 100), [ADMIT]);
        assert_eq!(step(&mut reef, HIGH, 200), [RESET]);
        assert_eq!(step(&mut reef, Event::Completed { client: 0 }, 210), [Op::Lower { client: 0 }]);
        assert_eq!(step(&mut reef, request(LARGE), 211), []);
    }

    #[test]
    fn few_launches_are_in_flight() {
        let mut reef = reef();
        let admitted: Vec<bool> =
            (0..3).map(|k| step(&mut reef, request(LARGE), 100 + k) == [ADMIT]).collect();
        assert_eq!(admitted, [true, true, false]);
        assert_eq!(step(&mut reef, Event::Completed { client: 0 }, 9100), [ADMIT]);
    }
}
