//! The devices that nvidia-smi lists.

use crate::{Answer, Silence};
use std::path::PathBuf;

/// What nvidia-smi is asked for, in the order of [`Device`].
const FIELDS: &str = "--query-gpu=index,name,uuid,driver_version,compute_mode,memory.total,mig.mode.current";

/// One device, as nvidia-smi tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub index: String,
    pub name: String,
    pub uuid: String,
    pub driver: String,
    pub compute_mode: String,
    pub memory: String,
    pub mig: String,
}

/// All devices, in the order of nvidia-smi, which is not that of CUDA.
///
/// # Errors
/// Why there is none, in words.
pub fn devices() -> Result<Vec<Device>, String> {
    read(crate::ask("nvidia-smi", &[FIELDS, "--format=csv,noheader"]))
}

/// The pipe folder of an MPS control daemon that every CUDA program started from here goes through unless told otherwise,
/// if one is there: that of `CUDA_MPS_PIPE_DIRECTORY`, else NVIDIA's usual one.
pub fn mps_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map_or("/tmp/nvidia-mps".into(), PathBuf::from);
    folder.join("control").exists().then_some(folder)
}

/// The devices of a text; lines that are none are left out.
pub fn parse(text: &str) -> Vec<Device> {
    text.lines().filter_map(line).collect()
}

/// Reads the answer of nvidia-smi, which reports errors on stdout.
fn read(answer: Result<Answer, Silence>) -> Result<Vec<Device>, String> {
    let answer = answer.map_err(|silence| match silence {
        Silence::Absent => "there is no nvidia-smi on PATH".to_owned(),
        Silence::Broken(why) => why,
    })?;
    if !answer.success {
        return Err(format!("nvidia-smi failed: {}", answer.line()));
    }
    let devices = parse(&answer.out);
    if devices.is_empty() { Err("nvidia-smi finds no device".to_owned()) } else { Ok(devices) }
}

fn line(text: &str) -> Option<Device> {
    let fields: Vec<String> = text.split(',').map(|field| field.trim().to_owned()).collect();
    let [index, name, uuid, driver, compute_mode, memory, mig] = <[String; 7]>::try_from(fields).ok()?;
    Some(Device { index, name, uuid, driver, compute_mode, memory, mig })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(success: bool, out: &str) -> Result<Answer, Silence> {
        Ok(Answer { success, out: out.to_owned(), err: String::new() })
    }

    #[test]
    fn no_device_has_its_reason() {
        assert_eq!(read(Err(Silence::Absent)).unwrap_err(), "there is no nvidia-smi on PATH");
        assert_eq!(read(answer(true, "No devices were found\n")).unwrap_err(), "nvidia-smi finds no device");
        let lost = answer(false, "\nFailed to initialize NVML: Driver/library version mismatch\n");
        assert!(read(lost).unwrap_err().contains("version mismatch"));
    }
}
