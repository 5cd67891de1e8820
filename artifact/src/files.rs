//! Files that are either there and whole, or not there.

use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// How the names of files end that are being written.
pub(crate) const PARTIAL: &str = ".partial";

/// Writes a file under a temporary name, makes sure that it is on the disk, and renames it. Nothing partial remains
/// when it fails.
///
/// # Errors
/// Any I/O error, a full disk included, with the file and what to do.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(PARTIAL);
    let partial = path.with_file_name(name);
    // A bare name has an empty parent, which cannot be opened.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        write_synced(&partial, bytes)?;
        fs::rename(&partial, path)?;
        sync_folder(parent)
    };
    write().inspect_err(|_| drop(fs::remove_file(&partial))).with_context(|| cannot_write(path))
}

/// Writes a file and waits until the disk has it.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder durable. Only Unix can open a folder as a file.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// What to do when a file cannot be written.
pub(crate) fn cannot_write(path: &Path) -> String {
    format!(
        "cannot write {}; what was finished before is kept: make room or choose another folder with --out, and run \
         the same command again",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.csv");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        // A folder in the way of the rename stands for any late error.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inside")).unwrap();
        let error = write_atomically(&taken, b"three").unwrap_err();
        assert!(format!("{error:#}").contains("taken"), "{error:#}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
