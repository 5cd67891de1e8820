//! What turns a cell into samples: the simulator, a GPU ([`crate::gpu`]), or a stand-in that costs nothing and tests the
//! rest.

use crate::cell::Cell;
use crate::gpu::{Device, Runtime};
use anyhow::Result;
use sim::{Outcome, Progress, Request, Scenario, Traffic};
use std::collections::BTreeMap;
use std::time::Duration;
use workloads::profile::ProfileSet;

/// What became of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub outcome: Outcome,
    /// What the runtime counted; `None` where it was not involved.
    pub runtime: Option<Runtime>,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Answer {
        Answer { outcome, runtime: None }
    }
}

/// Runs one cell. The same cell gives the same outcome, or measures the same, whatever other cells there are.
pub trait Executor: Sync {
    /// As in the column `backend`.
    fn backend(&self) -> &'static str;

    /// The device that cells are measured on, one at a time; `None` where they are computed.
    fn device(&self) -> Option<&Device> {
        None
    }

    /// Called once before everything below: the recordings that the jobs of this run stand for.
    fn begin(&self, _set: ProfileSet) {}

    /// Why a cell cannot be run by this executor; `None` when it can.
    fn skip(&self, _cell: &Cell) -> Option<String> {
        None
    }

    /// What determines a cell in place of the machine's model and the recorded programs, where those do not.
    ///
    /// # Errors
    /// A file that belongs to it cannot be read.
    fn inputs(&self, _cell: &Cell) -> Result<Option<BTreeMap<String, String>>> {
        Ok(None)
    }

    /// # Errors
    /// Anything that keeps this cell from having a result; the other cells go on.
    fn run(&self, cell: &Cell, scenario: &Scenario) -> Result<Answer>;
}

/// The simulator.
pub struct Simulator;

impl Executor for Simulator {
    fn backend(&self) -> &'static str {
        "sim"
    }

    fn run(&self, _cell: &Cell, scenario: &Scenario) -> Result<Answer> {
        sim::simulate(scenario).map(Answer::from)
    }
}

/// Answers with made-up numbers that depend on the cell alone. Its tables say `fake`, which no figure accepts.
pub struct Fake {
    /// How long a cell takes, so that a test can kill in its middle.
    pub cell_time: Duration,
    /// Cells whose text contains this fail.
    pub fail: Option<String>,
    /// How much longer each request takes, in percent.
    pub slower: u64,
}

impl Executor for Fake {
    fn backend(&self) -> &'static str {
        "fake"
    }

    fn run(&self, cell: &Cell, scenario: &Scenario) -> Result<Answer> {
        std::thread::sleep(self.cell_time);
        if let Some(text) = &self.fail
            && cell.to_string().contains(text)
        {
            anyhow::bail!("this cell was told to fail");
        }
        // Between 1 and 3 ms, by the letters of the system.
        let spread: u64 = cell.system.bytes().map(u64::from).sum();
        let service = |k: u64| {
            let ns = 1_000_000 + (spread * 7919 + k * k * 31 + scenario.seed) % 2_000_000;
            ns * (100 + self.slower) / 100
        };
        let serve = |traffic: &Traffic| {
            let mut requests = Vec::new();
            let mut free = 0;
            match traffic {
                Traffic::ClosedLoop { requests: n } => {
                    for k in 0..*n {
                        requests.push(Request {
                            arrival_ns: free,
                            start_ns: free,
                            end_ns: free + service(k),
                        });
                        free += service(k);
                    }
                }
                Traffic::Paced(arrivals) => {
                    for (k, arrival) in arrivals.iter().enumerate() {
                        let start = free.max(*arrival);
                        if start >= scenario.span_ns {
                            break;
                        }
                        free = start + service(k as u64);
                        requests.push(Request { arrival_ns: *arrival, start_ns: start, end_ns: free });
                    }
                }
            }
            requests
        };
        let requests = scenario.high.as_ref().map(|(_, traffic)| serve(traffic)).unwrap_or_default();
        let end_ns = requests.last().map_or(scenario.span_ns, |last| last.end_ns);
        let done = |_| Progress {
            iterations: end_ns / 50_000_000 / (1 + spread % 3),
            partial: 0.5,
            elapsed_ns: end_ns,
        };
        let best_effort = scenario.best_effort.iter().map(done).collect();
        let of_server = |job: &sim::BestEffort| job.traffic.as_ref().map(serve).unwrap_or_default();
        let ends = |_| (1..=end_ns / 50_000_000).map(|k| k * 50_000_000).collect();
        Ok(Outcome {
            requests,
            best_effort,
            best_effort_requests: scenario.best_effort.iter().map(of_server).collect(),
            iteration_ends: scenario.best_effort.iter().map(ends).collect(),
            end_ns,
            counters: sim::Counters::default(),
        }
        .into())
    }
}
