//! `--from`: files that somebody brought. They are held to the same pins, and stay as they are.

use crate::fault::Fault;
use crate::manifest::{Kind, Manifest, Place, Source};
use crate::part::Part;
use crate::pin::Pin;
use crate::settings::Settings;
use crate::sniff::{self, LOOKED_AT};
use crate::{git, space, unpack};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Makes `target` from a file or a folder of files. Returns what it was made from.
///
/// # Errors
/// There is no such file, or it isn't the one that the manifest says.
pub fn bring(
    manifest: &Manifest,
    source: &Source,
    from: &Path,
    target: &Path,
    settings: &Settings,
) -> Result<String> {
    ensure!(from.exists(), "there is no file or folder {}", from.display());
    let pin = match &source.kind {
        Kind::Commit(commit) => {
            ensure!(from.is_dir(), "for {} --from takes the folder of a git clone", source.id);
            let clone = std::path::absolute(from).context("cannot find the clone")?;
            return git::archive(source, commit, Some(&clone), target, settings);
        }
        Kind::File(pin) | Kind::Rar5(pin) => pin,
    };
    let archives: Vec<(&Source, &Pin)> = source
        .places
        .iter()
        .filter_map(|place| if let Place::Archive(id) = place { Some(id) } else { None })
        .filter_map(|id| manifest.get(id).ok())
        .filter_map(|archive| Some((archive, archive.pin()?)))
        .collect();
    let file = if from.is_dir() { find(source, &archives, from)? } else { from.to_path_buf() };
    let is_rar = unpack::is_rar5(&file).with_context(|| format!("cannot read {}", file.display()))?;
    if is_rar && source.kind == Kind::File(pin.clone()) {
        let Some((archive, archive_pin)) = archives.first() else {
            bail!("{} is an archive, and {} has none", file.display(), source.id);
        };
        // An extractor is only given an archive that is known.
        if !archives.iter().any(|(_, pin)| matches!(pin.check(&file), Ok(Ok(())))) {
            require(archive_pin, &file, &format!("it is no {}", archive.file))?;
        }
        let tool = unpack::rar5(&file, target, pin, settings)?;
        return Ok(format!("{}, unpacked by {}", file.display(), tool.display()));
    }
    copy(&file, target, pin)?;
    Ok(file.display().to_string())
}

/// The source's own file in this folder, else an archive of it.
fn find(source: &Source, archives: &[(&Source, &Pin)], folder: &Path) -> Result<PathBuf> {
    let names: Vec<&str> =
        [source.file.as_str()].into_iter().chain(archives.iter().map(|(a, _)| a.file.as_str())).collect();
    names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{} has no file {}", folder.display(), names.join(" or ")))
}

/// The file as it is, checked, under the final name.
fn copy(file: &Path, target: &Path, pin: &Pin) -> Result<()> {
    // Before room is asked for, and before anything is written.
    require(pin, file, "it was not taken")?;
    space::require(target.parent().unwrap_or(Path::new(".")), pin.size, "the copy")?;
    let mut part = Part::open(target)?;
    let copied = append_all(file, &mut part, pin).and_then(|()| Ok(part.finish(pin)?));
    if copied.is_err() {
        part.discard();
    }
    copied
}

fn append_all(file: &Path, part: &mut Part, pin: &Pin) -> Result<()> {
    let reading = || format!("cannot read {}", file.display());
    part.begin("copied", "")?;
    let mut input = File::open(file).with_context(reading)?;
    let mut block = vec![0; 1 << 18];
    loop {
        let n = input.read(&mut block).with_context(reading)?;
        if n == 0 {
            return Ok(());
        }
        if part.len() + n as u64 > pin.size {
            return Err(Fault::TooLong { expected: pin.size }.into());
        }
        part.append(&block[..n])?;
    }
}

/// Checks a brought file; what it looks like says more than its size does.
fn require(pin: &Pin, file: &Path, and: &str) -> Result<()> {
    let reading = || format!("cannot read {}", file.display());
    let Err(mismatch) = pin.check(file).with_context(reading)? else { return Ok(()) };
    let mut first = Vec::new();
    File::open(file)
        .with_context(reading)?
        .take(LOOKED_AT as u64)
        .read_to_end(&mut first)
        .with_context(reading)?;
    match sniff::not_the_file(&first, "") {
        Some(looks) => bail!("{}: {looks}; {and}", file.display()),
        None => bail!("{}: {mismatch}; {and}", file.display()),
    }
}
