//! `cargo xtask container`: the image, and verbs in it.

mod arguments;
mod engine;

use crate::backend::{self, Gpu};
use crate::child::status;
use anyhow::{Context, Result, bail, ensure};
pub use engine::Engine;
use flags::{
    Backend, Container, ContainerBuild, ContainerHost, ContainerImage, ContainerReproduce, Reproduce,
};
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xshell::{Shell, cmd};

/// What an image for a GPU runs on: a glibc that is not older than that of the compiler's image, and CUDA's environment.
const GPU_BASE: &str = "docker.io/nvidia/cuda:12.8.1-base-ubuntu24.04";

/// What the programs import, in the versions that the kernels were recorded with.
const GPU_PACKAGES: &str = "torch~=2.11.0 torchvision transformers~=5.17.0";

/// Runs the verb.
///
/// # Errors
/// No engine works, or it cannot be started.
pub fn run(flags: &Container) -> Result<u8> {
    match flags {
        Container::Build(flags) => build(&Engine::find(flags.image.engine)?, flags),
        Container::Run(flags) => {
            start(&Engine::find(flags.host.image.engine)?, &flags.host, flags.verb.clone())
        }
        Container::Reproduce(flags) => reproduce(flags),
    }
}

/// Builds the image, and prints what it cost.
fn build(engine: &Engine, flags: &ContainerBuild) -> Result<u8> {
    let folder = repository();
    ensure!(
        folder.join("Dockerfile").exists(),
        "there is no {}; build the image from a clone of the repository",
        folder.join("Dockerfile").display()
    );
    let image = &flags.image.image;
    let mut command = Command::new(engine.program);
    command.arg("build").arg("--tag").arg(image);
    command.arg("--build-arg").arg(format!("REVISION={}", revision(&folder)));
    for (name, value) in [("BASE", &flags.base), ("RUST", &flags.rust), ("PACKAGES", &flags.packages)] {
        if let Some(value) = value {
            command.arg("--build-arg").arg(format!("{name}={value}"));
        }
    }
    command.args(&flags.rest).arg(&folder);
    let began = Instant::now();
    let code = status(command)?;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    if code != 0 {
        eprintln!("error: {} build failed after {minutes:.1} minutes", engine.program);
        return Ok(code);
    }
    let bytes = inspect(engine, image, "{{.Size}}")?.and_then(|size| size.parse::<u64>().ok());
    let size = bytes.map_or("unknown".to_owned(), |bytes| format!("{} MB", bytes / 1_000_000));
    println!("image {image}: {size}, built in {minutes:.1} minutes by {} {}", engine.program, engine.version);
    Ok(0)
}

/// An engine that can pass a GPU through.
///
/// # Errors
/// Why there is none, in a line.
pub fn gpu_engine() -> Result<Engine, String> {
    let engine = Engine::find(None).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    })?;
    engine.passes_gpus().map(|()| engine)
}

/// `reproduce` on a GPU in the container, as the default where that is possible; says so in a line.
///
/// # Errors
/// As [`run`].
pub fn measure(flags: &Reproduce, gpu: &Gpu, engine: &Engine) -> Result<u8> {
    eprintln!(
        "in a container, by {} {}; --native runs the programs of this machine instead",
        engine.program, engine.version
    );
    let host = ContainerHost { gpu: Some(gpu.uuid.clone()), ..ContainerHost::default() };
    reproduce(&ContainerReproduce { host, reproduce: Reproduce { backend: Backend::Gpu, ..flags.clone() } })
}

/// `reproduce` in the container, with the same answers to `--backend` as outside.
fn reproduce(flags: &ContainerReproduce) -> Result<u8> {
    let mut flags = flags.clone();
    if flags.reproduce.backend != Backend::Sim && flags.host.gpu.is_none() {
        let engine = Engine::find(flags.host.image.engine)?;
        let found = backend::find(&flags.reproduce);
        let found = found.and_then(|gpu| engine.passes_gpus().map(|()| gpu));
        match (found, flags.reproduce.backend) {
            (Ok(gpu), _) => flags.host.gpu = Some(gpu.uuid),
            (Err(reason), Backend::Gpu) => bail!(
                "--backend gpu, but there is no GPU for a container ({reason}); `cargo xtask doctor` says what is missing"
            ),
            // The run in the container says that it is simulated.
            (Err(_), _) => {}
        }
    }
    // There is no engine to look for in the container.
    flags.reproduce.native |= flags.host.gpu.is_some();
    if flags.host.gpu.is_some() && flags.host.image.image == flags::IMAGE {
        // Another image: with CUDA's and PyTorch's libraries it is twenty times as large.
        flags.host.image.image = format!("{}-gpu", flags::IMAGE);
    }
    let flags = &flags;
    if let Some(out) = &flags.reproduce.out {
        ensure!(
            out.starts_with("results"),
            "--out {}: a container keeps only what is below results; say --out results/NAME, and --results DIR to have \
             that folder elsewhere",
            out.display()
        );
    }
    let engine = Engine::find(flags.host.image.engine)?;
    let ContainerImage { engine: asked, image } = flags.host.image.clone();
    match inspect(&engine, &image, "{{index .Config.Labels \"org.opencontainers.image.revision\"}}")? {
        None => {
            eprintln!("there is no image {image} yet");
            let gpu = |text: &str| flags.host.gpu.is_some().then(|| text.to_owned());
            let flags = ContainerBuild {
                image: ContainerImage { engine: asked, image },
                base: gpu(GPU_BASE),
                rust: None,
                packages: gpu(GPU_PACKAGES),
                rest: Vec::new(),
            };
            match build(&engine, &flags)? {
                0 => {}
                code => return Ok(code),
            }
        }
        Some(built) => {
            let here = revision(&repository());
            if built != here && here != "unknown" {
                eprintln!(
                    "note: image {image} was built from {built}, the sources here are {here}; `cargo xtask container \
                     build` renews it"
                );
            }
        }
    }
    let verb = [OsString::from("reproduce")].into_iter().chain(flags.reproduce.arguments());
    start(&engine, &flags.host, verb.collect())
}

