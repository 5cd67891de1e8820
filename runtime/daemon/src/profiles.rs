//! The profile cache: measured durations of kernels, one file per model of device and version of driver.

use crate::place::Lock;
use anyhow::{Context, Result, bail};
use probe::nvidia::Device;
use protocol::durations::{Durations, HEADER, LIMIT};
use protocol::settings::Settings;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest that another daemon may keep the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// The cache of one device.
#[derive(Debug)]
pub struct Profiles {
    path: PathBuf,
    table: Durations,
}

/// The folder of `TALLY_PROFILES`, else this user's cache; `None` if neither is known.
pub fn folder(settings: &Settings) -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
    settings.profiles.clone().or_else(|| Some(cache()?.join("tally")))
}

impl Profiles {
    /// Opens the cache of a device in a folder, which is made if it is not there, and says what had to be skipped.
    ///
    /// # Errors
    /// The folder cannot be made, or the file cannot be read.
    pub fn open(folder: &Path, device: Option<&Device>) -> Result<(Profiles, Vec<String>)> {
        fs::create_dir_all(folder).with_context(|| {
            format!(
                "cannot make the folder of durations {}; choose another with TALLY_PROFILES",
                folder.display()
            )
        })?;
        let name = device.map_or("stub".to_owned(), |device| format!("{}-{}", device.name, device.driver));
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
        let path = folder.join(format!("{}.csv", name.chars().map(plain).collect::<String>()));
        let (table, warnings) = read(&path)?;
        Ok((Profiles { path, table }, warnings))
    }

    /// What is known.
    pub fn table(&self) -> &Durations {
        &self.table
    }

    /// Adds durations and writes the file, together with what other daemons wrote meanwhile. Says what had to be skipped.
    ///
    /// # Errors
    /// The file cannot be read or written; the durations are kept for clients of this daemon.
    pub fn add(&mut self, new: Durations) -> Result<Vec<String>> {
        // A new table of this daemon is kept, whatever becomes of the file.
        self.table.merge(new.clone());
        let end = Instant::now() + PATIENCE;
        let lock_path = self.path.with_extension("lock");
        let lock = loop {
            match Lock::try_take(&lock_path)? {
                Some(lock) => break lock,
                None if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                None => bail!("{} is locked by another daemon", self.path.display()),
            }
        };
        // Not what is in memory: that would count samples of the file twice.
        let (mut table, warnings) = read(&self.path)?;
        if !warnings.is_empty() {
            let kept = self.path.with_extension("csv.damaged");
            fs::copy(&self.path, &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        }
        table.merge(new);
        let unfinished = self.path.with_extension("csv.part");
        fs::write(&unfinished, table.to_string())
            .and_then(|()| fs::rename(&unfinished, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.table = table;
        lock.remove();
        Ok(warnings)
    }
}

/// The table of a file and what is wrong with it; an absent file is an empty table. A file that does not begin with
/// [`HEADER`] is of another version: it is moved aside, and a new one begun.
fn read(path: &Path) -> Result<(Durations, Vec<String>)> {
    let shown = path.display();
    let text = match bounded::text(path, LIMIT) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {shown}; remove it to start anew"));
        }
    };
    if text.lines().next() != Some(HEADER) {
        let aside = path.with_extension("csv.old");
        fs::rename(path, &aside).with_context(|| format!("cannot move {shown} aside"))?;
        let note = format!(
            "{shown} does not begin with `{HEADER}`, so another version wrote it; it is now {}",
            aside.display()
        );
        say!("tallyd: {note}");
        return Ok(Default::default());
    }
    let (table, damaged) = Durations::read(&text);
    let kept = path.with_extension("csv.damaged");
    let warnings = damaged.iter().map(|damaged| {
        format!("{shown}, {damaged}; skipped, a copy of the file is kept as {}", kept.display())
    });
    Ok((table, warnings.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(key: u64, ns: u64) -> Durations {
        Durations::read(&format!("{key:016x},{ns},3,k,1,1,1,32,1,1,0\n")).0
    }

    #[test]
    fn daemons_add_to_one_file_and_count_samples_once() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, _) = Profiles::open(folder.path(), None).unwrap();
        let (mut two, _) = Profiles::open(folder.path(), None).unwrap();
        one.add(table(1, 50)).unwrap();
        two.add(table(2, 60)).unwrap();
        one.add(table(1, 40)).unwrap();
        let (again, warnings) = Profiles::open(folder.path(), None).unwrap();
        assert!(warnings.is_empty());
        assert_eq!(again.table(), one.table());
        let found: Vec<(u64, u64, u32)> =
            again.table().0.iter().map(|(key, d)| (*key, d.ns, d.samples)).collect();
        assert_eq!(found, [(1, 40, 6), (2, 60, 3)]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no other file stays");
    }

    #[test]
    fn a_damaged_line_is_named_and_its_file_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stub.csv");
        let text = format!("{HEADER}\n0000000000000001,9,1,k,1,1,1,1,1,1,0\nbroken\n");
        fs::write(&path, &text).unwrap();
        let (mut profiles, warnings) = Profiles::open(folder.path(), None).unwrap();
        assert_eq!(profiles.table().0.len(), 1);
        assert!(warnings[0].contains("stub.csv, line 3: 1 fields"), "{warnings:?}");
        profiles.add(table(2, 5)).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("stub.csv.damaged")).unwrap(), text);
        assert_eq!(Profiles::open(folder.path(), None).unwrap().1, Vec::<String>::new());
    }

    #[test]
    fn a_file_of_another_version_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("stub.csv"), "key,duration\n1,2\n").unwrap();
        let (profiles, _) = Profiles::open(folder.path(), None).unwrap();
        assert!(profiles.table().0.is_empty());
        assert!(folder.path().join("stub.csv.old").exists() && !folder.path().join("stub.csv").exists());
    }

    #[test]
    fn the_name_says_device_and_driver() {
        let folder = tempfile::tempdir().unwrap();
        let line = "0, NVIDIA H200 / x, GPU-a, 580.159, Default, 143771 MiB, Disabled";
        let device = &probe::nvidia::parse(line)[0];
        let (mut profiles, _) = Profiles::open(folder.path(), Some(device)).unwrap();
        profiles.add(table(1, 1)).unwrap();
        assert!(folder.path().join("NVIDIA-H200---x-580.159.csv").exists());
    }
}
