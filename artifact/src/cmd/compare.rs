//! `artifact compare`: two run folders side by side.

use super::say;
use crate::compare::rows::Verdict;
use crate::compare::{Side, changes, rows, text};
use crate::files;
use anyhow::{Result, ensure};
use flags::Compare;
use std::path::Path;

/// Runs the verb; 0 when the numbers are the same or no further apart than chance explains, else 1.
///
/// # Errors
/// A folder that holds no run, or a table that cannot be read or written.
pub fn run(flags: &Compare) -> Result<u8> {
    let (a, b) = (Side::read(&flags.a)?, Side::read(&flags.b)?);
    if let Some(path) = &flags.csv {
        let is_in = |run: &Path| {
            path.parent().is_some_and(|parent| parent.canonicalize().ok() == run.canonicalize().ok())
        };
        // Its tables are taken for results.
        ensure!(
            !is_in(&flags.a) && !is_in(&flags.b),
            "--csv {}: name a file outside of both run folders",
            path.display()
        );
    }
    let changes = changes::between(&a, &b);
    let rows = rows::all(&a, &b, flags.rate_tolerance);
    say(&text::pretty(&a, &b, &changes, &rows, flags.rate_tolerance));
    if let Some(path) = &flags.csv {
        files::write_atomically(path, &text::csv(&rows)?)?;
        say(&format!("every number: {}\n", path.display()));
    }
    Ok(match text::verdict(&rows) {
        Verdict::Same | Verdict::Within => 0,
        Verdict::NotCompared | Verdict::Differs => 1,
    })
}
