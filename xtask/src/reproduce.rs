//! `cargo xtask reproduce`: cells, then figures and tables, then checksums, then the report.

use crate::backend::{self, Choice, Gpu};
use crate::binaries::{Binaries, draw, has_figures, report, typed};
use crate::container;
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// The exit code of `artifact reproduce` when it went through and some cells failed.
pub const CELLS_FAILED: u8 = 3;

/// Runs the verb.
///
/// # Errors
/// A GPU was asked for and cannot be used, or a binary cannot be started.
pub fn run(flags: &flags::Reproduce) -> Result<u8> {
    match backend::choose(flags)? {
        Choice::Simulator { because } => simulate(flags, &[], &because),
        Choice::Gpu(gpu) => measure(flags, &gpu),
        Choice::Container(gpu, engine) => container::measure(flags, &gpu, &engine),
    }
}

/// On the simulator; `first` goes in front of what the user typed.
///
/// # Errors
/// A binary cannot be started.
pub fn simulate(flags: &flags::Reproduce, first: &[&str], because: &str) -> Result<u8> {
    let folder = flags::out_folder(flags.out.as_deref(), flags.machine, "sim", flags.size());
    let last = ["--backend", "sim", "--backend-reason", because].map(OsString::from);
    // Whoever reads only the beginning or only the end of a log must see that no GPU was involved.
    let banner = format!("SIMULATED: {because}");
    between(&banner, || cells_and_figures(flags, &folder, first, &last, Binaries::build()?))
}

/// On a GPU, by programs of this machine.
fn measure(flags: &flags::Reproduce, gpu: &Gpu) -> Result<u8> {
    let folder = flags.out.clone().unwrap_or_else(|| flags::device_folder(&gpu.name, flags.size()));
    let why = format!("found {}", gpu.name);
    let mut last =
        ["--backend", "gpu", "--backend-reason", &why, "--device", &gpu.uuid].map(OsString::from).to_vec();
    // Only the driver knows the name that the folder has; the report prints the command, and should not need it.
    last.extend([OsString::from("--out"), folder.clone().into()]);
    let banner = format!("MEASURED on {}, driver {}", gpu.name, gpu.driver);
    between(&banner, || cells_and_figures(flags, &folder, &[], &last, Binaries::build_with_runtime()?))
}

fn between(banner: &str, work: impl FnOnce() -> Result<u8>) -> Result<u8> {
    say(banner);
    let code = work();
    say(banner);
    code
}

fn cells_and_figures(
    flags: &flags::Reproduce,
    folder: &Path,
    first: &[&str],
    last: &[OsString],
    binaries: Result<Binaries, u8>,
) -> Result<u8> {
    let binaries = match binaries {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let mut arguments: Vec<OsString> = vec!["reproduce".into()];
    arguments.extend(first.iter().map(OsString::from));
    arguments.extend(typed());
    arguments.extend_from_slice(last);
    let cells = binaries.run("artifact", &arguments)?;
    if flags.list || !matches!(cells, 0 | CELLS_FAILED) {
        return Ok(cells);
    }
    let is_drawn = (cells == 0 || flags.partial) && has_figures(folder);
    let drawn = if is_drawn { draw(&binaries, folder, &[], flags.partial)? } else { 0 };
    // Also of a run with failed cells: it lists them with their errors.
    let reported = report(&binaries, folder)?;
    Ok([cells, drawn, reported].into_iter().find(|code| *code != 0).unwrap_or(0))
}

/// A line on stdout; a reader that has gone away is no reason to stop.
pub fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
