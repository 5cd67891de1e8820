//! All files of one git commit as a tar archive. The commit id pins every byte: git names each object by its hash and
//! checks it on arrival.

use crate::fault::Fault;
use crate::manifest::{Place, Source};
use crate::part::{Part, beside};
use crate::pin;
use crate::settings::Settings;
use crate::sniff::one_line;
use crate::tool::{self, RunError};
use crate::unpack::Scratch;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the archive is there as it was made: its own digest lies beside it, as nobody publishes one.
pub fn is_intact(target: &Path) -> bool {
    let expected = fs::read_to_string(beside(target, ".sha256")).unwrap_or_default();
    pin::digest(target).is_ok_and(|(_, digest)| expected.split_whitespace().next() == Some(digest.as_str()))
}

/// Gets the commit from the first place that has it, or from a clone on this machine, and packs it to `target`.
///
/// # Errors
/// There is no git, or no place has the commit; the message has each one's answer.
pub fn archive(
    source: &Source,
    commit: &str,
    clone: Option<&Path>,
    target: &Path,
    settings: &Settings,
) -> Result<String> {
    let Some(git) = tool::find("git", &settings.path) else {
        bail!(
            "left for later: it is a git repository at commit {commit}, which only git can fetch and verify, and there \
             is no git on PATH; install package git and run the same command again"
        );
    };
    let scratch = Scratch::create(beside(target, ".git"))?;
    let git = Git { git, repository: scratch.0.clone(), settings };
    let places: Vec<&OsStr> = match clone {
        Some(folder) => vec![folder.as_os_str()],
        None => source
            .places
            .iter()
            .filter_map(|place| if let Place::Git(url) = place { Some(OsStr::new(url)) } else { None })
            .collect(),
    };
    git.run(&["init", "--quiet", "--bare", "."], |_| Ok(()))?;
    let mut answers = Vec::new();
    for place in places {
        let name = place.to_string_lossy().into_owned();
        match git.fetch(place, commit).and_then(|()| git.pack(commit, target)) {
            Ok(()) => return Ok(name),
            Err(error) => answers.push(format!("{name}: {error:#}")),
        }
    }
    bail!("no place has commit {commit}:\n  {}", answers.join("\n  "))
}

struct Git<'a> {
    git: PathBuf,
    repository: PathBuf,
    settings: &'a Settings,
}

impl Git<'_> {
    fn fetch(&self, place: &OsStr, commit: &str) -> Result<()> {
        let fetch = ["fetch", "--quiet", "--depth", "1", "--no-tags", "--"].map(OsStr::new);
        let arguments: Vec<&OsStr> = fetch.into_iter().chain([place, OsStr::new(commit)]).collect();
        self.run(&arguments, |_| Ok(()))?;
        let mut found = String::new();
        self.run(&["rev-parse", "--verify", "FETCH_HEAD^{commit}"], |block| {
            found.push_str(&String::from_utf8_lossy(block));
            Ok(())
        })?;
        ensure!(found.trim() == commit, "wrong commit: it gave {}", one_line(&found));
        Ok(())
    }

    fn pack(&self, commit: &str, target: &Path) -> Result<()> {
        let stem = target.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let prefix = format!("--prefix={stem}/");
        let mut part = Part::open(target)?;
        part.begin("git archive", "")?;
        let packed = self.run(&["archive", "--format=tar", &prefix, commit], |block| part.append(block));
        let sealed = packed.and_then(|()| {
            let (_, digest) = pin::digest(part.path()).context("cannot read the archive back")?;
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            fs::write(beside(target, ".sha256"), format!("{digest}  {name}\n"))
                .context("cannot write the archive's digest")?;
            Ok(part.rename()?)
        });
        if sealed.is_err() {
            part.discard();
        }
        sealed
    }

    fn run<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        take: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<()> {
        let mut command = Command::new(&self.git);
        command.args(arguments).current_dir(&self.repository);
        // Of this folder and nobody else's, and never waiting for a password.
        command.env("GIT_DIR", ".").env("GIT_TERMINAL_PROMPT", "0").env_remove("GIT_WORK_TREE");
        match tool::run(&mut command, self.settings.tool_limit, take) {
            Ok(ended) if ended.success => Ok(()),
            Ok(ended) => bail!("git ended with {}", ended.how),
            Err(RunError::Taken(fault)) => Err(fault.into()),
            Err(RunError::Start(error)) => Err(error).context("cannot start git"),
            Err(RunError::Late(limit)) => bail!("git was not done after {} s", limit.as_secs_f64()),
        }
    }
}
