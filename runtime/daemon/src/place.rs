//! Where a daemon's files are: socket, lock, log and MPS folders in one private folder, named after the device.

use anyhow::{Context, Result, bail, ensure};
use protocol::settings::Settings;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest path of a socket: `sun_path` has 108 bytes (unix(7)), one of them for the end.
pub const SOCKET_PATH: usize = 107;

/// The files of the daemon of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub dir: PathBuf,
    name: String,
}

impl Place {
    /// The place of the device with this UUID, or of no particular one.
    pub fn new(dir: &Path, uuid: Option<&str>) -> Place {
        Place { dir: dir.to_owned(), name: uuid.unwrap_or("default").to_owned() }
    }

    /// All places in a folder that have a socket, whether somebody listens there or not.
    pub fn all(dir: &Path) -> Vec<Place> {
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let names = entries.filter_map(|entry| {
            Some(entry.ok()?.file_name().into_string().ok()?.strip_suffix(".sock")?.to_owned())
        });
        let mut places: Vec<Place> = names.map(|name| Place { dir: dir.to_owned(), name }).collect();
        places.sort_by(|a, b| a.name.cmp(&b.name));
        places
    }

    pub fn socket(&self) -> PathBuf {
        self.file("sock")
    }

    /// Locked by the daemon for as long as it lives; holds its process number.
    pub fn lock(&self) -> PathBuf {
        self.file("lock")
    }

    /// Locked by a `tally run` while it starts the daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.file("start")
    }

    /// What a daemon that `tally run` started says.
    pub fn log(&self) -> PathBuf {
        self.file("log")
    }

    /// Folder of the MPS control daemon.
    pub fn mps(&self) -> PathBuf {
        self.file("mps")
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.name))
    }
}

/// The folder of `--dir`, else of `TALLY_DIR`, else this user's own.
///
/// # Errors
/// See [`private`].
pub fn folder(flag: Option<&Path>, settings: &Settings) -> Result<PathBuf> {
    let folder = match flag.or(settings.dir.as_deref()) {
        Some(folder) => folder.to_owned(),
        None => match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
            Some(runtime) => Path::new(&runtime).join("tally"),
            None => PathBuf::from(format!("/tmp/tally-{}", uid())),
        },
    };
    private(&folder)
}

/// The user that this process acts as.
pub fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes a folder that only this user can enter, or checks that an existing one is such; its absolute path.
///
/// # Errors
/// It cannot be made, is somebody else's, or others may enter; with the repair.
pub fn private(folder: &Path) -> Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    let shown = folder.display();
    let other = "choose another folder with --dir or TALLY_DIR";
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| format!("cannot make the folder {shown}; {other}"))?;
    let found = fs::symlink_metadata(&folder).with_context(|| format!("cannot examine {shown}"))?;
    ensure!(found.is_dir(), "{shown} is no folder (a link is refused, name what it points to); {other}");
    let (owner, uid) = (found.uid(), uid());
    ensure!(owner == uid, "{shown} belongs to user {owner}, and this is user {uid}; {other}");
    let mode = found.mode() & 0o777;
    ensure!(
        mode & 0o077 == 0,
        "{shown} is open to others (mode {mode:03o}); `chmod 700 {shown}`, or {other}"
    );
    Ok(folder)
}

/// Checks that a socket can have this path.
///
/// # Errors
/// It is too long.
pub fn check_socket_path(path: &Path) -> Result<()> {
    let length = path.as_os_str().len();
    if length > SOCKET_PATH {
        bail!(
            "the path of a socket has at most {SOCKET_PATH} bytes, and {} has {length}; choose a shorter folder with --dir \
             or TALLY_DIR",
            path.display()
        );
    }
    Ok(())
}

/// A lock file that is ours until dropped, or until this process ends in whatever way.
#[derive(Debug)]
pub struct Lock {
    // Closing it unlocks it.
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// The lock, or `None` while another process has it.
    ///
    /// # Errors
    /// The file cannot be made or locked.
    pub fn try_take(path: &Path) -> Result<Option<Lock>> {
        let context = || format!("cannot lock {}", path.display());
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .with_context(context)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                other => other.with_context(context)?,
            }
            // Whoever had it before may have removed it after we opened it; then our lock is on a file without a name.
            let named = fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
            let ours = file.metadata().map(|found| (found.dev(), found.ino())).ok();
            if named.is_none() || named != ours {
                continue;
            }
            file.set_len(0).with_context(context)?;
            file.rewind().with_context(context)?;
            writeln!(file, "{}", std::process::id()).with_context(context)?;
            return Ok(Some(Lock { _file: file, path: path.to_owned() }));
        }
    }

    /// Removes the file, still locked.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }

    /// The process that wrote its number into a lock file.
    pub fn holder(path: &Path) -> Option<u32> {
        bounded::text(path, 64).ok()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_of_others_or_open_to_them_is_refused_with_the_repair() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        assert_eq!(private(&folder).unwrap(), folder);
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let error = private(&folder).unwrap_err().to_string();
        assert!(error.contains("(mode 755)") && error.contains(&format!("chmod 700 {}", folder.display())));
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(scratch.path(), &link).unwrap();
        assert!(private(&link).unwrap_err().to_string().contains("is no folder"));
        if uid() == 0 {
            std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
            let error = private(&folder).unwrap_err().to_string();
            assert!(error.contains("belongs to user 65534, and this is user 0"), "{error}");
        }
    }

    #[test]
    fn a_lock_is_one_processs_and_its_file_may_vanish() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.lock");
        let lock = Lock::try_take(&path).unwrap().unwrap();
        assert_eq!(Lock::holder(&path), Some(std::process::id()));
        // A second description of the same file, as another process would have.
        assert!(Lock::try_take(&path).unwrap().is_none());
        lock.remove();
        assert!(!path.exists());
        let lock = Lock::try_take(&path).unwrap().unwrap();
        drop(lock);
        assert!(Lock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_long_path_is_an_error_that_says_how_long() {
        let path = PathBuf::from(format!("/{}", "x".repeat(SOCKET_PATH)));
        assert!(check_socket_path(&path).unwrap_err().to_string().contains("at most 107 bytes"));
        assert!(check_socket_path(Path::new(&format!("/{}", "x".repeat(SOCKET_PATH - 1)))).is_ok());
    }

    #[test]
    fn places_are_found_by_their_sockets() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["GPU-b.sock", "default.sock", "GPU-a.lock"] {
            fs::write(scratch.path().join(name), "").unwrap();
        }
        let expected = [Place::new(scratch.path(), Some("GPU-b")), Place::new(scratch.path(), None)];
        assert_eq!(Place::all(scratch.path()), expected);
    }
}
