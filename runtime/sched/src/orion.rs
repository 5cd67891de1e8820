//! Interference-aware gating in the style of Orion: a best-effort kernel may run beside the high-priority client only if
//! it asks for another resource, fits, and too much best-effort time is not under way already.
//!
//! Source: Strati, Ma and Klimovic, "Orion: Interference-aware, Fine-grained GPU Sharing for ML Applications", EuroSys'24,
//! and its code (eth-easl/orion, `src/scheduler/scheduler_eval.cpp`): one context, streams with priorities, clients
//! that queue their launches with a scheduler, recorded profiles. High-priority launches go out at once. A best-effort
//! launch goes out if high priority is idle, or if it is bound by the other resource and needs at most a number of
//! multiprocessors (all of them when the high-priority job is inference, as in the code). Once the durations of what
//! went out exceed a share of a high-priority request's latency, nothing goes out until all of it has completed; the code
//! applies this whether high priority is idle or not.
//!
//! Left out: the search for the number of multiprocessors when the high-priority job trains; that copies are scheduled
//! by PCIe bandwidth; unprofiled kernels, which the code lets pass. Different: Orion looks at the high-priority kernel
//! at the head of the queue, this policy at the mean of a launched stretch, since a CUDA graph is one launch; and Orion is
//! told where a request ends, this policy waits for the high-priority client to be idle for a while.

use crate::Ns;
use crate::high::High;
use crate::parameter::Parameter;
use crate::policy::{Event, Kernel, Op, Policy};
use crate::system::{Entry, Wiring};

/// What a kernel asks most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Compute,
    Memory,
}

/// The side of the roofline's ridge on which a kernel lies: its share of peak throughput against its share of bandwidth.
fn bound(kernel: &Kernel) -> Bound {
    if kernel.sm_permille > kernel.dram_permille { Bound::Compute } else { Bound::Memory }
}

/// The thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Multiprocessors that best-effort kernels which go out together may need.
    pub sms: u64,
    /// Summed durations of best-effort kernels after which they have to drain, ns (DUR_THRESHOLD).
    pub duration_ns: Ns,
    /// How long high priority must not have launched to count as idle, ns.
    pub idle_wait_ns: Ns,
}

/// The scheduler's state.
#[derive(Clone, Debug)]
pub struct Orion {
    limits: Limits,
    high: High,
    high_bound: Bound,
    held: Vec<Option<Kernel>>,
    in_flight: u32,
    /// Durations of what went out since it last had to drain.
    sum_ns: Ns,
    draining: bool,
    /// Best-effort clients are looked at in turn, from this one on.
    turn: usize,
}

impl Orion {
    /// A scheduler for so many best-effort clients.
    pub fn new(clients: usize, limits: Limits) -> Orion {
        Orion {
            limits,
            high: High::new(limits.idle_wait_ns),
            high_bound: Bound::Compute,
            held: vec![None; clients],
            in_flight: 0,
            sum_ns: 0,
            draining: false,
            turn: 0,
        }
    }

    fn pass(&mut self, now: Ns, ops: &mut Vec<Op>) {
        if self.draining && self.in_flight == 0 {
            self.draining = false;
            self.sum_ns = 0;
        }
        let idle = self.high.is_idle(now);
        let n = self.held.len();
        let first = self.turn;
        let mut together = 0;
        for client in (0..n).map(|k| (first + k) % n) {
            if self.draining {
                break;
            }
            let Some(kernel) = self.held[client] else { continue };
            let beside = bound(&kernel) != self.high_bound && together + kernel.sms <= self.limits.sms;
            if !idle && !beside {
                continue;
            }
            self.held[client] = None;
            self.in_flight += 1;
            together += kernel.sms;
            self.sum_ns += kernel.duration_ns;
            self.draining = self.sum_ns > self.limits.duration_ns;
            self.turn = (client + 1) % n;
            ops.push(Op::Admit { client, original: true });
        }
        if !idle
            && self.held.iter().any(Option::is_some)
            && let Some(at) = self.high.wake(now)
        {
            ops.push(Op::WakeAt { at, timer: 0 });
        }
    }
}

impl Policy for Orion {
    fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>) {
        match event {
            Event::Start | Event::Launched { .. } => return,
            Event::HighLaunch { mean, .. } => {
                self.high.launch();
                self.high_bound = bound(&mean);
            }
            Event::HighIdle => self.high.idle(now),
            Event::Request { client, kernel } => self.held[client] = Some(kernel),
            Event::Completed { .. } => self.in_flight -= 1,
            Event::Stopped { .. } | Event::Timer { .. } => {}
        }
        self.pass(now, ops);
    }
}

