//! What C programs see with the library preloaded.

use crate::build::{Folder, interposer};
use hooks::{HOOKS, Hook};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Both states: the wrappers pass everything on, or go through the admission.
const STATES: [Option<&str>; 2] = [None, Some("/nonexistent/socket")];

fn command(folder: &Folder, program: &Path, preload: &[&Path], state: Option<&str>) -> Command {
    let mut command = Command::new(program);
    let libraries: Vec<_> = preload.iter().map(|path| path.as_os_str().to_owned()).collect();
    command.env("LD_LIBRARY_PATH", folder.path()).env("LD_PRELOAD", libraries.join(&OsString::from(":")));
    match state {
        Some(socket) => command.env("TALLY_SOCKET", socket).env("TALLY_START_LIMIT_MS", "100"),
        None => command.env_remove("TALLY_SOCKET"),
    };
    command
}

fn run(mut command: Command) -> Output {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {text}", output.status);
    output
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("programs print ASCII")
}

/// Case C04: every wrapped symbol in every way of finding it; case C03: with exactly the driver's choice of variant.
#[test]
fn every_way_leads_to_the_wrapper_of_the_same_variant() {
    let folder = Folder::new();
    let program = folder.linked("ways", &[]);
    for state in STATES {
        let output = run(command(&folder, &program, &[&interposer()], state));
        let mut seen = 0;
        for line in stdout(&output).lines() {
            let [way, symbol, file, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let expected = match symbol {
                // Not wrapped; and a form that the list doesn't know, of a name that it knows.
                "cuInit" | "cuGraphLaunch_v9" => ("libcuda.so.1", symbol),
                "cudnnCreate" => ("-", "-"),
                symbol => ("libtally_interpose.so", symbol),
            };
            assert_eq!((file, name), expected, "{way} {symbol}");
            seen += 1;
        }
        // Each symbol in six ways, the four that aren't wrapped, and the answers to other versions.
        assert!(seen > 6 * Hook::COUNT + 4 + 1000, "{seen}");
    }
}

/// A driver may answer with functions that it doesn't export: name, version and flags say which is meant.
#[test]
fn answers_that_are_no_exports_are_wrapped_by_what_they_mean() {
    let folder = Folder::new();
    let program = folder.linked("ways", &[]);
    let mut bare = command(&folder, &program, &[], None);
    bare.env("STUB_INNER", "1");
    let inner =
        stdout(&run(bare)).lines().filter(|line| line.starts_with("ask") && line.ends_with(" ?")).count();
    assert!(inner > 300, "the driver answers with inner functions: {inner}");
    let mut command = command(&folder, &program, &[&interposer()], None);
    command.env("STUB_INNER", "1");
    let output = run(command);
    for line in stdout(&output).lines().filter(|line| line.starts_with("ask") || line.starts_with("grid")) {
        let [_, symbol, file, name] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if symbol != "cuInit" && symbol != "cuGraphLaunch_v9" {
            assert_eq!((file, name), ("libtally_interpose.so", symbol));
        }
    }
}

/// Without the library the same program finds the driver everywhere: the test above can fail.
#[test]
fn without_the_library_every_way_leads_to_the_driver() {
    let folder = Folder::new();
    let program = folder.linked("ways", &[]);
    let output = run(command(&folder, &program, &[], None));
    let ours = stdout(&output).lines().filter(|line| line.contains("libtally_interpose")).count();
    assert_eq!(ours, 0);
    assert!(stdout(&output).lines().count() > 6 * Hook::COUNT);
}

/// Case C01.
#[test]
fn eight_threads_start_at_once() {
    let folder = Folder::new();
    let program = folder.program("init8");
    for state in STATES {
        for _ in 0..20 {
            let output = run(command(&folder, &program, &[&interposer()], state));
            assert_eq!(stdout(&output), "init 8 nested 0\n");
        }
    }
}

/// Cases C05 and C07.
#[test]
fn attributes_and_export_tables_arrive_bit_for_bit() {
    let folder = Folder::new();
    let program = folder.linked("passed", &[]);
    for state in STATES {
        run(command(&folder, &program, &[&interposer()], state));
    }
}

/// Case C02 and the caller of `RTLD_NEXT`: on either side of our library.
#[test]
fn another_preloaded_library_finds_what_is_behind_it() {
    let folder = Folder::new();
    let second = folder.library("second", "libsecond.so", &["-ldl"]);
    let cudnn = folder.library("cudnn", "libcudnn.so", &[]);
    let program = folder.linked("next", &[cudnn.to_str().expect("a path in UTF-8")]);
    for state in STATES {
        run(command(&folder, &program, &[&interposer(), &second], state));
        run(command(&folder, &program, &[&second, &interposer()], state));
    }
}

/// Another library that wraps launches: its wrapper and ours are called once each, in either order, however it goes on.
#[test]
fn another_wrapper_of_launches_is_called_once() {
    let folder = Folder::new();
    let tool = folder.library("tool", "libtool.so", &["-ldl"]);
    let program = folder.linked("tooled", &[]);
    for state in STATES {
        for order in [[&*tool, &*interposer()], [&*interposer(), &*tool]] {
            run(command(&folder, &program, &order, state));
        }
    }
}

/// Case C02: `LD_PRELOAD` itself cannot hold a space, the search path can.
#[test]
fn the_library_works_from_a_path_with_a_space() {
    let folder = Folder::new();
    let program = folder.linked("ways", &[]);
    let spaced = folder.path().join("a path");
    fs::create_dir(&spaced).expect("a folder");
    fs::copy(interposer(), spaced.join("libtally_interpose.so")).expect("a copy");
    let mut command = command(&folder, &program, &[Path::new("libtally_interpose.so")], None);
    let search = [spaced.as_os_str(), folder.path().as_os_str()].join(&OsString::from(":"));
    command.env("LD_LIBRARY_PATH", search);
    let output = run(command);
    let ours = stdout(&output).lines().filter(|line| line.contains("libtally_interpose.so")).count();
    assert!(ours > 6 * HOOKS.len(), "{ours}");
}

/// A program without CUDA: nothing is printed, opened or waited for.
#[test]
fn a_program_without_cuda_is_left_alone() {
    let folder = Folder::new();
    let program = folder.program("plain");
    for state in STATES {
        let output = run(command(&folder, &program, &[&interposer()], state));
        assert_eq!((stdout(&output), output.stderr.len()), ("plain\n", 0));
    }
}
