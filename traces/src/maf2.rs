//! Reader of the Azure Functions Invocation Trace 2021 ("MAF2"): `app,func,end_timestamp,duration`, in seconds from
//! the beginning of the trace, one row per invocation.
//!
//! Rules:
//! - A function is a pair (app, func), compared byte by byte. An invocation arrives at end - duration, computed exactly from the decimal text
//!   and rounded once to a nanosecond ([`Seconds::minus_ns`]).
//! - No order of rows is assumed. Starts are sorted; within one function two equal starts are the same number, so
//!   the order by row that ties would keep can't be seen. Equal starts are two requests; zero durations count.
//! - A start below 0 means "running when the trace began": not an arrival, left out and counted.
//! - Equal rows (function, duration and start to the nanosecond) are separate invocations. How many repeat an earlier
//!   row is counted.
//! - A row that can't be used fails the whole file ([`BadRows`]), after all of it was read.
//!
//! Memory: while reading, two integers per row; afterwards one per kept arrival, and the ids once each.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::decimal::{Problem, Seconds};
use crate::lines::Lines;
use crate::rows::{self, Bad, BadRows, Errors};

/// Columns of the file, in its order.
pub const COLUMNS: [&str; 4] = ["app", "func", "end_timestamp", "duration"];
/// Nanoseconds in a day of the trace.
pub const DAY_NS: u64 = 86_400 * 1_000_000_000;

/// All arrivals of a trace, by function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In the order of their first rows.
    pub functions: Vec<Function>,
    pub report: Report,
}

/// One function and its arrivals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub app: String,
    pub func: String,
    /// All its rows, those left out included.
    pub rows: u64,
    /// Arrivals in nanoseconds from the beginning of the trace, ascending.
    pub starts_ns: Vec<u64>,
}

/// What a file held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub file: String,
    pub rows: u64,
    /// Rows that became arrivals.
    pub kept: u64,
    /// Rows whose start lies before the trace.
    pub left_out_before_start: u64,
    /// Rows equal to an earlier one (they are kept).
    pub exact_repeats: u64,
    pub apps: usize,
    pub functions: usize,
    /// Size of the file.
    pub bytes: u64,
    /// FNV-1a checksum of the file.
    pub fnv1a64: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeats = if self.exact_repeats == 1 { "repeat" } else { "repeats" };
        write!(f, "{} rows of {} functions in {} apps: ", self.rows, self.functions, self.apps)?;
        write!(f, "{} kept, {} left out ", self.kept, self.left_out_before_start)?;
        write!(f, "(running when the trace began), {} exact {repeats}", self.exact_repeats)
    }
}

impl Trace {
    /// The function with the most rows; of several, the one whose first row comes first. `None` without rows.
    ///
    /// All rows count, also those left out and those outside of a window used later: tally-bench selects on the
    /// whole file before it looks at times. (It counts per `func` alone; in the trace no `func` has two apps as far
    /// as we could check, in the first 998 rows.)
    pub fn most_frequent(&self) -> Option<&Function> {
        let most = self.functions.iter().map(|f| f.rows).max()?;
        self.functions.iter().find(|f| f.rows == most)
    }

    /// Arrivals of all functions together in nanoseconds from the beginning of the trace, ascending. Equal ones are
    /// kept.
    pub fn all_starts_ns(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.functions.iter().flat_map(|f| &f.starts_ns).copied().collect();
        all.sort_unstable();
        all
    }
}

impl Function {
    /// Arrivals in days `[from, to)` of the trace, counted from 0.
    pub fn window(&self, from_day: u32, to_day: u32) -> &[u64] {
        let place = |day: u32| self.starts_ns.partition_point(|&s| s < u64::from(day) * DAY_NS);
        &self.starts_ns[place(from_day)..place(to_day).max(place(from_day))]
    }
}

/// Reads a file. See [`read`].
pub fn read_path(path: &Path) -> Result<Trace> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("can't open the trace {name}"))?;
    read(&name, BufReader::with_capacity(1 << 20, file))
}