/// Runs a verb in a container, to its end.
fn start(engine: &Engine, host: &ContainerHost, verb: Vec<OsString>) -> Result<u8> {
    let image = &host.image.image;
    ensure!(
        inspect(engine, image, "{{.Id}}")?.is_some(),
        "{} has no image {image}: make it with `cargo xtask container build`",
        engine.program
    );
    let results = results(&host.results)?;
    let (user, hand_over) = arguments::user(engine.rootless, own_ids()?, sudo_ids());
    if hand_over {
        give(&results, user).with_context(|| format!("cannot change the owner of {}", results.display()))?;
    }
    let mps = probe::nvidia::mps_folder();
    let arguments = arguments::run(
        engine,
        &arguments::Host {
            image,
            results: &results,
            user,
            gpu: host.gpu.as_deref(),
            mps: mps.as_deref(),
            shm_size: &host.shm_size,
            terminal: std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
        },
    )?;
    let mut command = Command::new(engine.program);
    command.args(arguments).args(verb);
    let code = status(command)?;
    // 125: the engine itself failed, and has said how.
    if code == 125 && host.gpu.is_some() {
        eprintln!(
            "help: passing a GPU through needs the NVIDIA container toolkit: `sudo nvidia-ctk cdi generate \
             --output=/etc/cdi/nvidia.yaml` for podman, `sudo nvidia-ctk runtime configure` and a restart for docker"
        );
    }
    Ok(code)
}

/// The top folder of the clone that this binary was built in.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf()
}

/// The revision of the clone, with `-dirty` when tracked files differ; `unknown` without git.
fn revision(folder: &Path) -> String {
    let Ok(sh) = Shell::new() else { return "unknown".to_owned() };
    let describe = cmd!(sh, "git -C {folder} describe --always --dirty --abbrev=40 --exclude=*");
    describe.quiet().ignore_stderr().read().unwrap_or_else(|_| "unknown".to_owned())
}

/// A fact about an image; none when there is no such image.
fn inspect(engine: &Engine, image: &str, format: &str) -> Result<Option<String>> {
    let answer = Command::new(engine.program)
        .args(["image", "inspect", "--format", format, image])
        .output()
        .with_context(|| format!("cannot start {}", engine.program))?;
    let text = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    Ok(answer.status.success().then_some(text))
}

/// The results folder as an absolute path; made here, as docker would make it as root.
fn results(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    fs::canonicalize(folder).with_context(|| format!("cannot find the folder {}", folder.display()))
}

/// This process's user and group.
fn own_ids() -> Result<arguments::Ids> {
    let sh = Shell::new()?;
    let id = |flag: &str| -> Result<u32> {
        let text = cmd!(sh, "id {flag}").quiet().read()?;
        text.parse().with_context(|| format!("`id {flag}` answers {text}"))
    };
    Ok((id("-u")?, id("-g")?))
}

/// Who called sudo.
fn sudo_ids() -> Option<arguments::Ids> {
    let id = |name| std::env::var(name).ok()?.parse().ok();
    Some((id("SUDO_UID")?, id("SUDO_GID")?))
}

/// Gives a folder and everything in it to a user; links are given, not followed.
#[cfg(unix)]
fn give(folder: &Path, (user, group): arguments::Ids) -> std::io::Result<()> {
    std::os::unix::fs::lchown(folder, Some(user), Some(group))?;
    if fs::symlink_metadata(folder)?.is_dir() {
        for entry in fs::read_dir(folder)? {
            give(&entry?.path(), (user, group))?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn give(_: &Path, _: arguments::Ids) -> std::io::Result<()> {
    Ok(())
}
