//! What every run needs of the machine: a toolchain, room and memory.

use crate::check::{Check, Needed::Always};
use crate::probe::{self, Silence};
use std::fs;
use std::path::Path;

/// The oldest version that this was built with.
const RUST: (u32, u32) = (1, 95);

/// A finished build of `artifact` and `figures` has 1.2 GB of files and some 0.4 GB for the next one.
const BUILD_BYTES: u64 = 2 << 30;

/// With all tests and what cargo keeps of earlier builds.
const COMFORT_BYTES: u64 = 9 << 30;

/// Results of all experiments, and the full MAF2 text with its archive (305,388,316 bytes).
const DATA_BYTES: u64 = 1 << 30;

/// Assumed, not measured: the largest crates of the build take about 2 GiB each while they compile.
const MEMORY_BYTES: u64 = 3 << 30;

/// All checks of this part.
pub fn checks(root: &Path) -> Vec<Check> {
    let build = root.join("target/debug/artifact").exists();
    vec![toolchain(), compiler(), git(), writable(root), disk(root, build), memory(), cores()]
}

fn toolchain() -> Check {
    const FIX: &str = "install rustup (https://rustup.rs), then `rustup toolchain install stable`; an older one: \
        `rustup update stable`";
    let versions = (probe::ask("cargo", &["--version"]), probe::ask("rustc", &["--version"]));
    let (Ok(cargo), Ok(rustc)) = versions else {
        return Check::failed("rust", Always, "there is no cargo or no rustc on PATH", FIX);
    };
    let found = format!("{}; {}", rustc.line(), cargo.line());
    match version(rustc.line()) {
        Some(version) if version >= RUST => Check::ok("rust", Always, found),
        Some(_) => Check::failed("rust", Always, format!("{found}: older than {}.{}", RUST.0, RUST.1), FIX),
        None => Check::warning("rust", Always, found, FIX),
    }
}

/// The two first numbers of the first version in a text.
pub fn version(text: &str) -> Option<(u32, u32)> {
    text.split_whitespace().find_map(|word| {
        let mut parts = word.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

fn compiler() -> Check {
    const FIX: &str = "install one: `apt-get install gcc` (Debian, Ubuntu), `dnf install gcc` (Fedora), \
        `xcode-select --install` (macOS)";
    match probe::ask("cc", &["--version"]) {
        Ok(answer) if answer.success => Check::ok("c compiler", Always, answer.line()),
        Ok(answer) => Check::failed("c compiler", Always, format!("cc failed: {}", answer.line()), FIX),
        Err(Silence::Absent) => Check::failed("c compiler", Always, "there is no cc on PATH", FIX),
        Err(Silence::Broken(why)) => Check::failed("c compiler", Always, why, FIX),
    }
}

fn git() -> Check {
    match probe::ask("git", &["--version"]) {
        Ok(answer) if answer.success => Check::ok("git", Always, answer.line()),
        _ => Check::warning(
            "git",
            Always,
            "there is no usable git on PATH, so run.toml will not name the revision",
            "install git",
        ),
    }
}

fn writable(root: &Path) -> Check {
    let results = root.join("results");
    let folder = if results.is_dir() { results } else { root.to_path_buf() };
    match tempfile::Builder::new().prefix(".doctor-").tempfile_in(&folder) {
        Ok(_) => Check::ok("writable", Always, format!("{} can be written", folder.display())),
        Err(error) => Check::failed(
            "writable",
            Always,
            format!("{} cannot be written: {error}", folder.display()),
            "make it yours, or give each `cargo xtask reproduce` a folder with --out and cargo one with \
             CARGO_TARGET_DIR",
        ),
    }
}

fn disk(root: &Path, is_built: bool) -> Check {
    let need = DATA_BYTES + if is_built { 0 } else { BUILD_BYTES };
    let path = root.to_string_lossy();
    let answer = probe::ask("df", &["-Pk", &path]);
    let free = answer.ok().filter(|a| a.success).and_then(|answer| available(&answer.out));
    let what =
        if is_built { "results and the full trace" } else { "a first build, results and the full trace" };
    let Some(free) = free else {
        return Check::warning(
            "disk",
            Always,
            format!("df does not say how much is free; {what} need {}", gib(need)),
            "see to it that as much is free",
        );
    };
    let found = format!("{} free, {what} need {}", gib(free), gib(need));
    if free >= need && (is_built || free >= COMFORT_BYTES) {
        Check::ok("disk", Always, found)
    } else if free >= need {
        Check::warning("disk", Always, format!("{found}, with all tests {}", gib(COMFORT_BYTES)), "make room")
    } else {
        Check::failed(
            "disk",
            Always,
            found,
            "make room, or move results (--out) and the build (CARGO_TARGET_DIR)",
        )
    }
}

/// The fourth column of the second line of `df -Pk`, in bytes.
fn available(text: &str) -> Option<u64> {
    let columns: Vec<&str> = text.lines().nth(1)?.split_whitespace().collect();
    // From the right, as the name of a device may hold spaces; those of the mount point come last.
    let percent = columns.iter().rposition(|column| column.ends_with('%'))?;
    columns.get(percent.checked_sub(1)?)?.parse::<u64>().ok()?.checked_mul(1024)
}

fn memory() -> Check {
    const FIX: &str = "close other programs, raise the container's limit, or build with `CARGO_BUILD_JOBS=1`";
    let Some(free) = free_memory() else {
        return Check::warning(
            "memory",
            Always,
            format!("this system does not say how much is free; a build needs {}", gib(MEMORY_BYTES)),
            FIX,
        );
    };
    let found = format!("{} available, a build needs about {}", gib(free), gib(MEMORY_BYTES));
    if free >= MEMORY_BYTES {
        Check::ok("memory", Always, found)
    } else {
        Check::warning("memory", Always, found, FIX)
    }
}

/// What the system can give, or the container may still take.
fn free_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let system = kilobytes(&meminfo, "MemAvailable:")?;
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok()?.trim().parse().ok()
    };
    let group = number("memory.max").map(|max| max.saturating_sub(number("memory.current").unwrap_or(0)));
    Some(group.map_or(system, |group| group.min(system)))
}

fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn cores() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    let model = model.map_or("processor unknown", |(_, model)| model.trim());
    let found = format!("{cores} usable ({model})");
    if cores >= 2 {
        Check::ok("cores", Always, found)
    } else {
        Check::warning("cores", Always, found, "all stated times are for 2 cores; expect twice as long")
    }
}

/// Bytes for people.
pub fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_answers() {
        assert_eq!(version("rustc 1.95.0 (59807616e 2026-04-14)"), Some((1, 95)));
        assert_eq!(version("rustc 1.96.0-nightly (x)"), Some((1, 96)));
        assert_eq!(version("error: no toolchain"), None);
    }

    #[test]
    fn the_answer_of_df_is_read_from_the_right() {
        let text =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a b 100 40 60 40% /my disk\n";
        assert_eq!(available(text), Some(60 * 1024));
        assert_eq!(available("Filesystem\n"), None);
        assert_eq!(available("x\n100%\n"), None);
    }

    #[test]
    fn meminfo_is_in_kilobytes() {
        assert_eq!(kilobytes("MemTotal: 9 kB\nMemAvailable:   2048 kB\n", "MemAvailable:"), Some(2 << 20));
    }
}
