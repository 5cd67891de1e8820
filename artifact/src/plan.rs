//! From experiments to cells: which, in which order, and at what cost.

mod kinds;

use crate::cell::{Cell, Kind, Span};
use crate::experiment::Experiment;
use crate::gpu::START_SECONDS;
use crate::library::Library;
use crate::traffic;
use anyhow::{Result, ensure};
use flags::Size;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A closed loop needs no more: upstream's rule keeps at most the last 5,000 of the second half.
const CLOSED_LOOP_REQUESTS: u64 = 10_000;

/// Share of the device's memory that the two jobs of a pair may need together; upstream's limit.
const MEMORY_PERCENT: u64 = 99;

/// The cells of a run, each once, and the tables made of them.
pub struct Plan {
    pub cells: Vec<Cell>,
    pub tables: Vec<Table>,
}

/// One experiment's table.
pub struct Table {
    pub experiment: Experiment,
    pub rows: Vec<Planned>,
}

/// One row: a cell and the cells that its ratios refer to, as indices into [`Plan::cells`].
#[derive(Clone, Debug)]
pub struct Planned {
    pub cell: usize,
    /// Why the cell is not run.
    pub skip: Option<String>,
    pub solo_stream: Option<usize>,
    pub solo_paced: Option<usize>,
    pub solo_training: Option<usize>,
}

impl Plan {
    /// Plans experiments in their order.
    ///
    /// # Errors
    /// A cell that is too short for its system to leave its start-up.
    pub fn new(experiments: Vec<Experiment>, library: &Library) -> Result<Plan> {
        let mut plan = Plan { cells: Vec::new(), tables: Vec::new() };
        for experiment in experiments {
            let rows = plan.rows(&experiment, library)?;
            plan.tables.push(Table { experiment, rows });
        }
        Ok(plan)
    }

    /// Marks the cells that cannot be run, with the reason.
    pub fn skip(&mut self, why: impl Fn(&Cell) -> Option<String>) {
        for row in self.tables.iter_mut().flat_map(|table| &mut table.rows) {
            row.skip = row.skip.take().or_else(|| why(&self.cells[row.cell]));
        }
    }

    fn rows(&mut self, e: &Experiment, library: &Library) -> Result<Vec<Planned>> {
        if let Some(cells) = kinds::cells(e)? {
            return Ok(cells.into_iter().map(|cell| self.row(cell, library)).collect());
        }
        let mut pairs = Vec::new();
        for seed in &e.seeds {
            for load in &e.loads {
                for inference in &e.inference {
                    for training in &e.training {
                        for system in e.systems.iter().filter(|system| *system != "no-sharing") {
                            pairs.push(Cell {
                                kind: Kind::Pair,
                                system: system.clone(),
                                inference: Some(inference.clone()),
                                training: Some(training.clone()),
                                load: Some(*load),
                                source: Some(e.source),
                                seed: *seed,
                                span: span_for(system, e)?,
                                base: e.span,
                            });
                        }
                    }
                }
            }
        }
        // The solo cells of servers and trainings that have no pair are wanted too.
        let mut solos = [Vec::new(), Vec::new(), Vec::new()];
        let mut add = |list: usize, cell: Option<Cell>| {
            if let Some(cell) = cell
                && !solos[list].contains(&cell)
            {
                solos[list].push(cell);
            }
        };
        for seed in &e.seeds {
            for load in &e.loads {
                for inference in &e.inference {
                    for training in &e.training {
                        let base = Cell {
                            kind: Kind::Pair,
                            system: "no-sharing".to_owned(),
                            inference: Some(inference.clone()),
                            training: Some(training.clone()),
                            load: Some(*load),
                            source: Some(e.source),
                            seed: *seed,
                            span: e.span,
                            base: e.span,
                        };
                        add(0, base.solo_stream());
                        add(1, base.solo_training());
                        add(2, base.solo_paced());
                        for system in &e.alone {
                            add(2, base.solo_paced().map(|cell| Cell { system: system.clone(), ..cell }));
                        }
                    }
                }
            }
        }
        for pair in &pairs {
            add(2, pair.solo_paced());
        }
        let all: Vec<Cell> = solos.into_iter().flatten().chain(pairs).collect();
        Ok(all.into_iter().map(|cell| self.row(cell, library)).collect())
    }

