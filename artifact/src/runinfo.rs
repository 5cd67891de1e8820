//! `run.toml`: how a run came about. The only file of a run folder with dates and facts about the host.

use crate::experiment::Experiment;
use crate::files;
use crate::gpu::Device;
use crate::library::RECORDED_ON;
use crate::provenance;
use crate::root::Root;
use crate::run::Tally;
use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use duct::cmd;
use flags::Size;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The file's name.
pub const NAME: &str = "run.toml";

/// `run.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// As in the column `machine`.
    pub machine: String,
    pub backend: String,
    /// How much of the experiments was run: `quick`, `default` or `full`.
    pub size: String,
    /// Every time that `reproduce` worked in this folder, the latest last.
    #[serde(default)]
    pub invocation: Vec<Invocation>,
}

/// One time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Without absolute paths.
    pub command: String,
    /// Start, UTC.
    pub started: String,
    pub wall_seconds: f64,
    pub backend_reason: String,
    /// Git revision of the repository, `unknown` without git.
    pub revision: String,
    /// Of the crates.
    #[serde(default)]
    pub version: String,
    /// Whether tracked files differed from that revision.
    pub dirty: bool,
    pub rustc: String,
    /// [`crate::key::FORMAT`].
    #[serde(default)]
    pub cell_format: u32,
    /// [`sim::VERSION`].
    pub simulator: u32,
    pub host_cpu: String,
    pub host_cores: u64,
    pub host_os: String,
    /// Cells at a time.
    pub jobs: u64,
    pub experiments: Vec<String>,
    pub cells_stored: u64,
    pub cells_executed: u64,
    pub cells_failed: u64,
    pub cells_skipped: u64,
    /// How the planned arrivals came about, one text per list.
    #[serde(default)]
    pub arrivals: Vec<String>,
    /// SHA-256 of the files that the experiments read.
    #[serde(default)]
    pub inputs: BTreeMap<String, String>,
    /// At which level our own systems hold kernels back.
    #[serde(default)]
    pub levels: BTreeMap<String, String>,
    /// The GPU that cells were measured on and its state at the start, the versions of what ran on it; none for the simulator.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, String>,
    /// Simulated seconds per second on one core, by system, of the cells executed this time.
    #[serde(default)]
    pub simulated_seconds_per_second: BTreeMap<String, f64>,
}

impl Invocation {
    /// Gathers what is known at the start.
    pub fn begin(
        root: &Root,
        backend_reason: &str,
        jobs: usize,
        machine: &str,
        experiments: &[&Experiment],
        device: Option<&Device>,
    ) -> Invocation {
        let git = |arguments: &[&str]| {
            let command = cmd("git", arguments).dir(root.path()).stderr_null();
            command.read().ok().filter(|text| !text.is_empty())
        };
        let revision = git(&["rev-parse", "HEAD"]);
        let built = Built::read(root.path());
        Invocation {
            command: provenance::command(
                &std::env::args().collect::<Vec<_>>(),
                root.path(),
                std::env::var_os("HOME").map(PathBuf::from).as_deref(),
            ),
            started: utc(SystemTime::now()),
            backend_reason: backend_reason.to_owned(),
            // A fresh clone without history still has a state.
            dirty: git(&["status", "--porcelain", "--untracked-files=no"]).is_some() || built.dirty(),
            revision: revision.unwrap_or_else(|| built.clean().to_owned()),
            rustc: (cmd!("rustc", "--version").stderr_null().read()).unwrap_or_else(|_| built.rustc.clone()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cell_format: crate::key::FORMAT,
            simulator: sim::VERSION,
            host_cpu: cpu(),
            host_cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            host_os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            jobs: jobs as u64,
            experiments: experiments.iter().map(|experiment| experiment.id.clone()).collect(),
            inputs: provenance::inputs(root, machine, RECORDED_ON, experiments),
            levels: provenance::levels(experiments),
            device: device.map(Device::facts).unwrap_or_default(),
            ..Invocation::default()
        }
    }

    /// Adds what is known at the end.
    pub fn end(&mut self, wall_seconds: f64, tally: &Tally, arrivals: Vec<String>) {
        self.arrivals = arrivals;
        self.wall_seconds = (wall_seconds * 1000.0).round() / 1000.0;
        self.cells_stored = tally.stored as u64;
        self.cells_executed = tally.executed as u64;
        self.cells_failed = tally.failed as u64;
        self.cells_skipped = tally.skipped as u64;
        // A device runs in real time.
        self.simulated_seconds_per_second = (tally.pace.iter())
            .filter(|(_, (_, wall))| *wall > 0.0 && self.device.is_empty())
            .map(|(system, (simulated, wall))| (system.clone(), (simulated / wall * 100.0).round() / 100.0))
            .collect();
    }
}

impl RunInfo {
    /// Reads the folder's file.
    ///
    /// # Errors
    /// It cannot be read, or is of another version, by line.
    pub fn read(run: &Path) -> Result<RunInfo> {
        let path = run.join(NAME);
        let text = bounded::text(&path, bounded::DEFINITION)
            .with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("in {}", path.display()))
    }

