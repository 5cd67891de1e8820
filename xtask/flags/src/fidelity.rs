//! Flags of `fidelity`.

use clap::Args;
use std::path::{Path, PathBuf};

/// Flags of `fidelity`.
#[derive(Args, Clone, Debug)]
pub struct Fidelity {
    /// One pair of jobs per source and short cells
    #[arg(long)]
    pub quick: bool,

    /// The folder for cells and tables [default: results/fidelity, with -quick for --quick]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Compare with this run folder too, measured by `reproduce --backend gpu` on the GPU that the kernels were recorded on
    #[arg(long, value_name = "DIR")]
    pub measured: Option<PathBuf>,

    /// Print what would be simulated with its cost, and stop
    #[arg(long)]
    pub list: bool,

    /// Cells simulated at a time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

impl Fidelity {
    /// The folder for cells and tables.
    pub fn folder(&self) -> PathBuf {
        let default = if self.quick { "results/fidelity-quick" } else { "results/fidelity" };
        self.out.clone().unwrap_or_else(|| Path::new(default).to_path_buf())
    }
}
