//! What a process did under the runtime: one JSON file per process in the folder `TALLY_REPORT`.
//!
//! A program that ends writes it itself; for one that was killed the daemon does, from the counters of its slot.

use crate::process::Process;
use crate::segment::{Counters, PASSED};
use crate::{Priority, VERSION};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`VERSION`] of the writer.
    pub version: u32,
    pub process: Process,
    pub program: String,
    pub priority: Priority,
    pub policy: String,
    pub substrate: String,
    pub gpu: Option<String>,
    /// What was really done with its launches, which may be less than was asked for.
    pub mode: Mode,
    pub ended: Ended,
    /// Calls per hooked symbol; those that were never called are left out.
    pub calls: BTreeMap<String, u64>,
    /// Launches that the policy decided on.
    pub admitted: u64,
    /// Of them, those that waited.
    pub held: u64,
    /// How long they waited in all, ns.
    pub waited_ns: u64,
    /// Launches that went to the driver without a decision, by reason ([`PASSED`]).
    pub passed: BTreeMap<String, u64>,
    /// High priority: how often the device became busy with its work.
    pub activations: u64,
    /// Launches that ran alone to be timed.
    pub profiled: u64,
    /// Graph launches longer than best effort may have in flight.
    pub unprotected: u64,
    /// Streams and events that found no room in a table.
    pub overflows: u64,
    /// How often the helper thread found the end of work that nobody waited for.
    pub found_idle: u64,
    /// The daemon had gone before the program ended.
    pub daemon_lost: bool,
    /// Best effort: kernels by the time that high-priority work waited for them, longest total first.
    #[serde(default)]
    pub kernels: Vec<Kernel>,
    /// What else the reader must know, in the order it was noticed.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What was really done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// High priority: seen, never held back.
    Observed,
    /// Best effort: a policy decided on every launch that is not under `passed`.
    Scheduled,
    /// Nothing was scheduled, and why.
    Unscheduled(String),
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It ran its exit handlers.
    Exit,
    /// It was killed, or left without exit handlers; the daemon wrote the report.
    Killed,
}

/// One best-effort kernel, graph or copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub name: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    /// Duration alone, ns; absent while it is not known.
    pub duration_ns: Option<u64>,
    pub launches: u64,
    /// How often high-priority work became active while it ran.
    pub stops: u64,
    /// From then to its end, ns: the sum and the longest.
    pub stop_ns: u64,
    pub stop_most_ns: u64,
}

/// Whether a symbol of the driver launches something.
pub fn is_launch(symbol: &str) -> bool {
    symbol.starts_with("cuLaunch") || symbol.starts_with("cuGraphLaunch")
}

impl Report {
    /// The name of its file: number and start time of the process.
    pub fn file_name(process: Process) -> String {
        format!("{}-{}.json", process.pid, process.start)
    }

    /// Takes over the counters of a slot; `calls` are the names of its counters of calls.
    pub fn count(&mut self, counters: &Counters, calls: &[String]) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.calls = (calls.iter().zip(&counters.calls))
            .map(|(name, counter)| (name.clone(), get(counter)))
            .filter(|(_, count)| *count > 0)
            .collect();
        self.passed = (PASSED.iter().zip(&counters.passed))
            .map(|((reason, _), counter)| ((*reason).to_owned(), get(counter)))
            .filter(|(_, count)| *count > 0)
            .collect();
        self.admitted = get(&counters.admitted);
        self.held = get(&counters.held);
        self.waited_ns = get(&counters.waited_ns);
        self.activations = get(&counters.activations);
        self.profiled = get(&counters.profiled);
        self.unprotected = get(&counters.unprotected);
        self.overflows = get(&counters.overflows);
        self.found_idle = get(&counters.found_idle);
    }

    /// Work that was launched, whatever became of it: kernels, graphs and host functions by any entry point. Copies and
    /// fills are not counted.
    pub fn launches(&self) -> u64 {
        self.calls.iter().filter(|(name, _)| is_launch(name)).map(|(_, count)| count).sum()
    }

    /// A report that has counted nothing yet.
    pub fn new(process: Process, priority: Priority, mode: Mode, ended: Ended) -> Report {
        Report {
            version: VERSION,
            process,
            program: String::new(),
            priority,
            policy: String::new(),
            substrate: String::new(),
            gpu: None,
            mode,
            ended,
            calls: BTreeMap::new(),
            admitted: 0,
            held: 0,
            waited_ns: 0,
            passed: BTreeMap::new(),
            activations: 0,
            profiled: 0,
            unprotected: 0,
            overflows: 0,
            found_idle: 0,
            daemon_lost: false,
            kernels: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Writes it into a folder, under a temporary name first.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<PathBuf> {
        let path = folder.join(Report::file_name(self.process));
        let unfinished = path.with_extension("json.part");
        let mut file = std::fs::File::create(&unfinished)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        std::fs::rename(&unfinished, &path)?;
        Ok(path)
    }

    /// Reads one.
    ///
    /// # Errors
    /// The file cannot be read or is no report.
    pub fn read(path: &Path) -> std::io::Result<Report> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_names_and_zeros_are_left_out() {
        let counters = Counters::default();
        counters.calls[1].store(7, Ordering::Relaxed);
        counters.passed[3].store(2, Ordering::Relaxed);
        counters.held.store(3, Ordering::Relaxed);
        let process = Process { pid: 5, start: 6 };
        let mut report = Report::new(process, Priority::BestEffort, Mode::Scheduled, Ended::Exit);
        report.count(&counters, &["cuInit".to_owned(), "cuLaunchKernel".to_owned()]);
        assert_eq!(report.calls, BTreeMap::from([("cuLaunchKernel".to_owned(), 7)]));
        assert_eq!(report.passed, BTreeMap::from([("small".to_owned(), 2)]));
        assert_eq!(report.held, 3);
        assert_eq!(report.launches(), 7);
        report.calls.insert("cuGraphLaunch_ptsz".to_owned(), 2);
        report.calls.insert("cuMemcpyDtoH_v2".to_owned(), 4);
        assert_eq!(report.launches(), 9);
        let folder = tempfile::tempdir().unwrap();
        let path = report.write(folder.path()).unwrap();
        assert_eq!(path.file_name().unwrap(), "5-6.json");
        assert_eq!(Report::read(&path).unwrap(), report);
    }
}
