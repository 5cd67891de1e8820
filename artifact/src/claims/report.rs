//! The claims as `reproduce` prints them: one line each, orders with what became of their comparisons.

use super::record::Record;
use super::{Claim, Relation};
use crate::stats;

/// One line per claim. `records` are of these claims, in their order.
pub fn report(claims: &[Claim], records: &[Record]) -> String {
    let mut lines = String::new();
    for claim in claims {
        let own: Vec<&Record> = records.iter().filter(|record| record.claim == claim.id).collect();
        let line = match own.as_slice() {
            [one] => single(one),
            several => order(several),
        };
        lines += &format!("  {line}: {}: {}\n", claim.id, claim.text);
    }
    lines
}

/// The verdict by the evidence that there is.
fn verdict(record: &Record) -> &str {
    if record.evidence == "measured" { &record.measured } else { &record.simulated }
}

fn single(record: &Record) -> String {
    // Adding zero makes a negative zero positive.
    let shown = |value: Option<f64>| value.map_or("?".to_owned(), |v| (stats::round(v, 3) + 0.0).to_string());
    let Some(value) = record.value.map(|value| shown(Some(value))) else {
        return verdict(record).to_owned();
    };
    let accepted = format!("accepted {} to {}", shown(record.band_low), shown(record.band_high));
    let interval = match record.low.zip(record.high) {
        Some((low, high)) => format!(" ({} to {})", shown(Some(low)), shown(Some(high))),
        None => String::new(),
    };
    let why = if record.why.is_empty() { String::new() } else { format!("; {}", record.why) };
    format!("{}, {value}{interval} of {} pairs, {accepted}{why}", verdict(record), record.n)
}

fn order(records: &[&Record]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for record in records {
        let words = verdict(record);
        match counts.iter_mut().find(|(known, _)| *known == words) {
            Some((_, n)) => *n += 1,
            None => counts.push((words, 1)),
        }
    }
    let counts: Vec<String> =
        counts.iter().map(|(words, n)| format!("{words} ({n} of {})", records.len())).collect();
    let against = |record: &&&Record| {
        let below = record.below?;
        let other = if record.relation == Relation::Ascending {
            format!("{} < {}", record.system, record.other)
        } else {
            record.other.clone()
        };
        Some(format!("{other} in {below} of {}", record.n))
    };
    let pairs: Vec<String> =
        records.iter().filter(|r| r.n > 0).collect::<Vec<_>>().iter().filter_map(against).collect();
    if pairs.is_empty() { counts.join(", ") } else { format!("{} [{}]", counts.join(", "), pairs.join(", ")) }
}
