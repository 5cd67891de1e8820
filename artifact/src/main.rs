//! The binary behind `cargo xtask reproduce`, `verify` and others.

use anyhow::{Context, Result};
use artifact::cmd;
use artifact::executor::{Fake, Simulator};
use artifact::gpu::{self, Gpu};
use artifact::root::Root;
use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs experiments and checks their records; `cargo xtask` is the way to it
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run experiments; a second run skips what is done
    Reproduce(flags::Reproduce),
    /// Check the files and the numbers of a run folder
    Verify(flags::Verify),
    /// Tell what is different between two run folders
    Compare(flags::Compare),
    /// Time the simulator: simulated seconds per second, for each system
    Bench(flags::Bench),
    /// Compare simulated slowdowns with published and measured ones
    Fidelity(flags::Fidelity),
    /// Check workload definitions and profiles
    #[command(subcommand)]
    Workloads(flags::Workloads),
    /// Renew SHA256SUMS of a run folder
    Seal(Seal),
    /// `reproduce` with made-up numbers, to test everything around the simulator
    #[command(hide = true)]
    Fake(FakeRun),
}

#[derive(Args)]
struct Seal {
    /// The run folder [default: results/h200-sim, else results/h200-sim-quick]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
}

#[derive(Args)]
struct FakeRun {
    /// How long each cell takes, ms
    #[arg(long, default_value_t = 0)]
    cell_ms: u64,
    /// Cells whose description contains this text fail
    #[arg(long)]
    fail: Option<String>,
    /// How much longer each request takes, %
    #[arg(long, default_value_t = 0)]
    slower: u64,
    #[command(flatten)]
    reproduce: flags::Reproduce,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = stop_on_signals().and_then(|()| match cli.verb {
        Verb::Reproduce(flags) if flags.backend == flags::Backend::Gpu => {
            let gpu = Gpu::find(&Root::find()?, flags.device.as_deref())?;
            cmd::reproduce::run(&flags, &gpu)
        }
        // xtask, which looks for a GPU, says which of the two it is.
        Verb::Reproduce(flags) => cmd::reproduce::run(&flags, &Simulator),
        Verb::Verify(flags) => cmd::verify::run(&flags),
        Verb::Compare(flags) => cmd::compare::run(&flags),
        Verb::Bench(flags) => cmd::bench::run(&flags),
        Verb::Fidelity(flags) => cmd::fidelity::run(&flags),
        Verb::Workloads(flags::Workloads::Check(flags)) => cmd::workloads::check(&flags),
        Verb::Seal(flags) => cmd::seal::run(flags.run.as_deref()),
        Verb::Fake(flags) => {
            let cell_time = Duration::from_millis(flags.cell_ms);
            let fake = Fake { cell_time, fail: flags.fail, slower: flags.slower };
            cmd::reproduce::run(&flags.reproduce, &fake)
        }
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", clipped(format!("{error:#}").trim_end()));
            ExitCode::FAILURE
        }
    }
}

/// A message without lines that nobody reads: an error of a TOML file repeats its line, whoever wrote it.
fn clipped(message: &str) -> String {
    const MOST: usize = 1000;
    let clip = |line: &str| match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{} ...", &line[..at]),
        None => line.to_owned(),
    };
    message.lines().map(clip).collect::<Vec<_>>().join("\n")
}

/// Ends on Ctrl-C: what is stored is whole at any moment, so there is nothing to wait for but the programs of a cell that
/// is being measured.
fn stop_on_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot take over Ctrl-C")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\ninterrupted: finished cells are kept, and the same command goes on from there");
            gpu::stop_all();
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}
