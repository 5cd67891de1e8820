//! One source: already there, brought, or fetched from the first place that has it.

use crate::fault::Fault;
use crate::manifest::{Kind, Manifest, Place, Source};
use crate::part::{Part, beside};
use crate::pin::Pin;
use crate::progress::{Progress, size};
use crate::settings::Settings;
use crate::{git, http, local, space, unpack};
use anyhow::{Context, Error, Result, anyhow, bail};
use std::path::{Path, PathBuf};

/// What is fetched from, to, and how.
pub struct Fetcher {
    pub manifest: Manifest,
    /// The repository, which the manifest's folders are below.
    pub root: PathBuf,
    /// The folder for all files instead of those.
    pub dir: Option<PathBuf>,
    /// A file or folder that somebody brought.
    pub from: Option<PathBuf>,
    /// Whether nothing may be asked of the network.
    pub offline: bool,
    pub settings: Settings,
}

/// How a file came to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was, and it is the right one.
    Present,
    /// It came from here.
    Fetched(String),
}

impl Fetcher {
    /// Where a source's file goes.
    pub fn target(&self, source: &Source) -> PathBuf {
        match &self.dir {
            Some(folder) => folder.join(&source.file),
            None => self.root.join(&source.folder).join(&source.file),
        }
    }

    /// Sees to it that the source's file is there and is the right one.
    ///
    /// # Errors
    /// It isn't; nothing has its final name then, and the message has each place's answer.
    pub fn obtain(&self, source: &Source) -> Result<Outcome> {
        let target = self.target(source);
        if target.symlink_metadata().is_ok() {
            return present(source, &target).map(|()| Outcome::Present);
        }
        if self.offline && self.from.is_none() {
            return self.offline(source, &target);
        }
        let folder = target.parent().context("the target has no folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let from = match (&self.from, &source.kind) {
            (Some(from), _) => local::bring(&self.manifest, source, from, &target, &self.settings),
            (None, Kind::Commit(commit)) => git::archive(source, commit, None, &target, &self.settings),
            (None, Kind::File(pin) | Kind::Rar5(pin)) => self.try_places(source, pin, &target, folder),
        };
        match from {
            Ok(from) => Ok(Outcome::Fetched(from)),
            Err(error) => Err(tell_room(error, source.pin(), folder)),
        }
    }

    /// Without the network an archive that is already there can still be unpacked.
    fn offline(&self, source: &Source, target: &Path) -> Result<Outcome> {
        for place in &source.places {
            let (Place::Archive(id), Some(pin)) = (place, source.pin()) else { continue };
            let archive = self.manifest.get(id)?;
            let path = self.target(archive);
            if path.exists() {
                present(archive, &path)?;
                let tool = unpack::rar5(&path, target, pin, &self.settings)?;
                return Ok(Outcome::Fetched(format!("{}, unpacked by {}", path.display(), tool.display())));
            }
        }
        bail!(
            "it is not there ({}), and --offline asks nothing of the network; name a file with --from FILE, or run \
             without --offline",
            target.display()
        )
    }

    fn try_places(&self, source: &Source, pin: &Pin, target: &Path, folder: &Path) -> Result<String> {
        let there = beside(target, ".part").metadata().map_or(0, |part| part.len());
        space::require(folder, pin.size.saturating_sub(there), &source.file)?;
        let mut answers = Vec::new();
        for (number, place) in (1..).zip(&source.places) {
            let (name, result) = match place {
                Place::Url(url) => (url.clone(), self.download(source, url, pin, target)),
                Place::Archive(id) => (id.clone(), self.unpack_archive(id, pin, target, folder)),
                Place::Git(url) => (url.clone(), Err(anyhow!("a git repository"))),
            };
            let error = match result {
                Ok(from) => return Ok(from),
                Err(error) => error,
            };
            if error.downcast_ref::<Fault>().is_some_and(Fault::is_fatal) {
                return Err(error);
            }
            // The last one's answer is in the message that follows.
            if self.settings.progress && number < source.places.len() {
                eprintln!("{}: place {number} of {}: {name}: {error:#}", source.id, source.places.len());
            }
            answers.push(format!("{number}. {name}: {}", format!("{error:#}").replace('\n', "\n     ")));
        }
        bail!(
            "no place has it:\n  {}\n  or bring the file yourself: cargo xtask fetch {} --from FILE",
            answers.join("\n  "),
            source.id
        )
    }

    fn download(&self, source: &Source, url: &str, pin: &Pin, target: &Path) -> Result<String> {
        let mut part = Part::open(target)?;
        let mut progress = Progress::new(&source.id, pin.size, self.settings.progress);
        progress.say(&format!("{} from {url}", size(pin.size)));
        match http::download(url, pin, &mut part, &self.settings, &mut progress) {
            Ok(()) => Ok(url.to_owned()),
            Err(fault) => {
                if matches!(fault, Fault::Full { .. }) {
                    part.discard();
                } else {
                    part.discard_if_empty();
                }
                Err(Error::new(fault))
            }
        }
    }

    fn unpack_archive(&self, id: &str, pin: &Pin, target: &Path, folder: &Path) -> Result<String> {
        let archive = self.manifest.get(id)?;
        let path = self.target(archive);
        let missing = if path.exists() { 0 } else { archive.pin().map_or(0, |pin| pin.size) };
        space::require(folder, pin.size.saturating_add(missing), "the archive with what is in it")?;
        let from = match self.obtain(archive)? {
            Outcome::Present => path.display().to_string(),
            Outcome::Fetched(from) => from,
        };
        let tool = unpack::rar5(&path, target, pin, &self.settings)?;
        Ok(format!("{from}, unpacked by {}", tool.display()))
    }
}

/// Checks a file that has its final name already; it may be somebody's own, so it is never removed here.
fn present(source: &Source, target: &Path) -> Result<()> {
    let name = target.display();
    let next = "move it away and run the same command again";
    match source.pin() {
        Some(pin) => match pin.check(target).with_context(|| format!("cannot read {name}"))? {
            Ok(()) => Ok(()),
            Err(mismatch) => bail!("{name} is there, but it isn't the file ({mismatch}); {next}"),
        },
        None if git::is_intact(target) => Ok(()),
        None => bail!("{name} is there, but not as it was made; {next}"),
    }
}

/// A full disk is told with what is missing on it now that the partial file is gone.
fn tell_room(error: Error, pin: Option<&Pin>, folder: &Path) -> Error {
    match error.downcast::<Fault>() {
        Ok(Fault::Full { received, .. }) => {
            let needed = pin.map_or(received, |pin| pin.size);
            let more = space::free(folder).map(|free| needed.saturating_sub(free)).filter(|&more| more > 0);
            Error::new(Fault::Full { received, more })
        }
        Ok(fault) => Error::new(fault),
        Err(error) => error,
    }
}
