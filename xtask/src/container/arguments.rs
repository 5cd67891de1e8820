//! The arguments of `podman run` and `docker run`. Pure: what it needs of this machine comes in.

use super::engine::Engine;
use anyhow::{Result, bail, ensure};
use std::ffi::OsString;
use std::path::Path;

/// The image's own user; also the container's when the one here is root.
const IMAGE_USER: (u32, u32) = (10001, 10001);

/// A user and a group.
pub type Ids = (u32, u32);

/// What a container gets of this machine.
#[derive(Clone, Debug)]
pub struct Host<'a> {
    pub image: &'a str,
    /// The folder that becomes /results; absolute.
    pub results: &'a Path,
    /// The ids that the container's process has.
    pub user: Ids,
    pub gpu: Option<&'a str>,
    /// The folder that an MPS daemon of this machine listens in.
    pub mps: Option<&'a Path>,
    pub shm_size: &'a str,
    /// Whether a person watches and can type.
    pub terminal: bool,
}

/// The ids to run as, so that results belong to whoever started the run, and that no process is root in the container.
/// `sudo` is who called sudo. The second value says whether the results must be handed over to these ids first.
pub fn user(rootless: bool, own: Ids, sudo: Option<Ids>) -> (Ids, bool) {
    match (own.0, sudo) {
        // Root, but confined to a user namespace: the container's root has no more rights than that.
        (0, _) if rootless => (own, false),
        (0, Some(ids)) if ids.0 != 0 => (ids, true),
        (0, _) => (IMAGE_USER, true),
        _ => (own, false),
    }
}

/// The arguments from `run` to the image.
///
/// # Errors
/// The engine cannot do what is asked for.
pub fn run(engine: &Engine, host: &Host) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |argument: String| arguments.push(argument.into());
    add("run".to_owned());
    add("--rm".to_owned());
    // The image is made here. One of this name from elsewhere would be another one.
    add("--pull=never".to_owned());
    add("--cap-drop=all".to_owned());
    add("--security-opt=no-new-privileges".to_owned());
    if host.terminal {
        add("--interactive".to_owned());
        add("--tty".to_owned());
    }
    let (user, group) = host.user;
    match (engine.is_podman(), engine.rootless) {
        // Root's own ids are the container's already.
        (true, true) if user != 0 => {
            add("--userns=keep-id".to_owned());
            add(format!("--user={user}:{group}"));
        }
        // Rootless docker has one mapping only: its root is the user here, without any privilege.
        (false, true) => add("--user=0:0".to_owned()),
        _ => add(format!("--user={user}:{group}")),
    }
    let Some(results) = host.results.to_str().filter(|path| !path.contains(':')) else {
        bail!(
            "engines cannot mount {}: it has a colon or is no UTF-8; name another one with --results DIR",
            host.results.display()
        );
    };
    // `z` is for SELinux, and means nothing elsewhere.
    add(format!("--volume={results}:/results:z"));
    match host.gpu {
        None => add(format!("--shm-size={}", host.shm_size)),
        Some(gpu) => {
            add(device(engine, gpu)?);
            // What a base without CUDA does not say: MPS and nvidia-smi belong to these two.
            add("--env=NVIDIA_DRIVER_CAPABILITIES=compute,utility".to_owned());
            // SELinux does not know the device files of the driver.
            add("--security-opt=label=disable".to_owned());
            match host.mps {
                None => add(format!("--shm-size={}", host.shm_size)),
                Some(folder) => {
                    // A client of MPS shares memory with the daemon: both need the same /dev/shm, so its size is the
                    // host's. The pipe folder keeps its place.
                    let folder = folder.display();
                    add("--ipc=host".to_owned());
                    add(format!("--volume={folder}:{folder}"));
                    add(format!("--env=CUDA_MPS_PIPE_DIRECTORY={folder}"));
                }
            }
        }
    }
    add(host.image.to_owned());
    Ok(arguments)
}

