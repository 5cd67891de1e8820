//! Whether a system had any effect. A baseline that loads and does nothing would look like no control at all, so its own
//! counters must say that it decided something before its numbers count.

use anyhow::{Context, Result, bail, ensure};
use protocol::Priority;
use protocol::report::{Mode, Report};
use serde::{Deserialize, Serialize};
use sim::System;
use sim::system::{Hook, Substrate};
use std::fs;
use std::path::Path;

/// What the runtime counted in one cell, over all processes of a priority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// How processes shared the device: `contexts` or `mps`.
    pub substrate: String,
    /// High priority: how often the device became busy with its work.
    pub activations: u64,
    /// Best effort: launches that the policy decided on, and of them those that waited, and how long in all.
    pub admitted: u64,
    pub held: u64,
    pub waited_ns: u64,
    /// Best effort: launches that went to the driver without a decision.
    pub passed: u64,
    /// Best effort: launches that ran alone to be timed.
    pub profiled: u64,
    /// Best effort: graph launches longer than it may have in flight.
    pub unprotected: u64,
    /// Streams and events that found no room in a table, of both priorities.
    pub overflows: u64,
}

/// The reports that the processes of one job left.
///
/// # Errors
/// There is none, or one cannot be read.
pub fn reports(folder: &Path, job: &str) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let report = Report::read(&path);
            reports.push(report.with_context(|| format!("the runtime's report on {job} cannot be read"))?);
        }
    }
    ensure!(
        !reports.is_empty(),
        "not run: the runtime left no report on {job}, so it may not have been loaded"
    );
    Ok(reports)
}

/// Sums up the reports of a cell, given with the priority that their jobs were started with, and proves that the system
/// took effect.
///
/// # Errors
/// `not run: ...`: what shows that it did not.
pub fn prove(system: &System, reports: &[(Priority, Report)], is_shared: bool) -> Result<Runtime> {
    let wiring = system.wiring();
    let expected = match wiring.substrate {
        Substrate::Contexts => "contexts",
        Substrate::Mps => "mps",
        Substrate::Partitions { .. } => bail!("not run: the runtime does not divide the device"),
    };
    let mut sum = Runtime { substrate: expected.to_owned(), ..Runtime::default() };
    for (priority, report) in reports {
        let Report { substrate, .. } = report;
        ensure!(
            *substrate == expected,
            "not run: a client shared the device by `{substrate}`, not by `{expected}`"
        );
        ensure!(
            report.priority == *priority,
            "not run: a program started as {priority} was treated as {}",
            report.priority
        );
        ensure!(!report.daemon_lost, "the runtime's daemon ended before the cell did");
        if let (Hook::Client, Mode::Unscheduled(why)) = (wiring.hook, &report.mode) {
            bail!("not run: nothing of the {priority} side was scheduled: {why}");
        }
        sum.overflows += report.overflows;
        match priority {
            Priority::High => sum.activations += report.activations,
            Priority::BestEffort => {
                sum.admitted += report.admitted;
                sum.held += report.held;
                sum.waited_ns += report.waited_ns;
                sum.passed += report.passed.values().sum::<u64>();
                sum.profiled += report.profiled;
                sum.unprotected += report.unprotected;
            }
        }
    }
    if wiring.hook == Hook::Client {
        ensure!(
            sum.activations > 0,
            "not run: the high-priority side never became active in the runtime's eyes, so nothing was held back for it"
        );
        ensure!(
            !is_shared || sum.admitted > 0,
            "not run: the policy admitted no best-effort launch; {} went to the driver without it",
            sum.passed
        );
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::process::Process;
    use protocol::report::Ended;

    fn report(priority: Priority, change: impl Fn(&mut Report)) -> (Priority, Report) {
        let mode = if priority == Priority::High { Mode::Observed } else { Mode::Scheduled };
        let mut report = Report::new(Process { pid: 1, start: 1 }, priority, mode, Ended::Exit);
        report.substrate = "contexts".to_owned();
        change(&mut report);
        (priority, report)
    }

    fn high() -> (Priority, Report) {
        report(Priority::High, |report| report.activations = 9)
    }

    fn best_effort(change: impl Fn(&mut Report)) -> (Priority, Report) {
        report(Priority::BestEffort, |report| {
            (report.admitted, report.held, report.waited_ns) = (5, 2, 70);
            report.passed.insert("small".to_owned(), 4);
            change(report);
        })
    }

    #[test]
    fn counters_are_summed_by_priority() {
        let gate = System::parse("gate").unwrap();
        let sum = prove(&gate, &[high(), best_effort(|_| ()), best_effort(|_| ())], true).unwrap();
        let expected = Runtime {
            substrate: "contexts".to_owned(),
            activations: 9,
            admitted: 10,
            held: 4,
            waited_ns: 140,
            passed: 8,
            ..Runtime::default()
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn a_system_without_effect_is_not_run() {
        let error = |system: &str, reports: &[(Priority, Report)]| {
            prove(&System::parse(system).unwrap(), reports, true).unwrap_err().to_string()
        };
        for (system, reports, expected) in [
            (
                "gate",
                [high(), best_effort(|report| report.admitted = 0)],
                "admitted no best-effort launch; 4 went",
            ),
            ("tgs", [high(), best_effort(|report| report.admitted = 0)], "admitted no best-effort launch"),
            ("gate", [report(Priority::High, |_| ()), best_effort(|_| ())], "never became active"),
            ("mps", [high(), best_effort(|_| ())], "shared the device by `contexts`, not by `mps`"),
            (
                "gate",
                [high(), best_effort(|report| report.mode = Mode::Unscheduled("no daemon".to_owned()))],
                "was scheduled: no daemon",
            ),
            (
                "gate",
                [high(), (Priority::BestEffort, high().1)],
                "started as best-effort was treated as high",
            ),
        ] {
            let error = error(system, &reports);
            assert!(error.starts_with("not run: ") && error.contains(expected), "{error}");
        }
        // Without a policy there is nothing to admit; alone there is nobody to.
        prove(&System::parse("time-slicing").unwrap(), &[high(), best_effort(|r| r.admitted = 0)], true)
            .unwrap();
        prove(&System::parse("gate").unwrap(), &[high()], false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        assert!(reports(folder.path(), "`x`").unwrap_err().to_string().contains("no report on `x`"));
    }
}
