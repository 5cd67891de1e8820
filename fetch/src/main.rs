//! The binary behind `cargo xtask fetch`.

use anyhow::{Context, Result};
use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;

/// Fetches the data that the repository doesn't carry; `cargo xtask fetch` is the way to it
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    fetch: flags::Fetch,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = stop_on_signals().and_then(|()| fetch::cmd::run(&cli.fetch, fetch::Settings::default()));
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {}", format!("{error:#}").trim_end());
            ExitCode::FAILURE
        }
    }
}

/// Ends at once on Ctrl-C: a file has its final name only when it is whole, so there is nothing to wait for.
fn stop_on_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot take over Ctrl-C")?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            eprintln!("\ninterrupted: what was received is kept, and the same command goes on from there");
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}
