//! Writes CSV: numbers rounded to 9 decimals in their shortest form, a missing number as an empty field.

use std::fmt::Write as _;

use crate::grid::{Cell, Spread};
use crate::records::Backend;

/// A CSV text under construction. Fields are added in order; [`Csv::end`] closes a row.
pub struct Csv {
    out: String,
    columns: usize,
    fields: Vec<String>,
}

impl Csv {
    /// `header`: the column names, separated by spaces.
    pub fn new(header: &str) -> Csv {
        let columns: Vec<&str> = header.split_whitespace().collect();
        Csv { out: columns.join(",") + "\n", columns: columns.len(), fields: Vec::new() }
    }

    pub fn text(&mut self, value: &str) -> &mut Csv {
        let special = value.contains([',', '"', '\n', '\r']);
        let field = if special { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.to_owned() };
        self.fields.push(field);
        self
    }

    /// Nine decimals are far beyond any measurement and keep the dust of binary sums (`1.1199999999999999`)
    /// away.
    pub fn real(&mut self, value: Option<f64>) -> &mut Csv {
        // Above a million the ninth decimal does not exist in an f64.
        let rounded = |v: f64| if v.abs() < 1e6 { (v * 1e9).round() / 1e9 } else { v };
        self.fields.push(value.map(|v| rounded(v).to_string()).unwrap_or_default());
        self
    }

    pub fn count(&mut self, value: Option<u64>) -> &mut Csv {
        self.fields.push(value.map(|v| v.to_string()).unwrap_or_default());
        self
    }

    /// What a cell is made of: rows by status, overload, requests behind the p99 and whether they are too few.
    pub fn cell(&mut self, cell: &Cell) -> &mut Csv {
        for n in [cell.ok, cell.failed, cell.skipped] {
            self.count(Some(n as u64));
        }
        self.text(if cell.overloaded { "true" } else { "false" });
        self.count(cell.requests.map(|r| r.0)).count(cell.requests.map(|r| r.1));
        self.text(cell.requests.map_or("", |_| if cell.few() { "true" } else { "false" }))
    }

    /// A value with its extremes.
    pub fn spread(&mut self, spread: Option<Spread>) -> &mut Csv {
        self.real(spread.map(|s| s.value)).real(spread.map(|s| s.min)).real(spread.map(|s| s.max))
    }

    /// Ends the row. A row of the wrong length is a defect of the caller and is caught in tests.
    pub fn end(&mut self) {
        debug_assert_eq!(self.fields.len(), self.columns, "row and header differ in length");
        let _ = writeln!(self.out, "{}", self.fields.join(","));
        self.fields.clear();
    }

    pub fn finish(self) -> String {
        self.out
    }
}

/// A backend as the records name it.
pub fn backend(backend: Backend) -> &'static str {
    match backend {
        Backend::Sim => "sim",
        Backend::Gpu => "gpu",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_leave_no_dust() {
        let mut csv = Csv::new("a b c");
        csv.real(Some(0.1 + 0.2)).real(Some(1.0 / 3.0)).real(Some(1e15)).end();
        assert_eq!(csv.finish(), "a,b,c\n0.3,0.333333333,1000000000000000\n");
    }

    #[test]
    fn fields_are_quoted_and_missing_ones_empty() {
        let mut csv = Csv::new("a b c");
        csv.text("x, \"y\"").real(None).count(Some(3)).end();
        assert_eq!(csv.finish(), "a,b,c\n\"x, \"\"y\"\"\",,3\n");
    }
}
