//! From experiment to record: definition -> plan -> cells -> tables -> checks.
//!
//! An experiment (`experiments/*.toml`) names systems, jobs and loads. The plan makes cells of it, each with a key that is
//! the hash of everything that determines its numbers. Cells are run by an [`executor::Executor`], stored one by one, and
//! summed up in one table per experiment. Formats: docs/FORMATS.md.
//!
//! **Architecture invariant:** nothing here draws; figures are made from the record by the crate `figures`. Dates and
//! host facts go to `run.toml` and nowhere else, so that equal inputs give equal tables on any machine.

pub mod bench;
pub mod catalogue;
pub mod cell;
pub mod claims;
pub mod cmd;
pub mod compare;
pub mod executor;
pub mod experiment;
pub mod fidelity;
pub mod files;
pub mod golden;
pub mod gpu;
pub mod h200_check;
pub mod host_cost;
pub mod key;
pub mod library;
pub mod measures;
pub mod mechanisms;
pub mod plan;
pub mod progress;
pub mod provenance;
pub mod recorded;
pub mod root;
pub mod run;
pub mod runinfo;
pub mod samples;
pub mod series;
pub mod stats;
pub mod store;
pub mod summary;
pub mod sums;
pub mod traffic;
