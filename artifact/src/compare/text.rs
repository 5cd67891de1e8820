//! The comparison for people, and as CSV.

use super::Side;
use super::changes::Change;
use super::interval::{CONFIDENCE, REPLICATES};
use super::rows::{Compared, Number, Verdict};
use crate::stats;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Rows shown that are not the same; the rest is counted, and in the CSV.
const SHOWN: usize = 60;

const COLUMNS: [&str; 22] = [
    "experiment",
    "kind",
    "system",
    "inference",
    "training",
    "load",
    "seed",
    "crowd",
    "key_a",
    "key_b",
    "cell_verdict",
    "reason",
    "number",
    "a",
    "a_low",
    "a_high",
    "b",
    "b_low",
    "b_high",
    "ratio_low",
    "ratio_high",
    "verdict",
];

/// One line per cell and number; a cell without numbers has one line.
///
/// # Errors
/// None that a caller can cause.
pub fn csv(rows: &[Compared]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for row in rows {
        let cell = &row.cell;
        let seed = cell.seed.to_string();
        let head = [
            &cell.experiment,
            &cell.kind,
            &cell.system,
            &cell.inference,
            &cell.training,
            &cell.load,
            &seed,
            &cell.crowd,
            &row.key_a,
            &row.key_b,
        ];
        let mut line = |number: Option<&Number>| {
            let mut fields: Vec<String> = head.map(String::clone).to_vec();
            fields.extend([row.verdict.name().to_owned(), row.reason.clone()]);
            fields.extend(match number {
                Some(number) => number_fields(number),
                None => vec![String::new(); COLUMNS.len() - fields.len()],
            });
            writer.write_record(fields)
        };
        if row.numbers.is_empty() {
            line(None)?;
        }
        for number in &row.numbers {
            line(Some(number))?;
        }
    }
    writer.into_inner().context("cannot finish the table")
}

fn number_fields(number: &Number) -> Vec<String> {
    let text = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let low = |interval: Option<(f64, f64)>| text(interval.map(|i| i.0));
    let high = |interval: Option<(f64, f64)>| text(interval.map(|i| i.1));
    vec![
        number.name.to_owned(),
        text(number.a),
        low(number.a_interval),
        high(number.a_interval),
        text(number.b),
        low(number.b_interval),
        high(number.b_interval),
        low(number.ratio_interval),
        high(number.ratio_interval),
        number.verdict.name().to_owned(),
    ]
}

/// The whole comparison for people; the last line is the verdict.
pub fn pretty(a: &Side, b: &Side, changes: &[Change], rows: &[Compared], rate_tolerance: f64) -> String {
    let mut text = format!("A: {}\nB: {}\n", a.folder.display(), b.folder.display());
    if changes.is_empty() {
        text += "what went into them: the same, as far as run.toml tells\n";
    } else {
        text += "what changed (A -> B):\n";
        for change in changes {
            let _ = writeln!(text, "  {:44} {} -> {}", change.what, short(&change.a), short(&change.b));
        }
    }
    let mut inputs: BTreeMap<&str, usize> = BTreeMap::new();
    for name in rows.iter().flat_map(|row| &row.inputs) {
        *inputs.entry(name).or_default() += 1;
    }
    if !inputs.is_empty() {
        let counted: Vec<String> = inputs.iter().map(|(name, n)| format!("{name} ({n})")).collect();
        let _ = writeln!(text, "  inputs of cells, with the number of cells: {}", counted.join(", "));
    }
    let other: Vec<&Compared> = rows.iter().filter(|row| row.verdict != Verdict::Same).collect();
    for row in other.iter().take(SHOWN) {
        let _ = write!(text, "{:12}  {}", row.verdict.name(), row.cell);
        let _ = writeln!(
            text,
            "{}",
            if row.reason.is_empty() { String::new() } else { format!(": {}", row.reason) }
        );
        for number in &row.numbers {
            let _ = writeln!(text, "                {}", line(number));
        }
        if row.overloaded {
            text += "                overloaded: its end-to-end times grow with the span, whatever their interval says\n";
        }
        let few = row.requests.0.min(row.requests.1);
        if few > 0 && !intervals::enough_for(few, 0.99) {
            let _ = writeln!(text, "                few requests for a p99: {few}");
        }
        if row.inputs.is_empty() && row.verdict != Verdict::NotCompared && !row.numbers.is_empty() {
            text += "                although all inputs of the cell are the same\n";
        }
    }
    if other.len() > SHOWN {
        let _ = writeln!(text, "and {} more; --csv FILE writes them all", other.len() - SHOWN);
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let sampled = rows.iter().filter(|row| row.verdict != Verdict::Same && !row.numbers.is_empty()).count();
    let _ = writeln!(
        text,
        "{} cells: {} same, {} within, {} different, {} not compared",
        rows.len(),
        count(Verdict::Same),
        count(Verdict::Within),
        count(Verdict::Differs),
        count(Verdict::NotCompared)
    );
    if sampled > 0 {
        let _ = writeln!(
            text,
            "intervals: {} %, moving-block bootstrap of the requests, {REPLICATES} draws, seeded by the samples; rates \
             have no samples and may be {} % apart. Of {sampled} cells with other samples a few in a hundred differ by \
             chance alone.",
            CONFIDENCE * 100.0,
            stats::round(rate_tolerance * 100.0, 3)
        );
    }
    let _ = writeln!(
        text,
        "verdict: {}",
        match verdict(rows) {
            Verdict::Same => "the same numbers",
            Verdict::Within => "other samples, all within their intervals",
            Verdict::NotCompared => "nothing to compare",
            Verdict::Differs => "DIFFERENT",
        }
    );
    text
}

/// Of the whole comparison. Cells without a result on either side count only when there is nothing else.
pub fn verdict(rows: &[Compared]) -> Verdict {
    let compared = rows.iter().map(|row| row.verdict).filter(|verdict| *verdict != Verdict::NotCompared);
    compared.max().unwrap_or(Verdict::NotCompared)
}

fn line(number: &Number) -> String {
    // Times in ms, rates as they are.
    let (name, scale, unit) = match number.name.strip_suffix("_ns") {
        Some(name) => (name, 1e6, " ms"),
        None => (number.name, 1.0, ""),
    };
    let shown = |x: f64| stats::round(x / scale, 4);
    let side = |value: Option<f64>, interval: Option<(f64, f64)>| {
        let interval = interval.map(|(low, high)| format!(" [{}, {}]", shown(low), shown(high)));
        value.map_or("none".to_owned(), |x| format!("{}{unit}{}", shown(x), interval.unwrap_or_default()))
    };
    let ratio = number.ratio().map(|ratio| {
        let interval = number.ratio_interval;
        let interval =
            interval.map(|(low, high)| format!(" [{}, {}]", stats::round(low, 4), stats::round(high, 4)));
        format!(", ratio {}{}", stats::round(ratio, 4), interval.unwrap_or_default())
    });
    format!(
        "{:7} {name}: {} -> {}{}",
        number.verdict.name(),
        side(number.a, number.a_interval),
        side(number.b, number.b_interval),
        ratio.unwrap_or_default()
    )
}

/// A digest by its beginning.
fn short(text: &str) -> &str {
    let is_digest = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_digest { &text[..12] } else { text }
}