    fn row(&mut self, cell: Cell, library: &Library) -> Planned {
        let (stream, paced, training) = (cell.solo_stream(), cell.solo_paced(), cell.solo_training());
        let is_paced = cell.is_paced();
        let skip = too_large(&cell, library);
        Planned {
            skip,
            solo_stream: stream.map(|c| self.index(c)),
            solo_paced: paced.filter(|_| is_paced).map(|c| self.index(c)),
            solo_training: training.map(|c| self.index(c)),
            cell: self.index(cell),
        }
    }

    fn index(&mut self, cell: Cell) -> usize {
        self.cells.iter().position(|known| *known == cell).unwrap_or_else(|| {
            self.cells.push(cell);
            self.cells.len() - 1
        })
    }

    /// The plan with its cost as text, for `--list`.
    pub fn list(&self, library: &Library, jobs: usize) -> String {
        let mut text = String::new();
        for table in &self.tables {
            let e = &table.experiment;
            let _ = writeln!(text, "{}{}: {}\n  {}", e.id, e.size_note(), e.title, e.reason);
            let _ = writeln!(
                text,
                "  {:>4}  {:13} {:21} {:22} {:24} {:>5} {:>4} {:>10} {:>8}",
                "cell",
                "kind",
                "system",
                "inference",
                "training",
                "load",
                "seed",
                if library.measured { "span" } else { "simulated" },
                "wall"
            );
            for row in &table.rows {
                let cell = &self.cells[row.cell];
                let blank = String::new();
                let (mut simulated, mut wall) = ("-".to_owned(), "-".to_owned());
                if let Some(seconds) = simulated_seconds(cell, library).filter(|_| row.skip.is_none()) {
                    simulated = format!("{seconds:.0} s");
                    wall = format!("{:.1} s", wall_seconds(cell, library).unwrap_or_default());
                }
                let _ = writeln!(
                    text,
                    "  {:>4}  {:13} {:21} {:22} {:24} {:>5} {:>4} {:>10} {:>8}{}",
                    row.cell + 1,
                    cell.kind.name(),
                    cell.system,
                    cell.inference.as_ref().unwrap_or(&blank),
                    company(cell).as_ref().unwrap_or(&blank),
                    cell.load.map(|load| load.to_string()).unwrap_or_default(),
                    cell.seed,
                    simulated,
                    wall,
                    row.skip.as_ref().map(|reason| format!("  skipped: {reason}")).unwrap_or_default(),
                );
            }
        }
        text + &self.cost(library, jobs)
    }

    /// The cost of the plan as a line of text.
    pub fn cost(&self, library: &Library, jobs: usize) -> String {
        let (mut simulated, mut wall) = (0.0, 0.0);
        let rows = self.tables.iter().flat_map(|table| &table.rows);
        let skipped: BTreeSet<usize> = rows.filter(|row| row.skip.is_some()).map(|row| row.cell).collect();
        for (_, cell) in self.cells.iter().enumerate().filter(|(index, _)| !skipped.contains(index)) {
            if let Some(seconds) = simulated_seconds(cell, library) {
                simulated += seconds;
                wall += wall_seconds(cell, library).unwrap_or_default();
            }
        }
        let jobs = if library.measured { 1 } else { jobs };
        let minutes = wall / jobs as f64 / 60.0;
        let about = match minutes {
            m if m < 120.0 => format!("{m:.1} minutes"),
            m => format!("{:.1} hours", m / 60.0),
        };
        if library.measured {
            return format!(
                "{} cells, {} of them run, {simulated:.0} seconds of measuring; about {about}, one at a time ({START_SECONDS} s to \
                 start and warm up each program; a cell that is stored already costs nothing)\n",
                self.cells.len(),
                self.cells.len() - skipped.len()
            );
        }
        format!(
            "{} cells, {simulated:.0} simulated seconds; about {about} with {jobs} at a time (estimated from rates \
             measured on one core; a cell that is stored already costs nothing)\n",
            self.cells.len()
        )
    }
}

