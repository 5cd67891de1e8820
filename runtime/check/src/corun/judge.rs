//! Whether one setting is better than another by more than measurements scatter.

use serde::Serialize;

/// A setting: tail latency of the server, and what best effort got of its rate alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub system: String,
    /// 99th percentile of the service time, ns.
    pub p99_ns: f64,
    /// Iterations per second over those alone.
    pub throughput: f64,
}

/// What the comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A clearly shorter tail at no less throughput.
    ShorterTail,
    /// Clearly more throughput at no longer tail.
    MoreThroughput,
    /// Both clearly.
    Both,
    /// Clearly worse in one number and not clearly better in the other.
    Worse,
    /// Neither is better in all.
    Undecided,
}

/// A clearly shorter tail: by 15 % and more. Repeats of a cell scatter by a few percent.
const TAIL: f64 = 0.85;
/// Tails within 3 % of each other are equal.
const EQUAL_TAIL: f64 = 1.03;
/// Clearly more throughput.
const GAIN: f64 = 0.04;
/// Throughputs within this of each other are equal.
const EQUAL: f64 = 0.01;

/// A comparison with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// `default` or `frontier`: which of our settings were candidates.
    pub of: String,
    pub best_effort: String,
    pub ours: String,
    pub theirs: String,
    pub ours_p99_ns: f64,
    pub theirs_p99_ns: f64,
    /// Ours over theirs.
    pub p99_ratio: f64,
    pub ours_throughput: f64,
    pub theirs_throughput: f64,
    /// Ours minus theirs.
    pub throughput_gain: f64,
    pub verdict: Verdict,
}

/// Compares one setting of ours with one of theirs.
pub fn judge(of: &str, best_effort: &str, ours: &Point, theirs: &Point) -> Judgement {
    let ratio = ours.p99_ns / theirs.p99_ns;
    let gain = ours.throughput - theirs.throughput;
    // Sums and quotients of measured numbers that lie on a bound count as beyond it.
    let slack = 1e-9;
    let shorter = ratio <= TAIL + slack;
    let more = gain >= GAIN - slack;
    let no_longer = ratio <= EQUAL_TAIL + slack;
    let no_less = gain >= -EQUAL - slack;
    let verdict = match (shorter && no_less, more && no_longer) {
        (true, true) if shorter && more => Verdict::Both,
        (true, _) => Verdict::ShorterTail,
        (_, true) => Verdict::MoreThroughput,
        _ if (!no_longer && !more) || (!no_less && !shorter) => Verdict::Worse,
        _ => Verdict::Undecided,
    };
    Judgement {
        of: of.to_owned(),
        best_effort: best_effort.to_owned(),
        ours: ours.system.clone(),
        theirs: theirs.system.clone(),
        ours_p99_ns: ours.p99_ns,
        theirs_p99_ns: theirs.p99_ns,
        p99_ratio: ratio,
        ours_throughput: ours.throughput,
        theirs_throughput: theirs.throughput,
        throughput_gain: gain,
        verdict,
    }
}

impl Judgement {
    /// Whether ours is better.
    pub fn is_better(&self) -> bool {
        matches!(self.verdict, Verdict::ShorterTail | Verdict::MoreThroughput | Verdict::Both)
    }
}

/// Of several settings of ours, the comparison that speaks most for us: better before not, then the shorter tail.
pub fn best(of: &str, best_effort: &str, ours: &[Point], theirs: &Point) -> Option<Judgement> {
    let rank =
        |judgement: &Judgement| (!judgement.is_better(), judgement.p99_ratio - judgement.throughput_gain);
    ours.iter()
        .map(|point| judge(of, best_effort, point, theirs))
        .min_by(|a, b| rank(a).partial_cmp(&rank(b)).unwrap_or(std::cmp::Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(p99_ms: f64, throughput: f64) -> Point {
        Point { system: format!("{p99_ms} ms"), p99_ns: p99_ms * 1e6, throughput }
    }

    #[test]
    fn verdicts_by_hand() {
        let theirs = point(2.0, 0.44);
        let verdict = |p99, throughput| judge("default", "x", &point(p99, throughput), &theirs).verdict;
        assert_eq!(verdict(1.70, 0.44), Verdict::ShorterTail);
        assert_eq!(verdict(1.70, 0.43), Verdict::ShorterTail);
        assert_eq!(verdict(1.71, 0.44), Verdict::Undecided);
        assert_eq!(verdict(1.70, 0.42), Verdict::Undecided);
        assert_eq!(verdict(2.06, 0.48), Verdict::MoreThroughput);
        assert_eq!(verdict(2.07, 0.48), Verdict::Undecided);
        assert_eq!(verdict(2.0, 0.47), Verdict::Undecided);
        assert_eq!(verdict(1.0, 0.60), Verdict::Both);
        assert_eq!(verdict(2.0, 0.44), Verdict::Undecided);
        assert_eq!(verdict(2.07, 0.44), Verdict::Worse);
        assert_eq!(verdict(2.0, 0.42), Verdict::Worse);
    }

    #[test]
    fn the_best_of_ours_is_a_better_one_if_there_is_any() {
        let theirs = point(2.0, 0.44);
        let ours = [point(1.0, 0.30), point(1.6, 0.44), point(2.0, 0.46)];
        let best = best("frontier", "x", &ours, &theirs).unwrap();
        assert_eq!((best.ours.as_str(), best.verdict), ("1.6 ms", Verdict::ShorterTail));
        assert!((best.p99_ratio - 0.8).abs() < 1e-12 && best.throughput_gain == 0.0);
        assert!(super::best("frontier", "x", &[], &theirs).is_none());
    }
}
