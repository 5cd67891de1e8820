//! What the daemon, the command line and the interposed programs agree on: the shared segment, the messages on the
//! socket, the settings.
//!
//! **Invariant:** nothing here knows CUDA or a policy. Whoever reads a segment or a message checks its version first.

pub mod clock;
pub mod durations;
pub mod message;
pub mod process;
pub mod report;
pub mod segment;
pub mod settings;

/// Version of the segment's layout and of the messages; both sides refuse another one.
pub const VERSION: u32 = 1;

/// How a client's work is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Latency-critical: never held back.
    High,
    /// Runs when no high-priority client has work on the device.
    BestEffort,
}

impl Priority {
    /// As written in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Priority::High => "high",
            Priority::BestEffort => "best-effort",
        }
    }
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        match text {
            "high" => Ok(Priority::High),
            "best-effort" => Ok(Priority::BestEffort),
            _ => Err(format!("unknown priority `{text}`; known are high and best-effort")),
        }
    }
}
