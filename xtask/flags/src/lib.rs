//! The command line, defined once: `cargo xtask <verb>` and the binaries behind it parse the same structs, so a verb has
//! the same flags and the same help wherever it is typed.

mod container;

pub use container::{
    Container, ContainerBuild, ContainerHost, ContainerImage, ContainerReproduce, ContainerRun, Engine, IMAGE,
};

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

mod doctor;
mod fidelity;
mod gpu_check;

pub use doctor::Doctor;
pub use fidelity::Fidelity;
pub use gpu_check::{GpuCheck, Part, Selftest};

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The GPU when device, driver and runtime are fit, else the simulator.
    #[default]
    Auto,
    /// The simulator, on any machine.
    Sim,
    /// The GPU, or an error.
    Gpu,
}

/// The GPU model that the simulator plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    /// The GPU that the kernels were recorded on.
    #[default]
    H200,
    /// The paper's GPU: an extrapolation from the recording by published peak rates.
    A100,
}

impl Machine {
    /// The name of its file under `machines/`.
    pub fn name(self) -> &'static str {
        match self {
            Machine::H200 => "h200",
            Machine::A100 => "a100",
        }
    }
}

/// Flags of `reproduce`, and of `h200-check`, which is `reproduce --experiment h200-check`.
#[derive(Args, Clone, Debug, Default)]
#[command(args_override_self = true)]
pub struct Reproduce {
    /// One pair of jobs and short cells: about a minute
    #[arg(long)]
    pub quick: bool,

    /// Every pair, 1,000 requests or more behind each p99, and repeats: hours, which are said before it begins
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,

    /// Where the numbers come from
    #[arg(long, value_enum, default_value_t)]
    pub backend: Backend,

    /// The GPU model to simulate
    #[arg(long, value_enum, default_value_t)]
    pub machine: Machine,

    /// An experiment to run, a file of artifact/experiments/; may be repeated
    #[arg(long = "experiment", value_name = "ID")]
    pub experiments: Vec<String>,

    /// The run folder [default: results/<machine>-<backend>, with -quick or -full for those flags]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Repeat every cell with the seeds 1 to N instead of the experiment's own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,

    /// Print the plan with its cost, and stop
    #[arg(long)]
    pub list: bool,

    /// Draw figures and tables even when cells failed; what is missing is marked
    #[arg(long)]
    pub partial: bool,

    /// Cells simulated at a time [default: one per core]; a GPU measures one at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,

    /// The GPU to measure on, by its UUID [default: the first of CUDA_VISIBLE_DEVICES, else the driver's first]
    #[arg(long, value_name = "UUID")]
    pub device: Option<String>,

    /// On a GPU: without a container, also where an engine could pass the GPU through
    #[arg(long)]
    pub native: bool,

    /// Why the backend was chosen; xtask, which decides, passes it on.
    #[arg(long, hide = true, default_value = "asked for with --backend sim")]
    pub backend_reason: String,
}

/// How much of the experiments is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Size {
    Quick,
    #[default]
    Default,
    Full,
}

impl Size {
    /// As in `run.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Default => "default",
            Size::Full => "full",
        }
    }

    /// What is added to names of folders and files: `-quick`, nothing, `-full`.
    pub fn suffix(self) -> &'static str {
        match self {
            Size::Quick => "-quick",
            Size::Default => "",
            Size::Full => "-full",
        }
    }
}

impl Reproduce {
    /// How much was asked for.
    pub fn size(&self) -> Size {
        match (self.quick, self.full) {
            (true, _) => Size::Quick,
            (_, true) => Size::Full,
            _ => Size::Default,
        }
    }

