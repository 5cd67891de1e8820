//! `cargo xtask reproduce`: cells, then figures and tables, then checksums, then the report.

use crate::backend::simulator_because;
use crate::binaries::{Binaries, draw, has_figures, report, typed};
use anyhow::Result;
use std::ffi::OsString;
use std::io::Write;

/// The exit code of `artifact reproduce` when it went through and some cells failed.
pub const CELLS_FAILED: u8 = 3;

/// Runs the verb; `first` goes in front of what the user typed.
///
/// # Errors
/// There is a GPU that this version cannot use, or a binary cannot be started.
pub fn run(flags: &flags::Reproduce, first: &[&str]) -> Result<u8> {
    let because = simulator_because(flags.backend)?;
    // Whoever reads only the beginning or only the end of a log must see that no GPU was involved.
    let banner = format!("SIMULATED: {because}");
    say(&banner);
    let code = simulate(flags, first, &because);
    say(&banner);
    code
}

fn simulate(flags: &flags::Reproduce, first: &[&str], because: &str) -> Result<u8> {
    let binaries = match Binaries::build()? {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let mut arguments: Vec<OsString> = vec!["reproduce".into()];
    arguments.extend(first.iter().map(OsString::from));
    arguments.extend(typed());
    arguments.extend(["--backend", "sim", "--backend-reason", because].map(OsString::from));
    let cells = binaries.run("artifact", &arguments)?;
    if flags.list || !matches!(cells, 0 | CELLS_FAILED) {
        return Ok(cells);
    }
    let folder = flags::out_folder(flags.out.as_deref(), flags.machine, "sim", flags.size());
    let is_drawn = (cells == 0 || flags.partial) && has_figures(&folder);
    let drawn = if is_drawn { draw(&binaries, &folder, &[], flags.partial)? } else { 0 };
    // Also of a run with failed cells: it lists them with their errors.
    let reported = report(&binaries, &folder)?;
    Ok([cells, drawn, reported].into_iter().find(|code| *code != 0).unwrap_or(0))
}

/// A line on stdout; a reader that has gone away is no reason to stop.
pub fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
