//! A best-effort client's half of a system, for a process of its own.
//!
//! Where each client decides for itself ([`crate::Hook::Client`]), a policy is the sum of its clients' halves. The simulator
//! runs them together in one [`crate::Policy`], an intercepted process has a [`Client`] of its own; both are the same code,
//! which [`replay`] checks by a log of either.

mod log;

pub use log::{Header, Line, Mismatch, ParseLineError, Replayed, replay};

use crate::gate::{self, Activity};
use crate::{Kernel, Ns, policy, tgs};
use std::fmt;

/// What happens to a best-effort client. The caller reports events one at a time, in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The program wants to launch; answered by [`Op::Admit`] now or later. One at a time: another one replaces it.
    Launch {
        /// Estimate of the GPU time that it takes alone, ns.
        duration_ns: Option<Ns>,
        /// Thread blocks of the grid; of a graph, of all its kernels.
        blocks: u64,
    },
    /// The launch of this number completed all its blocks, or failed and never ran. In any order; a number that is not in
    /// flight is ignored.
    Completed { launch: u64 },
    /// The word of the high-priority side changed.
    Word(Activity),
    /// A sample of the high-priority side's rate, in thread blocks per [`tgs::SAMPLE_NS`].
    Rate(f64),
    /// The time of an earlier [`Op::WakeAt`] has come.
    Timer,
}

impl Event {
    /// The launch of a kernel of which all is known.
    pub(crate) fn launch(kernel: &Kernel) -> Event {
        Event::Launch { duration_ns: Some(kernel.duration_ns), blocks: kernel.blocks }
    }
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Hand the held launch to the driver. Launches are numbered from 0 in the order of their admission.
    Admit { launch: u64 },
    /// Call again with [`Event::Timer`] at this time, unless the held launch is admitted before.
    WakeAt(Ns),
}

/// A best-effort client's half, made by [`crate::System::client`]. Its launches, of however many streams and threads, are
/// one sequence.
#[derive(Clone, Debug)]
pub struct Client(Half);

#[derive(Clone, Debug)]
enum Half {
    Gate(gate::BestEffort),
    Tgs { client: tgs::BestEffort, admitted: u64 },
}

impl Client {
    pub(crate) fn gate(client: gate::BestEffort) -> Client {
        Client(Half::Gate(client))
    }

    pub(crate) fn tgs(client: tgs::BestEffort) -> Client {
        Client(Half::Tgs { client, admitted: 0 })
    }

    /// One step at time `now`, on the clock of [`Activity::IdleSince`]; at most one operation follows from one event.
    /// Allocates nothing.
    pub fn step(&mut self, event: Event, now: Ns) -> Option<Op> {
        match &mut self.0 {
            Half::Gate(client) => {
                let event = match event {
                    Event::Launch { duration_ns, .. } => gate::Event::Launch { duration_ns },
                    Event::Completed { launch } => gate::Event::Completed { launch },
                    Event::Word(word) => gate::Event::Word(word),
                    Event::Timer => gate::Event::Timer,
                    Event::Rate(_) => return None,
                };
                match client.step(event, now)? {
                    gate::Op::Admit { launch } => Some(Op::Admit { launch }),
                    gate::Op::WakeAt(at) => Some(Op::WakeAt(at)),
                    // Not asked for between launches, which is the only level that makes a client.
                    gate::Op::Retreat | gate::Op::Resume => None,
                }
            }
            Half::Tgs { client, admitted } => {
                let answer = match event {
                    Event::Launch { blocks, .. } => client.launch(blocks, now)?,
                    Event::Timer => client.ask(now)?,
                    Event::Rate(rate) => {
                        client.sample(rate, now);
                        return None;
                    }
                    Event::Completed { .. } | Event::Word(_) => return None,
                };
                Some(match answer {
                    Ok(()) => {
                        *admitted += 1;
                        Op::Admit { launch: *admitted - 1 }
                    }
                    Err(at) => Op::WakeAt(at),
                })
            }
        }
    }
}

/// What a policy that consists of its clients' halves says of them.
pub trait Halves {
    /// The half of a client that starts at `now`, when the high-priority side has just become idle and has had this rate
    /// at most.
    fn client(&self, now: Ns, max_rate: f64) -> Client;

    /// What this client sees of an event that the policy is about to be told of.
    fn seen(&self, client: usize, event: &policy::Event) -> Option<Event>;

    /// The number of this client's timer.
    fn timer(&self, client: usize) -> usize;
}

/// Why a system has no half for a client's own process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub(crate) system: String,
    pub(crate) why: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system `{}` cannot run in a client's process: {}", self.system, self.why)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;

    fn client(system: &str) -> Result<Client, String> {
        System::parse(system).unwrap().client(1000, 5000.0).map_err(|refused| refused.to_string())
    }

    fn launch(ns: Ns) -> Event {
        Event::Launch { duration_ns: Some(ns), blocks: 64 }
    }

    #[test]
    fn a_gate_waits_from_its_start_and_counts_its_budget() {
        let mut client = client("gate-1:depth=8,idle_wait_us=0.1,budget_us=1").unwrap();
        assert_eq!(client.step(launch(700), 1050), Some(Op::WakeAt(1100)));
        assert_eq!(client.step(Event::Rate(3.0), 1060), None);
        assert_eq!(client.step(Event::Timer, 1100), Some(Op::Admit { launch: 0 }));
        assert_eq!(client.step(launch(301), 1101), None);
        assert_eq!(client.step(launch(300), 1102), Some(Op::Admit { launch: 1 }), "replaces the one before");
    }

    #[test]
    fn tgs_asks_again_after_a_while() {
        let mut client = client("tgs").unwrap();
        assert_eq!(client.step(launch(1), 1000), Some(Op::Admit { launch: 0 }));
        assert_eq!(client.step(Event::Timer, 1001), None, "nothing is held");
        assert_eq!(client.step(launch(1), 1002), Some(Op::WakeAt(1002 + tgs::RETRY_NS)));
        assert_eq!(client.step(Event::Completed { launch: 0 }, 1003), None);
        assert_eq!(client.step(Event::Word(Activity::Active), 1004), None);
        let next = tgs::BUDGET_NS;
        assert_eq!(client.step(Event::Timer, next), Some(Op::Admit { launch: 1 }));
    }

    #[test]
    fn what_runs_in_no_client_says_why() {
        for (system, why) in [
            ("mps", "holds no launches back"),
            ("tally", "simulated only: a server"),
            ("reef", "simulated only: a server"),
            ("gate-cubin", "simulated only: it stops kernels between thread blocks"),
            ("gate:level=ptx", "`gate:level=ptx`"),
        ] {
            let text = client(system).unwrap_err();
            assert!(text.contains(why) && text.contains(system), "{text}");
        }
        for system in ["gate", "gate-mps", "gate-mps-2", "gate-mps-8", "tgs", "tgs-mps"] {
            assert!(client(system).is_ok(), "{system}");
        }
    }
}
