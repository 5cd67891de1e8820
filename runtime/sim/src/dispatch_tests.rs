//! The order in which blocks of two MPS clients are placed, by hand and against `machines/evidence/mps-dispatch.csv`.

use crate::program::{Launch, Program};
use crate::scenario::Ns;
use crate::testing::{every, h200, kernel, program, run_on, service};

const US: Ns = 1000;

/// What [`program`] says that a request of one kernel of 5 us takes: the kernel, a gap of 1 us, and 10 us.
const ALONE: Ns = 16 * US;

/// Service time of one small kernel that arrives 100 us into a neighbour's kernel of four waves of 100 us. The
/// neighbour's blocks leave room for it on every multiprocessor.
fn beside_four_waves(system: &str) -> Ns {
    let mut machine = h200();
    machine.rules.mps_graph_launch_ns.value = 0.0;
    machine.rules.wave_phases.value = 1.0;
    let neighbour = program(false, vec![kernel(4 * 264, 768, 400_000)]);
    let small = program(true, vec![kernel(132, 128, 5000)]);
    let outcome = run_on(&machine, system, Some((&small, &[100 * US])), &[&neighbour], 200 * US);
    service(&outcome)[0]
}

#[test]
fn at_equal_priority_nothing_overtakes_even_where_there_is_room() {
    // Both take 4 us to launch, so that it is ready 100 us after the neighbour's start, and the neighbour places its last
    // wave 300 us after that.
    assert_eq!(beside_four_waves("mps"), ALONE + (300 - 100) * US);
}

#[test]
fn a_higher_priority_takes_the_room_at_once() {
    assert_eq!(beside_four_waves("mps-priority"), ALONE);
}

/// Requests of twenty kernels beside a neighbour of 1, 4 and 16 waves. Only rows whose small kernels seldom need a
/// multiprocessor for themselves: when those end that leave it depends on how blocks of one wave differ in duration,
/// which a profile does not say.
#[test]
fn chains_take_as_long_as_measured() {
    const GAP_US: f64 = 1.86;
    // Alone, the first kernel of a chain starts 11 us after the launch call, 7 us of which are this rule's.
    let mut machine = h200();
    machine.rules.mps_graph_launch_ns.value = 7000.0;
    let mut rows = 0;
    for line in include_str!("../../../machines/evidence/mps-dispatch.csv").lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let (priority, neighbour, chain) = (f[1], f[2], f[5]);
        let (threads, smem, per_sm) = match neighbour {
            "half" => (512, 100 * 1024, 2),
            "one" => (1024, 120 * 1024, 1),
            _ => continue,
        };
        if f[4] != "20" || !["small", "mixed"].contains(&chain) {
            continue;
        }
        let waves: u64 = f[3].parse().unwrap();
        let [period_us, measured_us] = [6, 7].map(|i| f[i].parse::<f64>().unwrap());
        let duration = ((period_us - GAP_US) * 1e3) as u32;
        let long = Launch { smem, ..kernel(waves * per_sm * 132, threads, duration) };
        let small = |k: usize| {
            let small = Launch { gap_ns: 770, ..kernel(132, 128, 5100) };
            let cluster = Launch { blocks: 96, threads: 384, smem: 200 * 1024, cluster: 8, ..small.clone() };
            if chain == "mixed" && k.is_multiple_of(4) { cluster } else { small }
        };
        let request: Program = program(true, (0..20).map(small).collect());
        let training = program(false, vec![long; 1000]);
        let system = if priority == "below" { "mps-priority" } else { "mps" };
        let arrivals = every(9_137_311, 2_000_000_000);
        let outcome = run_on(&machine, system, Some((&request, &arrivals)), &[&training], 2_000_000_000);
        let times = service(&outcome);
        let ratio = times[times.len() / 2] as f64 / 1e3 / measured_us;
        assert!((0.75..1.25).contains(&ratio), "{line}: {ratio:.2} of the measured median");
        rows += 1;
    }
    assert_eq!(rows, 24);
}
