//! How fast the simulator is: a fixed set of pairs under each system, one after the other on one core.

use crate::library::Library;
use anyhow::{Context, Result};
use cpu_time::ThreadTime;
use serde::Serialize;
use sim::{Scenario, System};
use std::fmt::Write;

/// An inference job and a training job.
pub type Pair = (&'static str, &'static str);

/// The pairs that are timed: a server of many short kernels and one of few that take all the bandwidth, each beside
/// trainings from many short kernels to few long ones.
pub const PAIRS: [Pair; 12] = [
    ("bert-infer", "resnet50-train"),
    ("bert-infer", "bert-train"),
    ("bert-infer", "whisper-train"),
    ("bert-infer", "pointnet-train"),
    ("bert-infer", "gpt2-large-train"),
    ("bert-infer", "pegasus-x-base-train"),
    ("llama-2-7b-infer", "resnet50-train"),
    ("llama-2-7b-infer", "bert-train"),
    ("llama-2-7b-infer", "whisper-train"),
    ("llama-2-7b-infer", "pointnet-train"),
    ("llama-2-7b-infer", "gpt2-large-train"),
    ("llama-2-7b-infer", "pegasus-x-base-train"),
];

/// Offered utilisation of the servers.
const LOAD: f64 = 0.5;

/// What one simulation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    pub simulated_s: f64,
    /// Time of one core, setting the cell up included; what other processes take of it does not count.
    pub cpu_s: f64,
    /// Events of the simulated device; undisturbed jobs have none.
    pub events: u64,
}

impl Cost {
    /// Simulated seconds per second of a core.
    pub fn rate(&self) -> f64 {
        self.simulated_s / self.cpu_s
    }
}

/// One pair's cost.
#[derive(Clone, Debug, Serialize)]
pub struct PairCost {
    pub inference: &'static str,
    /// `None` for a server alone.
    pub training: Option<&'static str>,
    #[serde(flatten)]
    pub cost: Cost,
}

/// A system's cost.
#[derive(Clone, Debug, Serialize)]
pub struct SystemCost {
    pub system: String,
    pub pairs: Vec<PairCost>,
}

impl SystemCost {
    /// Of all pairs together.
    pub fn total(&self) -> Cost {
        self.pairs.iter().fold(Cost::default(), |sum, pair| Cost {
            simulated_s: sum.simulated_s + pair.cost.simulated_s,
            cpu_s: sum.cpu_s + pair.cost.cpu_s,
            events: sum.events + pair.cost.events,
        })
    }
}

/// Simulates each pair for so many seconds under a system. Under `no-sharing` the server is alone.
///
/// # Errors
/// An unknown system, a program that is not in the library, or a pair that cannot be simulated, by name.
pub fn time(name: &str, pairs: &[Pair], seconds: u64, library: &Library) -> Result<SystemCost> {
    let system = System::parse(name)?;
    let mut timed = Vec::new();
    for &(inference, training) in pairs {
        let (server, job) = (library.program(inference)?, library.program(training)?);
        let alone = system.name() == "no-sharing";
        if alone && timed.iter().any(|pair: &PairCost| pair.inference == inference) {
            continue;
        }
        let span_ns = seconds * 1_000_000_000;
        let target = traces::Target { solo_mean_ns: server.unprofiled_mean_ns, load: LOAD, span_ns, seed: 1 };
        let arrivals = traces::arrivals(&traces::Source::Poisson, &target)
            .with_context(|| format!("{seconds} s of `{inference}`: give more with --seconds"))?;
        let scenario = Scenario {
            machine: &library.machine,
            system: &system,
            high: Some((server, sim::Traffic::Paced(&arrivals.times_ns))),
            best_effort: if alone { Vec::new() } else { vec![job.into()] },
            span_ns,
            seed: 1,
        };
        let began = ThreadTime::now();
        let outcome = sim::simulate(&scenario)
            .with_context(|| format!("`{inference}` beside `{training}` under {name}"))?;
        let cost = Cost {
            simulated_s: outcome.end_ns as f64 / 1e9,
            cpu_s: began.elapsed().as_secs_f64(),
            events: outcome.counters.events,
        };
        timed.push(PairCost { inference, training: (!alone).then_some(training), cost });
    }
    Ok(SystemCost { system: name.to_owned(), pairs: timed })
}

/// The results as text, one row per system.
pub fn table(results: &[SystemCost], seconds: u64) -> String {
    let mut text = format!("simulated seconds per second of one core; {seconds} s of each pair\n");
    let Some(first) = results.first() else { return text };
    let base = first.total().rate();
    let ratio = format!("to {}", first.system);
    let _ = writeln!(
        text,
        "{:20} {:>5} {:>8} {:>8} {:>8} {:>14} {:>9} {:>14}",
        "system", "pairs", "rate", "slowest", "fastest", "events per sim s", "ns/event", ratio
    );
    for result in results {
        let total = result.total();
        let rates = || result.pairs.iter().map(|pair| pair.cost.rate());
        // A system whose device has no event but the ends of undisturbed jobs has no cost of one.
        let per_event = match total.events {
            0 => String::new(),
            events => format!("{:.0}", total.cpu_s * 1e9 / events as f64),
        };
        let _ = writeln!(
            text,
            "{:20} {:>5} {:>8.0} {:>8.0} {:>8.0} {:>16.0} {:>9} {:>14.3}",
            result.system,
            result.pairs.len(),
            total.rate(),
            rates().fold(f64::INFINITY, f64::min),
            rates().fold(0.0, f64::max),
            total.events as f64 / total.simulated_s,
            per_event,
            total.rate() / base,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(system: &str, costs: &[(f64, f64, u64)]) -> SystemCost {
        let pair = |&(simulated_s, cpu_s, events): &(f64, f64, u64)| PairCost {
            inference: "a",
            training: Some("t"),
            cost: Cost { simulated_s, cpu_s, events },
        };
        SystemCost { system: system.to_owned(), pairs: costs.iter().map(pair).collect() }
    }

    #[test]
    fn rates_are_of_all_pairs_together() {
        // 20 s in 0.25 s, and not the mean of 100 and 50.
        let both = result("mps", &[(10.0, 0.1, 1_000_000), (10.0, 0.15, 250_000)]);
        assert_eq!(both.total().rate(), 80.0);
        let text = table(&[result("no-sharing", &[(10.0, 0.0625, 0)]), both], 10);
        let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["no-sharing", "1", "160", "160", "160", "0", "1.000"]);
        assert_eq!(rows[1], ["mps", "2", "80", "67", "100", "62500", "200", "0.500"]);
    }

    #[test]
    fn a_server_alone_is_timed_once() {
        let library = Library::fake(["a", "t", "u"].into_iter()).unwrap();
        let pairs = [("a", "t"), ("a", "u")];
        let alone = time("no-sharing", &pairs, 1, &library).unwrap();
        assert_eq!((alone.pairs.len(), alone.pairs[0].training), (1, None));
        let shared = time("mps", &pairs, 1, &library).unwrap();
        assert_eq!(shared.pairs.len(), 2);
        assert!(shared.total().events > 0 && shared.total().simulated_s >= 2.0);
        assert!(time("mpss", &pairs, 1, &library).unwrap_err().to_string().contains("unknown system"));
        assert!(time("mps", &[("b", "t")], 1, &library).unwrap_err().to_string().contains("`b`"));
    }
}
