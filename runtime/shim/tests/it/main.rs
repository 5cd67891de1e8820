//! The shim in C programs, over a driver made from the hook list.

#[path = "../../../interpose/tests/it/build.rs"]
#[allow(dead_code, reason = "these tests need a part of it")]
mod build;

use build::Folder;
use hooks::HOOKS;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// The file that holds the names, for the test that compares it with what is exported.
const NAMES: &str = include_str!("../../src/names.rs");

fn shim() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let library = test.parent().expect("it is in a folder").join("libtally_shim.so");
    assert!(library.is_file(), "{} is missing: run this test through cargo", library.display());
    library
}

/// Runs a program with the shim under the driver's name, and the driver elsewhere.
fn run(folder: &Folder, program: &PathBuf, state: Option<&str>) -> Output {
    let search = folder.path().join("shim");
    if !search.exists() {
        fs::create_dir(&search).expect("a folder");
        fs::copy(shim(), search.join("libcuda.so.1")).expect("a copy");
        fs::copy(folder.path().join("libcuda.so.1"), folder.path().join("real.so")).expect("a copy");
    }
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", &search).env("TALLY_DRIVER", folder.path().join("real.so"));
    match state {
        Some(socket) => command.env("TALLY_SOCKET", socket).env("TALLY_START_LIMIT_MS", "100"),
        None => command.env_remove("TALLY_SOCKET"),
    };
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {text}", output.status);
    output
}

const STATES: [Option<&str>; 2] = [None, Some("/nonexistent/socket")];

#[test]
fn the_shim_exports_every_name_and_nothing_else() {
    let output =
        Command::new("nm").args(["-D", "--defined-only"]).arg(shim()).output().expect("nm is installed");
    let text = String::from_utf8(output.stdout).expect("symbols are ASCII");
    let exported: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let names = NAMES.lines().filter(|line| line.starts_with("        cu")).flat_map(str::split_whitespace);
    let expected: BTreeSet<_> =
        names.chain(HOOKS.iter().map(|entry| entry.name)).chain(["dlsym", "dlvsym"]).collect();
    assert_eq!(exported, expected);
    assert!(exported.len() > 700, "cuda.h has more functions than {}", exported.len());
}

#[test]
fn the_shim_has_the_name_of_the_driver() {
    let output =
        Command::new("readelf").args(["-d", "-W"]).arg(shim()).output().expect("readelf is installed");
    let text = String::from_utf8(output.stdout).expect("readelf prints ASCII");
    assert!(text.lines().any(|line| line.contains("(SONAME)") && line.contains("[libcuda.so.1]")), "{text}");
}

/// Wrapped symbols lead to the shim's wrappers, others to its own functions, and cuGetProcAddress gives the driver's.
#[test]
fn every_way_leads_to_the_shim() {
    let folder = Folder::new();
    let program = folder.linked("ways", &[]);
    for state in STATES {
        let output = run(&folder, &program, state);
        let text = std::str::from_utf8(&output.stdout).expect("programs print ASCII");
        for line in text.lines() {
            let [way, symbol, file, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let expected = match (way, symbol) {
                // The shim's symbols have no versions, like the real driver's.
                ("dlvsym", _) | (_, "cudnnCreate") => ("-", "-"),
                ("ask", "cuInit" | "cuGraphLaunch_v9") => ("real.so", symbol),
                (_, symbol) => ("libcuda.so.1", symbol),
            };
            assert_eq!((file, name), expected, "{way} {symbol}");
        }
        assert!(text.lines().count() > 6 * HOOKS.len() + 4);
    }
}

#[test]
fn arguments_in_registers_and_on_the_stack_arrive() {
    let folder = Folder::new();
    let program = folder.linked("trampolines", &[]);
    for state in STATES {
        run(&folder, &program, state);
    }
}

/// Programs over the stub driver do the same through the shim as without it.
#[test]
fn programs_do_the_same_through_the_shim() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::copy(shim(), folder.path().join("libcuda.so.1")).expect("a copy");
    let programs: [(&str, &[&str]); 6] = [
        ("launches", &["direct"]),
        ("launches", &["getproc_v2"]),
        ("attributes", &[]),
        ("capture", &["--launches", "50", "--replays", "5"]),
        ("exporttable", &[]),
        ("init8", &[]),
    ];
    for (name, arguments) in programs {
        let bare = stub::command(name).args(arguments).output().expect("the program starts");
        for state in STATES {
            let mut command = stub::command(name);
            command.args(arguments).env("LD_LIBRARY_PATH", folder.path());
            command.env("TALLY_DRIVER", stub::library_folder().join("libcuda.so.1"));
            match state {
                Some(socket) => command.env("TALLY_SOCKET", socket).env("TALLY_START_LIMIT_MS", "100"),
                None => command.env_remove("TALLY_SOCKET"),
            };
            let output = command.output().expect("the program starts");
            let context =
                format!("{name} {arguments:?} {state:?}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!((output.status, output.stdout), (bare.status, bare.stdout.clone()), "{context}");
        }
    }
}
