//! `tallyd`: the daemon in the foreground. `tally run` starts it when none answers.

use anyhow::Result;
use clap::Parser;
use daemon::policy::Runnable;
use daemon::{Occupied, Options, gpu, place};
use protocol::settings::Settings;
use std::path::PathBuf;
use std::process::ExitCode;

/// Lets programs that `tally run` starts share a GPU; stays in the foreground until SIGTERM or SIGINT
#[derive(Parser, Debug)]
#[command(name = "tallyd", version)]
struct Cli {
    /// How best effort is held back, e.g. gate or gate-mps:depth=2; docs/SYSTEMS.md lists all
    #[arg(long, value_name = "SPEC", default_value = daemon::policy::DEFAULT)]
    policy: String,

    /// The GPU's UUID, as `nvidia-smi -L` prints it, or `none` for no check [default: CUDA_VISIBLE_DEVICES, or the only one]
    #[arg(long, value_name = "UUID")]
    gpu: Option<String>,

    /// The private folder for socket, lock and MPS [default: TALLY_DIR, $XDG_RUNTIME_DIR/tally or /tmp/tally-UID]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// End when the last program and the last `tally run` have gone
    #[arg(long)]
    until_idle: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let settings = match Settings::of_environment() {
        Ok(settings) => settings,
        Err(error) => {
            daemon::say!("tallyd: {error}");
            return ExitCode::from(2);
        }
    };
    match run(cli, &settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            daemon::say!("tallyd: {error:#}");
            if error.is::<Occupied>() { ExitCode::from(Occupied::CODE) } else { ExitCode::FAILURE }
        }
    }
}

fn run(cli: Cli, settings: &Settings) -> Result<()> {
    let policy = Runnable::parse(&cli.policy)?;
    let dir = place::folder(cli.dir.as_deref(), settings)?;
    let device = gpu::choose(cli.gpu.as_deref(), settings.driver.is_some())?;
    daemon::run(Options { policy, device, dir, until_idle: cli.until_idle }, settings)
}
