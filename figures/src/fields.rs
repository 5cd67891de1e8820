//! A record with any columns, as text: for tables that show what others have calculated.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// A CSV file; every row has as many fields as the header.
#[derive(Clone, Debug)]
pub struct Fields {
    path: PathBuf,
    header: Vec<String>,
    /// With the line that each begins in.
    rows: Vec<(u64, Vec<String>)>,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    of: &'a Fields,
    line: u64,
    fields: &'a [String],
}

impl Fields {
    /// Reads the text of the file at `path`, which is named in messages.
    ///
    /// # Errors
    /// A row has another number of fields than the header, by line.
    pub fn parse(text: &str, path: &Path) -> Result<Fields> {
        let bad = || format!("{} is not a table; next: run `cargo xtask reproduce` again", path.display());
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let owned = |record: &::csv::StringRecord| record.iter().map(str::to_owned).collect::<Vec<_>>();
        let header = owned(reader.headers().with_context(bad)?);
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.with_context(bad)?;
            rows.push((record.position().map_or(0, ::csv::Position::line), owned(&record)));
        }
        Ok(Fields { path: path.to_path_buf(), header, rows })
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, fields)| Row { of: self, line: *line, fields })
    }
}

impl<'a> Row<'a> {
    /// The text of a column; empty for a missing value.
    ///
    /// # Errors
    /// There is no such column.
    pub fn text(&self, column: &str) -> Result<&'a str> {
        let at = self.of.header.iter().position(|name| name == column);
        at.and_then(|at| self.fields.get(at)).map(String::as_str).ok_or_else(|| {
            anyhow!(
                "{}: no column `{column}`; next: run `cargo xtask reproduce` again with this version",
                self.of.path.display()
            )
        })
    }

    /// A number; `None` for an empty field.
    ///
    /// # Errors
    /// There is no such column, or its value is no finite number.
    pub fn real(&self, column: &str) -> Result<Option<f64>> {
        let text = self.text(column)?;
        let finite = |value: &f64| value.is_finite();
        match text.parse().ok().filter(finite) {
            _ if text.is_empty() => Ok(None),
            Some(value) => Ok(Some(value)),
            None => Err(anyhow!(
                "{}, line {}, column `{column}`: value `{text}` is not a finite number; next: see docs/FORMATS.md",
                self.of.path.display(),
                self.line
            )),
        }
    }

    /// Two numbers, or neither.
    ///
    /// # Errors
    /// As [`Row::real`].
    pub fn range(&self, low: &str, high: &str) -> Result<Option<(f64, f64)>> {
        Ok(self.real(low)?.zip(self.real(high)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_name_line_column_and_value() {
        let parse = |text: &str| Fields::parse(text, Path::new("claims.csv"));
        let fields = parse("a,b\n\"x\ny\",1.5\n,\nz,nan\n").unwrap();
        let rows: Vec<Row> = fields.rows().collect();
        assert_eq!((rows[0].text("a").unwrap(), rows[0].real("b").unwrap()), ("x\ny", Some(1.5)));
        assert_eq!((rows[1].text("a").unwrap(), rows[1].real("b").unwrap()), ("", None));
        let error = rows[2].real("b").unwrap_err().to_string();
        assert!(error.contains("claims.csv, line 5, column `b`: value `nan`"), "{error}");
        assert!(rows[0].text("c").unwrap_err().to_string().contains("no column `c`"));
        assert!(format!("{:#}", parse("a,b\n1\n").unwrap_err()).contains("line: 2"));
    }
}
