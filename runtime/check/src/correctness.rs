//! Programs give the same bytes with the runtime around them and without it.
//!
//! Each case of `programs/cases` runs twice as it is, which tells what of it repeats at all; then with high priority alone,
//! and as best effort beside a busy server; preloaded, and through the shim.

use crate::corun::write_arrivals;
use crate::program::{Program, Tally, Way, launches, main_report, status};
use crate::rows::{Outcome, Rows};
use crate::setup::Setup;
use crate::worker::Worker;
use anyhow::{Context, Result, ensure};
use flags::Part;
use protocol::Priority;
use protocol::report::{Mode, Report};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest first: inductor compiles for half a minute on few cores.
const CASES: [&str; 6] = ["compiled", "resnet", "bert", "loader", "graphs", "streams"];

/// One program, its start and compilation included. Beside a busy server it runs a few times longer.
const LIMIT: Duration = Duration::from_secs(150);

/// The server beside best effort has requests for so long; more than all cases need.
const BUSY_SECONDS: f64 = 600.0;

/// The folder of the daemon of best effort and the server beside it.
const BUSY: &str = "busy";

/// Name of an output, and digest of its bytes with shape and type.
type Outputs = BTreeMap<String, Digest>;

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Digest {
    shape: Vec<u64>,
    dtype: String,
    sha256: String,
}

#[derive(Deserialize)]
struct Answer {
    outputs: Outputs,
}

/// A program to run.
struct Job {
    name: String,
    case: &'static str,
    tally: Option<Tally>,
}

/// Runs the part.
///
/// # Errors
/// Results cannot be written, or the busy server cannot be started.
pub fn run(setup: &Setup, rows: &mut Rows) -> Result<()> {
    check(setup, rows, Part::Correctness, &CASES, true)
}

