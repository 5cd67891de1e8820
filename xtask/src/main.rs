//! `cargo xtask <verb>`: parses the command line, chooses the backend, builds the binaries it needs and starts them.
//!
//! It links none of them and has next to no dependencies, so that `--help` and a bad flag are answered within
//! seconds on a fresh clone, before anything large is compiled.

mod backend;
mod bench;
mod binaries;
mod child;
mod compare;
mod container;
mod doctor;
mod fetch;
mod fidelity;
mod figure;
mod gpu_check;
mod h200_check;
mod report;
mod reproduce;
mod verify;
mod workloads;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Reproduces a GPU-sharing paper from real traffic and recorded kernels, on a simulated or a real GPU
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run experiments and draw their figures; a second run skips what is done
    Reproduce(flags::Reproduce),
    /// Draw one figure from a run folder
    Figure(flags::Draw),
    /// Write one table from a run folder
    Table(flags::Draw),
    /// Write report.html, all of a run in one file, into its folder
    Report(flags::Report),
    /// Check a run folder: its files, its numbers, its figures
    Verify(flags::Verify),
    /// Tell what is different between two run folders, and whether it is more than chance
    Compare(flags::Compare),
    /// Check whether this machine is fit, what to repair, and what the experiments cost
    Doctor(flags::Doctor),
    /// Fetch the data that the repository doesn't carry, or take it from --from FILE
    Fetch(flags::Fetch),
    /// Compare the simulator with cells measured on an H200 (reproduce --experiment h200-check)
    H200Check(flags::Reproduce),
    /// Check the runtime on a GPU: same results, latencies beside training, faults; exit code 4 without a GPU
    GpuCheck(flags::GpuCheck),
    /// A minute on a GPU: the runtime is in programs, results are the same, the gate holds back; exit code 4 without a GPU
    Selftest(flags::Selftest),
    /// Time the simulator: simulated seconds per second, for each system
    Bench(flags::Bench),
    /// Tell how far the simulator can be trusted: beside published and measured numbers, and with constants varied
    Fidelity(flags::Fidelity),
    /// Check the definitions and profiles of the jobs
    #[command(subcommand)]
    Workloads(flags::Workloads),
    /// Build the container image, or run verbs in it
    #[command(subcommand)]
    Container(flags::Container),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match &cli.verb {
        Verb::Reproduce(flags) => reproduce::run(flags),
        Verb::Figure(flags) | Verb::Table(flags) => figure::run(flags),
        Verb::Report(flags) => report::run(flags),
        Verb::Verify(flags) => verify::run(flags),
        Verb::Compare(_) => compare::run(),
        Verb::Doctor(_) => doctor::run(),
        Verb::Fetch(flags) => fetch::run(flags),
        Verb::H200Check(flags) => h200_check::run(flags),
        Verb::GpuCheck(flags) => gpu_check::run(flags),
        Verb::Selftest(flags) => gpu_check::selftest(flags),
        Verb::Bench(_) => bench::run(),
        Verb::Fidelity(flags) => fidelity::run(flags),
        Verb::Workloads(_) => workloads::run(),
        Verb::Container(flags) => container::run(flags),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", format!("{error:#}").trim_end());
            ExitCode::FAILURE
        }
    }
}
