//! Servers with best-effort priority, and progress over time.

use crate::prepared::Prepared;
use crate::program::{Kind, Launch};
use crate::scenario::{BestEffort, Ns, Outcome, Scenario, Traffic};
use crate::system::System;
use crate::testing::{every, h200, request, run, training};

const MS: Ns = 1_000_000;

/// A high-priority server and so many best-effort ones of the same program, each with its own arrivals.
fn crowd(system: &str, arrivals: &[Vec<Ns>], span_ns: Ns) -> Outcome {
    let machine = h200();
    let system = System::parse(system).expect("a known system");
    let program = request(20, 100, 10_000);
    let mut lists = arrivals.iter().map(|list| Traffic::Paced(list));
    let high = lists.next().map(|traffic| (&program, traffic));
    let best_effort = lists.map(|traffic| BestEffort::server(&program, traffic)).collect();
    let scenario = Scenario { machine: &machine, system: &system, high, best_effort, span_ns, seed: 1 };
    crate::simulate(&scenario).expect("the cell runs")
}

#[test]
fn best_effort_servers_serve_their_arrivals_under_every_system() {
    let span = 1000 * MS;
    // Ten servers of about 0.25 ms a request each 20 ms, 1.9 ms apart: an eighth of the device.
    let lists: Vec<Vec<Ns>> =
        (0..10).map(|k| every(20 * MS, span).iter().map(|at| at - k * 1_900_000).collect()).collect();
    for name in System::names().filter(|name| *name != "no-sharing") {
        let outcome = crowd(name, &lists, span);
        assert_eq!(outcome.requests.len(), lists[0].len(), "{name}");
        for (k, requests) in outcome.best_effort_requests.iter().enumerate() {
            let served: Vec<Ns> = requests.iter().map(|r| r.arrival_ns).collect();
            // TGS lets best effort begin slowly, over seconds.
            let planned = if name.starts_with("tgs") { &lists[k + 1][..served.len()] } else { &lists[k + 1] };
            assert!(!served.is_empty() && served == planned, "{name}, server {k}: {served:?}");
            assert!(requests.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{name}");
            assert_eq!(outcome.best_effort[k].iterations, served.len() as u64, "{name}");
        }
        assert!(outcome.iteration_ends.iter().all(Vec::is_empty), "{name}");
        assert_eq!(outcome, crowd(name, &lists, span), "{name}: same seed, same outcome");
    }
}

/// Nobody else is there, so the priority makes no difference.
#[test]
fn a_best_effort_server_alone_is_as_fast_as_a_high_priority_one() {
    let program = request(20, 100, 10_000);
    let (arrivals, span) = (every(3 * MS, 100 * MS), 100 * MS);
    let high = run("mps", Some((&program, &arrivals)), &[], span);
    let machine = h200();
    let scenario = Scenario {
        machine: &machine,
        system: &System::parse("mps").unwrap(),
        high: None,
        best_effort: vec![BestEffort::server(&program, Traffic::Paced(&arrivals))],
        span_ns: span,
        seed: 1,
    };
    let best = crate::simulate(&scenario).unwrap();
    assert_eq!(best.best_effort_requests[0], high.requests);
}

/// Where all arrive at once, they queue for the device.
#[test]
fn coinciding_arrivals_wait_for_each_other() {
    let (span, n) = (200 * MS, 4);
    let same = vec![every(10 * MS, span); n];
    let apart: Vec<Vec<Ns>> =
        (0..n as Ns).map(|k| every(10 * MS, span).iter().map(|at| at - k * 2 * MS).collect()).collect();
    let mean = |outcome: &Outcome| {
        let each = outcome.best_effort_requests.iter().flatten().map(|r| r.end_ns - r.arrival_ns);
        each.sum::<Ns>() / outcome.best_effort_requests.iter().flatten().count() as Ns
    };
    for system in ["tally", "gate"] {
        let (same, apart) = (crowd(system, &same, span), crowd(system, &apart, span));
        assert!(mean(&same) > mean(&apart), "{system}: {} {}", mean(&same), mean(&apart));
    }
}

#[test]
fn iterations_are_counted_where_they_end() {
    let (job, span) = (training(10, 132, 50_000), 100 * MS);
    for system in ["no-sharing", "gate", "tally"] {
        let outcome = run(system, None, &[&job], span);
        let ends = &outcome.iteration_ends[0];
        assert_eq!(ends.len() as u64, outcome.best_effort[0].iterations, "{system}");
        assert!(ends.len() > 100 && ends.windows(2).all(|pair| pair[0] < pair[1]), "{system}: {ends:?}");
        assert!(ends.iter().all(|&end| end <= span), "{system}");
    }
}

/// Reports ask a launch for its rounds without laying the program out.
#[test]
fn rounds_of_a_launch_are_those_of_the_prepared_program() {
    let machine = h200();
    let mut job = training(4, 1, 50_000);
    for (launch, (blocks, regs, cluster)) in
        job.segments[0].launches.iter_mut().zip([(1, 32, 1), (5000, 32, 1), (5000, 128, 1), (1000, 64, 8)])
    {
        (launch.blocks, launch.regs, launch.cluster) = (blocks, regs, cluster);
    }
    let prepared = Prepared::new(&job, &machine, 1).unwrap();
    for (launch, step) in job.segments[0].launches.iter().zip(&prepared.steps) {
        assert_eq!(launch.waves(&machine), Some(step.form.waves));
    }
    assert_eq!(prepared.steps[1].form.waves, 5, "8 blocks of 256 threads on each of 132 multiprocessors");
    let copy = Launch { kind: Kind::Memcpy, ..job.segments[0].launches[0].clone() };
    assert_eq!(copy.waves(&machine), None);
}
