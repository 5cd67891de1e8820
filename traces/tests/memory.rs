//! A trace as large as the real one is read in little memory.
//!
//! The test starts itself once more under `ulimit -v`, so that what cargo and the test harness use doesn't count.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use traces::maf2;
use traces::rng::{Use, below, generator};

const ROWS: u64 = 2_000_000;
const FUNCTIONS: u64 = 424;
/// Every so many rows one is written twice.
const REPEAT_EVERY: u64 = 100_000;
/// Limit of the address space, as `ulimit -v` takes it (KiB).
const LIMIT_KIB: u64 = 600_000;
/// Limit of the memory really used, in KiB.
const PEAK_KIB: u64 = 300 * 1024;
const CHILD: &str = "TRACES_MEMORY_TEST_FILE";

#[test]
fn two_million_rows_need_less_than_300_mib() {
    if let Some(path) = std::env::var_os(CHILD) {
        return child(Path::new(&path));
    }
    let file =
        Scratch(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("maf2-{}.csv", std::process::id())));
    generate(&file.0);
    let status = Command::new("sh")
        .args(["-c", &format!("ulimit -v {LIMIT_KIB} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "two_million_rows_need_less_than_300_mib", "--nocapture", "--test-threads=1"])
        .env(CHILD, &file.0)
        .status()
        .unwrap();
    assert!(status.success(), "the reader failed under ulimit -v {LIMIT_KIB}: {status}");
}

fn child(path: &Path) {
    let trace = maf2::read_path(path).unwrap();
    let report = &trace.report;
    assert_eq!((report.rows, report.kept, report.functions), (ROWS, ROWS, FUNCTIONS as usize));
    assert_eq!(report.exact_repeats, ROWS / REPEAT_EVERY);
    assert!(report.bytes > 290_000_000, "{} bytes are less than the real text has", report.bytes);
    assert!(trace.functions.iter().all(|f| f.starts_ns.is_sorted()));
    let peak = peak_kib();
    println!("peak {} MiB for {} MB of text", peak / 1024, report.bytes / 1_000_000);
    assert!(peak < PEAK_KIB, "peak of {peak} KiB");
}

/// Most memory this process ever had resident.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Writes a file like the real one: ids of 64 hex digits, ends with many digits, rows not in order of their ends.
fn generate(path: &Path) {
    let mut rng = generator(2021, Use::Poisson);
    let id = |rng: &mut _| (0..4).map(|_| format!("{:016x}", below(rng, u64::MAX))).collect::<String>();
    let apps: Vec<String> = (0..119).map(|_| id(&mut rng)).collect();
    let ids: Vec<String> =
        (0..FUNCTIONS as usize).map(|i| format!("{},{},", apps[i % 119], id(&mut rng))).collect();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    writeln!(out, "app,func,end_timestamp,duration").unwrap();
    let mut row = String::new();
    for i in 0..ROWS {
        if i % REPEAT_EVERY != 1 {
            // A few functions have most of the rows. Each is named once at the beginning.
            let most = below(&mut rng, FUNCTIONS) + 1;
            let function = if i < 2 * FUNCTIONS { i / 2 } else { below(&mut rng, most) };
            let duration_ms = below(&mut rng, 400_000);
            // Unique down to the row, so that only the planned repeats are any.
            let end_ns = i * 604_800 + duration_ms * 1_000_000;
            let (s, ns) = (end_ns / 1_000_000_000, end_ns % 1_000_000_000);
            let (ds, dms) = (duration_ms / 1000, duration_ms % 1000);
            row = format!("{}{s}.{ns:09}{:04},{ds}.{dms:03}\n", ids[function as usize], i % 5000);
        }
        out.write_all(row.as_bytes()).unwrap();
    }
    out.flush().unwrap();
}

/// A file that is removed whatever happens.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
