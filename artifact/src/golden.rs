//! Golden values: the tables that this version must give, kept in git. A simulated table depends on its inputs alone, so
//! any difference is a change of behaviour, wherever it runs.

use crate::files;
use crate::key;
use crate::root::Root;
use anyhow::{Context, Result, bail, ensure};
use flags::Size;
use std::fs;
use std::path::{Path, PathBuf};

/// Digests of the golden tables, so that an edited one is not taken for a result.
const SUMS: &str = "SHA256SUMS";

/// Columns that say which cell a row is.
const IDENTITY: [&str; 8] =
    ["kind", "system", "inference", "training", "load", "seed", "clients", "arrivals"];

/// What a comparison says.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// Equal, with the number of rows and the digest of the text.
    Equal { rows: usize, sha256: String },
    /// The first difference, in words.
    Different(String),
    /// There is nothing to compare with, and why.
    NotCompared(String),
}

/// The file for an experiment.
pub fn path(root: &Root, experiment: &str, size: Size) -> PathBuf {
    root.golden().join(format!("{experiment}{}.csv", size.suffix()))
}

/// Compares a table with its golden values; `experiment` is its name without the ending.
///
/// # Errors
/// A file cannot be read, or a golden table is not the one that was committed.
pub fn compare(root: &Root, table: &Path, experiment: &str, size: Size) -> Result<Answer> {
    let golden = path(root, experiment, size);
    if !golden.is_file() {
        return Ok(Answer::NotCompared(format!("there is no {}", golden.display())));
    }
    check_digest(root, &golden)?;
    let expected = read(&golden)?;
    let found = read(table)?;
    if expected == found {
        let sha256 = key::sha256_file(table).with_context(|| format!("cannot read {}", table.display()))?;
        return Ok(Answer::Equal { rows: found.len() - 1, sha256 });
    }
    Ok(difference(&expected, &found))
}

/// Makes a table the golden one.
///
/// # Errors
/// A table with failed cells, or of a fake or extrapolated run; files that cannot be written.
pub fn update(root: &Root, table: &Path, experiment: &str, size: Size) -> Result<PathBuf> {
    let rows = read(table)?;
    // Tables of recordings have no backend and no machine model.
    for (column, wanted) in [("status", "no failed cell"), ("backend", "sim"), ("machine", "h200")] {
        let is_wrong = |value: &str| if column == "status" { value == "failed" } else { value != wanted };
        let at = rows[0].iter().position(|name| name == column);
        let found = at.is_some_and(|at| rows[1..].iter().any(|row| is_wrong(&row[at])));
        ensure!(!found, "{} cannot become golden: column {column} must hold {wanted}", table.display());
    }
    let golden = path(root, experiment, size);
    fs::create_dir_all(root.golden()).with_context(|| format!("cannot make {}", root.golden().display()))?;
    let bytes =
        bounded::bytes(table, bounded::TABLE).with_context(|| format!("cannot read {}", table.display()))?;
    files::write_atomically(&golden, &bytes)?;
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(root.golden())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".csv") {
            names.push(name);
        }
    }
    names.sort();
    let mut sums = String::new();
    for name in names {
        sums += &format!("{}  {name}\n", key::sha256_file(&root.golden().join(&name))?);
    }
    files::write_atomically(&root.golden().join(SUMS), sums.as_bytes())?;
    Ok(golden)
}

fn check_digest(root: &Root, golden: &Path) -> Result<()> {
    let sums = root.golden().join(SUMS);
    let text =
        bounded::text(&sums, bounded::TABLE).with_context(|| format!("cannot read {}", sums.display()))?;
    let name = golden.file_name().unwrap_or_default().to_string_lossy();
    let line = text.lines().find_map(|line| line.strip_suffix(&format!("  {name}")));
    let digest = key::sha256_file(golden)?;
    match line {
        Some(sum) if sum == digest => Ok(()),
        _ => bail!(
            "{} is not the committed one by {}; restore it with git, or renew both with \
             `cargo xtask verify --update-golden`",
            golden.display(),
            sums.display()
        ),
    }
}

