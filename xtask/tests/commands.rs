//! `cargo xtask` with stand-ins for cargo, the binaries and nvidia-smi: what it prints first and last, what it starts,
//! and what it returns.

#![cfg(unix)]

mod bench;

use bench::{Bench, answer};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn first_and_last_line_say_simulated_and_why() {
    let bench = Bench::new();
    let check = |arguments: &[&str], expected: &str| {
        let (code, lines, err) = bench.run(arguments);
        assert_eq!(code, 0, "{lines:?} {err}");
        assert_eq!((lines[0].as_str(), lines[lines.len() - 1].as_str()), (expected, expected), "{lines:?}");
        assert!(lines.len() > 2);
    };
    let missing = "SIMULATED: no usable GPU because there is no nvidia-smi on PATH";
    check(&["reproduce"], missing);
    check(&["reproduce", "--list"], missing);
    check(&["h200-check"], "SIMULATED: h200-check compares the simulator with a measurement");
    check(&["reproduce", "--machine", "a100"], "SIMULATED: --machine a100 is a model to simulate");
    check(&["reproduce", "--backend", "sim"], "SIMULATED: asked for with --backend sim");
    bench.nvidia_smi("echo 'No devices were found'; exit 6");
    check(&["reproduce"], "SIMULATED: no usable GPU because nvidia-smi failed: No devices were found");
    bench
        .nvidia_smi("echo 'NVIDIA-SMI has failed because it could not communicate with the driver.'; exit 9");
    check(
        &["reproduce"],
        "SIMULATED: no usable GPU because nvidia-smi failed: NVIDIA-SMI has failed because it could not communicate \
         with the driver.",
    );
    bench.nvidia_smi("");
    check(&["reproduce"], "SIMULATED: no usable GPU because nvidia-smi finds no device");
}

/// A machine with a GPU, Python with what the programs import, and a built runtime; no container engine.
fn gpu_bench() -> Bench {
    let bench = Bench::new();
    bench.nvidia_smi("echo 'Stub GPU, 580.159, GPU-aa'");
    bench.script("bin/python3", "");
    bench.script("tally", "");
    bench
}

#[test]
fn a_gpu_is_measured_on_and_first_and_last_line_say_so() {
    let bench = gpu_bench();
    let folder = "results/stub-gpu-gpu-quick";
    fs::create_dir_all(bench.path(folder)).unwrap();
    fs::write(bench.path(folder).join("fig4.csv"), "").unwrap();
    for backend in ["auto", "gpu"] {
        let (code, lines, err) = bench.run(&["reproduce", "--quick", "--backend", backend]);
        assert_eq!(code, 0, "{lines:?} {err}");
        let banner = "MEASURED on Stub GPU, driver 580.159";
        assert_eq!((lines[0].as_str(), lines[lines.len() - 1].as_str()), (banner, banner), "{lines:?}");
        assert!(
            lines.len() > 2 && err.contains("without a container: no container engine: there is no podman"),
            "{err}"
        );
        let calls = bench.calls();
        let calls: Vec<&str> = calls.lines().collect();
        assert!(
            calls[0].ends_with("--package fetch --package cli --package daemon --package interpose"),
            "{calls:?}"
        );
        let cells = format!(
            "artifact reproduce --quick --backend {backend} --backend gpu --backend-reason found Stub GPU --device GPU-aa \
             --out {folder}"
        );
        assert_eq!(calls[1], cells);
        assert_eq!(calls[2], format!("figures draw --run {folder}"));
    }
    // The plan needs no container, and says nothing of one.
    let (code, _, err) = bench.run(&["reproduce", "--list", "--out", "x"]);
    assert!(code == 0 && !err.contains("container"), "{err}");
    assert!(bench.calls().ends_with("--device GPU-aa --out x\n"));
    assert_eq!(bench.run(&["reproduce", "--backend", "sim"]).1[0], "SIMULATED: asked for with --backend sim");
    let (code, _, err) = bench.run(&["h200-check", "--backend", "gpu"]);
    assert!(
        code == 1 && err.contains("cargo xtask reproduce --backend gpu --experiment h200-check"),
        "{err}"
    );
}

