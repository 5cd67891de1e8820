//! `artifact/sources.toml`: what there is to fetch, where it is, and what it must be.

use crate::pin::Pin;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Component, Path};

/// The largest manifest that is read.
const LIMIT: u64 = 1 << 20;

/// All sources, in the order of the file.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub sources: Vec<Source>,
}

/// A file to fetch.
#[derive(Clone, Debug)]
pub struct Source {
    pub id: String,
    /// What it is and what for.
    pub what: String,
    /// Where it goes, below the repository.
    pub folder: String,
    /// Its name there.
    pub file: String,
    pub kind: Kind,
    pub licence: String,
    pub attribution: String,
    /// What is different once it is there.
    pub after: Option<String>,
    /// What can be done without it.
    pub without: Option<String>,
    /// Whether it is fetched only when it is named, or needed by another one.
    pub on_request: bool,
    /// In the order in which they are tried.
    pub places: Vec<Place>,
}

/// What makes the file the right one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Size and SHA-256.
    File(Pin),
    /// Size and SHA-256, of a RAR 5 archive that holds another source's file.
    Rar5(Pin),
    /// All files of a git commit: its id pins every byte.
    Commit(String),
}

/// Where a file can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an address.
    Url(String),
    /// In the archive of this id.
    Archive(String),
    /// In a git repository at an address.
    Git(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireManifest {
    source: Vec<WireSource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSource {
    id: String,
    what: String,
    folder: String,
    file: String,
    size: Option<u64>,
    sha256: Option<String>,
    commit: Option<String>,
    unpack: Option<String>,
    licence: String,
    attribution: String,
    after: Option<String>,
    without: Option<String>,
    #[serde(default)]
    on_request: bool,
    place: Vec<WirePlace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WirePlace {
    url: Option<String>,
    archive: Option<String>,
    git: Option<String>,
}

impl Manifest {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is not as it must be; the message names the source.
    pub fn read(path: &Path) -> Result<Manifest> {
        let name = path.display();
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
        let mut text = String::new();
        file.take(LIMIT + 1).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
        ensure!(text.len() as u64 <= LIMIT, "{name} is larger than {LIMIT} bytes");
        Manifest::parse(&text).with_context(|| format!("in {name}"))
    }

    /// Checks the text of a manifest.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub fn parse(text: &str) -> Result<Manifest> {
        let wire: WireManifest = toml::from_str(text)?;
        let mut sources = Vec::new();
        for source in wire.source {
            let id = source.id.clone();
            sources.push(check(source).with_context(|| format!("source \"{id}\""))?);
        }
        let manifest = Manifest { sources };
        manifest.check()?;
        Ok(manifest)
    }

    /// The source of this id.
    ///
    /// # Errors
    /// There is none; the message lists those there are.
    pub fn get(&self, id: &str) -> Result<&Source> {
        self.sources.iter().find(|source| source.id == id).with_context(|| {
            let ids: Vec<&str> = self.sources.iter().map(|source| source.id.as_str()).collect();
            format!("there is no source \"{id}\"; there are {}", ids.join(", "))
        })
    }

    fn check(&self) -> Result<()> {
        let (mut ids, mut files) = (BTreeSet::new(), BTreeSet::new());
        for source in &self.sources {
            ensure!(ids.insert(&source.id), "source \"{}\" is there twice", source.id);
            let path = Path::new(&source.folder).join(&source.file);
            ensure!(files.insert(path), "source \"{}\": its file is another source's, too", source.id);
            for place in &source.places {
                if let Place::Archive(id) = place {
                    let archive = self.get(id).with_context(|| format!("source \"{}\"", source.id))?;
                    ensure!(
                        matches!(archive.kind, Kind::Rar5(_)),
                        "source \"{}\": \"{id}\" has no `unpack`",
                        source.id
                    );
                }
            }
        }
        Ok(())
    }
}

impl Source {
    /// Size and digest, where they are known beforehand.
    pub fn pin(&self) -> Option<&Pin> {
        match &self.kind {
            Kind::File(pin) | Kind::Rar5(pin) => Some(pin),
            Kind::Commit(_) => None,
        }
    }
}

fn check(wire: WireSource) -> Result<Source> {
    ensure!(is_plain(&wire.id), "its id must be of letters, digits, - and _");
    ensure!(is_file_name(&wire.file), "`file` must be a plain file name, not \"{}\"", wire.file);
    ensure!(
        Path::new(&wire.folder).components().all(|part| matches!(part, Component::Normal(_))),
        "`folder` must be below the repository, not \"{}\"",
        wire.folder
    );
    let kind = match (wire.size, wire.sha256, wire.commit) {
        (Some(size), Some(sha256), None) => {
            ensure!(size > 0, "`size` is 0");
            ensure!(is_hex(&sha256, 64), "`sha256` must be 64 lower-case hex digits, not \"{sha256}\"");
            let pin = Pin { size, sha256 };
            match wire.unpack.as_deref() {
                None => Kind::File(pin),
                Some("rar5") => Kind::Rar5(pin),
                Some(other) => bail!("`unpack` can be \"rar5\", not \"{other}\""),
            }
        }
        (None, None, Some(commit)) => {
            ensure!(is_hex(&commit, 40), "`commit` must be 40 lower-case hex digits, not \"{commit}\"");
            ensure!(wire.unpack.is_none(), "`unpack` is for files");
            Kind::Commit(commit)
        }
        _ => {
            bail!("it needs either `size` and `sha256`, or `commit`: what cannot be verified is not fetched")
        }
    };
    ensure!((1..=16).contains(&wire.place.len()), "it needs 1 to 16 places");
    let places: Vec<Place> = wire.place.into_iter().map(place).collect::<Result<_>>()?;
    let is_git = |place: &Place| matches!(place, Place::Git(_));
    let wants_git = matches!(kind, Kind::Commit(_));
    ensure!(places.iter().all(|p| is_git(p) == wants_git), "`git` places are for sources with a `commit`");
    Ok(Source {
        id: wire.id,
        what: wire.what,
        folder: wire.folder,
        file: wire.file,
        kind,
        licence: wire.licence,
        attribution: wire.attribution,
        after: wire.after,
        without: wire.without,
        on_request: wire.on_request,
        places,
    })
}

fn place(wire: WirePlace) -> Result<Place> {
    let address = |url: &str| -> Result<()> {
        let known = ["https://", "http://", "file://"].iter().any(|scheme| url.starts_with(scheme));
        ensure!(known && !url.contains(char::is_whitespace), "\"{url}\" is no address");
        Ok(())
    };
    match wire {
        WirePlace { url: Some(url), archive: None, git: None } => {
            address(&url)?;
            ensure!(!url.starts_with("file://"), "for a file of this machine there is --from");
            Ok(Place::Url(url))
        }
        WirePlace { url: None, archive: Some(id), git: None } => Ok(Place::Archive(id)),
        WirePlace { url: None, archive: None, git: Some(url) } => {
            address(&url)?;
            Ok(Place::Git(url))
        }
        _ => bail!("a place is one of `url`, `archive` and `git`"),
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn is_file_name(text: &str) -> bool {
    let mut parts = Path::new(text).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(name)), None) if name == text)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
