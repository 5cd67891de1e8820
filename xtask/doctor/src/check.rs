//! One check: what it is for, what was found, and how to repair it.

use serde::Serialize;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Ok,
    /// Something works less well, or could not be looked at.
    Warning,
    Failed,
}

/// What a check is a condition of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Needed {
    /// Every run, so the simulator's too.
    Always,
    /// Runs on a GPU.
    Gpu,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    pub name: String,
    pub status: Status,
    pub needed_for: Needed,
    pub found: String,
    /// How to repair it; never missing when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(name: &str, needed_for: Needed, found: impl Into<String>) -> Check {
        Check { name: name.to_owned(), status: Status::Ok, needed_for, found: found.into(), fix: None }
    }

    /// Not as well as it could be.
    pub fn warning(name: &str, needed_for: Needed, found: impl Into<String>, fix: &str) -> Check {
        Check { status: Status::Warning, fix: Some(fix.to_owned()), ..Check::ok(name, needed_for, found) }
    }

    /// A run would fail.
    pub fn failed(name: &str, needed_for: Needed, found: impl Into<String>, fix: &str) -> Check {
        Check { status: Status::Failed, fix: Some(fix.to_owned()), ..Check::ok(name, needed_for, found) }
    }
}

/// Whether a way to run is open.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitness {
    pub fit: bool,
    /// The names of the checks that stand in the way.
    pub failed: Vec<String>,
}

impl Fitness {
    /// Of the simulator, or of a GPU, which needs all that the simulator needs.
    pub fn of(checks: &[Check], path: Needed) -> Fitness {
        let counts = |check: &&Check| check.needed_for == Needed::Always || path == Needed::Gpu;
        let failed = checks.iter().filter(counts).filter(|check| check.status == Status::Failed);
        let failed: Vec<String> = failed.map(|check| check.name.clone()).collect();
        Fitness { fit: failed.is_empty(), failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_needs_more_than_the_simulator() {
        let checks = [
            Check::ok("a", Needed::Always, ""),
            Check::warning("b", Needed::Always, "", "do"),
            Check::failed("c", Needed::Gpu, "", "do"),
        ];
        assert!(Fitness::of(&checks, Needed::Always).fit);
        assert_eq!(Fitness::of(&checks, Needed::Gpu).failed, ["c"]);
        let checks = [Check::failed("d", Needed::Always, "", "do")];
        assert!(!Fitness::of(&checks, Needed::Always).fit && !Fitness::of(&checks, Needed::Gpu).fit);
    }
}
