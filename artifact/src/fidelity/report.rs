//! The records of `cargo xtask fidelity`: tables as CSV, and the same as Markdown for people.

use crate::fidelity::score::{Pair, Score};
use crate::fidelity::sensitivity::Line;
use anyhow::{Context, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// `fidelity-pairs.csv`: one known pair beside its simulation.
#[derive(Clone, Debug, Serialize)]
struct PairRow<'a> {
    source: &'a str,
    run: u32,
    profiles: &'a str,
    system: &'a str,
    simulated_system: &'a str,
    role: &'a str,
    inference: &'a str,
    training: &'a str,
    load: f64,
    seed: Option<u64>,
    known_slowdown: f64,
    simulated_slowdown: Option<f64>,
    null_slowdown: Option<f64>,
    log_ratio: Option<f64>,
    null_log_ratio: Option<f64>,
    known_be_norm: Option<f64>,
    simulated_be_norm: Option<f64>,
}

/// Any of the tables as CSV.
///
/// # Errors
/// None that a caller can cause.
pub fn csv<T: Serialize>(rows: &[T]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    rows.iter().try_for_each(|row| writer.serialize(row))?;
    writer.into_inner().context("cannot finish the table")
}

/// The pairs as CSV.
///
/// # Errors
/// None that a caller can cause.
pub fn pairs_csv(pairs: &[Pair]) -> Result<Vec<u8>> {
    csv(&pairs.iter().map(pair_row).collect::<Vec<_>>())
}

fn pair_row(pair: &Pair) -> PairRow<'_> {
    PairRow {
        source: pair.truth.source.name(),
        run: pair.truth.run,
        profiles: &pair.profiles,
        system: &pair.truth.system,
        simulated_system: &pair.simulated_system,
        role: pair.role.name(),
        inference: &pair.truth.inference,
        training: &pair.truth.training,
        load: pair.truth.load.ratio(),
        seed: pair.truth.seed,
        known_slowdown: pair.truth.slowdown,
        simulated_slowdown: pair.simulated,
        null_slowdown: pair.null,
        log_ratio: pair.log_ratio(),
        null_log_ratio: pair.null_log_ratio(),
        known_be_norm: pair.truth.be_norm,
        simulated_be_norm: pair.simulated_be,
    }
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map(|v| format!("{v:.decimals$}")).unwrap_or_default()
}

fn percent(value: Option<f64>) -> String {
    value.map(|v| format!("{:.1} %", v * 100.0)).unwrap_or_default()
}

/// The scores as a Markdown table.
pub fn scores(scores: &[Score]) -> String {
    let mut text = "| source | profiles | system | role | pairs | error | null | error / null | overhead sim | known | \
                    BE difference |\n| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for s in scores.iter().filter(|s| s.ordered.is_none()) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            s.source,
            s.profiles,
            s.system,
            s.role,
            s.pairs,
            number(s.error, 3),
            number(s.null_error, 3),
            number(s.error_over_null, 2),
            percent(s.simulated_overhead),
            percent(s.known_overhead),
            number(s.be_difference, 3),
        );
    }
    for s in scores.iter().filter(|s| s.ordered.is_some()) {
        let (right, compared) = (s.ordered_right, s.ordered);
        let _ = writeln!(
            text,
            "\nOrder of the systems beside the same jobs ({}, {} profiles): {} of {} right, the null model {} of \
             the {} that it orders.",
            s.source,
            s.profiles,
            right.unwrap_or_default(),
            compared.unwrap_or_default(),
            s.null_ordered_right.unwrap_or_default(),
            s.null_ordered.unwrap_or_default()
        );
    }
    text
}

