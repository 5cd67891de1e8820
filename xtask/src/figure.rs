//! `cargo xtask figure`: draws one figure from a run folder.

use crate::binaries::draw;
use anyhow::Result;

/// Runs the verb.
///
/// # Errors
/// A binary cannot be started.
pub fn run(flags: &flags::Figure) -> Result<u8> {
    draw("figure", flags.list, flags.run.as_deref())
}
