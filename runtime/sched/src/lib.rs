//! Scheduling policies as pure state machines.
//!
//! **Invariant:** no clock, no file, no environment, no device. Time comes in as `now`, decisions go out as operations;
//! the simulator and the interposition runtime run this very code. A policy never assumes that it is called at a certain
//! rate: what it needs later it asks for with a wake-up time.
//!
//! Two systems carry the name of the paper and must not be mixed up: [`tally`] is upstream's central scheduler, [`gate`]
//! is ours, one instance per client.

pub mod batch;
pub mod gate;
pub mod tally;
pub mod tgs;

/// Nanoseconds on a monotonic clock whose zero does not matter.
pub type Ns = u64;
