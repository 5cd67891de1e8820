//! Latency and throughput of pairs of jobs under each system, and the frontier of the gate.
//!
//! Programs stay alive over the cells of a session ([`plan`]); cells that are in `corun.csv` already are not measured again,
//! so that the part can be spread over several calls with the same `--out`.

pub mod judge;
pub mod plan;
pub mod table;

use crate::machine::{MPS, NO_MPS};
use crate::program::{Tally, Way, main_report, status, until};
use crate::rows::{Outcome, Rows, read, write};
use crate::setup::Setup;
use crate::worker::{Loop, Worker};
use anyhow::{Context, Result, ensure};
use doctor::gpu::on_path;
use flags::Part;
use plan::{Arrivals, Cell, Kind, SERVER, Session, TRAINERS};
use protocol::Priority;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use table::{Process, Row, Stop};
use traces::{Source, Target};

/// Start and warm-up of the programs of a session.
const START: Duration = Duration::from_secs(120);
/// A cell beyond its span: the last request or iteration under heavy contention.
const BEYOND: Duration = Duration::from_secs(30);
/// The utilisation that the server is offered.
const LOAD: f64 = 0.5;
const SEED: u64 = 1;

/// Runs the part.
///
/// # Errors
/// Results cannot be read or written. A cell that fails is a row.
pub fn run(setup: &Setup, rows: &mut Rows) -> Result<()> {
    let mut tables = Tables::open(&setup.out)?;
    for row in tables.cells.iter().filter(|row| row.is_ok()) {
        rows.restore(Part::Corun, &row.cell, Outcome::Measured, row.summary());
    }
    // A dry run is to try the way, not the systems.
    let count = if setup.dry { 3 } else { usize::MAX };
    for (number, session) in plan::sessions().iter().take(count).enumerate() {
        let missing: Vec<Cell> =
            session.cells.iter().filter(|cell| !tables.has(session, cell)).copied().collect();
        if missing.is_empty() {
            continue;
        }
        if session.needs_mps() && !on_path(MPS) {
            rows.add(Part::Corun, session.system(), Outcome::Skipped, NO_MPS)?;
            continue;
        }
        let cut = Session { cells: missing, ..session.clone() };
        if !setup.dry && setup.left().as_secs_f64() < cut.seconds() {
            let text = "the time given is over; the same command with this --out goes on here";
            rows.add(Part::Corun, session.system(), Outcome::Skipped, text)?;
            break;
        }
        if let Err(error) = run_session(setup, rows, &mut tables, &cut, number) {
            let text = format!("{error:#}");
            for cell in &cut.cells {
                if !tables.has(session, cell) {
                    let (status, error) = ("failed".to_owned(), text.clone());
                    tables.put(Row { status, error, ..Row::of(session, cell, "") })?;
                }
            }
            rows.judge(Part::Corun, &format!("{} {}", session.system(), session.repeat), false, text)?;
        }
    }
    judge_all(setup, rows, &tables.cells)
}

/// The part's files.
struct Tables {
    out: PathBuf,
    cells: Vec<Row>,
    stops: Vec<Stop>,
    processes: Vec<Process>,
}

impl Tables {
    fn open(out: &Path) -> Result<Tables> {
        Ok(Tables {
            out: out.to_path_buf(),
            cells: read(&out.join("corun.csv"))?,
            stops: read(&out.join("stops.csv"))?,
            processes: read(&out.join("processes.csv"))?,
        })
    }

    fn has(&self, session: &Session, cell: &Cell) -> bool {
        let name = Row::of(session, cell, "").cell;
        self.cells.iter().any(|row| row.cell == name && row.is_ok())
    }

    fn put(&mut self, row: Row) -> Result<()> {
        self.cells.retain(|old| old.cell != row.cell);
        self.cells.push(row);
        write(&self.out.join("corun.csv"), &self.cells)
    }

