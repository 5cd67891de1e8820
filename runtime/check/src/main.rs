//! The binary behind `cargo xtask gpu-check` and `cargo xtask selftest`.

use clap::Parser;
use std::process::ExitCode;

/// Checks the runtime on a GPU; `cargo xtask gpu-check` is the way to it
///
/// Exit codes: 0 everything held, 1 an error of the check itself, 2 a mistake in the command line, 3 something did not
/// hold (see rows.csv), 4 no GPU to check on.
#[derive(Parser)]
#[command(name = "gpu-check", version)]
struct Cli {
    #[command(flatten)]
    flags: flags::GpuCheck,
}

fn main() -> ExitCode {
    match check::cmd::run(&Cli::parse().flags) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", format!("{error:#}").trim_end());
            ExitCode::FAILURE
        }
    }
}
