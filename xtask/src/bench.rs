//! `cargo xtask bench`: how fast the simulator is on this machine.

use crate::binaries::pass_on;
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run() -> Result<u8> {
    pass_on("bench")
}
