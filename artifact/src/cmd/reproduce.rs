//! `artifact reproduce`: experiments -> plan -> cells -> tables.

use super::{CELLS_FAILED, say};
use crate::cell::Cell;
use crate::executor::Executor;
use crate::experiment::Experiment;
use crate::library::Library;
use crate::plan::Plan;
use crate::progress;
use crate::root::Root;
use crate::run::{Run, Tally};
use crate::runinfo::{Invocation, RunInfo};
use crate::store::Store;
use crate::summary::{self, Finished, Row};
use crate::traffic::Traffic;
use crate::{claims, files, h200_check, sums};
use anyhow::{Context, Result, bail, ensure};
use flags::Reproduce;
use std::path::Path;
use std::time::Instant;
use workloads::profile::ProfileSet;

/// Runs the verb with this executor; the exit code.
///
/// # Errors
/// Bad experiments, machines or plans, and a run folder that cannot be written. Failed cells are no error but an exit
/// code, after everything else is done.
pub fn run(flags: &Reproduce, executor: &dyn Executor) -> Result<u8> {
    let began = Instant::now();
    let root = Root::find()?;
    let experiments = experiments(flags, &root)?;
    let ids = |list: fn(&Experiment) -> &Vec<String>| experiments.iter().flat_map(list).map(String::as_str);
    let jobs_of = ids(|e| &e.inference).chain(ids(|e| &e.training));
    let library = match executor.backend() {
        "fake" => Library::fake(jobs_of)?,
        _ => Library::load_set(&root, flags.machine.name(), profiles(&experiments)?, jobs_of)?,
    };
    let plan = Plan::new(experiments, &library)?;
    let jobs = flags.jobs.map_or_else(default_jobs, usize::from);
    if flags.list {
        say(&plan.list(&library, jobs));
        return Ok(0);
    }
    let folder = flags::out_folder(flags.out.as_deref(), flags.machine, executor.backend(), flags.quick);
    let store = Store::open(&folder)?;
    let planned: Vec<&Experiment> = plan.tables.iter().map(|table| &table.experiment).collect();
    let mut invocation =
        Invocation::begin(&root, &flags.backend_reason, jobs, flags.machine.name(), &planned);
    let traffic = Traffic::new(&root);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().context("cannot start threads")?;
    let run = Run::new(&plan, &library, &traffic, executor, &store);
    let (finished, tally) = pool.install(|| run.all())?;

    let mut tables = Vec::new();
    for table in &plan.tables {
        let rows = summary::rows(&plan, table, &finished, executor.backend(), &library.machine_label);
        let path = folder.join(format!("{}.csv", table.experiment.id));
        files::write_atomically(&path, &summary::to_csv(&rows)?)?;
        tables.push((&table.experiment, rows));
    }
    invocation.end(began.elapsed().as_secs_f64(), &tally, traffic.notes());
    let aside =
        RunInfo::append(&folder, &library.machine_label, executor.backend(), flags.quick, invocation)?;
    if let Some(old) = aside {
        run.progress.note(&format!("run.toml is torn or of another version; kept as {}", old.display()));
    }
    sums::write(&folder)?;
    report(&folder, &tally, &plan.cells, &finished, began.elapsed().as_secs_f64());
    for (experiment, rows) in &tables {
        judge(&root, experiment, rows, executor.backend())?;
    }
    Ok(if tally.failed > 0 { CELLS_FAILED } else { 0 })
}

/// The experiments that were asked for, else the default ones.
fn experiments(flags: &Reproduce, root: &Root) -> Result<Vec<Experiment>> {
    let mut ids = flags.experiments.clone();
    let named = !ids.is_empty();
    if !named {
        ids = Experiment::ids(root)?;
    }
    let mut experiments: Vec<Experiment> = Vec::new();
    for id in ids {
        let mut experiment = Experiment::load(root, &id, flags.quick)?;
        if let Some(n) = flags.seeds {
            experiment.seeds = (1..=n).collect();
        }
        let is_new = experiments.iter().all(|known| known.id != id);
        if is_new && (named || experiment.default) {
            experiments.push(experiment);
        }
    }
    ensure!(
        !experiments.is_empty(),
        "no experiment is marked `default = true`; name one with --experiment ID"
    );
    Ok(experiments)
}

/// The recordings that the experiments of one run share.
fn profiles(experiments: &[Experiment]) -> Result<ProfileSet> {
    let set = experiments[0].profiles;
    let other = experiments.iter().find(|experiment| experiment.profiles != set);
    if let Some(other) = other {
        bail!(
            "`{}` runs {set} profiles and `{}` {} ones; run them one at a time",
            experiments[0].id,
            other.id,
            other.profiles
        );
    }
    Ok(set)
}

pub(crate) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

fn report(folder: &Path, tally: &Tally, cells: &[Cell], finished: &[Finished], seconds: f64) {
    let Tally { stored, executed, failed, skipped, .. } = tally;
    say(&format!(
        "{} cells: {executed} run, {stored} were stored, {skipped} skipped, {failed} failed; {}; results in {}\n",
        finished.len(),
        progress::time(seconds),
        folder.display()
    ));
    for (cell, result) in cells.iter().zip(finished) {
        match result {
            Finished::Ok(_) => {}
            Finished::Failed { error, .. } => say(&format!("  failed: {cell}: {error}\n")),
            Finished::Skipped(reason) => say(&format!("  skipped: {cell}: {reason}\n")),
        }
    }
    if *failed > 0 {
        say("  the same command tries the failed cells again and keeps the others\n");
    }
}

fn judge(root: &Root, experiment: &Experiment, rows: &[Row], backend: &str) -> Result<()> {
    let quick = if experiment.quick { " (quick)" } else { "" };
    if !experiment.claims.is_empty() {
        say(&format!("claims of {}{quick}:\n", experiment.id));
        say(&claims::report(&experiment.claims, rows, backend));
    }
    if experiment.id == h200_check::ID {
        say(&h200_check::report(root, rows)?);
    }
    Ok(())
}
