//! What the faults left behind: processes, sockets, shared memory, settings of the device.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Processes that have a text in their arguments or their environment: `pid name`.
pub fn processes_with(text: &str) -> Vec<(u32, String)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            // Other users' processes cannot be read, and are none of ours.
            ["cmdline", "environ"].iter().any(|file| {
                let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(text)
            })
        })
        .map(|pid| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
            (pid, String::from_utf8_lossy(first).into_owned())
        })
        .collect()
}

/// Sockets below a folder.
pub fn sockets(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(sockets(&entry.path())),
            Ok(kind) if kind.is_socket() => found.push(entry.path().display().to_string()),
            _ => {}
        }
    }
    found
}

/// Names of shared memory that is there.
pub fn shared_memory() -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir("/dev/shm") else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    #[test]
    fn a_process_and_a_socket_are_found_while_they_are_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let mark = folder.path().to_str().unwrap();
        let mut child = Command::new("sleep").arg("60").env("MARK", mark).spawn().unwrap();
        let listener = UnixListener::bind(folder.path().join("d/x.sock")).unwrap();
        // Between fork and exec a child has its parent's environment.
        let found = crate::program::until(std::time::Duration::from_secs(5), || {
            let found = processes_with(mark);
            (!found.is_empty()).then_some(found)
        });
        assert_eq!(found, Some(vec![(child.id(), "sleep".to_owned())]));
        assert_eq!(sockets(folder.path()).len(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        drop(listener);
        std::fs::remove_file(folder.path().join("d/x.sock")).unwrap();
        assert!(processes_with(mark).is_empty() && sockets(folder.path()).is_empty());
    }
}
