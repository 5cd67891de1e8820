//! `artifact reproduce`: experiments -> plan -> cells -> tables.

use super::{CELLS_FAILED, say};
use crate::cell::Cell;
use crate::claims::{self, Claim};
use crate::executor::Executor;
use crate::experiment::{Classes, Experiment, Form};
use crate::library::{Library, RECORDED_ON};
use crate::plan::Plan;
use crate::progress;
use crate::recorded::{self, DurationRow, TurnaroundRow};
use crate::root::Root;
use crate::run::{Run, Tally};
use crate::runinfo::{Invocation, RunInfo};
use crate::store::Store;
use crate::summary::{self, Finished, Row};
use crate::traffic::Traffic;
use crate::{catalogue, files, gpu, h200_check, mechanisms, series, sums};
use anyhow::{Context, Result, bail, ensure};
use flags::Reproduce;
use std::collections::BTreeSet;
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
    let experiments = experiments(flags, &root, executor.device().is_some())?;
    let claims = claims::load(&root, &Experiment::ids(&root)?)?;
    let ids = |list: fn(&Experiment) -> &Vec<String>| experiments.iter().flat_map(list).map(String::as_str);
    let jobs_of = ids(|e| &e.inference).chain(ids(|e| &e.training));
    let library = match (executor.backend(), executor.device()) {
        ("fake", _) => Library::fake(jobs_of)?,
        (_, device) => {
            let set = profile_set(&experiments)?;
            executor.begin(set);
            let library = Library::load_set(&root, flags.machine.name(), set, jobs_of)?;
            match device {
                Some(device) => library.on_device(device, set, &root),
                None => library,
            }
        }
    };
    let mut plan = Plan::new(experiments, &library)?;
    plan.skip(|cell| executor.skip(cell));
    let jobs = match executor.device() {
        // Two cells on one device would measure each other.
        Some(_) => 1,
        None => flags.jobs.map_or_else(default_jobs, usize::from),
    };
    if flags.list {
        say(&plan.list(&library, jobs));
        return Ok(0);
    }
    if flags.full || library.measured {
        say(&format!("{}: {}", flags.size().name(), plan.cost(&library, jobs)));
    }
    let folder = match (executor.device(), &flags.out) {
        (Some(device), None) => flags::device_folder(&device.name, flags.size()),
        (_, out) => flags::out_folder(out.as_deref(), flags.machine, executor.backend(), flags.size()),
    };
    let planned: Vec<&Experiment> = plan.tables.iter().map(|table| &table.experiment).collect();
    let mut invocation = Invocation::begin(
        &root,
        &flags.backend_reason,
        jobs,
        flags.machine.name(),
        &planned,
        executor.device(),
    );
    // After the programs that the facts come from: a killed run's lock would outlive it in one that was just starting.
    let store = Store::open(&folder)?;
    of_one_origin(&folder, &library.machine_label, executor.backend())?;
    let traffic = Traffic::new(&root);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().context("cannot start threads")?;
    let run = Run::new(&plan, &library, &traffic, executor, &store);
    let (finished, tally) = pool.install(|| run.all())?;

    let mut tables = Vec::new();
    for table in &plan.tables {
        let rows = summary::rows(&plan, table, &finished, executor.backend(), &library.machine_label);
        let write = |suffix: &str, bytes: &[u8]| {
            files::write_atomically(&folder.join(format!("{}{suffix}.csv", table.experiment.id)), bytes)
        };
        match &table.experiment.form {
            Form::Pairs | Form::Crowd(_) => write("", &summary::to_csv(&rows)?)?,
            Form::Timeline(intervals) => {
                write("", &summary::to_csv(&rows)?)?;
                let origin = (executor.backend(), library.machine_label.as_str());
                let series = series::rows(&plan, table, intervals, &finished, &store, origin)?;
                write(series::SUFFIX, &recorded::to_csv(&series)?)?;
            }
            // Made-up programs have no recordings.
            Form::Profiles(_) if executor.backend() == "fake" => {}
            Form::Profiles(classes) => {
                let (durations, turnaround) = profiles(&root, &table.experiment, classes)?;
                write(recorded::DURATIONS, &recorded::to_csv(&durations)?)?;
                write(recorded::TURNAROUND, &recorded::to_csv(&turnaround)?)?;
            }
        }
        tables.push((&table.experiment, rows));
    }
    files::write_atomically(&folder.join(catalogue::NAME), &catalogue::to_csv(&root)?)?;
    match executor.device() {
        None => keep_machine(&root, flags, &folder)?,
        Some(_) => {
            let counted = gpu::table::to_csv(&plan.cells, &finished)?;
            files::write_atomically(&folder.join(gpu::table::NAME), &counted)?;
        }
    }
    invocation.end(began.elapsed().as_secs_f64(), &tally, traffic.notes());
    let rows = with_earlier_tables(&claims, &folder, &tables);
    let records = claims::record::records(&claims, &rows);
    files::write_atomically(&folder.join(claims::record::NAME), &claims::record::to_csv(&records)?)?;
    // They are inputs of the simulation, and a measured run holds nothing of it.
    if !library.measured {
        let mechanisms = mechanisms::rows(&root, &planned, &library)?;
        files::write_atomically(&folder.join(mechanisms::NAME), &mechanisms::to_csv(&mechanisms)?)?;
    }
    let aside =
        RunInfo::append(&folder, &library.machine_label, executor.backend(), flags.size(), invocation)?;
    if let Some(old) = aside {
        run.progress.note(&format!("run.toml is torn or of another version; kept as {}", old.display()));
    }
    sums::write(&folder)?;
    report(&folder, &tally, &plan.cells, &finished, began.elapsed().as_secs_f64());
    say(&format!("claims{}:\n", if flags.quick { " (quick)" } else { "" }));
    say(&claims::report::report(&claims, &records));
    let checked = tables.iter().find(|(experiment, _)| experiment.id == h200_check::ID);
    if let Some((_, rows)) = checked.filter(|_| !library.measured) {
        say(&h200_check::report(&root, rows)?);
    }
    Ok(if tally.failed > 0 { CELLS_FAILED } else { 0 })
}

