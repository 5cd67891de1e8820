//! A repository in a temporary folder: a manifest made for the test, and what lies on its disk.

use fetch::{Fetcher, Kind, Manifest, Pin, Place, Settings, Source};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The name of the file that most tests fetch.
pub const FILE: &str = "trace.txt";

/// Rows that look like the real thing; deterministic, and no two blocks are equal.
pub fn rows(bytes: usize) -> Vec<u8> {
    let mut text = String::from("app,func,end_timestamp,duration\n");
    let mut row = 0_u64;
    while text.len() < bytes {
        row += 1;
        text += &format!("{:016x},{row},{}.25,0.5\n", row.wrapping_mul(0x9e37_79b9_7f4a_7c15), row * 3);
    }
    text.truncate(bytes);
    text.into_bytes()
}

/// Fast where the real ones are patient, and deaf to the surroundings.
pub fn settings() -> Settings {
    Settings {
        attempts: 3,
        pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(4),
        silence: Duration::from_millis(400),
        tool_limit: Duration::from_secs(20),
        proxies: false,
        path: "".into(),
        progress: false,
    }
}

pub fn source(id: &str, file: &str, kind: Kind, places: Vec<Place>) -> Source {
    Source {
        id: id.to_owned(),
        what: "made for a test".to_owned(),
        folder: "data".to_owned(),
        file: file.to_owned(),
        kind,
        licence: "CC0".to_owned(),
        attribution: "nobody".to_owned(),
        after: None,
        without: None,
        on_request: false,
        places,
    }
}

pub struct Bench {
    /// Kept for its end.
    _folder: TempDir,
    pub fetcher: Fetcher,
}

impl Bench {
    /// One source, `trace`, of these bytes, at these addresses.
    pub fn new(data: &[u8], urls: &[String]) -> Bench {
        let places = urls.iter().cloned().map(Place::Url).collect();
        Bench::of(vec![source("trace", FILE, Kind::File(Pin::of(data)), places)])
    }

    pub fn of(sources: Vec<Source>) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let fetcher = Fetcher {
            manifest: Manifest { sources },
            root: folder.path().to_path_buf(),
            dir: None,
            from: None,
            offline: false,
            settings: settings(),
        };
        Bench { _folder: folder, fetcher }
    }

    /// `ok: <from>`, `present`, or the message.
    pub fn fetch(&self) -> String {
        self.fetch_id("trace")
    }

    pub fn fetch_id(&self, id: &str) -> String {
        match self.fetcher.obtain(self.fetcher.manifest.get(id).unwrap()) {
            Ok(fetch::Outcome::Present) => "present".to_owned(),
            Ok(fetch::Outcome::Fetched(from)) => format!("ok: {from}"),
            Err(error) => format!("{error:#}"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.fetcher.root.join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// What lies in the data folder, e.g. `trace.txt 300`.
    pub fn disk(&self) -> Vec<String> {
        disk(&self.data())
    }
}

/// Names and sizes of a folder's files, sorted.
pub fn disk(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<String> = entries
        .map(|entry| {
            let entry = entry.unwrap();
            format!("{} {}", entry.file_name().to_string_lossy(), entry.metadata().unwrap().len())
        })
        .collect();
    files.sort();
    // Belongs to a partial file; alone it would be a leftover.
    if files.iter().any(|file| file.contains(".part ")) {
        files.retain(|file| !file.contains(".part.from "));
    }
    files
}

/// An executable script.
#[cfg(unix)]
pub fn script(path: &Path, body: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
