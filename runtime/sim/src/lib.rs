//! A discrete-event model of one GPU shared by a high-priority server and best-effort jobs.
//!
//! Time is in integer nanoseconds and nothing depends on the platform's mathematics library, so that the same scenario
//! gives the same outcome on any machine and any number of threads.

mod client;
mod contexts;
mod control;
mod device;
#[cfg(test)]
mod dispatch_tests;
mod domain;
#[cfg(test)]
mod exact;
mod forms;
mod kernel;
pub mod machine;
pub mod occupancy;
#[cfg(test)]
mod policy_tests;
mod pool;
mod prepared;
pub mod program;
#[cfg(test)]
mod recorded_tests;
pub mod scenario;
mod server;
mod sms;
pub mod system;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod world;

pub use machine::Machine;
pub use program::{Kind, Launch, Program, Segment};
pub use scenario::{BestEffort, Counters, Ns, Outcome, Progress, Request, Scenario, Traffic};
pub use system::System;

/// Changes whenever the simulator may give other numbers for the same scenario; part of every cell's key.
pub const VERSION: u32 = 3;

/// Jobs that a cell may have, the high-priority one included.
pub const MOST_JOBS: usize = domain::SLOTS;

/// Simulates one cell.
///
/// # Errors
/// A program with a kernel that cannot run on the machine, an empty program, or a cell in which time does not advance.
pub fn simulate(scenario: &Scenario) -> anyhow::Result<Outcome> {
    world::World::new(scenario)?.run()
}
