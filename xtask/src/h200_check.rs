//! `cargo xtask h200-check`: the simulator beside cells that were measured on an H200.

use crate::reproduce;
use anyhow::{Result, ensure};
use flags::Backend;

/// Runs the verb: `reproduce` of one experiment on the simulator, which prints the comparison at its end.
///
/// # Errors
/// As `reproduce`; and an experiment or a GPU was named.
pub fn run(flags: &flags::Reproduce) -> Result<u8> {
    ensure!(
        flags.experiments.is_empty(),
        "h200-check is an experiment itself; for another one use `cargo xtask reproduce --experiment {}`",
        flags.experiments.join(" --experiment ")
    );
    ensure!(
        flags.backend != Backend::Gpu,
        "h200-check says how good the simulator is; to measure its cells on a GPU use `cargo xtask reproduce --backend gpu \
         --experiment h200-check`"
    );
    reproduce::simulate(
        flags,
        &["--experiment", "h200-check"],
        "h200-check compares the simulator with a measurement",
    )
}
