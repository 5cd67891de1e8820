//! `workloads check`: every definition and profile, and our definitions beside upstream's.

use super::say;
use crate::root::Root;
use anyhow::{Context, Result, bail};
use duct::cmd;
use std::fmt::Write as _;
use std::path::Path;
use workloads::against::{Compared, compare};
use workloads::{ProfileSet, definition, profile};

/// Reads all definitions and profiles, and compares with upstream's configuration files if asked to.
///
/// # Errors
/// Anything that is wrong in our files, by name; files of upstream's that cannot be read.
pub fn check(flags: &flags::WorkloadsCheck) -> Result<u8> {
    let root = Root::find()?;
    let all = definition::load_all(&root.workloads())?;
    for id in all.keys() {
        for set in [ProfileSet::Stock, ProfileSet::Artifact] {
            profile::load_set(&root.workloads(), "h200", set, id)?;
        }
    }
    let mut text = format!("{} workloads: definitions and h200 profiles are right\n", all.len());
    let Some(against) = &flags.against else {
        say(&text);
        return Ok(0);
    };
    let rows = compare(
        &all,
        &upstream(against, "python/configs/train_config.py")?,
        &upstream(against, "python/configs/infer_config.py")?,
    );
    let differ = rows.iter().filter(|row| !row.same()).count();
    for row in &rows {
        let mark = if row.same() { "same" } else { "DIFFERS" };
        let Compared { id, what, ours, upstream } = row;
        let upstream = upstream.as_deref().unwrap_or("not found");
        let _ = writeln!(text, "  {id:22} {what:16} ours {ours:8} upstream {upstream:10} {mark}");
    }
    let _ = writeln!(text, "{} properties compared, {differ} differ", rows.len());
    say(&text);
    Ok(u8::from(differ > 0))
}

/// One file of upstream's sources, from a folder or from the archive that `cargo xtask fetch tally-bench` makes.
fn upstream(place: &Path, name: &str) -> Result<String> {
    if place.is_dir() {
        let path = place.join(name);
        return bounded::text(&path, bounded::DEFINITION)
            .with_context(|| format!("{} does not look like a copy of tally-bench", place.display()));
    }
    if !place.is_file() {
        bail!(
            "there is no {}: `cargo xtask fetch tally-bench` makes fetched/tally-bench-aaa359a.tar",
            place.display()
        );
    }
    // Written to a pipe, so that an archive cannot write anywhere.
    let pattern = format!("*{name}");
    cmd!("tar", "--extract", "--to-stdout", "--wildcards", "--file", place, pattern)
        .stderr_capture()
        .read()
        .with_context(|| format!("{} has no {name}, or is no archive that tar can read", place.display()))
}
