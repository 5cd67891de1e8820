//! Flags of `doctor`.

use clap::Args;
use std::path::PathBuf;

/// Flags of `doctor`.
#[derive(Args, Clone, Debug)]
pub struct Doctor {
    /// Print the answer as JSON
    #[arg(long, conflicts_with = "toml")]
    pub json: bool,

    /// Print the answer as TOML
    #[arg(long)]
    pub toml: bool,

    /// Also write an archive for a bug report, without personal paths and names
    #[arg(long, value_name = "FILE.tar")]
    pub bundle: Option<PathBuf>,

    /// The run folder that the archive is about; may be repeated [default: all of results/]
    #[arg(long = "run", value_name = "DIR")]
    pub runs: Vec<PathBuf>,

    /// What an hour costs [default: artifact/prices.toml]
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
}
