//! `artifact seal`: renews `SHA256SUMS` after figures or tables were drawn.

use crate::sums;
use anyhow::{Result, anyhow};
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// There is no run folder, or it cannot be read or written.
pub fn run(folder: Option<&Path>) -> Result<u8> {
    let folder = flags::run_folder(folder).map_err(|message| anyhow!(message))?;
    sums::write(&folder)?;
    Ok(0)
}
