//! `cargo xtask container` with stand-ins for the engines: which one it takes, what it starts, what it says.

#![cfg(unix)]

mod bench;

use bench::{Bench, answer};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

/// An engine that works, has the image of this revision, and writes what it is called with to `calls`.
const WORKS: &str = r#"
case "$1 $2" in
"info --format") echo "$version" ;;
"image inspect") [ ! -e no-image ] || exit 1; case "$4" in *Size*) echo 123456789 ;; *) echo some-revision ;; esac ;;
build*) echo "$0" "$@" >> calls; rm -f no-image ;;
run*) echo "$0" "$@" >> calls; echo inside; exit "${INSIDE:-0}" ;;
esac"#;

fn bench(podman: Option<&str>, docker: Option<&str>) -> Bench {
    let bench = Bench::new();
    for (name, body) in [("bin/podman", podman), ("bin/docker", docker)] {
        if let Some(body) = body {
            bench.script(name, body);
        }
    }
    for tool in ["id", "rm"] {
        let path =
            ["/bin", "/usr/bin"].iter().map(|bin| format!("{bin}/{tool}")).find(|p| fs::exists(p).unwrap());
        symlink(path.unwrap(), bench.path("bin").join(tool)).unwrap();
    }
    bench
}

fn podman() -> String {
    format!("version='4.3.1 rootless=true'{WORKS}")
}

fn docker() -> String {
    format!("version='28.2.2 [name=seccomp,profile=builtin]'{WORKS}")
}

const NO_DAEMON: &str =
    "echo 'Cannot connect to the Docker daemon. Is the docker daemon running?' >&2; exit 1";

#[test]
fn the_first_engine_that_works_is_taken() {
    let takes = |bench: &Bench, arguments: &[&str], expected: &str| {
        let (code, lines, err) = bench.run(&[&["container", "run"], arguments, &["verify"]].concat());
        assert_eq!(code, 0, "{lines:?} {err}");
        let calls = bench.calls();
        let program = calls.split(' ').next().unwrap().rsplit('/').next().unwrap();
        assert_eq!(program, expected, "{calls}");
    };
    {
        let both = bench(Some(&podman()), Some(&docker()));
        takes(&both, &[], "podman");
        takes(&both, &["--engine", "docker"], "docker");
    }
    let broken = "echo 'Error: cannot set up namespace' >&2; exit 125";
    takes(&bench(Some(broken), Some(&docker())), &[], "docker");
    takes(&bench(Some(&podman()), Some(NO_DAEMON)), &[], "podman");
}

#[test]
fn without_an_engine_it_says_what_to_do() {
    let bench = bench(None, Some(NO_DAEMON));
    for verb in ["build", "reproduce"] {
        let (code, _, err) = bench.run(&["container", verb]);
        assert_eq!(code, 1);
        assert!(err.contains("there is no podman on PATH; docker does not work: Cannot connect"), "{err}");
        assert!(err.contains("install podman") && err.contains("cargo xtask reproduce --quick"), "{err}");
    }
}

#[test]
fn build_prints_size_and_minutes() {
    let bench = bench(Some(&podman()), None);
    let (code, lines, err) =
        bench.run(&["container", "build", "--base", "cuda", "--rust", "rs", "--", "--isolation", "chroot"]);
    assert_eq!(code, 0, "{err}");
    let calls = bench.calls();
    assert!(
        calls.contains("podman build --tag localhost/gpu-sharing-artifact --build-arg REVISION="),
        "{calls}"
    );
    assert!(calls.contains(" --build-arg BASE=cuda --build-arg RUST=rs --isolation chroot /"), "{calls}");
    assert_eq!(
        lines.last().unwrap(),
        "image localhost/gpu-sharing-artifact: 123 MB, built in 0.0 minutes by podman 4.3.1"
    );
    bench.script("bin/podman", &podman().replace("build*)", "build*) exit 17;;\nnever)"));
    assert_eq!(bench.run(&["container", "build"]).0, 17);
}

#[test]
fn reproduce_builds_once_and_passes_its_flags_on() {
    let bench = bench(Some(&podman()), None);
    fs::write(bench.path("no-image"), "").unwrap();
    let arguments = ["container", "reproduce", "--quick", "--out", "results/x", "--shm-size", "2g"];
    let (code, lines, err) = bench.run(&arguments);
    assert_eq!(code, 0, "{lines:?} {err}");
    let calls = bench.calls();
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls.len() == 2 && calls[0].contains(" build --tag"), "{calls:?}");
    assert!(
        calls[1].contains(" --shm-size=2g localhost/gpu-sharing-artifact reproduce --quick "),
        "{calls:?}"
    );
    assert!(calls[1].ends_with(" --out results/x"), "{calls:?}");
    let results = fs::canonicalize(bench.path("results")).unwrap();
    assert!(calls[1].contains(&format!(" --volume={}:/results:z ", results.display())), "{calls:?}");
    // The second time there is an image. Without git nobody can tell whether it is of these sources.
    let (_, _, err) = bench.run(&arguments);
    assert_eq!((bench.calls().lines().count(), err.as_str()), (1, ""));
    bench.script("bin/git", "echo another-revision");
    let (_, _, err) = bench.run(&arguments);
    assert!(err.contains("was built from some-revision"), "{err}");
}

