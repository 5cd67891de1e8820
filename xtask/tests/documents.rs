//! Every command of README.md and ARTIFACT.md: each must be one that this version understands, and the cheap ones are run.
//!
//! A command is a line of a block fenced with `sh`, or inline code that begins with `cargo`. What cannot be run here has a
//! comment with its reason on the line before the block: `<!-- not run: needs a GPU -->`. Those are counted and told.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The documents, and whether there must be one.
const DOCUMENTS: [(&str, bool); 2] = [("README.md", true), ("ARTIFACT.md", true)];

const NOT_RUN: &str = "<!-- not run:";

/// Fences of other languages hold no commands; a shell under another name would hide some.
const SHELLS: [&str; 5] = ["bash", "shell", "console", "zsh", "shell-session"];

/// Of cargo itself; every other subcommand is `xtask`.
const OF_CARGO: [&str; 5] = ["test", "build", "fmt", "clippy", "run"];

#[derive(Debug, PartialEq)]
struct Found {
    line: usize,
    words: Vec<String>,
    /// Why it is not run.
    excused: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// A line that cargo shows of a test that passes, too.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The commands of a document, in its order.
fn commands(text: &str) -> Result<Vec<Found>, String> {
    let mut found = Vec::new();
    // The language of the block that a line is in.
    let mut fence: Option<String> = None;
    let mut excuse: Option<String> = None;
    let mut unfinished = String::new();
    for (index, line) in text.lines().enumerate() {
        let (number, line) = (index + 1, line.trim());
        if let Some(language) = line.strip_prefix("```") {
            if fence.take().is_none() {
                if SHELLS.contains(&language) {
                    return Err(format!("line {number}: a block of `{language}`; name it `sh`"));
                }
                fence = Some(language.to_owned());
            } else {
                excuse = None;
            }
            continue;
        }
        match fence.as_deref() {
            Some("sh") => {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                if let Some(beginning) = line.strip_suffix('\\') {
                    unfinished += beginning;
                    continue;
                }
                let whole = std::mem::take(&mut unfinished) + line;
                for part in whole.split("&&") {
                    let words = words(part).map_err(|why| format!("line {number}: {why}"))?;
                    if !words.is_empty() {
                        found.push(Found { line: number, words, excused: excuse.clone() });
                    }
                }
            }
            Some(_) => {}
            None => {
                if let Some(rest) = line.strip_prefix(NOT_RUN) {
                    let reason = rest.trim_end_matches("-->").trim();
                    if reason.is_empty() {
                        return Err(format!("line {number}: say why it is not run"));
                    }
                    excuse = Some(reason.to_owned());
                } else if !line.is_empty() {
                    excuse = None;
                }
                for code in line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("cargo ")) {
                    let words = words(code).map_err(|why| format!("line {number}: {why}"))?;
                    found.push(Found { line: number, words, excused: None });
                }
            }
        }
    }
    if fence.is_some() { Err("a fenced block is not closed".to_owned()) } else { Ok(found) }
}

/// Splits at spaces, keeps what is in quotes together, drops a comment.
fn words(command: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') if word.is_empty() => break,
            (None, ' ') if word.is_empty() => {}
            (None, ' ') => words.push(std::mem::take(&mut word)),
            (None, c) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err(format!("`{command}` has an open quote"));
    }
    words.extend((!word.is_empty()).then_some(word));
    Ok(words)
}

/// Why a command is not right.
fn problem(found: &Found) -> Option<String> {
    let words: Vec<&str> = found.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cargo", "xtask", arguments @ ..] => parse(arguments).err(),
        ["cargo", subcommand, ..] if OF_CARGO.contains(subcommand) => None,
        [".ci/run"] | ["bash", ".ci/run"] => None,
        _ if found.excused.is_some() => None,
        _ => Some(format!("nothing runs it; put `{NOT_RUN} REASON -->` on the line before its block")),
    }
}

/// Whether xtask understands these arguments: parsed in front of `--help`, which wins only when nothing before it is
/// wrong.
fn parse(arguments: &[&str]) -> Result<(), String> {
    let xtask = || Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = xtask().args(arguments).arg("--help").output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned());
    }
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed: BTreeSet<&str> = help.split(|c: char| c.is_whitespace() || c == ',' || c == '=').collect();
    let flags = arguments.iter().filter(|argument| argument.starts_with("--"));
    match flags.map(|flag| flag.split('=').next().unwrap_or(flag)).find(|flag| !listed.contains(flag)) {
        Some(flag) => Err(format!("the help of the verb does not list {flag}")),
        None => Ok(()),
    }
}

