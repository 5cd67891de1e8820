//! RAR 5 by tools that can read it. They write to a pipe and never to a file, so an archive cannot write anywhere; what
//! comes out is judged by size and digest alone, never by what the tool says of itself.

use crate::fault::Fault;
use crate::part::{Part, beside};
use crate::pin::Pin;
use crate::settings::Settings;
use crate::sniff::RAR5;
use crate::space;
use crate::tool::{self, RunError};
use anyhow::{Context, Error, Result, bail, ensure};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tools that can read RAR 5 in at least one of their builds, with what makes them write the content to stdout. `unar` is
/// not among them: it is known to fail on the very archive that this is for, and so does p7zip 16.02, whose `7z` has the
/// name of later versions that can.
const TOOLS: [(&str, &[&str]); 4] = [
    ("unrar", &["p", "-inul", "-p-"]),
    ("bsdtar", &["-xOf"]),
    ("7zz", &["x", "-so", "-bd"]),
    ("7z", &["x", "-so", "-bd"]),
];

const INSTALL: &str = "install one that reads RAR 5: RARLAB's unrar (Debian and Ubuntu: package unrar of non-free or \
    multiverse; Fedora: unrar of RPM Fusion), bsdtar (Debian and Ubuntu: package libarchive-tools; Fedora: bsdtar; macOS \
    has it), or 7zz with its RAR part (Debian: packages 7zip and 7zip-rar; macOS: brew install sevenzip); or unpack it \
    elsewhere and name the text: cargo xtask fetch --from FILE.txt";

/// Whether a file begins as RAR 5 does.
///
/// # Errors
/// It cannot be read.
pub fn is_rar5(path: &Path) -> std::io::Result<bool> {
    let mut first = Vec::new();
    File::open(path)?.take(RAR5.len() as u64).read_to_end(&mut first)?;
    Ok(first == RAR5)
}

/// Unpacks the only file of an archive to `target`. Returns the tool that did it.
///
/// # Errors
/// No tool is there or none gives the file that `pin` says; the message has each one's answer.
pub fn rar5(archive: &Path, target: &Path, pin: &Pin, settings: &Settings) -> Result<PathBuf> {
    let name = archive.display();
    ensure!(is_rar5(archive).with_context(|| format!("cannot read {name}"))?, "{name} is no RAR 5 archive");
    let archive = std::path::absolute(archive).with_context(|| format!("cannot find {name}"))?;
    let tools: Vec<(PathBuf, &[&str])> = TOOLS
        .iter()
        .filter_map(|(name, arguments)| Some((tool::find(name, &settings.path)?, *arguments)))
        .collect();
    if tools.is_empty() {
        bail!("no tool that reads RAR 5 on PATH (unrar, bsdtar, 7zz, 7z): {INSTALL}");
    }
    space::require(target.parent().unwrap_or(Path::new(".")), pin.size, "the unpacked file")?;
    // Whatever a tool drops into its working folder goes away with it.
    let scratch = Scratch::create(beside(target, ".unpack"))?;
    let mut part = Part::open(target)?;
    let mut answers = Vec::new();
    for (tool, arguments) in tools {
        let mut command = Command::new(&tool);
        command.args(arguments).arg(&archive).current_dir(&scratch.0);
        match with_tool(&mut command, &mut part, pin, settings) {
            Ok(()) => return Ok(tool),
            Err(Judged::Stop(fault)) => {
                part.discard();
                return Err(Error::new(fault));
            }
            Err(Judged::Next(answer)) => answers.push(format!("{}: {answer}", tool.display())),
        }
    }
    part.discard();
    bail!("no tool unpacked {name} to the right file ({}); {INSTALL}", answers.join("; "))
}

enum Judged {
    /// The next tool may do better.
    Next(String),
    /// None can.
    Stop(Fault),
}

impl From<Fault> for Judged {
    fn from(fault: Fault) -> Judged {
        if fault.is_fatal() { Judged::Stop(fault) } else { Judged::Next(fault.to_string()) }
    }
}

fn with_tool(command: &mut Command, part: &mut Part, pin: &Pin, settings: &Settings) -> Result<(), Judged> {
    part.begin("unpacked", "")?;
    let ended = tool::run(command, settings.tool_limit, |block| {
        if part.len() + block.len() as u64 > pin.size {
            return Err(Fault::TooLong { expected: pin.size });
        }
        part.append(block)
    });
    let how = match ended {
        Ok(ended) => ended.how,
        Err(RunError::Taken(fault)) => return Err(fault.into()),
        Err(RunError::Start(error)) => return Err(Judged::Next(format!("cannot be started: {error}"))),
        Err(RunError::Late(limit)) => {
            return Err(Judged::Next(format!("not done after {} s", limit.as_secs_f64())));
        }
    };
    match part.finish(pin) {
        Ok(()) => Ok(()),
        Err(Fault::Mismatch(mismatch)) => Err(Judged::Next(format!("{how}, and {mismatch}"))),
        Err(fault) => Err(fault.into()),
    }
}

/// A folder that is empty at first and gone at the end.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Creates it, after removing what a killed run may have left.
    pub fn create(path: PathBuf) -> Result<Scratch> {
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