/// The span of a cell under this system.
fn span_for(system: &str, e: &Experiment) -> Result<Span> {
    let settles = sim::System::parse(system)?.entry().settles_s;
    if e.span.min_seconds >= settles {
        return Ok(e.span);
    }
    // A quick run is short by design and lengthens these cells; a full one must say what it means.
    ensure!(
        e.size == Size::Quick,
        "{}: span.min_seconds = {} is too short for `{system}`, which needs {settles} s to leave its start-up",
        e.id,
        e.span.min_seconds
    );
    Ok(Span { min_seconds: settles, ..e.span })
}

/// Who runs beside the high-priority server.
fn company(cell: &Cell) -> Option<String> {
    match cell.kind {
        Kind::Crowd { clients, pattern } => {
            let others = clients - 1;
            Some(format!("{others} server{}, {}", if others == 1 { "" } else { "s" }, pattern.name()))
        }
        _ => cell.training.clone(),
    }
}

fn too_large(cell: &Cell, library: &Library) -> Option<String> {
    let memory = |id: &Option<String>| Some(library.program(id.as_deref()?).ok()?.memory_bytes);
    let (server, who) = (memory(&cell.inference)?, "the two jobs");
    let (together, who) = match cell.kind {
        Kind::Crowd { clients, .. } => (server.checked_mul(u64::from(clients))?, "the servers"),
        _ => (server.checked_add(memory(&cell.training)?)?, who),
    };
    let device = library.machine.memory_bytes;
    (u128::from(together) * 100 > u128::from(device) * u128::from(MEMORY_PERCENT)).then(|| {
        format!(
            "does not fit: {who} need {:.1} GiB of the device's {:.1} GiB",
            together as f64 / (1u64 << 30) as f64,
            device as f64 / (1u64 << 30) as f64
        )
    })
}

/// How many requests a closed loop serves: enough for the span, within what upstream's rule looks at.
pub fn closed_loop_requests(cell: &Cell, mean_ns: u64) -> u64 {
    let in_span = cell.span.min_seconds * 1_000_000_000 / mean_ns.max(1);
    in_span.clamp(cell.span.min_requests, CLOSED_LOOP_REQUESTS.max(cell.span.min_requests))
}

/// How long a cell is in simulated time, from the recorded mean duration of a request; `None` without a profile.
pub fn simulated_seconds(cell: &Cell, library: &Library) -> Option<f64> {
    let Some(id) = &cell.inference else {
        return Some(cell.span.min_seconds as f64);
    };
    let mean_ns = library.program(id).ok()?.unprofiled_mean_ns;
    Some(match cell.kind {
        Kind::SoloStream => (closed_loop_requests(cell, mean_ns) * mean_ns) as f64 / 1e9,
        _ => traffic::span_ns(cell, mean_ns) as f64 / 1e9,
    })
}

/// How long a cell takes: of one core when it is simulated, of the device when it is measured. `None` without a profile.
pub fn wall_seconds(cell: &Cell, library: &Library) -> Option<f64> {
    let seconds = simulated_seconds(cell, library)?;
    if !library.measured {
        return Some(seconds / pace(cell));
    }
    let programs = match cell.kind {
        Kind::SoloStream | Kind::SoloPaced | Kind::SoloTraining => 1.0,
        Kind::Pair | Kind::Timeline => 2.0,
        Kind::Crowd { clients, .. } => f64::from(clients),
    };
    Some(seconds + programs * START_SECONDS)
}

/// As [`rate`] for a cell: every event of a crowd concerns all of its servers.
pub fn pace(cell: &Cell) -> f64 {
    match cell.kind {
        Kind::Crowd { clients, .. } => rate(&cell.system).min(600.0 / f64::from(clients).powi(2)),
        _ => rate(&cell.system),
    }
}

