//! `<experiment>-series.csv`: a timeline cut into intervals, one row per interval and series. The columns are documented in
//! docs/FORMATS.md; their names are those of the fields of [`Row`].

use crate::cell::{Cell, Kind};
use crate::experiment::Intervals;
use crate::measures::Record;
use crate::plan::{Plan, Table};
use crate::stats;
use crate::store::{Store, Stored};
use crate::summary::Finished;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What follows the experiment's id in the file's name.
pub const SUFFIX: &str = "-series";

/// One interval of one series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub experiment: String,
    /// Of the cell.
    pub key: String,
    pub backend: String,
    pub machine: String,
    pub kind: String,
    pub system: String,
    pub inference: String,
    pub training: String,
    pub load: Option<f64>,
    pub seed: u64,
    pub trace: String,
    /// Which number, with its unit.
    pub series: String,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Arrivals, requests or iterations in the interval.
    pub n: u64,
    /// Empty where there is none.
    pub value: Option<f64>,
}

/// A number over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: &'static str,
    pub points: Vec<Point>,
}

/// A number of one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub start_ns: u64,
    pub end_ns: u64,
    pub n: u64,
    pub value: Option<f64>,
}

/// All rows of an experiment, in plan order. Cells without a result have none; the table of cells says why.
///
/// # Errors
/// A cell that was finished a moment ago cannot be read.
pub fn rows(
    plan: &Plan,
    table: &Table,
    intervals: &Intervals,
    finished: &[Finished],
    store: &Store,
    (backend, machine): (&str, &str),
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for planned in &table.rows {
        let cell = &plan.cells[planned.cell];
        let (Finished::Ok(measures), true) = (&finished[planned.cell], is_shown(cell)) else { continue };
        let key = &measures.key;
        let record = match store.read_key(key).with_context(|| format!("cell {key}"))? {
            Stored::Done(record) => record,
            _ => continue,
        };
        for Series { name, points } in of(cell, &record, intervals) {
            rows.extend(points.into_iter().map(|point| Row {
                experiment: table.experiment.id.clone(),
                key: key.clone(),
                backend: backend.to_owned(),
                machine: machine.to_owned(),
                kind: cell.kind.name().to_owned(),
                system: cell.system.clone(),
                inference: cell.inference.clone().unwrap_or_default(),
                training: cell.training.clone().unwrap_or_default(),
                load: cell.load.map(|load| load.ratio()),
                seed: cell.seed,
                trace: record.trace.clone().unwrap_or_default(),
                series: name.to_owned(),
                start_ns: point.start_ns,
                end_ns: point.end_ns,
                n: point.n,
                value: point.value,
            }));
        }
    }
    Ok(rows)
}

/// A closed loop is not on the timeline, and training alone makes the same progress all the time.
fn is_shown(cell: &Cell) -> bool {
    matches!(cell.kind, Kind::SoloPaced | Kind::Timeline)
}

/// The series of one cell.
fn of(cell: &Cell, record: &Record, intervals: &Intervals) -> Vec<Series> {
    let seconds = |s: u64| s * 1_000_000_000;
    let (span, latency) = (record.span_ns, seconds(intervals.latency_seconds));
    let mut series = Vec::new();
    if cell.kind == Kind::SoloPaced {
        // All cells replay the same list. It is taken from the one whose server keeps up best, so that the arrivals that
        // still wait at the end, of which there is no sample, are the fewest.
        let arrivals = record.requests.iter().map(|r| (r.arrival_ns, 0)).collect();
        let points = cut(arrivals, seconds(intervals.arrivals_seconds), span, rate);
        series.push(Series { name: "arrival_rate_hz", points });
    }
    let service = record.requests.iter().map(|r| (r.end_ns, r.end_ns - r.start_ns)).collect();
    series.push(Series { name: "service_p99_ns", points: cut(service, latency, span, p99) });
    let end_to_end = record.requests.iter().map(|r| (r.end_ns, r.end_ns - r.arrival_ns)).collect();
    series.push(Series { name: "e2e_p99_ns", points: cut(end_to_end, latency, span, p99) });
    if cell.kind == Kind::Timeline {
        let ends = record.iteration_ends.iter().map(|&end| (end, 0)).collect();
        let points = cut(ends, seconds(intervals.progress_seconds), span, rate);
        series.push(Series { name: "be_rate_hz", points });
    }
    series
}

