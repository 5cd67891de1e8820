//! `artifact bench`: the simulator's speed on this machine, for each system.

use super::say;
use crate::bench::{self, PAIRS};
use crate::library::{Library, RECORDED_ON};
use crate::root::Root;
use crate::{files, plan};
use anyhow::{Context, Result, ensure};
use flags::Bench;
use sim::System;

/// Runs the verb.
///
/// # Errors
/// An unknown system, a profile that is missing or bad, a pair that cannot be simulated, or a file that cannot be written.
pub fn run(flags: &Bench) -> Result<u8> {
    let systems: Vec<&str> = match flags.systems.as_slice() {
        [] => System::names().collect(),
        some => some.iter().map(String::as_str).collect(),
    };
    for (i, system) in systems.iter().enumerate() {
        System::parse(system)?;
        ensure!(!systems[..i].contains(system), "--system {system} is given twice");
    }
    let root = Root::find()?;
    let ids = PAIRS.iter().flat_map(|(inference, training)| [*inference, *training]);
    let library = Library::load(&root, RECORDED_ON, ids)?;
    let cost = |system: &str| flags.seconds as f64 * PAIRS.len() as f64 / plan::rate(system);
    let progress = crate::progress::Progress::new(systems.len(), systems.iter().map(|s| cost(s)).sum());
    let mut results = Vec::new();
    for system in systems {
        results.push(bench::time(system, &PAIRS, flags.seconds, &library)?);
        progress.finish(system, cost(system), false);
    }
    say(&bench::table(&results, flags.seconds));
    if let Some(path) = &flags.json {
        let text = serde_json::to_string_pretty(&results).context("cannot write the results as JSON")? + "\n";
        files::write_atomically(path, text.as_bytes())?;
        say(&format!("every pair: {}\n", path.display()));
    }
    Ok(0)
}
