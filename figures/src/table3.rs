//! Table `table3`: what each mechanism alone costs a job, from `mechanisms.csv`.

use std::path::Path;

use anyhow::Result;

use crate::csv::Csv;
use crate::markdown::{Table, percent};
use crate::sheet;

/// The columns of `mechanisms.csv`; docs/FORMATS.md says what they mean.
const COLUMNS: &str =
    "mechanism job quantity better unit baseline with overhead machine origin source reason";

/// The table as Markdown and as CSV.
///
/// # Errors
/// See [`sheet::read`]; and a value that is no number.
pub fn render(title: &str, path: &Path) -> Result<(String, String)> {
    let mut table = Table::new(
        6,
        "mechanism | job | quantity | better | origin | source, or why there is no number | alone | with it | overhead",
    );
    let mut out =
        Csv::new("machine mechanism job quantity better unit baseline with overhead origin source reason");
    let mut machine = String::new();
    let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
    for row in sheet::read(path, &columns)? {
        let text = |column| row.shown(column);
        let value = |column: &str| -> Result<String> {
            let unit = text("unit");
            Ok(row.finite(column)?.map(|v| format!("{v:.3} {unit}")).unwrap_or_default())
        };
        let because = match text("reason") {
            "" => text("source"),
            reason => reason,
        };
        table.row([
            text("mechanism").to_owned(),
            text("job").to_owned(),
            text("quantity").to_owned(),
            text("better").to_owned(),
            text("origin").to_owned(),
            because.to_owned(),
            value("baseline")?,
            value("with")?,
            percent(row.finite("overhead")?),
        ]);
        for column in ["machine", "mechanism", "job", "quantity", "better", "unit"] {
            out.text(text(column));
        }
        out.real(row.finite("baseline")?).real(row.finite("with")?).real(row.finite("overhead")?);
        for column in ["origin", "source", "reason"] {
            out.text(text(column));
        }
        out.end();
        machine = text("machine").to_owned();
    }
    let origin = format!(
        "**SIMULATED ({machine} model)**: inputs of the model, with origin and source; no result of a run."
    );
    let text = format!("{origin}\n\n# {title}\n\n{}\n{NOTES}\n{origin}\n", table.finish());
    Ok((text, out.finish()))
}

const NOTES: &str = "\
- Overhead of a throughput: `(baseline - x) / baseline`, the formula of the benchmark summary; of a latency:
  `x / baseline - 1`. Better: which way the quantity is to go; an overhead above 0 is a loss in both.
- Each row is one constant of the machine turned into time of one job alone; what the mechanisms cost together, and
  beside another job, is in the tables of results. There is no mean: the rows are different mechanisms and jobs.
- Origin: of the constant (documented, measured or assumed). The constant of MPS is read off the measured row above it.
";
