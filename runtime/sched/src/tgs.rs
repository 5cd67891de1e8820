//! TGS's rate control: the high-priority side measures its block rate, the best-effort side limits its own until that
//! rate no longer suffers.
//!
//! Follows the original system (hijack library of TGS, NSDI'23), not the port behind the published Tally comparison,
//! which is [`crate::batch`]. Constants are the original's.

use crate::Ns;
use crate::client::{self, Client, Halves};
use crate::parameter::Values;
use crate::policy::{Event, Op, Policy, Setting};
use crate::system::{Entry, Form, Hook, Substrate, Wiring};
use std::collections::VecDeque;

/// The high-priority side samples, and the best-effort side adjusts, once per this time.
pub const SAMPLE_NS: Ns = 5_000_000_000;
/// The best-effort side's budget is in blocks per this time.
pub const BUDGET_NS: Ns = 50_000_000;
/// A refused launch asks again after this time.
pub const RETRY_NS: Ns = 10_000_000;

const WINDOW: usize = 5;
const FIRST_LIMIT: f64 = 20_000.0;
const LARGEST_LIMIT: f64 = 1e14;
const TWO_POW_32: f64 = 4_294_967_296.0;
const TWO_POW_40: f64 = 1_099_511_627_776.0;
/// A sample below this many blocks counts as an idle period.
const IDLE_SAMPLE: f64 = 1000.0;

/// The last samples, and the largest average of two neighbours among them.
#[derive(Clone, Debug, Default)]
struct Window(VecDeque<f64>);

impl Window {
    fn push(&mut self, sample: f64) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    fn peak(&self) -> f64 {
        if self.0.len() == 1 {
            return self.0[0];
        }
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.map(|(a, b)| (a + b) / 2.0).fold(0.0, f64::max)
    }

    fn idle_samples(&self) -> usize {
        self.0.iter().filter(|&&s| s < IDLE_SAMPLE).count()
    }
}

/// The high-priority client's meter, in thread blocks per [`SAMPLE_NS`].
#[derive(Clone, Debug, Default)]
pub struct Meter {
    blocks: f64,
    window: Window,
    max_rate: f64,
}

impl Meter {
    /// Counts a launch; never delays it.
    pub fn launch(&mut self, blocks: u64) {
        self.blocks += blocks as f64;
    }

    /// Ends a sampling period; returns its rate, to be sent to the best-effort side.
    pub fn sample(&mut self) -> f64 {
        let rate = std::mem::take(&mut self.blocks);
        // The window's maximum is taken before the new sample joins it.
        let peak = self.window.peak();
        self.max_rate =
            if (peak - self.max_rate).abs() <= 0.2 * self.max_rate { self.max_rate.max(peak) } else { peak };
        self.window.push(rate);
        rate
    }

    /// The rate that the best-effort side is told when it connects.
    pub fn max_rate(&self) -> f64 {
        self.max_rate
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Learning the high-priority side's undisturbed rate; next to nothing is admitted.
    Profile,
    Control,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    SlowStart,
    CongestionAvoidance,
}

/// The best-effort client's limiter.
#[derive(Clone, Debug)]
pub struct Limiter {
    phase: Phase,
    growth: Growth,
    /// Direction of the last additive step.
    rising: bool,
    /// Blocks per [`BUDGET_NS`].
    limit: f64,
    /// Blocks since the start of the current budget period, which is `period`.
    spent: f64,
    period: u64,
    /// Blocks of the last full period.
    current: f64,
    max: f64,
    window: Window,
    phase_samples: u32,
    control_samples: u32,
    suffering: u32,
}

impl Limiter {
    /// A limiter that has just connected and been told the high-priority side's rate so far.
    pub fn new(max_rate: f64) -> Self {
        Limiter {
            phase: Phase::Profile,
            growth: Growth::SlowStart,
            rising: true,
            limit: 0.0,
            spent: 0.0,
            period: 0,
            current: 0.0,
            max: max_rate,
            window: Window::default(),
            phase_samples: 0,
            control_samples: 0,
            suffering: 0,
        }
    }

