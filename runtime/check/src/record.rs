//! What the repository keeps of the last check: one TOML per GPU model with the rows, and the tables beside it.
//!
//! A record names the state of `runtime/` that each part was run with, so that anyone can tell how old it is.

use crate::digest::{self, Change, Files};
use crate::machine::{Gpu, Software};
use crate::rows::{Outcome, Row, read};
use crate::setup::Setup;
use anyhow::{Context, Result, ensure};
use flags::Part;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where records are, in the repository.
pub const FOLDER: &str = "runtime/check/record";

/// Tables that are kept beside a record; latencies of single requests are too many.
const TABLES: [&str; 5] = ["corun.csv", "judgements.csv", "processes.csv", "stops.csv", "faults.csv"];
const TEXTS: [&str; 1] = ["answers.txt"];

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub gpu: Gpu,
    #[serde(default)]
    pub software: Software,
    /// When each part was run last, and with what.
    #[serde(default)]
    pub parts: BTreeMap<String, Ran>,
    #[serde(default)]
    pub rows: Vec<Row>,
    /// The files of `runtime/` at the last part.
    #[serde(default)]
    pub files: Files,
}

/// A part that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ran {
    /// UTC, for people.
    pub date: String,
    /// Seconds since 1970.
    pub unix_s: u64,
    /// [`digest::whole`] of the files.
    pub digest: String,
}

impl Record {
    /// Checks that what is in the folder of results already is of this GPU model and driver, and notes both, so that an
    /// interrupted part is known by them as well.
    ///
    /// # Errors
    /// It is of another one, or the note cannot be written.
    pub fn begin(out: &Path, gpu: &Gpu) -> Result<()> {
        let path = out.join("run.toml");
        if !path.exists() {
            let (software, parts) = (Software::default(), BTreeMap::new());
            let record = Record { gpu: gpu.clone(), software, parts, rows: Vec::new(), files: Files::new() };
            return save(&path, &record);
        }
        let before = load(&path).with_context(|| format!("{}: choose another --out", out.display()))?.gpu;
        ensure!(
            before.name == gpu.name && before.driver == gpu.driver,
            "{} has results of {}, driver {}, and this is {}, driver {}; choose another --out",
            out.display(),
            before.name,
            before.driver,
            gpu.name,
            gpu.driver
        );
        Ok(())
    }

