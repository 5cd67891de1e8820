//! Chooses between GPU and simulator, and says why.

use crate::container;
use anyhow::{Result, bail};
use flags::{Backend, Machine, Reproduce};
use std::path::Path;
use std::process::Command;

/// What the workloads' programs import.
const PACKAGES: [&str; 2] = ["torch", "transformers"];

/// Prints what is wrong with the packages, without importing them, which would take seconds.
const MISSING: &str = "\
import importlib.metadata as m, sys
for name in sys.argv[1:]:
    try:
        version = m.version(name)
        if version.endswith('+cpu'):
            print(name, version, 'is built without CUDA')
    except m.PackageNotFoundError:
        print('no', name)
";

/// One GPU, as the driver tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub name: String,
    pub driver: String,
    pub uuid: String,
}

/// Where a run's numbers come from.
pub enum Choice {
    Simulator {
        because: String,
    },
    /// This GPU, by programs of this machine.
    Gpu(Gpu),
    /// This GPU, by programs in a container.
    Container(Gpu, container::Engine),
}

/// Answers to `--backend`, and says on stderr why a GPU is used without a container.
///
/// # Errors
/// A GPU was asked for and cannot be used.
pub fn choose(flags: &Reproduce) -> Result<Choice> {
    let because = |because: String| Ok(Choice::Simulator { because });
    match (flags.backend, flags.machine) {
        (Backend::Sim, _) => return because("asked for with --backend sim".to_owned()),
        (Backend::Auto, Machine::A100) => return because("--machine a100 is a model to simulate".to_owned()),
        (Backend::Gpu, Machine::A100) => {
            bail!(
                "--machine a100 is a model to simulate; a GPU is what it is, so leave it out or say --backend sim"
            )
        }
        (Backend::Auto | Backend::Gpu, Machine::H200) => {}
    }
    match (usable(flags), flags.backend) {
        (Ok(choice), _) => Ok(choice),
        (Err(reason), Backend::Gpu) => bail!(
            "--backend gpu, but there is no usable GPU ({reason}); `cargo xtask doctor` says what is missing, and \
             --backend sim simulates instead"
        ),
        (Err(reason), _) => because(format!("no usable GPU because {reason}")),
    }
}

fn usable(flags: &Reproduce) -> Result<Choice, String> {
    let gpu = find(flags)?;
    if !flags.native && !flags.list {
        match container::gpu_engine() {
            Ok(engine) => return Ok(Choice::Container(gpu, engine)),
            Err(why) => eprintln!("without a container: {why}"),
        }
    }
    let here = |what: String| format!("{} is there, but {what}", gpu.name);
    if !has_runtime() {
        return Err(here("the crates of the runtime are not in this checkout".to_owned()));
    }
    python().map_err(here)?;
    Ok(Choice::Gpu(gpu))
}

/// The GPU that was asked for, else the first; or why there is none.
///
/// # Errors
/// The reason, for the middle of a sentence.
pub fn find(flags: &Reproduce) -> Result<Gpu, String> {
    // A broken driver lets it hang.
    let answer = probe::ask("nvidia-smi", &["--query-gpu=name,driver_version,uuid", "--format=csv,noheader"]);
    let answer = answer.map_err(|silence| match silence {
        probe::Silence::Absent => "there is no nvidia-smi on PATH".to_owned(),
        probe::Silence::Broken(why) => why,
    })?;
    let devices = judge(answer.success, &answer.out, &answer.err)?;
    select(devices, flags.device.as_deref(), std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref())
}

