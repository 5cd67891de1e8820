//! Which device a daemon is for. It is named by UUID everywhere: CUDA and nvidia-smi count in different orders.

use anyhow::{Result, anyhow, bail};
use probe::nvidia::{self, Device};

/// What `--gpu` says for no device check at all.
pub const NONE: &str = "none";

/// The device of `--gpu`, else of CUDA_VISIBLE_DEVICES, else the only one. `None` if none is asked for: by `--gpu none`,
/// or because there is none and a driver of the user's own (`TALLY_DRIVER`) stands in for it.
///
/// # Errors
/// There is none, several and none chosen, or the chosen one is not there.
pub fn choose(flag: Option<&str>, own_driver: bool) -> Result<Option<Device>> {
    if flag == Some(NONE) {
        return Ok(None);
    }
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    match nvidia::devices() {
        Err(_) if own_driver && flag.is_none() => Ok(None),
        Err(why) => bail!(
            "{why}; install the NVIDIA driver so that `nvidia-smi` lists a device, or say --gpu none for programs that \
             use a driver of their own"
        ),
        Ok(devices) => select(&devices, flag, visible.as_deref()).map(Some),
    }
}

fn select(devices: &[Device], flag: Option<&str>, visible: Option<&str>) -> Result<Device> {
    let how = || {
        let lines = devices.iter().map(|device| format!("\n  {}  {}", device.uuid, device.name));
        format!("choose one with --gpu UUID or CUDA_VISIBLE_DEVICES=UUID:{}", lines.collect::<String>())
    };
    let (chosen, origin) = match (flag, visible) {
        (Some(uuid), _) => (uuid, "--gpu"),
        (None, Some("")) => bail!("CUDA_VISIBLE_DEVICES is empty, which hides every device; {}", how()),
        (None, Some(list)) => (list, "CUDA_VISIBLE_DEVICES"),
        (None, None) => match devices {
            [only] => return Ok(only.clone()),
            several => bail!("{} devices and none chosen; {}", several.len(), how()),
        },
    };
    if chosen.contains(',') {
        bail!("{origin} names several devices ({chosen}), and programs share one; {}", how());
    }
    if !chosen.starts_with("GPU-") {
        // With one device an index can only mean that one.
        return match devices {
            [only] if chosen == "0" => Ok(only.clone()),
            _ => Err(anyhow!(
                "{origin} is {chosen}: a device is named by its UUID here, as CUDA and nvidia-smi count differently; {}",
                how()
            )),
        };
    }
    let mut found = devices.iter().filter(|device| device.uuid.starts_with(chosen));
    match (found.next(), found.next()) {
        (Some(device), None) => Ok(device.clone()),
        (Some(_), Some(_)) => {
            Err(anyhow!("{origin} is {chosen}, which several devices begin with; {}", how()))
        }
        (None, _) => Err(anyhow!("{origin} is {chosen}, which is not here; {}", how())),
    }
}

/// Checks that the device's compute mode lets programs share it. The mode itself is never changed.
///
/// # Errors
/// It forbids them, with the repair.
pub fn check_mode(device: &Device, mps: bool) -> Result<()> {
    let repair = format!("`sudo nvidia-smi -i {} -c DEFAULT`", device.uuid);
    match device.compute_mode.as_str() {
        "Prohibited" => {
            bail!("the compute mode of {} is Prohibited: no program may use it; {repair}", device.uuid)
        }
        "Exclusive_Process" if !mps => bail!(
            "the compute mode of {} is Exclusive_Process: programs can only share it through MPS; choose a policy over \
             MPS such as gate-mps, or {repair}",
            device.uuid
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<Device> {
        nvidia::parse(
            "0, NVIDIA H200, GPU-aaaa, 580.159, Default, 143771 MiB, Disabled\n\
             1, NVIDIA A100, GPU-abbb, 580.159, Prohibited, 40960 MiB, Disabled\n",
        )
    }

    #[test]
    fn the_flag_goes_first_then_the_variable_then_the_only_one() {
        let devices = two();
        let uuid = |flag, visible| select(&devices, flag, visible).map(|device| device.uuid).unwrap();
        assert_eq!(uuid(Some("GPU-abbb"), Some("GPU-aaaa")), "GPU-abbb");
        assert_eq!(uuid(None, Some("GPU-aa")), "GPU-aaaa");
        assert_eq!(select(&devices[..1], None, None).unwrap().uuid, "GPU-aaaa");
        assert_eq!(select(&devices[..1], None, Some("0")).unwrap().uuid, "GPU-aaaa");
    }

    #[test]
    fn what_is_not_one_device_lists_them() {
        let devices = two();
        let cases = [
            (None, None, "2 devices and none chosen; choose one with --gpu UUID"),
            (None, Some(""), "hides every device"),
            (None, Some("0"), "named by its UUID"),
            (None, Some("GPU-aaaa,GPU-abbb"), "several devices"),
            (Some("GPU-a"), None, "several devices begin with"),
            (Some("GPU-c"), None, "is not here"),
        ];
        for (flag, visible, text) in cases {
            let error = select(&devices, flag, visible).unwrap_err().to_string();
            assert!(error.contains(text) && error.ends_with("\n  GPU-abbb  NVIDIA A100"), "{error}");
        }
    }

    #[test]
    fn a_mode_that_forbids_sharing_is_an_error() {
        let mut device = two()[1].clone();
        assert!(check_mode(&device, true).unwrap_err().to_string().contains("-i GPU-abbb -c DEFAULT"));
        device.compute_mode = "Exclusive_Process".to_owned();
        assert!(check_mode(&device, false).unwrap_err().to_string().contains("gate-mps"));
        assert!(check_mode(&device, true).is_ok());
    }
}
