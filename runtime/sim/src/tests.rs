//! The whole model: differential, metamorphic and conservation tests.

mod servers;

use crate::device::Device;
use crate::domain::Domain;
use crate::exact::Exact;
use crate::occupancy::Resources;
use crate::program::{Launch, Program};
use crate::scenario::{Ns, Scenario, Traffic};
use crate::system::System;
use crate::testing::*;
use crate::world::World;
use proptest::prelude::*;

const MS: Ns = 1_000_000;

#[test]
fn alone_takes_as_long_as_measured() {
    let p = request(50, 100, 10_000);
    let arrivals = every(2 * MS, 200 * MS);
    let outcome = run("no-sharing", Some((&p, &arrivals)), &[], 200 * MS);
    assert_eq!(outcome.requests.len(), arrivals.len());
    for time in service(&outcome) {
        assert!(time.abs_diff(p.unprofiled_median_ns) < 5, "{time} against {}", p.unprofiled_median_ns);
    }
}

#[test]
fn no_best_effort_reproduces_solo_exactly() {
    let p = request(50, 100, 10_000);
    let arrivals = every(2 * MS, 200 * MS);
    let solo = run("no-sharing", Some((&p, &arrivals)), &[], 200 * MS);
    for system in ["time-slicing", "tgs", "tgs-artifact", "tally", "gate", "gate-cubin"] {
        assert_eq!(run(system, Some((&p, &arrivals)), &[], 200 * MS).requests, solo.requests, "{system}");
    }
}

#[test]
fn an_mps_client_alone_pays_for_its_graph_launch() {
    let p = request(50, 100, 10_000);
    let arrivals = every(2 * MS, 200 * MS);
    let solo = run("no-sharing", Some((&p, &arrivals)), &[], 200 * MS);
    let mps = run("mps", Some((&p, &arrivals)), &[], 200 * MS);
    let cost = h200().rules.mps_graph_launch_ns.value as Ns;
    assert_eq!(service(&mps)[0], service(&solo)[0] + cost);
}

#[test]
fn time_slicing_adds_one_slice_and_doubling_it_adds_another() {
    let p = request(50, 100, 10_000);
    let be = training(100, 10_000, 300_000);
    let arrivals = every(10 * MS, 1000 * MS);
    let mut machine = h200();
    let before = run_on(&machine, "time-slicing", Some((&p, &arrivals)), &[&be], 1000 * MS);
    let slice = machine.rules.slice_ns.value as Ns;
    machine.rules.slice_ns.value *= 2.0;
    let after = run_on(&machine, "time-slicing", Some((&p, &arrivals)), &[&be], 1000 * MS);
    let solo = p.unprofiled_median_ns;
    let switch = machine.rules.switch_ns.value as Ns;
    assert!(p99(&before).abs_diff(solo + slice + switch) < 20_000, "{}", p99(&before));
    assert!(p99(&after).abs_diff(p99(&before) + slice) < 20_000, "{}", p99(&after));
}

#[test]
fn shorter_blocks_of_equal_work_lower_mps_priority_p99() {
    let p = request(50, 100, 10_000);
    let arrivals = every(10 * MS, 1000 * MS);
    // 528 and 5,280 blocks of 256 threads at 8 per multiprocessor: half a wave and five waves.
    let long = training(100, 1056 * 2, 400_000);
    let short = training(100, 1056 * 20, 400_000);
    let p99_of = |be| p99(&run("mps-priority", Some((&p, &arrivals)), &[be], 1000 * MS));
    assert!(p99_of(&short) < p99_of(&long), "{} {}", p99_of(&short), p99_of(&long));
}

#[test]
fn a_neighbour_without_memory_traffic_slows_nobody_by_bandwidth() {
    let mut p = request(50, 60, 10_000);
    for launch in &mut p.segments[0].launches {
        launch.dram_bytes = Some(40_000_000);
    }
    let arrivals = every(10 * MS, 1000 * MS);
    // Small enough to leave room: only bandwidth can slow the request down.
    let mut be = training(1000, 60, 100_000);
    let quiet = run("mps", Some((&p, &arrivals)), &[&be], 1000 * MS);
    let solo = run("mps", Some((&p, &arrivals)), &[], 1000 * MS);
    assert_eq!(p99(&quiet), p99(&solo));
    for launch in &mut be.segments[0].launches {
        launch.dram_bytes = Some(400_000_000);
    }
    let loud = run("mps", Some((&p, &arrivals)), &[&be], 1000 * MS);
    assert!(p99(&loud) > p99(&solo) * 11 / 10, "{} {}", p99(&loud), p99(&solo));
}

#[test]
fn the_gate_waits_for_at_most_one_kernel() {
    let p = request(50, 100, 10_000);
    let be = training(100, 10_000, 500_000);
    let arrivals = every(10 * MS, 1000 * MS);
    let gate = run("gate-1", Some((&p, &arrivals)), &[&be], 1000 * MS);
    assert!(p99(&gate) <= p.unprofiled_median_ns + 520_000, "{}", p99(&gate));
    let cubin = run("gate-cubin", Some((&p, &arrivals)), &[&be], 1000 * MS);
    assert!(p99(&cubin) < p99(&gate) - 200_000, "{} {}", p99(&cubin), p99(&gate));
    assert!(gate.best_effort[0].rate_hz() > Some(5.0));
}

