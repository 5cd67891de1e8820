//! Builds and starts the binaries `artifact`, `figures`, `fetch`, `doctor` and those of the runtime.

use crate::child::status;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Binaries, built.
pub struct Binaries {
    sh: Shell,
    folder: PathBuf,
}

impl Binaries {
    /// Builds all of them; cargo's own output shows the progress. All, because what `fetch` shares with the Parquet
    /// library changes the features that the latter is built with: in a build without it, as tests of the whole
    /// workspace are not, it would compile a second time. Where the sources are gone and the binaries lie beside
    /// this one, as in the container image and in the Nix package, there is nothing to build.
    ///
    /// # Errors
    /// No folder of this binary, or no cargo to start. A build that fails is not an error here: its exit code is the answer.
    pub fn build() -> Result<Result<Binaries, u8>> {
        let hint = "2 to 4 minutes on 2 cores this first time, seconds later (nearly all of it is the Parquet library)";
        Binaries::build_packages(&["artifact", "figures", "fetch"], hint)
    }

    /// As [`Binaries::build`], with the runtime that shares a GPU.
    ///
    /// # Errors
    /// As [`Binaries::build`].
    pub fn build_with_runtime() -> Result<Result<Binaries, u8>> {
        let hint = "3 to 5 minutes on 2 cores this first time, seconds later";
        let packages = ["artifact", "figures", "fetch", "cli", "daemon", "interpose"];
        Binaries::build_packages(&packages, hint)
    }

    /// Builds only `fetch`, so that data can come before the rest is compiled.
    ///
    /// # Errors
    /// As [`Binaries::build`].
    pub fn build_fetch() -> Result<Result<Binaries, u8>> {
        Binaries::build_packages(&["fetch"], "about a minute on 2 cores this first time, seconds later")
    }

    /// Builds only `doctor`: it must answer where the rest does not even compile.
    ///
    /// # Errors
    /// As [`Binaries::build`].
    pub fn build_doctor() -> Result<Result<Binaries, u8>> {
        Binaries::build_packages(&["doctor"], "some seconds on 2 cores this first time")
    }

    /// Builds only `gpu-check`, for what it answers by itself.
    ///
    /// # Errors
    /// As [`Binaries::build`].
    pub fn build_check() -> Result<Result<Binaries, u8>> {
        Binaries::build_packages(&["check"], "less than a minute on 2 cores this first time")
    }

    /// Builds `gpu-check` and the runtime that it checks.
    ///
    /// # Errors
    /// As [`Binaries::build`].
    pub fn build_runtime() -> Result<Result<Binaries, u8>> {
        Binaries::build_packages(&RUNTIME, "1 to 2 minutes on 2 cores this first time")
    }

    fn build_packages(packages: &[&str], hint: &str) -> Result<Result<Binaries, u8>> {
        let sh = Shell::new().context("cannot start a shell in this folder")?;
        let this = std::env::current_exe().context("cannot find the folder of this binary")?;
        let folder = this.parent().context("this binary has no folder")?.to_path_buf();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        if installed(&manifest, &folder, packages) {
            return Ok(Ok(Binaries { sh, folder }));
        }
        if packages.iter().any(|package| !folder.join(product(package)).exists()) {
            eprintln!("building `{}`: {hint}", packages.join("`, `"));
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let packages = packages.iter().flat_map(|package| ["--package", package]);
        let build = cmd!(sh, "{cargo} build --manifest-path {manifest} {packages...}");
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
fn installed(manifest: &Path, folder: &Path, packages: &[&str]) -> bool {
    !manifest.exists() && packages.iter().all(|package| folder.join(product(package)).exists())
}

/// What the check needs beside itself; the stand-in driver is for tests and stays out.
const RUNTIME: [&str; 5] = ["check", "cli", "daemon", "interpose", "shim"];

/// The file that a package makes.
fn product(package: &str) -> &str {
    match package {
        "check" => "gpu-check",
        "cli" => "tally",
        "daemon" => "tallyd",
        "interpose" => "libtally_interpose.so",
        "shim" => "libtally_shim.so",
        same => same,
    }
}

/// What the user typed after the verb.
pub fn typed() -> Vec<OsString> {
    std::env::args_os().skip(2).collect()
}

/// Hands a verb and what the user typed after it to `artifact`; returns its exit code.
///
/// # Errors
/// A binary cannot be started.
pub fn pass_on(verb: &str) -> Result<u8> {
    let binaries = match Binaries::build()? {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let arguments: Vec<_> = [OsString::from(verb)].into_iter().chain(typed()).collect();
    binaries.run("artifact", &arguments)
}

/// Whether the folder holds a table that a figure is made from; those are named like the figure, but for the one of
/// `cargo xtask fidelity`.
pub fn has_figures(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name.starts_with("fig") && name.ends_with(".csv")) || name == PAIRS
    })
}

/// What `artifact fidelity` leaves for its figure.
pub const PAIRS: &str = "fidelity-pairs.csv";

/// Writes the report of a run folder.
///
/// # Errors
/// The binary cannot be started.
pub fn report(binaries: &Binaries, folder: &Path) -> Result<u8> {
    binaries.run("figures", &["report".into(), "--run".into(), folder.into()])
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
        let installed = || installed(&path("Cargo.toml"), folder.path(), &["artifact", "figures"]);
        assert!(!installed());
        write(path("artifact"), "").unwrap();
        write(path("figures"), "").unwrap();
        assert!(installed());
        write(path("Cargo.toml"), "").unwrap();
        assert!(!installed());
    }
}
