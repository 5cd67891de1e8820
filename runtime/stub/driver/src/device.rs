//! When work runs on the device.
//!
//! By default each stream is a queue of its own and nothing else holds work up. With STUB_DEVICE all processes that name
//! the same file have one device that runs one thing at a time, to its end, in the order in which it was launched. The
//! file holds a table of (process, end of its last work); it is changed under flock, which the kernel gives up when a
//! process dies, and the rows of dead processes don't count.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::settings;
use crate::time;

const ROWS: usize = 64;
const ROW_BYTES: usize = 16;

/// Reserves the device for `duration` ns from `ready` on; gives the start.
pub fn reserve(ready: u64, duration: u64) -> u64 {
    static DEVICE: OnceLock<Option<File>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        let path = settings::get()?.device.as_ref()?;
        open(path)
            .inspect_err(|error| eprintln!("cuda-stub: STUB_DEVICE {}: {error}; not shared", path.display()))
            .ok()
    });
    match device {
        None => ready,
        Some(file) => reserve_shared(file, std::process::id(), ready, duration).unwrap_or(ready),
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    if file.metadata()?.len() < (ROWS * ROW_BYTES) as u64 {
        file.set_len((ROWS * ROW_BYTES) as u64)?;
    }
    file.unlock()?;
    Ok(file)
}

fn reserve_shared(file: &File, process: u32, ready: u64, duration: u64) -> io::Result<u64> {
    file.lock()?;
    let answer = (|| {
        let mut table = [0; ROWS * ROW_BYTES];
        file.read_exact_at(&mut table, 0)?;
        let (rows, _) = table.as_chunks::<ROW_BYTES>();
        let rows: Vec<(u32, u64)> = rows.iter().map(row).collect();
        let now = time::now();
        let mut start = ready;
        let mut own = None;
        for (index, &(owner, end)) in rows.iter().enumerate() {
            if owner == process {
                own = Some(index);
            }
            if owner != 0 && end > start && (owner == process || alive(owner)) {
                start = end;
            }
        }
        // A row whose end has passed says nothing more.
        let own = own
            .or_else(|| rows.iter().position(|&(owner, end)| owner == 0 || end <= now))
            .ok_or_else(|| io::Error::other("more processes than rows"))?;
        let mut row = [0; ROW_BYTES];
        row[..8].copy_from_slice(&u64::from(process).to_ne_bytes());
        row[8..].copy_from_slice(&(start + duration).to_ne_bytes());
        file.write_all_at(&row, (own * ROW_BYTES) as u64)?;
        Ok(start)
    })();
    file.unlock()?;
    answer
}

fn row(bytes: &[u8; ROW_BYTES]) -> (u32, u64) {
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
    (word(0) as u32, word(8))
}

/// Is the process there, and more than a zombie?
fn alive(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return false };
    // The state follows the name, which is in parentheses and may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_all_processes_comes_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("device")).unwrap();
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        let start = time::now() + 1_000_000_000;
        assert_eq!(reserve_shared(&file, own, start, 100).unwrap(), start);
        assert_eq!(reserve_shared(&file, parent, start, 50).unwrap(), start + 100);
        assert_eq!(reserve_shared(&file, own, start, 10).unwrap(), start + 150);
        assert_eq!(reserve_shared(&file, own, start + 1_000, 10).unwrap(), start + 1_000);
    }

    #[test]
    fn a_dead_process_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = open(&folder.path().join("device")).unwrap();
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let start = time::now() + 3_600_000_000_000;
        assert_eq!(reserve_shared(&file, child.id(), start, 1_000_000).unwrap(), start);
        assert_eq!(reserve_shared(&file, std::process::id(), start, 100).unwrap(), start + 1_000_000);
        let own = start + 1_000_100;
        child.kill().unwrap();
        // Nobody has waited for it yet: it is a zombie.
        while alive(child.id()) {
            std::thread::yield_now();
        }
        assert_eq!(reserve_shared(&file, std::process::id(), start, 100).unwrap(), own);
        let parent = std::os::unix::process::parent_id();
        assert_eq!(reserve_shared(&file, parent, start, 0).unwrap(), own + 100);
        child.wait().unwrap();
        assert!(!alive(child.id()));
    }
}
