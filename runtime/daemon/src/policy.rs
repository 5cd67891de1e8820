//! Which systems of the registry can run on a device, and what they need there.

use anyhow::{Result, bail};
use protocol::Priority;
use sched::{Form, Hook, Substrate, System};

/// Runs the program untouched; not a system.
pub const NONE: &str = "none";

/// What is used when nothing is said.
pub const DEFAULT: &str = "gate";

/// A system that the runtime can run.
#[derive(Clone, Debug)]
pub struct Runnable {
    system: System,
    mps: bool,
}

impl Runnable {
    /// Reads `name` or `name:parameter=value,...`.
    ///
    /// # Errors
    /// Not a system, or one that only the simulator has.
    pub fn parse(spec: &str) -> Result<Runnable> {
        let system = System::parse(spec)?;
        if let Some(mps) = over_mps(&system) {
            return Ok(Runnable { system, mps });
        }
        let runnable = |name: &&str| System::parse(name).is_ok_and(|system| over_mps(&system).is_some());
        let runnable: Vec<&str> = System::names().filter(runnable).collect();
        bail!("{} is simulated only; on a device run one of {}", system.name(), runnable.join(", "))
    }

    /// As it was written, in its usual form.
    pub fn name(&self) -> &str {
        self.system.name()
    }

    /// Whether it is the same system with the same parameters.
    pub fn is(&self, other: &Runnable) -> bool {
        let entry = |runnable: &Runnable| runnable.system.entry().name;
        // Not by their written names: a default may be written or not.
        entry(self) == entry(other) && self.system.parameters() == other.system.parameters()
    }

    /// How processes share the device below it, as in reports.
    pub fn substrate(&self) -> &'static str {
        if self.mps { "mps" } else { "contexts" }
    }

    /// Whether clients go through an MPS daemon.
    pub fn needs_mps(&self) -> bool {
        self.mps
    }

    /// Whether it holds best effort back at all.
    pub fn holds_back(&self) -> bool {
        self.system.wiring().hook == Hook::Client
    }

    /// What was asked for and is done in a weaker way, for people.
    pub fn weakened(&self) -> Option<&'static str> {
        (self.system.wiring().form != Form::Original)
            .then_some("kernels are held back at their launch and not interrupted, level=launch")
    }

    /// What a client's environment has to say beside what the daemon answers.
    ///
    /// Drivers accept 0 and 1 as client priorities, 0 first (NVIDIA's documentation of MPS, CUDA_MPS_CLIENT_PRIORITY);
    /// upstream's 1 and 2 are refused by current ones.
    pub fn environment(&self, priority: Priority) -> Option<(&'static str, &'static str)> {
        let level = match priority {
            Priority::High => "0",
            Priority::BestEffort => "1",
        };
        (self.mps && self.system.wiring().high_first).then_some(("CUDA_MPS_CLIENT_PRIORITY", level))
    }
}

/// Whether clients of a system go through MPS; `None` if it cannot run on a device.
fn over_mps(system: &System) -> Option<bool> {
    let wiring = system.wiring();
    if !matches!(wiring.hook, Hook::Client | Hook::None) {
        return None;
    }
    // A domain without the MPS daemon is one context, which only a server of all clients' launches can make.
    match (wiring.substrate, wiring.mps_daemon) {
        (Substrate::Contexts, false) => Some(false),
        (Substrate::Mps, true) => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_in_clients_or_nowhere_is_runnable() {
        let runnable: Vec<&str> = System::names().filter(|name| Runnable::parse(name).is_ok()).collect();
        for name in ["time-slicing", "mps", "mps-priority", "tgs", "tgs-mps", "gate", "gate-mps"] {
            assert!(runnable.contains(&name), "{name}");
        }
        for name in ["tally", "tally-no-scheduling", "partition", "orion", "reef", "tgs-artifact"] {
            let error = Runnable::parse(name).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{name} is simulated only; on a device run one of ")),
                "{error}"
            );
        }
        assert!(Runnable::parse("gaet").unwrap_err().to_string().contains("unknown system `gaet`"));
    }

    #[test]
    fn substrates_and_client_priorities() {
        let of = |spec: &str| Runnable::parse(spec).unwrap();
        assert_eq!((of("gate").substrate(), of("gate-mps").substrate()), ("contexts", "mps"));
        assert_eq!(of("gate").environment(Priority::High), None);
        assert_eq!(of("mps").environment(Priority::High), None);
        let priority = |priority| of("mps-priority").environment(priority).unwrap().1;
        assert_eq!((priority(Priority::High), priority(Priority::BestEffort)), ("0", "1"));
        assert!(of("gate-mps").is(&of("gate-mps:depth=1")) && !of("gate-mps").is(&of("gate-mps:depth=2")));
        assert!(of("gate-cubin").weakened().is_some() && of("gate").weakened().is_none());
    }
}