/// How a GPU is passed through: podman by its CDI name, docker by its own flag.
fn device(engine: &Engine, gpu: &str) -> Result<String> {
    let plain = !gpu.is_empty() && gpu.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    ensure!(plain, "--gpu {gpu}: expected `all`, an index like 0 or a UUID like GPU-1b2c...");
    if engine.is_podman() {
        ensure!(
            engine.is_at_least(4, 1),
            "podman {} cannot pass a GPU through; it needs 4.1 or later",
            engine.version
        );
        return Ok(format!("--device=nvidia.com/gpu={gpu}"));
    }
    Ok(if gpu == "all" { "--gpus=all".to_owned() } else { format!("--gpus=device={gpu}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(program: &'static str, rootless: bool) -> Engine {
        Engine { program, version: "4.3.1".to_owned(), rootless }
    }

    fn host() -> Host<'static> {
        Host {
            image: "image",
            results: Path::new("/here/results"),
            user: (1000, 100),
            gpu: None,
            mps: None,
            shm_size: "1g",
            terminal: false,
        }
    }

    fn line(engine: &Engine, host: &Host) -> String {
        let arguments = run(engine, host).unwrap();
        arguments.iter().map(|a| a.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    const COMMON: &str = "run --rm --pull=never --cap-drop=all --security-opt=no-new-privileges";

    #[test]
    fn results_belong_to_the_user() {
        let rest = "--volume=/here/results:/results:z --shm-size=1g image";
        for (program, rootless, users) in [
            ("podman", true, "--userns=keep-id --user=1000:100"),
            ("podman", false, "--user=1000:100"),
            ("docker", false, "--user=1000:100"),
            ("docker", true, "--user=0:0"),
        ] {
            assert_eq!(line(&engine(program, rootless), &host()), format!("{COMMON} {users} {rest}"));
        }
    }

    #[test]
    fn nobody_is_root_in_the_container() {
        assert_eq!(user(false, (1000, 100), None), ((1000, 100), false));
        assert_eq!(user(false, (1000, 100), Some((7, 7))), ((1000, 100), false));
        assert_eq!(user(false, (0, 0), Some((7, 8))), ((7, 8), true));
        assert_eq!(user(false, (0, 0), None), (IMAGE_USER, true));
        assert_eq!(user(false, (0, 0), Some((0, 0))), (IMAGE_USER, true));
        assert_eq!(user(true, (0, 0), None), ((0, 0), false));
        let confined = Host { user: (0, 0), ..host() };
        assert!(line(&engine("podman", true), &confined).contains("no-new-privileges --user=0:0 --volume"));
    }

    #[test]
    fn a_gpu_by_either_engine() {
        let with = |gpu| Host { gpu: Some(gpu), ..host() };
        assert!(line(&engine("podman", true), &with("all")).contains(" --device=nvidia.com/gpu=all "));
        assert!(line(&engine("docker", false), &with("all")).contains(" --gpus=all "));
        assert!(line(&engine("docker", false), &with("1")).contains(" --gpus=device=1 "));
        assert!(run(&engine("docker", false), &with("1,capabilities=all")).is_err());
        let old = Engine { version: "3.4.4".to_owned(), ..engine("podman", true) };
        let error = run(&old, &with("all")).unwrap_err().to_string();
        assert!(error.contains("3.4.4") && error.contains("4.1"), "{error}");
    }

    #[test]
    fn mps_shares_memory_with_its_daemon() {
        let host = Host { gpu: Some("0"), mps: Some(Path::new("/tmp/nvidia-mps")), ..host() };
        let line = line(&engine("podman", false), &host);
        assert!(line.contains("--ipc=host --volume=/tmp/nvidia-mps:/tmp/nvidia-mps"), "{line}");
        assert!(!line.contains("--shm-size"), "{line}");
    }

    #[test]
    fn a_folder_that_engines_cannot_mount() {
        let host = Host { results: Path::new("/a:b"), ..host() };
        let error = run(&engine("docker", false), &host).unwrap_err().to_string();
        assert!(error.contains("--results DIR"), "{error}");
    }
}
