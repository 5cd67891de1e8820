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
    if record.evidence == "measured" { &record.measured_verdict } else { &record.simulated_verdict }
}

fn single(record: &Record) -> String {
    // Adding zero makes a negative zero positive.
    let shown = |value: Option<f64>| value.map_or("?".to_owned(), |v| (stats::round(v, 3) + 0.0).to_string());
    let verdict = verdict(record);
    let (value, n) = (shown(record.value), record.n);
    if n < record.pairs_needed {
        return too_few(record);
    }
    let interval = match record.low.zip(record.high) {
        Some((low, high)) => format!(" ({} to {})", shown(Some(low)), shown(Some(high))),
        None => String::new(),
    };
    let accepted = format!("{} to {}", shown(record.band_low), shown(record.band_high));
    let why = if record.why.is_empty() { String::new() } else { format!("; {}", record.why) };
    format!("{verdict}, {value}{interval} over {n} pairs, accepted {accepted}{why}")
}

fn too_few(record: &Record) -> String {
    match record.n {
        0 => verdict(record).to_owned(),
        _ => format!("{}, {}", verdict(record), record.why),
    }
}

fn order(records: &[&Record]) -> String {
    if let [first, ..] = records
        && records.iter().all(|record| record.n < record.pairs_needed)
    {
        return too_few(first);
    }
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
    let in_pairs = |record: &&Record| {
        let below = record.below.filter(|_| record.n > 0)?;
        let system = if record.relation == Relation::Ascending { record.system.as_str() } else { "" };
        // Which comparisons are the ones that do not hold.
        let not = if record.why.is_empty() && !verdict(record).starts_with("missed") {
            String::new()
        } else {
            format!(" ({})", verdict(record))
        };
        Some(format!("{system} < {} in {below} of {}{not}", record.other, record.n).trim_start().to_owned())
    };
    let pairs: Vec<String> = records.iter().filter_map(in_pairs).collect();
    format!("{}; {}", counts.join(", "), pairs.join(", "))
}
