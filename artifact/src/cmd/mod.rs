//! The verbs of the binary, one file each.

pub mod bench;
pub mod compare;
pub mod fidelity;
pub mod reproduce;
pub mod seal;
pub mod verify;
pub mod workloads;

use std::io::Write;

/// The exit code of a run that went through and in which some cells failed. xtask knows it too.
pub const CELLS_FAILED: u8 = 3;

/// Text on stdout; a reader that has gone away is no reason to stop.
pub fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
