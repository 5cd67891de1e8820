//! Which machine this is.

use anyhow::{Result, anyhow, bail};
use doctor::probe::{Answer, Silence, ask, ask_within};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// What starts and stops MPS.
pub const MPS: &str = "nvidia-cuda-mps-control";
/// Why what needs MPS is skipped.
pub const NO_MPS: &str = "there is no nvidia-cuda-mps-control on PATH";

/// A device as its driver's tool names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    pub name: String,
    pub uuid: String,
    pub driver: String,
    /// As set now; the check must leave it as it was.
    pub compute_mode: String,
}

impl Gpu {
    /// The name of its record: `nvidia-h200`.
    pub fn id(&self) -> String {
        let word = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        self.name.chars().map(word).collect()
    }
}

/// What is known of the machine beside its GPU; a part that cannot be found out is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Software {
    pub os: Option<String>,
    pub libc: Option<String>,
    pub cpu: Option<String>,
    pub cores: Option<usize>,
    pub python: Option<String>,
    pub torch: Option<String>,
    pub cuda: Option<String>,
    pub cudnn: Option<String>,
    pub transformers: Option<String>,
}

/// The device to check on.
///
/// # Errors
/// There is none, or several and none was chosen; the message says why and what to do.
pub fn gpu(chosen: Option<&str>) -> Result<Gpu> {
    let fields = "--query-gpu=name,uuid,driver_version,compute_mode";
    choose(devices(ask("nvidia-smi", &[fields, "--format=csv,noheader"]))?, chosen)
}

fn devices(answer: Result<Answer, Silence>) -> Result<Vec<Gpu>> {
    let answer = answer.map_err(|silence| match silence {
        Silence::Absent => anyhow!("no usable GPU: there is no nvidia-smi on PATH"),
        Silence::Broken(why) => anyhow!("no usable GPU: {why}"),
    })?;
    let found: Vec<Gpu> = answer.out.lines().filter_map(device).collect();
    if !answer.success || found.is_empty() {
        bail!("no usable GPU: nvidia-smi says: {}", answer.line());
    }
    Ok(found)
}

fn device(line: &str) -> Option<Gpu> {
    let fields: Vec<String> = line.split(',').map(|field| field.trim().to_owned()).collect();
    let [name, uuid, driver, compute_mode] = <[String; 4]>::try_from(fields).ok()?;
    Some(Gpu { name, uuid, driver, compute_mode })
}

fn choose(found: Vec<Gpu>, chosen: Option<&str>) -> Result<Gpu> {
    let listed =
        || found.iter().map(|gpu| format!("{} ({})", gpu.uuid, gpu.name)).collect::<Vec<_>>().join(", ");
    match chosen {
        Some(uuid) => match found.iter().find(|gpu| gpu.uuid == uuid) {
            Some(gpu) => Ok(gpu.clone()),
            None => bail!("--gpu {uuid}: there is no such device; there are {}", listed()),
        },
        None if found.len() == 1 => Ok(found[0].clone()),
        None => bail!("{} GPUs and none chosen: say --gpu UUID; there are {}", found.len(), listed()),
    }
}

/// Versions are asked of the packages themselves, which takes some seconds.
const VERSIONS: &str = "\
import platform, torch
print('python', platform.python_version())
print('torch', torch.__version__)
print('cuda', torch.version.cuda)
print('cudnn', torch.backends.cudnn.version())
try:
    import transformers
    print('transformers', transformers.__version__)
except ImportError:
    pass
";

/// Looks at the machine.
pub fn software(python: &Path) -> Software {
    let file = |path: &str| std::fs::read_to_string(path).ok();
    let line = |text: &str, key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(found.trim_start_matches([' ', '\t', ':', '=']).trim_matches('"').to_owned())
    };
    let answer = ask_within(&python.to_string_lossy(), &["-c", VERSIONS], Duration::from_secs(60));
    let versions = answer.map(|answer| answer.out).unwrap_or_default();
    let version = |name: &str| line(&versions, &format!("{name} ")).filter(|value| value != "None");
    Software {
        os: file("/etc/os-release").and_then(|text| line(&text, "PRETTY_NAME")),
        libc: ask("getconf", &["GNU_LIBC_VERSION"]).ok().map(|answer| answer.line().to_owned()),
        cpu: file("/proc/cpuinfo").and_then(|text| line(&text, "model name")),
        cores: std::thread::available_parallelism().ok().map(usize::from),
        python: version("python"),
        torch: version("torch"),
        cuda: version("cuda"),
        cudnn: version("cudnn"),
        transformers: version("transformers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(success: bool, out: &str) -> Result<Answer, Silence> {
        Ok(Answer { success, out: out.to_owned(), err: String::new() })
    }

    const TWO: &str =
        "NVIDIA H200, GPU-aaaa, 580.159, Default\nNVIDIA A100-SXM4-40GB, GPU-bbbb, 580.159, Default\n";

    #[test]
    fn a_device_is_chosen_where_there_are_several() {
        let found = devices(answer(true, TWO)).unwrap();
        let error = choose(found.clone(), None).unwrap_err().to_string();
        assert!(
            error.contains("2 GPUs and none chosen") && error.contains("GPU-bbbb (NVIDIA A100"),
            "{error}"
        );
        assert_eq!(choose(found.clone(), Some("GPU-bbbb")).unwrap().id(), "nvidia-a100-sxm4-40gb");
        assert!(choose(found.clone(), Some("GPU-c")).unwrap_err().to_string().contains("no such device"));
        assert_eq!(choose(found[..1].to_vec(), None).unwrap().uuid, "GPU-aaaa");
    }

    #[test]
    fn no_device_has_its_reason() {
        let error = |answer| devices(answer).unwrap_err().to_string();
        assert!(error(Err(Silence::Absent)).contains("no nvidia-smi on PATH"));
        assert!(error(answer(false, "No devices were found\n")).contains("No devices were found"));
        assert!(error(answer(true, "")).contains("no answer"));
    }
}
