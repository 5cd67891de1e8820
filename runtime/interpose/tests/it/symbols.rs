//! What the library exports.

use crate::build::interposer;
use hooks::HOOKS;
use std::collections::BTreeSet;
use std::process::Command;

/// Exactly the wrapped symbols and the two look-ups: anything else could get into a program's way.
#[test]
fn the_library_exports_what_it_wraps_and_nothing_else() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(interposer())
        .output()
        .expect("nm is installed");
    let text = String::from_utf8(output.stdout).expect("symbols are ASCII");
    let exported: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let wrapped: BTreeSet<_> = HOOKS.iter().map(|entry| entry.name).chain(["dlsym", "dlvsym"]).collect();
    assert_eq!(exported, wrapped);
}

/// Nothing of ours runs when the library is loaded.
#[test]
fn the_library_has_no_constructors() {
    let output =
        Command::new("readelf").args(["-d", "-W"]).arg(interposer()).output().expect("readelf is installed");
    let text = String::from_utf8(output.stdout).expect("readelf prints ASCII");
    let bytes = |tag: &str| {
        let line = text.lines().find(|line| line.contains(tag))?;
        line.split_whitespace().nth(2)?.parse::<usize>().ok()
    };
    // Two functions: the compiler's frame_dummy, and the standard library's, which remembers the arguments of main.
    assert!(bytes("(INIT_ARRAYSZ)").unwrap_or(0) <= 16, "{text}");
}
