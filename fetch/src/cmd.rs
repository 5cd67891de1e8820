//! The verb: which sources, what is said of each, and the exit code.

use crate::manifest::{Kind, Manifest, Place, Source};
use crate::obtain::{Fetcher, Outcome};
use crate::progress::size;
use crate::settings::Settings;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The manifest, below the repository.
pub const MANIFEST: &str = "artifact/sources.toml";

/// Runs the verb. Every source is tried, whatever becomes of the others; 1 if any isn't there in the end.
///
/// # Errors
/// The manifest or an id is wrong: nothing was tried.
pub fn run(flags: &flags::Fetch, settings: Settings) -> Result<u8> {
    let root = find_root()?;
    let fetcher = Fetcher {
        manifest: Manifest::read(&root.join(MANIFEST))?,
        root,
        dir: flags.dir.clone(),
        from: flags.from.clone(),
        offline: flags.offline,
        settings,
    };
    let sources: Vec<&Source> = if flags.ids.is_empty() {
        fetcher.manifest.sources.iter().filter(|source| flags.list || !source.on_request).collect()
    } else {
        flags.ids.iter().map(|id| fetcher.manifest.get(id)).collect::<Result<_>>()?
    };
    if flags.list {
        sources.iter().for_each(|source| say(&listed(&fetcher, source)));
        return Ok(0);
    }
    let mut code = 0;
    for source in sources {
        match fetcher.obtain(source) {
            Ok(outcome) => say(&done(&fetcher, source, &outcome)),
            Err(error) => {
                code = 1;
                eprintln!("error: {}: {error:#}", source.id);
                if let Some(without) = &source.without {
                    eprintln!("{}: {without}", source.id);
                }
            }
        }
    }
    Ok(code)
}

/// The nearest folder upwards of the current one that has the manifest, else the one this binary was built in.
fn find_root() -> Result<PathBuf> {
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf);
    let current = std::env::current_dir().ok();
    let upwards = current.iter().flat_map(|folder| folder.ancestors().map(Path::to_path_buf));
    upwards.chain(built_in).find(|folder| folder.join(MANIFEST).is_file()).with_context(|| {
        format!("there is no {MANIFEST} in this folder or above it; run from inside the repository")
    })
}

fn done(fetcher: &Fetcher, source: &Source, outcome: &Outcome) -> String {
    let path = fetcher.target(source);
    let shown = path.strip_prefix(&fetcher.root).unwrap_or(&path).display();
    let how = match outcome {
        Outcome::Present => "already there and verified".to_owned(),
        Outcome::Fetched(from) => format!("verified, from {from}"),
    };
    let mut text = format!("{}: {shown}: {how}\n", source.id);
    if *outcome != Outcome::Present {
        text += &format!("  licence {}; keep with any copy: {}\n", source.licence, source.attribution);
    }
    let expected = fetcher.root.join(&source.folder).join(&source.file);
    if path == expected {
        if let Some(after) = &source.after {
            text += &format!("  {after}\n");
        }
    } else if source.after.is_some() {
        text +=
            &format!("  it is only looked for as {}/{}: move or link it there\n", source.folder, source.file);
    }
    text
}

fn listed(fetcher: &Fetcher, source: &Source) -> String {
    let path = fetcher.target(source);
    let state = match (path.metadata().map(|file| file.len()), source.pin()) {
        (Err(_), _) => "not there".to_owned(),
        (Ok(found), Some(pin)) if found != pin.size => format!("there, but of {found} bytes"),
        (Ok(_), _) => "there (fetch it again to verify it)".to_owned(),
    };
    let pin = match &source.kind {
        Kind::File(pin) => format!("{} ({} bytes), sha256 {}", size(pin.size), pin.size, pin.sha256),
        Kind::Rar5(pin) => format!("RAR 5, {} ({} bytes), sha256 {}", size(pin.size), pin.size, pin.sha256),
        Kind::Commit(commit) => format!("git commit {commit}, packed as tar"),
    };
    let when = if source.on_request { ", only when named or needed" } else { "" };
    let mut text = format!("{}: {}{when}\n", source.id, source.what);
    text += &format!("  file     {}/{}: {state}\n", source.folder, source.file);
    text += &format!("  pinned   {pin}\n");
    text += &format!("  licence  {}; {}\n", source.licence, source.attribution);
    for (number, place) in (1..).zip(&source.places) {
        let place = match place {
            Place::Url(url) | Place::Git(url) => url.clone(),
            Place::Archive(id) => format!("in the archive {id}"),
        };
        text += &format!("  place {number}  {place}\n");
    }
    text
}

/// Text on stdout; a reader that has gone away is no reason to stop.
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}
