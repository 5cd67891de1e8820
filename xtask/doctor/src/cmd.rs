//! `doctor`: look, print, pack.

use crate::bundle;
use crate::report::Report;
use crate::scrub::Scrub;
use anyhow::{Result, anyhow};
use flags::Doctor;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Runs the verb; 0 when the simulator can be used.
///
/// # Errors
/// This is no repository, or the archive cannot be written.
pub fn run(flags: &Doctor) -> Result<u8> {
    let root = root()?;
    let prices = flags.prices.clone().unwrap_or_else(|| root.join("artifact/prices.toml"));
    let report = Report::make(&root, &prices);
    let text = match (flags.json, flags.toml) {
        (true, _) => report.json()?,
        (_, true) => report.toml()?,
        _ => report.pretty(),
    };
    let mut out = std::io::stdout();
    // A reader that has gone away is no reason to stop.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Some(path) = &flags.bundle {
        let runs = bundle::runs(&root, &flags.runs)?;
        let files = bundle::gather(&root, &report, &runs, &Scrub::here(&root))?;
        bundle::write(path, &files)?;
        // Not on stdout, which a program may be reading.
        eprintln!(
            "wrote {}: {} files of {} runs; look through it before you send it",
            path.display(),
            files.len(),
            runs.len()
        );
    }
    Ok(if report.simulator.fit { 0 } else { 1 })
}

/// The nearest folder upwards that holds experiments, else the one this binary was built in.
fn root() -> Result<PathBuf> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(Path::to_path_buf);
    let current = std::env::current_dir().ok();
    let upwards = current.iter().flat_map(|folder| folder.ancestors().map(Path::to_path_buf));
    upwards.chain(built_in).find(|folder| folder.join("artifact/experiments").is_dir()).ok_or_else(|| {
        anyhow!("there is no artifact/experiments in this folder or above it; run from inside the repository")
    })
}
