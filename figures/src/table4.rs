//! Table `table4`: every claim with its verdict, from `claims.csv`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::csv::Csv;
use crate::markdown::{Table, origin, percent, percent_range, ratio};
use crate::records::Backend;
use crate::sheet::{self, Row};

/// The columns of `claims.csv`; docs/FORMATS.md says what they mean.
const COLUMNS: &str = "claim text source experiments inference metric statistic relation system other published band_low \
    band_high band_reason pairs_needed simulated_verdict measured_verdict evidence machine why n value low high interval \
    median median_low median_high below below_low below_high";

/// The table as Markdown and as CSV.
///
/// # Errors
/// See [`sheet::read`]; and a value that is no number.
pub fn render(title: &str, path: &Path) -> Result<(String, String)> {
    let mut table = Table::new(
        7,
        "claim | statement | source | compared | simulated | measured | why | published | accepted | value | \
         95 % interval | pairs | median over pairs | 95 % of it | first is below in | 95 % of the share",
    );
    let mut out = Csv::new(
        "claim source metric statistic relation system other published band_low band_high simulated_verdict \
         measured_verdict evidence machine why n value low high interval median median_low median_high below \
         below_low below_high",
    );
    let mut origins = BTreeSet::new();
    let mut last = "";
    let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
    let rows = sheet::read(path, &columns)?;
    for row in &rows {
        let text = |column| row.shown(column);
        let claim = text("claim");
        let shown = |value: Option<f64>| value_text(row, value);
        let n = text("n");
        let below = text("below");
        let of_n = if below.is_empty() || n == "0" { String::new() } else { format!("{below} of {n}") };
        let accepted = match (row.finite("band_low")?, row.finite("band_high")?) {
            (Some(low), Some(high)) => range_text(row, Some((low, high))),
            (None, Some(high)) => format!("at most {}", shown(Some(high))),
            _ => String::new(),
        };
        table.row([
            claim.to_owned(),
            // A statement of several comparisons stands once.
            if claim == last { String::new() } else { text("text").to_owned() },
            text("source").to_owned(),
            compared(row),
            text("simulated_verdict").to_owned(),
            text("measured_verdict").to_owned(),
            text("why").to_owned(),
            shown(row.finite("published")?),
            accepted,
            shown(row.finite("value")?),
            range_text(row, row.range("low", "high")?),
            n.to_owned(),
            // Of the system's number, or of its ratio to the other's.
            if text("other").is_empty() {
                shown(row.finite("median")?)
            } else {
                ratio(row.finite("median")?)
            },
            if text("other").is_empty() {
                range_text(row, row.range("median_low", "median_high")?)
            } else {
                plain_range(row.range("median_low", "median_high")?)
            },
            of_n,
            if n == "0" { String::new() } else { percent_range(row.range("below_low", "below_high")?) },
        ]);
        last = claim;
        for column in ["claim", "source", "metric", "statistic", "relation", "system", "other"] {
            out.text(text(column));
        }
        out.real(row.finite("published")?).real(row.finite("band_low")?).real(row.finite("band_high")?);
        for column in ["simulated_verdict", "measured_verdict", "evidence", "machine", "why", "n"] {
            out.text(text(column));
        }
        out.real(row.finite("value")?)
            .real(row.finite("low")?)
            .real(row.finite("high")?)
            .text(text("interval"));
        for column in ["median", "median_low", "median_high", "below", "below_low", "below_high"] {
            out.real(row.finite(column)?);
        }
        out.end();
        origins.insert(match text("evidence") {
            "" => continue,
            "measured" => origin(Backend::Gpu, text("machine")),
            _ => origin(Backend::Sim, text("machine")),
        });
    }
    let origin = match origins.len() {
        0 => "No claim was run.".to_owned(),
        _ => origins.into_iter().collect::<Vec<_>>().join(" "),
    };
    let text = format!("{origin}\n\n# {title}\n\n{}\n{NOTES}\n{origin}\n", table.finish());
    Ok((text, out.finish()))
}

fn compared(row: &Row) -> String {
    let (system, other) = (row.shown("system"), row.shown("other"));
    match row.shown("relation") {
        _ if other.is_empty() => system.to_owned(),
        "ratio" => format!("{system} / {other}"),
        _ => format!("{system} < {other}"),
    }
}

/// Overheads and shares are percentages, ratios and throughputs plain.
fn is_percent(row: &Row) -> bool {
    let relation = row.shown("relation");
    relation == "below" || (relation == "within" && row.shown("metric") == "p99-overhead")
}

fn value_text(row: &Row, value: Option<f64>) -> String {
    if is_percent(row) { percent(value) } else { ratio(value) }
}

fn range_text(row: &Row, range: Option<(f64, f64)>) -> String {
    if is_percent(row) { percent_range(range) } else { plain_range(range) }
}

fn plain_range(range: Option<(f64, f64)>) -> String {
    range.map(|(low, high)| format!("{low:.3}..{high:.3}")).unwrap_or_default()
}

const NOTES: &str = "\
- A claim holds when the whole interval lies in the accepted range, is missed when all of it lies outside, and is
  inconclusive when an end of the range lies within it, or when there are too few pairs. What holds in simulation is
  not reproduced: only a measurement is. Why each range is as it is says `artifact/claims.toml`.
- Value: of one system, the mean or median over pairs; of two, the ratio of their means; of an order in single pairs,
  the share of pairs. Intervals over pairs: Student's for a mean, Fieller's for a ratio of means, order statistics for
  a median, Clopper and Pearson's for a share. A mean of few, skewed values has a rough interval: the median beside it
  has an exact one.
- Pairs are treated as independent draws. The intervals know nothing of what all pairs share (machine, model, traffic),
  and each is a 95 % one by itself: of forty, two are expected to miss.
- Several seeds of a pair are one pair: the median of its overheads, the mean of its throughputs.
- Paper: means over the paper's 36 pairs on an A100. Demo: the published A100 run with 12 pairs, BERT and Llama.
";
