//! `cargo xtask fidelity`: the simulator beside published and measured numbers, and what the conclusions owe to guesses.

use crate::binaries::{Binaries, PAIRS, draw, typed};
use crate::reproduce::{CELLS_FAILED, say};
use anyhow::Result;
use std::ffi::OsString;

/// Around everything that the verb prints, as in `reproduce`.
const BANNER: &str = "SIMULATED: fidelity compares simulated numbers with published and measured ones";

/// Runs the verb: the comparison, then its figure.
///
/// # Errors
/// A binary cannot be started.
pub fn run(flags: &flags::Fidelity) -> Result<u8> {
    say(BANNER);
    let code = compare(flags);
    say(BANNER);
    code
}

fn compare(flags: &flags::Fidelity) -> Result<u8> {
    let binaries = match Binaries::build()? {
        Ok(binaries) => binaries,
        Err(code) => return Ok(code),
    };
    let arguments: Vec<_> = [OsString::from("fidelity")].into_iter().chain(typed()).collect();
    let compared = binaries.run("artifact", &arguments)?;
    let folder = flags.folder();
    if flags.list || !matches!(compared, 0 | CELLS_FAILED) || !folder.join(PAIRS).is_file() {
        return Ok(compared);
    }
    let drawn = draw(&binaries, &folder, &["fidelity"], false)?;
    Ok(if compared == 0 { drawn } else { compared })
}
