//! `reproduce --backend gpu` with stand-ins for GPU, programs and runtime: from starting processes to tables.

use crate::repository::Answer;
use crate::stub_gpu::{EXPERIMENT, StubGpu};
use protocol::Priority;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const RUN: [&str; 2] = ["--out", "run"];

fn row<'a>(rows: &'a [HashMap<String, String>], kind: &str, system: &str) -> &'a HashMap<String, String> {
    rows.iter().find(|row| row["kind"] == kind && row["system"] == system).unwrap()
}

fn number(row: &HashMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column} is `{}`: {row:?}", row[column]))
}

#[test]
fn times_of_programs_become_tables_of_a_measured_run() {
    let stub = StubGpu::new();
    let answer = stub.run(&RUN);
    answer.expect(0, "6 cells: 5 run, 0 were stored, 1 skipped, 0 failed");
    let rows = stub.rows("run/one.csv");
    assert!(rows.iter().all(|row| row["backend"] == "gpu" && row["machine"] == "Stub GPU"), "{rows:?}");
    let skipped = row(&rows, "pair", "tally");
    assert!(
        skipped["status"] == "skipped" && skipped["error"].starts_with("simulated only: "),
        "{skipped:?}"
    );
    assert_eq!((skipped["key"].as_str(), skipped["upstream_p99_ms"].as_str()), ("", ""));
    // As the program makes them up.
    assert_eq!(number(row(&rows, "solo-stream", "no-sharing"), "upstream_p99_ms"), 1.0);
    let solo = row(&rows, "solo-training", "no-sharing");
    assert!((number(solo, "be_rate_hz") - 20.0).abs() < 1e-6, "{solo:?}");
    for system in ["time-slicing", "gate"] {
        let pair = row(&rows, "pair", system);
        assert_eq!((number(pair, "upstream_p99_ms"), number(pair, "baseline_p99_ms")), (2.0, 1.0));
        // The two programs notice some milliseconds apart that they may begin.
        assert!((number(pair, "be_norm") - 0.5).abs() < 0.02, "{pair:?}");
        // At twice the service time the server just keeps up with its load of 0.5; the request of its own that opens
        // the program is not counted.
        assert_eq!(pair["requests"], row(&rows, "solo-paced", "no-sharing")["requests"]);
    }
    // How the runtime was called, and what it counted.
    let calls = stub.calls();
    assert_eq!(calls.len(), 4, "two programs of two pairs; solo cells run without it: {calls:?}");
    assert!(calls[0].starts_with("run --quiet --priority high --policy "), "{calls:?}");
    assert!(calls[1].starts_with("run --quiet --priority best-effort --policy "), "{calls:?}");
    assert!(
        calls.iter().all(|call| call.contains(" --gpu GPU-0000 --report ") && call.contains(" -- python3 "))
    );
    let counted = stub.rows("run/runtime.csv");
    assert_eq!(counted.len(), 2);
    let gate = row(&counted, "pair", "gate");
    assert_eq!(
        (gate["activations"].as_str(), gate["admitted"].as_str(), gate["held"].as_str()),
        ("3", "40", "30")
    );
    // The same in the claims, in run.toml, and nothing of the simulator's.
    let claims = stub.rows("run/claims.csv");
    assert!(claims.iter().all(|claim| claim["simulated_verdict"] == "not run"), "{claims:?}");
    let info = fs::read_to_string(stub.repository.path("run/run.toml")).unwrap();
    for line in [
        "machine = \"Stub GPU\"",
        "backend = \"gpu\"",
        "driver = \"1.2\"",
        "torch = \"0\"",
        "sm_clock_mhz = \"100\"",
    ] {
        assert!(info.contains(line), "{line}: {info}");
    }
    assert!(!info.contains("GPU-0000"), "{info}");
    for name in ["machine.toml", "mechanisms.csv"] {
        assert!(!stub.repository.path("run").join(name).exists(), "{name}");
    }
    stub.repository
        .run(&["verify", "--run", "run"])
        .expect(0, "golden values are of sim on h200, not gpu on Stub GPU");
    stub.expect_nothing_left();
}

