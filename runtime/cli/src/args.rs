//! The command line of `tally`.

use clap::{Args, Parser, Subcommand};
use protocol::Priority;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tally run -- python3 serve.py                                a server, high priority
  tally run --priority best-effort -- python3 train.py         in another terminal: fills its gaps
  tally run --both -- python3 serve.py -- python3 train.py     both at once; training ends with the server
  tally run --policy gate-mps --both -- ./server -- ./trainer  over MPS instead of separate contexts
  tally run --policy none -- python3 train.py                  as if started without tally

Exit codes of run:
  the program's own (of the first one with --both); 128 + N if signal N ended it
  2    a wrong argument or setting; nothing was started
  125  tally itself failed, with a message that says why and what to do
  126  the program was found and cannot be executed; 127 there is no such program";

/// Share one GPU between a latency-critical program and best-effort ones, unmodified
#[derive(Parser, Debug)]
#[command(name = "tally", version, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Run a program, or two, as a client of the GPU's daemon, which is started if none runs
    Run(Run),
    /// Show the daemons and their programs
    Status(Status),
    /// Show them again each second, with rates; q ends it
    Top(Top),
}

/// Flags of `run`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Run {
    /// high is never held back; best-effort waits while a high-priority program has work on the GPU
    #[arg(long, value_name = "high|best-effort", conflicts_with = "both")]
    pub priority: Option<Priority>,

    /// Run two programs, `-- HIGH ARGS -- BEST-EFFORT ARGS`; the second is stopped when the first ends
    #[arg(long)]
    pub both: bool,

    /// How best effort is held back, e.g. gate or gate-mps:depth=2, or `none` [default: that of the running daemon, else gate]
    #[arg(long, value_name = "SPEC")]
    pub policy: Option<String>,

    /// The GPU's UUID, as `nvidia-smi -L` prints it, or `none` for no check [default: CUDA_VISIBLE_DEVICES, or the only one]
    #[arg(long, value_name = "UUID")]
    pub gpu: Option<String>,

    /// Keep each process's report (JSON) in this folder
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,

    /// The daemon's private folder [default: TALLY_DIR, $XDG_RUNTIME_DIR/tally or /tmp/tally-UID]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Stand in for libcuda.so.1 instead of preloading, for programs that reset LD_PRELOAD or load CUDA in unusual ways
    #[arg(long)]
    pub shim: bool,

    /// Seconds between asking a program to end and killing it; only where tally ends it (--both, MPS)
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub grace: u64,

    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,

    /// The program with its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// Flags of `status`.
#[derive(Args, Clone, Debug)]
pub struct Status {
    /// Print JSON: a list with one object per daemon
    #[arg(long)]
    pub json: bool,

    /// The daemon's private folder [default: as for run]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Flags of `top`.
#[derive(Args, Clone, Debug)]
pub struct Top {
    /// The daemon's private folder [default: as for run]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

impl Run {
    /// The programs with their priorities, the one whose end ends the run first.
    ///
    /// # Errors
    /// `--both` without two programs.
    pub fn programs(&self) -> Result<Vec<(Priority, &[OsString])>, String> {
        if !self.both {
            return Ok(vec![(self.priority.unwrap_or(Priority::High), &self.command)]);
        }
        let parts: Vec<&[OsString]> = self.command.splitn(2, |word| word == "--").collect();
        match parts[..] {
            [high, low] if !high.is_empty() && !low.is_empty() => {
                Ok(vec![(Priority::High, high), (Priority::BestEffort, low)])
            }
            _ => Err("--both needs two programs: `-- HIGH ARGS -- BEST-EFFORT ARGS`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(arguments: &[&str]) -> Run {
        let all = ["tally", "run"].iter().chain(arguments);
        match Cli::try_parse_from(all).unwrap().verb {
            Verb::Run(run) => run,
            _ => panic!("not run"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn programs_are_split_at_the_first_dashes() {
        let one = run(&["--priority", "best-effort", "--", "a", "--gpu", "x", "--", "y"]);
        assert_eq!(one.programs().unwrap(), [(Priority::BestEffort, &one.command[..])]);
        assert_eq!(one.command, ["a", "--gpu", "x", "--", "y"]);
        let both = run(&["--both", "--", "a", "1", "--", "b", "--", "2"]);
        let programs = both.programs().unwrap();
        assert_eq!(programs[0], (Priority::High, &["a".into(), "1".into()][..]));
        assert_eq!(programs[1].1, ["b", "--", "2"]);
        for missing in [&["--both", "--", "a"][..], &["--both", "--", "a", "--"]] {
            assert!(run(missing).programs().unwrap_err().contains("two programs"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            &["tally", "run"][..],
            &["tally", "run", "--priority", "low", "--", "a"],
            &["tally", "run", "--both", "--priority", "high", "--", "a", "--", "b"],
        ] {
            assert_eq!(Cli::try_parse_from(wrong).unwrap_err().exit_code(), 2);
        }
    }
}
