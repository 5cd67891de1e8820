//! Builds and starts the binaries `artifact` and `figures`.

use crate::child::status;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// The two binaries, built.
pub struct Binaries {
    sh: Shell,
    folder: PathBuf,
}

impl Binaries {
    /// Builds both; cargo's own output shows the progress. Where the sources are gone and both lie beside this binary,
    /// as in the container image and in the Nix package, there is nothing to build.
    ///
    /// # Errors
    /// The build failed; the error carries its exit code.
    pub fn build() -> Result<Result<Binaries, u8>> {
        let sh = Shell::new().context("cannot start a shell in this folder")?;
        let this = std::env::current_exe().context("cannot find the folder of this binary")?;
        let folder = this.parent().context("this binary has no folder")?.to_path_buf();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        if installed(&manifest, &folder) {
            return Ok(Ok(Binaries { sh, folder }));
        }
        if !folder.join("artifact").exists() {
            eprintln!(
                "building `artifact` and `figures`: about 5 minutes on 2 cores this first time, seconds later \
                 (nearly all of it is the Parquet library)"
            );
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let build = cmd!(sh, "{cargo} build --manifest-path {manifest} --package artifact --package figures");
        match status(build.into())? {
            0 => Ok(Ok(Binaries { sh, folder })),
            code => Ok(Err(code)),
        }
    }

    /// Runs one of them to its end and returns its exit code.
    pub fn run(&self, binary: &str, arguments: &[OsString]) -> Result<u8> {
        let sh = &self.sh;
        let path = self.folder.join(binary);
        status(cmd!(sh, "{path} {arguments...}").into())
    }
}

/// Whether the binaries in this folder came without the sources that they were built from.
fn installed(manifest: &Path, folder: &Path) -> bool {
    !manifest.exists() && folder.join("artifact").exists() && folder.join("figures").exists()
}

/// What the user typed after the verb.
pub fn typed() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// Whether the folder holds a table that a figure is made from; those are named like the figure.
pub fn has_figures(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.starts_with("fig") && name.ends_with(".csv")
    })
}

/// Draws these figures and tables of a run folder (all that it can feed when none is named), and renews its checksums.
pub fn draw(binaries: &Binaries, folder: &Path, ids: &[&str], partial: bool) -> Result<u8> {
    let mut arguments: Vec<OsString> = vec!["draw".into(), "--run".into(), folder.into()];
    if partial {
        arguments.push("--partial".into());
    }
    arguments.extend(ids.iter().map(OsString::from));
    match binaries.run("figures", &arguments)? {
        0 => binaries.run("artifact", &["seal".into(), "--run".into(), folder.into()]),
        code => Ok(code),
    }
}

#[cfg(test)]
mod tests {
    use super::installed;
    use std::fs::write;

    #[test]
    fn binaries_without_their_sources_are_not_built() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        assert!(!installed(&path("Cargo.toml"), folder.path()));
        write(path("artifact"), "").unwrap();
        write(path("figures"), "").unwrap();
        assert!(installed(&path("Cargo.toml"), folder.path()));
        write(path("Cargo.toml"), "").unwrap();
        assert!(!installed(&path("Cargo.toml"), folder.path()));
    }
}
