//! Draws into a run folder, and checks that what lies there is what would be drawn.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::inputs::Inputs;
use crate::registry::{ENTRIES, Entry, Output, find};

/// Draws figures and tables of the run folder `run` into it. No `ids`: all whose experiment has a table.
/// Returns the paths written.
///
/// # Errors
/// Unknown id; no table to draw from; a table that is refused (see [`records::read`]) or, without `partial`,
/// incomplete; a file that cannot be written. All files of an entry are drawn before its first one is
/// written.
pub fn draw(run: &Path, ids: &[String], partial: bool) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for entry in select(run, ids)? {
        for output in render(run, entry, partial)? {
            let path = run.join(&output.path);
            write(&path, &output.bytes)?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Redraws and compares bytes with the files of the run folder. Returns the first file that differs, with the
/// reason, or `None` and the number of files compared.
///
/// # Errors
/// As [`draw`]; also a file that exists but cannot be read.
pub fn check(run: &Path, ids: &[String], partial: bool) -> Result<Check> {
    let mut files = 0;
    for entry in select(run, ids)? {
        for output in render(run, entry, partial)? {
            if let Some(reason) = difference(run, &output)? {
                return Ok(Check::Differs { path: output.path, reason });
            }
            files += 1;
        }
    }
    Ok(Check::Same { files })
}

/// Result of [`check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    Same { files: usize },
    Differs { path: String, reason: String },
}

fn difference(run: &Path, output: &Output) -> Result<Option<String>> {
    let path = run.join(&output.path);
    if !path.exists() {
        return Ok(Some("the file is missing".to_owned()));
    }
    let found =
        bounded::bytes(&path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    if found == output.bytes {
        return Ok(None);
    }
    let at = found.iter().zip(&output.bytes).take_while(|(a, b)| a == b).count();
    Ok(Some(format!(
        "differs from byte {at} on ({} bytes in the run folder, {} drawn again)",
        found.len(),
        output.bytes.len()
    )))
}

/// Every file of one entry, drawn from the records of `run`.
///
/// # Errors
/// See [`draw`].
pub fn render(run: &Path, entry: &Entry, partial: bool) -> Result<Vec<Output>> {
    let inputs = Inputs::read(run, entry, partial)?;
    entry.render(&inputs).with_context(|| format!("drawing {}", entry.id))
}

fn select(run: &Path, ids: &[String]) -> Result<Vec<&'static Entry>> {
    if !run.is_dir() {
        bail!("no run folder {}; next: name one with --run, e.g. --run results/h200-sim", run.display());
    }
    if !ids.is_empty() {
        return ids.iter().map(|id| find(id)).collect();
    }
    let entries: Vec<_> = ENTRIES.iter().filter(|e| Inputs::are_there(run, e)).collect();
    if entries.is_empty() {
        bail!(
            "{} has no table of an experiment (as fig5.csv); next: run one with `cargo xtask reproduce`",
            run.display()
        );
    }
    Ok(entries)
}

/// Writes to a temporary name beside `path`, then renames: a reader never sees half a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { bail!("{}", context()) };
    fs::create_dir_all(folder).with_context(context)?;
    let temporary = folder.join(format!(".{}.part", name.to_string_lossy()));
    fs::write(&temporary, bytes).with_context(context)?;
    fs::rename(&temporary, path).with_context(context)
}