    /// Blocks per [`BUDGET_NS`] that are admitted now.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Asks to launch a kernel of so many blocks: `Ok` admits it, `Err` names the time to ask again.
    pub fn launch(&mut self, blocks: u64, now: Ns) -> Result<(), Ns> {
        self.roll(now);
        if self.spent > self.limit {
            return Err(now + RETRY_NS);
        }
        self.spent += blocks as f64;
        Ok(())
    }

    fn roll(&mut self, now: Ns) {
        let period = now / BUDGET_NS;
        if period != self.period {
            // A period in which nothing was asked has zero blocks.
            self.current = if period == self.period + 1 { self.spent } else { 0.0 };
            self.spent = 0.0;
            self.period = period;
        }
    }

    /// A sample of the high-priority side's rate arrived.
    pub fn sample(&mut self, rate: f64, now: Ns) {
        self.roll(now);
        let rate = rate.max(1.0);
        self.window.push(rate);
        self.phase_samples += 1;
        match self.phase {
            Phase::Profile => self.profile(),
            Phase::Control => self.control(rate),
        }
    }

    /// Deviation of the window's peak from the assumed maximum.
    fn drift(&self) -> f64 {
        if self.max > 0.0 { (self.window.peak() - self.max) / self.max } else { f64::INFINITY }
    }

    fn adopt(&mut self) {
        let peak = self.window.peak();
        self.max = if peak > self.max { self.max.max(0.975 * peak) } else { self.max.min(1.025 * peak) };
    }

    fn profile(&mut self) {
        let drift = self.drift();
        if drift.abs() > 0.05 {
            self.adopt();
            return;
        }
        let peak = self.window.peak();
        self.max = self.max.max(peak);
        // As the original: it goes on profiling while the two differ by less than one, so that a perfectly steady
        // high-priority job holds the best-effort job at about one kernel per budget period for ever.
        if self.phase_samples >= WINDOW as u32 && self.max - peak >= 1.0 {
            self.phase = Phase::Control;
            self.phase_samples = 0;
        }
    }

    fn control(&mut self, rate: f64) {
        let drift = self.drift().abs();
        if drift <= 0.1 {
            self.max = self.max.max(self.window.peak());
        } else if drift > 0.2 {
            self.adopt();
            self.phase = Phase::Profile;
            self.phase_samples = 0;
            return;
        }
        self.control_samples += 1;
        if self.control_samples == 1 {
            self.limit = FIRST_LIMIT;
            self.growth = Growth::SlowStart;
            return;
        }
        let idle = self.window.idle_samples();
        if idle >= 3 && self.control_samples >= 15 {
            // The high-priority side is idle: no limit.
            self.limit = LARGEST_LIMIT.min((3.0 * self.current).max(TWO_POW_32));
            self.growth = Growth::SlowStart;
        } else if idle == 2 && self.control_samples > 15 {
            self.limit = FIRST_LIMIT;
            self.growth = Growth::SlowStart;
        } else {
            self.adjust((rate - self.max).abs() / self.max);
        }
    }

    /// Slow start and congestion avoidance. `off` is two-sided: a rise of the high-priority rate counts like a drop.
    fn adjust(&mut self, off: f64) {
        const TOLERANCE: f64 = 0.03;
        match self.growth {
            Growth::SlowStart if off <= TOLERANCE => {
                let cap = LARGEST_LIMIT.min((3.0 * self.current).max(TWO_POW_40));
                self.limit = cap.min(1.5 * self.limit + 1.0);
            }
            Growth::SlowStart => {
                self.limit /= 1.5;
                self.rising = false;
                self.growth = Growth::CongestionAvoidance;
            }
            Growth::CongestionAvoidance => {
                let within = if self.rising { off < TOLERANCE } else { off <= TOLERANCE };
                if within {
                    self.limit += (0.00025 * self.max).max(1000.0);
                } else {
                    self.limit -= (0.08 * self.limit).max(1000.0);
                }
                self.rising = within;
                self.limit = self.limit.min(LARGEST_LIMIT.min((3.0 * self.current).max(TWO_POW_32)));
                if off >= 0.09 {
                    self.growth = Growth::SlowStart;
                    self.limit /= 10.0;
                }
            }
        }
        self.suffering = if off >= 0.12 { self.suffering + 1 } else { 0 };
        if self.suffering == 20 {
            self.suffering = 0;
            self.max *= 0.8;
            self.growth = Growth::SlowStart;
            self.limit /= 2.0;
        }
        self.limit = self.limit.max(0.0);
    }
}

/// A best-effort client: its limiter and the launch that waits.
#[derive(Clone, Debug)]
pub struct BestEffort {
    limiter: Limiter,
    /// Blocks of the held launch.
    held: Option<u64>,
}

impl BestEffort {
    /// A client that has just connected and been told the high-priority side's rate so far.
    pub fn new(max_rate: f64) -> BestEffort {
        BestEffort { limiter: Limiter::new(max_rate), held: None }
    }

