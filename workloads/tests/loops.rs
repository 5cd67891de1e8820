//! The Python tests of the loops that drive every program; they need Python, and no torch.

use std::path::Path;
use std::process::Command;

/// `enterContext` of its test library.
const PYTHON: &str = "import sys; sys.exit(sys.version_info < (3, 11))";

#[test]
fn loops_and_commands() {
    if !Command::new("python3").args(["-c", PYTHON]).output().is_ok_and(|answer| answer.status.success()) {
        eprintln!("not run: there is no python3 of 3.11 or newer on PATH");
        return;
    }
    let answer = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "--start-directory"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success() && err.contains("OK") && !err.contains("Ran 0 tests"), "{err}");
}
