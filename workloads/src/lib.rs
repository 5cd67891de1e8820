//! The jobs: what each folder of `workloads/` declares, and the kernels that were recorded from it.
//!
//! **Architecture invariant:** this crate reads files of `workloads/` and nothing else; it never runs a workload.

pub mod against;
pub mod definition;
mod extrapolate;
pub mod profile;
mod table;

pub use extrapolate::{extrapolate, extrapolate_job};
pub use profile::ProfileSet;
