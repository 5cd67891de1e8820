//! `cargo xtask container`: the image, and verbs in it.

mod arguments;
mod engine;

use crate::backend::simulator_because;
use crate::child::status;
use anyhow::{Context, Result, ensure};
use engine::Engine;
use flags::{Container, ContainerBuild, ContainerHost, ContainerImage, ContainerReproduce};
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xshell::{Shell, cmd};

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
    for (name, value) in [("BASE", &flags.base), ("RUST", &flags.rust)] {
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

/// `reproduce` in the container, with the same answers to `--backend` as outside.
fn reproduce(flags: &ContainerReproduce) -> Result<u8> {
    simulator_because(flags.reproduce.backend)?;
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
            let flags = ContainerBuild {
                image: ContainerImage { engine: asked, image },
                base: None,
                rust: None,
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
    let mps = mps_folder();
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

/// Where the MPS daemon of this machine listens, if one does.
fn mps_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map_or("/tmp/nvidia-mps".into(), PathBuf::from);
    folder.join("control").exists().then_some(folder)
}
