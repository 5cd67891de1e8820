//! `artifact verify`: the files and the numbers of a run folder. The third part, its figures, is checked by
//! `figures check`.

use super::say;
use crate::experiment::Experiment;
use crate::golden::{self, Answer};
use crate::root::Root;
use crate::runinfo::RunInfo;
use crate::{recorded, series, sums};
use anyhow::{Result, anyhow, ensure};
use flags::Verify;
use std::path::{Path, PathBuf};

/// Problems shown; more are counted.
const SHOWN: usize = 20;

/// Runs the verb; 0 when everything is as it should be.
///
/// # Errors
/// There is no run folder, or something in it cannot be read.
pub fn run(flags: &Verify) -> Result<u8> {
    let root = Root::find()?;
    let folder = flags::run_folder(flags.run.as_deref()).map_err(|message| anyhow!(message))?;
    say(&format!("verifying {}\n", folder.display()));
    let files = files(&folder)?;
    let info = RunInfo::read(&folder)?;
    if flags.update_golden {
        // Values that nobody can vouch for must not become the ones to compare with.
        ensure!(files, "the run folder was changed after the run; run `cargo xtask reproduce` again first");
        update(&root, &folder, &info)?;
    }
    let numbers = numbers(&root, &folder, &info)?;
    Ok(if files && numbers { 0 } else { 1 })
}

fn files(folder: &Path) -> Result<bool> {
    let (good, problems) = sums::check(folder)?;
    if problems.is_empty() {
        say(&format!("1. files: ok, {good} files match {}\n", sums::NAME));
        return Ok(true);
    }
    say(&format!("1. files: FAILED, {good} files match {}, {} do not:\n", sums::NAME, problems.len()));
    for problem in problems.iter().take(SHOWN) {
        say(&format!("     {problem}\n"));
    }
    if problems.len() > SHOWN {
        say(&format!("     and {} more\n", problems.len() - SHOWN));
    }
    say("     running `cargo xtask reproduce` again makes damaged cells anew\n");
    Ok(false)
}

fn numbers(root: &Root, folder: &Path, info: &RunInfo) -> Result<bool> {
    let (mut good, mut compared) = (true, false);
    let mut lines = String::new();
    for (experiment, table) in tables(root, folder)? {
        // A measurement on a GPU, or an extrapolation, has no golden values.
        let answer = if info.backend == "sim" && info.machine == "h200" {
            golden::compare(root, &table, &experiment, info.size()?)?
        } else {
            Answer::NotCompared(format!(
                "golden values are of sim on h200, not {} on {}",
                info.backend, info.machine
            ))
        };
        compared |= !matches!(answer, Answer::NotCompared(_));
        let line = match answer {
            Answer::Equal { rows, sha256 } => {
                format!("{rows} rows equal the golden values ({})", &sha256[..16])
            }
            Answer::Different(what) => {
                good = false;
                format!("DIFFERENT: {what}")
            }
            Answer::NotCompared(why) => format!("not compared: {why}"),
        };
        lines += &format!("     {experiment}: {line}\n");
    }
    if lines.is_empty() {
        good = false;
        lines = "     the folder holds no table; run `cargo xtask reproduce`\n".to_owned();
    }
    let verdict = match (good, compared) {
        (false, _) => "FAILED",
        (true, true) => "ok",
        (true, false) => "nothing to compare with",
    };
    say(&format!("2. numbers: {verdict}\n{lines}"));
    Ok(good)
}

fn update(root: &Root, folder: &Path, info: &RunInfo) -> Result<()> {
    for (experiment, table) in tables(root, folder)? {
        match golden::compare(root, &table, &experiment, info.size()?) {
            Ok(Answer::Equal { .. }) => continue,
            Ok(Answer::Different(what)) => say(&format!("   {experiment} was different: {what}\n")),
            Ok(Answer::NotCompared(_)) | Err(_) => {}
        }
        let golden = golden::update(root, &table, &experiment, info.size()?)?;
        say(&format!("   wrote {}; say in the commit why the values moved\n", golden.display()));
    }
    Ok(())
}

/// The tables of experiments that the folder holds, by name without the ending.
fn tables(root: &Root, folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let suffixes = ["", series::SUFFIX, recorded::DURATIONS, recorded::TURNAROUND];
    let ids = Experiment::ids(root)?.into_iter();
    let names = ids.flat_map(|id| suffixes.map(|suffix| format!("{id}{suffix}")));
    let tables = names.map(|name| (name.clone(), folder.join(format!("{name}.csv"))));
    Ok(tables.filter(|(_, path)| path.is_file()).collect())
}
