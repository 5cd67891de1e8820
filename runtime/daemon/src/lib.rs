//! The daemon of the interposition runtime: it hands out slots of the shared segment, notices deaths, keeps measured
//! durations, and starts and ends MPS where the policy runs on it. It decides nothing about launches: policies run in the
//! clients.
//!
//! **Invariant:** nothing that the daemon does is needed for a client to go on. A client waits for it once, at its first
//! launch, and only for a limited time.

/// A line on stderr, as `eprintln!`, which panics when the other end has been closed or the disk of a log is full: no
/// reason for a daemon or `tally run` to leave its programs.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

pub mod gpu;
pub mod mps;
pub mod place;
pub mod policy;
pub mod processes;
pub mod profiles;
mod server;
mod slots;

pub use server::{Occupied, Options, run};
