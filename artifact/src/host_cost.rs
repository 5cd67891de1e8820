//! `machines/evidence/host-cost.toml`: what the runtime adds to the calls of the host, as measured. The file is optional.

use crate::root::Root;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sim::Program;
use sim::machine::{Constant, Origin};

/// The file, below the repository.
pub const NAME: &str = "machines/evidence/host-cost.toml";

/// Which part of the runtime costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Seeing a launch, on either side.
    Hook,
    /// Asking the policy about a best-effort launch that it lets go at once.
    Admission,
}

/// One measured cost.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostCost {
    /// The name of the machine's model.
    pub machine: String,
    pub mechanism: Mechanism,
    /// Added to each launch call of the host, ns.
    pub launch_ns: f64,
    /// What measured it, where and when.
    pub source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cost: Vec<HostCost>,
}

/// The costs that were measured on a machine; none without the file.
///
/// # Errors
/// The file cannot be read, by line, or has a cost that is none.
pub fn load(root: &Root, machine: &str) -> Result<Vec<HostCost>> {
    let path = root.path().join(NAME);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = || -> Result<Vec<HostCost>> {
        let file: File = toml::from_str(&bounded::text(&path, bounded::DEFINITION)?)?;
        for cost in &file.cost {
            let HostCost { machine, mechanism, launch_ns, source } = cost;
            ensure!(
                launch_ns.is_finite() && *launch_ns >= 0.0,
                "{machine}, {mechanism:?}: launch_ns = {launch_ns} must be 0 or more"
            );
            ensure!(!source.trim().is_empty(), "{machine}, {mechanism:?}: source is empty");
        }
        Ok(file.cost.into_iter().filter(|cost| cost.machine == machine).collect())
    };
    read().with_context(|| format!("in {}", path.display()))
}

impl HostCost {
    /// As a constant of the machine.
    pub fn constant(&self) -> Constant {
        Constant { value: self.launch_ns, origin: Origin::Measured, source: self.source.clone() }
    }
}

/// Launch calls of one iteration or request; a graph is launched by one.
pub fn launch_calls(program: &Program) -> f64 {
    let calls = |segment: &sim::Segment| {
        let each = if segment.graph { 1 } else { segment.launches.len() };
        f64::from(segment.repeat) * each as f64
    };
    program.segments.iter().map(calls).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(text: &str) -> Result<Vec<HostCost>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("machines/evidence")).unwrap();
        std::fs::write(folder.path().join(NAME), text).unwrap();
        load(&Root::at(folder.path()), "h200")
    }

    #[test]
    fn costs_of_the_machine_alone() {
        let text = "[[cost]]\nmachine = \"h200\"\nmechanism = \"hook\"\nlaunch_ns = 45.5\nsource = \"s\"\n\
            [[cost]]\nmachine = \"other\"\nmechanism = \"admission\"\nlaunch_ns = 1\nsource = \"s\"\n";
        let costs = loaded(text).unwrap();
        assert_eq!((costs.len(), costs[0].mechanism, costs[0].constant().value), (1, Mechanism::Hook, 45.5));
        for (from, to, expected) in [
            ("45.5", "-1", "launch_ns = -1"),
            ("\"hook\"", "\"hok\"", "hok"),
            ("source = \"s\"\n", "source = \" \"\n", "source is empty"),
        ] {
            let error = format!("{:#}", loaded(&text.replacen(from, to, 1)).unwrap_err());
            assert!(error.contains(expected) && error.contains(NAME), "{error}");
        }
        assert_eq!(load(&Root::at(std::path::Path::new("/no/such")), "h200").unwrap(), []);
    }
}
