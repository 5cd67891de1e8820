//! Runs the cells of a plan: first those that need nothing, then those whose arrivals depend on them.

use crate::cell::{Cell, Kind};
use crate::executor::{Answer, Executor};
use crate::key::{Inputs, Parts};
use crate::library::{Library, one_line};
use crate::measures::{Measures, Record};
use crate::plan::{self, Plan};
use crate::progress::Progress;
use crate::samples;
use crate::store::{Store, Stored};
use crate::summary::Finished;
use crate::traffic::{self, Traffic};
use anyhow::{Context, Result, anyhow, ensure};
use rayon::prelude::*;
use sim::{BestEffort, Scenario, System};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What a run needs.
pub struct Run<'a> {
    pub plan: &'a Plan,
    pub library: &'a Library,
    pub traffic: &'a Traffic,
    pub executor: &'a dyn Executor,
    pub store: &'a Store,
    pub progress: Progress,
    tally: Mutex<Tally>,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Found in the run folder.
    pub stored: usize,
    pub executed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// By system: simulated seconds, and the seconds that took on one core.
    pub pace: BTreeMap<String, (f64, f64)>,
}

impl Tally {
    /// Adds what another run did.
    pub fn add(&mut self, other: Tally) {
        self.stored += other.stored;
        self.executed += other.executed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        for (system, (simulated, wall)) in other.pace {
            let pace = self.pace.entry(system).or_default();
            pace.0 += simulated;
            pace.1 += wall;
        }
    }
}

