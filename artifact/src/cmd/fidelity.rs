//! `artifact fidelity`: simulated slowdowns beside known ones, and what the conclusions owe to single constants.

use super::reproduce::default_jobs;
use super::{CELLS_FAILED, say};
use crate::executor::Simulator;
use crate::experiment::Experiment;
use crate::fidelity::score::{self, Pair, Score};
use crate::fidelity::sensitivity::{self, Line};
use crate::fidelity::split::{Role, Split};
use crate::fidelity::truth::Truth;
use crate::fidelity::{report, truth};
use crate::library::{Library, RECORDED_ON};
use crate::plan::Plan;
use crate::root::Root;
use crate::run::{Run, Tally};
use crate::runinfo::{Invocation, RunInfo};
use crate::store::Store;
use crate::summary::{self, Row};
use crate::traffic::Traffic;
use crate::{files, h200_check, progress, sums};
use anyhow::{Context, Result, ensure};
use flags::{Fidelity, Size};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;
use workloads::profile::ProfileSet;

/// The experiment with the published pairs.
const EXPERIMENT: &str = "a100-check";

/// The GPU of the published rows.
const PUBLISHED_ON: &str = "a100";

/// The systems that the published TGS rows are not of: they are shown beside the rows of the port.
const TGS: &str = "a100-check-tgs";

/// The port.
const PORT: &str = "tgs-artifact";

/// Everything that the parts of the verb share.
struct Session<'a> {
    root: &'a Root,
    store: &'a Store,
    traffic: &'a Traffic,
    folder: &'a Path,
    size: Size,
    list: bool,
    jobs: usize,
    tally: Tally,
    seconds: f64,
    experiments: Vec<Experiment>,
}

impl Session<'_> {
    /// Simulates an experiment, or tells what it would cost.
    fn simulate(&mut self, what: &str, experiment: &Experiment, library: &Library) -> Result<Vec<Row>> {
        let plan = Plan::new(vec![experiment.clone()], library)?;
        if self.list {
            say(&format!("{what}: {}", plan.list(library, self.jobs).lines().last().unwrap_or_default()));
            say("\n");
            return Ok(Vec::new());
        }
        let run = Run::new(&plan, library, self.traffic, &Simulator, self.store);
        run.progress.note(&format!("{what}: {} cells", plan.cells.len()));
        let (finished, tally) = run.all()?;
        self.tally.add(tally);
        let table = plan.tables.first().context("one experiment has one table")?;
        Ok(summary::rows(&plan, table, &finished, "sim", &library.machine_label))
    }

    fn keep(&self, name: &str, rows: &[Row]) -> Result<()> {
        if self.list {
            return Ok(());
        }
        files::write_atomically(&self.folder.join(format!("{name}.csv")), &summary::to_csv(rows)?)
    }

    fn experiment(&mut self, id: &str) -> Result<Experiment> {
        let experiment = Experiment::load(self.root, id, self.size)?;
        self.experiments.push(experiment.clone());
        Ok(experiment)
    }
}