    /// Notes in the folder of results that a part was run; rows are added when the record is made.
    ///
    /// # Errors
    /// The files cannot be read, or the note not be written.
    pub fn note(setup: &Setup, gpu: &Gpu, part: Part) -> Result<()> {
        let path = setup.out.join("run.toml");
        let files = digest::files(&setup.repo)?;
        let mut record = match load(&path) {
            Ok(record) if !record.parts.is_empty() => record,
            _ => Record {
                gpu: gpu.clone(),
                software: crate::machine::software(&setup.python),
                parts: BTreeMap::new(),
                rows: Vec::new(),
                files: Files::new(),
            },
        };
        let date = doctor::probe::ask("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]);
        let date = date.map(|answer| answer.line().to_owned()).unwrap_or_default();
        let ran = Ran { date, unix_s: now_s(), digest: digest::whole(&files) };
        record.parts.insert(part.name().to_owned(), ran);
        record.files = files;
        save(&path, &record)
    }

    /// Of several states, whether all parts were run with the last.
    fn is_of_one_state(&self) -> bool {
        let last = digest::whole(&self.files);
        self.parts.values().all(|ran| ran.digest == last)
    }
}

/// Makes the repository's record from a folder of results; the files written.
///
/// # Errors
/// The folder has no results, or the record cannot be written.
pub fn make(out: &Path, repo: &Path) -> Result<Vec<PathBuf>> {
    let path = out.join("run.toml");
    let mut record = load(&path).with_context(|| {
        format!(
            "{} has no results of a check on a GPU; run `cargo xtask gpu-check` on a machine with one",
            out.display()
        )
    })?;
    record.rows = read(&out.join("rows.csv"))?;
    record.rows.retain(|row| record.parts.contains_key(&row.part));
    // How long it took within its call says nothing later.
    record.rows.iter_mut().for_each(|row| row.seconds = 0.0);
    ensure!(!record.rows.is_empty(), "{} has no rows", out.display());
    let folder = repo.join(FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let id = record.gpu.id();
    // Which of several equal devices it was is nobody's business.
    record.gpu.uuid = String::new();
    let mut written = vec![folder.join(format!("{id}.toml"))];
    save(&written[0], &record)?;
    for name in TABLES.iter().chain(&TEXTS) {
        let from = out.join(name);
        if from.exists() {
            let to = folder.join(format!("{id}-{name}"));
            std::fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
            written.push(to);
        }
    }
    Ok(written)
}

/// The records of a repository.
///
/// # Errors
/// One is not readable.
pub fn all(repo: &Path) -> Result<Vec<Record>> {
    let Ok(entries) = std::fs::read_dir(repo.join(FOLDER)) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    paths.iter().map(|path| load(path)).collect()
}

/// How old the records are, for people.
///
/// # Errors
/// A record or a file of `runtime/` cannot be read.
pub fn age(repo: &Path) -> Result<String> {
    let records = all(repo)?;
    if records.is_empty() {
        return Ok(
            "the runtime was not checked on a GPU yet; on a machine with one: cargo xtask gpu-check\n"
                .to_owned(),
        );
    }
    let files = digest::files(repo)?;
    Ok(records.iter().map(|record| age_of(record, &files, now_s())).collect())
}

fn age_of(record: &Record, files: &Files, now_s: u64) -> String {
    let failed = record.rows.iter().filter(|row| row.outcome == Outcome::Failed).count();
    let mut text = format!("{} (driver {}):", record.gpu.name, record.gpu.driver);
    for (part, ran) in &record.parts {
        let days = now_s.saturating_sub(ran.unix_s) / 86_400;
        text += &format!(" {part} {} ({days} days ago),", ran.date.get(..10).unwrap_or(&ran.date));
    }
    text += &format!(" {} rows, {failed} failed\n", record.rows.len());
    if !record.is_of_one_state() {
        text += "  its parts were not all run with the same state of runtime/\n";
    }
    let change = Change::between(&record.files, files);
    if change.is_none() {
        return text + "  runtime/ is as it was then\n";
    }
    let (changed, added, removed) = (change.changed.len(), change.added.len(), change.removed.len());
    text += &format!("  files of runtime/ since then: {changed} changed, {added} added, {removed} removed");
    let names = change.changed.iter().chain(&change.added).chain(&change.removed);
    let shown: Vec<&str> = names.take(6).map(String::as_str).collect();
    text + &format!(" ({}{})\n", shown.join(", "), if changed + added + removed > 6 { ", ..." } else { "" })
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn load(path: &Path) -> Result<Record> {
    let text =
        bounded::text(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is no record of this version", path.display()))
}

fn save(path: &Path, record: &Record) -> Result<()> {
    let head = "# Written by `cargo xtask gpu-check`.\n\n";
    let partial = path.with_extension("partial");
    std::fs::write(&partial, head.to_owned() + &toml::to_string(record)?)?;
    std::fs::rename(&partial, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(files: Files) -> Record {
        let gpu = Gpu {
            name: "NVIDIA H200".to_owned(),
            uuid: "GPU-a".to_owned(),
            driver: "580.1".to_owned(),
            compute_mode: "Default".to_owned(),
        };
        let ran =
            Ran { date: "2026-01-02T03:04:05Z".to_owned(), unix_s: 1_000_000, digest: digest::whole(&files) };
        let parts = BTreeMap::from([("corun".to_owned(), ran)]);
        Record { gpu, software: Software::default(), parts, rows: Vec::new(), files }
    }

    fn row(part: &str, outcome: Outcome) -> Row {
        Row { part: part.to_owned(), name: "x".to_owned(), outcome, detail: "d".to_owned(), seconds: 2.5 }
    }

    #[test]
    fn an_age_tells_what_changed() {
        let files = Files::from([("runtime/a".to_owned(), "1".to_owned())]);
        let mut old = record(files.clone());
        old.rows = vec![row("corun", Outcome::Failed), row("corun", Outcome::Measured)];
        let text = age_of(&old, &files, 1_000_000 + 3 * 86_400 + 5);
        let expected = "NVIDIA H200 (driver 580.1): corun 2026-01-02 (3 days ago), 2 rows, 1 failed\n  \
                        runtime/ is as it was then\n";
        assert_eq!(text, expected);
        let now =
            Files::from([("runtime/a".to_owned(), "2".to_owned()), ("runtime/b".to_owned(), "3".to_owned())]);
        let text = age_of(&old, &now, 1_000_000);
        assert!(text.contains("1 changed, 1 added, 0 removed (runtime/a, runtime/b)"), "{text}");
        old.parts
            .insert("faults".to_owned(), Ran { digest: "other".to_owned(), ..old.parts["corun"].clone() });
        assert!(age_of(&old, &files, 0).contains("not all run with the same state"));
    }

    #[test]
    fn a_folder_has_results_of_one_gpu_model() {
        let out = tempfile::tempdir().unwrap();
        let gpu = record(Files::new()).gpu;
        Record::begin(out.path(), &gpu).unwrap();
        Record::begin(out.path(), &Gpu { uuid: "GPU-b".to_owned(), ..gpu.clone() }).unwrap();
        let others = [
            Gpu { name: "NVIDIA A100".to_owned(), ..gpu.clone() },
            Gpu { driver: "581.0".to_owned(), ..gpu },
        ];
        for other in others {
            let error = Record::begin(out.path(), &other).unwrap_err().to_string();
            assert!(
                error.contains("has results of NVIDIA H200, driver 580.1, and this is")
                    && error.contains("--out"),
                "{error}"
            );
        }
        // Nothing was run yet, so there is nothing to keep.
        let repo = tempfile::tempdir().unwrap();
        assert!(make(out.path(), repo.path()).unwrap_err().to_string().contains("has no rows"));
    }

    #[test]
    fn a_record_is_made_from_results_and_read_again() {
        let (out, repo) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let error = format!("{:#}", make(out.path(), repo.path()).unwrap_err());
        assert!(error.contains("no results of a check on a GPU"), "{error}");
        save(&out.path().join("run.toml"), &record(Files::new())).unwrap();
        let rows = [row("corun", Outcome::Passed), row("selftest", Outcome::Failed)];
        crate::rows::write(&out.path().join("rows.csv"), &rows).unwrap();
        std::fs::write(out.path().join("corun.csv"), "a\n").unwrap();
        let written = make(out.path(), repo.path()).unwrap();
        assert_eq!(written.len(), 2);
        assert!(repo.path().join(FOLDER).join("nvidia-h200-corun.csv").exists());
        let read = all(repo.path()).unwrap();
        // Rows of parts that were not noted, and what is only this device's, stay out.
        assert_eq!((read.len(), read[0].rows.len(), read[0].gpu.uuid.as_str()), (1, 1, ""));
        assert_eq!(read[0].rows[0].outcome, Outcome::Passed);
    }

    #[test]
    fn the_repositorys_records_are_readable() {
        let repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = age(&repo).unwrap();
        assert!(!text.is_empty());
    }
}
