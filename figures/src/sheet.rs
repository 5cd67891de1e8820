//! Reads the tables of a run folder as text, strictly: what the format does not say is refused, with file, line, column and
//! value, because a figure drawn from a misread file looks right.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use polars::prelude::{CsvReadOptions, DataFrame, SerReader};

/// Reads the file at `path`, which must have exactly these columns.
///
/// # Errors
/// A missing or unreadable file; unknown or missing columns.
pub fn read<'a>(path: &'a Path, columns: &[&'static str]) -> Result<Vec<Row<'a>>> {
    let frame = frame(path)?;
    check_columns(path, &frame, columns)?;
    let mut rows = Vec::with_capacity(frame.height());
    let mut line = 2;
    for index in 0..frame.height() {
        let row = Row::new(path, &frame, columns, index, line)?;
        // A quoted field may hold line breaks, which are lines of the file too.
        line += 1 + row.fields.values().flatten().map(|v| v.matches('\n').count()).sum::<usize>();
        rows.push(row);
    }
    Ok(rows)
}

/// The fields of a CSV file, all as text, so that a bad value can be shown as it stands there.
fn frame(path: &Path) -> Result<DataFrame> {
    let unreadable =
        || format!("cannot read {}; next: run the experiment with `cargo xtask reproduce`", path.display());
    bounded::check(path, bounded::TABLE).with_context(unreadable)?;
    CsvReadOptions::default()
        .with_has_header(true)
        .with_infer_schema_length(Some(0))
        .with_n_threads(Some(1))
        .try_into_reader_with_file_path(Some(path.to_path_buf()))
        .and_then(|reader| reader.finish())
        .with_context(unreadable)
}

fn check_columns(path: &Path, frame: &DataFrame, columns: &[&'static str]) -> Result<()> {
    let names: Vec<String> = frame.get_column_names().iter().map(|n| n.to_string()).collect();
    let unknown: Vec<_> = names.iter().filter(|n| columns.iter().all(|c| c != n)).cloned().collect();
    let missing: Vec<_> = columns.iter().copied().filter(|c| names.iter().all(|n| n != c)).collect();
    if unknown.is_empty() && missing.is_empty() {
        return Ok(());
    }
    bail!(
        "{}, line 1: unknown columns [{}], missing columns [{}]; next: compare with docs/FORMATS.md, then run the \
         experiment again with this version",
        path.display(),
        unknown.join(", "),
        missing.join(", ")
    )
}

/// One row as text, with what an error message needs.
pub struct Row<'a> {
    path: &'a Path,
    /// Line in the file, the header being line 1.
    pub line: usize,
    fields: HashMap<&'static str, Option<String>>,
}

impl<'a> Row<'a> {
    fn new(
        path: &'a Path,
        frame: &DataFrame,
        columns: &[&'static str],
        index: usize,
        line: usize,
    ) -> Result<Row<'a>> {
        let mut fields = HashMap::new();
        for column in columns {
            let value = frame.column(column)?.str()?.get(index).filter(|v| !v.is_empty());
            fields.insert(*column, value.map(str::to_owned));
        }
        Ok(Row { path, line, fields })
    }

    /// An error about the value of this column.
    pub fn bad(&self, column: &str, problem: &str) -> anyhow::Error {
        let value = self.shown(column);
        anyhow!(
            "{}, line {}, column `{column}`: value `{value}` {problem}; next: see docs/FORMATS.md and run the \
             experiment again",
            self.path.display(),
            self.line
        )
    }

    /// `None` for an empty field.
    pub fn text(&self, column: &str) -> Option<String> {
        self.fields.get(column).cloned().flatten()
    }

    /// The text; empty for an empty field.
    pub fn shown(&self, column: &str) -> &str {
        self.fields.get(column).and_then(Option::as_deref).unwrap_or_default()
    }

    /// # Errors
    /// The field is empty.
    pub fn required(&self, column: &str) -> Result<String> {
        self.text(column).ok_or_else(|| self.bad(column, "is missing"))
    }

    /// # Errors
    /// Not a whole number.
    pub fn count(&self, column: &str) -> Result<Option<u64>> {
        self.text(column)
            .map(|v| v.parse::<u64>().map_err(|_| self.bad(column, "is not a whole number >= 0")))
            .transpose()
    }

    /// # Errors
    /// Not a finite number.
    pub fn finite(&self, column: &str) -> Result<Option<f64>> {
        let Some(text) = self.text(column) else { return Ok(None) };
        let value: f64 = text.parse().map_err(|_| self.bad(column, "is not a number"))?;
        if value.is_finite() { Ok(Some(value)) } else { Err(self.bad(column, "is not a finite number")) }
    }

    /// # Errors
    /// As [`Row::finite`]; and below `min`.
    pub fn real(&self, column: &str, min: f64) -> Result<Option<f64>> {
        match self.finite(column)? {
            Some(value) if value < min => Err(self.bad(column, &format!("is not a finite number >= {min}"))),
            value => Ok(value),
        }
    }

    /// A time that later gets divided by or drawn on a logarithmic axis.
    ///
    /// # Errors
    /// As [`Row::real`]; and 0.
    pub fn time(&self, column: &str) -> Result<Option<f64>> {
        let value = self.real(column, 0.0)?;
        if value == Some(0.0) {
            return Err(self.bad(column, "is not greater than 0"));
        }
        Ok(value)
    }

    /// Both ends of an interval of times, or neither.
    ///
    /// # Errors
    /// As [`Row::time`]; and as [`Row::range`].
    pub fn interval(&self, low: &str, high: &str) -> Result<Option<(f64, f64)>> {
        self.time(low)?;
        self.time(high)?;
        self.range(low, high)
    }

    /// Both ends of an interval, or neither.
    ///
    /// # Errors
    /// As [`Row::finite`]; and one end alone, or ends in the wrong order.
    pub fn range(&self, low: &str, high: &str) -> Result<Option<(f64, f64)>> {
        match (self.finite(low)?, self.finite(high)?) {
            (Some(a), Some(b)) if a <= b => Ok(Some((a, b))),
            (None, None) => Ok(None),
            _ => Err(self.bad(high, &format!("is no upper end of an interval beside `{low}`"))),
        }
    }

    /// Refuses a derived column that contradicts the ones it comes from. The tolerance allows for rounding in the file.
    ///
    /// # Errors
    /// They contradict each other.
    pub fn agrees(&self, column: &str, stored: Option<f64>, computed: Option<f64>) -> Result<()> {
        match (stored, computed) {
            (Some(s), Some(c)) if (s - c).abs() > 1e-3 * (1.0 + c.abs()) => {
                Err(self.bad(column, &format!("contradicts its row, which gives {c}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, check: impl FnOnce(&Path, Result<Vec<Row>>)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claims.csv");
        std::fs::write(&path, text).unwrap();
        check(&path, read(&path, &["a", "b", "c"]));
    }

    #[test]
    fn fields_are_text_numbers_or_missing() {
        check("a,b,c\n\"x\ny\",-1.5,2\n,,\nz,nan,1\nz,3,2\nz,,2\n", |_, rows| {
            let rows = rows.unwrap();
            assert_eq!((rows[0].shown("a"), rows[0].range("b", "c").unwrap()), ("x\ny", Some((-1.5, 2.0))));
            assert_eq!((rows[1].shown("a"), rows[1].range("b", "c").unwrap()), ("", None));
            let error = rows[0].real("b", 0.0).unwrap_err().to_string();
            assert!(error.contains("value `-1.5` is not a finite number >= 0"), "{error}");
            // The quoted line break counts.
            let error = rows[2].finite("b").unwrap_err().to_string();
            assert!(error.contains("claims.csv, line 5, column `b`: value `nan`"), "{error}");
            for row in &rows[3..] {
                let error = row.range("b", "c").unwrap_err().to_string();
                assert!(error.contains("is no upper end of an interval beside `b`"), "{error}");
            }
        });
    }

    #[test]
    fn rows_and_columns_are_as_in_the_header() {
        check("a,b\n1,2\n", |_, rows| {
            let error = rows.err().unwrap().to_string();
            assert!(error.contains("claims.csv, line 1") && error.contains("missing columns [c]"), "{error}");
        });
        check("a,b,c\n1,2,3,4\n", |path, rows| {
            let error = format!("{:#}", rows.err().unwrap());
            assert!(error.contains(&path.display().to_string()), "{error}");
        });
        check("a,b,c\n", |_, rows| assert_eq!(rows.unwrap().len(), 0));
    }
}
