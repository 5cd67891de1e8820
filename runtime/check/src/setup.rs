//! Where everything is: tools, programs, results.

use crate::machine::Gpu;
use crate::program::Way;
use anyhow::{Context, Result, ensure};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Marks a folder of results that were not measured.
const DRY: &str = "DRY-RUN";

/// What the parts are given.
#[derive(Debug)]
pub struct Setup {
    pub tools: PathBuf,
    pub repo: PathBuf,
    pub out: PathBuf,
    pub python: PathBuf,
    /// None in a dry run.
    pub gpu: Option<Gpu>,
    /// Small models on the CPU and short spans.
    pub dry: bool,
    /// Folders of daemons, commands and reports; a short path, since sockets' names are limited to 108 bytes.
    scratch: tempfile::TempDir,
    end: Instant,
}

impl Setup {
    /// Makes the folders.
    ///
    /// # Errors
    /// A tool or the repository is not where it should be, or a folder cannot be made.
    pub fn new(flags: &flags::GpuCheck, gpu: Option<Gpu>) -> Result<Setup> {
        let this = std::env::current_exe().context("cannot find the folder of this binary")?;
        let beside = this.parent().context("this binary has no folder")?;
        let tools = absolute(flags.tools.as_deref().unwrap_or(beside))?;
        for tool in ["tally", "tallyd"] {
            ensure!(
                tools.join(tool).is_file(),
                "there is no {} in {}: build it (`cargo xtask gpu-check` does) or name its folder with --tools DIR",
                tool,
                tools.display()
            );
        }
        let repo = absolute(&flags.repo)?;
        ensure!(
            repo.join("workloads").is_dir(),
            "{} is not the repository (it has no folder workloads): name it with --repo DIR",
            repo.display()
        );
        std::fs::create_dir_all(&flags.out)
            .with_context(|| format!("cannot make the folder {}", flags.out.display()))?;
        let mark = flags.out.join(DRY);
        if flags.dry {
            std::fs::write(&mark, "Results of a dry run: they say nothing of any device.\n")?;
        }
        ensure!(
            flags.dry || !mark.exists(),
            "{} has results of a dry run; choose another --out",
            flags.out.display()
        );
        let scratch = tempfile::Builder::new().prefix("gc-").tempdir_in("/tmp")?;
        Ok(Setup {
            tools,
            repo,
            out: absolute(&flags.out)?,
            python: flags.python.clone(),
            gpu,
            dry: flags.dry,
            scratch,
            end: Instant::now() + Duration::from_secs(flags.limit),
        })
    }

    /// A folder in the scratch area, made if absent, that only this user can enter: a daemon takes no other.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.path().join(name);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// The scratch area itself.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// What is left of the time given.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// The device for `--gpu` of `tally run`: its UUID, or `none` in a dry run.
    pub fn gpu_argument(&self) -> String {
        self.gpu.as_ref().map_or_else(|| "none".to_owned(), |gpu| gpu.uuid.clone())
    }

    /// A job of `workloads/`.
    pub fn workload(&self, id: &str) -> PathBuf {
        self.repo.join("workloads").join(id).join("program.py")
    }

    /// A span, shorter in a dry run.
    pub fn span(&self, seconds: f64) -> f64 {
        if self.dry { (seconds / 10.0).min(0.5) } else { seconds }
    }

    /// How the library gets into programs; the shim has no driver to stand in for in a dry run.
    pub fn ways(&self) -> &'static [Way] {
        if self.dry { &[Way::Preload] } else { &[Way::Preload, Way::Shim] }
    }

    /// What every Python program is told.
    pub fn python_options(&self) -> Vec<&'static str> {
        if self.dry { vec!["--device", "cpu", "--tiny"] } else { Vec::new() }
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::fs::canonicalize(path).with_context(|| format!("cannot find {}", path.display()))
}
