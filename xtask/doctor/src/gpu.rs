//! What a run on a GPU needs beside: driver, device, MPS, a container engine, Python.

use crate::check::{Check, Needed::Gpu};
use crate::host::{gib, version};
use crate::probe::{self, Silence, nvidia};
use nvidia::Device;
use std::path::{Path, PathBuf};

/// The first driver for CUDA 12 (CUDA Toolkit release notes, table of drivers: 525.60.13).
const DRIVER: (u32, u32) = (525, 60);

/// The Python packages that the workloads import.
const PACKAGES: [&str; 2] = ["torch", "transformers"];

/// Asks for versions without importing the packages, which would take seconds and a GPU.
const VERSIONS: &str = "\
import importlib.metadata as m, sys
for name in sys.argv[1:]:
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        print(name, '-')
";

/// All checks of this part.
pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    match nvidia::devices() {
        Ok(devices) => {
            checks.push(driver(&devices));
            checks.extend(devices.iter().flat_map(device));
            checks.push(choice(&devices, std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref()));
        }
        Err(why) => checks.push(Check::failed(
            "driver",
            Gpu,
            why,
            "on a machine with an NVIDIA GPU install the driver (https://docs.nvidia.com/datacenter/tesla/\
             driver-installation-guide) and reboot; `nvidia-smi` must list the device. Without one use \
             --backend sim",
        )),
    }
    checks.push(mps());
    checks.push(engine());
    checks.push(python());
    checks
}

fn driver(devices: &[Device]) -> Check {
    let found = &devices[0].driver;
    match version(found) {
        Some(version) if version < DRIVER => Check::failed(
            "driver",
            Gpu,
            format!("{found}: older than {}.{}, so it runs no CUDA 12", DRIVER.0, DRIVER.1),
            "install a newer driver and reboot",
        ),
        _ => Check::ok("driver", Gpu, found.as_str()),
    }
}

fn device(device: &Device) -> Vec<Check> {
    let name = format!("gpu {}", device.index);
    let memory = device.memory.strip_suffix(" MiB").and_then(|mib| mib.parse::<u64>().ok());
    let memory = memory.map_or(device.memory.clone(), |mib| gib(mib << 20));
    let found = format!("{}, {}, {memory}", device.name, device.uuid);
    let mut checks = vec![if device.name.contains("H200") {
        Check::ok(&name, Gpu, found)
    } else {
        let fix = "nothing to repair: the recorded kernels are an H200's, so expect other numbers here";
        Check::warning(&name, Gpu, found, fix)
    }];
    let mode = format!("{name} compute mode");
    checks.push(match device.compute_mode.as_str() {
        "Prohibited" => Check::failed(
            &mode,
            Gpu,
            "Prohibited: no process may use it",
            &format!("`sudo nvidia-smi -i {} -c DEFAULT`", device.uuid),
        ),
        "Exclusive_Process" => Check::warning(
            &mode,
            Gpu,
            "Exclusive_Process: two jobs can only share it through MPS",
            &format!("for time-slicing: `sudo nvidia-smi -i {} -c DEFAULT`", device.uuid),
        ),
        other => Check::ok(&mode, Gpu, other),
    });
    if device.mig == "Enabled" {
        checks.push(Check::failed(
            &format!("{name} MIG"),
            Gpu,
            "MIG is enabled, so jobs see a part of the device",
            &format!("`sudo nvidia-smi -i {} -mig 0` when nothing runs on it", device.uuid),
        ));
    }
    checks
}

/// The order of CUDA and that of nvidia-smi differ, so an index can mean two devices.
fn choice(devices: &[Device], visible: Option<&str>) -> Check {
    let fix = format!("choose one by its UUID: `export CUDA_VISIBLE_DEVICES={}`", devices[0].uuid);
    match visible {
        Some(list) if !list.is_empty() && list.split(',').all(|id| id.trim().starts_with("GPU-")) => {
            let known = list.split(',').all(|id| devices.iter().any(|d| d.uuid.starts_with(id.trim())));
            let found = format!("CUDA_VISIBLE_DEVICES={list}");
            if known {
                Check::ok("gpu choice", Gpu, found)
            } else {
                Check::failed("gpu choice", Gpu, format!("{found} names a device that is not here"), &fix)
            }
        }
        Some("") => {
            Check::failed("gpu choice", Gpu, "CUDA_VISIBLE_DEVICES is empty, which hides every device", &fix)
        }
        _ if devices.len() == 1 => Check::ok("gpu choice", Gpu, "there is only one"),
        Some(list) => Check::warning(
            "gpu choice",
            Gpu,
            format!("CUDA_VISIBLE_DEVICES={list} goes by index; nvidia-smi and CUDA may count differently"),
            &fix,
        ),
        None => Check::warning("gpu choice", Gpu, format!("{} devices and none chosen", devices.len()), &fix),
    }
}

fn mps() -> Check {
    let pipe = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY");
    let pipe = pipe.map_or_else(|| PathBuf::from("/tmp/nvidia-mps"), PathBuf::from);
    let running = pipe.join("control").exists();
    // On PATH is enough to know: asked for anything, it would try to talk to its daemon.
    match (on_path("nvidia-cuda-mps-control"), running) {
        (true, true) => Check::ok("mps", Gpu, format!("there, with a control pipe in {}", pipe.display())),
        (true, false) => {
            Check::ok("mps", Gpu, "there; no daemon runs, and the systems that need one start it")
        }
        (false, _) => Check::failed(
            "mps",
            Gpu,
            "there is no nvidia-cuda-mps-control on PATH, so no system over MPS can run",
            "install it: it comes with the driver (Debian, Ubuntu: package nvidia-cuda-mps or nvidia-compute-utils-*)",
        ),
    }
}

