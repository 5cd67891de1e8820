//! `cargo xtask h200-check`: the simulator beside cells that were measured on an H200.

use crate::reproduce;
use anyhow::{Result, ensure};

/// Runs the verb: `reproduce` of one experiment, which prints the comparison at its end.
///
/// # Errors
/// As `reproduce`; and an experiment was named.
pub fn run(flags: &flags::Reproduce) -> Result<u8> {
    ensure!(
        flags.experiments.is_empty(),
        "h200-check is an experiment itself; for another one use `cargo xtask reproduce --experiment {}`",
        flags.experiments.join(" --experiment ")
    );
    reproduce::run(flags, &["--experiment", "h200-check"])
}