/// Reads a trace; `name` is used in messages and in the report.
///
/// # Errors
/// A header that is not [`COLUMNS`], a failing reader, or [`BadRows`] (to be found by `downcast_ref`).
pub fn read(name: &str, reader: impl BufRead) -> Result<Trace> {
    let mut lines = Lines::new(reader);
    let reading = || format!("can't read {name}");
    let (number, header) =
        lines.next_line().with_context(reading)?.with_context(|| format!("{name} is empty"))?;
    check_header(header).with_context(|| format!("{name}: line {number}"))?;

    let mut table = Table::default();
    let mut errors = Errors::default();
    while let Some((number, line)) = lines.next_line().with_context(reading)? {
        if let Err(bad) = table.add(line) {
            errors.push(number, bad);
        }
    }
    let (bytes, fnv1a64) = (lines.bytes(), lines.checksum());
    table.finish(name, errors, bytes, fnv1a64).map_err(anyhow::Error::new)
}

fn check_header(header: &[u8]) -> Result<()> {
    if header.starts_with(b"HashOwner") {
        bail!(
            "this is the Azure Functions 2019 format (aggregates per function, header HashOwner,HashApp,...); only the \
             2021 format (one row per invocation, header {}) is read",
            COLUMNS.join(",")
        );
    }
    ensure!(!header.starts_with(b"Rar!"), "this is the RAR archive; unpack it and give the .txt");
    let found: Vec<&[u8]> = header.split(|&b| b == b',').map(<[u8]>::trim_ascii).collect();
    let expected = COLUMNS.map(str::as_bytes);
    ensure!(found == expected, "the header is \"{}\" instead of {}", rows::shown(header), COLUMNS.join(","));
    Ok(())
}

/// Rows read so far.
#[derive(Default)]
struct Table {
    /// By the text `app,func`, which needs no allocation to look up.
    index: HashMap<Box<[u8]>, usize>,
    apps: HashSet<String>,
    functions: Vec<Rows>,
}

/// (start, duration) in nanoseconds of each row of a function.
struct Rows {
    app: String,
    func: String,
    rows: Vec<(i64, i64)>,
}

impl Table {
    fn add<'a>(&mut self, line: &'a [u8]) -> Result<(), Bad<'a>> {
        let [app, func, end, duration] = rows::fields(line, &COLUMNS)?;
        let (end, duration) = (end.trim_ascii(), duration.trim_ascii());
        for (column, text) in [(COLUMNS[0], app), (COLUMNS[1], func)] {
            if text.is_empty() {
                return Err(Bad { column, problem: Problem::Empty.to_string(), text });
            }
        }
        let bad = |column, text| move |problem: Problem| Bad { column, problem: problem.to_string(), text };
        let end = Seconds::parse(end).map_err(bad(COLUMNS[2], end))?;
        let length = Seconds::parse_non_negative(duration).map_err(bad(COLUMNS[3], duration))?;
        let zero = Seconds::default();
        let row = (end.minus_ns(length), length.minus_ns(zero));

        // The two ids as they stand in the line, with the comma between them.
        let key = &line[..app.len() + 1 + func.len()];
        match self.index.get(key) {
            Some(&i) => self.functions[i].rows.push(row),
            None => {
                let [app, func] = [app, func].map(|id| String::from_utf8_lossy(id).into_owned());
                self.apps.insert(app.clone());
                self.index.insert(key.into(), self.functions.len());
                self.functions.push(Rows { app, func, rows: vec![row] });
            }
        }
        Ok(())
    }

    fn finish(self, file: &str, errors: Errors, bytes: u64, fnv1a64: u64) -> Result<Trace, BadRows> {
        let mut report = Report {
            file: file.to_owned(),
            rows: 0,
            kept: 0,
            left_out_before_start: 0,
            exact_repeats: 0,
            apps: self.apps.len(),
            functions: self.functions.len(),
            bytes,
            fnv1a64,
        };
        // Consumed one by one, so that each function's rows are freed before the next is sorted.
        let finish = |function: Rows| {
            let Rows { app, func, mut rows } = function;
            rows.sort_unstable();
            let before = rows.partition_point(|&(start, _)| start < 0);
            report.rows += rows.len() as u64;
            report.kept += (rows.len() - before) as u64;
            report.left_out_before_start += before as u64;
            report.exact_repeats += rows.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
            let starts_ns = rows[before..].iter().map(|&(start, _)| start as u64).collect();
            Function { app, func, rows: rows.len() as u64, starts_ns }
        };
        let functions = self.functions.into_iter().map(finish).collect();
        errors.finish(file, report.kept, report.left_out_before_start)?;
        Ok(Trace { functions, report })
    }
}