/// Whether PATH has a program of this name.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}

fn engine() -> Check {
    let mut problems = Vec::new();
    for engine in ["podman", "docker"] {
        // Docker's client answers --version without its daemon, which is what containers need.
        let arguments: &[&str] =
            if engine == "docker" { &["version", "--format", "{{.Server.Version}}"] } else { &["--version"] };
        match probe::ask(engine, arguments) {
            Ok(answer) if answer.success => {
                return Check::ok("container engine", Gpu, format!("{engine}: {}", answer.line()));
            }
            Ok(answer) => problems.push(format!("{engine} failed: {}", answer.line())),
            Err(Silence::Absent) => problems.push(format!("no {engine} on PATH")),
            Err(Silence::Broken(why)) => problems.push(why),
        }
    }
    Check::warning(
        "container engine",
        Gpu,
        problems.join("; "),
        "nothing needs a container: `reproduce` measures with the programs of this machine then; to use one install podman \
         (Debian, Ubuntu: `apt-get install podman`)",
    )
}

fn python() -> Check {
    const FIX: &str = "`python3 -m pip install torch transformers` in a virtual environment";
    let arguments = ["-c", VERSIONS].into_iter().chain(PACKAGES).collect::<Vec<_>>();
    match probe::ask("python3", &arguments) {
        Ok(answer) if answer.success => packages(&answer.out),
        Ok(answer) => Check::failed("python", Gpu, format!("python3 failed: {}", answer.line()), FIX),
        Err(Silence::Absent) => Check::failed("python", Gpu, "there is no python3 on PATH", FIX),
        Err(Silence::Broken(why)) => Check::failed("python", Gpu, why, FIX),
    }
}

/// Reads lines of a name and a version, or `-`.
fn packages(text: &str) -> Check {
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.trim().split_once(' ')).collect();
    let shown = |(name, version): &(&str, &str)| match *version {
        "-" => format!("no {name}"),
        version => format!("{name} {version}"),
    };
    let found = lines.iter().map(shown).collect::<Vec<_>>().join(", ");
    if lines.iter().any(|(name, version)| *name == "torch" && version.ends_with("+cpu")) {
        let fix = "`python3 -m pip install torch` from the index of your CUDA version (https://pytorch.org/get-started)";
        return Check::failed("python", Gpu, format!("{found}: torch is built without CUDA"), fix);
    }
    let missing: Vec<&str> = lines.iter().filter(|line| line.1 == "-").map(|line| line.0).collect();
    if missing.is_empty() && lines.len() == PACKAGES.len() {
        return Check::ok("python", Gpu, found);
    }
    let fix = format!("`python3 -m pip install {}` in a virtual environment", missing.join(" "));
    Check::failed("python", Gpu, found, &fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Status;

    const TWO: &str = "0, NVIDIA H200, GPU-aaaa, 580.159, Default, 143771 MiB, Disabled\n\
        1, NVIDIA A100-SXM4-40GB, GPU-bbbb, 580.159, Prohibited, 40960 MiB, Enabled\n";

    #[test]
    fn what_is_wrong_with_a_device_is_named() {
        let devices = nvidia::parse(TWO);
        let good = device(&devices[0]);
        assert!(good.iter().all(|check| check.status == Status::Ok), "{good:?}");
        assert_eq!(good[0].found, "NVIDIA H200, GPU-aaaa, 140.4 GiB");
        let bad = device(&devices[1]);
        let statuses: Vec<Status> = bad.iter().map(|check| check.status).collect();
        assert_eq!(statuses, [Status::Warning, Status::Failed, Status::Failed]);
        assert!(bad[1].fix.as_ref().unwrap().contains("nvidia-smi -i GPU-bbbb -c DEFAULT"));
        assert_eq!(driver(&devices).status, Status::Ok);
        let old = Device { driver: "470.82.01".to_owned(), ..devices[0].clone() };
        assert_eq!(driver(&[old]).status, Status::Failed);
    }

    #[test]
    fn a_device_is_chosen_by_uuid() {
        let devices = nvidia::parse(TWO);
        let status = |visible| choice(&devices, visible).status;
        assert_eq!(status(Some("GPU-bbbb")), Status::Ok);
        assert_eq!(status(Some("GPU-cccc")), Status::Failed);
        assert_eq!(status(Some("")), Status::Failed);
        assert_eq!((status(Some("0")), status(None)), (Status::Warning, Status::Warning));
        assert_eq!(choice(&devices[..1], None).status, Status::Ok);
    }

    #[test]
    fn missing_packages_are_named() {
        assert_eq!(packages("torch 2.9.0+cu128\ntransformers 4.57.1\n").status, Status::Ok);
        let check = packages("torch 2.9.0+cpu\ntransformers 4.57.1\n");
        assert!(check.status == Status::Failed && check.found.ends_with("built without CUDA"), "{check:?}");
        let check = packages("torch -\ntransformers 4.57.1\n");
        assert_eq!(check.found, "no torch, transformers 4.57.1");
        assert!(check.fix.unwrap().contains("pip install torch`"));
    }
}