#[test]
fn a_gpu_that_cannot_be_used_is_an_error_or_a_reason() {
    let bench = gpu_bench();
    let refused = |arguments: &[&str], reason: &str| {
        let (code, lines, err) = bench.run(&[&["reproduce", "--backend", "gpu"], arguments].concat());
        assert_eq!((code, lines.len()), (1, 0), "{lines:?}");
        assert!(
            err.contains(reason) && err.contains("cargo xtask doctor") && err.contains("--backend sim"),
            "{err}"
        );
        let (code, lines, _) = bench.run(&[&["reproduce"], arguments].concat());
        assert_eq!(
            (code, lines[0].as_str()),
            (0, format!("SIMULATED: no usable GPU because {reason}").as_str())
        );
    };
    refused(&["--device", "GPU-bb"], "there is no device GPU-bb; `nvidia-smi -L` prints what there is");
    bench.script("bin/python3", "echo no torch");
    refused(&[], "Stub GPU is there, but python3 has no torch");
    fs::remove_file(bench.path("bin/python3")).unwrap();
    refused(&[], "Stub GPU is there, but there is no python3 on PATH");
    fs::remove_file(bench.path("bin/nvidia-smi")).unwrap();
    refused(&[], "there is no nvidia-smi on PATH");
    let (code, _, err) = bench.run(&["reproduce", "--backend", "gpu", "--machine", "a100"]);
    assert!(code == 1 && err.contains("a model to simulate"), "{err}");
}

#[test]
fn flags_are_passed_on_and_figures_follow_the_cells() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("out")).unwrap();
    fs::write(bench.path("out/fig5.csv"), "").unwrap();
    assert_eq!(bench.run(&["reproduce", "--quick", "--out", "out", "--jobs", "1"]).0, 0);
    let calls = bench.calls();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].starts_with("cargo build --manifest-path "), "{calls:?}");
    assert!(calls[0].ends_with("--package artifact --package figures --package fetch"), "{calls:?}");
    assert_eq!(
        calls[1..],
        [
            "artifact reproduce --quick --out out --jobs 1 --backend sim --backend-reason no usable GPU because there \
             is no nvidia-smi on PATH",
            "figures draw --run out",
            "artifact seal --run out",
            "figures report --run out",
        ]
    );
    bench.run(&["h200-check", "--out", "elsewhere"]);
    assert!(
        bench.calls().contains("artifact reproduce --experiment h200-check --out elsewhere --backend sim")
    );
    bench.run(&["figure", "fig5", "--run", "out", "--partial"]);
    assert!(bench.calls().contains(
        "figures draw --run out --partial fig5\nartifact seal --run out\nfigures report --run out"
    ));
    bench.run(&["report", "--run", "out"]);
    assert!(bench.calls().ends_with("--package fetch\nfigures report --run out\n"));
    bench.run(&["verify", "--run", "out"]);
    assert!(bench.calls().contains("artifact verify --run out\nfigures check --partial --run out"));
}

#[test]
fn fetch_is_built_alone_and_gets_the_flags_and_gives_the_exit_code() {
    let bench = Bench::new();
    let (code, lines, err) = bench.run(&["fetch", "maf2", "--from", "a b.txt", "--dir", "d"]);
    assert_eq!((code, lines), (0, vec!["data".to_owned()]), "{err}");
    let calls = bench.calls();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].ends_with("Cargo.toml --package fetch"), "{calls:?}");
    assert_eq!(calls[1..], ["fetch maf2 --from a b.txt --dir d"]);
    bench.script("fetch", "exit 1");
    assert_eq!(bench.run(&["fetch", "--offline"]).0, 1);
}

