//! What is simulated, and what comes out.

use crate::machine::Machine;
use crate::program::Program;
use crate::system::System;

/// Nanoseconds since the start of the cell.
pub type Ns = u64;

/// How requests reach the high-priority server.
#[derive(Clone, Debug)]
pub enum Traffic<'a> {
    /// One request after the other, without waiting: upstream's single-stream run. Stops after this many requests.
    ClosedLoop { requests: u64 },
    /// Planned arrivals, sorted, ns. Request k starts at the later of its arrival and the end of request k-1.
    Paced(&'a [Ns]),
}

/// One best-effort job.
#[derive(Clone, Debug)]
pub struct BestEffort<'a> {
    pub program: &'a Program,
    /// Requests of a server; `None` for training, which iterates without end.
    pub traffic: Option<Traffic<'a>>,
}

impl<'a> BestEffort<'a> {
    /// A server with best-effort priority.
    pub fn server(program: &'a Program, traffic: Traffic<'a>) -> Self {
        BestEffort { program, traffic: Some(traffic) }
    }
}

impl<'a> From<&'a Program> for BestEffort<'a> {
    /// A training job.
    fn from(program: &'a Program) -> Self {
        BestEffort { program, traffic: None }
    }
}

/// One cell to simulate: at most one high-priority server and any number of best-effort jobs on one device.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    pub machine: &'a Machine,
    pub system: &'a System,
    pub high: Option<(&'a Program, Traffic<'a>)>,
    pub best_effort: Vec<BestEffort<'a>>,
    /// The cell ends here; a request in flight is finished first. A server alone in a [`Traffic::ClosedLoop`] ends the cell
    /// with its last request if that is earlier.
    pub span_ns: Ns,
    /// Seeds the drawn kernel durations.
    pub seed: u64,
}

/// One served request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Planned arrival.
    pub arrival_ns: Ns,
    /// When the server began to work on it.
    pub start_ns: Ns,
    /// When its result was back on the host.
    pub end_ns: Ns,
}

/// What a best-effort job got done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Finished iterations of training, or requests served.
    pub iterations: u64,
    /// How far the unfinished iteration has come, by completed launches and then by the host's pause, so that short cells
    /// are not quantised; 0 for a server.
    pub partial: f64,
    /// Time over which they were counted, ns.
    pub elapsed_ns: Ns,
}

impl Progress {
    /// Iterations per second; `None` for an empty cell.
    pub fn rate_hz(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| (self.iterations as f64 + self.partial) * 1e9 / self.elapsed_ns as f64)
    }
}

/// Counters that tests and reports read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Kernels that met the device one by one; those of an undisturbed job are not counted.
    pub launches: u64,
    /// Blocks placed on a multiprocessor, over all kernels.
    pub blocks_placed: u64,
    /// Blocks that finished.
    pub blocks_done: u64,
    /// Device events handled; the simulator's cost grows with these.
    pub events: u64,
    /// Context switches (contexts), or retreats that a policy asked for (a domain).
    pub switches: u64,
}

/// The outcome of one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In order of start.
    pub requests: Vec<Request>,
    /// One entry per best-effort job.
    pub best_effort: Vec<Progress>,
    /// Per best-effort job: the requests of a server, in order of start; empty for training.
    pub best_effort_requests: Vec<Vec<Request>>,
    /// Per best-effort job: when each iteration ended, its pause on the host included, ns; empty for a server.
    pub iteration_ends: Vec<Vec<Ns>>,
    /// When the simulation stopped.
    pub end_ns: Ns,
    pub counters: Counters,
}
