//! Reads files that others may have written, up to a size: a definition of gigabytes, a device or a pipe in place of a
//! file must end in a message, not in swapping or waiting.
//!
//! **Architecture invariant:** no dependency, so that every crate can use it.

use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;

/// Of a file that people write: experiments, machines, workloads, run.toml. The largest here has 60 kB.
pub const DEFINITION: u64 = 4 << 20;

/// Of a table of results or measurements: some 400 bytes a row, a few hundred rows.
pub const TABLE: u64 = 64 << 20;

/// Of recorded samples or kernels: a Parquet file of some 3 bytes a number.
pub const SAMPLES: u64 = 512 << 20;

/// The text of a file of at most `limit` bytes.
///
/// # Errors
/// As [`bytes`]; and text that is not UTF-8.
pub fn text(path: &Path, limit: u64) -> Result<String> {
    String::from_utf8(bytes(path, limit)?).map_err(|error| {
        Error::new(ErrorKind::InvalidData, format!("it is no UTF-8 text: {}", error.utf8_error()))
    })
}

/// The content of a file of at most `limit` bytes.
///
/// # Errors
/// Any I/O error, something that is not a regular file, and a larger file, with both sizes.
pub fn bytes(path: &Path, limit: u64) -> Result<Vec<u8>> {
    check(path, limit)?;
    let mut bytes = Vec::new();
    // Once more while it is read: it may have grown since.
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large(bytes.len() as u64, limit)) } else { Ok(bytes) }
}

/// Whether a file may be given to a reader of somebody else's, which has no limit of its own.
///
/// # Errors
/// As [`bytes`].
pub fn check(path: &Path, limit: u64) -> Result<()> {
    // Before it is opened: to open a pipe is to wait for its writer.
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > limit { Err(too_large(found.len(), limit)) } else { Ok(()) }
}

fn too_large(found: u64, limit: u64) -> Error {
    let text = format!("it has {found} bytes or more, and a file of this kind has at most {limit}");
    Error::new(ErrorKind::FileTooLarge, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_last_size_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(text(&path, 10).unwrap(), "0123456789");
        let error = text(&path, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(
            error.to_string().contains("10 bytes or more") && error.to_string().contains("at most 9"),
            "{error}"
        );
    }

    #[test]
    fn a_sparse_giant_is_refused_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("giant.toml");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(bytes(&path, DEFINITION).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(text(folder.path(), 10).unwrap_err().to_string().contains("not a regular file"));
        // A device that never ends.
        if cfg!(unix) {
            assert!(
                bytes(Path::new("/dev/zero"), 10).unwrap_err().to_string().contains("not a regular file")
            );
        }
        assert_eq!(text(&folder.path().join("none"), 10).unwrap_err().kind(), ErrorKind::NotFound);
        let path = folder.path().join("binary.toml");
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(text(&path, 10).unwrap_err().to_string().contains("no UTF-8 text"));
    }
}
