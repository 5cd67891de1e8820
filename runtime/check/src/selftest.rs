//! A minute for somebody who has just set the runtime up: it is in the program, results are the same, the gate holds back.

use crate::correctness::{check, interposed};
use crate::corun::plan::{SERVER, TRAINERS};
use crate::corun::{side_by_side, write_arrivals};
use crate::program::{Tally, Way, main_report};
use crate::rows::{Outcome, Rows};
use crate::setup::Setup;
use crate::worker::{Loop, Worker};
use anyhow::{Context, Result};
use flags::Part;
use intervals::percentile;
use protocol::Priority;
use std::path::PathBuf;
use std::time::Duration;

const START: Duration = Duration::from_secs(90);
/// Some 900 requests: the 99th percentile of so few is told, not judged.
const SECONDS: f64 = 3.0;

/// Runs the part.
///
/// # Errors
/// Results cannot be written.
pub fn run(setup: &Setup, rows: &mut Rows) -> Result<()> {
    if let Err(error) = check(setup, rows, Part::Selftest, &["small"], false) {
        rows.judge(Part::Selftest, "results", false, format!("{error:#}"))?;
    }
    match gating(setup, rows) {
        Ok(()) => Ok(()),
        Err(error) => rows.judge(Part::Selftest, "gating", false, format!("{error:#}")),
    }
}

/// Two pairs of a server and a training job, as they are and under the gate, one pair at work at a time.
fn gating(setup: &Setup, rows: &mut Rows) -> Result<()> {
    let [trainer, _] = TRAINERS;
    let dir = setup.folder("self")?;
    let report = |name: &str| -> Result<PathBuf> { setup.folder(&format!("reports/self-{name}")) };
    let start = |name: &str, job, priority: Option<Priority>| -> Result<Worker> {
        let tally = priority.map(|priority| -> Result<Tally> {
            let (policy, way) = ("gate".to_owned(), Way::Preload);
            Ok(Tally { priority, policy, dir: dir.clone(), report: report(name)?, way })
        });
        Worker::start(setup, &format!("self-{name}"), job, tally.transpose()?.as_ref())
    };
    let mut workers = [
        start("server", SERVER, None)?,
        start("trainer", trainer, None)?,
        start("server-gate", SERVER, Some(Priority::High))?,
        start("trainer-gate", trainer, Some(Priority::BestEffort))?,
    ];
    for worker in &mut workers {
        worker.warm(START)?;
    }
    let [server, training, gated_server, gated_training] = &mut workers;
    let ticket = server.closed(setup.span(1.0))?;
    let alone = server.answer(ticket, START)?;
    let arrivals = setup.scratch().join("selftest-arrivals.json");
    write_arrivals(&arrivals, traces::Source::Poisson, alone.mean_ns()?, setup.span(SECONDS))?;
    let ticket = training.closed(setup.span(2.0))?;
    let rate = training.answer(ticket, START)?.rate().context("the training job did nothing")?;
    let shared = side_by_side(setup, server, training, &arrivals, SECONDS)?;
    let gated = side_by_side(setup, gated_server, gated_training, &arrivals, SECONDS)?;
    for (name, (served, trained)) in [("time-slicing", &shared), ("gate", &gated)] {
        let text = format!("{}, best effort at {:.2} of its rate alone", latency(served), trained / rate);
        rows.add(Part::Selftest, &format!("{SERVER} beside {trainer}, {name}"), Outcome::Measured, text)?;
    }
    rows.add(Part::Selftest, &format!("{SERVER} alone, back to back"), Outcome::Measured, latency(&alone))?;
    for worker in &mut workers {
        worker.quit(START)?;
    }
    for (name, priority) in [("server-gate", Priority::High), ("trainer-gate", Priority::BestEffort)] {
        let (seen, text) = interposed(main_report(&report(name)?)?.as_ref(), priority);
        rows.judge(Part::Selftest, &format!("launches of the {name} are seen"), seen || setup.dry, text)?;
    }
    Ok(())
}

fn latency(served: &Loop) -> String {
    let mut sorted = served.samples_ns.clone();
    sorted.sort_unstable();
    let ms = |q| percentile(&sorted, q) / 1e6;
    match sorted.len() {
        0 => "no request".to_owned(),
        n => format!("service p50 {:.3} ms, p99 {:.3} ms, n = {n}", ms(0.5), ms(0.99)),
    }
}