#[test]
fn the_gpu_check_gets_the_repository_and_gives_its_exit_code() {
    let bench = Bench::new();
    bench.script("gpu-check", "echo gpu-check \"$@\" >> calls; exit 4");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().display().to_string();
    assert_eq!(bench.run(&["gpu-check", "--age"]).0, 4);
    let calls = bench.calls();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls[0].ends_with("Cargo.toml --package check"), "only itself for what reads files: {calls:?}");
    assert_eq!(calls[1..], [format!("gpu-check --repo {root} --age")]);
    assert_eq!(bench.run(&["selftest", "--gpu", "GPU-1"]).0, 4);
    let calls = bench.calls();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(
        calls[0]
            .ends_with("--package check --package cli --package daemon --package interpose --package shim"),
        "{calls:?}"
    );
    let expected = format!(
        "gpu-check --repo {root} --only selftest --python python3 --out results/selftest --gpu GPU-1"
    );
    assert_eq!(calls[1..], [expected]);
}

#[test]
fn exit_codes_come_through() {
    let bench = Bench::new();
    fs::create_dir_all(bench.path("out")).unwrap();
    fs::write(bench.path("out/fig5.csv"), "").unwrap();
    bench.script("artifact", "echo artifact \"$@\" >> calls; [ $1 != reproduce ] || exit 3");
    let (code, lines, _) = bench.run(&["reproduce", "--out", "out"]);
    assert_eq!(code, 3);
    assert!(lines.last().unwrap().starts_with("SIMULATED: "), "{lines:?}");
    // No figure of an incomplete run, unless it is asked for; the code still tells.
    let calls = bench.calls();
    assert!(!calls.contains("figures draw") && calls.contains("figures report --run out"), "{calls}");
    assert_eq!(bench.run(&["reproduce", "--out", "out", "--partial"]).0, 3);
    assert!(bench.calls().contains("figures draw --run out --partial"));
    bench.script("cargo", "exit 101");
    assert_eq!(bench.run(&["reproduce", "--out", "out"]).0, 101);
    assert_eq!(bench.run(&["verify", "--run", "out"]).0, 101);
}

#[test]
fn mistakes_are_answered_before_anything_is_built() {
    let bench = Bench::new();
    for (arguments, expected_code, expected) in [
        (&["reproduce", "--quik"][..], 2, "'--quick'"),
        (&["repro"], 2, "'reproduce'"),
        (&["figure"], 2, "<ID>"),
        (
            &["verify", "--run", "nowhere"],
            1,
            "there is no run folder nowhere: make one with `cargo xtask reproduce`",
        ),
        (&["report", "--run", "nowhere"], 1, "there is no run folder nowhere"),
        (&["fetch", "--ofline"], 2, "'--offline'"),
        (&["figure", "fig5"], 1, "there is neither results/h200-sim nor results/h200-sim-quick"),
        (&["h200-check", "--experiment", "fig5"], 1, "cargo xtask reproduce --experiment fig5"),
    ] {
        let (code, _, err) = bench.run(arguments);
        assert_eq!(code, expected_code, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{expected}: {err}");
    }
    assert_eq!(bench.calls(), "");
    assert_eq!(bench.run(&["--help"]).0, 0);
}

#[test]
fn ctrl_c_is_the_childs_to_answer() {
    let bench = Bench::new();
    bench.script(
        "artifact",
        "trap 'echo stopped; exit 130' INT; echo > started; while :; do read x < pipe; done",
    );
    let made = Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap();
    assert!(made.success());
    let child = bench.command(&["reproduce", "--out", "out"]).spawn().unwrap();
    let began = Instant::now();
    while !bench.path("started").exists() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(2));
    }
    let status = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let (code, lines, err) = answer(child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{lines:?} {err}");
    assert_eq!(lines[1], "stopped");
    assert!(lines[2].starts_with("SIMULATED: "), "{lines:?}");
}
