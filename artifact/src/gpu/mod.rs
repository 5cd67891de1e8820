//! The executor that measures: the programs of a cell's jobs run on a GPU, under `tally run` when they share it.
//!
//! The server starts first and waits when it is warm; then each best-effort job does, so that a policy can time its kernels
//! on a quiet device. A file lets all of them go at once. The cell ends with the server; what the others do later does
//! not count.

mod children;
mod device;
mod effect;
mod job;
mod result;
pub mod table;

pub use children::stop_all;
pub use device::Device;
pub use effect::Runtime;

use crate::cell::Cell;
use crate::executor::{Answer, Executor};
use crate::key;
use crate::root::Root;
use anyhow::{Context, Result, bail, ensure};
use children::{Scratch, wait_until};
use job::{Job, Loop};
use protocol::Priority;
use sim::{Outcome, Scenario, System, Traffic};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use workloads::definition::{self, Workload};
use workloads::profile::ProfileSet;

/// The files that a system consists of: the command, its daemon, the library that it preloads.
const TOOLS: [&str; 3] = ["tally", "tallyd", "libtally_interpose.so"];

/// How long things may take before the cell fails.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// From the start of a program until it is warm.
    ready: Duration,
    /// Of the leading job, beyond its span: its last request or iteration.
    lead: Duration,
    /// Of the others, once the leading job has ended.
    rest: Duration,
}

const LIMITS: Limits = Limits {
    ready: Duration::from_secs(300),
    lead: Duration::from_secs(120),
    rest: Duration::from_secs(300),
};

/// How long a daemon may take to end MPS when this process is told to end.
const LAST: Duration = Duration::from_secs(30);

/// Seconds until a program is warm: it imports PyTorch, builds its model and warms up. For estimates; assumed.
pub const START_SECONDS: f64 = 20.0;

/// Measures on one GPU.
pub struct Gpu {
    device: Device,
    workloads: PathBuf,
    definitions: BTreeMap<String, Workload>,
    tools: PathBuf,
    tools_sha256: String,
    host: String,
    stack: OnceLock<ProfileSet>,
    /// Why nothing more can be measured.
    lost: OnceLock<String>,
    limits: Limits,
}

impl Gpu {
    /// Prepares the device with this UUID, else the first one, and the tools that lie beside this binary.
    ///
    /// # Errors
    /// There is no such device, a tool is missing, or the definitions of the workloads cannot be read.
    pub fn find(root: &Root, uuid: Option<&str>) -> Result<Gpu> {
        let this = std::env::current_exe().context("cannot find the folder of this binary")?;
        let tools = this.parent().context("this binary has no folder")?.to_path_buf();
        let mut digests = String::new();
        for name in TOOLS {
            let path = tools.join(name);
            let digest = key::sha256_file(&path).with_context(|| {
                format!("there is no {}; `cargo xtask reproduce --backend gpu` builds it", path.display())
            })?;
            digests += &format!("{name} {digest}\n");
        }
        Ok(Gpu {
            device: Device::find(uuid)?,
            definitions: definition::load_all(&root.workloads())?,
            workloads: root.workloads(),
            tools,
            tools_sha256: key::sha256(digests.as_bytes()),
            host: crate::runinfo::cpu(),
            stack: OnceLock::new(),
            lost: OnceLock::new(),
            limits: LIMITS,
        })
    }

    /// Whose programs are to run without the libraries that upstream's stack lacks.
    fn stack(&self) -> ProfileSet {
        self.stack.get().copied().unwrap_or_default()
    }

    fn workload(&self, id: &str) -> Result<&Workload> {
        self.definitions.get(id).with_context(|| format!("there is no workload `{id}`"))
    }

    /// What decides what a workload's program does.
    fn program_sha256(&self, id: &str) -> Result<String> {
        let workload = self.workload(id)?;
        let folder = self.workloads.join(&workload.definition.id);
        let mut files = vec![folder.join(&workload.definition.program)];
        let common = self.workloads.join("common");
        if common.is_dir() {
            let entries =
                fs::read_dir(&common).with_context(|| format!("cannot list {}", common.display()))?;
            for entry in entries {
                let path = entry?.path();
                files.extend(path.extension().is_some_and(|ext| ext == "py").then_some(path));
            }
        }
        files.sort();
        let mut text = format!("stack {} busy share {:?}\n", self.stack(), workload.gpu_busy_share);
        for path in files {
            let digest =
                key::sha256_file(&path).with_context(|| format!("cannot read {}", path.display()))?;
            text += &format!("{} {digest}\n", path.file_name().unwrap_or_default().to_string_lossy());
        }
        Ok(key::sha256(text.as_bytes()))
    }

