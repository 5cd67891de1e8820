//! The reports of a run, in a few lines for people.

use crate::jobs::describe;
use daemon::policy::Runnable;
use daemon::say;
use protocol::Priority;
use protocol::report::{Ended, Mode, Report};
use protocol::segment::PASSED;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Report files with their times.
pub type Files = BTreeMap<PathBuf, Option<SystemTime>>;

/// The reports in a folder.
pub fn list(folder: &Path) -> Files {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| (entry.path(), entry.metadata().and_then(|found| found.modified()).ok()))
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "json"))
        .collect()
}

/// The reports that a folder has got since. One that cannot be read is said.
pub fn since(folder: &Path, before: &Files) -> Vec<Report> {
    let mut reports = Vec::new();
    for (path, time) in list(folder) {
        if before.get(&path) == Some(&time) {
            continue;
        }
        match Report::read(&path) {
            Ok(report) => reports.push(report),
            Err(error) => say!("tally: {}: {error}", path.display()),
        }
    }
    reports.sort_by_key(|report| (report.priority == Priority::BestEffort, report.process.pid));
    reports
}

/// Prints a line per process to stderr, and what it means if there is none.
pub fn print(reports: &[Report], program: &str, code: u8) {
    if reports.is_empty() {
        // A program that failed has said why itself.
        let perhaps = match code {
            0 => " (one that sets LD_PRELOAD itself is not reached: try --shim)",
            _ => "",
        };
        say!("tally: no process of {program} launched anything on a GPU under the runtime{perhaps}");
    }
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for report in reports {
        let text = lines(report);
        let bold = color && is_bad(report);
        let (on, off) = if bold { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        // As `say!`, without a further line end.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{on}{text}{off}").as_bytes());
    }
}

/// Whether the reader must not take the run for what was asked for.
fn is_bad(report: &Report) -> bool {
    matches!(report.mode, Mode::Unscheduled(_)) && !as_asked(report) || report.daemon_lost
}

/// Whether the policy holds nothing back anyway.
fn as_asked(report: &Report) -> bool {
    Runnable::parse(&report.policy).is_ok_and(|policy| !policy.holds_back())
}

/// The lines of one process.
pub fn lines(report: &Report) -> String {
    let program = report.program.rsplit('/').next().unwrap_or_default();
    let mut text = format!(
        "tally: {} {program} ({}): {} launches",
        describe(report.priority),
        report.process.pid,
        grouped(report.launches())
    );
    match &report.mode {
        Mode::Observed => {
            let _ = write!(text, ", none held; became active {} times", grouped(report.activations));
        }
        Mode::Scheduled => {
            let _ = write!(
                text,
                ", {} admitted, {} of them waited, {} in all",
                grouped(report.admitted),
                grouped(report.held),
                seconds(report.waited_ns)
            );
        }
        Mode::Unscheduled(_) if as_asked(report) => {
            let _ = write!(text, ", none held, as {} asks", report.policy);
        }
        Mode::Unscheduled(why) => {
            let _ = write!(text, ", NOT SCHEDULED: {why}");
        }
    }
    if report.ended == Ended::Killed {
        text += "; killed, or stopped by a signal";
    }
    text += "\n";
    for (reason, count) in &report.passed {
        let meaning = PASSED.iter().find(|(key, _)| key == reason).map_or("", |(_, meaning)| *meaning);
        let _ = writeln!(text, "tally:   {} passed as {reason}: {meaning}", grouped(*count));
    }
    if report.unprotected > 0 {
        let graphs = grouped(report.unprotected);
        let _ =
            writeln!(text, "tally:   {graphs} launches of graphs longer than best effort may have in flight");
    }
    if report.overflows > 0 {
        let count = grouped(report.overflows);
        let _ = writeln!(text, "tally:   {count} streams or events beyond the tables, followed with a delay");
    }
    if report.daemon_lost {
        text += "tally:   the daemon was lost before it ended\n";
    }
    for note in &report.notes {
        let _ = writeln!(text, "tally:   {note}");
    }
    text
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds as seconds or ms.
pub fn seconds(ns: u64) -> String {
    if ns < 1_000_000_000 {
        format!("{:.1} ms", ns as f64 / 1e6)
    } else {
        format!("{:.2} s", ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::process::Process;

    fn report(priority: Priority, mode: Mode) -> Report {
        let mut report = Report::new(Process { pid: 12, start: 1 }, priority, mode, Ended::Exit);
        report.program = "/usr/bin/python3".to_owned();
        report.calls.insert("cuLaunchKernel".to_owned(), 1_234_567);
        report
    }

    #[test]
    fn a_scheduled_process_says_what_waited_and_what_passed() {
        let mut report = report(Priority::BestEffort, Mode::Scheduled);
        (report.admitted, report.held, report.waited_ns) = (1_234_000, 5, 2_500_000);
        report.passed.insert("small".to_owned(), 567);
        report.ended = Ended::Killed;
        let expected = "tally: best effort python3 (12): 1,234,567 launches, 1,234,000 admitted, 5 of them waited, \
                        2.5 ms in all; killed, or stopped by a signal\n\
                        tally:   567 passed as small: a copy or fill below TALLY_LARGE_BYTES\n";
        assert_eq!(lines(&report), expected);
    }

    #[test]
    fn what_was_not_scheduled_is_said() {
        let mut report = report(Priority::BestEffort, Mode::Unscheduled("no daemon".to_owned()));
        report.policy = "gate".to_owned();
        assert!(lines(&report).contains("NOT SCHEDULED: no daemon") && is_bad(&report));
        report.policy = "time-slicing".to_owned();
        assert!(lines(&report).contains("none held, as time-slicing asks") && !is_bad(&report));
        let observed = super::tests::report(Priority::High, Mode::Observed);
        assert!(lines(&observed).contains("none held; became active 0 times") && !is_bad(&observed));
    }

    #[test]
    fn only_new_reports_count() {
        let folder = tempfile::tempdir().unwrap();
        report(Priority::High, Mode::Observed).write(folder.path()).unwrap();
        let before = list(folder.path());
        assert!(since(folder.path(), &before).is_empty());
        let mut new = report(Priority::BestEffort, Mode::Scheduled);
        new.process.pid = 3;
        new.write(folder.path()).unwrap();
        assert_eq!(since(folder.path(), &before), [new]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1_234_567].map(grouped).each_ref().map(|s| &s[..])
        );
        assert_eq!(
            (seconds(1_500_000), seconds(61_000_000_000)),
            ("1.5 ms".to_owned(), "61.00 s".to_owned())
        );
    }
}