/// Reads the answer of nvidia-smi, which reports errors on stdout.
fn judge(success: bool, stdout: &str, stderr: &str) -> Result<Vec<Gpu>, String> {
    let lines = |text: &str| -> Vec<String> {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let (out, err) = (lines(stdout), lines(stderr));
    match out.first().or(err.first()) {
        Some(line) if !success => Err(format!("nvidia-smi failed: {line}")),
        None if !success => Err("nvidia-smi failed without a message".to_owned()),
        Some(line) if line.starts_with("No devices") => Err("nvidia-smi finds no device".to_owned()),
        None => Err("nvidia-smi finds no device".to_owned()),
        Some(_) => out.iter().map(|line| parse(line)).collect(),
    }
}

fn parse(line: &str) -> Result<Gpu, String> {
    let fields: Vec<String> = line.split(',').map(|field| field.trim().to_owned()).collect();
    let fields = <[String; 3]>::try_from(fields);
    let [name, driver, uuid] =
        fields.map_err(|_| format!("nvidia-smi answers `{line}`, not name, driver and UUID"))?;
    Ok(Gpu { name, driver, uuid })
}

/// By UUID only: CUDA and nvidia-smi may count devices differently.
fn select(devices: Vec<Gpu>, asked: Option<&str>, visible: Option<&str>) -> Result<Gpu, String> {
    let several = devices.len() > 1;
    let by_uuid = |id: &str, devices: Vec<Gpu>| {
        // A beginning is enough where it is that of one device.
        let mut found = devices.into_iter().filter(|device| !id.is_empty() && device.uuid.starts_with(id));
        match (found.next(), found.next()) {
            (Some(device), None) => Ok(device),
            (Some(_), Some(_)) => {
                Err(format!("the UUIDs of several devices begin with {id}; write one in full"))
            }
            (None, _) => Err(format!("there is no device {id}; `nvidia-smi -L` prints what there is")),
        }
    };
    match (asked, visible.map(|list| list.split(',').next().unwrap_or_default().trim())) {
        (Some(id), _) => by_uuid(id, devices),
        (None, Some("")) => Err("CUDA_VISIBLE_DEVICES is empty, which hides every device".to_owned()),
        (None, Some(id)) if id.starts_with("GPU-") => by_uuid(id, devices),
        (None, Some(id)) if several => Err(format!(
            "CUDA_VISIBLE_DEVICES={id} goes by index; choose a device by its UUID, e.g. --device {}",
            devices[0].uuid
        )),
        // Of one device only this index means it; others, such as the usual -1, hide it.
        (None, Some(id)) if id != "0" => {
            Err(format!("CUDA_VISIBLE_DEVICES={id} is no device here, which hides the one that there is"))
        }
        _ => devices.into_iter().next().ok_or_else(|| "nvidia-smi finds no device".to_owned()),
    }
}

/// Whether the runtime can be built here, or lies beside this binary as in the container image.
fn has_runtime() -> bool {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runtime/cli/Cargo.toml");
    let beside = |path: std::path::PathBuf| path.parent().is_some_and(|folder| folder.join("tally").exists());
    manifest.exists() || std::env::current_exe().is_ok_and(beside)
}

/// Whether python3 has what the programs import.
fn python() -> Result<(), String> {
    let answer = Command::new("python3").args(["-c", MISSING]).args(PACKAGES).output();
    let answer = answer.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is no python3 on PATH".to_owned(),
        _ => format!("python3 cannot be started: {error}"),
    })?;
    let missing = String::from_utf8_lossy(&answer.stdout).trim().replace('\n', ", ");
    match (answer.status.success(), missing.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("python3 has {missing}")),
        (false, _) => Err("python3 does not work".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_the_simulator_looks_for_no_gpu() {
        for (backend, machine, expected) in [
            (Backend::Sim, Machine::H200, "asked for with --backend sim"),
            (Backend::Auto, Machine::A100, "--machine a100 is a model to simulate"),
        ] {
            match choose(&Reproduce { backend, machine, ..Reproduce::default() }).unwrap() {
                Choice::Simulator { because } => assert_eq!(because, expected),
                _ => panic!("a GPU was chosen"),
            }
        }
        assert!(
            choose(&Reproduce { backend: Backend::Gpu, machine: Machine::A100, ..Reproduce::default() })
                .is_err()
        );
    }

    #[test]
    fn each_answer_of_nvidia_smi_has_its_reason() {
        let gpu =
            Gpu { name: "NVIDIA H200".to_owned(), driver: "580.159".to_owned(), uuid: "GPU-aa".to_owned() };
        assert_eq!(judge(true, "NVIDIA H200, 580.159, GPU-aa\n", "").unwrap(), [gpu]);
        assert_eq!(judge(true, "No devices were found\n", "").unwrap_err(), "nvidia-smi finds no device");
        assert_eq!(judge(true, "\n", "").unwrap_err(), "nvidia-smi finds no device");
        let lost =
            "\nFailed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.1\n";
        assert_eq!(
            judge(false, lost, "").unwrap_err(),
            "nvidia-smi failed: Failed to initialize NVML: Driver/library version mismatch"
        );
        assert_eq!(judge(false, "", "").unwrap_err(), "nvidia-smi failed without a message");
    }

    #[test]
    fn a_device_is_selected_by_its_uuid() {
        let device = |uuid: &str| Gpu { name: "x".to_owned(), driver: "1".to_owned(), uuid: uuid.to_owned() };
        let two = || vec![device("GPU-aa"), device("GPU-bb")];
        let uuid = |asked, visible| select(two(), asked, visible).map(|gpu| gpu.uuid);
        assert_eq!(uuid(None, None).unwrap(), "GPU-aa");
        assert_eq!(uuid(None, Some("GPU-bb,GPU-aa")).unwrap(), "GPU-bb");
        assert_eq!(uuid(Some("GPU-bb"), Some("GPU-aa")).unwrap(), "GPU-bb");
        for (asked, visible, expected) in [
            (Some("GPU-cc"), None, "there is no device GPU-cc"),
            (Some("GPU-"), None, "several devices"),
            (Some(""), None, "there is no device"),
            (None, Some(""), "hides every device"),
            (None, Some("1"), "--device GPU-aa"),
        ] {
            let error = uuid(asked, visible).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        // Of one there is no doubt.
        assert_eq!(select(vec![device("GPU-aa")], None, Some("0")).unwrap().uuid, "GPU-aa");
        for hidden in ["-1", "1", "NoDevFiles"] {
            let error = select(vec![device("GPU-aa")], None, Some(hidden)).unwrap_err();
            assert!(error.contains("hides the one"), "{error}");
        }
    }
}
