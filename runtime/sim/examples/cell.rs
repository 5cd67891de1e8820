//! One simulated cell with invented kernels, under the systems that are named:
//! `cargo run --package sim --example cell -- time-slicing gate orion`.
//!
//! The high-priority job sends a CUDA graph of 50 kernels of 10 us every 5 ms, the best-effort job trains with kernels of
//! 0.5 ms that fill an H200 four times over.

use anyhow::Result;
use sim::program::{Kind, Launch, Program, QUANTILES, Segment};
use sim::{Machine, Ns, Scenario, System, Traffic};
use std::path::Path;

const SPAN_NS: Ns = 2_000_000_000;
const PERIOD_NS: Ns = 5_000_000;

fn main() -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/h200.toml");
    let machine = Machine::load(&file)?;
    let request = program(true, 50, kernel(100, 128, 10_000, 0));
    let training = program(false, 40, kernel(4 * 8 * u64::from(machine.sms), 256, 500_000, 2000));
    let arrivals: Vec<Ns> = (1..SPAN_NS / PERIOD_NS).map(|k| k * PERIOD_NS).collect();
    println!("simulated, {}; invented kernels", machine.name);
    for name in std::env::args().skip(1) {
        let system = System::parse(&name)?;
        let outcome = sim::simulate(&Scenario {
            machine: &machine,
            system: &system,
            high: Some((&request, Traffic::Paced(&arrivals))),
            best_effort: vec![(&training).into()],
            span_ns: SPAN_NS,
            seed: 1,
        })?;
        let mut times: Vec<Ns> = outcome.requests.iter().map(|r| r.end_ns - r.start_ns).collect();
        times.sort_unstable();
        let p99 = times[(times.len() - 1) * 99 / 100] as f64 / 1e6;
        let rate = outcome.best_effort[0].rate_hz().unwrap_or_default();
        println!("{system}: p99 {p99:.3} ms, {rate:.1} training iterations/s");
    }
    Ok(())
}

fn kernel(blocks: u64, threads: u32, duration: u32, host_ns: u64) -> Launch {
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
        host_ns,
        dram_bytes: Some(0),
        sm_permille: Some(500),
    }
}

/// One segment of `n` launches; its `host_ns` is the time between two of its calls.
fn program(graph: bool, n: u64, launch: Launch) -> Program {
    let busy = n * u64::from(launch.duration_ns[0] + launch.gap_ns) + 10_000;
    let launches = (0..n).map(|k| Launch { host_ns: k * launch.host_ns, ..launch.clone() }).collect();
    Program {
        id: "invented".into(),
        segments: vec![Segment {
            name: "all".into(),
            repeat: 1,
            graph,
            launches,
            unprofiled_median_ns: None,
            host_tail_ns: 0,
        }],
        names: vec!["kernel".into()],
        unprofiled_median_ns: busy,
        unprofiled_mean_ns: busy,
        memory_bytes: 0,
    }
}
