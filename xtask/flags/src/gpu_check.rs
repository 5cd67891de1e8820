//! Flags of `gpu-check` and `selftest`.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// A part of `gpu-check`; a failed one does not stop the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// A minute: interposition is seen, outputs are equal, the gate holds work back
    Selftest,
    /// Programs give the same bytes with the runtime and without it
    Correctness,
    /// Latency and throughput of pairs of jobs under each system, and the frontier of the gate
    Corun,
    /// Kills and device errors: what the other side sees, for how long, and what is left over
    Faults,
    /// What is said where something is missing; needs no GPU
    Answers,
}

impl Part {
    /// As `--only` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Selftest => "selftest",
            Part::Correctness => "correctness",
            Part::Corun => "corun",
            Part::Faults => "faults",
            Part::Answers => "answers",
        }
    }
}

/// Flags of `gpu-check`.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true)]
pub struct GpuCheck {
    /// A part to run; may be repeated [default: all but selftest]
    #[arg(long = "only", value_name = "PART", value_enum)]
    pub only: Vec<Part>,

    /// Where results go; parts that are there already are gone on with
    #[arg(long, value_name = "DIR", default_value = "results/gpu-check")]
    pub out: PathBuf,

    /// Start nothing that would take longer than this in all, s
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub limit: u64,

    /// The device, as `nvidia-smi -L` names it; needed where there are several
    #[arg(long, value_name = "UUID")]
    pub gpu: Option<String>,

    /// The Python with PyTorch
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,

    /// Folder of tally, tallyd and the libraries [default: this binary's]
    #[arg(long, value_name = "DIR")]
    pub tools: Option<PathBuf>,

    /// The repository, for the jobs and programs
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub repo: PathBuf,

    /// Renew runtime/check/record from the results in --out, and stop
    #[arg(long, conflicts_with_all = ["only", "age", "list"])]
    pub record: bool,

    /// Print how old the records are and what changed since, and stop
    #[arg(long, conflicts_with_all = ["only", "list"])]
    pub age: bool,

    /// Print what would be run and how long it takes, and stop
    #[arg(long)]
    pub list: bool,

    /// Try the parts out on a machine without a GPU: small models on the CPU, short spans, no judgement
    #[arg(long)]
    pub dry: bool,
}

/// Flags of `selftest`.
#[derive(Args, Clone, Debug)]
pub struct Selftest {
    /// The device, as `nvidia-smi -L` names it; needed where there are several
    #[arg(long, value_name = "UUID")]
    pub gpu: Option<String>,

    /// The Python with PyTorch
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,

    /// Where results go
    #[arg(long, value_name = "DIR", default_value = "results/selftest")]
    pub out: PathBuf,
}

impl Selftest {
    /// The command line of `gpu-check` that does this.
    pub fn arguments(&self) -> Vec<OsString> {
        let Selftest { gpu, python, out } = self;
        let mut arguments: Vec<OsString> = vec!["--only".into(), Part::Selftest.name().into()];
        let mut add = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        add("--python", python.into());
        add("--out", out.into());
        gpu.iter().for_each(|gpu| add("--gpu", gpu.into()));
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Check {
        #[command(flatten)]
        flags: GpuCheck,
    }

    #[derive(Parser)]
    struct Short {
        #[command(flatten)]
        flags: Selftest,
    }

    #[test]
    fn a_selftest_is_a_check_of_one_part() {
        let typed = Short::parse_from(["x", "--gpu", "GPU-1", "--out", "o"]).flags;
        let all = [OsString::from("x")].into_iter().chain(typed.arguments());
        let check = Check::parse_from(all).flags;
        assert_eq!((check.only, check.gpu.as_deref()), (vec![Part::Selftest], Some("GPU-1")));
        assert_eq!((check.out, check.python), (PathBuf::from("o"), PathBuf::from("python3")));
        // xtask names the repository first; what the user says later counts.
        let twice = Check::parse_from(["x", "--repo", "a", "--repo", "b"]).flags;
        assert_eq!(twice.repo, PathBuf::from("b"));
    }
}