/// Docker that knows NVIDIA's runtime.
fn docker_with_gpu() -> String {
    format!(
        "version='28.2.2 [name=seccomp,profile=builtin]'\nif [ \"$3\" = '{{{{json .Runtimes}}}}' ]; then echo \
         '{{\"nvidia\":{{}},\"runc\":{{}}}}'; exit; fi{WORKS}"
    )
}

#[test]
fn a_gpu_is_measured_on_in_a_container_where_an_engine_can() {
    let bench = bench(None, Some(&docker_with_gpu()));
    bench.nvidia_smi("echo 'Stub GPU, 580.159, GPU-aa'");
    fs::write(bench.path("no-image"), "").unwrap();
    let (code, lines, err) = bench.run(&["reproduce", "--quick"]);
    assert_eq!((code, lines.last().unwrap().as_str()), (0, "inside"), "{lines:?} {err}");
    assert!(err.contains("in a container, by docker 28.2.2; --native"), "{err}");
    let calls = bench.calls();
    let calls: Vec<&str> = calls.lines().collect();
    // The image is made with CUDA and what the programs import.
    assert!(calls[0].contains(" build --tag localhost/gpu-sharing-artifact-gpu "), "{calls:?}");
    assert!(calls[0].contains(" --build-arg BASE=docker.io/nvidia/cuda:"), "{calls:?}");
    assert!(calls[0].contains(" --build-arg PACKAGES=torch"), "{calls:?}");
    // The container gets that one GPU, and may not fall back to the simulator.
    let planned = " --gpus=device=GPU-aa --env=NVIDIA_DRIVER_CAPABILITIES=compute,utility ";
    assert!(calls[1].contains(planned), "{calls:?}");
    let verb = " localhost/gpu-sharing-artifact-gpu reproduce --quick --native --backend gpu --machine h200";
    assert!(calls[1].ends_with(verb), "{calls:?}");
    // The verb itself does the same; without a runtime for GPUs it simulates, as the run inside says.
    let (code, _, err) = bench.run(&["container", "reproduce", "--quick"]);
    assert!(code == 0 && bench.calls().contains(planned), "{err}");
    bench.script("bin/docker", &docker());
    let (code, _, err) = bench.run(&["container", "reproduce", "--quick"]);
    assert_eq!(code, 0, "{err}");
    assert!(!bench.calls().contains("--gpus"));
    let (code, _, err) = bench.run(&["container", "reproduce", "--quick", "--backend", "gpu"]);
    assert!(code == 1 && err.contains("docker has no runtime `nvidia`"), "{err}");
    // Without a container for it, the programs of this machine are next; there are none.
    let (_, lines, err) = bench.run(&["reproduce", "--quick"]);
    assert!(err.contains("without a container: docker has no runtime `nvidia`"), "{err}");
    assert!(lines[0].starts_with("SIMULATED: no usable GPU because Stub GPU is there, but "), "{lines:?}");
}

#[test]
fn mistakes_start_no_container() {
    let bench = bench(Some(&podman()), None);
    let refused = |arguments: &[&str], expected_code: i32, expected: &str| {
        let (code, _, err) = bench.run(&[&["container"], arguments].concat());
        assert_eq!(code, expected_code, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{expected}: {err}");
    };
    refused(&["reproduce", "--out", "elsewhere"], 1, "--out results/NAME");
    refused(&["reproduce", "--quik"], 2, "'--quick'");
    refused(&["reproduce", "--backend", "gpu"], 1, "no GPU for a container (there is no nvidia-smi on PATH)");
    refused(&["run"], 2, "<VERB>");
    refused(&["run", "--gpu", "0,1", "verify"], 1, "--gpu 0,1");
    fs::write(bench.path("no-image"), "").unwrap();
    refused(&["run", "verify"], 1, "make it with `cargo xtask container build`");
    assert_eq!(bench.calls(), "");
}

#[test]
fn exit_codes_come_through() {
    let bench = bench(Some(&podman()), None);
    for inside in [0, 3, 130] {
        let mut command = bench.command(&["container", "run", "verify", "--run", "results/x"]);
        let (code, lines, err) = answer(command.env("INSIDE", inside.to_string()).output().unwrap());
        assert_eq!((code, lines[0].as_str()), (inside, "inside"), "{err}");
        assert!(bench.calls().ends_with(" verify --run results/x\n"));
    }
    // 125 is the engine's own failure; with a GPU the usual cause is known.
    let mut command = bench.command(&["container", "run", "--gpu", "all", "verify"]);
    let (code, _, err) = answer(command.env("INSIDE", "125").output().unwrap());
    assert!(code == 125 && err.contains("nvidia-ctk cdi generate"), "{err}");
}

#[test]
fn ctrl_c_reaches_the_engine() {
    let waits =
        "run*) trap 'echo stopped; exit 130' INT; echo > started; while :; do read x < pipe; done ;;\nnever)";
    let bench = bench(Some(&podman().replace("run*)", waits)), None);
    assert!(Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    let child = bench.command(&["container", "run", "verify"]).spawn().unwrap();
    let began = Instant::now();
    while !bench.path("started").exists() {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let (code, lines, err) = answer(child.wait_with_output().unwrap());
    assert_eq!((code, lines), (130, vec!["stopped".to_owned()]), "{err}");
}
