//! Scheduling policies as pure state machines.
//!
//! **Invariant:** no clock, no file, no environment, no device. Time comes in as `now`, decisions go out as operations;
//! the simulator and the interposition runtime run this very code. A policy never assumes that it is called at a certain
//! rate: what it needs later it asks for with a wake-up time.
//!
//! A policy is one file: a state machine that implements [`Policy`], and the systems that it makes ([`Entry`]), each with
//! its parameters, its source and how it is wired to the device. docs/ADDING-A-SYSTEM.md walks through one.
//!
//! Two systems carry the name of the paper and must not be mixed up: [`tally`] is upstream's central scheduler, [`gate`]
//! is ours, one instance per client.

pub mod client;
mod high;
pub mod parameter;
pub mod policy;
pub mod registry;
mod system;

pub use parameter::{Parameter, Values};
pub use policy::{Event, Kernel, Op, Policy, Setting};
pub use system::{Entry, Form, Hook, ParseError, Substrate, System, Wiring};

/// Nanoseconds on a monotonic clock whose zero does not matter.
pub type Ns = u64;

/// Declares the module of each policy and lists its systems.
macro_rules! policies {
    ($($module:ident),+ $(,)?) => {
        $(pub mod $module;)+
        static POLICIES: &[&[Entry]] = &[$($module::SYSTEMS),+];
    };
}

// One line per policy, in the order of figures.
policies! {
    free,
    tgs,
    batch,
    tally,
    gate,
    orion,
    reef,
    partition,
}
