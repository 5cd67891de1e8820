//! Small machines and programs for tests.

use crate::machine::Machine;
use crate::program::{Kind, Launch, Program, QUANTILES, Segment};
use crate::scenario::{Ns, Outcome, Scenario, Traffic};
use crate::system::System;

/// The model of the H200 without the cost of starting beside others, which the block-by-block model does not have.
pub fn h200() -> Machine {
    let mut machine =
        Machine::parse(include_str!("../../../machines/h200.toml")).expect("the machine file is valid");
    machine.rules.corun_start_ns.value = 0.0;
    machine.rules.corun_start_ns_per_tb_s.value = 0.0;
    machine
}

/// A kernel whose every run takes `duration` ns alone.
pub fn kernel(blocks: u64, threads: u32, duration: u32) -> Launch {
    Launch {
        kind: Kind::Kernel,
        name: 0,
        blocks,
        threads,
        regs: 32,
        cluster: 1,
        smem: 0,
        duration_ns: [duration; QUANTILES],
        gap_ns: 1000,
        host_ns: 0,
        dram_bytes: Some(0),
        sm_permille: Some(0),
    }
}

pub fn program(graph: bool, launches: Vec<Launch>) -> Program {
    let busy: u64 = launches.iter().map(|l| u64::from(l.duration_ns[0] + l.gap_ns)).sum();
    Program {
        id: "test".into(),
        segments: vec![Segment {
            name: "s".into(),
            repeat: 1,
            graph,
            launches,
            unprofiled_median_ns: None,
            host_tail_ns: 0,
        }],
        names: vec!["k".into()],
        unprofiled_median_ns: busy + 10_000,
        unprofiled_mean_ns: busy + 10_000,
        memory_bytes: 0,
    }
}

/// An inference request of `n` equal small kernels.
pub fn request(n: usize, blocks: u64, duration: u32) -> Program {
    program(true, (0..n).map(|_| kernel(blocks, 128, duration)).collect())
}

/// A training iteration of `n` equal kernels whose host runs ahead.
pub fn training(n: usize, blocks: u64, duration: u32) -> Program {
    let launch = |i: usize| Launch { host_ns: i as u64 * 2000, ..kernel(blocks, 256, duration) };
    program(false, (0..n).map(launch).collect())
}

/// Arrivals each `period` ns.
pub fn every(period: Ns, span: Ns) -> Vec<Ns> {
    (1..span / period).map(|k| k * period).collect()
}

pub fn run(system: &str, high: Option<(&Program, &[Ns])>, best: &[&Program], span_ns: Ns) -> Outcome {
    run_on(&h200(), system, high, best, span_ns)
}

pub fn run_on(
    machine: &Machine,
    system: &str,
    high: Option<(&Program, &[Ns])>,
    best: &[&Program],
    span_ns: Ns,
) -> Outcome {
    let system = System::parse(system).expect("a known system");
    let scenario = Scenario {
        machine,
        system: &system,
        high: high.map(|(p, a)| (p, Traffic::Paced(a))),
        best_effort: best.iter().map(|program| (*program).into()).collect(),
        span_ns,
        seed: 1,
    };
    crate::simulate(&scenario).expect("the cell runs")
}

/// Service times, sorted, ns.
pub fn service(outcome: &Outcome) -> Vec<Ns> {
    let mut times: Vec<Ns> = outcome.requests.iter().map(|r| r.end_ns - r.start_ns).collect();
    times.sort_unstable();
    times
}

pub fn p99(outcome: &Outcome) -> Ns {
    let times = service(outcome);
    times[(times.len() - 1) * 99 / 100]
}
