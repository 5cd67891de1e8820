//! Errors of rows: each names the file, the physical line, the column and the text.

use std::fmt;

/// Errors that are kept in full; the rest are only counted. Twenty show the pattern, and a file of another format
/// would have millions.
pub const MAX_LISTED: usize = 20;
/// Characters of a bad text that are shown.
const MAX_SHOWN: usize = 80;

/// One bad row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// Physical line number, from 1.
    pub line: u64,
    /// Name of the column, as in the header.
    pub column: &'static str,
    /// What is wrong with it, to be read after the column's name.
    pub problem: String,
    /// The text found, shortened, with unprintable bytes escaped.
    pub text: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: column {} {}: \"{}\"", self.line, self.column, self.problem, self.text)
    }
}

/// A file with bad rows. Nothing of such a file is used, but the counts say how much of it was good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRows {
    pub file: String,
    /// All bad rows.
    pub total: u64,
    /// The first [`MAX_LISTED`] of them.
    pub listed: Vec<RowError>,
    /// Good rows whose start is 0 or later.
    pub kept: u64,
    /// Good rows whose start lies before the trace.
    pub left_out_before_start: u64,
}

impl std::error::Error for BadRows {}

impl fmt::Display for BadRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadRows { file, total, listed, kept, left_out_before_start } = self;
        let rows = if *total == 1 { "row" } else { "rows" };
        write!(f, "{file}: {total} bad {rows} ({kept} kept, {left_out_before_start} left out)")?;
        for error in listed {
            write!(f, "\n  {file}: {error}")?;
        }
        match total - listed.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Collects the errors of one file while it is read.
#[derive(Debug, Default)]
pub struct Errors {
    total: u64,
    listed: Vec<RowError>,
}

impl Errors {
    pub fn push(&mut self, line: u64, bad: Bad<'_>) {
        self.total += 1;
        if self.listed.len() < MAX_LISTED {
            let Bad { column, problem, text } = bad;
            self.listed.push(RowError { line, column, problem, text: shown(text) });
        }
    }

    /// `Ok` if there was none.
    pub fn finish(self, file: &str, kept: u64, left_out_before_start: u64) -> Result<(), BadRows> {
        let Errors { total, listed } = self;
        match total {
            0 => Ok(()),
            _ => Err(BadRows { file: file.to_owned(), total, listed, kept, left_out_before_start }),
        }
    }
}

/// What a row parser says about a bad field.
#[derive(Debug)]
pub struct Bad<'a> {
    pub column: &'static str,
    pub problem: String,
    pub text: &'a [u8],
}

/// Splits a row into exactly the fields that the header has, spaces kept.
///
/// # Errors
/// With too few fields it names the first column that is missing, with too many the last one of the header.
pub fn fields<'a, const N: usize>(
    row: &'a [u8],
    columns: &[&'static str; N],
) -> Result<[&'a [u8]; N], Bad<'a>> {
    let mut fields = [row; N];
    let mut found = 0;
    for field in row.split(|&b| b == b',') {
        if let Some(place) = fields.get_mut(found) {
            *place = field;
        }
        found += 1;
    }
    if found == N {
        return Ok(fields);
    }
    let what = if found < N { "is missing" } else { "is followed by more" };
    let problem = format!("{what} (the row has {found} fields, the header {N})");
    Err(Bad { column: columns[found.min(N - 1)], problem, text: row })
}

/// Text from a file in a form that is safe and short enough to print.
pub fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out: String = text.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        out.push_str("...");
    }
    out
}