/// With the released code's limits for an inference job.
pub static SYSTEMS: &[Entry] = &[Entry {
    name: "orion",
    title: "Orion-style",
    note: "Orion-style: best-effort kernels of the complementary kind beside high priority (after EuroSys'24).",
    color: (0x7B, 0x4F, 0xC9),
    source: "Orion (EuroSys'24) and eth-easl/orion",
    parameters: &[
        Parameter::percent("sm_percent", "share of the multiprocessors for best effort", 1000, 0, 1000),
        Parameter::percent("duration_percent", "DUR_THRESHOLD, of a request's latency alone", 25, 0, 1000),
        Parameter::us("idle_wait_us", "how long the high-priority side must be idle", 100_000),
    ],
    settles_s: 0,
    wiring: |_| Wiring::SERVER,
    policy: |values, setting| {
        let limits = Limits {
            sms: u64::from(setting.sms) * values.number("sm_percent") / 1000,
            duration_ns: setting.high_latency_ns * values.number("duration_percent") / 1000,
            idle_wait_ns: values.number("idle_wait_us"),
        };
        Box::new(Orion::new(setting.clients, limits))
    },
}];

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { sms: 100, duration_ns: 40_000, idle_wait_ns: 1000 };
    const ADMIT: Op = Op::Admit { client: 0, original: true };

    fn kernel(sm_permille: u32, dram_permille: u32) -> Kernel {
        Kernel { blocks: 80, threads: 256, duration_ns: 30_000, sms: 80, sm_permille, dram_permille }
    }

    fn compute() -> Kernel {
        kernel(800, 100)
    }

    fn memory() -> Kernel {
        kernel(100, 800)
    }

    fn step(orion: &mut Orion, event: Event, now: Ns) -> Vec<Op> {
        let mut ops = Vec::new();
        orion.step(event, now, &mut ops);
        ops
    }

    fn beside(high: Kernel) -> Orion {
        let mut orion = Orion::new(2, LIMITS);
        assert_eq!(step(&mut orion, Event::HighLaunch { blocks: 10, mean: high }, 2000), []);
        orion
    }

    #[test]
    fn only_the_complementary_kind_runs_beside_high_priority() {
        for (high, best, runs) in [
            (compute(), compute(), false),
            (compute(), memory(), true),
            (memory(), compute(), true),
            (memory(), memory(), false),
        ] {
            let ops = step(&mut beside(high), Event::Request { client: 0, kernel: best }, 2100);
            assert_eq!(ops == [ADMIT], runs, "{best:?} beside {high:?}");
        }
    }

    #[test]
    fn a_kernel_of_more_multiprocessors_waits_until_high_priority_is_idle() {
        let mut orion = beside(compute());
        let large = Kernel { sms: 101, ..memory() };
        assert_eq!(step(&mut orion, Event::Request { client: 0, kernel: large }, 2100), []);
        assert_eq!(step(&mut orion, Event::HighIdle, 5000), [Op::WakeAt { at: 6000, timer: 0 }]);
        assert_eq!(step(&mut orion, Event::Timer { timer: 0 }, 6000), [ADMIT]);
    }

    #[test]
    fn kernels_that_go_out_together_share_the_multiprocessors() {
        let mut orion = beside(compute());
        // Held first because both are large, then high priority turns to work of the other kind: 60 + 60 > 100.
        let half = Kernel { sms: 60, ..compute() };
        for client in 0..2 {
            assert_eq!(step(&mut orion, Event::Request { client, kernel: half }, 2100), []);
        }
        assert_eq!(step(&mut orion, Event::HighLaunch { blocks: 1, mean: memory() }, 2200), [ADMIT]);
    }

    #[test]
    fn beyond_the_duration_threshold_everything_drains_first() {
        let mut orion = Orion::new(1, LIMITS);
        let request = Event::Request { client: 0, kernel: compute() };
        // 30 us, then 60 us of 40 us.
        assert_eq!(step(&mut orion, request, 2000), [ADMIT]);
        assert_eq!(step(&mut orion, request, 2001), [ADMIT]);
        assert_eq!(step(&mut orion, request, 2002), []);
        assert_eq!(step(&mut orion, Event::Completed { client: 0 }, 32_000), []);
        assert_eq!(step(&mut orion, Event::Completed { client: 0 }, 62_000), [ADMIT]);
    }
}