/// What takes seconds once the quick run is there, needs no network and no GPU, and writes nothing but results.
fn is_cheap(found: &Found) -> bool {
    let words: Vec<&str> = found.words.iter().map(String::as_str).collect();
    let ["cargo", "xtask", arguments @ ..] = words.as_slice() else { return false };
    let is_placeholder = |word: &&str| word.contains('<') || word.chars().all(|c| c.is_ascii_uppercase());
    if found.excused.is_some() || arguments.iter().any(is_placeholder) {
        return false;
    }
    let has = |flag| arguments.contains(&flag);
    match arguments.first() {
        Some(&("doctor" | "figure" | "table" | "report" | "compare")) => true,
        Some(&"verify") => !has("--update-golden"),
        // A measurement is neither cheap nor possible everywhere.
        Some(&"reproduce") if arguments.windows(2).any(|two| two == ["--backend", "gpu"]) => false,
        Some(&"reproduce") => has("--list") || has("--quick"),
        _ => has("--list") || has("--help"),
    }
}

/// All commands of the documents there are.
fn all() -> Vec<(String, Vec<Found>)> {
    let mut all = Vec::new();
    for (name, is_needed) in DOCUMENTS {
        match fs::read_to_string(root().join(name)) {
            Ok(text) => {
                all.push((name.to_owned(), commands(&text).unwrap_or_else(|why| panic!("{name}, {why}"))))
            }
            Err(error) if is_needed => panic!("{name} cannot be read: {error}"),
            Err(_) => tell(&format!("there is no {name} to check")),
        }
    }
    all
}

#[test]
fn every_command_is_understood() {
    let mut problems = Vec::new();
    for (name, commands) in all() {
        assert!(!commands.is_empty(), "{name} has no command");
        for found in &commands {
            let shown = found.words.join(" ");
            problems
                .extend(problem(found).map(|why| format!("{name}, line {}: `{shown}`: {why}", found.line)));
        }
        let excused: Vec<&Found> = commands.iter().filter(|found| found.excused.is_some()).collect();
        tell(&format!("{name}: {} commands, {} of them not run", commands.len(), excused.len()));
        for found in excused {
            let reason = found.excused.as_deref().unwrap_or_default();
            tell(&format!("  line {}: `{}`: {reason}", found.line, found.words.join(" ")));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
#[ignore = "needs the build and the quick run: a step of .ci/run"]
fn cheap_commands_run() {
    let mut ran = BTreeSet::new();
    for (name, commands) in all() {
        for found in commands.iter().filter(|found| is_cheap(found)) {
            if !ran.insert(found.words.clone()) {
                continue;
            }
            let shown = found.words.join(" ");
            tell(&format!("{name}, line {}: {shown}", found.line));
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
            let output = Command::new(cargo).args(&found.words[1..]).current_dir(root()).output().unwrap();
            assert!(output.status.success(), "{name}, line {}: `{shown}`: {output:#?}", found.line);
        }
    }
    assert!(!ran.is_empty(), "no command was cheap");
    tell(&format!("{} commands of the documents were run", ran.len()));
}

#[test]
fn commands_are_found_and_judged() {
    let text = "\
Use `cargo xtask reproduce --quick` or `results/x`, never `cargo xtask reproduce --quik`.
<!-- not run: the test is in a clone -->
```sh
$ git clone x && cd x   # once
```
```sh
cargo xtask reproduce \\
    --experiment 'fig5'
cargo xtask figure fig5 --partial
make
```
```toml
cargo = \"not a command\"
```
";
    let found = commands(text).unwrap();
    let shown: Vec<(usize, String, bool, bool)> = found
        .iter()
        .map(|f| (f.line, f.words.join(" "), f.excused.is_some(), problem(f).is_some()))
        .collect();
    let expected = [
        (1, "cargo xtask reproduce --quick", false, false),
        (1, "cargo xtask reproduce --quik", false, true),
        (4, "git clone x", true, false),
        (4, "cd x", true, false),
        (8, "cargo xtask reproduce --experiment fig5", false, false),
        (9, "cargo xtask figure fig5 --partial", false, false),
        (10, "make", false, true),
    ];
    assert_eq!(shown, expected.map(|(line, text, excused, wrong)| (line, text.to_owned(), excused, wrong)));
    assert!(problem(&found[1]).unwrap().contains("'--quik'"));
    let cheap: Vec<usize> = (0..found.len()).filter(|i| is_cheap(&found[*i])).collect();
    assert_eq!(cheap, [0, 5]);
    for (bad, expected) in [
        ("```bash\nx\n```", "name it `sh`"),
        ("```sh\nx", "not closed"),
        ("```sh\nx 'y\n```", "open quote"),
        ("<!-- not run: -->", "say why"),
    ] {
        assert!(commands(bad).unwrap_err().contains(expected), "{bad}");
    }
}

#[test]
fn wrong_values_are_wrong_too() {
    assert!(parse(&["reproduce", "--backend", "tpu"]).unwrap_err().contains("'tpu'"));
    assert!(parse(&["repro"]).is_err());
    assert!(parse(&["compare", "A", "B", "--csv", "x.csv"]).is_ok());
    assert!(parse(&["doctor", "--bundle", "report.tar"]).is_ok());
}
