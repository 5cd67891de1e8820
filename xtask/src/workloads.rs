//! `cargo xtask workloads`: our definitions and profiles, by themselves and beside upstream's.

use crate::binaries::pass_on;
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run() -> Result<u8> {
    pass_on("workloads")
}
