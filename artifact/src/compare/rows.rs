//! The cells of two runs, one by one.

use super::interval::{self, Drawn};
use super::{Identity, Side};
use crate::key::Inputs;
use crate::library::one_line;
use crate::measures::{Measures, Record};
use crate::store::{self, Stored};
use crate::summary::Row;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// What a comparison says, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Every sample and every count.
    Same,
    /// Other samples, but no number is further apart than its interval allows.
    Within,
    /// There is no result to compare on either side.
    NotCompared,
    Differs,
}

impl Verdict {
    /// As in the column `verdict`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Within => "within",
            Verdict::NotCompared => "not-compared",
            Verdict::Differs => "differs",
        }
    }
}

/// One number of a cell on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// With its unit, like a column of the table.
    pub name: &'static str,
    pub a: Option<f64>,
    pub b: Option<f64>,
    pub a_interval: Option<(f64, f64)>,
    pub b_interval: Option<(f64, f64)>,
    /// Of B over A.
    pub ratio_interval: Option<(f64, f64)>,
    pub verdict: Verdict,
}

impl Number {
    /// B over A.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.b? / self.a.filter(|a| *a > 0.0)?)
    }
}

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub cell: Identity,
    pub key_a: String,
    pub key_b: String,
    pub verdict: Verdict,
    /// What decided, where it is not a number.
    pub reason: String,
    /// Names of the cell's inputs that are not the same.
    pub inputs: Vec<String>,
    pub requests: (u64, u64),
    /// On either side: end-to-end times then grow with the span, and an interval says little.
    pub overloaded: bool,
    pub numbers: Vec<Number>,
}

/// Compares all cells of both sides, in their order. A cell that several experiments share is compared once.
pub fn all(a: &Side, b: &Side, rate_tolerance: f64) -> Vec<Compared> {
    let cells: BTreeSet<&Identity> = a.rows.keys().chain(b.rows.keys()).collect();
    let mut seen = BTreeSet::new();
    let mut is_new = |cell: &&Identity| match (a.rows.get(*cell), b.rows.get(*cell)) {
        (Some(a), Some(b)) if !a.key.is_empty() && !b.key.is_empty() => seen.insert((&a.key, &b.key)),
        _ => true,
    };
    let cells: Vec<&Identity> = cells.into_iter().filter(|cell| is_new(cell)).collect();
    cells.into_par_iter().map(|cell| one(a, b, cell, rate_tolerance)).collect()
}

fn one(a: &Side, b: &Side, cell: &Identity, rate_tolerance: f64) -> Compared {
    let (row_a, row_b) = (a.rows.get(cell), b.rows.get(cell));
    let key = |row: Option<&Row>| row.map(|row| row.key.clone()).unwrap_or_default();
    let mut compared = Compared {
        cell: cell.clone(),
        key_a: key(row_a),
        key_b: key(row_b),
        verdict: Verdict::Differs,
        reason: String::new(),
        inputs: Vec::new(),
        requests: (0, 0),
        overloaded: false,
        numbers: Vec::new(),
    };
    let (row_a, row_b) = match (row_a, row_b) {
        (Some(a), Some(b)) => (a, b),
        (a, _) => {
            compared.reason = format!("only in {}", if a.is_some() { "A" } else { "B" });
            return compared;
        }
    };
    if row_a.status != "ok" || row_b.status != "ok" {
        if row_a.status == row_b.status {
            compared.verdict = Verdict::NotCompared;
        }
        let said = |row: &Row| match row.error.as_str() {
            "" => row.status.clone(),
            error => format!("{} ({error})", row.status),
        };
        compared.reason = format!("A {}, B {}", said(row_a), said(row_b));
        return compared;
    }
    match (record(a, &row_a.key), record(b, &row_b.key)) {
        (Ok(a), Ok(b)) => compare(&mut compared, a, b, rate_tolerance),
        (a, b) => {
            let why =
                |name: &str, side: Result<_, String>| side.err().map(|error| format!("{name}: {error}"));
            compared.reason = [why("A", a), why("B", b)].into_iter().flatten().collect::<Vec<_>>().join("; ");
        }
    }
    compared
}

fn record(side: &Side, key: &str) -> Result<(Inputs, Record), String> {
    match store::read_any(&side.folder.join("cells").join(key)) {
        Ok((inputs, Stored::Done(record))) => Ok((inputs, record)),
        Ok(_) => Err("the table has a result, the cell has none".to_owned()),
        Err(error) => Err(one_line(&error)),
    }
}

