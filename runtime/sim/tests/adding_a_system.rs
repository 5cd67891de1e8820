//! The example of docs/ADDING-A-SYSTEM.md: its file and its line, applied to a copy of the crates, are all that a new
//! system takes to build and run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the simulator needs of the workspace.
const CRATES: [&str; 3] = ["bounded", "runtime/sched", "runtime/sim"];
const NEW_FILE: &str = "runtime/sched/src/polite.rs";
const LIST: &str = "runtime/sched/src/lib.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of the first block in this language.
fn block(document: &str, language: &str) -> String {
    let fence = format!("```{language}");
    let lines = document.lines().skip_while(|line| *line != fence).skip(1);
    lines.take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect()
}

/// Applies a hunk without line numbers.
fn patched(text: &str, hunk: &str) -> String {
    let side = |other: char| -> String {
        let lines = hunk.lines().filter(|line| !line.starts_with(other));
        lines.flat_map(|line| [&line[1..], "\n"]).collect()
    };
    let (old, new) = (side('+'), side('-'));
    assert_eq!(text.matches(&old).count(), 1, "{LIST} has these lines once:\n{old}");
    text.replace(&old, &new)
}

/// The sources of the crates by path in the repository, tests of theirs apart.
fn sources(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = CRATES.map(str::to_owned).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            let is_file = entry.file_type().unwrap().is_file();
            if is_file && (path.ends_with(".rs") || path.ends_with(".toml")) {
                files.insert(path, fs::read_to_string(entry.path()).unwrap());
            } else if !is_file && !path.ends_with("/tests") {
                folders.push(path);
            }
        }
    }
    files
}

/// The workspace with these crates only, and without its profiles: one cell does not need an optimiser.
fn manifest(text: &str) -> String {
    let (before, rest) = text.split_once("members = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    let (after, _) = after.split_once("[profile.").unwrap();
    format!("{before}members = {CRATES:?}{after}")
}

/// Writes what differs, so that an earlier build of the copy is used.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).ok().as_deref() != Some(text) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn the_example_needs_one_file_and_one_line() {
    let document = fs::read_to_string(root().join("docs/ADDING-A-SYSTEM.md")).unwrap();
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adding-a-system");
    let before = sources(&root());
    let patched = patched(&before[LIST], &block(&document, "diff"));
    for (path, text) in &before {
        write(&copy.join(path), if path == LIST { &patched } else { text });
    }
    // Left from a build of an earlier version.
    for path in sources(&copy).keys().filter(|path| !before.contains_key(*path) && *path != NEW_FILE) {
        fs::remove_file(copy.join(path)).unwrap();
    }
    for file in ["Cargo.toml", "Cargo.lock", "machines/h200.toml"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        write(&copy.join(file), &if file == "Cargo.toml" { manifest(&text) } else { text });
    }

    write(&copy.join(NEW_FILE), &block(&document, "rust"));

    let after = sources(&copy);
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<BTreeSet<_>>();
    let new: Vec<_> = names(&after).difference(&names(&before)).cloned().collect();
    assert_eq!(new, [NEW_FILE]);
    let changed: Vec<_> = before.iter().filter(|(path, text)| after[*path] != **text).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    let (old, new): (Vec<_>, Vec<_>) = (before[LIST].lines().collect(), after[LIST].lines().collect());
    let added: Vec<_> = new.iter().filter(|line| !old.contains(*line)).collect();
    assert_eq!((new.len(), added), (old.len() + 1, vec![&"    polite,"]));

    let answer = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--offline", "--package", "sim", "--example", "cell", "--"])
        .args(["mps-priority", "polite", "polite:wait_us=0"])
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .current_dir(&copy)
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8_lossy(&answer.stdout), String::from_utf8_lossy(&answer.stderr));
    assert!(answer.status.success(), "{error}");
    let p99 = |system: &str| -> f64 {
        let line = out.lines().find_map(|l| l.strip_prefix(&format!("{system}: p99 ")));
        line.and_then(|l| l.split(' ').next())
            .unwrap_or_else(|| panic!("no {system} in:\n{out}"))
            .parse()
            .unwrap()
    };
    // It does what it says: a request waits for the rest of one kernel at most.
    assert!(p99("polite") < p99("mps-priority"), "{out}");
    assert!(p99("polite:wait_us=0") < p99("mps-priority"), "{out}");
}