    /// The jobs of a cell, the one that its length follows first.
    fn jobs<'a>(&self, cell: &'a Cell, scenario: &'a Scenario) -> Vec<(Priority, &'a str, Loop<'a>)> {
        let seconds = scenario.span_ns as f64 / 1e9;
        let mut jobs = Vec::new();
        if let (Some((_, traffic)), Some(id)) = (&scenario.high, &cell.inference) {
            let work = match traffic {
                Traffic::ClosedLoop { requests } => Loop::Closed { requests: *requests, seconds },
                Traffic::Paced(arrivals_ns) => Loop::Paced { arrivals_ns, seconds },
            };
            jobs.push((Priority::High, id.as_str(), work));
        }
        for job in &scenario.best_effort {
            let work = match (&job.traffic, jobs.is_empty()) {
                (Some(Traffic::Paced(arrivals_ns)), _) => Loop::Paced { arrivals_ns, seconds },
                (Some(Traffic::ClosedLoop { requests }), _) => Loop::Closed { requests: *requests, seconds },
                (None, true) => Loop::Training { seconds },
                // Told to stop when the server has ended; this is for the case that nobody is left to tell it.
                (None, false) => Loop::Training { seconds: seconds * 2.0 + self.limits.rest.as_secs_f64() },
            };
            let id = if job.traffic.is_some() { &cell.inference } else { &cell.training };
            jobs.push((Priority::BestEffort, id.as_deref().unwrap_or_default(), work));
        }
        jobs
    }

    /// Runs the programs to their ends, and reads what they leave.
    fn measure(&self, cell: &Cell, scenario: &Scenario, scratch: &Path) -> Result<Answer> {
        let system = scenario.system;
        let planned = self.jobs(cell, scenario);
        // The latest first: they are dropped in this order when something fails, and the server is to go last.
        let mut jobs: Vec<Job> = Vec::new();
        let setting = job::Setting {
            tools: &self.tools,
            scratch,
            uuid: &self.device.uuid,
            policy: (cell.system != "no-sharing").then(|| system.name()),
            stack: self.stack(),
        };
        for (index, (priority, id, work)) in planned.iter().enumerate() {
            let workload = self.workload(id)?;
            let program = self.workloads.join(&workload.definition.id).join(&workload.definition.program);
            let job = Job::start(&setting, index, *priority, id, &program, workload.gpu_busy_share, work)?;
            jobs.insert(0, job);
            let warm = wait_until(self.limits.ready, || {
                jobs.iter().try_for_each(Job::runs)?;
                Ok(jobs[0].is_ready().then_some(()))
            })?;
            ensure!(
                warm.is_some(),
                "{} was not ready after {} s: {}",
                jobs[0].name(),
                self.limits.ready.as_secs(),
                jobs[0].last_words()
            );
        }
        setting.give_go()?;
        let (lead, others) = jobs.split_last().context("the cell has no job")?;
        let limit = Duration::from_nanos(scenario.span_ns) + self.limits.lead;
        let ended = wait_until(limit, || {
            others.iter().try_for_each(Job::has_not_failed)?;
            lead.has_ended()
        })?;
        ensure!(ended.is_some(), "{} did not end within {} s", lead.name(), limit.as_secs());
        setting.give_stop()?;
        for other in others {
            let ended = wait_until(self.limits.rest, || other.has_ended())?;
            let limit = self.limits.rest.as_secs();
            ensure!(ended.is_some(), "{} did not end within {limit} s after the server", other.name());
        }
        let outcome = outcome(&jobs, &planned, scenario)?;
        let mut runtime = None;
        if setting.policy.is_some() {
            let mut reports = Vec::new();
            for job in jobs.iter().rev() {
                let of_job = effect::reports(&job.reports(), job.name())?;
                reports.extend(of_job.into_iter().map(|report| (job.priority(), report)));
            }
            runtime = Some(effect::prove(system, &reports, jobs.len() > 1)?);
        }
        Ok(Answer { outcome, runtime })
    }
}

/// What the jobs' results say; `jobs` has the leading one last, `planned` first.
fn outcome(jobs: &[Job], planned: &[(Priority, &str, Loop)], scenario: &Scenario) -> Result<Outcome> {
    let mut results = Vec::new();
    for job in jobs.iter().rev() {
        results.push(job.result().with_context(|| job.name().to_owned())?);
    }
    let lead = results.first().context("the cell has no job")?;
    let (zero_ns, window_ns) = (lead.begin_ns, lead.elapsed_ns);
    let mut outcome = Outcome {
        requests: Vec::new(),
        best_effort: Vec::new(),
        best_effort_requests: Vec::new(),
        iteration_ends: Vec::new(),
        end_ns: window_ns,
        counters: sim::Counters::default(),
    };
    for (result, (priority, id, work)) in results.iter().zip(planned) {
        let requests = match work {
            Loop::Closed { .. } => result.closed_loop(),
            Loop::Paced { arrivals_ns, .. } => {
                result.paced(arrivals_ns, zero_ns).with_context(|| format!("`{id}`"))?
            }
            Loop::Training { .. } => Vec::new(),
        };
        if *priority == Priority::High {
            outcome.requests = requests;
            continue;
        }
        let is_training = matches!(work, Loop::Training { .. });
        outcome.best_effort.push(if is_training {
            result.progress(zero_ns, window_ns).with_context(|| format!("`{id}`"))?
        } else {
            let served = requests.iter().filter(|request| request.end_ns <= scenario.span_ns).count();
            sim::Progress { iterations: served as u64, partial: 0.0, elapsed_ns: window_ns }
        });
        let ends = if is_training { result.ends(zero_ns, window_ns) } else { Vec::new() };
        outcome.iteration_ends.push(ends);
        outcome.best_effort_requests.push(requests);
    }
    Ok(outcome)
}