    /// The command line that parses to these flags, for a process elsewhere. `backend_reason` is not for users and
    /// stays out.
    pub fn arguments(&self) -> Vec<OsString> {
        // Taken apart field by field, so that a new flag cannot be forgotten here.
        let Reproduce {
            quick,
            full,
            backend,
            machine,
            experiments,
            out,
            seeds,
            list,
            partial,
            jobs,
            device,
            native,
            backend_reason: _,
        } = self;
        let mut arguments: Vec<OsString> = Vec::new();
        let switches = [
            ("--quick", quick),
            ("--full", full),
            ("--list", list),
            ("--partial", partial),
            ("--native", native),
        ];
        arguments.extend(switches.iter().filter(|(_, on)| **on).map(|(name, _)| name.into()));
        let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        let backend = match backend {
            Backend::Auto => "auto",
            Backend::Sim => "sim",
            Backend::Gpu => "gpu",
        };
        add("--backend", backend.into());
        add("--machine", machine.name().into());
        experiments.iter().for_each(|id| add("--experiment", id.into()));
        out.iter().for_each(|folder| add("--out", folder.into()));
        seeds.iter().for_each(|n| add("--seeds", n.to_string().into()));
        jobs.iter().for_each(|n| add("--jobs", n.to_string().into()));
        device.iter().for_each(|uuid| add("--device", uuid.into()));
        arguments
    }
}

/// Flags of `figure` and `table`.
#[derive(Args, Clone, Debug)]
pub struct Draw {
    /// What to draw, e.g. fig5; --list prints what there is
    #[arg(required_unless_present = "list")]
    pub id: Option<String>,

    /// The run folder to draw from [default: results/h200-sim, else results/h200-sim-quick]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,

    /// Print the figures and tables there are, and stop
    #[arg(long)]
    pub list: bool,

    /// Draw from an incomplete run; what is missing is marked
    #[arg(long)]
    pub partial: bool,
}

/// Flags of `verify`.
#[derive(Args, Clone, Debug)]
pub struct Verify {
    /// The run folder [default: results/h200-sim, else results/h200-sim-quick]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,

    /// Make this run's tables the golden values, after a change that is meant to move them
    #[arg(long)]
    pub update_golden: bool,
}

/// Flags of `report`.
#[derive(Args, Clone, Debug)]
pub struct Report {
    /// The run folder [default: results/h200-sim, else results/h200-sim-quick]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
}

/// Verbs of `workloads`.
#[derive(clap::Subcommand, Clone, Debug)]
pub enum Workloads {
    /// Read every definition and profile; with --against, compare with upstream's configuration
    Check(WorkloadsCheck),
}

/// Flags of `workloads check`.
#[derive(Args, Clone, Debug)]
pub struct WorkloadsCheck {
    /// A copy of tally-bench: a folder, or the archive that `cargo xtask fetch tally-bench` makes
    #[arg(long, value_name = "PATH")]
    pub against: Option<PathBuf>,
}

/// Flags of `compare`.
#[derive(Args, Clone, Debug)]
pub struct Compare {
    /// A run folder
    pub a: PathBuf,

    /// Another one, or a copy from another machine
    pub b: PathBuf,

    /// Also write every number with its interval to this file
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// How far two rates without samples may be apart, as a share of A's
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, value_parser = share)]
    pub rate_tolerance: f64,
}

/// A share from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("it must be a number from 0 to 1".to_owned()),
    }
}

/// Flags of `bench`.
#[derive(Args, Clone, Debug)]
pub struct Bench {
    /// A system to time; may be repeated [default: every system]
    #[arg(long = "system", value_name = "NAME")]
    pub systems: Vec<String>,

    /// Simulated seconds of each pair of jobs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,

    /// Also write every pair's numbers to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Flags of `fetch`.
#[derive(Args, Clone, Debug, Default)]
pub struct Fetch {
    /// What to fetch, ids of artifact/sources.toml; --list prints them [default: what experiments can use]
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    /// Take it from this file, or from the files of this folder, and verify it the same way
    #[arg(long, value_name = "FILE|DIR")]
    pub from: Option<PathBuf>,

    /// Ask nothing of the network: verify what is there, unpack what can be
    #[arg(long)]
    pub offline: bool,

