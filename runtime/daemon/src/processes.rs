//! Processes found in /proc.

use std::fs;
use std::path::Path;

/// All process numbers.
fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Fields of `/proc/PID/stat` from the third on, which follow the name in brackets (proc_pid_stat(5)).
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after = &text[text.rfind(')')? + 1..];
    Some(after.split_ascii_whitespace().map(str::to_owned).collect())
}

/// A process, its descendants, and the members of the process group that it leads. Zombies are left out.
pub fn tree(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    // (pid, parent, group)
    let all: Vec<(u32, u32, u32)> = all()
        .into_iter()
        .filter_map(|pid| {
            let fields = stat(pid)?;
            let zombie = matches!(fields.first()?.as_str(), "Z" | "X");
            (!zombie).then_some((pid, fields.get(1)?.parse().ok()?, fields.get(2)?.parse().ok()?))
        })
        .collect();
    loop {
        let more: Vec<u32> = all
            .iter()
            .filter(|(pid, parent, group)| !found.contains(pid) && (found.contains(parent) || *group == root))
            .map(|(pid, ..)| *pid)
            .collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    found.retain(|pid| all.iter().any(|(alive, ..)| alive == pid));
    found
}

/// Whether this process's group has its terminal, which then sends Ctrl-C to all of the group's members.
pub fn has_terminal() -> bool {
    // Fields 5 (group) and 8 (the terminal's foreground group, -1 without a terminal).
    stat(std::process::id()).is_some_and(|fields| fields.get(2).is_some() && fields.get(2) == fields.get(5))
}

/// Whether a process has this name, of which the kernel keeps 15 bytes.
pub fn is_named(pid: u32, name: &str) -> bool {
    let kept = &name.as_bytes()[..name.len().min(15)];
    fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_ascii_end() == kept)
}

/// This user's processes of this name with this variable in their environment.
pub fn with_variable(name: &str, variable: &str, value: &str) -> Vec<u32> {
    all().into_iter().filter(|pid| is_named(*pid, name) && has_variable(*pid, variable, value)).collect()
}

fn has_variable(pid: u32, variable: &str, value: &str) -> bool {
    let wanted = format!("{variable}={value}").into_bytes();
    let environment = fs::read(format!("/proc/{pid}/environ"));
    environment.is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|entry| entry == wanted))
}

/// Processes that were told of this socket and have a segment mapped, whether its daemon lives or not.
pub fn clients_of(socket: &Path) -> Vec<u32> {
    let socket = socket.to_string_lossy();
    let maps = |pid: u32| fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    all()
        .into_iter()
        .filter(|pid| has_variable(*pid, "TALLY_SOCKET", &socket) && maps(*pid).contains("/memfd:tally"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tree_holds_children_and_not_the_dead() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let this = std::process::id();
        let tree_now = tree(this);
        assert!(tree_now.contains(&this) && tree_now.contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!tree(this).contains(&child.id()));
        assert!(tree(child.id()).is_empty());
    }

    #[test]
    fn a_process_is_found_by_its_environment() {
        let value = format!("/x/{}", std::process::id());
        let mut child = Command::new("sleep").arg("60").env("SOME_FOLDER", &value).spawn().unwrap();
        // The kernel lets the parent go on before name and environment are in place.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while with_variable("sleep", "SOME_FOLDER", &value) != [child.id()] {
            assert!(std::time::Instant::now() < end, "it is not found");
            std::thread::yield_now();
        }
        assert!(with_variable("sleep", "SOME_FOLDER", "/x").is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