impl Executor for Gpu {
    fn backend(&self) -> &'static str {
        "gpu"
    }

    fn device(&self) -> Option<&Device> {
        Some(&self.device)
    }

    fn begin(&self, set: ProfileSet) {
        let _ = self.stack.set(set);
    }

    fn skip(&self, cell: &Cell) -> Option<String> {
        simulated_only(&System::parse(&cell.system).ok()?).map(|why| format!("simulated only: {why}"))
    }

    fn inputs(&self, cell: &Cell) -> Result<Option<BTreeMap<String, String>>> {
        let mut inputs = BTreeMap::new();
        let mut put = |name: &str, value: String| inputs.insert(name.to_owned(), value);
        put("machine", format!("{}, host {}", self.device.identity(), self.host));
        for (name, id) in [("inference", &cell.inference), ("training", &cell.training)] {
            if let Some(id) = id {
                put(name, format!("{id} {}", self.program_sha256(id)?));
            }
        }
        if cell.system != "no-sharing" {
            put("runtime", self.tools_sha256.clone());
        }
        Ok(Some(inputs))
    }

    fn run(&self, cell: &Cell, scenario: &Scenario) -> Result<Answer> {
        if let Some(why) = self.lost.get() {
            bail!("not run: {why}");
        }
        let scratch = Scratch::new()?;
        let answer = self.measure(cell, scenario, scratch.path());
        // Also after a failure: the next cell must not meet this one's MPS server.
        let gone = daemon_is_gone(&scratch.path().join(job::DAEMON), self.limits.rest);
        if answer.is_err()
            && let Err(why) = self.device.answers()
        {
            let why = format!("after {cell} the device could not be used any more: {why}; rerun when it can");
            return Err(answer.unwrap_err().context(self.lost.get_or_init(|| why).clone()));
        }
        gone.and(answer)
    }
}

/// [`daemon_is_gone`] for the end of this process: the folder goes next, and with it what the daemon ends MPS by.
pub fn let_daemon_go(scratch: &Path) {
    let _ = daemon_is_gone(&scratch.join(job::DAEMON), LAST);
}

/// Waits until nobody holds the lock of the daemon's folder; the system frees it when the daemon has ended, however it did.
fn daemon_is_gone(folder: &Path, limit: Duration) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let paths = entries.flatten().map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "lock")) {
        let free = || {
            let file = fs::File::open(&path);
            Ok(file.map_or(true, |file| file.try_lock().is_ok()).then_some(()))
        };
        let gone = wait_until(limit, free)?;
        ensure!(gone.is_some(), "tallyd did not end within {} s after its last program", limit.as_secs());
    }
    Ok(())
}

/// Why the runtime cannot run a system; `None` when it can.
fn simulated_only(system: &System) -> Option<&'static str> {
    use sim::system::{Form, Hook, Substrate};
    let wiring = system.wiring();
    match (wiring.hook, wiring.substrate, wiring.form) {
        (Hook::Server | Hook::Closing, ..) => {
            Some("its launches go through a server, which the runtime does not have")
        }
        (_, Substrate::Partitions { .. }, _) => Some("the runtime does not divide the device"),
        (_, Substrate::Mps, _) if !wiring.mps_daemon => Some("all its jobs are in one process"),
        (.., Form::Gated | Form::Transformed { .. }) => Some("the runtime launches kernels as they are"),
        (Hook::None | Hook::Client, Substrate::Contexts | Substrate::Mps, Form::Original) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_is_run_or_has_a_reason() {
        let run: Vec<&str> =
            System::names().filter(|name| simulated_only(&System::parse(name).unwrap()).is_none()).collect();
        for name in
            ["no-sharing", "time-slicing", "mps", "mps-priority", "tgs", "tgs-mps", "gate", "gate-mps"]
        {
            assert!(run.contains(&name), "{name}: {run:?}");
        }
        for name in
            ["tally", "tally-no-scheduling", "tgs-artifact", "orion", "reef", "partition", "gate-cubin"]
        {
            assert!(!run.contains(&name), "{name}: {run:?}");
        }
    }
}
