//! No program is started from a string that a shell takes apart: arguments stay apart from each other, whatever is in them.

use std::fs;
use std::path::{Path, PathBuf};

/// What gives a string to a shell, or to an interpreter.
const SIGNS: [(&str, &str); 11] = [
    ("rs", "Command::new(\"sh\")"),
    ("rs", "Command::new(\"bash\")"),
    ("rs", "cmd!(\"sh\""),
    ("rs", "cmd!(\"bash\""),
    ("rs", "ask(\"sh\""),
    ("rs", "\"/bin/sh\""),
    ("rs", "\"/bin/bash\""),
    ("py", "os.system("),
    ("py", "os.popen("),
    ("py", "shell=True"),
    ("py", "getoutput("),
];

/// Where that is right, and why.
const ALLOWED: [(&str, &str, &str); 2] = [
    (
        "traces/tests/memory.rs",
        "Command::new(\"sh\")",
        "only a shell has ulimit; the rest comes as arguments",
    ),
    (
        "xtask/src/child.rs",
        "\"/bin/sh\"",
        "slim images have `kill` in the shell only; the signal and the process come as arguments",
    ),
];

#[test]
fn programs_are_started_with_lists_of_arguments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut problems, mut used, mut seen) = (Vec::new(), Vec::new(), 0);
    for path in sources(root) {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
        if name == "xtask/tests/subprocesses.rs" {
            continue;
        }
        seen += 1;
        let text = fs::read_to_string(&path).unwrap();
        let extension = path.extension().unwrap_or_default();
        for (_, sign) in SIGNS.iter().filter(|(kind, sign)| extension == *kind && text.contains(sign)) {
            match ALLOWED.iter().position(|(file, allowed, _)| *file == name && allowed == sign) {
                Some(index) => used.push(index),
                None => problems.push(format!("{name}: {sign}")),
            }
        }
    }
    assert!(problems.is_empty(), "a program is started from a string:\n{}", problems.join("\n"));
    assert!(seen > 100, "{seen} sources are not all");
    for (index, (file, sign, _)) in ALLOWED.iter().enumerate() {
        assert!(used.contains(&index), "{file} has no {sign} any more; take it off the list");
    }
}

/// All Rust and Python files of the repository.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.') && !["target", "results", "full"].contains(&name.as_str()) {
                found.extend(sources(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            found.push(path);
        }
    }
    found
}