/// Whether all that the folder holds is of this machine and backend: simulated and measured rows must not meet in one.
///
/// # Errors
/// It is of others.
fn of_one_origin(folder: &Path, machine: &str, backend: &str) -> Result<()> {
    let Ok(info) = RunInfo::read(folder) else { return Ok(()) };
    let is_same = match (info.backend.as_str(), backend) {
        ("gpu", "gpu") => info.machine == machine,
        (before, now) => before != "gpu" && now != "gpu",
    };
    ensure!(
        is_same || info.invocation.is_empty(),
        "{} holds a run of backend {} on {}, not of {backend} on {machine}; choose another folder with --out",
        folder.display(),
        info.backend,
        info.machine
    );
    Ok(())
}

/// What the recordings of an experiment's jobs say, whatever machine is simulated.
fn profiles(
    root: &Root,
    experiment: &Experiment,
    classes: &Classes,
) -> Result<(Vec<DurationRow>, Vec<TurnaroundRow>)> {
    let machine = sim::Machine::load(&root.machine(RECORDED_ON))?;
    let (mut durations, mut turnaround) = (Vec::new(), Vec::new());
    for id in &experiment.training {
        let profile = workloads::profile::load(&root.workloads(), RECORDED_ON, id);
        durations.extend(recorded::durations(&experiment.id, id, &profile, classes));
        turnaround.extend(recorded::turnaround(&experiment.id, id, &profile, &machine));
    }
    Ok((durations, turnaround))
}

/// What `--quick` measures on a GPU, where seconds are seconds: one pair under every system that the runtime has, in a
/// quarter of an hour. Both experiments are of the same cells.
const QUICK_ON_GPU: [&str; 2] = ["fig4", "fig5"];

/// The experiments that were asked for, else the default ones.
fn experiments(flags: &Reproduce, root: &Root, measured: bool) -> Result<Vec<Experiment>> {
    let mut ids = flags.experiments.clone();
    let named = !ids.is_empty();
    if !named {
        ids = Experiment::ids(root)?;
        if measured && flags.quick && QUICK_ON_GPU.iter().all(|quick| ids.iter().any(|id| id == quick)) {
            ids = QUICK_ON_GPU.map(str::to_owned).to_vec();
        }
    }
    let mut experiments: Vec<Experiment> = Vec::new();
    for id in ids {
        let mut experiment = Experiment::load(root, &id, flags.size())?;
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

/// Copies the GPU model into the run folder: a run is read where the repository is not, or is another version.
fn keep_machine(root: &Root, flags: &Reproduce, folder: &Path) -> Result<()> {
    let model = root.machine(flags.machine.name());
    let bytes = bounded::bytes(&model, bounded::DEFINITION)
        .with_context(|| format!("cannot read {}", model.display()))?;
    files::write_atomically(&folder.join("machine.toml"), &bytes)
}

/// The recordings that the experiments of one run share.
fn profile_set(experiments: &[Experiment]) -> Result<ProfileSet> {
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

/// The rows of this run, and those of tables that an earlier one left in the folder: a claim may need several experiments.
fn with_earlier_tables(claims: &[Claim], folder: &Path, tables: &[(&Experiment, Vec<Row>)]) -> Vec<Row> {
    let mut rows: Vec<Row> = tables.iter().flat_map(|(_, rows)| rows).cloned().collect();
    let wanted: BTreeSet<&String> = claims.iter().flat_map(|claim| &claim.experiments).collect();
    for id in wanted {
        let path = folder.join(format!("{id}.csv"));
        if tables.iter().any(|(experiment, _)| experiment.id == *id) || !path.is_file() {
            continue;
        }
        match summary::read_csv(&path) {
            Ok(earlier) => rows.extend(earlier),
            Err(error) => say(&format!("an earlier table is not judged: {error:#}\n")),
        }
    }
    rows
}