/// Cuts the span into intervals of this length, the last one shorter if need be; a sample belongs to the interval that its
/// time lies in. What lies at or beyond the end of the span is left out.
fn cut(
    samples: Vec<(u64, u64)>,
    length_ns: u64,
    span_ns: u64,
    number: fn(&[u64], u64) -> Option<f64>,
) -> Vec<Point> {
    let mut values: Vec<Vec<u64>> = vec![Vec::new(); span_ns.div_ceil(length_ns) as usize];
    for (at, value) in samples {
        if at < span_ns {
            values[(at / length_ns) as usize].push(value);
        }
    }
    let point = |(k, mut values): (usize, Vec<u64>)| {
        let start_ns = k as u64 * length_ns;
        let end_ns = (start_ns + length_ns).min(span_ns);
        values.sort_unstable();
        Point { start_ns, end_ns, n: values.len() as u64, value: number(&values, end_ns - start_ns) }
    };
    values.into_iter().enumerate().map(point).collect()
}

/// How many per second: 0 where nothing happened.
fn rate(sorted: &[u64], length_ns: u64) -> Option<f64> {
    Some(sorted.len() as f64 * 1e9 / length_ns as f64)
}

/// Without requests there is none.
fn p99(sorted: &[u64], _length_ns: u64) -> Option<f64> {
    (!sorted.is_empty()).then(|| stats::percentile(sorted, 0.99))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Span;
    use sim::Request;

    const S: u64 = 1_000_000_000;

    fn record() -> Record {
        // Two requests in the first 10 s, none in the second, one in the third.
        let times = [(S, S, S + 5), (3 * S, 3 * S + 10, 3 * S + 25), (21 * S, 22 * S, 22 * S + 7)];
        let request = |(arrival_ns, start_ns, end_ns)| Request { arrival_ns, start_ns, end_ns };
        Record {
            trace: Some("by hand".to_owned()),
            span_ns: 30 * S,
            end_ns: 30 * S,
            arrivals: 3,
            requests: times.map(request).to_vec(),
            best_effort: None,
            peers: Vec::new(),
            iteration_ends: vec![4 * S, 8 * S, 12 * S, 29 * S, 30 * S],
            runtime: None,
        }
    }

    fn cell(kind: Kind) -> Cell {
        Cell {
            kind,
            system: "mps".to_owned(),
            inference: Some("a".to_owned()),
            training: Some("t".to_owned()),
            load: None,
            source: None,
            seed: 1,
            span: Span { min_seconds: 30, min_requests: 1 },
            base: Span { min_seconds: 30, min_requests: 1 },
        }
    }

    fn values(series: &[Series], name: &str) -> Vec<(u64, Option<f64>)> {
        let found = series.iter().find(|s| s.name == name).unwrap();
        found.points.iter().map(|point| (point.n, point.value)).collect()
    }

    const INTERVALS: Intervals =
        Intervals { arrivals_seconds: 10, latency_seconds: 10, progress_seconds: 15 };

    #[test]
    fn intervals_by_hand() {
        let series = of(&cell(Kind::Timeline), &record(), &INTERVALS);
        // 0.99 of the way from 5 to 15 ns; an interval without requests has no percentile.
        let service = [(2, Some(14.9)), (0, None), (1, Some(7.0))];
        assert_eq!(values(&series, "service_p99_ns"), service);
        let e2e = [(2, Some(5.0 + 0.99 * 20.0)), (0, None), (1, Some(S as f64 + 7.0))];
        assert_eq!(values(&series, "e2e_p99_ns"), e2e);
        // The iteration that ends with the span belongs to no interval.
        assert_eq!(values(&series, "be_rate_hz"), [(3, Some(0.2)), (1, Some(1.0 / 15.0))]);
        assert!(series.iter().all(|s| s.name != "arrival_rate_hz"));
    }

    #[test]
    fn an_interval_without_arrivals_has_the_rate_0() {
        let series = of(&cell(Kind::SoloPaced), &record(), &INTERVALS);
        assert_eq!(values(&series, "arrival_rate_hz"), [(2, Some(0.2)), (0, Some(0.0)), (1, Some(0.1))]);
        assert!(series.iter().all(|s| s.name != "be_rate_hz"));
        let points = cut(vec![(24, 0)], 10, 25, rate);
        assert_eq!(points[2], Point { start_ns: 20, end_ns: 25, n: 1, value: Some(2e8) });
    }
}
