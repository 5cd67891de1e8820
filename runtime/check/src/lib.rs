//! The runtime on a real GPU: are outputs the same, what do pairs of jobs get, what survives which fault, what is said
//! where something is missing. Each part writes its rows as it goes; [`record`] keeps the last results in the repository.
//!
//! The binary runs on a machine without Rust: it needs the runtime's binaries, the repository's Python programs, PyTorch,
//! and for the faults a C compiler.
//!
//! **Architecture invariant:** programs are started through `tally run`, as a user would; of the runtime only its reports,
//! its status and [`protocol`] are known here.

pub mod answers;
pub mod cmd;
pub mod correctness;
pub mod corun;
pub mod digest;
pub mod faults;
pub mod interrupt;
pub mod machine;
pub mod program;
pub mod record;
pub mod rows;
pub mod selftest;
pub mod setup;
pub mod worker;
