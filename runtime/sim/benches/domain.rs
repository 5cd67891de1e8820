//! The simulator's hot loop on made-up jobs, so that it can be timed without recorded profiles.
//!
//! `RUSTFLAGS="--cfg sim_bench" cargo bench -p sim`. Each time is that of one simulated interval; the throughput is in
//! simulated nanoseconds, so that `1 Gelem/s` is one simulated second per second.

#[cfg(sim_bench)]
mod benches {
    use criterion::{BatchSize, Criterion, Throughput};
    use sim::{Kind, Launch, Machine, Program, Scenario, Segment, System, Traffic};

    const INTERVAL_NS: u64 = 100_000_000;

    fn program(graph: bool, launches: Vec<Launch>) -> Program {
        let busy: u64 = launches.iter().map(|l| u64::from(l.duration_ns[0] + l.gap_ns)).sum();
        let segment = Segment {
            name: "all".into(),
            repeat: 1,
            graph,
            launches,
            unprofiled_median_ns: None,
            host_tail_ns: 0,
        };
        Program {
            id: "made-up".into(),
            segments: vec![segment],
            names: vec!["kernel".into()],
            unprofiled_median_ns: busy + 10_000,
            unprofiled_mean_ns: busy + 10_000,
            memory_bytes: 0,
        }
    }

    fn launch(blocks: u64, threads: u32, duration_ns: u32, dram_bytes: u64) -> Launch {
        Launch {
            kind: Kind::Kernel,
            name: 0,
            blocks,
            threads,
            regs: 64,
            cluster: 1,
            smem: 0,
            duration_ns: [duration_ns; sim::program::QUANTILES],
            gap_ns: 900,
            host_ns: 0,
            dram_bytes: Some(dram_bytes),
            sm_permille: Some(300),
        }
    }

    /// A request of 200 short kernels in a graph, of sizes around the number of multiprocessors.
    fn request() -> Program {
        program(
            true,
            (0..200).map(|i| launch(48 + 37 * (i % 7), 128, 5_000 + 900 * (i as u32 % 5), 0)).collect(),
        )
    }

    /// An iteration of 300 kernels of one to nine rounds whose host runs ahead. `dram_bytes` is the traffic of each.
    fn training(k: u64, dram_bytes: u64) -> Program {
        let of = |i: u64| {
            let blocks = 400 + 331 * ((i + k) % 11);
            Launch {
                host_ns: i * 4_000,
                ..launch(blocks, 256, 30_000 + 7_000 * ((i + k) as u32 % 13), dram_bytes)
            }
        };
        program(false, (0..300).map(of).collect())
    }

    pub fn run() {
        let machine =
            Machine::parse(include_str!("../../../machines/h200.toml")).expect("the machine file is valid");
        let request = request();
        let quiet: Vec<Program> = (0..9).map(|k| training(k, 0)).collect();
        let loud: Vec<Program> = (0..2).map(|k| training(k, 150_000_000)).collect();
        let arrivals: Vec<u64> = (0..INTERVAL_NS / 4_000_000).map(|k| k * 4_000_000).collect();
        let mut criterion = Criterion::default().configure_from_args();
        let mut group = criterion.benchmark_group("domain");
        group.throughput(Throughput::Elements(INTERVAL_NS));
        let cases: [(&str, &str, &[Program]); 6] = [
            ("priority, 2 jobs", "mps-priority", &quiet[..1]),
            ("no priority, 2 jobs", "mps", &quiet[..1]),
            ("short of bandwidth, 2 jobs", "mps", &loud[..1]),
            ("short of bandwidth, 3 jobs", "mps-priority", &loud),
            ("priority, 4 jobs", "mps-priority", &quiet[..3]),
            ("priority, 10 jobs", "mps-priority", &quiet),
        ];
        for (name, system, best_effort) in cases {
            let system = System::parse(system).expect("a known system");
            group.bench_function(name, |bencher| {
                let scenario = || Scenario {
                    machine: &machine,
                    system: &system,
                    high: Some((&request, Traffic::Paced(&arrivals))),
                    best_effort: best_effort.iter().collect(),
                    span_ns: INTERVAL_NS,
                    seed: 1,
                };
                bencher.iter_batched(
                    scenario,
                    |s| sim::simulate(&s).expect("the cell runs"),
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
        criterion.final_summary();
    }
}

fn main() {
    #[cfg(sim_bench)]
    benches::run();
    #[cfg(not(sim_bench))]
    eprintln!("the benches are behind a switch: RUSTFLAGS=\"--cfg sim_bench\" cargo bench -p sim");
}
