//! The binary behind `cargo xtask doctor`.

use clap::Parser;
use std::process::ExitCode;

/// Checks whether this machine is fit, and what the experiments cost on it; `cargo xtask doctor` is the way to it
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    flags: flags::Doctor,
}

fn main() -> ExitCode {
    match doctor::cmd::run(&Cli::parse().flags) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", format!("{error:#}").trim_end());
            ExitCode::FAILURE
        }
    }
}