/// Runs these cases; best effort beside a busy server, or alone.
///
/// # Errors
/// As [`run`].
pub fn check(
    setup: &Setup,
    rows: &mut Rows,
    part: Part,
    cases: &[&'static str],
    beside_server: bool,
) -> Result<()> {
    let references = references(setup, rows, part, cases)?;
    let known = || cases.iter().copied().filter(|case| references.contains_key(case));
    let mut jobs: Vec<Job> = Vec::new();
    for way in setup.ways().iter().copied() {
        for case in known() {
            let dir = format!("high-{case}-{way:?}");
            jobs.push(under(setup, case, Priority::High, way, &dir)?);
        }
    }
    judge_all(setup, rows, part, &jobs, &references)?;
    let server = if beside_server && !references.is_empty() { Some(busy(setup)?) } else { None };
    let mut jobs: Vec<Job> = Vec::new();
    for way in setup.ways().iter().copied() {
        for case in known() {
            jobs.push(under(setup, case, Priority::BestEffort, way, BUSY)?);
        }
    }
    judge_all(setup, rows, part, &jobs, &references)?;
    let Some(server) = server else { return Ok(()) };
    // Programs beside a server that had stopped would have shown nothing.
    let launches = status(setup, &setup.folder(BUSY)?).ok().and_then(|status| {
        let client = status.clients.into_iter().find(|client| client.process.pid == server.pid)?;
        Some(client.launches)
    });
    let text = launches.map_or("it is not there any more".to_owned(), |count| format!("{count} launches"));
    let name = "the server beside best effort is still at work";
    rows.judge(part, name, launches.is_some_and(|count| count > 0) || setup.dry, text)
}

/// Each case twice as it is: its outputs, and which of them do not repeat.
fn references(setup: &Setup, rows: &mut Rows, part: Part, cases: &[&'static str]) -> Result<References> {
    let bare = |time| {
        let name =
            move |case: &&'static str| Job { name: format!("{case} as it is, {time}"), case, tally: None };
        cases.iter().map(name)
    };
    let jobs: Vec<Job> = bare(1).chain(bare(2)).collect();
    let mut first = Vec::new();
    all(setup, &jobs, |_, result| {
        first.push(result);
        Ok(())
    })?;
    let second = first.split_off(cases.len());
    let mut references = References::new();
    for ((case, first), second) in cases.iter().zip(first).zip(second) {
        let name = format!("{case} as it is");
        match (first, second) {
            (Ok(first), Ok(second)) => {
                let unstable = differing(&first, &second);
                let text = match unstable.len() {
                    0 => format!("{} outputs, the same in two runs", first.len()),
                    n => format!("{n} of {} outputs do not repeat ({})", first.len(), some(&unstable)),
                };
                rows.add(part, &name, Outcome::Measured, text)?;
                references.insert(case, (first, unstable));
            }
            (Err(error), _) | (_, Err(error)) => rows.judge(part, &name, false, format!("{error:#}"))?,
        }
    }
    Ok(references)
}

/// A server with requests at half of its capacity.
fn busy(setup: &Setup) -> Result<Worker> {
    let tally = Tally {
        priority: Priority::High,
        policy: "gate".to_owned(),
        dir: setup.folder(BUSY)?,
        report: setup.folder("reports/busy")?,
        way: Way::Preload,
    };
    let mut server = Worker::start(setup, "busy", "bert-base-384-infer", Some(&tally))?;
    server.warm(LIMIT).context("the server beside best effort")?;
    let ticket = server.closed(setup.span(2.0))?;
    let alone = server.answer(ticket, LIMIT)?;
    let path = setup.scratch().join("busy-arrivals.json");
    write_arrivals(&path, traces::Source::Poisson, alone.mean_ns()?, BUSY_SECONDS)?;
    server.paced(&path, BUSY_SECONDS)?;
    Ok(server)
}

fn under(setup: &Setup, case: &'static str, priority: Priority, way: Way, dir: &str) -> Result<Job> {
    let name = match (priority, way) {
        (Priority::High, Way::Preload) => format!("{case} with high priority, preloaded"),
        (Priority::High, Way::Shim) => format!("{case} with high priority, by the shim"),
        (Priority::BestEffort, Way::Preload) => format!("{case} as best effort, preloaded"),
        (Priority::BestEffort, Way::Shim) => format!("{case} as best effort, by the shim"),
    };
    let tally = Tally {
        priority,
        policy: "gate".to_owned(),
        dir: setup.folder(dir)?,
        report: setup.folder(&format!("reports/{}", file_name(&name)))?,
        way,
    };
    Ok(Job { name, case, tally: Some(tally) })
}

/// Runs jobs, some at a time, and tells of each as soon as it has ended.
fn all(
    setup: &Setup,
    jobs: &[Job],
    mut ended: impl FnMut(&Job, Result<Outputs>) -> Result<()>,
) -> Result<()> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(3).min(6);
    for group in jobs.chunks(at_once) {
        let start = |job| {
            ensure!(!setup.left().is_zero(), "not run: the time given is over");
            start(setup, job)
        };
        let started: Vec<_> = group.iter().map(start).collect();
        for (job, started) in group.iter().zip(started) {
            let result = started.and_then(|(mut program, out)| {
                program.succeed(LIMIT.min(setup.left()))?;
                outputs(&out)
            });
            ended(job, result)?;
        }
    }
    Ok(())
}

fn start(setup: &Setup, job: &Job) -> Result<(Program, PathBuf)> {
    let name = file_name(&job.name);
    let out = setup.folder("outputs")?.join(format!("{name}.json"));
    let script = setup.repo.join("runtime/check/programs/outputs.py");
    let mut arguments: Vec<OsString> = vec![script.into(), "--case".into(), job.case.into()];
    arguments.extend(["--out".into(), out.clone().into()]);
    arguments.extend(setup.python_options().iter().map(OsString::from));
    Ok((Program::start(setup, &name, job.tally.as_ref(), &setup.python, &arguments)?, out))
}

fn outputs(path: &Path) -> Result<Outputs> {
    let text =
        bounded::text(path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    let answer: Answer =
        serde_json::from_str(&text).with_context(|| format!("{} is no result", path.display()))?;
    Ok(answer.outputs)
}

type References = BTreeMap<&'static str, (Outputs, BTreeSet<String>)>;

fn judge_all(
    setup: &Setup,
    rows: &mut Rows,
    part: Part,
    jobs: &[Job],
    references: &References,
) -> Result<()> {
    all(setup, jobs, |job, result| {
        let tally = job.tally.as_ref().expect("only jobs under the runtime are judged");
        let (reference, unstable) = &references[job.case];
        let (held, detail) = match result.and_then(|found| Ok((found, main_report(&tally.report)?))) {
            Ok((found, report)) => {
                let (same, outputs) = compare(reference, unstable, &found);
                let (seen, counts) = interposed(report.as_ref(), tally.priority);
                // Without a device there is nothing to see.
                (same && (seen || setup.dry), format!("{outputs}; {counts}"))
            }
            Err(error) => (false, format!("{error:#}")),
        };
        rows.judge(part, &job.name, held, detail)
    })
}

/// Names of outputs that are in one only, or differ.
fn differing(a: &Outputs, b: &Outputs) -> BTreeSet<String> {
    a.keys().chain(b.keys()).filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}

/// Whether all outputs that repeat are the same, and in words.
fn compare(reference: &Outputs, unstable: &BTreeSet<String>, found: &Outputs) -> (bool, String) {
    let wrong: BTreeSet<String> = &differing(reference, found) - unstable;
    let compared = reference.len() - unstable.len();
    let beside = match unstable.len() {
        0 => String::new(),
        n => format!(", {n} not compared as they do not repeat"),
    };
    match wrong.len() {
        // Nothing compared is nothing shown.
        0 => (compared > 0, format!("{compared} outputs bit-equal{beside}")),
        n => (false, format!("{n} of {compared} outputs DIFFER ({}){beside}", some(&wrong))),
    }
}

/// Whether a report shows that the runtime saw the launches and did what it was asked for, and in words.
pub fn interposed(report: Option<&Report>, priority: Priority) -> (bool, String) {
    let Some(report) = report else {
        return (false, "no report: the library was not in the program".to_owned());
    };
    let count = launches(report);
    let expected = match priority {
        Priority::High => Mode::Observed,
        Priority::BestEffort => Mode::Scheduled,
    };
    let mode = match &report.mode {
        Mode::Observed => "observed".to_owned(),
        Mode::Scheduled => format!(
            "scheduled: {} admitted, {} of them waited {:.0} ms in all",
            report.admitted,
            report.held,
            report.waited_ns as f64 / 1e6
        ),
        Mode::Unscheduled(why) => format!("NOT SCHEDULED: {why}"),
    };
    let passed: Vec<String> =
        report.passed.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    let passed = if passed.is_empty() { String::new() } else { format!("; passed: {}", passed.join(", ")) };
    (count > 0 && report.mode == expected, format!("{count} launches seen, {mode}{passed}"))
}

fn some(names: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    let more = if names.len() > 3 { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// A name of letters, digits and dashes.
fn file_name(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::process::Process;
    use protocol::report::Ended;

    fn outputs(of: &[(&str, &str)]) -> Outputs {
        let digest =
            |sha: &str| Digest { shape: vec![2], dtype: "torch.float32".to_owned(), sha256: sha.to_owned() };
        of.iter().map(|(name, sha)| ((*name).to_owned(), digest(sha))).collect()
    }

    #[test]
    fn only_what_repeats_is_compared() {
        let reference = outputs(&[("loss", "a"), ("weight", "b")]);
        let unstable = differing(&reference, &outputs(&[("loss", "a"), ("weight", "c")]));
        assert_eq!(some(&unstable), "weight");
        let compare = |found: &[(&str, &str)]| compare(&reference, &unstable, &outputs(found));
        let (same, text) = compare(&[("loss", "a"), ("weight", "d")]);
        assert!(same && text == "1 outputs bit-equal, 1 not compared as they do not repeat", "{text}");
        assert!(!compare(&[("loss", "x"), ("weight", "b")]).0);
        assert!(!compare(&[("weight", "b")]).0, "a missing output is a difference");
        assert!(!compare(&[("loss", "a"), ("weight", "b"), ("more", "e")]).0, "so is a new one");
        let none = differing(&reference, &outputs(&[]));
        assert!(!super::compare(&reference, &none, &reference).0, "nothing compared shows nothing");
    }

    #[test]
    fn a_program_that_was_not_seen_does_not_pass() {
        assert!(!interposed(None, Priority::High).0);
        let process = Process { pid: 1, start: 1 };
        let mut report = Report::new(process, Priority::BestEffort, Mode::Scheduled, Ended::Exit);
        assert!(!interposed(Some(&report), Priority::BestEffort).0, "no launch");
        report.admitted = 4;
        assert!(interposed(Some(&report), Priority::BestEffort).0);
        assert!(!interposed(Some(&report), Priority::High).0);
        report.mode = Mode::Unscheduled("no daemon".to_owned());
        let (held, text) = interposed(Some(&report), Priority::BestEffort);
        assert!(!held && text.contains("NOT SCHEDULED: no daemon"), "{text}");
    }
}