impl<'a> Run<'a> {
    /// Prepares a run; nothing is executed yet.
    pub fn new(
        plan: &'a Plan,
        library: &'a Library,
        traffic: &'a Traffic,
        executor: &'a dyn Executor,
        store: &'a Store,
    ) -> Run<'a> {
        let cost = plan.cells.iter().map(|cell| cost(cell, library)).sum();
        let progress = Progress::new(plan.cells.len(), cost);
        Run { plan, library, traffic, executor, store, progress, tally: Mutex::default() }
    }

    /// Runs every cell on the current thread pool. The result of a cell does not depend on the order.
    ///
    /// # Errors
    /// The run folder cannot be written. A cell that fails is no error here but a [`Finished::Failed`].
    pub fn all(&self) -> Result<(Vec<Finished>, Tally)> {
        let skip: BTreeMap<usize, &String> = (self.plan.tables.iter())
            .flat_map(|table| &table.rows)
            .filter_map(|row| Some((row.cell, row.skip.as_ref()?)))
            .collect();
        let cells: Vec<(usize, &Cell)> = self.plan.cells.iter().enumerate().collect();
        let (later, first): (Vec<_>, Vec<_>) = cells.into_iter().partition(|(_, cell)| cell.is_paced());
        let mut finished: Vec<Option<Finished>> = vec![None; self.plan.cells.len()];
        for mut phase in [first, later] {
            // The longest first, so that no thread is left with one at the end. On a device there is one, and baselines come
            // first, as planned.
            if !self.library.measured {
                phase.sort_by(|a, b| cost(b.1, self.library).total_cmp(&cost(a.1, self.library)));
            }
            let done = phase
                .into_iter()
                .par_bridge()
                .map(|(index, cell)| Ok((index, self.one(cell, skip.get(&index).copied(), &finished)?)))
                .collect::<Result<Vec<_>>>()?;
            for (index, result) in done {
                finished[index] = Some(result);
            }
        }
        let finished =
            finished.into_iter().map(|f| f.context("a cell was not run")).collect::<Result<_>>()?;
        Ok((finished, self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }

    fn count(&self, change: impl FnOnce(&mut Tally)) {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn one(&self, cell: &Cell, skip: Option<&String>, finished: &[Option<Finished>]) -> Result<Finished> {
        let (result, stored) = match skip {
            Some(reason) => {
                self.count(|tally| tally.skipped += 1);
                (Finished::Skipped(reason.clone()), false)
            }
            None => match self.solo_mean_ns(cell, finished).and_then(|mean| self.prepare_and_run(cell, mean))
            {
                Ok(done) => done?,
                Err(error) => (Finished::Failed { key: String::new(), error: one_line(&error) }, false),
            },
        };
        if let Finished::Failed { error, .. } = &result {
            self.count(|tally| tally.failed += 1);
            self.progress.note(&format!("failed: {cell}: {error}"));
        }
        self.progress.finish(&cell.to_string(), cost(cell, self.library), stored);
        Ok(result)
    }

    /// Mean latency of the server alone, which shapes the arrivals; for unpaced cells a value that is not used.
    fn solo_mean_ns(&self, cell: &Cell, finished: &[Option<Finished>]) -> Result<u64> {
        if !cell.is_paced() {
            return Ok(0);
        }
        let wanted = cell.solo_stream();
        let solo = self.plan.cells.iter().position(|known| Some(known) == wanted.as_ref());
        match solo.and_then(|solo| finished[solo].as_ref()) {
            Some(Finished::Ok(measures)) => {
                measures.truncated_mean_ns.context("the server's solo run served no request")
            }
            Some(Finished::Failed { error, .. }) => Err(anyhow!("the server's solo run failed: {error}")),
            _ => Err(anyhow!("the server's solo run is not in the plan")),
        }
    }

    /// The outer error is the cell's, the inner one the run's.
    fn prepare_and_run(&self, cell: &Cell, solo_mean_ns: u64) -> Result<Result<(Finished, bool)>> {
        let system = System::parse(&cell.system)?;
        let program = |id: &Option<String>| id.as_deref().map(|id| self.library.program(id)).transpose();
        let (inference, training) = (program(&cell.inference)?, program(&cell.training)?);
        let mut lists = match (cell.kind, cell.source, cell.load) {
            (Kind::Crowd { clients, pattern }, Some(source), Some(load)) => {
                self.traffic.crowd(cell, (clients, pattern), source, load, solo_mean_ns)?
            }
            (_, Some(source), Some(load)) if cell.is_paced() => {
                vec![self.traffic.arrivals(cell, source, load, solo_mean_ns)?]
            }
            _ => Vec::new(),
        }
        .into_iter();
        let (arrivals, peers) = (lists.next(), lists.collect::<Vec<_>>());
        let closed_loop = match (cell.kind, inference) {
            (Kind::SoloStream, Some(program)) => {
                Some(plan::closed_loop_requests(cell, program.unprofiled_mean_ns))
            }
            _ => None,
        };
        let span_ns = match (&arrivals, closed_loop, inference) {
            (Some(arrivals), ..) => arrivals.span_ns,
            // The loop ends with its last request; the span only stops a server that never gets there.
            (None, Some(requests), Some(program)) => requests * program.unprofiled_mean_ns * 4,
            _ => traffic::span_ns(cell, 0),
        };
        let inputs = Inputs::gather(
            cell,
            &Parts {
                backend: self.executor.backend(),
                machine: &self.library.machine,
                system: &system,
                inference,
                training,
                arrivals: arrivals.as_ref(),
                peers: &peers,
                span_ns,
                closed_loop,
                measured: self.executor.inputs(cell)?,
            },
        );
        let high = match (inference, &arrivals, closed_loop) {
            (Some(program), Some(arrivals), _) => Some((program, sim::Traffic::Paced(&arrivals.times_ns))),
            (Some(program), None, Some(requests)) => Some((program, sim::Traffic::ClosedLoop { requests })),
            _ => None,
        };
        let servers = inference.into_iter().flat_map(|program| {
            peers.iter().map(|list| BestEffort::server(program, sim::Traffic::Paced(&list.times_ns)))
        });
        let scenario = Scenario {
            machine: &self.library.machine,
            system: &system,
            high,
            best_effort: training.into_iter().map(BestEffort::from).chain(servers).collect(),
            span_ns,
            seed: cell.seed,
        };
        let planned = arrivals.as_ref().map_or(0, |a| a.times_ns.len() as u64);
        let trace = arrivals.as_ref().map(|a| a.label.clone());
        Ok(self.stored_or_run(cell, &inputs, &scenario, planned, trace))
    }

    fn stored_or_run(
        &self,
        cell: &Cell,
        inputs: &Inputs,
        scenario: &Scenario,
        arrivals: u64,
        trace: Option<String>,
    ) -> Result<(Finished, bool)> {
        let measured =
            |record: &Record| Finished::Ok(Box::new(Measures::of(inputs.key(), record, cell.is_paced())));
        match self.store.read(inputs) {
            Stored::Done(record) => {
                self.count(|tally| tally.stored += 1);
                return Ok((measured(&record), true));
            }
            Stored::Broken(reason) => self.progress.note(&format!("running {cell} again: {reason}")),
            Stored::Failed(_) | Stored::Absent => {}
        }
        let began = Instant::now();
        let result = self.execute(cell, scenario, arrivals, trace);
        match result {
            Ok(record) => {
                self.count(|tally| {
                    tally.executed += 1;
                    let pace = tally.pace.entry(cell.system.clone()).or_default();
                    pace.0 += record.end_ns as f64 / 1e9;
                    pace.1 += began.elapsed().as_secs_f64();
                });
                self.store.write(inputs, Ok(&record))?;
                Ok((measured(&record), false))
            }
            Err(error) => {
                let error = one_line(&error);
                self.store.write(inputs, Err(&error))?;
                Ok((Finished::Failed { key: inputs.key(), error }, false))
            }
        }
    }

    fn execute(
        &self,
        cell: &Cell,
        scenario: &Scenario,
        arrivals: u64,
        trace: Option<String>,
    ) -> Result<Record> {
        // A broken invariant in one cell must not take the others with it.
        let Answer { outcome, runtime } = catch_unwind(AssertUnwindSafe(|| {
            self.executor.run(cell, scenario)
        }))
        .unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(anyhow!("the {} backend stopped with a broken invariant: {text}", self.executor.backend()))
        })?;
        for requests in std::iter::once(&outcome.requests).chain(&outcome.best_effort_requests) {
            samples::check(requests).context("the backend's answer")?;
        }
        ensure!(
            scenario.high.is_none() || !outcome.requests.is_empty(),
            "no request was completed in {} s, so there is nothing to report",
            outcome.end_ns / 1_000_000_000
        );
        let is_crowd = matches!(cell.kind, Kind::Crowd { .. });
        Ok(Record {
            trace,
            span_ns: scenario.span_ns,
            end_ns: outcome.end_ns,
            arrivals,
            requests: outcome.requests,
            best_effort: cell.training.as_ref().and(outcome.best_effort.first().copied()),
            peers: if is_crowd { outcome.best_effort_requests } else { Vec::new() },
            iteration_ends: match (cell.kind, outcome.iteration_ends.into_iter().next()) {
                (Kind::Timeline, Some(ends)) => ends,
                _ => Vec::new(),
            },
            runtime: runtime.map(Box::new),
        })
    }
}