/// Runs the verb; the exit code.
///
/// # Errors
/// Bad definitions or reference values, and a folder that cannot be written or, with `--measured`, read.
pub fn run(flags: &Fidelity) -> Result<u8> {
    let began = Instant::now();
    let root = Root::find()?;
    let split = Split::load(&root)?;
    let measured_run = flags.measured.as_deref().map(measured_run).transpose()?;
    let folder = flags.folder();
    let scratch;
    // A plan needs no folder.
    let store_at = if flags.list {
        scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
        scratch.path()
    } else {
        folder.as_path()
    };
    let store = Store::open(store_at)?;
    let traffic = Traffic::new(&root);
    let jobs = flags.jobs.map_or_else(default_jobs, usize::from);
    let mut session = Session {
        root: &root,
        store: &store,
        traffic: &traffic,
        folder: &folder,
        size: if flags.quick { Size::Quick } else { Size::Default },
        list: flags.list,
        jobs,
        tally: Tally::default(),
        seconds: 0.0,
        experiments: Vec::new(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().context("cannot start threads")?;
    let mut notes = Vec::new();
    let (pairs, scores, lines) = pool.install(|| -> Result<_> {
        let mut pairs = published(&mut session, &split, &mut notes)?;
        pairs.extend(measured(&mut session, &split)?);
        if let Some((folder, info)) = &measured_run {
            pairs.extend(beside_folder(&mut session, folder, &info.size)?);
        }
        let scores: Vec<Score> = groups(&pairs).into_iter().flat_map(score::scores).collect();
        Ok((pairs, scores, vary(&mut session)?))
    })?;
    if flags.list {
        return Ok(0);
    }
    session.seconds = began.elapsed().as_secs_f64();
    write(&session, &pairs, &scores, &lines, &notes)?;
    Ok(if session.tally.failed > 0 { CELLS_FAILED } else { 0 })
}

/// The published pairs, with each set of recordings that is there.
fn published(session: &mut Session, split: &Split, notes: &mut Vec<String>) -> Result<Vec<Pair>> {
    let (experiment, tgs) = (session.experiment(EXPERIMENT)?, session.experiment(TGS)?);
    let truths = truth::published()?;
    let of_port: Vec<_> = truths.iter().filter(|truth| truth.system == PORT).cloned().collect();
    let mut pairs = Vec::new();
    for set in [ProfileSet::Artifact, ProfileSet::Stock] {
        let jobs = experiment.inference.iter().chain(&experiment.training).map(String::as_str);
        let library = Library::load_set(session.root, PUBLISHED_ON, set, jobs)?;
        if let Some(why) = library.missing() {
            notes.push(format!("The published rows were not compared with {set} profiles: {why}"));
            continue;
        }
        let set = set.to_string();
        let rows = session.simulate(&format!("published pairs, {set} profiles"), &experiment, &library)?;
        session.keep(&format!("published-{set}"), &rows)?;
        pairs.extend(beside(&truths, &truth::of_table(&rows, 1), &set, |t| {
            split.role(t.source, &t.system, &t.inference, &t.training)
        }));
        let rows = session.simulate(&format!("TGS, {set} profiles"), &tgs, &library)?;
        session.keep(&format!("published-tgs-{set}"), &rows)?;
        for system in &tgs.systems {
            let own = truth::of_table(&rows, 1).into_iter().filter(|truth| truth.system == *system);
            let own: Vec<_> = own.map(|truth| Truth { system: PORT.to_owned(), ..truth }).collect();
            let shown = beside(&of_port, &own, &set, |_| Role::Finding).into_iter();
            pairs.extend(shown.map(|pair| Pair { simulated_system: system.clone(), ..pair }));
        }
    }
    Ok(pairs)
}

/// The cells that were measured on the recording machine. Their baseline is the paced server alone.
fn measured(session: &mut Session, split: &Split) -> Result<Vec<Pair>> {
    let experiment = session.experiment(h200_check::ID)?;
    let jobs = experiment.inference.iter().chain(&experiment.training).map(String::as_str);
    let library = Library::load(session.root, RECORDED_ON, jobs)?;
    let rows = session.simulate("measured pairs", &experiment, &library)?;
    session.keep(h200_check::ID, &rows)?;
    let alone = rows.iter().find(|row| row.kind == "solo-paced" && row.system == "no-sharing");
    let baseline = alone.and_then(|row| row.service_p99_ns);
    let mut simulated = truth::of_table(&rows, 1);
    for one in &mut simulated {
        let row =
            rows.iter().find(|r| r.kind == "pair" && r.system == one.system && r.training == one.training);
        if let Some((p99, alone)) = row.and_then(|row| row.service_p99_ns).zip(baseline) {
            one.slowdown = p99 / alone;
        }
    }
    let truths = truth::measured(session.root)?;
    Ok(beside(&truths, &simulated, "stock", |t| split.role(t.source, &t.system, &t.inference, &t.training)))
}

/// The folder given with `--measured`, looked at before anything is simulated.
fn measured_run(folder: &Path) -> Result<(&Path, RunInfo)> {
    let info = RunInfo::read(folder)?;
    ensure!(
        info.backend != "sim",
        "{} was simulated (run.toml says so); --measured wants a run of `cargo xtask reproduce --backend gpu`",
        folder.display()
    );
    // The label may name a set of recordings behind the machine.
    let machine = info.machine.split(',').next().unwrap_or_default();
    ensure!(
        machine == RECORDED_ON,
        "{} was measured on `{}` (run.toml says so), but its cells are simulated on `{RECORDED_ON}`, where the kernels were \
         recorded; next: give the folder of a run on that GPU",
        folder.display(),
        info.machine
    );
    Ok((folder, info))
}

/// A run folder measured on the recording machine: its experiments are simulated with the same settings.
fn beside_folder(session: &mut Session, folder: &Path, size: &str) -> Result<Vec<Pair>> {
    let size = [Size::Quick, Size::Default, Size::Full].into_iter().find(|known| known.name() == size);
    let size = size.with_context(|| format!("{}: run.toml has an unknown size", folder.display()))?;
    let mut pairs = Vec::new();
    for id in Experiment::ids(session.root)? {
        let path = folder.join(format!("{id}.csv"));
        if !path.is_file() {
            continue;
        }
        let truths = truth::of_table(&summary::read_csv(&path)?, 1);
        let experiment = Experiment::load(session.root, &id, size)?;
        let jobs = experiment.inference.iter().chain(&experiment.training).map(String::as_str);
        let library = Library::load_set(session.root, RECORDED_ON, experiment.profiles, jobs)?;
        let rows =
            session.simulate(&format!("{id}, as measured in {}", folder.display()), &experiment, &library)?;
        session.keep(&format!("measured-{id}"), &rows)?;
        let set = experiment.profiles.to_string();
        session.experiments.push(experiment);
        pairs.extend(beside(&truths, &truth::of_table(&rows, 1), &set, |_| Role::Validation));
    }
    ensure!(!pairs.is_empty() || session.list, "{} holds no table with pairs", folder.display());
    Ok(pairs)
}

/// Known pairs beside the simulated ones of the same names, load and seed; known pairs that no system was simulated with are
/// left out.
fn beside(truths: &[Truth], simulated: &[Truth], profiles: &str, role: impl Fn(&Truth) -> Role) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (at, truth) in truths.iter().enumerate() {
        let mut cell = simulated.iter().filter(|t| t.same_cell(truth)).peekable();
        if cell.peek().is_none() {
            continue;
        }
        let own = cell.find(|t| t.system == truth.system);
        pairs.push(Pair {
            truth: truth.clone(),
            role: role(truth),
            profiles: profiles.to_owned(),
            simulated_system: truth.system.clone(),
            simulated: own.map(|t| t.slowdown),
            simulated_be: own.and_then(|t| t.be_norm),
            null: score::null(truths, at),
        });
    }
    pairs
}

/// Runs of pairs of one source and set of recordings.
fn groups(pairs: &[Pair]) -> Vec<&[Pair]> {
    let key = |pair: &Pair| (pair.truth.source, pair.profiles.clone());
    pairs.chunk_by(|a, b| key(a) == key(b)).collect()
}

/// `, about ... left` by the pace of the variants after the first, of which `done` are; nothing before there is one.
fn time_left(seconds: f64, done: usize, count: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let left = seconds / done as f64 * (count - 1 - done) as f64;
    format!(", about {} left", progress::time(left))
}

/// Every rule of the recording machine at half and twice its value.
fn vary(session: &mut Session) -> Result<Vec<Line>> {
    let experiment = session.experiment(sensitivity::EXPERIMENT)?;
    let jobs = experiment.inference.iter().chain(&experiment.training).map(String::as_str);
    let library = Library::load_set(session.root, RECORDED_ON, experiment.profiles, jobs)?;
    let rules = sensitivity::rules(&library.machine)?;
    let count = 1 + rules.len() * sensitivity::FACTORS.len();
    let rows = session.simulate(&format!("sensitivity, variant 1 of {count}"), &experiment, &library)?;
    if session.list {
        say(&format!("sensitivity: {count} times that\n"));
        return Ok(Vec::new());
    }
    session.keep("sensitivity-base", &rows)?;
    let base = sensitivity::quantities(&rows);
    let mut lines = Vec::new();
    let mut variant = 1;
    let began = Instant::now();
    for (name, rule) in &rules {
        for factor in sensitivity::FACTORS {
            variant += 1;
            let machine = sensitivity::varied(&library.machine, name, factor)?;
            let value = sensitivity::rules(&machine)?
                .iter()
                .find(|(other, _)| other == name)
                .map_or(f64::NAN, |(_, rule)| rule.value);
            let left = time_left(began.elapsed().as_secs_f64(), variant - 2, count);
            let what = format!("sensitivity, variant {variant} of {count} ({name} x {factor}){left}");
            let rows = session.simulate(&what, &experiment, &library.with_machine(machine))?;
            let own = sensitivity::quantities(&rows);
            lines.extend(sensitivity::lines(
                &library.machine_label,
                (name, rule),
                factor,
                value,
                &base,
                &own,
            ));
        }
    }
    Ok(lines)
}

fn write(
    session: &Session,
    pairs: &[Pair],
    scores: &[Score],
    lines: &[Line],
    notes: &[String],
) -> Result<()> {
    let Session { folder, root, tally, .. } = session;
    let mut text = "# How far the simulator can be trusted\n\nAll slowdowns named `sim` or `simulated` are simulated; the \
                    known ones are published (A100) or were measured (H200). A slowdown is the p99 over the p99 of the \
                    server alone. The error of a system is the median over its pairs of |ln(simulated / known)|; the null \
                    model predicts a pair as the median of the other pairs of the same system and server. Rows with the \
                    role `calibration` set constants of the model, and `finding` rows are beside another system's values: \
                    neither is a test.\n"
        .to_owned();
    for note in notes {
        let _ = write!(text, "\n{note}\n");
    }
    let scores_text = report::scores(scores);
    let sensitivity_text = report::sensitivity(lines);
    let _ = write!(
        text,
        "\n## Scores\n\n{scores_text}\n## Sensitivity\n\nSimulated on {RECORDED_ON}, every rule at half and at twice its value. \
         {sensitivity_text}\n## Pairs\n\n{}",
        report::pairs(pairs)
    );
    for (name, bytes) in [
        ("fidelity.csv", report::csv(scores)?),
        ("fidelity-pairs.csv", report::pairs_csv(pairs)?),
        ("sensitivity.csv", report::csv(lines)?),
        ("fidelity.md", text.into_bytes()),
    ] {
        files::write_atomically(&folder.join(name), &bytes)?;
    }
    let experiments: Vec<&Experiment> = session.experiments.iter().collect();
    let mut invocation =
        Invocation::begin(root, "fidelity always simulates", session.jobs, PUBLISHED_ON, &experiments, None);
    invocation.end(session.seconds, tally, session.traffic.notes());
    RunInfo::append(
        folder,
        &format!("{PUBLISHED_ON} (extrapolated) and {RECORDED_ON}"),
        "sim",
        session.size,
        invocation,
    )?;
    sums::write(folder)?;
    say(&format!(
        "{} cells run, {} were stored, {} skipped, {} failed; {}\n\n{scores_text}\nsensitivity (simulated, {RECORDED_ON}): \
         {sensitivity_text}\n",
        tally.executed,
        tally.stored,
        tally.skipped,
        tally.failed,
        progress::time(session.seconds)
    ));
    for note in notes {
        say(&format!("{note}\n"));
    }
    say(&format!("SIMULATED: all numbers named `sim`; pairs and records in {}\n", folder.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Load;

    fn truth(system: &str, training: &str, slowdown: f64) -> Truth {
        Truth { be_norm: None, ..Truth::published(system, training, slowdown) }
    }

    #[test]
    fn known_pairs_meet_the_simulated_ones_of_their_names() {
        let known = [truth("mps", "t", 2.0), truth("mps", "u", 4.0), truth("tally", "t", 1.1)];
        // Jobs that were not simulated are left out; a system that failed beside simulated jobs is a row without a number.
        let pairs = beside(&known, &[truth("mps", "t", 3.0)], "stock", |_| Role::Validation);
        let found: Vec<_> = pairs.iter().map(|p| (p.truth.system.as_str(), p.simulated, p.null)).collect();
        assert_eq!(found, [("mps", Some(3.0), Some(4.0)), ("tally", None, None)]);
    }

    #[test]
    fn a_pair_meets_the_simulation_of_its_load_and_seed() {
        let at = |slowdown: f64, load: f64, seed| Truth {
            load: Load::new(load).unwrap(),
            seed: Some(seed),
            ..truth("mps", "t", slowdown)
        };
        let known = [at(2.0, 0.1, 1), at(4.0, 0.5, 1), at(5.0, 0.5, 2), at(9.0, 0.9, 1)];
        // In another order, and without the load 0.9.
        let simulated = [at(50.0, 0.5, 2), at(40.0, 0.5, 1), at(20.0, 0.1, 1)];
        let pairs = beside(&known, &simulated, "stock", |_| Role::Validation);
        let found: Vec<_> = pairs.iter().map(|p| (p.truth.slowdown, p.simulated)).collect();
        assert_eq!(found, [(2.0, Some(20.0)), (4.0, Some(40.0)), (5.0, Some(50.0))]);
    }

    #[test]
    fn reference_experiments_have_one_load_and_seed() {
        let root = Root::at(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        // Known pairs without a seed meet whatever seed was simulated, so it must be one.
        for id in [EXPERIMENT, TGS, h200_check::ID] {
            let experiment = Experiment::load(&root, id, Size::Default).unwrap();
            assert_eq!((experiment.loads.len(), experiment.seeds.len()), (1, 1), "{id}");
            assert_eq!(experiment.loads[0].ratio(), h200_check::LOAD, "{id}");
        }
    }

    #[test]
    fn the_time_left_is_that_of_the_variants_left() {
        assert_eq!(time_left(5.0, 0, 11), "");
        // 20 s for 2 of 10 variants.
        assert_eq!(time_left(20.0, 2, 11), format!(", about {} left", progress::time(80.0)));
    }

    #[test]
    fn sets_of_recordings_are_scored_apart() {
        let known = [truth("mps", "t", 2.0)];
        let of = |set| beside(&known, &[truth("mps", "t", 3.0)], set, |_| Role::Validation);
        let pairs: Vec<Pair> = [of("artifact"), of("artifact"), of("stock")].into_iter().flatten().collect();
        assert_eq!(groups(&pairs).iter().map(|group| group.len()).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn only_measurements_on_the_recording_machine_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let write = |machine: &str, backend: &str| {
            let text = format!("machine = \"{machine}\"\nbackend = \"{backend}\"\nsize = \"default\"\n");
            std::fs::write(folder.path().join("run.toml"), text).unwrap();
        };
        write("h200", "sim");
        let error = measured_run(folder.path()).unwrap_err().to_string();
        assert!(error.contains("was simulated") && error.contains("--backend gpu"), "{error}");
        write("a100", "gpu");
        let error = measured_run(folder.path()).unwrap_err().to_string();
        assert!(error.contains("measured on `a100`") && error.contains("`h200`"), "{error}");
        write("h200", "gpu");
        measured_run(folder.path()).unwrap();
    }
}