    /// Print what there is, where it comes from and under which licence, and stop
    #[arg(long)]
    pub list: bool,

    /// The folder for the files [default: the one where each is looked for, e.g. traces/full]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The run folder of `reproduce`.
pub fn out_folder(given: Option<&Path>, machine: Machine, backend: &str, size: Size) -> PathBuf {
    match given {
        Some(folder) => folder.to_path_buf(),
        None => Path::new("results").join(format!("{}-{backend}{}", machine.name(), size.suffix())),
    }
}

/// The run folder of `reproduce` on a GPU of this name, as the driver gives it: `NVIDIA H200` makes `results/h200-gpu`.
pub fn device_folder(product: &str, size: Size) -> PathBuf {
    let name = product.strip_prefix("NVIDIA ").unwrap_or(product).to_ascii_lowercase();
    let words: Vec<&str> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    Path::new("results").join(format!("{}-gpu{}", words.join("-"), size.suffix()))
}

/// The run folder that the verbs after `reproduce` read.
///
/// # Errors
/// No folder was given and none of the default ones exists, or the given one does not; the message says what to do.
pub fn run_folder(given: Option<&Path>) -> Result<PathBuf, String> {
    let next = "make one with `cargo xtask reproduce`, or name one with `--run DIR`";
    match given {
        Some(folder) if folder.is_dir() => Ok(folder.to_path_buf()),
        Some(folder) => Err(format!("there is no run folder {}: {next}", folder.display())),
        None => {
            let usual = out_folder(None, Machine::H200, "sim", Size::Default);
            let quick = out_folder(None, Machine::H200, "sim", Size::Quick);
            [&usual, &quick].into_iter().find(|f| f.is_dir()).cloned().ok_or_else(|| {
                format!("there is neither {} nor {}: {next}", usual.display(), quick.display())
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_what_determines_them() {
        let folder = |machine, size| out_folder(None, machine, "sim", size);
        assert_eq!(folder(Machine::H200, Size::Quick), Path::new("results/h200-sim-quick"));
        assert_eq!(folder(Machine::H200, Size::Full), Path::new("results/h200-sim-full"));
        assert_eq!(folder(Machine::A100, Size::Default), Path::new("results/a100-sim"));
        assert_eq!(out_folder(Some(Path::new("x")), Machine::A100, "sim", Size::Full), Path::new("x"));
    }

    #[test]
    fn flags_survive_the_way_to_another_process() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            flags: Reproduce,
        }
        let all = "x --quick --list --partial --backend gpu --machine a100 --experiment fig5 --experiment fig7a \
                   --out results/x --seeds 3 --jobs 2 --device GPU-1b2c --native";
        for line in ["x", "x --full", all] {
            let typed = <Cli as clap::Parser>::parse_from(line.split_whitespace()).flags;
            let passed = [OsString::from("x")].into_iter().chain(typed.arguments());
            let again = <Cli as clap::Parser>::parse_from(passed).flags;
            assert_eq!(format!("{typed:?}"), format!("{again:?}"));
        }
    }

    #[test]
    fn folders_are_named_by_the_gpu() {
        let folder = |product| device_folder(product, Size::Quick);
        assert_eq!(folder("NVIDIA H200"), Path::new("results/h200-gpu-quick"));
        assert_eq!(folder("NVIDIA A100-SXM4-40GB"), Path::new("results/a100-sxm4-40gb-gpu-quick"));
        assert_eq!(folder("Stub GPU"), Path::new("results/stub-gpu-gpu-quick"));
        assert_eq!(folder("../../x"), Path::new("results/x-gpu-quick"));
    }

    #[test]
    fn a_missing_run_folder_says_what_to_do() {
        let error = run_folder(Some(Path::new("no/such"))).unwrap_err();
        assert!(error.contains("no/such") && error.contains("cargo xtask reproduce"), "{error}");
    }
}
