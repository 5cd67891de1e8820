//! Finds a container engine that works, not one that is merely installed.

use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// An engine that has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    pub program: &'static str,
    pub version: String,
    /// Whether it runs without root; then the container's users are mapped to this one.
    pub rootless: bool,
}

/// In this order: podman needs no daemon and no root.
const PODMAN: &str = "podman";
const DOCKER: &str = "docker";

impl Engine {
    /// The engine that was asked for, else the first that works.
    ///
    /// # Errors
    /// None works; the message says why not, and what to do.
    pub fn find(asked: Option<flags::Engine>) -> Result<Engine> {
        let candidates: &[&'static str] = match asked {
            None => &[PODMAN, DOCKER],
            Some(flags::Engine::Podman) => &[PODMAN],
            Some(flags::Engine::Docker) => &[DOCKER],
        };
        let mut reasons = Vec::new();
        for program in candidates {
            match ask(program) {
                Ok(engine) => return Ok(engine),
                Err(reason) => reasons.push(reason),
            }
        }
        bail!(
            "no container engine: {}\n\
             help: install podman (`sudo apt-get install podman` or `sudo dnf install podman`), or start docker (`sudo \
             systemctl start docker`), or do without a container: `cargo xtask reproduce --quick`",
            reasons.join("; ")
        )
    }

    /// Whether this is podman.
    pub fn is_podman(&self) -> bool {
        self.program == PODMAN
    }

    /// Whether it can pass a GPU through: podman by a CDI description of it, docker also by a runtime of its own.
    ///
    /// # Errors
    /// Why not, in a line.
    pub fn passes_gpus(&self) -> Result<(), String> {
        if has_cdi(&CDI_FOLDERS.map(Path::new)) {
            return Ok(());
        }
        if self.is_podman() {
            return Err(format!(
                "{} has no CDI description of a GPU in {}",
                self.program,
                CDI_FOLDERS.join(" or ")
            ));
        }
        let answer = Command::new(self.program).args(["info", "--format", "{{json .Runtimes}}"]).output();
        match answer {
            Ok(answer) if String::from_utf8_lossy(&answer.stdout).contains("\"nvidia\"") => Ok(()),
            _ => Err(format!("{} has no runtime `nvidia`", self.program)),
        }
    }

    /// Whether its version is this or a later one; an unreadable version counts as late enough.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.version.split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(a)), Some(Ok(b))) => (a, b) >= (major, minor),
            _ => true,
        }
    }
}

/// Where descriptions of devices lie (Container Device Interface, section on file locations).
const CDI_FOLDERS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// Whether one of these folders has a description of NVIDIA's devices.
fn has_cdi(folders: &[&Path]) -> bool {
    let is_gpu = |name: &str| {
        name.contains("nvidia") && [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending))
    };
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    entries.into_iter().any(|entry| is_gpu(&entry.file_name().to_string_lossy()))
}

/// Asks an engine for its version and whether it runs without root. This reaches the daemon or virtual machine behind
/// it: a client alone cannot answer.
fn ask(program: &'static str) -> Result<Engine, String> {
    let format = if program == PODMAN {
        "{{.Version.Version}} rootless={{.Host.Security.Rootless}}"
    } else {
        "{{.ServerVersion}} {{.SecurityOptions}}"
    };
    let answer = Command::new(program).args(["info", "--format", format]).output().map_err(|error| {
        match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no {program} on PATH"),
            _ => format!("{program} cannot be started: {error}"),
        }
    })?;
    let out = String::from_utf8_lossy(&answer.stdout);
    let err = String::from_utf8_lossy(&answer.stderr);
    if !answer.status.success() {
        let reason = err.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message");
        return Err(format!("{program} does not work: {reason}"));
    }
    read(program, &out).ok_or_else(|| format!("{program} does not tell its version: {}", out.trim()))
}

fn read(program: &'static str, answer: &str) -> Option<Engine> {
    let (version, rest) = answer.trim().split_once(' ')?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| Engine {
        program,
        version: version.to_owned(),
        rootless: rest.contains("rootless=true") || rest.contains("name=rootless"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_engines() {
        let rootless = |program, answer| read(program, answer).unwrap().rootless;
        assert!(rootless(PODMAN, "4.3.1 rootless=true\n"));
        assert!(!rootless(PODMAN, "5.6.0 rootless=false\n"));
        assert!(!rootless(DOCKER, "28.2.2 [name=seccomp,profile=builtin name=cgroupns]\n"));
        assert!(rootless(DOCKER, "28.2.2 [name=seccomp,profile=builtin name=rootless name=cgroupns]\n"));
        // A daemon that does not answer leaves its part of the template empty.
        assert_eq!(read(DOCKER, " []\n"), None);
    }

    #[test]
    fn a_gpu_is_described_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let found = || has_cdi(&[Path::new("/no/such"), folder.path()]);
        std::fs::write(folder.path().join("vendor.yaml"), "").unwrap();
        std::fs::write(folder.path().join("nvidia.yaml.old"), "").unwrap();
        assert!(!found());
        std::fs::write(folder.path().join("nvidia.yaml"), "").unwrap();
        assert!(found());
    }

    #[test]
    fn versions_compare_by_number() {
        let engine = |version: &str| Engine { program: PODMAN, version: version.to_owned(), rootless: true };
        assert!(!engine("4.0.3").is_at_least(4, 1));
        assert!(engine("4.10.0-rc1").is_at_least(4, 9));
        assert!(engine("5.0").is_at_least(4, 1));
        assert!(engine("weird").is_at_least(4, 1));
    }
}
