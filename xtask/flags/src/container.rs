//! The command line of `cargo xtask container`.

use crate::Reproduce;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// The image that the three verbs share. The name is local on purpose: nobody can publish an image that it finds.
pub const IMAGE: &str = "localhost/gpu-sharing-artifact";

/// A container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Podman,
    Docker,
}

/// The verbs of `container`.
#[derive(Subcommand, Clone, Debug)]
pub enum Container {
    /// Build the image: about 6 minutes on 2 cores
    Build(ContainerBuild),
    /// Run any verb in the container, e.g. `container run verify --run results/h200-sim`
    Run(ContainerRun),
    /// `reproduce` in the container; builds the image when there is none
    Reproduce(ContainerReproduce),
}

/// Which engine and image.
#[derive(Args, Clone, Debug)]
pub struct ContainerImage {
    /// The engine [default: podman when it works, else docker]
    #[arg(long, value_enum)]
    pub engine: Option<Engine>,

    /// The image's name
    #[arg(long, value_name = "NAME", default_value = IMAGE)]
    pub image: String,
}

/// Flags of `container build`.
#[derive(Args, Clone, Debug)]
pub struct ContainerBuild {
    #[command(flatten)]
    pub image: ContainerImage,

    /// The image to run on [default: Debian; see the Dockerfile for a GPU host]
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,

    /// The image to compile with [default: the official Rust image]
    #[arg(long, value_name = "IMAGE")]
    pub rust: Option<String>,

    /// Python packages to install for a GPU, in pip's form; the base needs apt then [default: none]
    #[arg(long, value_name = "PACKAGES")]
    pub packages: Option<String>,

    /// Further arguments of the engine's own `build`
    #[arg(last = true, value_name = "ENGINE ARGUMENTS")]
    pub rest: Vec<OsString>,
}

/// The folder of results, and the size of /dev/shm.
const RESULTS: &str = "results";
const SHM_SIZE: &str = "1g";

impl Default for ContainerHost {
    fn default() -> ContainerHost {
        ContainerHost {
            image: ContainerImage { engine: None, image: IMAGE.to_owned() },
            results: RESULTS.into(),
            gpu: None,
            shm_size: SHM_SIZE.to_owned(),
        }
    }
}

/// What a container gets of the host.
#[derive(Args, Clone, Debug)]
pub struct ContainerHost {
    #[command(flatten)]
    pub image: ContainerImage,

    /// The folder of this machine that is `results` in the container
    #[arg(long, value_name = "DIR", default_value = RESULTS)]
    pub results: PathBuf,

    /// Pass GPUs through: `all`, an index or a UUID [default: for `reproduce`, the one that it measures on]
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,

    /// Size of /dev/shm, which the loaders of training jobs fill
    #[arg(long, value_name = "SIZE", default_value = SHM_SIZE)]
    pub shm_size: String,
}

/// Flags of `container run`.
#[derive(Args, Clone, Debug)]
pub struct ContainerRun {
    #[command(flatten)]
    pub host: ContainerHost,

    /// The verb and its flags
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "VERB")]
    pub verb: Vec<OsString>,
}

/// Flags of `container reproduce`.
#[derive(Args, Clone, Debug)]
pub struct ContainerReproduce {
    #[command(flatten)]
    pub host: ContainerHost,

    #[command(flatten)]
    pub reproduce: Reproduce,
}