    /// Latencies of every request, so that other percentiles can be had later.
    fn keep_samples(&self, cell: &str, done: &Loop) -> Result<()> {
        let path = self.out.join("samples.csv");
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        let mut text = if is_new { "cell,service_ns,end_to_end_ns\n".to_owned() } else { String::new() };
        for (index, service) in done.samples_ns.iter().enumerate() {
            let e2e = done.end_to_end_ns.get(index).map_or(String::new(), u64::to_string);
            text += &format!("\"{cell}\",{service},{e2e}\n");
        }
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Mean service time of the server alone, back to back and without the runtime.
    fn base_ns(&self) -> Option<f64> {
        let closed = |row: &&Row| row.is_ok() && row.kind == "closed";
        self.cells.iter().find(closed).and_then(|row| row.service_mean_ns)
    }

    /// Rate of a best-effort job alone, without the runtime; the mean of the repeats.
    fn alone_hz(&self, trainer: &str) -> Option<f64> {
        let of = |row: &&Row| row.is_ok() && row.kind == "trainer-alone" && row.best_effort == trainer;
        let rates: Vec<f64> = self.cells.iter().filter(of).filter_map(|row| row.be_rate_hz).collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
    }
}

/// The processes of a session.
struct Running {
    dir: PathBuf,
    server: Worker,
    trainers: BTreeMap<&'static str, Worker>,
    reports: BTreeMap<&'static str, PathBuf>,
    substrate: String,
}

fn run_session(
    setup: &Setup,
    rows: &mut Rows,
    tables: &mut Tables,
    session: &Session,
    number: usize,
) -> Result<()> {
    let mut running = start(setup, session, number)?;
    for cell in &session.cells {
        let mut row = Row::of(session, cell, &running.substrate);
        let done = measure(setup, tables, &mut running, cell, &mut row)?;
        row.status = "ok".to_owned();
        if let Some(done) = done {
            tables.keep_samples(&row.cell, &done)?;
        }
        rows.add(Part::Corun, &row.cell, Outcome::Measured, row.summary())?;
        tables.put(row)?;
    }
    end(setup, tables, session, running)
}

fn start(setup: &Setup, session: &Session, number: usize) -> Result<Running> {
    let dir = setup.folder(&format!("s{number}"))?;
    let mut reports = BTreeMap::new();
    let mut begin = |job: &'static str, priority| -> Result<Worker> {
        let report = setup.folder(&format!("reports/s{number}-{job}"))?;
        reports.insert(job, report.clone());
        let tally = session.spec.as_ref().map(|policy| Tally {
            priority,
            policy: policy.clone(),
            dir: dir.clone(),
            report,
            way: Way::Preload,
        });
        Worker::start(setup, &format!("s{number}-{job}"), job, tally.as_ref())
    };
    let mut server = begin(SERVER, Priority::High)?;
    let mut trainers = BTreeMap::new();
    for trainer in session.trainers() {
        trainers.insert(trainer, begin(trainer, Priority::BestEffort)?);
    }
    server.warm(START).context("the server")?;
    for (job, trainer) in &mut trainers {
        trainer.warm(START).context(*job)?;
    }
    let substrate = match &session.spec {
        None => "contexts".to_owned(),
        Some(_) => status(setup, &dir).map(|status| status.substrate).unwrap_or_default(),
    };
    Ok(Running { dir, server, trainers, reports, substrate })
}

/// Fills a row; returns what the server did, if it did anything.
fn measure(
    setup: &Setup,
    tables: &Tables,
    running: &mut Running,
    cell: &Cell,
    row: &mut Row,
) -> Result<Option<Loop>> {
    let seconds = setup.span(plan::span(cell.kind));
    let limit = Duration::from_secs_f64(seconds) + BEYOND;
    let done = match cell.kind {
        Kind::TrainerAlone(trainer) => {
            let worker = running.trainers.get_mut(trainer).context("the session has no such job")?;
            let ticket = worker.closed(seconds)?;
            let done = worker.answer(ticket, limit)?;
            row.span_ns = Some(done.elapsed_ns);
            row.be_rate_hz = done.rate();
            return Ok(None);
        }
        Kind::Closed => {
            let ticket = running.server.closed(seconds)?;
            running.server.answer(ticket, limit)?
        }
        Kind::Alone => {
            let arrivals = arrivals_file(setup, tables, cell.arrivals)?;
            let ticket = running.server.paced(&arrivals, seconds)?;
            running.server.answer(ticket, limit)?
        }
        Kind::Pair(trainer) => pair(setup, tables, running, cell, trainer, row)?,
    };
    row.take_server(&done);
    ensure!(row.n.is_some_and(|n| n > 0), "the server served no request");
    Ok(Some(done))
}

fn pair(
    setup: &Setup,
    tables: &Tables,
    running: &mut Running,
    cell: &Cell,
    trainer: &str,
    row: &mut Row,
) -> Result<Loop> {
    let arrivals = arrivals_file(setup, tables, cell.arrivals)?;
    let worker = running.trainers.get_mut(trainer).context("the session has no such job")?;
    let count = |pid| {
        let clients = status(setup, &running.dir).ok()?.clients;
        clients.into_iter().find(|client| client.process.pid == pid)
    };
    let before = (count(running.server.pid), count(worker.pid));
    let (done, rate) = side_by_side(setup, &mut running.server, worker, &arrivals, plan::span(cell.kind))?;
    let after = (count(running.server.pid), count(worker.pid));
    row.be_rate_hz = Some(rate);
    row.be_norm = tables.alone_hz(trainer).map(|alone| rate / alone);
    if let (Some(before), Some(after)) = (before.0, after.0) {
        row.hp_launches = Some(after.launches - before.launches);
    }
    if let (Some(before), Some(after)) = (before.1, after.1) {
        row.be_launches = Some(after.launches - before.launches);
        row.be_held = Some(after.held - before.held);
        row.be_waited_ns = Some(after.waited_ns - before.waited_ns);
    }
    Ok(done)
}

