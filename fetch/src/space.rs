//! Room on the file system that a folder is on, which need not be the one that `df` shows first.

use crate::progress::size;
use anyhow::{Result, bail};
use std::path::Path;

/// Bytes that this user may still write there; `None` where the system doesn't say.
#[cfg(unix)]
pub fn free(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes that this user may still write there; `None` where the system doesn't say.
#[cfg(not(unix))]
pub fn free(_folder: &Path) -> Option<u64> {
    None
}

/// Compares what a step needs with what is free; the folder exists.
///
/// # Errors
/// There is too little, and the message says how much more is needed.
pub fn require(folder: &Path, needed: u64, what: &str) -> Result<()> {
    let Some(free) = free(folder) else { return Ok(()) };
    if free < needed {
        bail!(
            "not enough room: {what} needs {} in {}, whose file system has {} free; {} more are needed: free them, or \
             name a folder on another disk with --dir DIR",
            size(needed),
            folder.display(),
            size(free),
            size(needed - free)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_says_how_much_more() {
        let folder = std::env::temp_dir();
        require(&folder, 1, "a byte").unwrap();
        let error = require(&folder, u64::MAX, "everything").unwrap_err().to_string();
        assert!(
            error.contains("everything needs 16777216.0 TiB") && error.contains("more are needed"),
            "{error}"
        );
    }
}