#[test]
fn tally_transforms_and_retreats() {
    let p = request(50, 100, 10_000);
    let be = training(100, 100_000, 2_000_000);
    // No multiple of the kernels' duration, so that requests meet them at all of their stages.
    let arrivals = every(10_300_000, 1000 * MS);
    let full = run("tally", Some((&p, &arrivals)), &[&be], 1000 * MS);
    let plain = run("tally-no-transform", Some((&p, &arrivals)), &[&be], 1000 * MS);
    assert!(p99(&full) < p.unprofiled_median_ns * 11 / 10, "{}", p99(&full));
    assert!(p99(&plain) > p.unprofiled_median_ns * 5 / 4, "{}", p99(&plain));
    assert!(full.counters.switches > 50);
}

#[test]
fn every_system_makes_progress_on_both_sides() {
    let p = request(50, 100, 10_000);
    let be = training(50, 3000, 100_000);
    let arrivals = every(4 * MS, 10_000 * MS);
    for name in System::names().filter(|n| *n != "no-sharing") {
        let outcome = run(name, Some((&p, &arrivals)), &[&be], 10_000 * MS);
        assert!(outcome.requests.len() > 500, "{name}: {} requests", outcome.requests.len());
        assert!(outcome.best_effort[0].iterations > 0, "{name}");
        let again = run(name, Some((&p, &arrivals)), &[&be], 10_000 * MS);
        assert_eq!(outcome, again, "{name}: same seed, same outcome");
    }
}

/// As many jobs as a cell may have, with more phases on a multiprocessor than it keeps apart; one more is refused.
#[test]
fn a_full_house_runs_and_one_more_is_refused() {
    let p = request(50, 100, 10_000);
    let jobs: Vec<Program> = (0..crate::domain::SLOTS as u64)
        .map(|k| training(30, 3 * 132 + 7 * k, 40_000 + 9_000 * (k % 4) as u32))
        .collect();
    let arrivals = every(3 * MS, 100 * MS);
    let best: Vec<&Program> = jobs.iter().collect();
    for system in ["mps", "mps-priority"] {
        let outcome = run(system, Some((&p, &arrivals)), &best[..best.len() - 1], 100 * MS);
        assert!(outcome.best_effort.iter().all(|b| b.iterations > 0), "{system}");
    }
    let machine = h200();
    let system = System::parse("mps").unwrap();
    let traffic = Traffic::Paced(&arrivals);
    let scenario = Scenario {
        machine: &machine,
        system: &system,
        high: Some((&p, traffic)),
        best_effort: best.into_iter().map(Into::into).collect(),
        span_ns: MS,
        seed: 1,
    };
    let error = crate::simulate(&scenario).unwrap_err().to_string();
    assert!(error.contains("at most 16 jobs"), "{error}");
}

fn arbitrary_launch() -> impl Strategy<Value = Launch> {
    let block = prop_oneof![Just(64_u32), Just(128), Just(256), Just(512), Just(1024)];
    let blocks = prop_oneof![1_u64..200, 100_u64..3000, 1000_u64..20_000];
    (blocks, block, 32_u32..128, 0_u32..100_000, 3_000_u32..400_000, 0_u64..1_000_000_000, 0_u32..1000)
        .prop_map(|(blocks, threads, regs, smem, duration, dram, sm)| Launch {
            regs: regs.min(65_536 / threads),
            smem,
            dram_bytes: Some(dram * u64::from(duration) / 400_000),
            sm_permille: Some(sm),
            ..kernel(blocks, threads, duration)
        })
}

fn arbitrary_training() -> impl Strategy<Value = Program> {
    prop::collection::vec(arbitrary_launch(), 1..12).prop_map(|mut launches| {
        for (i, launch) in launches.iter_mut().enumerate() {
            launch.host_ns = i as u64 * 2000;
        }
        program(false, launches)
    })
}

fn arbitrary_request() -> impl Strategy<Value = Program> {
    prop::collection::vec(arbitrary_launch(), 3..20).prop_map(|mut launches| {
        for launch in &mut launches {
            let shorter = launch.duration_ns[0] / 10 + 1000;
            launch.duration_ns = [shorter; crate::program::QUANTILES];
            launch.blocks = launch.blocks % 500 + 1;
        }
        program(true, launches)
    })
}

