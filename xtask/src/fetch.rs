//! `cargo xtask fetch`: the data that the repository doesn't carry, by the binary `fetch`.

use crate::binaries::{Binaries, typed};
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// The binary cannot be started.
pub fn run(_flags: &flags::Fetch) -> Result<u8> {
    match Binaries::build_fetch()? {
        Ok(binaries) => binaries.run("fetch", &typed()),
        Err(code) => Ok(code),
    }
}