    /// The program wants to launch a kernel of so many blocks. As [`BestEffort::ask`].
    pub fn launch(&mut self, blocks: u64, now: Ns) -> Option<Result<(), Ns>> {
        self.held = Some(blocks);
        self.ask(now)
    }

    /// Asks for the held launch, if there is one: `Ok` admits it, `Err` names the time to ask again.
    pub fn ask(&mut self, now: Ns) -> Option<Result<(), Ns>> {
        let answer = self.limiter.launch(self.held?, now);
        if answer.is_ok() {
            self.held = None;
        }
        Some(answer)
    }

    /// A sample of the high-priority side's rate arrived.
    pub fn sample(&mut self, rate: f64, now: Ns) {
        self.limiter.sample(rate, now);
    }
}

/// The timer of the samples; those above are of the clients' refused launches.
const SAMPLE: usize = 0;

/// The rate control between one high-priority client and all others.
#[derive(Debug)]
struct RateControl {
    meter: Meter,
    clients: Vec<BestEffort>,
}

impl RateControl {
    /// For [`Entry::policy`]: the high-priority job's rate in a closed loop was measured before the start.
    fn policy(_: &Values, setting: &Setting) -> Box<dyn Policy> {
        let rate = setting.high_blocks as f64 * SAMPLE_NS as f64 / setting.high_latency_ns.max(1) as f64;
        let clients = vec![BestEffort::new(rate); setting.clients];
        Box::new(RateControl { meter: Meter::default(), clients })
    }

    fn carry_out(&self, client: usize, answer: Option<Result<(), Ns>>, ops: &mut Vec<Op>) {
        match answer {
            Some(Ok(())) => ops.push(Op::Admit { client, original: true }),
            Some(Err(at)) => ops.push(Op::WakeAt { at, timer: self.timer(client) }),
            None => {}
        }
    }
}

impl Policy for RateControl {
    fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>) {
        match event {
            Event::Start => ops.push(Op::WakeAt { at: now + SAMPLE_NS, timer: SAMPLE }),
            Event::HighLaunch { blocks, .. } => self.meter.launch(blocks),
            Event::Request { client, kernel } => {
                let answer = self.clients[client].launch(kernel.blocks, now);
                self.carry_out(client, answer, ops);
            }
            Event::Timer { timer: SAMPLE } => {
                let rate = self.meter.sample();
                for client in &mut self.clients {
                    client.sample(rate, now);
                }
                ops.push(Op::WakeAt { at: now + SAMPLE_NS, timer: SAMPLE });
            }
            Event::Timer { timer } => {
                let client = timer - self.timer(0);
                let answer = self.clients[client].ask(now);
                self.carry_out(client, answer, ops);
            }
            Event::HighIdle | Event::Launched { .. } | Event::Completed { .. } | Event::Stopped { .. } => {}
        }
    }

    fn halves(&self) -> Option<&dyn Halves> {
        Some(self)
    }
}

impl Halves for RateControl {
    fn client(&self, _now: Ns, max_rate: f64) -> Client {
        Client::tgs(BestEffort::new(max_rate))
    }

    fn seen(&self, client: usize, event: &Event) -> Option<client::Event> {
        match *event {
            Event::Request { client: of, kernel } if of == client => Some(client::Event::launch(&kernel)),
            Event::Timer { timer: SAMPLE } => Some(client::Event::Rate(self.meter.blocks)),
            Event::Timer { timer } if timer == self.timer(client) => Some(client::Event::Timer),
            _ => None,
        }
    }

