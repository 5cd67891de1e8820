//! Faults as rows, and what they amount to.

use intervals::percentile;
use serde::{Deserialize, Serialize};

/// How long the other side may stand still after a fault: ten times the 100 ms after which a waiting client looks whether
/// those that it waits for are still there.
pub const BOUND_NS: u64 = 1_000_000_000;

/// One fault.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// What was done to whom.
    pub kind: String,
    pub policy: String,
    pub number: u32,
    /// From the victim's start to the fault, ns; drawn from the seed.
    pub delay_ns: Option<u64>,
    /// Until the other side had done two rounds more, ns; empty if it did not within the limit.
    pub recovery_ns: Option<u64>,
    /// The longest round of the other side meanwhile, ns.
    pub longest_ns: Option<u64>,
    pub held: bool,
    /// What else was seen.
    pub note: String,
}

/// What a kind of fault amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub held: bool,
    pub text: String,
}

/// Sums up the faults of one kind; `planned` of them were meant to be.
pub fn summary(faults: &[Fault], planned: u32) -> Summary {
    let mut recoveries: Vec<u64> = faults.iter().filter_map(|fault| fault.recovery_ns).collect();
    recoveries.sort_unstable();
    let held = faults.iter().filter(|fault| fault.held).count();
    let mut text = format!("{held} of {} held", faults.len());
    if faults.len() < planned as usize {
        text += &format!(" ({planned} planned, the time was over)");
    }
    let ms = |q| percentile(&recoveries, q) / 1e6;
    match recoveries.len() {
        0 => {}
        1 => text += &format!(", the other side went on after {:.1} ms", ms(0.0)),
        _ => {
            let (least, most, median, p90) = (ms(0.0), ms(1.0), ms(0.5), ms(0.9));
            text += &format!(
                ", the other side went on after {least:.1} to {most:.1} ms, median {median:.1}, p90 {p90:.1}"
            );
        }
    }
    if let Some(longest) = faults.iter().filter_map(|fault| fault.longest_ns).max() {
        text += &format!(", its longest round took {:.1} ms", longest as f64 / 1e6);
    }
    if let Some(wrong) = faults.iter().find(|fault| !fault.held) {
        text += &format!("; the first that did not: number {}: {}", wrong.number, wrong.note);
    }
    // Half of them show the behaviour; fewer show that something took far too long.
    Summary { held: held == faults.len() && faults.len() * 2 >= planned.max(1) as usize, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(number: u32, recovery_ms: Option<u64>) -> Fault {
        let recovery_ns = recovery_ms.map(|ms| ms * 1_000_000);
        let held = recovery_ns.is_some_and(|ns| ns <= BOUND_NS);
        Fault { number, recovery_ns, held, note: "stood still".to_owned(), ..Fault::default() }
    }

    #[test]
    fn one_that_did_not_hold_is_told() {
        let all = [fault(0, Some(2)), fault(1, Some(4)), fault(2, Some(12))];
        let good = summary(&all, 3);
        assert!(good.held);
        assert_eq!(
            good.text,
            "3 of 3 held, the other side went on after 2.0 to 12.0 ms, median 4.0, p90 10.4"
        );
        let bad = summary(&[fault(0, Some(2)), fault(1, None)], 2);
        assert!(!bad.held && bad.text.contains("number 1: stood still"), "{}", bad.text);
        assert!(!summary(&[fault(0, Some(1001))], 1).held);
    }

    #[test]
    fn too_few_are_not_enough() {
        let one = [fault(0, Some(2))];
        assert!(summary(&one, 2).held && summary(&one, 2).text.contains("2 planned, the time was over"));
        assert!(!summary(&one, 3).held);
        assert!(!summary(&[], 0).held);
    }
}
