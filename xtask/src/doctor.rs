//! `cargo xtask doctor`: whether this machine is fit, and what the experiments cost on it.

use crate::binaries::{Binaries, typed};
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// The binary cannot be started.
pub fn run() -> Result<u8> {
    match Binaries::build_doctor()? {
        Ok(binaries) => binaries.run("doctor", &typed()),
        Err(code) => Ok(code),
    }
}
