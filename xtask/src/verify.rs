//! `cargo xtask verify`: files and numbers (by `artifact`), then figures (by `figures`).

use crate::binaries::{Binaries, has_figures, typed};
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
    if !has_figures(&folder) {
        println!("3. figures: none, as no experiment of this run has one");
        return Ok(records);
    }
    println!("3. figures: drawn again and compared");
    // An incomplete run was drawn with --partial; on a complete one the flag changes nothing.
    let check = ["check".into(), "--partial".into(), "--run".into(), folder.into()];
    let figures = binaries.run("figures", &check)?;
    println!("{}", if figures == 0 { "   ok" } else { "   FAILED" });
    Ok(if records == 0 { figures } else { records })
}
