//! `cargo xtask gpu-check` and `cargo xtask selftest`: the runtime on a GPU, by the binary `gpu-check`.

use crate::binaries::{Binaries, typed};
use anyhow::Result;
use std::ffi::OsString;
use std::path::Path;

/// Runs `gpu-check`.
///
/// # Errors
/// A binary cannot be started.
pub fn run(flags: &flags::GpuCheck) -> Result<u8> {
    // What only reads files must not wait for the runtime to be compiled.
    let alone = flags.age || flags.record || flags.list;
    start(if alone { Binaries::build_check()? } else { Binaries::build_runtime()? }, typed())
}

/// Runs `selftest`.
///
/// # Errors
/// A binary cannot be started.
pub fn selftest(flags: &flags::Selftest) -> Result<u8> {
    start(Binaries::build_runtime()?, flags.arguments())
}

fn start(binaries: Result<Binaries, u8>, flags: Vec<OsString>) -> Result<u8> {
    let binaries = match binaries {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    // The user's own --repo comes later and counts.
    let ours: [OsString; 2] = ["--repo".into(), repository.into()];
    let arguments: Vec<OsString> = ours.into_iter().chain(flags).collect();
    binaries.run("gpu-check", &arguments)
}
