//! `cargo xtask table`: writes one table from a run folder.

use crate::binaries::draw;
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run(flags: &flags::Table) -> Result<u8> {
    draw("table", flags.list, flags.run.as_deref())
}
