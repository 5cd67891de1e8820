//! A client's half alone decides as it does among all halves in the simulator: what one client saw and was answered in a
//! simulated cell is written as the log that an intercepted process writes, and repeated.

use crate::scenario::{Ns, Scenario, Traffic};
use crate::system::System;
use crate::testing::*;
use crate::world::World;
use crate::{Outcome, Program};
use sched::client::{Header, Line, Replayed, replay};
use sched::{Event, Op, Policy, Setting, client, tgs};
use std::fmt::Write as _;
use std::sync::mpsc::{Sender, channel};

const MS: Ns = 1_000_000;

/// A policy that tells what one of its clients sees and is answered.
#[derive(Debug)]
struct Recorded {
    policy: Box<dyn Policy>,
    client: usize,
    admitted: u64,
    lines: Sender<Line>,
}

impl Recorded {
    fn line(&self, line: Line) {
        self.lines.send(line).expect("the test listens until the cell is over");
    }
}

impl Policy for Recorded {
    fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>) {
        let halves = self.policy.halves().expect("a system that runs in clients");
        let timer = halves.timer(self.client);
        if let Some(event) = halves.seen(self.client, &event) {
            self.line(Line::Event { at: now, event });
        }
        let before = ops.len();
        self.policy.step(event, now, ops);
        for op in &ops[before..] {
            let op = match *op {
                Op::Admit { client, .. } if client == self.client => {
                    self.admitted += 1;
                    client::Op::Admit { launch: self.admitted - 1 }
                }
                Op::WakeAt { at, timer: of } if of == timer => client::Op::WakeAt(at),
                _ => continue,
            };
            self.line(Line::Op { at: now, op });
        }
    }
}

/// A cell with two best-effort jobs, and the log of the second.
fn cell(system: &str, high: (&Program, &[Ns]), span_ns: Ns) -> (Outcome, String) {
    let machine = h200();
    let system = System::parse(system).unwrap();
    // Of several lengths, so that a budget holds one, several, or none of them; some iterations end between two kernels.
    let mut best = training(40, 8 * 132, 400_000);
    for (at, launch) in best.segments[0].launches.iter_mut().enumerate() {
        launch.duration_ns = [[20_000, 60_000, 400_000, 90_000][at % 4]; crate::program::QUANTILES];
    }
    let scenario = Scenario {
        machine: &machine,
        system: &system,
        high: Some((high.0, Traffic::Paced(high.1))),
        best_effort: vec![(&best).into(), (&best).into()],
        span_ns,
        seed: 1,
    };
    let mut world = World::new(&scenario).unwrap();
    let (lines, log) = channel();
    world.wrap_policy(|policy| Box::new(Recorded { policy, client: 1, admitted: 0, lines }));
    let outcome = world.run().unwrap();
    assert_eq!(outcome, crate::simulate(&scenario).unwrap(), "recording changes nothing");
    // As the simulator tells the policy.
    let blocks: u64 = high.0.segments[0].launches.iter().map(|launch| launch.blocks).sum();
    let max_rate = blocks as f64 * tgs::SAMPLE_NS as f64 / high.0.unprofiled_mean_ns as f64;
    let mut text = format!("{}\n", Header { system: system.name().to_owned(), start: 0, max_rate });
    for line in log.try_iter() {
        writeln!(text, "{line}").unwrap();
    }
    (outcome, text)
}

#[test]
fn a_gate_alone_decides_as_in_the_simulator() {
    let high = request(50, 40, 10_000);
    let arrivals = every(3 * MS, 200 * MS);
    for system in [
        "gate",
        "gate:depth=3,idle_wait_us=50",
        "gate:depth=64,budget_us=300",
        "gate:depth=4,budget_us=100",
        "gate-mps-8",
        "gate-mps:depth=64,budget_us=500",
    ] {
        let (outcome, log) = cell(system, (&high, &arrivals), 200 * MS);
        let Replayed { events, admitted } = replay(&log).unwrap_or_else(|error| panic!("{system}: {error}"));
        assert!(admitted > 100 && events > 2 * admitted, "{system}: {events}, {admitted}");
        assert!(outcome.best_effort[1].iterations > 2, "{system}: {:?}", outcome.best_effort);
        assert!(log.contains("word active") && log.contains("> wake"), "{system}");
        let changed = log.replacen("> admit 7\n", "> admit 8\n", 1);
        assert!(replay(&changed).is_err(), "{system}");
    }
    let (_, log) = cell("gate", (&high, &arrivals), 200 * MS);
    let other = log.replacen("client gate at", "client gate:idle_wait_us=99 at", 1);
    assert!(replay(&other).is_err(), "another gate answers otherwise");
}

#[test]
fn tgs_alone_decides_as_in_the_simulator() {
    let high = request(50, 40, 10_000);
    // Requests of 0.55 ms: not so steady that the rate is profiled for ever.
    let arrivals: Vec<Ns> = (1..80_000).map(|k| k * 500_000 + k % 7 * 60_000).collect();
    for system in ["tgs", "tgs-mps"] {
        let (_, log) = cell(system, (&high, &arrivals), 45_000 * MS);
        let Replayed { events, admitted } = replay(&log).unwrap_or_else(|error| panic!("{system}: {error}"));
        assert!(admitted > 100 && events > admitted, "{system}: {events}, {admitted}");
        assert_eq!(log.matches(" rate ").count(), 9, "{system}: one each 5 s");
    }
}

#[test]
fn a_half_sees_nothing_of_another_clients_launches() {
    let setting = Setting { clients: 2, ..Setting::default() };
    for system in ["gate", "tgs"] {
        let policy = System::parse(system).unwrap().policy(&setting);
        let halves = policy.halves().unwrap();
        assert_ne!(halves.timer(0), halves.timer(1), "{system}");
        let launch = Event::Request { client: 0, kernel: sched::Kernel::default() };
        assert!(halves.seen(0, &launch).is_some() && halves.seen(1, &launch).is_none(), "{system}");
    }
}
