//! What a record was made from: digests of the files of `runtime/`, to tell how much has changed since.

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Files by their path in the repository, with the SHA-256 of their bytes.
pub type Files = BTreeMap<String, String>;

/// Not sources of what was checked: the records themselves, and what Python leaves behind.
const LEFT_OUT: [&str; 1] = ["runtime/check/record"];

/// Digests of all files below `runtime/`.
///
/// # Errors
/// A folder or file cannot be read.
pub fn files(repo: &Path) -> Result<Files> {
    let mut found = Files::new();
    collect(repo, "runtime", &mut found)?;
    Ok(found)
}

fn collect(repo: &Path, folder: &str, found: &mut Files) -> Result<()> {
    let path = repo.join(folder);
    let entries = std::fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let inside = format!("{folder}/{name}");
        let kind = entry.file_type()?;
        if name.starts_with('.') || name == "__pycache__" || LEFT_OUT.contains(&inside.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(repo, &inside, found)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).with_context(|| format!("cannot read {inside}"))?;
            found.insert(inside, hex(&Sha256::digest(bytes)));
        }
    }
    Ok(())
}

/// One digest over all: the SHA-256 of lines `digest  path`, sorted by path, as `sha256sum` prints them.
pub fn whole(files: &Files) -> String {
    let lines: String = files.iter().fold(String::new(), |mut text, (path, digest)| {
        let _ = writeln!(text, "{digest}  {path}");
        text
    });
    hex(&Sha256::digest(lines))
}

/// How two states of the files differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub changed: Vec<String>,
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl Change {
    /// From one state to another.
    pub fn between(before: &Files, now: &Files) -> Change {
        let absent = |from: &Files, other: &Files| -> Vec<String> {
            from.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
        };
        let changed = before.iter().filter(|(path, digest)| now.get(*path).is_some_and(|new| new != *digest));
        Change {
            changed: changed.map(|(path, _)| path.clone()).collect(),
            added: absent(now, before),
            removed: absent(before, now),
        }
    }

    /// Whether nothing differs.
    pub fn is_none(&self) -> bool {
        *self == Change::default()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn digests_are_those_of_sha256sum_and_changes_are_named() {
        let repo = tempfile::tempdir().unwrap();
        let path = |name: &str| repo.path().join(name);
        for folder in ["runtime/a/__pycache__", "runtime/check/record", "other"] {
            create_dir_all(path(folder)).unwrap();
        }
        for name in
            ["runtime/a/x", "runtime/b", "runtime/a/__pycache__/y", "runtime/check/record/r", "other/o"]
        {
            write(path(name), "abc").unwrap();
        }
        let before = files(repo.path()).unwrap();
        assert_eq!(before.keys().collect::<Vec<_>>(), ["runtime/a/x", "runtime/b"]);
        // The test vector of FIPS 180-2 for "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(before["runtime/b"], abc);
        // printf '%s  runtime/a/x\n%s  runtime/b\n' $abc $abc | sha256sum
        assert_eq!(whole(&before), "adde52bf7d6cb2d8a8b7abf25193f1e1d045b7fdf29399fb9af933d643dcb7e9");
        write(path("runtime/b"), "abd").unwrap();
        write(path("runtime/c"), "").unwrap();
        std::fs::remove_file(path("runtime/a/x")).unwrap();
        let now = files(repo.path()).unwrap();
        let change = Change::between(&before, &now);
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = Change {
            changed: list(&["runtime/b"]),
            added: list(&["runtime/c"]),
            removed: list(&["runtime/a/x"]),
        };
        assert_eq!(change, expected);
        assert!(Change::between(&now, &now).is_none());
        assert_ne!(whole(&now), whole(&before));
    }
}
