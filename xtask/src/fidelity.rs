//! `cargo xtask fidelity`: the simulator beside published and measured numbers, and what the conclusions owe to guesses.

use crate::binaries::pass_on;
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run() -> Result<u8> {
    pass_on("fidelity")
}
