//! Chooses between GPU and simulator, and says why.

use anyhow::{Result, bail};
use flags::Backend;
use std::process::Command;

/// Answers to `--backend`: why the simulator is used.
///
/// # Errors
/// A GPU was asked for or found: this version cannot use it and must not pretend to.
pub fn simulator_because(asked: Backend) -> Result<String> {
    if asked == Backend::Sim {
        return Ok("asked for with --backend sim".to_owned());
    }
    match (usable_gpu(), asked) {
        (Ok(gpu), _) => bail!(
            "found a GPU ({gpu}), but this version has no GPU backend yet; pass --backend sim to simulate instead"
        ),
        (Err(reason), Backend::Gpu) => bail!(
            "--backend gpu, but there is no usable GPU ({reason}), and this version has no GPU backend yet; \
             pass --backend sim to simulate instead"
        ),
        (Err(reason), _) => Ok(format!("no usable GPU because {reason}")),
    }
}

/// The first GPU that the driver's own tool lists, or why there is none.
fn usable_gpu() -> Result<String, String> {
    let answer = Command::new("nvidia-smi")
        .args(["--query-gpu=name,driver_version", "--format=csv,noheader"])
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "there is no nvidia-smi on PATH".to_owned(),
            _ => format!("nvidia-smi cannot be started: {error}"),
        })?;
    judge(
        answer.status.success(),
        &String::from_utf8_lossy(&answer.stdout),
        &String::from_utf8_lossy(&answer.stderr),
    )
}

/// Reads the answer of nvidia-smi, which reports errors on stdout.
fn judge(success: bool, stdout: &str, stderr: &str) -> Result<String, String> {
    let first = |text: &str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    let line = first(stdout).or_else(|| first(stderr));
    match line {
        Some(line) if !success => Err(format!("nvidia-smi failed: {line}")),
        None if !success => Err("nvidia-smi failed without a message".to_owned()),
        Some(line) if line.starts_with("No devices") => Err("nvidia-smi finds no device".to_owned()),
        None => Err("nvidia-smi finds no device".to_owned()),
        Some(gpu) => Ok(gpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_the_simulator_looks_for_no_gpu() {
        assert_eq!(simulator_because(Backend::Sim).unwrap(), "asked for with --backend sim");
    }

    #[test]
    fn each_answer_of_nvidia_smi_has_its_reason() {
        assert_eq!(judge(true, "NVIDIA H200, 580.159\n", "").unwrap(), "NVIDIA H200, 580.159");
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
}
