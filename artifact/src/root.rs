//! Finds the repository, whose files (experiments, machines, profiles, golden values) every verb reads.

use anyhow::{Result, anyhow};
use std::path::{Path, PathBuf};

/// The top folder of the repository.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    /// The nearest folder upwards of the current one that holds experiments, else the one this binary was built in, else
    /// the one whose `bin` it lies in, as in a package.
    ///
    /// # Errors
    /// None is there, as after moving the binary elsewhere.
    pub fn find() -> Result<Root> {
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf);
        let current = std::env::current_dir().ok();
        let upwards = current.iter().flat_map(|folder| folder.ancestors().map(Path::to_path_buf));
        let binary = std::env::current_exe().ok();
        let package = binary.as_deref().and_then(|path| path.parent()?.parent()).map(Path::to_path_buf);
        let mut folders = upwards.chain(built_in).chain(package);
        folders.find(|folder| folder.join("artifact/experiments").is_dir()).map(Root).ok_or_else(|| {
            anyhow!(
                "there is no artifact/experiments in this folder or above it; run from inside the repository"
            )
        })
    }

    /// A repository at a known place, for tests.
    pub fn at(folder: &Path) -> Root {
        Root(folder.to_path_buf())
    }

    /// `artifact/experiments`.
    pub fn experiments(&self) -> PathBuf {
        self.0.join("artifact/experiments")
    }

    /// `artifact/claims.toml`.
    pub fn claims(&self) -> PathBuf {
        self.0.join("artifact/claims.toml")
    }

    /// `artifact/golden`.
    pub fn golden(&self) -> PathBuf {
        self.0.join("artifact/golden")
    }

    /// `machines/<name>.toml`.
    pub fn machine(&self, name: &str) -> PathBuf {
        self.0.join("machines").join(format!("{name}.toml"))
    }

    /// `workloads`.
    pub fn workloads(&self) -> PathBuf {
        self.0.join("workloads")
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }
}