    fn timer(&self, client: usize) -> usize {
        SAMPLE + 1 + client
    }
}

const CONTEXTS: Wiring = Wiring {
    substrate: Substrate::Contexts,
    mps_daemon: false,
    high_first: false,
    hook: Hook::Client,
    form: Form::Original,
};

/// It samples every 5 s and profiles for 25 s; a shorter cell is all transient.
const SETTLES_S: u64 = 120;

/// The rate control over either way of sharing.
pub static SYSTEMS: &[Entry] = &[
    Entry {
        name: "tgs",
        title: "TGS",
        note: "TGS: rate control of the TGS paper over time-sliced contexts.",
        color: (0xE3, 0x9A, 0xC4),
        source: "TGS (NSDI'23)",
        parameters: &[],
        settles_s: SETTLES_S,
        wiring: |_| CONTEXTS,
        policy: RateControl::policy,
    },
    Entry {
        name: "tgs-mps",
        title: "TGS on MPS",
        note: "TGS on MPS: the same rate control under MPS.",
        color: (0xB8, 0x56, 0x92),
        source: "TGS (NSDI'23)",
        parameters: &[],
        settles_s: SETTLES_S,
        wiring: |_| Wiring { substrate: Substrate::Mps, mps_daemon: true, ..CONTEXTS },
        policy: RateControl::policy,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_keeps_the_largest_average_of_neighbours() {
        let mut meter = Meter::default();
        for blocks in [100, 300, 200] {
            meter.launch(blocks);
            assert_eq!(meter.sample(), blocks as f64);
        }
        // The peak of {100, 300} is 200; the third sample joins after it was taken.
        assert_eq!(meter.max_rate(), 200.0);
    }

    #[test]
    fn profiling_admits_about_one_kernel_per_period() {
        let mut limiter = Limiter::new(5000.0);
        assert_eq!(limiter.launch(64, 0), Ok(()));
        assert_eq!(limiter.launch(64, 1), Err(1 + RETRY_NS));
        assert_eq!(limiter.launch(64, BUDGET_NS), Ok(()));
    }

    #[test]
    fn a_perfectly_steady_job_is_profiled_for_ever() {
        let mut limiter = Limiter::new(5000.0);
        for k in 1..=100 {
            limiter.sample(5000.0, k * SAMPLE_NS);
        }
        assert_eq!(limiter.limit(), 0.0);
    }

    #[test]
    fn a_nearly_steady_job_is_profiled_then_the_limit_grows() {
        let mut limiter = Limiter::new(5000.0);
        let limits: Vec<f64> = (1..=10)
            .map(|k| {
                limiter.sample(4990.0, k * SAMPLE_NS);
                limiter.limit()
            })
            .collect();
        // Five samples of profiling, the first control sample sets 20,000, then 1.5 x + 1.
        assert_eq!(limits[..7], [0.0, 0.0, 0.0, 0.0, 0.0, 20_000.0, 30_001.0]);
    }

    #[test]
    fn a_drop_of_the_rate_cuts_the_limit() {
        let mut limiter = Limiter::new(5000.0);
        for k in 1..=8 {
            limiter.sample(4990.0, k * SAMPLE_NS);
        }
        let before = limiter.limit();
        limiter.sample(4700.0, 9 * SAMPLE_NS);
        assert_eq!(limiter.limit(), before / 1.5);
        let before = limiter.limit();
        limiter.sample(4500.0, 10 * SAMPLE_NS);
        // 10 % off: 8 % down, then back to slow start at a tenth.
        assert_eq!(limiter.limit(), (before - 0.08 * before) / 10.0);
    }

    #[test]
    fn a_high_priority_job_that_falls_idle_lifts_the_limit() {
        let mut limiter = Limiter::new(5000.0);
        for k in 1..=25 {
            limiter.sample(4990.0, k * SAMPLE_NS);
        }
        for k in 26..=28 {
            limiter.sample(0.0, k * SAMPLE_NS);
        }
        assert!(limiter.limit() >= TWO_POW_32, "{}", limiter.limit());
    }
}
