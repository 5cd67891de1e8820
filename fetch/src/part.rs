//! A file on its way: `<name>.part` beside the final name, so that the rename is on one file system, and `<name>.part.from`
//! with where it comes from, so that a later run can go on.

use crate::fault::Fault;
use crate::pin::Pin;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The partial file, locked against other processes as long as this lives.
pub struct Part {
    file: File,
    path: PathBuf,
    origin: PathBuf,
    target: PathBuf,
    len: u64,
}

/// Longest address and validator that are read back.
const ORIGIN_LIMIT: u64 = 16 << 10;

impl Part {
    /// Opens or creates it; what an earlier run received is kept until [`Part::begin`].
    pub fn open(target: &Path) -> Result<Part, Fault> {
        let path = beside(target, ".part");
        let doing = || format!("cannot write {}", path.display());
        let file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| Fault::disk(doing(), error, 0))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Fault::Locked),
            // Some network file systems have no locks; a fetch there is worth more than the protection.
            Err(TryLockError::Error(_)) | Ok(()) => {}
        }
        let len = file.metadata().map_err(|error| Fault::disk(doing(), error, 0))?.len();
        Ok(Part { file, origin: beside(target, ".part.from"), target: target.to_path_buf(), path, len })
    }

    /// Bytes there.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where the partial file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The validator to go on with (empty: none), when what is there came from this address.
    pub fn came_from(&self, url: &str) -> Option<String> {
        if self.len == 0 {
            return None;
        }
        let mut text = String::new();
        File::open(&self.origin).ok()?.take(ORIGIN_LIMIT).read_to_string(&mut text).ok()?;
        let (address, validator) = text.split_once('\n')?;
        (address == url).then(|| validator.trim_end().to_owned())
    }

    /// Starts from nothing, from this address.
    pub fn begin(&mut self, url: &str, validator: &str) -> Result<(), Fault> {
        let disk = |error| Fault::disk("cannot empty the partial file", error, 0);
        self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0))).map_err(disk)?;
        self.len = 0;
        fs::write(&self.origin, format!("{url}\n{validator}\n")).map_err(disk)
    }

    /// Writes behind what is there.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let len = self.len;
        let disk = |error| Fault::disk("cannot write the partial file", error, len);
        self.file.seek(SeekFrom::Start(len)).map_err(disk)?;
        self.file.write_all(bytes).map_err(disk)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Compares it with its pin and gives it its final name. Read back from the disk: what counts is what is there.
    pub fn finish(&self, pin: &Pin) -> Result<(), Fault> {
        let disk = |doing: &str, error| Fault::disk(doing.to_owned(), error, self.len);
        self.file.sync_all().map_err(|error| disk("cannot write the partial file to the disk", error))?;
        match pin.check(&self.path).map_err(|error| disk("cannot read the partial file", error))? {
            Ok(()) => self.rename(),
            Err(mismatch) => Err(Fault::Mismatch(mismatch)),
        }
    }

    /// Gives it its final name; the caller has checked it.
    pub fn rename(&self) -> Result<(), Fault> {
        fs::rename(&self.path, &self.target).map_err(|error| {
            Fault::disk(format!("cannot create {}", self.target.display()), error, self.len)
        })?;
        let _ = fs::remove_file(&self.origin);
        Ok(())
    }

    /// Removes it.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(&self.origin);
    }

    /// Removes it if there is nothing in it.
    pub fn discard_if_empty(self) {
        if self.len == 0 {
            self.discard();
        }
    }
}

/// The path with this behind its file name.
pub fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.file_name().map(OsString::from).unwrap_or_default();
    name.push(suffix);
    target.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_remembers_its_address_and_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("x.txt");
        let mut part = Part::open(&target).unwrap();
        assert!(matches!(Part::open(&target), Err(Fault::Locked)));
        part.begin("http://a/x", "\"tag\"").unwrap();
        assert_eq!(part.came_from("http://a/x"), None, "nothing received yet");
        part.append(b"ab").unwrap();
        drop(part);
        let mut part = Part::open(&target).unwrap();
        assert_eq!(part.len(), 2);
        assert_eq!(part.came_from("http://a/x").as_deref(), Some("\"tag\""));
        assert_eq!(part.came_from("http://b/x"), None);
        part.append(b"c").unwrap();
        assert!(matches!(part.finish(&Pin::of(b"abd")), Err(Fault::Mismatch(_))));
        assert!(!target.exists());
        part.finish(&Pin::of(b"abc")).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["x.txt"]);
    }
}
