//! A program's command line and environment.

use crate::connect::beside;
use anyhow::{Context, Result, ensure};
use probe::Answer;
use protocol::Priority;
use protocol::settings::Settings;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where drivers put libcuda.so.1 when the loader's cache does not say: Debian, Fedora, and WSL.
const USUAL: [&str; 4] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu", "/usr/lib/wsl/lib"];
const DRIVER: &str = "libcuda.so.1";

/// How the runtime gets into a program, with the files that this needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// This library is preloaded.
    Preload(PathBuf),
    /// The library stands in for the driver, and passes on to it.
    Shim { library: PathBuf, driver: PathBuf },
}

/// Variables that make it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry(Vec<(&'static str, OsString)>);

impl Way {
    /// Finds the files.
    ///
    /// # Errors
    /// One is not there.
    pub fn find(shim: bool, settings: &Settings) -> Result<Way> {
        if shim {
            let driver = settings.driver.clone().map_or_else(driver, Ok)?;
            return Ok(Way::Shim { library: beside("libtally_shim.so")?, driver });
        }
        match &settings.library {
            Some(library) => {
                let library = std::path::absolute(library)?;
                ensure!(library.is_file(), "TALLY_LIBRARY={} is no file", library.display());
                Ok(Way::Preload(library))
            }
            None => {
                Ok(Way::Preload(beside("libtally_interpose.so").context("no TALLY_LIBRARY is set, and")?))
            }
        }
    }

    /// Prepares a private folder of the run.
    ///
    /// # Errors
    /// The folder cannot be written, or has a path that the loader cannot be told.
    pub fn enter(&self, scratch: &Path) -> Result<Entry> {
        let has =
            |path: &Path, signs: &[u8]| path.as_os_str().as_bytes().iter().any(|byte| signs.contains(byte));
        let cannot = |path: &Path| {
            format!(
                "{}: the loader takes blanks and colons for separators; choose another folder with --dir",
                path.display()
            )
        };
        let link = |file: &Path, link: &Path| {
            std::os::unix::fs::symlink(file, link).with_context(|| format!("cannot make {}", link.display()))
        };
        match self {
            Way::Preload(library) => {
                // There is no way to write these signs in LD_PRELOAD (ld.so(8)).
                let preloaded = if has(library, b" :") {
                    let other = scratch.join("libtally_interpose.so");
                    link(library, &other)?;
                    other
                } else {
                    library.clone()
                };
                ensure!(!has(&preloaded, b" :"), cannot(&preloaded));
                Ok(Entry(vec![("LD_PRELOAD", prepended(preloaded.as_os_str(), "LD_PRELOAD"))]))
            }
            Way::Shim { library, driver } => {
                let folder = scratch.join("shim");
                fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                link(library, &folder.join(DRIVER))?;
                ensure!(!has(&folder, b":;"), cannot(&folder));
                Ok(Entry(vec![
                    ("LD_LIBRARY_PATH", prepended(folder.as_os_str(), "LD_LIBRARY_PATH")),
                    ("TALLY_DRIVER", driver.clone().into_os_string()),
                ]))
            }
        }
    }
}

impl Entry {
    /// A program's command with everything set.
    pub fn command(
        &self,
        words: &[OsString],
        priority: Priority,
        socket: &Path,
        reports: &Path,
        environment: &[(String, String)],
    ) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).envs(environment.iter().map(|(name, value)| (name, value)));
        command
            .env("TALLY_SOCKET", socket)
            .env("TALLY_PRIORITY", priority.name())
            .env("TALLY_REPORT", reports)
            .envs(self.0.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A path before what a variable of this process holds.
fn prepended(path: &OsStr, variable: &str) -> OsString {
    let mut text = path.to_owned();
    if let Some(rest) = std::env::var_os(variable).filter(|rest| !rest.is_empty()) {
        text.push(":");
        text.push(rest);
    }
    text
}

/// The real driver.
fn driver() -> Result<PathBuf> {
    // Users' PATHs often lack /sbin.
    let cache = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"]
        .iter()
        .find_map(|program| probe::ask(program, &["-p"]).ok().filter(|answer| answer.success));
    let listed = cache.and_then(|Answer { out, .. }| in_cache(&out));
    let usual = USUAL.iter().map(|folder| Path::new(folder).join(DRIVER)).find(|path| path.is_file());
    listed.or(usual).with_context(|| {
        format!(
            "{DRIVER} is neither in the loader's cache (`ldconfig -p`) nor in {}; install the NVIDIA driver, or name it: \
             TALLY_DRIVER=/path/{DRIVER}",
            USUAL.join(", ")
        )
    })
}

/// The 64-bit driver among lines such as `libcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1`.
fn in_cache(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let (name, path) = line.split_once(" => ")?;
        let (name, kind) = name.trim().split_once(' ')?;
        (name == DRIVER && (kind.contains("x86-64") || kind.contains("AArch64")))
            .then(|| PathBuf::from(path.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &Path)]) -> Settings {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        Settings::read(variables.iter().map(|(name, value)| ((*name).to_owned(), text(value)))).unwrap()
    }

    #[test]
    fn the_64_bit_driver_is_taken_from_the_cache() {
        let text = "\tlibcuda.so.1 (libc6) => /usr/lib32/libcuda.so.1\n\
                    \tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1\n\
                    \tlibcuda.so (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so\n";
        assert_eq!(in_cache(text), Some(PathBuf::from("/usr/lib/x86_64-linux-gnu/libcuda.so.1")));
        assert_eq!(in_cache("2 libs found in cache\n"), None);
    }

    #[test]
    fn a_library_whose_path_cannot_be_preloaded_is_linked() {
        let scratch = tempfile::tempdir().unwrap();
        let library = scratch.path().join("a library.so");
        fs::write(&library, "").unwrap();
        let found = Way::find(false, &settings(&[("TALLY_LIBRARY", &library)])).unwrap();
        let entry = found.enter(scratch.path()).unwrap();
        let value = entry.0[0].1.to_str().unwrap().to_owned();
        assert!(!value.contains(' '), "{value}");
        let link = value.split(':').next().unwrap();
        assert_eq!(fs::canonicalize(link).unwrap(), fs::canonicalize(&library).unwrap());
        let none = scratch.path().join("none.so");
        let error = Way::find(false, &settings(&[("TALLY_LIBRARY", &none)])).unwrap_err();
        assert!(error.to_string().contains("none.so is no file"));
        let blank = scratch.path().join("a b");
        fs::create_dir(&blank).unwrap();
        assert!(found.enter(&blank).unwrap_err().to_string().contains("blanks and colons"));
    }

    #[test]
    fn a_program_gets_what_it_needs() {
        let words = ["prog".into(), "-x".into()];
        let environment = [("CUDA_VISIBLE_DEVICES".to_owned(), "GPU-a".to_owned())];
        let entry = Entry(vec![("LD_PRELOAD", "/l.so".into())]);
        let command =
            entry.command(&words, Priority::BestEffort, Path::new("/s"), Path::new("/r"), &environment);
        let set: Vec<String> = command
            .get_envs()
            .map(|(name, value)| format!("{}={}", name.to_str().unwrap(), value.unwrap().to_str().unwrap()))
            .collect();
        let expected = [
            "CUDA_VISIBLE_DEVICES=GPU-a",
            "LD_PRELOAD=/l.so",
            "TALLY_PRIORITY=best-effort",
            "TALLY_REPORT=/r",
            "TALLY_SOCKET=/s",
        ];
        assert_eq!(set, expected);
    }
}