/// Service time of one request that arrives at `arrival` beside training that began at 0, in both models, ns.
fn one_request(high: &Program, best: &Program, system: &System, arrival: Ns) -> (Ns, Ns) {
    let machine = h200();
    let arrivals = [arrival];
    let scenario = Scenario {
        machine: &machine,
        system,
        high: Some((high, Traffic::Paced(&arrivals))),
        best_effort: vec![best.into()],
        span_ns: arrival + 1,
        seed: 3,
    };
    let grouped = crate::simulate(&scenario).unwrap();
    let mut world = World::new(&scenario).unwrap();
    let whole = Resources::whole(&machine.sm);
    let exact = Exact::new(machine.sms, machine.gpcs, whole, machine.dram_bytes_per_us * 1000);
    world.replace_device(Device::Exact(Box::new(exact)));
    (service(&grouped)[0], service(&world.run().unwrap())[0])
}

/// Grouping blocks may shift a pair's p99 by this much against placing every block by itself.
/// Two of the pairs are further than 1 % apart: a kernel that was alone is laid out only when another comes, and the blocks
/// of its last part, when it is not full, then lie on other multiprocessors than if each had been placed in its turn.
const TOLERANCE: f64 = 0.02;

/// Each request of a pair is an episode of its own from the same start. In one long run a nanosecond of rounding decides
/// which kernel the next request meets, and the two models would be compared on different requests.
#[test]
fn groups_agree_with_single_blocks_on_200_random_pairs() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    const EPISODES: u64 = 24;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut errors = Vec::new();
    for k in 0..200 {
        let high = arbitrary_request().new_tree(&mut runner).unwrap().current();
        let best = arbitrary_training().new_tree(&mut runner).unwrap().current();
        let name = ["mps", "mps-priority", "tally", "gate-mps"][k % 4];
        let system = System::parse(name).unwrap();
        let step = best.unprofiled_median_ns / EPISODES + 1;
        let (mut grouped, mut exact): (Vec<Ns>, Vec<Ns>) =
            (1..=EPISODES).map(|e| one_request(&high, &best, &system, e * step)).unzip();
        grouped.sort_unstable();
        exact.sort_unstable();
        let at = (EPISODES as usize - 1) * 99 / 100;
        let error = (grouped[at] as f64 / exact[at] as f64 - 1.0).abs();
        errors.push((error, k, name, grouped[at], exact[at]));
    }
    errors.sort_by(|a, b| b.0.total_cmp(&a.0));
    let within = errors.iter().filter(|e| e.0 <= TOLERANCE).count();
    assert_eq!(within, 200, "worst pairs: {:?}", &errors[..8]);
}

/// Runs streams of kernels to their end, halting and resubmitting some; returns blocks that the kernels had.
fn drain(kernels: &[Vec<(Launch, bool)>], device: &mut Domain) -> u64 {
    let machine = h200();
    let prepared: Vec<_> = kernels
        .iter()
        .map(|stream| {
            let launches = stream.iter().map(|(l, _)| l.clone()).collect();
            crate::prepared::Prepared::new(&program(false, launches), &machine, 1).unwrap()
        })
        .collect();
    let kernel = |slot: usize, k: usize| {
        let p = &prepared[slot];
        crate::kernel::Kernel::original(&p.steps[k].form, Ns::from(p.durations[0][k]), (slot == 0) as i8)
    };
    let mut position = vec![0; kernels.len()];
    let mut done = Vec::new();
    let mut total = 0;
    for (slot, stream) in kernels.iter().enumerate() {
        total += stream.iter().map(|(l, _)| l.blocks).sum::<u64>();
        device.submit(slot, kernel(slot, 0), 0, &mut done);
    }
    let mut now = 0;
    while device.next() != Ns::MAX || !done.is_empty() {
        while let Some(d) = done.pop() {
            let (slot, k) = (d.slot, position[d.slot]);
            if d.left > 0 {
                device.submit(
                    slot,
                    crate::kernel::Kernel { blocks: d.left, ..kernel(slot, k) },
                    now,
                    &mut done,
                );
                continue;
            }
            position[slot] += 1;
            if position[slot] < kernels[slot].len() {
                device.submit(slot, kernel(slot, position[slot]), now, &mut done);
                if kernels[slot][position[slot]].1 {
                    device.halt(slot, now, &mut done);
                }
            }
        }
        if device.next() != Ns::MAX {
            now = device.next();
            device.advance(now, &mut done);
        }
    }
    assert!(position.iter().zip(kernels).all(|(&p, k)| p == k.len()), "every kernel ran");
    total
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_block_runs_once(
        kernels in prop::collection::vec(prop::collection::vec((arbitrary_launch(), any::<bool>()), 1..8), 1..4)
    ) {
        let machine = h200();
        let whole = Resources::whole(&machine.sm);
        let dram = machine.dram_bytes_per_us * 1000;
        let shared = Domain::new(machine.sms, machine.gpcs, whole, dram);
        let parts = [(66, 4), (33, 2), (33, 2)];
        let in_parts = Domain::partitioned(parts, std::array::from_fn(|slot| slot as u8), whole, dram);
        for mut device in [shared, in_parts] {
            let total = drain(&kernels, &mut device);
            prop_assert_eq!(device.counters.blocks_placed, total);
            prop_assert_eq!(device.counters.blocks_done, total);
            prop_assert!(device.is_idle());
        }
    }
}
