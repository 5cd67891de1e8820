//! The faults against the real daemon, command line and library, over the stand-in driver: processes are really killed.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Command;

/// What the check starts, and the driver.
const PACKAGES: [&str; 4] = ["cli", "daemon", "interpose", "cuda-stub"];

#[test]
fn kills_over_the_stand_in_driver() {
    let repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !Command::new("cc").arg("--version").output().is_ok_and(|answer| answer.status.success()) {
        eprintln!("not run: there is no cc on PATH");
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--manifest-path"]).arg(repo.join("Cargo.toml"));
    build.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    assert!(build.status().unwrap().success(), "the runtime does not build");

    let folder = tempfile::tempdir().unwrap();
    let check = Path::new(env!("CARGO_BIN_EXE_gpu-check"));
    let tools = check.parent().unwrap();
    std::os::unix::fs::symlink(tools.join("libcuda_stub.so"), folder.path().join("libcuda.so.1")).unwrap();
    let out = folder.path().join("out");
    let mut command = Command::new(check);
    command.args(["--dry", "--only", "faults", "--repo"]).arg(&repo).arg("--out").arg(&out);
    command.env("LD_LIBRARY_PATH", folder.path());
    // One device for all processes, on which a kernel takes its time.
    command.env("STUB_DEVICE", folder.path().join("device")).env("STUB_DURATION_US", "default=50");
    let answer = command.output().unwrap();
    let err = String::from_utf8_lossy(&answer.stderr);
    assert_eq!(answer.status.code(), Some(0), "{err}");
    let faults = std::fs::read_to_string(out.join("faults.csv")).unwrap();
    let rows: Vec<&str> = faults.lines().skip(1).collect();
    // Six clients of either kind, and three daemons.
    assert_eq!(rows.len(), 15, "{faults}");
    assert!(rows.iter().all(|row| row.contains(",true,")), "{faults}");
    assert!(err.contains("faults: left over: nothing"), "{err}");
}
