//! `cargo xtask verify`: files and numbers (by `artifact`), then figures (by `figures`).

use crate::binaries::{Binaries, typed};
use anyhow::{Result, anyhow};
use std::ffi::OsString;

/// Runs the verb; every part is run and printed, whatever the others say.
///
/// # Errors
/// There is no run folder, or a binary cannot be started.
pub fn run(flags: &flags::Verify) -> Result<u8> {
    let folder = flags::run_folder(flags.run.as_deref()).map_err(|message| anyhow!(message))?;
    let binaries = match Binaries::build()? {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let arguments: Vec<_> = [OsString::from("verify")].into_iter().chain(typed()).collect();
    let records = binaries.run("artifact", &arguments)?;
    let figures = binaries.run("figures", &["check".into(), "--run".into(), folder.into()])?;
    Ok([records, figures].into_iter().find(|code| *code != 0).unwrap_or(0))
}
