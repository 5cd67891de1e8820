//! The daemon of the interposition runtime: it hands out slots of the shared segment, notices deaths, keeps measured
//! durations, and starts and ends MPS where the policy runs on it. It decides nothing about launches: policies run in the
//! clients.
//!
//! **Invariant:** nothing that the daemon does is needed for a client to go on. A client waits for it once, at its first
//! launch, and only for a limited time.

pub mod gpu;
pub mod mps;
pub mod place;
pub mod policy;
pub mod processes;
pub mod profiles;
mod server;
mod slots;

pub use server::{Occupied, Options, run};
