//! The systems under comparison, by name.

use anyhow::{Context, Result, bail};
pub use sched::gate::Level;
use serde::{Deserialize, Serialize};

/// How the device is shared between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Substrate {
    /// Separate contexts that take turns.
    Contexts,
    /// One scheduling domain for all clients (MPS).
    Mps,
}

/// One system, with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum System {
    NoSharing,
    TimeSlicing,
    Mps,
    MpsPriority,
    Tgs(Substrate),
    /// The port behind the published TGS rows: stream priorities and batches of 20, no rate control.
    TgsArtifact,
    Tally(Tally),
    Gate(Gate),
}

/// Which parts of upstream's scheduler are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TallyMode {
    /// Priority scheduling with transformed kernels.
    Full,
    /// Priority scheduling, original kernels only.
    NoTransform,
    /// Transformation and scheduling off: stream priorities only.
    NoScheduling,
}

/// Upstream's central scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tally {
    pub mode: TallyMode,
    /// Turnaround-latency threshold, ns.
    pub threshold_ns: u64,
}

/// Our in-process gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    pub substrate: Substrate,
    pub level: Level,
    /// Best-effort launches in flight.
    pub depth: u32,
    /// How long the high-priority side must be idle before best effort may launch, ns.
    pub idle_wait_ns: u64,
}

/// Tally with another turnaround-latency threshold: `tally:threshold_ms=0.1`.
const THRESHOLD: &str = "tally:threshold_ms=";

fn threshold_ns(text: &str) -> Option<u64> {
    let ns = text.parse::<f64>().ok()? * 1e6;
    (0.5..=1e9).contains(&ns).then(|| ns.round() as u64)
}

impl System {
    /// Names that [`System::parse`] accepts, in the order of the tables.
    pub const NAMES: &'static [&'static str] = &[
        "no-sharing",
        "time-slicing",
        "mps",
        "mps-priority",
        "tgs",
        "tgs-mps",
        "tgs-artifact",
        "tally",
        "tally-no-transform",
        "tally-no-scheduling",
        "gate",
        "gate-cubin",
        "gate-mps",
        "gate-mps-2",
        "gate-mps-8",
    ];

    /// A system by name with its default parameters.
    ///
    /// # Errors
    /// An unknown name; the message lists the known ones.
    pub fn parse(name: &str) -> Result<System> {
        // The threshold the published runs used (10^-1.5 ms), and the gate as it was measured.
        let tally = |mode| System::Tally(Tally { mode, threshold_ns: 31_600 });
        let gate =
            |substrate, level, depth| System::Gate(Gate { substrate, level, depth, idle_wait_ns: 100_000 });
        Ok(match name {
            "no-sharing" => System::NoSharing,
            "time-slicing" => System::TimeSlicing,
            "mps" => System::Mps,
            "mps-priority" => System::MpsPriority,
            "tgs" => System::Tgs(Substrate::Contexts),
            "tgs-mps" => System::Tgs(Substrate::Mps),
            "tgs-artifact" => System::TgsArtifact,
            "tally" => tally(TallyMode::Full),
            "tally-no-transform" => tally(TallyMode::NoTransform),
            "tally-no-scheduling" => tally(TallyMode::NoScheduling),
            "gate" => gate(Substrate::Contexts, Level::Launch, 1),
            "gate-cubin" => gate(Substrate::Contexts, Level::Cubin, 2),
            "gate-mps" => gate(Substrate::Mps, Level::Launch, 1),
            "gate-mps-2" => gate(Substrate::Mps, Level::Launch, 2),
            "gate-mps-8" => gate(Substrate::Mps, Level::Launch, 8),
            other if other.starts_with(THRESHOLD) => System::Tally(Tally {
                mode: TallyMode::Full,
                threshold_ns: threshold_ns(&other[THRESHOLD.len()..]).with_context(|| {
                    format!("`{other}`: the threshold must be above 0 and at most 1000 ms, to the nanosecond")
                })?,
            }),
            other => bail!("unknown system `{other}`; known systems: {}", System::NAMES.join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_takes_a_threshold() {
        let tally = |name| match System::parse(name) {
            Ok(System::Tally(tally)) => tally.threshold_ns,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(tally("tally"), tally("tally:threshold_ms=0.0316"));
        assert_eq!(tally("tally:threshold_ms=3.16"), 3_160_000);
        for bad in ["0", "-1", "x", "", "inf", "nan", "2000"] {
            let error = System::parse(&format!("tally:threshold_ms={bad}")).unwrap_err();
            assert!(error.to_string().contains("threshold"), "{bad}: {error}");
        }
    }
}
