//! Which process a number means: numbers are reused, so a process is known by its number and its start time.

use std::io::Read;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Clock ticks after boot (`/proc/PID/stat`, field 22).
    pub start: u64,
}

impl Process {
    /// This process.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn this() -> std::io::Result<Process> {
        Process::find(std::process::id())
    }

    /// The process that has this number now.
    ///
    /// # Errors
    /// There is none, or /proc cannot be read.
    pub fn find(pid: u32) -> std::io::Result<Process> {
        let mut text = String::new();
        std::fs::File::open(format!("/proc/{pid}/stat"))?.take(4096).read_to_string(&mut text)?;
        let start = start_of(&text).ok_or_else(|| {
            std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("/proc/{pid}/stat is not as expected"),
            )
        })?;
        Ok(Process { pid, start })
    }

    /// Whether it still runs. A zombie does not.
    pub fn is_alive(self) -> bool {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)) else { return false };
        start_of(&text) == Some(self.start) && !matches!(state_of(&text), Some('Z' | 'X'))
    }
}

/// The fields after the program's name, which stands in brackets and may hold anything, brackets and blanks included.
fn fields(stat: &str) -> Option<std::str::SplitAsciiWhitespace<'_>> {
    stat.rfind(')').map(|at| stat[at + 1..].split_ascii_whitespace())
}

fn state_of(stat: &str) -> Option<char> {
    fields(stat)?.next()?.chars().next()
}

fn start_of(stat: &str) -> Option<u64> {
    // The first field after the name is the third one.
    fields(stat)?.nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat =
            "77 (a) b (c) S 1 77 77 0 -1 4194304 1 0 0 0 1 2 3 4 20 0 1 0 9876 1 1 18446744073709551615";
        assert_eq!((start_of(stat), state_of(stat)), (Some(9876), Some('S')));
        assert_eq!(start_of("77 (a"), None);
    }

    #[test]
    fn this_process_lives_and_a_reaped_child_does_not() {
        assert!(Process::this().unwrap().is_alive());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
        assert!(!Process { start: 1, ..Process::this().unwrap() }.is_alive());
    }
}
