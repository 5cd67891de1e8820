//! `cargo xtask figure` and `table`: draw from a run folder and renew its report; the two differ in name
//! only.

use crate::binaries::{Binaries, draw, report};
use anyhow::{Result, anyhow};

/// Runs the verb.
///
/// # Errors
/// There is no run folder, or a binary cannot be started.
pub fn run(flags: &flags::Draw) -> Result<u8> {
    let folder = if flags.list { None } else { Some(flags::run_folder(flags.run.as_deref())) };
    let folder = folder.transpose().map_err(|message| anyhow!(message))?;
    let binaries = match Binaries::build()? {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    match folder {
        None => binaries.run("figures", &["list".into()]),
        Some(folder) => {
            let ids: Vec<&str> = flags.id.as_deref().into_iter().collect();
            match draw(&binaries, &folder, &ids, flags.partial)? {
                0 => report(&binaries, &folder),
                code => Ok(code),
            }
        }
    }
}