/// Estimated seconds on one core, or on the device.
fn cost(cell: &Cell, library: &Library) -> f64 {
    plan::wall_seconds(cell, library).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Load, Source, Span};
    use crate::executor::{Answer, Fake};
    use crate::experiment::{Experiment, Form};
    use crate::root::Root;
    use sim::{Outcome, Request};
    use std::collections::HashMap;

    /// Answers wrongly, each cell in its own way.
    struct Wrong;

    impl Executor for Wrong {
        fn backend(&self) -> &'static str {
            "fake"
        }

        fn run(&self, cell: &Cell, scenario: &Scenario) -> Result<Answer> {
            let request = |start_ns| Request { arrival_ns: start_ns, start_ns, end_ns: start_ns + 1_000_000 };
            let requests = match (cell.kind, cell.system.as_str()) {
                (Kind::Pair, "mps") => Vec::new(),
                (Kind::Pair, "tally") => vec![request(5), request(0)],
                (Kind::Pair, "gate") => panic!("a queue of {} lost a kernel", cell.system),
                (Kind::SoloTraining, _) => Vec::new(),
                _ => vec![request(0)],
            };
            Ok(Outcome {
                requests,
                best_effort: Vec::new(),
                best_effort_requests: Vec::new(),
                iteration_ends: Vec::new(),
                end_ns: scenario.span_ns,
                counters: Default::default(),
            }
            .into())
        }
    }

    /// A server alone whose mean depends on the length of its run. Keeps the arrivals that it was given.
    #[derive(Default)]
    struct ByLength(Mutex<HashMap<Cell, Vec<u64>>>);

    impl Executor for ByLength {
        fn backend(&self) -> &'static str {
            "fake"
        }

        fn run(&self, cell: &Cell, scenario: &Scenario) -> Result<Answer> {
            if let Some((_, sim::Traffic::Paced(times))) = &scenario.high {
                self.0.lock().unwrap().insert(cell.clone(), times.to_vec());
            }
            let slower = if cell.kind == Kind::SoloStream { cell.span.min_seconds } else { 0 };
            Fake { cell_time: Default::default(), fail: None, slower }.run(cell, scenario)
        }
    }

    fn experiment(systems: &[&str], min_seconds: u64) -> Experiment {
        Experiment {
            id: "x".to_owned(),
            title: String::new(),
            reason: String::new(),
            upstream_counterpart: String::new(),
            default: true,
            expected_minutes: 1.0,
            systems: systems.iter().map(|system| (*system).to_owned()).collect(),
            alone: Vec::new(),
            inference: vec!["a".to_owned()],
            training: vec!["t".to_owned()],
            loads: vec![Load::new(0.5).unwrap()],
            seeds: vec![1],
            source: Source::Poisson,
            profiles: Default::default(),
            span: Span { min_seconds, min_requests: 100 },
            size: flags::Size::Quick,
            form: Form::Pairs,
        }
    }

    /// Key and arrivals of every cell.
    fn keys_and_arrivals(experiments: Vec<Experiment>) -> HashMap<Cell, (String, Option<Vec<u64>>)> {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::fake(["a", "t"].into_iter()).unwrap();
        let plan = Plan::new(experiments, &library).unwrap();
        let traffic = Traffic::new(&Root::at(folder.path()));
        let store = Store::open(folder.path()).unwrap();
        let executor = ByLength::default();
        let (finished, _) = Run::new(&plan, &library, &traffic, &executor, &store).all().unwrap();
        let mut arrivals = executor.0.into_inner().unwrap();
        let each = plan.cells.into_iter().zip(finished).map(|(cell, finished)| match finished {
            Finished::Ok(measures) => {
                let times = arrivals.remove(&cell);
                (cell, (measures.key, times))
            }
            other => panic!("{cell}: {other:?}"),
        });
        each.collect()
    }

    #[test]
    fn what_else_runs_changes_no_cell() {
        // TGS settles for 120 s, so that its cells last as long in both, after solo runs of 30 s and of 120 s.
        let (short, long) = (experiment(&["tgs", "mps"], 30), experiment(&["tgs", "mps"], 120));
        let alone = [keys_and_arrivals(vec![short.clone()]), keys_and_arrivals(vec![long.clone()])];
        for together in [vec![short.clone(), long.clone()], vec![long, short]] {
            let together = keys_and_arrivals(together);
            for (cell, expected) in alone.iter().flatten() {
                assert_eq!(together[cell], *expected, "{cell}");
            }
        }
        let tgs = |of: &HashMap<Cell, (String, Option<Vec<u64>>)>| {
            let (cell, (key, times)) = of.iter().find(|(cell, _)| cell.system == "tgs").unwrap();
            (cell.span, key.clone(), times.clone().unwrap())
        };
        let [short, long] = alone.each_ref().map(tgs);
        assert_eq!(short.0, long.0);
        assert!(short.1 != long.1 && short.2 != long.2, "the solo runs shape the arrivals");
    }

    #[test]
    fn a_wrong_answer_is_the_failure_of_its_cell_alone() {
        let experiment = experiment(&["mps", "tally", "gate", "time-slicing"], 1);
        let folder = tempfile::tempdir().unwrap();
        let library = Library::fake(["a", "t"].into_iter()).unwrap();
        let plan = Plan::new(vec![experiment], &library).unwrap();
        let traffic = Traffic::new(&Root::at(folder.path()));
        let store = Store::open(folder.path()).unwrap();
        let (finished, tally) = Run::new(&plan, &library, &traffic, &Wrong, &store).all().unwrap();
        assert_eq!((tally.executed, tally.failed), (4, 3));
        for (system, expected) in [
            ("mps", "no request was completed"),
            ("tally", "request 1: arrival 0 ns, start 0 ns, end 1000000 ns, after an end at 1000005 ns"),
            ("gate", "broken invariant: a queue of gate lost a kernel"),
        ] {
            let is_it = |cell: &Cell| cell.kind == Kind::Pair && cell.system == system;
            match &finished[plan.cells.iter().position(is_it).unwrap()] {
                Finished::Failed { error, .. } => assert!(error.contains(expected), "{error}"),
                other => panic!("{system}: {other:?}"),
            }
        }
    }
}
