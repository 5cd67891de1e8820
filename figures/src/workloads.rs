//! Table `workloads`: what the paper names, what upstream ran, what we run, and what was recorded of it.

use std::path::Path;

use anyhow::Result;

use crate::csv::Csv;
use crate::markdown::Table;
use crate::sheet::{self, Row};
use crate::style::{job_rank, number};

/// The columns of `workloads.csv`; docs/FORMATS.md says what they mean.
const COLUMNS: &str = "workload kind variant_of paper_name upstream_actual ours differences shapes batch precision \
    reason gpu_busy_share recorded_on recorded_n recorded_mean_ns recorded_p99_ns unit_mean_ns launches_per_unit \
    kernels_per_unit memory_bytes problem";

/// Servers first, both sides in the order of the figures, what the figures do not show at the end.
fn read(path: &Path) -> Result<Vec<Row<'_>>> {
    let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
    let mut rows = sheet::read(path, &columns)?;
    rows.sort_by_key(|row| {
        let workload = row.shown("workload");
        (row.shown("kind").to_owned(), job_rank(workload), workload.to_owned())
    });
    Ok(rows)
}

/// The table as Markdown and as CSV.
///
/// # Errors
/// A file that is not of this version, by column or value.
pub fn render(title: &str, path: &Path) -> Result<(String, String)> {
    let rows = read(path)?;
    let mut table = Table::new(
        5,
        "workload | role | paper's name | precision | inputs | batch | unit alone, ms | kernels per unit | memory, GiB",
    );
    let mut out = Csv::new(
        "workload kind variant_of paper_name upstream_actual ours differences batch precision shapes recorded_on \
         recorded_mean_ms unit_mean_ms launches_per_unit kernels_per_unit memory_gib",
    );
    let (mut words, mut problems) = (String::new(), String::new());
    for row in &rows {
        let scaled = |column, unit: f64| -> Result<Option<f64>> {
            Ok(row.real(column, 0.0)?.map(|value| value / unit))
        };
        let ms = |column| scaled(column, 1e6);
        let count = |column| -> Result<Option<u64>> { Ok(scaled(column, 1.0)?.map(|n| n as u64)) };
        let memory = scaled("memory_bytes", (1u64 << 30) as f64)?;
        let kernels = count("kernels_per_unit")?;
        let unit = ms("unit_mean_ns")?;
        let shown = |value: Option<f64>, decimals| value.map(|v| number(v, decimals)).unwrap_or_default();
        table.row([
            row.shown("workload").to_owned(),
            row.shown("kind").to_owned(),
            row.shown("paper_name").to_owned(),
            row.shown("precision").to_owned(),
            row.shown("shapes").to_owned(),
            row.shown("batch").to_owned(),
            shown(unit, 3),
            shown(kernels.map(|n| n as f64), 0),
            shown(memory, 1),
        ]);
        for column in [
            "workload",
            "kind",
            "variant_of",
            "paper_name",
            "upstream_actual",
            "ours",
            "differences",
            "batch",
            "precision",
            "shapes",
            "recorded_on",
        ] {
            out.text(row.shown(column));
        }
        out.real(ms("recorded_mean_ns")?).real(unit);
        out.count(count("launches_per_unit")?).count(kernels).real(memory).end();
        words += &about(row);
        if !row.shown("problem").is_empty() {
            problems += &format!("- {}: {}\n", row.shown("workload"), row.shown("problem"));
        }
    }
    if !problems.is_empty() {
        problems = format!("\nNot recorded:\n\n{problems}");
    }
    let origin = origin(&rows);
    let text = format!(
        "{origin}\n\n# {title}\n\n{}\n{NOTES}{problems}\nWhat they are:\n\n{words}\n{origin}\n",
        table.finish()
    );
    Ok((text, out.finish()))
}

/// Where the numbers come from; the first and the last line of the document.
fn origin(rows: &[Row]) -> String {
    let mut devices: Vec<&str> = rows.iter().map(|r| r.shown("recorded_on")).collect();
    devices.retain(|d| !d.is_empty());
    devices.sort_unstable();
    devices.dedup();
    match devices.as_slice() {
        [] => "**Nothing was recorded**: definitions only.".to_owned(),
        devices => format!("**Recorded on {}**, each job alone; not simulated.", devices.join(" and ")),
    }
}

/// One workload in words.
fn about(row: &Row) -> String {
    let name = row.shown("workload");
    if !row.shown("variant_of").is_empty() {
        return format!("- **{name}**: variant of {}. {}\n", row.shown("variant_of"), row.shown("reason"));
    }
    let mut text =
        format!("- **{name}**. Upstream: {}. Ours: {}.", row.shown("upstream_actual"), row.shown("ours"));
    if !row.shown("differences").is_empty() {
        text += &format!(" Differences: {}.", row.shown("differences"));
    }
    if !row.shown("gpu_busy_share").is_empty() {
        text += &format!(
            " The unit's time contains the wait for its input, until the device was busy for {} of it.",
            row.shown("gpu_busy_share")
        );
    }
    text.replace("..", ".") + "\n"
}

const NOTES: &str = "\
- Unit: one request of a server, one iteration of a training job; mean of the unprofiled recording. Kernels per unit
  leave copies and memsets out. Memory: peak that the framework had reserved.
- An empty cell is a missing number.
";

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "bert-infer,inference,,BERT,BERT-large,\"ours, too\",\"a; b\",1 x 128,1,fp16,Because.,,GPU,10,\
        1500000,1600000,1500000,331,302,3221225472,";

    fn render_text(rows: &str) -> Result<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workloads.csv");
        let header = COLUMNS.split_whitespace().collect::<Vec<_>>().join(",");
        std::fs::write(&path, format!("{header}\n{rows}\n")).unwrap();
        render("T", &path)
    }

    #[test]
    fn numbers_units_and_words() {
        let missing = "x-train,training,,X,x,x,,1 x 1,4,fp32,Because.,,,,,,,,,,no profile";
        let (markdown, csv) = render_text(&format!("{missing}\n{ROW}")).unwrap();
        assert!(markdown.starts_with("**Recorded on GPU**"), "{markdown}");
        assert!(
            markdown.contains("| bert-infer | inference | BERT | fp16 | 1 x 128 | 1 | 1.500 | 302 | 3.0 |")
        );
        assert!(markdown.contains("| x-train | training | X | fp32 | 1 x 1 | 4 |  |  |  |"), "{markdown}");
        assert!(markdown.contains("Ours: ours, too. Differences: a; b."), "{markdown}");
        assert!(markdown.contains("- x-train: no profile"), "{markdown}");
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines[1].ends_with("GPU,1.5,1.5,331,302,3") && lines[1].starts_with("bert-infer,"), "{csv}");
        assert!(lines[2].ends_with("1 x 1,,,,,,"), "{csv}");
    }

    #[test]
    fn a_wrong_value_is_named() {
        let error = format!("{:#}", render_text(&ROW.replace("1500000,1600000", "x,1600000")).unwrap_err());
        assert!(error.contains("line 2, column `recorded_mean_ns`: value `x`"), "{error}");
    }
}