/// Header and rows as text.
fn read(path: &Path) -> Result<Vec<Vec<String>>> {
    bounded::check(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_path(path)?;
    let rows = reader.records().map(|row| Ok(row?.iter().map(str::to_owned).collect()));
    let rows: Result<Vec<Vec<String>>> = rows.collect();
    let rows = rows.with_context(|| format!("{} is not a table", path.display()))?;
    ensure!(!rows.is_empty(), "{} is empty", path.display());
    Ok(rows)
}

/// Names the first difference of two tables that differ.
fn difference(expected: &[Vec<String>], found: &[Vec<String>]) -> Answer {
    if expected[0] != found[0] {
        return Answer::Different(
            "the columns differ: the table or the golden values are of another version".to_owned(),
        );
    }
    let header = &expected[0];
    let cell = |row: &[String]| -> String {
        let value = |name: &&str| header.iter().position(|h| h == name).map(|i| row[i].as_str());
        IDENTITY.iter().filter_map(value).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let plan = |rows: &[Vec<String>]| rows[1..].iter().map(|row| cell(row)).collect::<Vec<_>>();
    if plan(expected) != plan(found) {
        return Answer::NotCompared(format!(
            "the golden values are of another plan ({} rows, here {})",
            expected.len() - 1,
            found.len() - 1
        ));
    }
    for (line, (wanted, got)) in expected.iter().zip(found).enumerate().skip(1) {
        // A changed key only says that something is different; the number says what.
        let differs = |column: &usize| wanted[*column] != got[*column];
        let numbers = (0..header.len()).filter(|column| header[*column] != "key").find(differs);
        if let Some(column) = numbers.or_else(|| (0..header.len()).find(differs)) {
            return Answer::Different(format!(
                "line {}, cell `{}`: {} is {}, golden {}",
                line + 1,
                cell(got),
                header[column],
                shown(&got[column]),
                shown(&wanted[column])
            ));
        }
    }
    Answer::Different("the tables differ in their text only".to_owned())
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "empty" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Row, to_csv};

    fn rows() -> Vec<Row> {
        let row = |system: &str, p99| Row {
            key: format!("{p99}"),
            backend: "sim".to_owned(),
            machine: "h200".to_owned(),
            kind: "pair".to_owned(),
            system: system.to_owned(),
            status: "ok".to_owned(),
            upstream_p99_ms: Some(p99),
            ..Row::default()
        };
        vec![row("mps", 1.5), row("tally", 2.5)]
    }

    fn write(folder: &Path, rows: &[Row]) -> PathBuf {
        let path = folder.join("x.csv");
        fs::write(&path, to_csv(rows).unwrap()).unwrap();
        path
    }

    #[test]
    fn the_first_different_cell_and_number_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let table = write(folder.path(), &rows());
        assert!(matches!(compare(&root, &table, "x", Size::Quick).unwrap(), Answer::NotCompared(_)));
        update(&root, &table, "x", Size::Quick).unwrap();
        assert!(matches!(compare(&root, &table, "x", Size::Quick).unwrap(), Answer::Equal { rows: 2, .. }));

        let mut changed = rows();
        changed[1].upstream_p99_ms = Some(2.501);
        changed[1].key = "another".to_owned();
        let table = write(folder.path(), &changed);
        let expected = "line 3, cell `pair tally 0`: upstream_p99_ms is 2.501, golden 2.5".to_owned();
        assert_eq!(compare(&root, &table, "x", Size::Quick).unwrap(), Answer::Different(expected));

        let table = write(folder.path(), &rows()[..1]);
        assert!(matches!(compare(&root, &table, "x", Size::Quick).unwrap(), Answer::NotCompared(_)));
    }

    #[test]
    fn an_edited_golden_table_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let table = write(folder.path(), &rows());
        let golden = update(&root, &table, "x", Size::Default).unwrap();
        fs::write(&golden, fs::read_to_string(&golden).unwrap().replace("2.5", "2.6")).unwrap();
        let error = compare(&root, &table, "x", Size::Default).unwrap_err();
        assert!(error.to_string().contains("not the committed one"), "{error}");
    }

    #[test]
    fn a_failed_or_fake_table_cannot_become_golden() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (field, expected) in [("status", "no failed cell"), ("backend", "must hold sim")] {
            let mut bad = rows();
            match field {
                "status" => bad[0].status = "failed".to_owned(),
                _ => bad[0].backend = "fake".to_owned(),
            }
            let table = write(folder.path(), &bad);
            let error = update(&root, &table, "x", Size::Default).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