#[test]
fn a_measured_cell_is_measured_once() {
    let stub = StubGpu::new();
    stub.run(&RUN).expect(0, "5 run, 0 were stored");
    let table = fs::read(stub.repository.path("run/one.csv")).unwrap();
    stub.run(&RUN).expect(0, "0 run, 5 were stored");
    assert_eq!(fs::read(stub.repository.path("run/one.csv")).unwrap(), table);
    // Another runtime: the cells without it are what they were.
    stub.repository.write("bin/libtally_interpose.so", "another");
    stub.run(&RUN).expect(0, "2 run, 3 were stored");
    // Another program: all cells of its job, and none of the training alone.
    let program = "workloads/bert-infer/program.py";
    stub.repository.replace(program, "import sys\n", "import sys  # changed\n");
    stub.run(&RUN).expect(0, "4 run, 1 were stored");
    // A folder holds one origin.
    let simulated = stub.repository.run(&["reproduce", "--out", "run"]);
    simulated.expect(1, "run holds a run of backend gpu on Stub GPU").expect(1, "--out");
    stub.run(&["--list"]).expect(0, "20 s to start and warm up each program");
}

#[test]
fn a_program_that_dies_is_a_row_with_its_last_words() {
    let stub = StubGpu::new();
    stub.repository.write("die-train", "");
    let answer = stub.run(&RUN);
    answer.expect(3, "2 run, 0 were stored, 1 skipped, 3 failed");
    let rows = stub.rows("run/one.csv");
    for (kind, system) in [("solo-training", "no-sharing"), ("pair", "time-slicing"), ("pair", "gate")] {
        let failed = row(&rows, kind, system);
        assert_eq!((failed["status"].as_str(), failed["be_rate_hz"].as_str()), ("failed", ""));
        let error = &failed["error"];
        assert!(error.contains("`resnet50-train`") && error.contains("CUDA error: out of memory"), "{error}");
    }
    stub.expect_nothing_left();
    fs::remove_file(stub.repository.path("die-train")).unwrap();
    stub.run(&RUN).expect(0, "3 run, 2 were stored");
    // A server that dies takes what depends on it along.
    stub.repository.write("die-closed", "");
    stub.run(&["--out", "other"]).expect(3, "the server's solo run failed: `bert-infer` (high) ended with");
}

#[test]
fn nothing_more_is_measured_on_a_device_that_is_lost() {
    let stub = StubGpu::new();
    for name in ["die-closed", "lost"] {
        stub.repository.write(name, "");
    }
    let answer = stub.run(&RUN);
    answer.expect(3, "the device could not be used any more");
    // The first program was the last.
    assert_eq!(fs::read_to_string(stub.repository.path("pids")).unwrap().lines().count(), 1);
    let rows = stub.rows("run/one.csv");
    let training = row(&rows, "solo-training", "no-sharing");
    assert!(training["error"].starts_with("not run: after "), "{training:?}");
    assert!(training["error"].contains("GPU is lost"), "{training:?}");
    for name in ["die-closed", "lost"] {
        fs::remove_file(stub.repository.path(name)).unwrap();
    }
    stub.run(&RUN).expect(0, "5 run, 0 were stored");
}

#[test]
fn settings_of_the_user_do_not_reach_cells() {
    let stub = StubGpu::new();
    let mut command = stub.command(&RUN);
    command.env("TALLY_SPIN_US", "7").env("TALLY_DRIVER", "/other").env("TALLY_PROFILES", "/mine");
    Answer::of(command.output().unwrap()).expect(0, "5 run");
    let settings = fs::read_to_string(stub.repository.path("bin/settings")).unwrap();
    assert!(settings.lines().count() > 0);
    for line in settings.lines() {
        assert!(line.starts_with("TALLY_PROFILES=") && line.ends_with("/profiles"), "{line}");
    }
}

