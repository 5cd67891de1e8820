//! The GPU that cells are measured on, and the software on it.

use crate::root::Root;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use sim::Machine;
use std::collections::BTreeMap;
use std::time::Duration;

/// What nvidia-smi is asked for, in this order.
const FIELDS: &str = "--query-gpu=name,uuid,driver_version,memory.total,clocks.sm,clocks.mem,power.limit";

/// The longest that a program may take to answer; a first start of Python from a slow disk takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks for versions without importing the packages, which would take seconds.
const VERSIONS: &str = "\
import importlib.metadata as m, platform, sys
print('python', platform.python_version())
for name in sys.argv[1:]:
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        print(name, 'missing')
";

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// As the driver calls it.
    pub name: String,
    pub uuid: String,
    pub driver: String,
    pub memory_bytes: u64,
    /// Versions of Python and of the packages that the programs import.
    pub software: BTreeMap<String, String>,
    /// Clocks and the power limit when the run began, with units in their names.
    pub state: BTreeMap<String, String>,
}

impl Device {
    /// The device with this UUID, else the first that the driver lists.
    ///
    /// # Errors
    /// The driver does not answer, or has no such device.
    pub fn find(uuid: Option<&str>) -> Result<Device> {
        let answer = ask("nvidia-smi", &[FIELDS, "--format=csv,noheader"]);
        let answer = answer.context("nvidia-smi does not answer; `cargo xtask doctor` says what is wrong")?;
        let software = ask("python3", &["-c", VERSIONS, "torch", "transformers"]);
        let software =
            software.context("python3 does not answer; `cargo xtask doctor` says what is wrong")?;
        let mut devices = Vec::new();
        for line in answer.lines().filter(|line| !line.trim().is_empty()) {
            devices.push(parse(line)?);
        }
        let found = devices.into_iter().find(|device| uuid.is_none_or(|uuid| device.uuid == uuid));
        let mut found = match (found, uuid) {
            (Some(device), _) => device,
            (None, Some(uuid)) => {
                bail!("nvidia-smi lists no device {uuid}; `nvidia-smi -L` prints what there is")
            }
            (None, None) => bail!("nvidia-smi finds no device"),
        };
        let versions = software.lines().filter_map(|line| line.split_once(' '));
        found.software = versions.map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
        Ok(found)
    }

    /// Checks that the driver still lists it: a program that had to be killed may have taken the device along.
    ///
    /// # Errors
    /// It does not, in words.
    pub fn answers(&self) -> Result<()> {
        let listed = ask("nvidia-smi", &["--query-gpu=uuid", "--format=csv,noheader"])?;
        ensure!(listed.contains(&self.uuid), "nvidia-smi does not list it any more");
        Ok(())
    }

    /// As in the column `machine`: the name of the model of this GPU in `machines/`, else the driver's name for it.
    pub fn label(&self, root: &Root) -> String {
        let models = flags::Machine::value_variants().iter().map(|machine| root.machine(machine.name()));
        let mut models = models.filter_map(|path| Machine::load(&path).ok());
        models.find(|model| model.product == self.name).map_or_else(|| self.name.clone(), |model| model.name)
    }

    /// Everything about the device and its software that decides what a cell measures.
    pub fn identity(&self) -> String {
        let software: Vec<String> = self.software.iter().map(|(name, v)| format!("{name} {v}")).collect();
        format!("{}, driver {}, {}", self.name, self.driver, software.join(", "))
    }

    /// For `run.toml`. The UUID is nobody's business.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts: BTreeMap<String, String> = [
            ("gpu", self.name.clone()),
            ("driver", self.driver.clone()),
            ("memory_mib", (self.memory_bytes >> 20).to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        facts.extend(self.software.clone());
        facts.extend(self.state.clone());
        facts
    }
}

/// What a program says on stdout. A broken driver lets its own tool hang, so not for ever.
fn ask(program: &str, arguments: &[&str]) -> Result<String> {
    match probe::ask_within(program, arguments, PATIENCE) {
        Ok(answer) if answer.success => Ok(answer.out),
        Ok(answer) => bail!("{program} failed: {}", answer.line()),
        Err(probe::Silence::Absent) => bail!("there is no {program} on PATH"),
        Err(probe::Silence::Broken(why)) => bail!(why),
    }
}

fn parse(line: &str) -> Result<Device> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [name, uuid, driver, memory, sm, mem, power] = fields[..] else {
        bail!("nvidia-smi answers `{line}`, not one value for each of {FIELDS}");
    };
    let mib = memory.strip_suffix(" MiB").and_then(|mib| mib.parse::<u64>().ok());
    let memory_bytes =
        mib.with_context(|| format!("nvidia-smi says that {name} has {memory} of memory"))? << 20;
    ensure!(
        uuid.starts_with("GPU-"),
        "nvidia-smi gives {name} the UUID `{uuid}`, which is none of a whole GPU"
    );
    let state =
        [("sm_clock_mhz", sm, " MHz"), ("memory_clock_mhz", mem, " MHz"), ("power_limit_w", power, " W")];
    // What a device does not tell, as `[N/A]`, is left out.
    let known = state
        .iter()
        .filter_map(|(name, value, unit)| Some(((*name).to_owned(), value.strip_suffix(unit)?.to_owned())));
    Ok(Device {
        name: name.to_owned(),
        uuid: uuid.to_owned(),
        driver: driver.to_owned(),
        memory_bytes,
        software: BTreeMap::new(),
        state: known.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_driver() {
        let line = "NVIDIA H200, GPU-aa-bb, 580.159, 143771 MiB, 345 MHz, 3201 MHz, [N/A]";
        let device = parse(line).unwrap();
        assert_eq!((device.uuid.as_str(), device.memory_bytes), ("GPU-aa-bb", 143_771 << 20));
        assert_eq!(device.state["sm_clock_mhz"], "345");
        assert!(!device.state.contains_key("power_limit_w"));
        assert!(!device.facts().values().any(|value| value.contains("GPU-")));
        let root = Root::find().unwrap();
        assert_eq!(device.label(&root), "h200");
        assert_eq!(Device { name: "Stub GPU".to_owned(), ..device }.label(&root), "Stub GPU");
        for (bad, expected) in [("a, b", "not one value"), (&line.replace("143771 MiB", "?"), "of memory")] {
            assert!(parse(bad).unwrap_err().to_string().contains(expected), "{bad}");
        }
        assert!(parse(&line.replace("GPU-", "MIG-")).is_err());
    }
}
