//! What came out, one row per thing checked, written as soon as it is known.

use anyhow::{Context, Result};
use flags::Part;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How a thing came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It held.
    Passed,
    /// It did not, or could not be found out.
    Failed,
    /// A number that nobody judges.
    Measured,
    /// It cannot be done here, and why.
    Skipped,
}

/// One thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub part: String,
    pub name: String,
    pub outcome: Outcome,
    pub detail: String,
    pub seconds: f64,
}

/// The rows of a folder, those of earlier invocations included.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    rows: Vec<Row>,
    began: Instant,
}

impl Rows {
    /// The rows that are in a file; none if there is no file.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn open(path: &Path) -> Result<Rows> {
        Ok(Rows { path: path.to_path_buf(), rows: read(path)?, began: Instant::now() })
    }

    /// All of them.
    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    /// Forgets the rows of a part, which is about to be run again.
    pub fn forget(&mut self, part: Part) {
        self.rows.retain(|row| row.part != part.name());
    }

    /// Adds a row in place of an older one of this name, shows it, and writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, part: Part, name: &str, outcome: Outcome, detail: impl Into<String>) -> Result<()> {
        let word = match outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Measured => "measured",
            Outcome::Skipped => "skipped",
        };
        let row = self.restore(part, name, outcome, detail.into());
        eprintln!("[{:7.1} s] {word:8} {}: {name}: {}", row.seconds, row.part, row.detail);
        write(&self.path, &self.rows)
    }

    /// Adds a row that an earlier invocation has shown.
    pub fn restore(&mut self, part: Part, name: &str, outcome: Outcome, detail: String) -> &Row {
        let seconds = (self.began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        let (part, name) = (part.name().to_owned(), name.to_owned());
        self.rows.retain(|old| (&old.part, &old.name) != (&part, &name));
        self.rows.push(Row { part, name, outcome, detail, seconds });
        &self.rows[self.rows.len() - 1]
    }

    /// [`Outcome::Passed`] or [`Outcome::Failed`].
    ///
    /// # Errors
    /// As [`Rows::add`].
    pub fn judge(&mut self, part: Part, name: &str, held: bool, detail: impl Into<String>) -> Result<()> {
        self.add(part, name, if held { Outcome::Passed } else { Outcome::Failed }, detail)
    }
}

/// Reads a table; an absent file has no rows.
///
/// # Errors
/// The file is there and is no such table.
pub fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text =
        bounded::text(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().with_context(|| {
        format!("{} is not a table of this version; move it away or choose another --out", path.display())
    })
}

/// Writes a table under a temporary name and renames it.
///
/// # Errors
/// The folder cannot be written.
pub fn write<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let partial = path.with_extension("partial");
    let mut writer =
        csv::Writer::from_path(&partial).with_context(|| format!("cannot write {}", partial.display()))?;
    for row in rows {
        writer.serialize(row).with_context(|| format!("cannot write {}", partial.display()))?;
    }
    writer.flush()?;
    drop(writer);
    std::fs::rename(&partial, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_and_newer_ones_replace_older_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut rows = Rows::open(&path).unwrap();
        rows.judge(Part::Faults, "a", false, "late, by 3 \"s\"").unwrap();
        rows.add(Part::Corun, "b", Outcome::Skipped, "no MPS").unwrap();
        rows.judge(Part::Faults, "a", true, "").unwrap();
        let mut again = Rows::open(&path).unwrap();
        let shown: Vec<_> = again.all().iter().map(|row| (row.name.as_str(), row.outcome)).collect();
        assert_eq!(shown, [("b", Outcome::Skipped), ("a", Outcome::Passed)]);
        again.forget(Part::Corun);
        assert_eq!(again.all().len(), 1);
        std::fs::write(&path, "part,name\nx\n").unwrap();
        assert!(format!("{:#}", Rows::open(&path).unwrap_err()).contains("choose another --out"));
    }
}
