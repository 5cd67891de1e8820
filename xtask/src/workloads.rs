//! `cargo xtask workloads`: our definitions and profiles, by themselves and beside upstream's.

use crate::binaries::{Binaries, typed};
use anyhow::Result;
use std::ffi::OsString;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run() -> Result<u8> {
    let binaries = match Binaries::build()? {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let arguments: Vec<_> = [OsString::from("workloads")].into_iter().chain(typed()).collect();
    binaries.run("artifact", &arguments)
}
