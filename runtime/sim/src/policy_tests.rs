//! What the policies beyond the paper do to a request and to training, and kernels that are killed.

use crate::device::Device;
use crate::exact::Exact;
use crate::kernel::{Done, Kernel};
use crate::occupancy::Resources;
use crate::prepared::Prepared;
use crate::program::Program;
use crate::scenario::Ns;
use crate::testing::*;
use proptest::prelude::*;

const MS: Ns = 1_000_000;

/// A program whose kernels take this share of the multiprocessors' throughput and of the memory bandwidth.
fn asking(mut program: Program, sm_permille: u32, dram_permille: u64) -> Program {
    for launch in &mut program.segments[0].launches {
        launch.sm_permille = Some(sm_permille);
        launch.dram_bytes = Some(u64::from(launch.duration_ns[0]) * 4_800 * dram_permille / 1000);
    }
    program
}

#[test]
fn orion_admits_the_complementary_kind_beside_a_request_and_holds_its_own() {
    let requests = |sm, dram| asking(request(50, 40, 10_000), sm, dram);
    let training = |sm, dram| asking(training(20, 40, 30_000), sm, dram);
    let (compute, memory) = ((700, 50), (50, 300));
    // Requests of 0.56 ms every 0.6 ms: the pauses are shorter than the idle wait.
    let arrivals = every(600_000, 200 * MS);
    for (high, best, runs) in
        [(compute, compute, false), (compute, memory, true), (memory, compute, true), (memory, memory, false)]
    {
        let high = requests(high.0, high.1);
        let outcome = run("orion", Some((&high, &arrivals)), &[&training(best.0, best.1)], 200 * MS);
        let iterations = outcome.best_effort[0].iterations;
        // One iteration fits before the first request.
        assert_eq!(iterations > 10, runs, "{iterations} iterations of {best:?}");
    }
}

#[test]
fn orion_drains_beyond_its_share_of_a_requests_latency() {
    let high = asking(request(50, 40, 10_000), 700, 50);
    let best = asking(training(20, 40, 30_000), 50, 300);
    let arrivals = every(600_000, 200 * MS);
    let iterations =
        |system| run(system, Some((&high, &arrivals)), &[&best], 200 * MS).best_effort[0].iterations;
    // One kernel at a time against as many as there are.
    let (one, all) = (iterations("orion:duration_percent=0"), iterations("orion:duration_percent=100"));
    assert!(one < all && one > 10, "{one} and {all}");
}

/// Full device, one wave, five milliseconds; a request after three.
fn long_kernel_and_request(system: &str, span_ns: Ns) -> (Ns, u64) {
    let high = request(50, 100, 10_000);
    let best = training(1, 8 * 132, 5_000_000);
    let outcome = run(system, Some((&high, &[3 * MS])), &[&best], span_ns);
    (service(&outcome)[0] - high.unprofiled_median_ns, outcome.best_effort[0].iterations)
}

#[test]
fn reef_begins_a_request_within_the_reset_and_runs_the_killed_kernel_again() {
    let delay = |system| long_kernel_and_request(system, 4 * MS).0;
    assert!(delay("mps-priority") > MS, "{}", delay("mps-priority"));
    let (default, short) = (delay("reef"), delay("reef:reset_us=10"));
    assert!((30_000..=41_000).contains(&default), "{default}");
    assert_eq!(default - short, 30_000);
    // Killed at 3 ms, again on the device 0.66 ms later (the request, and 0.1 ms of idle wait), over at 8.7 ms.
    let iterations = |span| long_kernel_and_request("reef", span).1;
    assert_eq!((iterations(8_500_000), iterations(9_000_000)), (0, 1));
    assert_eq!(long_kernel_and_request("mps-priority", 8_500_000).1, 1, "not killed, it is over at 5 ms");
}

/// The first request's reset finds its kernel over; the next kernel is reset 60 us later, before the first reset would
/// have taken effect.
#[test]
fn a_reset_that_was_called_off_does_not_kill_the_next_kernel() {
    let high = request(1, 100, 10_000);
    let best = training(1, 8 * 132, 500_000);
    let over = h200().rules.launch_latency_ns.value as Ns + 500_000;
    let arrivals = [over - 10_000, over + 50_000];
    let system = "reef:reset_us=100,idle_wait_us=10,depth=1";
    let outcome = run(system, Some((&high, &arrivals)), &[&best], 2 * MS);
    assert_eq!(outcome.counters.switches, 2, "both requests ask for a reset");
    let delays: Vec<Ns> =
        outcome.requests.iter().map(|r| r.end_ns - r.start_ns - high.unprofiled_median_ns).collect();
    assert!(delays[0] < 20_000, "{delays:?}: the kernel is over by itself");
    assert!((90_000..=101_000).contains(&delays[1]), "{delays:?}");
}

#[test]
fn reef_pads_a_request_with_short_kernels_that_fit() {
    let high = request(50, 40, 10_000);
    let arrivals = every(600_000, 100 * MS);
    let iterations =
        |best: &Program| run("reef", Some((&high, &arrivals)), &[best], 100 * MS).best_effort[0].iterations;
    // 40 blocks of 128 threads need 3 of 132 multiprocessors, 40 of 256 need 5.
    assert!(iterations(&training(20, 40, 9_000)) > 10);
    // Before the first request three iterations end.
    assert!(iterations(&training(20, 40, 12_000)) < 10, "too long");
    assert!(iterations(&training(20, 8 * 132, 9_000)) < 10, "too wide");
}

