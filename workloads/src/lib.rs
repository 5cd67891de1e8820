//! The jobs: what each folder of `workloads/` declares, and the kernels that were recorded from it.
//!
//! **Architecture invariant:** this crate reads files of `workloads/` and nothing else; it never runs a workload.

pub mod definition;
pub mod profile;
mod table;

use anyhow::{Result, bail};
use sim::{Machine, Program};

/// Rescales a program recorded on one machine to another by published peak rates.
///
/// # Errors
/// Always, in this version: the extrapolation is not written yet.
pub fn extrapolate(program: &Program, from: &Machine, to: &Machine) -> Result<Program> {
    bail!(
        "`{}` was recorded on {}; this version cannot extrapolate it to {} yet: use --machine {}",
        program.id,
        from.name,
        to.name,
        from.name
    )
}