/// Simulated seconds per second of one core, for estimates only: what `cargo xtask bench` says on a 2-core AMD EPYC that
/// others use as well, rounded down. The simulator's cost follows the events on the device, so systems that run both jobs
/// at once cost most.
pub fn rate(system: &str) -> f64 {
    let name = system.split_once(':').map_or(system, |(name, _)| name);
    match name {
        "no-sharing" => 5000.0,
        "tgs" | "tgs-mps" => 3600.0,
        "time-slicing" => 2400.0,
        "gate" | "gate-1" | "gate-cubin" => 1050.0,
        "gate-mps" => 950.0,
        "reef" => 800.0,
        "tally" | "gate-mps-2" => 700.0,
        "orion" => 500.0,
        "gate-mps-8" => 450.0,
        "tally-no-transform" => 350.0,
        "mps" => 110.0,
        "partition" => 55.0,
        // Priorities without scheduling: mps-priority, tally-no-scheduling, tgs-artifact.
        _ => 35.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Load, Pattern, Source};
    use crate::experiment::{Crowd, Form, Intervals};

    fn experiment(systems: &[&str], quick: bool, min_seconds: u64) -> Experiment {
        Experiment {
            id: "x".to_owned(),
            title: "t".to_owned(),
            reason: "r".to_owned(),
            upstream_counterpart: "u".to_owned(),
            default: true,
            expected_minutes: 1.0,
            systems: systems.iter().map(|s| (*s).to_owned()).collect(),
            alone: Vec::new(),
            inference: vec!["a".to_owned()],
            training: vec!["t".to_owned(), "u".to_owned()],
            loads: vec![Load::new(0.5).unwrap()],
            seeds: vec![1],
            source: Source::Poisson,
            profiles: Default::default(),
            span: Span { min_seconds, min_requests: 100 },
            size: if quick { Size::Quick } else { Size::Default },
            form: Form::Pairs,
        }
    }

    fn library() -> Library {
        Library::fake(["a", "t", "u"].into_iter()).unwrap()
    }

    #[test]
    fn cells_of_two_experiments_are_planned_once() {
        let systems = ["no-sharing", "mps", "gate"];
        let plan = Plan::new(
            vec![experiment(&systems, false, 300), experiment(&systems[..2], false, 300)],
            &library(),
        )
        .unwrap();
        // 1 stream, 1 paced, 2 trainings, 2 systems x 2 pairs.
        assert_eq!(plan.cells.len(), 8);
        assert_eq!((plan.tables[0].rows.len(), plan.tables[1].rows.len()), (8, 6));
        for table in &plan.tables {
            for row in &table.rows {
                let cell = &plan.cells[row.cell];
                let kind = |index: Option<usize>| index.map(|i| plan.cells[i].kind);
                if cell.kind == Kind::Pair {
                    assert_eq!(kind(row.solo_stream), Some(Kind::SoloStream));
                    assert_eq!(kind(row.solo_paced), Some(Kind::SoloPaced));
                    assert_eq!(kind(row.solo_training), Some(Kind::SoloTraining));
                }
            }
        }
    }

    #[test]
    fn a_crowd_has_a_cell_for_each_number_of_servers() {
        let mut crowd = experiment(&["mps", "gate"], false, 60);
        crowd.training.clear();
        crowd.form = Form::Crowd(Crowd {
            clients: vec![1, 3],
            patterns: vec![Pattern::Independent, Pattern::Coinciding],
        });
        let plan = Plan::new(vec![crowd], &library()).unwrap();
        // 1 stream, 1 paced, 2 numbers x 2 patterns x 2 systems.
        assert_eq!(plan.cells.len(), 10);
        let last = plan.tables[0].rows.last().unwrap();
        let cell = &plan.cells[last.cell];
        assert_eq!(cell.to_string(), "crowd gate a 3 servers, coinciding arrivals load 0.5 seed 1");
        assert!(last.solo_stream.is_some() && last.solo_paced.is_some() && last.solo_training.is_none());
    }

    #[test]
    fn a_timeline_is_no_pair() {
        let mut timeline = experiment(&["no-sharing", "mps"], false, 60);
        let pairs = timeline.clone();
        let intervals = Intervals { arrivals_seconds: 3, latency_seconds: 10, progress_seconds: 30 };
        timeline.form = Form::Timeline(intervals);
        let plan = Plan::new(vec![timeline, pairs], &library()).unwrap();
        // Both share the solo cells: 1 stream, 1 paced, 2 trainings; each has 2 of its own.
        assert_eq!(plan.cells.len(), 8);
        assert_eq!(plan.cells.iter().filter(|cell| cell.kind == Kind::Timeline).count(), 2);
    }

    #[test]
    fn a_short_tgs_cell_is_refused_or_lengthened() {
        let error = Plan::new(vec![experiment(&["tgs"], false, 60)], &library()).err().unwrap();
        assert!(error.to_string().contains("span.min_seconds = 60"), "{error}");
        let plan =
            Plan::new(vec![experiment(&["tgs", "tgs-artifact", "mps"], true, 30)], &library()).unwrap();
        for row in plan.tables[0].rows.iter().filter(|row| plan.cells[row.cell].kind == Kind::Pair) {
            let cell = &plan.cells[row.cell];
            let seconds = if cell.system == "tgs" { 120 } else { 30 };
            assert_eq!(cell.span.min_seconds, seconds, "{cell}");
            // Normalised to a solo run of the same length.
            assert_eq!(plan.cells[row.solo_paced.unwrap()].span, cell.span);
        }
    }

    #[test]
    fn spans_grow_until_there_are_enough_requests() {
        let cell = Cell {
            kind: Kind::SoloPaced,
            system: "no-sharing".to_owned(),
            inference: Some("a".to_owned()),
            training: None,
            load: Some(Load::new(0.5).unwrap()),
            source: Some(Source::Poisson),
            seed: 1,
            span: Span { min_seconds: 300, min_requests: 1000 },
            base: Span { min_seconds: 300, min_requests: 1000 },
        };
        assert_eq!(traffic::span_ns(&cell, 4_000_000), 300_000_000_000);
        // 1,020 requests of 2 s at load 0.5.
        assert_eq!(traffic::span_ns(&cell, 2_000_000_000), 4_080_000_000_000);
        assert_eq!(closed_loop_requests(&cell, 2_000_000_000), 1000);
        assert_eq!(closed_loop_requests(&cell, 100_000_000), 3000);
        assert_eq!(closed_loop_requests(&cell, 4_000_000), 10_000);
    }

    #[test]
    fn a_pair_that_does_not_fit_is_a_row_and_is_not_run() {
        let mut library = library();
        // Together with `a`, 99 % of the device are exceeded by `u` and just reached by `t`.
        let limit = library.machine.memory_bytes / 100 * 99;
        library.set_memory("a", 1 << 30);
        library.set_memory("t", limit - (1 << 30));
        library.set_memory("u", limit);
        let plan = Plan::new(vec![experiment(&["mps", "gate"], false, 300)], &library).unwrap();
        let skipped: Vec<(String, String)> = (plan.tables[0].rows.iter())
            .filter_map(|row| Some((plan.cells[row.cell].to_string(), row.skip.clone()?)))
            .collect();
        let cells: Vec<&str> = skipped.iter().map(|(cell, _)| cell.as_str()).collect();
        assert_eq!(cells, ["pair mps a u load 0.5 seed 1", "pair gate a u load 0.5 seed 1"]);
        assert!(skipped[0].1.starts_with("does not fit: the two jobs need "), "{skipped:?}");
        assert!(plan.list(&library, 2).contains("skipped: does not fit"));
        // The row says so and has no numbers; the other cells have results.
        let folder = tempfile::tempdir().unwrap();
        let traffic = traffic::Traffic::new(&crate::root::Root::at(folder.path()));
        let store = crate::store::Store::open(folder.path()).unwrap();
        let fake = crate::executor::Fake { cell_time: Default::default(), fail: None, slower: 0 };
        let (finished, tally) = crate::run::Run::new(&plan, &library, &traffic, &fake, &store).all().unwrap();
        assert_eq!((tally.skipped, tally.failed, tally.executed), (2, 0, plan.cells.len() - 2));
        let rows = crate::summary::rows(&plan, &plan.tables[0], &finished, "fake", "fake");
        for row in rows.iter().filter(|row| row.status == "skipped") {
            assert_eq!((row.training.as_str(), row.error.as_str()), ("u", skipped[0].1.as_str()));
            assert_eq!((row.requests, row.upstream_p99_ms, row.be_norm), (None, None, None));
        }
        assert_eq!(rows.iter().filter(|row| row.status == "skipped").count(), 2);
    }

    #[test]
    fn the_list_names_every_cell_and_the_cost() {
        let library = library();
        let text = Plan::new(vec![experiment(&["mps"], false, 300)], &library).unwrap().list(&library, 2);
        for expected in ["solo-stream", "solo-paced", "solo-training", "pair", "mps", "minutes"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }
}
