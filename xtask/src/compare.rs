//! `cargo xtask compare`: what is different between two run folders.

use crate::binaries::pass_on;
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run() -> Result<u8> {
    pass_on("compare")
}