#[test]
fn a_partition_never_queues_but_has_its_share_only() {
    let arrivals = every(10 * MS, 500 * MS);
    let graph = h200().rules.mps_graph_launch_ns.value as Ns;
    let best = training(100, 8 * 132 * 4, 400_000);
    // 16 blocks of 128 threads fit on a multiprocessor: 66 of them hold 1,056.
    let fits = request(50, 1056, 10_000);
    let outcome = run("partition", Some((&fits, &arrivals)), &[&best], 500 * MS);
    assert_eq!(service(&outcome)[0], p99(&outcome));
    assert!(p99(&outcome).abs_diff(fits.unprofiled_median_ns + graph) < 100, "{}", p99(&outcome));
    // One block more is a second wave of another 10 us, fifty times.
    let spills = request(50, 1057, 10_000);
    let outcome = run("partition", Some((&spills, &arrivals)), &[&best], 500 * MS);
    let expected = spills.unprofiled_median_ns + graph + 500_000;
    assert!(p99(&outcome).abs_diff(expected) < 100, "{} for {expected}", p99(&outcome));
    // Its share is all that it has without a neighbour, too.
    let alone = run("partition", Some((&spills, &arrivals)), &[], 500 * MS);
    assert!(p99(&alone).abs_diff(expected) < 100, "{} for {expected}", p99(&alone));
    // Four waves become eight on half of the device, sixteen on a quarter.
    let rate =
        |system| run(system, Some((&fits, &arrivals)), &[&best], 5000 * MS).best_effort[0].rate_hz().unwrap();
    let alone = run("no-sharing", None, &[&best], 5000 * MS).best_effort[0].rate_hz().unwrap();
    for (system, share) in [("partition", 0.5), ("partition:high_percent=75", 0.25)] {
        let got = rate(system) / alone;
        assert!((got / share - 1.0).abs() < 0.02, "{system}: {got}");
    }
}

/// One block of 1,024 threads and 64 registers fills a multiprocessor: a cluster of two finds no room on one.
#[test]
fn a_cluster_that_does_not_fit_on_its_part_is_refused_by_name() {
    let mut best = training(3, 40, 30_000);
    best.id = "clusters".into();
    best.names.push("pairs".into());
    best.segments[0].launches[1] = crate::Launch {
        cluster: 2,
        regs: 64,
        threads: 1024,
        name: 1,
        ..best.segments[0].launches[1].clone()
    };
    let high = request(50, 40, 10_000);
    let (machine, arrivals) = (h200(), every(MS, 10 * MS));
    let outcome = |system: &str| {
        let system = crate::System::parse(system).unwrap();
        crate::simulate(&crate::Scenario {
            machine: &machine,
            system: &system,
            high: Some((&high, crate::Traffic::Paced(&arrivals))),
            best_effort: vec![(&best).into()],
            span_ns: 10 * MS,
            seed: 1,
        })
    };
    // 99 % of 132 leave one multiprocessor, 98 % three.
    let error = outcome("partition:high_percent=99").unwrap_err().to_string();
    for part in ["`pairs`", "`clusters`", "clusters of 2", "multiprocessors: 1,"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(outcome("partition:high_percent=98").unwrap().best_effort[0].iterations > 0);
    assert!(outcome("mps").unwrap().best_effort[0].iterations > 0);
}

fn devices() -> [Device; 3] {
    let machine = h200();
    let whole = Resources::whole(&machine.sm);
    let exact = Exact::new(machine.sms, machine.gpcs, whole, machine.dram_bytes_per_us * 1000);
    [Device::domain(&machine), Device::Exact(Box::new(exact)), Device::contexts(&machine, 2)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Beside a kernel that goes on, one is killed after a while and launched again: it leaves with all its blocks, and in
    /// the end every block was placed once and done once.
    #[test]
    fn a_killed_kernel_leaves_with_all_its_blocks(
        (mine, other) in (1_u64..5000, 1_u64..5000),
        (duration, others) in (1_000_u32..500_000, 1_000_u32..500_000),
        after_percent in 0_u64..200,
    ) {
        let machine = h200();
        let kernel = |blocks, duration| {
            let launch = kernel(blocks, 256, duration);
            let prepared = Prepared::new(&program(false, vec![launch]), &machine, 1).unwrap();
            Kernel::original(&prepared.steps[0].form, Ns::from(duration), 0)
        };
        let at = Ns::from(duration) * after_percent / 100;
        for mut device in devices() {
            let mut done: Vec<Done> = Vec::new();
            let mut finished = Vec::new();
            device.submit(0, kernel(mine, duration), 0, &mut done);
            device.submit(1, kernel(other, others), 0, &mut done);
            let mut again = false;
            loop {
                let mut now = device.next();
                if !again && now >= at {
                    (again, now) = (true, at);
                    device.kill(0, at, &mut done);
                } else if now == Ns::MAX {
                    break;
                } else {
                    device.advance(now, now, &mut done);
                }
                for d in std::mem::take(&mut done) {
                    if d.left > 0 {
                        prop_assert_eq!((d.slot, d.left), (0, mine));
                        device.submit(0, kernel(mine, duration), now, &mut done);
                    } else {
                        finished.push(d.slot);
                    }
                }
                device.settle(now);
            }
            finished.sort_unstable();
            prop_assert_eq!(finished, vec![0, 1]);
            let counters = *device.counters_mut();
            prop_assert_eq!((counters.blocks_placed, counters.blocks_done), (mine + other, mine + other));
        }
    }
}
