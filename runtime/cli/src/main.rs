//! `tally`: runs unmodified programs so that they share a GPU, and shows them.

mod args;
mod connect;
mod jobs;
mod program;
mod run;
mod status;
mod summary;
mod top;

use args::{Cli, Verb};
use clap::Parser;
use daemon::say;
use protocol::settings::Settings;
use std::process::ExitCode;

/// A failure of this program's own, with its exit code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        fail(error)
    }
}

/// A failure with the code that says that this program failed, not the one it ran (as `env` and `timeout` do).
pub fn fail(error: anyhow::Error) -> Failure {
    Failure { code: 125, error }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let settings = match Settings::of_environment() {
        Ok(settings) => settings,
        Err(error) => {
            say!("tally: {error}");
            return ExitCode::from(2);
        }
    };
    let done = match &cli.verb {
        Verb::Run(flags) => run::run(flags, &settings),
        Verb::Status(flags) => status::run(flags, &settings),
        Verb::Top(flags) => top::run(flags, &settings),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, error }) => {
            say!("tally: {error:#}");
            ExitCode::from(code)
        }
    }
}