#[test]
fn a_system_without_effect_has_no_numbers() {
    let stub = StubGpu::new();
    stub.report(Priority::BestEffort, |_| ());
    stub.repository.replace(EXPERIMENT, "\"time-slicing\",", "\"time-slicing\", \"mps\",");
    stub.run(&RUN).expect(3, "2 failed");
    let rows = stub.rows("run/one.csv");
    for (system, expected) in [
        ("gate", "not run: the policy admitted no best-effort launch"),
        ("mps", "not run: a client shared the device by `contexts`, not by `mps`"),
    ] {
        let failed = row(&rows, "pair", system);
        assert!(failed["status"] == "failed" && failed["error"].starts_with(expected), "{failed:?}");
        assert_eq!(failed["upstream_p99_ms"], "");
    }
    assert_eq!(row(&rows, "pair", "time-slicing")["status"], "ok");
}

#[test]
fn ctrl_c_ends_the_programs_and_keeps_what_is_finished() {
    let stub = StubGpu::new();
    stub.repository.write("hang-paced", "");
    let child = stub.command(&RUN).spawn().unwrap();
    let began = Instant::now();
    let pids = || fs::read_to_string(stub.repository.path("pids")).unwrap_or_default().lines().count();
    // The two solo cells without arrivals are over; the program of the third hangs.
    while pids() < 3 {
        assert!(began.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    Answer::of(child.wait_with_output().unwrap()).expect(130, "interrupted: finished cells are kept");
    stub.expect_nothing_left();
    fs::remove_file(stub.repository.path("hang-paced")).unwrap();
    stub.run(&RUN).expect(0, "3 run, 2 were stored");
}

#[test]
fn ctrl_c_goes_through_the_runtime() {
    let stub = StubGpu::new();
    stub.repository.write("hang-shared", "");
    let child = stub.command(&RUN).spawn().unwrap();
    let began = Instant::now();
    let pids = || fs::read_to_string(stub.repository.path("pids")).unwrap_or_default().lines().count();
    // Three solo cells, then the server of the first pair.
    while pids() < 4 {
        assert!(began.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap().success());
    Answer::of(child.wait_with_output().unwrap()).expect(143, "interrupted");
    assert_eq!(stub.calls().len(), 1);
    stub.expect_nothing_left();
}

#[test]
fn a_missing_tool_or_device_is_an_error_with_the_next_step() {
    let stub = StubGpu::new();
    stub.run(&["--device", "GPU-1111"]).expect(1, "nvidia-smi lists no device GPU-1111");
    fs::remove_file(stub.repository.path("bin/tallyd")).unwrap();
    stub.run(&RUN).expect(1, "tallyd; `cargo xtask reproduce --backend gpu` builds it");
}

/// The real programs, small and without a GPU, where a Python with PyTorch is named: all but the device and the runtime is
/// real.
#[test]
fn real_programs_without_a_gpu() {
    let Some(python) = std::env::var_os("WORKLOADS_PYTHON") else {
        eprintln!("not run: WORKLOADS_PYTHON names no Python with torch and transformers");
        return;
    };
    let stub = StubGpu::new();
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("workloads");
    fs::remove_dir_all(stub.repository.path("workloads")).unwrap();
    std::os::unix::fs::symlink(real, stub.repository.path("workloads")).unwrap();
    stub.use_python(Path::new(&python), "--device cpu --tiny");
    stub.run(&RUN).expect(0, "6 cells: 5 run, 0 were stored, 1 skipped, 0 failed");
    let rows = stub.rows("run/one.csv");
    let pair = row(&rows, "pair", "gate");
    // The cell lasts 2 s, and beside a training on the same cores a request takes up to a tenth of one.
    assert!(number(pair, "requests") > 0.0 && number(pair, "be_rate_hz") > 0.0, "{pair:?}");
    assert!(number(pair, "upstream_p99_ms") > 0.0 && number(pair, "e2e_p99_ns") > 0.0, "{pair:?}");
}