/// A server with requests beside a job that trains: what the server did, and iterations per second meanwhile.
///
/// # Errors
/// One of them fails or does not answer.
pub fn side_by_side(
    setup: &Setup,
    server: &mut Worker,
    trainer: &mut Worker,
    arrivals: &Path,
    seconds: f64,
) -> Result<(Loop, f64)> {
    let seconds = setup.span(seconds);
    let limit = Duration::from_secs_f64(seconds) + BEYOND;
    let training = trainer.train(limit.as_secs_f64())?;
    // A few iterations, so that the first request meets training in full swing.
    std::thread::sleep(Duration::from_secs_f64(setup.span(0.4)));
    let serving = server.paced(arrivals, seconds)?;
    let done = server.answer(serving, limit).context("the server")?;
    trainer.halt(training)?;
    let trained = trainer.answer(training, limit).context("best effort")?;
    let units = trained.units_within(done.begin_ns, done.begin_ns + done.elapsed_ns);
    let rate = units * 1e9 / done.elapsed_ns.max(1) as f64;
    Ok((done, rate))
}

fn end(setup: &Setup, tables: &mut Tables, session: &Session, mut running: Running) -> Result<()> {
    let mut result = running.server.quit(BEYOND).context("the server");
    for (job, trainer) in &mut running.trainers {
        result = result.and(trainer.quit(BEYOND).context(*job));
    }
    if session.spec.is_some() {
        for (job, folder) in &running.reports {
            let Some(report) = main_report(folder)? else { continue };
            tables.processes.push(Process::of(session, job, &report));
            tables.stops.extend(Stop::of(session, job, &report));
        }
        write(&tables.out.join("processes.csv"), &tables.processes)?;
        write(&tables.out.join("stops.csv"), &tables.stops)?;
        // Two daemons would be two answers to who may run; MPS servers of two would share the device.
        let gone = until(Duration::from_secs(20), || status(setup, &running.dir).is_err().then_some(()));
        result = result.and(gone.context("the daemon did not end after its last client"));
    }
    result
}

/// The list of arrivals as a file, made once per folder of results: all cells get the same.
fn arrivals_file(setup: &Setup, tables: &Tables, which: Arrivals) -> Result<PathBuf> {
    let path = setup.out.join(format!("arrivals-{}.json", which.name()));
    if !path.exists() {
        let base =
            tables.base_ns().context("the server alone was not measured, so there are no arrivals yet")?;
        let source = match which {
            Arrivals::Poisson => Source::Poisson,
            Arrivals::Maf2 => Source::Maf2Excerpt,
        };
        write_arrivals(&path, source, base, setup.span(plan::span(Kind::Alone)))?;
    }
    Ok(path)
}

/// Writes [`arrivals`] as the programs read them.
///
/// # Errors
/// There is no list, or the file cannot be written.
pub fn write_arrivals(path: &Path, source: Source, mean_ns: f64, seconds: f64) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, serde_json::to_string(&arrivals(source, mean_ns, seconds)?)?)?;
    std::fs::rename(&partial, path).with_context(|| format!("cannot write {}", path.display()))
}

/// Arrivals in seconds that offer half of a server's capacity.
fn arrivals(source: Source, mean_ns: f64, seconds: f64) -> Result<Vec<f64>> {
    let span_ns = (seconds * 1e9) as u64;
    // A list needs a request; only dry runs are that short.
    let solo_mean_ns = (mean_ns as u64).clamp(1, span_ns / 4);
    let target = Target { solo_mean_ns, load: LOAD, span_ns, seed: SEED };
    let list = traces::arrivals(&source, &target)?;
    Ok(list.times_ns.iter().map(|ns| *ns as f64 / 1e9).collect())
}

/// Our default and the best of our frontier, each beside each setting of the prototype.
fn judge_all(setup: &Setup, rows: &mut Rows, cells: &[Row]) -> Result<()> {
    let mut lines = Vec::new();
    for trainer in TRAINERS {
        let (theirs, ours) = table::points(cells, trainer);
        let default: Vec<_> =
            ours.iter().filter(|point| point.system == format!("gate:{}", plan::OURS)).cloned().collect();
        for their in &theirs {
            for (of, points) in [("default", &default), ("frontier", &ours)] {
                let Some(judgement) = judge::best(of, trainer, points, their) else { continue };
                let text = format!(
                    "{}: p99 {:.3} beside {:.3} ms ({:.2}), best effort {:.3} beside {:.3} ({:+.3}): {:?}",
                    judgement.ours,
                    judgement.ours_p99_ns / 1e6,
                    judgement.theirs_p99_ns / 1e6,
                    judgement.p99_ratio,
                    judgement.ours_throughput,
                    judgement.theirs_throughput,
                    judgement.throughput_gain,
                    judgement.verdict
                );
                let name = format!("{of} against {} beside {trainer}", judgement.theirs);
                rows.add(Part::Corun, &name, Outcome::Measured, text)?;
                lines.push(judgement);
            }
        }
    }
    write(&setup.out.join("judgements.csv"), &lines)
}