fn compare(compared: &mut Compared, a: (Inputs, Record), b: (Inputs, Record), rate_tolerance: f64) {
    let ((inputs_a, a), (inputs_b, b)) = (a, b);
    let names: BTreeSet<&String> = inputs_a.map().keys().chain(inputs_b.map().keys()).collect();
    let differs = |name: &&&String| inputs_a.map().get(**name) != inputs_b.map().get(**name);
    compared.inputs = names.iter().filter(differs).map(|name| (*name).clone()).collect();
    compared.requests = (a.requests.len() as u64, b.requests.len() as u64);
    let paced = matches!(compared.cell.kind.as_str(), "pair" | "solo-paced" | "timeline" | "crowd");
    let of = |record: &Record| Measures::of(String::new(), record, paced);
    let measures = (of(&a), of(&b));
    compared.overloaded = [&measures.0, &measures.1].iter().any(|m| m.overloaded == Some(true));
    // The label of the arrivals is no number.
    let same = a.requests == b.requests
        && a.best_effort == b.best_effort
        && (&a.peers, &a.iteration_ends) == (&b.peers, &b.iteration_ends)
        && (a.span_ns, a.end_ns, a.arrivals) == (b.span_ns, b.end_ns, b.arrivals);
    let drawn = |times: fn(&sim::Request) -> u64| {
        let of = |record: &Record, stream| {
            let times: Vec<u64> = record.requests.iter().map(times).collect();
            if same { Vec::new() } else { interval::replicates(&times, stream) }
        };
        (of(&a, 0), of(&b, 1))
    };
    let service = drawn(|r| r.end_ns - r.start_ns);
    let summary = |m: &Measures| m.service_ns;
    let (sa, sb) = (summary(&measures.0), summary(&measures.1));
    let p99 = |drawn: &Drawn| drawn.p99;
    let mean = |drawn: &Drawn| drawn.mean;
    let mut numbers = vec![
        sampled("service_p99_ns", sa.map(|s| s.p99), sb.map(|s| s.p99), &service, p99),
        sampled("service_mean_ns", sa.map(|s| s.mean), sb.map(|s| s.mean), &service, mean),
    ];
    if paced {
        let (ea, eb) = (measures.0.end_to_end_ns, measures.1.end_to_end_ns);
        let end_to_end = drawn(|r| r.end_ns - r.arrival_ns);
        numbers.push(sampled("e2e_p99_ns", ea.map(|s| s.p99), eb.map(|s| s.p99), &end_to_end, p99));
        numbers.push(rate("hp_rate_hz", measures.0.hp_rate_hz, measures.1.hp_rate_hz, rate_tolerance));
    }
    numbers.push(rate("be_rate_hz", measures.0.be_rate_hz, measures.1.be_rate_hz, rate_tolerance));
    numbers.retain(|number| number.a.is_some() || number.b.is_some());
    let worst = numbers.iter().map(|number| number.verdict).max().unwrap_or(Verdict::Same);
    compared.verdict = if same { Verdict::Same } else { worst.max(Verdict::Within) };
    compared.numbers = numbers;
    if compared.verdict == Verdict::Differs {
        let names = compared.numbers.iter().filter(|n| n.verdict == Verdict::Differs).map(|n| n.name);
        compared.reason = names.collect::<Vec<_>>().join(", ");
    }
}

/// A number of samples: it differs when the interval of the ratio does not hold 1.
fn sampled(
    name: &'static str,
    a: Option<f64>,
    b: Option<f64>,
    drawn: &(Vec<Drawn>, Vec<Drawn>),
    of: fn(&Drawn) -> f64,
) -> Number {
    let numbers = |side: &[Drawn]| interval::ends(side.iter().map(of).collect(), interval::CONFIDENCE);
    let ratios = drawn.0.iter().zip(&drawn.1).map(|(a, b)| of(b) / of(a)).collect();
    let ratio_interval = interval::ends(ratios, interval::CONFIDENCE);
    let verdict = match (a, b, ratio_interval) {
        (a, b, _) if a == b => Verdict::Same,
        (Some(_), Some(_), Some((low, high))) if low <= 1.0 && 1.0 <= high => Verdict::Within,
        _ => Verdict::Differs,
    };
    Number {
        name,
        a,
        b,
        a_interval: numbers(&drawn.0),
        b_interval: numbers(&drawn.1),
        ratio_interval,
        verdict,
    }
}

/// A rate, of which one run holds no samples: it differs when it is further apart than the tolerance.
fn rate(name: &'static str, a: Option<f64>, b: Option<f64>, tolerance: f64) -> Number {
    let verdict = match (a, b) {
        (a, b) if a == b => Verdict::Same,
        (Some(a), Some(b)) if (b - a).abs() <= tolerance * a => Verdict::Within,
        _ => Verdict::Differs,
    };
    Number { name, a, b, a_interval: None, b_interval: None, ratio_interval: None, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_tolerance() {
        let verdict = |a, b| rate("be_rate_hz", a, b, 0.02).verdict;
        assert_eq!(verdict(Some(100.0), Some(100.0)), Verdict::Same);
        assert_eq!(verdict(Some(100.0), Some(101.9)), Verdict::Within);
        assert_eq!(verdict(Some(100.0), Some(97.9)), Verdict::Differs);
        assert_eq!(verdict(Some(100.0), None), Verdict::Differs);
        assert_eq!(verdict(None, None), Verdict::Same);
    }

    #[test]
    fn an_interval_around_one_is_no_difference() {
        let side =
            |p99: f64| (0..1000).map(|k| Drawn { mean: 1.0, p99: p99 + f64::from(k) / 1000.0 }).collect();
        let verdict = |b| sampled("x", Some(10.5), Some(b + 0.5), &(side(10.0), side(b)), |d| d.p99).verdict;
        assert_eq!((verdict(10.0), verdict(12.0)), (Verdict::Same, Verdict::Differs));
        let apart = sampled("x", Some(1.0), Some(2.0), &(Vec::new(), Vec::new()), |d| d.p99);
        assert_eq!(apart.verdict, Verdict::Differs);
    }
}
