//! The policy in force: what it is told of kernels, and what else falls due at a time of its own.
//!
//! Nothing here decides anything: events go in, operations come out, and the world carries them out.

use crate::client::Client;
use crate::machine::Machine;
use crate::prepared::{MICRO_SM, Prepared, Step};
use crate::program::{Kind, Program};
use crate::scenario::{Ns, Scenario};
use crate::system::Hook;
use sched::{Event, Op, Policy, Setting};

/// Something that falls due at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The policy asked to be called again.
    Policy(usize),
    /// A stop flag becomes visible on the device, or a reset takes effect, unless the flag has been lowered since it was
    /// asked for: then the client's count of that is another.
    Halt { client: usize, lowered: u32 },
    /// The high-priority job launches the first kernel of a segment.
    HighLaunch,
}

/// The policy of a cell; best-effort clients are numbered from 0.
#[derive(Debug)]
pub struct Control {
    policy: Box<dyn Policy>,
    hook: Hook,
    /// `kernels[client][step]`: what the policy is told of each launch of a program.
    kernels: Vec<Vec<sched::Kernel>>,
    /// Blocks and mean kernel of each segment of the high-priority program.
    stretches: Vec<(u64, sched::Kernel)>,
}

impl Control {
    /// The policy of a cell's system in its initial state; the clients are the cell's, in the order of their slots.
    pub fn new(scenario: &Scenario, clients: &[Client]) -> Control {
        let machine = scenario.machine;
        let (high, best_effort) = clients.split_at(usize::from(scenario.high.is_some()));
        let request = scenario.high.as_ref().map(|(program, _)| program);
        let setting = Setting {
            clients: best_effort.len(),
            sms: machine.sms,
            high_blocks: request.map_or(0, |p| blocks(p)),
            high_latency_ns: request.map_or(0, |p| p.unprofiled_mean_ns),
            word_delay_ns: machine.rules.word_delay_ns.value as Ns,
        };
        let hook = scenario.system.wiring().hook;
        Control {
            policy: scenario.system.policy(&setting),
            hook,
            kernels: match hook {
                Hook::None => Vec::new(),
                _ => best_effort.iter().map(|c| kernels(&c.program, machine)).collect(),
            },
            stretches: high.first().map_or_else(Vec::new, |c| stretches(&c.program, machine)),
        }
    }

    /// Puts a policy around this one.
    #[cfg(test)]
    pub fn wrap(&mut self, wrap: impl FnOnce(Box<dyn Policy>) -> Box<dyn Policy>) {
        let free = sched::System::parse("no-sharing").expect("a known system");
        let policy = std::mem::replace(&mut self.policy, free.policy(&Setting::default()));
        self.policy = wrap(policy);
    }

    /// Launches need consent.
    pub fn hooks(&self) -> bool {
        self.hook != Hook::None
    }

    /// The policy says whether a kernel that has left the device goes on or counts as done.
    pub fn closes(&self) -> bool {
        self.hook == Hook::Closing
    }

    /// Anything that is handed to the policy as it is. Without a hook it is not asked.
    pub fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>) {
        if self.hooks() {
            self.policy.step(event, now, ops);
        }
    }

    /// The high-priority job launches this segment of its program.
    pub fn high_launch(&mut self, segment: usize, now: Ns, ops: &mut Vec<Op>) {
        let (blocks, mean) = self.stretches[segment];
        self.step(Event::HighLaunch { blocks, mean }, now, ops);
    }

    /// A best-effort client wants to launch the kernel at this position of its program.
    pub fn request(&mut self, client: usize, step: usize, now: Ns, ops: &mut Vec<Op>) {
        let kernel = self.kernels[client][step];
        self.step(Event::Request { client, kernel }, now, ops);
    }
}

/// Thread blocks of one request.
fn blocks(program: &Program) -> u64 {
    let segments = program.segments.iter();
    segments.flat_map(|s| s.launches.iter().map(|l| l.blocks * u64::from(s.repeat))).sum()
}

fn kernels(program: &Prepared, machine: &Machine) -> Vec<sched::Kernel> {
    let steps = program.steps.iter().zip(&program.medians);
    steps.map(|(step, &duration_ns)| kernel(step, duration_ns, machine)).collect()
}

fn kernel(step: &Step, duration_ns: Ns, machine: &Machine) -> sched::Kernel {
    let form = &step.form;
    let resident = form.blocks.min(form.capacity);
    let permille = |demand: u64, peak: u64| (resident * demand * 1000 / peak).min(1000) as u32;
    sched::Kernel {
        blocks: form.blocks,
        threads: form.threads,
        duration_ns,
        sms: form.blocks.div_ceil(u64::from(form.per_sm.max(1))),
        sm_permille: permille(form.sm_demand, u64::from(machine.sms) * MICRO_SM),
        dram_permille: permille(form.dram_demand, machine.dram_bytes_per_us * 1000),
    }
}

/// Per segment: its blocks, and its kernels' means, weighted by duration but for duration and blocks themselves.
fn stretches(program: &Prepared, machine: &Machine) -> Vec<(u64, sched::Kernel)> {
    let all = kernels(program, machine);
    let mean = |first: usize, len: usize| {
        let of_part = first..first + len;
        let is_kernel = |&i: &usize| program.steps[i].kind == Kind::Kernel;
        let part: Vec<&sched::Kernel> = of_part.filter(is_kernel).map(|i| &all[i]).collect();
        let n = part.len().max(1) as u64;
        let time: Ns = part.iter().map(|k| k.duration_ns).sum();
        let weighted = |of: fn(&sched::Kernel) -> u64| {
            part.iter().map(|k| k.duration_ns * of(k)).sum::<u64>() / time.max(1)
        };
        sched::Kernel {
            blocks: part.iter().map(|k| k.blocks).sum::<u64>() / n,
            threads: weighted(|k| u64::from(k.threads)) as u32,
            duration_ns: time / n,
            sms: weighted(|k| k.sms),
            sm_permille: weighted(|k| u64::from(k.sm_permille)) as u32,
            dram_permille: weighted(|k| u64::from(k.dram_permille)) as u32,
        }
    };
    program.parts.iter().map(|p| (p.blocks, mean(p.first, p.len))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{h200, program};

    #[test]
    fn facts_of_kernels_are_those_of_the_recording() {
        let machine = h200();
        // 2,048 threads of a multiprocessor hold 8 blocks of 256: 1,000 blocks need 125 of 132 multiprocessors.
        let mut launch = crate::testing::kernel(1000, 256, 10_000);
        launch.sm_permille = Some(400);
        // 10 us at a quarter of 4.8 TB/s.
        launch.dram_bytes = Some(12_000_000);
        let longer = crate::program::Launch {
            duration_ns: [30_000; crate::program::QUANTILES],
            dram_bytes: Some(0),
            ..launch.clone()
        };
        let prepared = Prepared::new(&program(true, vec![launch, longer]), &machine, 1).unwrap();
        let first = kernels(&prepared, &machine)[0];
        assert_eq!((first.blocks, first.threads, first.duration_ns, first.sms), (1000, 256, 10_000, 125));
        assert!(first.sm_permille.abs_diff(400) <= 1 && first.dram_permille.abs_diff(250) <= 1, "{first:?}");
        // 250 for a quarter of the time; the means of 10 and 30 us, and of 1,000 and 1,000 blocks.
        let (blocks, mean) = stretches(&prepared, &machine)[0];
        assert_eq!((blocks, mean.blocks, mean.duration_ns, mean.sms), (2000, 1000, 20_000, 125));
        assert!(mean.dram_permille.abs_diff(62) <= 1, "{mean:?}");
    }
}