    /// How much of the experiments was run.
    ///
    /// # Errors
    /// A size that this version does not know.
    pub fn size(&self) -> Result<Size> {
        Size::from_str(&self.size, false)
            .map_err(|_| anyhow!("{NAME}: size `{}` is not one of quick, default, full", self.size))
    }

    /// Appends an invocation to the folder's file. One that cannot be read, as of another version, is kept under
    /// another name and a new one begun; the name is returned.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(
        run: &Path,
        machine: &str,
        backend: &str,
        size: Size,
        invocation: Invocation,
    ) -> Result<Option<PathBuf>> {
        let path = run.join(NAME);
        let mut aside = None;
        let mut info = match RunInfo::read(run) {
            Ok(info) => info,
            Err(_) => {
                if path.exists() {
                    let free = |n: &u32| !run.join(format!("{NAME}.old-{n}")).exists();
                    let n = (1..).find(free).context("there is no free name")?;
                    let old = run.join(format!("{NAME}.old-{n}"));
                    fs::rename(&path, &old).with_context(|| files::cannot_write(&old))?;
                    aside = Some(old);
                }
                RunInfo::default()
            }
        };
        info.machine = machine.to_owned();
        info.backend = backend.to_owned();
        info.size = size.name().to_owned();
        info.invocation.push(invocation);
        files::write_atomically(&path, toml::to_string(&info)?.as_bytes())?;
        Ok(aside)
    }
}

/// `built.toml`: what a container image or package knows of its sources, having neither git nor a compiler.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Built {
    /// With `-dirty` at its end when tracked files differed.
    revision: String,
    rustc: String,
}

impl Built {
    /// The file of this folder; everything is `unknown` without one.
    fn read(folder: &Path) -> Built {
        let text = fs::read_to_string(folder.join("built.toml")).unwrap_or_default();
        let unknown = || "unknown".to_owned();
        toml::from_str(&text).unwrap_or_else(|_| Built { revision: unknown(), rustc: unknown() })
    }

    fn clean(&self) -> &str {
        self.revision.strip_suffix("-dirty").unwrap_or(&self.revision)
    }

    fn dirty(&self) -> bool {
        self.revision.ends_with("-dirty")
    }
}

/// The processor's name, as Linux tells it.
pub(crate) fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or("unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

/// ISO 8601 in UTC, to the second.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day comes last: the usual conversion from days (H. Hinnant,
    // "chrono-compatible low-level date algorithms").
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_by_hand() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
    }

    #[test]
    fn an_image_knows_its_sources() {
        let folder = tempfile::tempdir().unwrap();
        let built = Built::read(folder.path());
        assert_eq!((built.clean(), built.dirty(), built.rustc.as_str()), ("unknown", false, "unknown"));
        let text = "revision = \"1a2b-dirty\"\nrustc = \"rustc 1.95.0\"\n";
        fs::write(folder.path().join("built.toml"), text).unwrap();
        let built = Built::read(folder.path());
        assert_eq!((built.clean(), built.dirty(), built.rustc.as_str()), ("1a2b", true, "rustc 1.95.0"));
    }

    #[test]
    fn invocations_are_kept() {
        let run = tempfile::tempdir().unwrap();
        for command in ["one", "two"] {
            let invocation = Invocation { command: command.to_owned(), ..Invocation::default() };
            RunInfo::append(run.path(), "h200", "sim", Size::Quick, invocation).unwrap();
        }
        let info = RunInfo::read(run.path()).unwrap();
        assert_eq!((info.size().unwrap(), info.invocation.len()), (Size::Quick, 2));
        assert_eq!(info.invocation[1].command, "two");
    }

    #[test]
    fn what_another_version_wrote_is_kept_aside() {
        let run = tempfile::tempdir().unwrap();
        let append =
            || RunInfo::append(run.path(), "h200", "sim", Size::Quick, Invocation::default()).unwrap();
        assert_eq!(append(), None);
        for old in ["run.toml.old-1", "run.toml.old-2"] {
            fs::write(run.path().join(NAME), "a_new_field = 1\n").unwrap();
            assert_eq!(append(), Some(run.path().join(old)));
            assert_eq!(fs::read_to_string(run.path().join(old)).unwrap(), "a_new_field = 1\n");
            assert_eq!(RunInfo::read(run.path()).unwrap().invocation.len(), 1);
        }
    }
}