/// The sensitivity table: flipped conclusions, then by how much each constant moves the mean overheads.
pub fn sensitivity(lines: &[Line]) -> String {
    let mut text = String::new();
    let flips: Vec<&Line> = lines.iter().filter(|line| line.flips == Some(true)).collect();
    let variants: BTreeSet<(&str, u64)> =
        lines.iter().map(|line| (line.parameter.as_str(), line.factor.to_bits())).collect();
    let _ = writeln!(text, "{} variants; conclusions that one of them overturns:\n", variants.len());
    if flips.is_empty() {
        text += "none\n";
    }
    for line in &flips {
        let _ = writeln!(
            text,
            "- {} x {} ({}): \"{}\" becomes {} ({} instead of {})",
            line.parameter,
            line.factor,
            line.origin,
            line.quantity,
            line.verdict.unwrap_or_default(),
            number(line.number, 2),
            number(line.base_number, 2)
        );
    }
    // Without cells there is no flip, which must not read as "none".
    let undecided: Vec<&Line> = lines.iter().filter(|line| line.undecided()).collect();
    if !undecided.is_empty() {
        text += "\nundecided, as a cell behind them has no number:\n\n";
    }
    for line in undecided {
        let of = if line.base_verdict.is_none() { "base" } else { "variant" };
        let _ = writeln!(
            text,
            "- {} x {} ({}): \"{}\" (in the {of})",
            line.parameter, line.factor, line.origin, line.quantity
        );
    }
    let columns: Vec<&str> = {
        let mut seen = Vec::new();
        for line in lines.iter().filter(|line| line.verdict.is_none() && line.base_verdict.is_none()) {
            if !seen.contains(&line.quantity.as_str()) && line.quantity.starts_with("mean p99") {
                seen.push(line.quantity.as_str());
            }
        }
        seen
    };
    let short = |name: &str| name.trim_start_matches("mean p99 overhead of ").to_owned();
    let heads: Vec<String> = columns.iter().map(|c| short(c)).collect();
    let _ = writeln!(
        text,
        "\nMean p99 overhead over the pairs:\n\n| rule | origin | factor | {} |",
        heads.join(" | ")
    );
    let _ = writeln!(text, "| --- | --- | ---: |{}", " ---: |".repeat(columns.len()));
    let find = |parameter: &str, factor: u64, column: &str| {
        lines
            .iter()
            .find(|l| l.parameter == parameter && l.factor.to_bits() == factor && l.quantity == column)
    };
    if let Some(first) = lines.first() {
        let base = columns.iter().map(|c| {
            percent(find(&first.parameter, first.factor.to_bits(), c).and_then(|line| line.base_number))
        });
        let _ = writeln!(text, "| as it is | | 1 | {} |", base.collect::<Vec<_>>().join(" | "));
    }
    for (parameter, factor) in variants {
        let origin = lines.iter().find(|l| l.parameter == parameter).map_or("", |l| &l.origin);
        let cells = columns.iter().map(|c| percent(find(parameter, factor, c).and_then(|line| line.number)));
        let cells = cells.collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| {parameter} | {origin} | {} | {cells} |", f64::from_bits(factor));
    }
    text
}

/// The pairs as a Markdown table.
pub fn pairs(pairs: &[Pair]) -> String {
    let mut text = "| source | profiles | system | inference | training | load | seed | known | simulated | ratio | null | BE known | sim |\n\
                    | --- | --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for pair in pairs {
        let t = &pair.truth;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {:.2} | {} | {} | {} | {} | {} |",
            t.source.name(),
            pair.profiles,
            pair.simulated_system,
            t.inference,
            t.training,
            t.load,
            t.seed.map(|seed| seed.to_string()).unwrap_or_default(),
            t.slowdown,
            number(pair.simulated, 2),
            number(pair.simulated.map(|s| s / t.slowdown), 2),
            number(pair.null, 2),
            number(t.be_norm, 2),
            number(pair.simulated_be, 2),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::fidelity::sensitivity::{self, quantities, rules};
    use crate::summary::Row;

    #[test]
    fn a_variant_without_cells_is_undecided() {
        let row = |system: &str, overhead: Option<f64>| Row {
            kind: "pair".to_owned(),
            system: system.to_owned(),
            status: if overhead.is_some() { "ok" } else { "failed" }.to_owned(),
            p99_overhead: overhead,
            ..Row::default()
        };
        let rows = |tally| [row("tally", tally), row("mps-priority", Some(0.5)), row("mps", Some(0.9))];
        let machine = sim::Machine::parse(include_str!("../../../machines/h200.toml")).unwrap();
        let (name, rule) = &rules(&machine).unwrap()[0];
        let (base, failed) = (quantities(&rows(Some(0.1))), quantities(&rows(None)));
        let lines = sensitivity::lines("h200", (name, rule), 2.0, 1.0, &base, &failed);
        let text = super::sensitivity(&lines);
        let line = |conclusion: &str, of: &str| {
            format!("- {name} x 2 ({}): \"{conclusion}\" (in the {of})", lines[0].origin)
        };
        assert!(text.contains(&line("tally below mps-priority", "variant")), "{text}");
        // The gate was not run at all.
        assert!(text.contains(&line("gate below mps-priority", "base")), "{text}");
        // Decided, and a number by itself.
        assert!(!text.contains("\"mps-priority below mps\"") && !text.contains("\"mean p99"), "{text}");
        let decided = sensitivity::lines("h200", (name, rule), 2.0, 1.0, &base, &base);
        assert!(!decided.iter().any(|line| line.quantity == "tally below mps-priority" && line.undecided()));
    }
}
