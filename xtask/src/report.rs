//! `cargo xtask report`: a run folder as one page.

use crate::binaries::{Binaries, report};
use anyhow::{Result, anyhow};

/// Runs the verb.
///
/// # Errors
/// There is no run folder, or a binary cannot be started.
pub fn run(flags: &flags::Report) -> Result<u8> {
    let folder = flags::run_folder(flags.run.as_deref()).map_err(|message| anyhow!(message))?;
    match Binaries::build()? {
        Ok(binaries) => report(&binaries, &folder),
        Err(code) => Ok(code),
    }
}
