use super::*;
use crate::library::Library;
use sim::Segment;
use sim::program::QUANTILES;
use workloads::profile::Unprofiled;

fn equal(lengths: &[(f64, f64)]) -> Lengths {
    Lengths(lengths.iter().map(|&(pieces, length)| Part { pieces, low: length, high: length }).collect())
}

#[test]
fn equal_pieces_are_waited_for_half_their_length() {
    let lengths = equal(&[(5.0, 100.0)]);
    assert_eq!((lengths.pieces(), lengths.total()), (5.0, 500.0));
    assert_eq!((lengths.wait_mean(), lengths.longest()), (50.0, 100.0));
    // 99 of 100 arrivals wait for at most 99.
    assert!((lengths.wait_quantile(0.99) - 99.0).abs() <= 0.5);
}

#[test]
fn a_long_piece_is_met_more_often_than_it_occurs() {
    // One piece of 900 among nine of 100: half of all arrivals meet the long one.
    let lengths = equal(&[(9.0, 100.0), (1.0, 900.0)]);
    // (9 * 100^2 + 900^2) / (2 * 1800).
    assert_eq!(lengths.wait_mean(), 250.0);
    // Beyond r > 100 lie (900 - r) of 1800, 1 % at 882; below, (1800 - 10 r) of 1800, a half at 90.
    assert!((lengths.wait_quantile(0.99) - 882.0).abs() <= 0.5);
    assert!((lengths.wait_quantile(0.5) - 90.0).abs() <= 0.5);
}

#[test]
fn between_quantiles_lengths_are_uniform() {
    // Uniform on 0..300: E[X^2] / (2 E[X]) = 30000 / 300; P(R > r) = (300 - r)^2 / 300^2.
    let lengths = Lengths(vec![Part { pieces: 1.0, low: 0.0, high: 300.0 }]);
    assert!((lengths.wait_mean() - 100.0).abs() < 1e-9);
    assert!((lengths.wait_quantile(0.99) - 270.0).abs() <= 0.5);
    // A third of the pieces is longer than 200, and these make 250 of the mean of 150: 5/9 of the time.
    let (pieces, time) = lengths.within(200.0, f64::INFINITY);
    assert!((pieces - 1.0 / 3.0).abs() < 1e-9 && (time / lengths.total() - 5.0 / 9.0).abs() < 1e-9);
}

fn profile() -> Profile {
    let launch = |blocks, ns| Launch {
        kind: Kind::Kernel,
        name: 0,
        blocks,
        threads: 1024,
        regs: 32,
        cluster: 1,
        smem: 0,
        duration_ns: [ns; QUANTILES],
        gap_ns: 0,
        host_ns: 0,
        dram_bytes: None,
        sm_permille: None,
    };
    let copy = Launch { kind: Kind::Memcpy, blocks: 0, ..launch(0, 77) };
    let segment = Segment {
        name: "step".to_owned(),
        repeat: 2,
        graph: false,
        // Two blocks of 1,024 threads fit on each of 132 multiprocessors: 4 rounds, and 1.
        launches: vec![launch(4 * 264, 400_000), copy, launch(1, 100_000)],
        unprofiled_median_ns: None,
        host_tail_ns: 0,
    };
    let program = Program {
        id: "t".to_owned(),
        segments: vec![segment],
        names: vec!["k".to_owned()],
        unprofiled_median_ns: 2_000_000,
        unprofiled_mean_ns: 2_000_000,
        memory_bytes: 1,
    };
    Profile {
        program,
        input_wait_ns: 0,
        unprofiled: Unprofiled {
            n: 10,
            mean_ns: 2_000_000,
            median_ns: 2_000_000,
            p90_ns: 2_000_000,
            p99_ns: 2_000_000,
        },
        gpu: "a GPU".to_owned(),
        driver: String::new(),
        host_scale: 1.0,
    }
}

#[test]
fn the_three_granularities_of_a_small_job() {
    let machine = Library::fake(std::iter::empty()).unwrap().machine;
    let rows = turnaround("x", "t", &Ok(profile()), &machine);
    let of = |name: &str| rows.iter().find(|row| row.granularity == name).unwrap();
    let (iteration, kernel, block) = (of("iteration"), of("kernel"), of("block"));
    let close = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1.0;
    assert!(close(iteration.turnaround_mean_ns, 1e6) && iteration.turnaround_max_ns.is_none());
    // Kernels: (400^2 + 100^2) / (2 * 500) = 170 us.
    assert!(close(kernel.turnaround_mean_ns, 170_000.0), "{kernel:?}");
    assert!(close(kernel.turnaround_max_ns, 400_000.0) && close(kernel.pieces, 4.0));
    // Rounds: each of the five takes 100 us.
    assert!(close(block.turnaround_mean_ns, 50_000.0), "{block:?}");
    assert!(close(block.turnaround_p99_ns, 99_000.0) && close(block.pieces, 10.0));
    assert_eq!(block.origin, "derived");
    // 1,000 us of kernels in 2,000 us.
    assert!(rows.iter().all(|row| (row.idle_share.unwrap() - 0.5).abs() < 1e-9));
}

#[test]
fn what_waits_for_its_input_has_longer_iterations() {
    let mut waiting = profile();
    waiting.program.unprofiled_median_ns += 1_000_000;
    assert!((iterations(&waiting).wait_mean() - 1_500_000.0).abs() < 1.0);
}

#[test]
fn every_kernel_is_in_one_class() {
    let classes = Classes(vec![100_000, 300_000]);
    let rows = durations("x", "t", &Ok(profile()), &classes);
    let shares =
        |of: fn(&DurationRow) -> Option<f64>| rows.iter().map(|r| of(r).unwrap()).collect::<Vec<_>>();
    // A kernel of exactly 100 us is in the class that ends there.
    assert_eq!(
        rows.iter().map(|r| (r.lower_ns, r.upper_ns)).collect::<Vec<_>>(),
        [(Some(0), Some(100_000)), (Some(100_000), Some(300_000)), (Some(300_000), None)]
    );
    for (found, wanted) in shares(|r| r.launch_share).iter().zip([0.5, 0.0, 0.5]) {
        assert!((found - wanted).abs() < 1e-9, "{rows:?}");
    }
    for (found, wanted) in shares(|r| r.time_share).iter().zip([0.2, 0.0, 0.8]) {
        assert!((found - wanted).abs() < 1e-9, "{rows:?}");
    }
}

#[test]
fn a_profile_that_cannot_be_read_is_a_row() {
    let missing = || Err(anyhow::anyhow!("the profile of `t` is missing"));
    let rows = durations("x", "t", &missing(), &Classes(vec![1]));
    assert!(rows.len() == 1 && rows[0].status == "failed" && rows[0].error.contains("missing"));
    let machine = Library::fake(std::iter::empty()).unwrap().machine;
    let rows = turnaround("x", "t", &missing(), &machine);
    assert!(rows.len() == 1 && rows[0].status == "failed" && rows[0].launches_are_empty());
}

impl TurnaroundRow {
    fn launches_are_empty(&self) -> bool {
        self.pieces.is_none() && self.turnaround_mean_ns.is_none() && self.idle_share.is_none()
    }
}
