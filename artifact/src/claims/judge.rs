//! What the rows of a run say about a claim.
//!
//! The unit is a pair at a load. Seeds change the arrivals and the drawn durations of a pair and nothing else, so they are
//! no further pairs: an overhead is the median over them, as in the figures, a throughput the mean. A claim is held when
//! the whole interval of its number lies in the band, missed when all of it lies outside, and inconclusive otherwise.

use super::{Metric, Relation, Statistic, Step};
use crate::summary::Row;
use intervals::{CONFIDENCE, Interval, Place};
use std::collections::BTreeMap;

/// What kind of rows a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    Simulated,
    Measured,
}

impl Evidence {
    /// Of a row; whatever is no GPU is no measurement.
    pub fn of(row: &Row) -> Evidence {
        if row.backend == "gpu" { Evidence::Measured } else { Evidence::Simulated }
    }

    /// As in the column `evidence`.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Simulated => "simulated",
            Evidence::Measured => "measured",
        }
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Held,
    Missed,
    Inconclusive,
    NotRun,
}

impl Verdict {
    /// In words that differ by the evidence: a simulation reproduces nothing.
    pub fn words(self, evidence: Evidence) -> &'static str {
        match (self, evidence) {
            (Verdict::Held, Evidence::Simulated) => "holds in simulation",
            (Verdict::Held, Evidence::Measured) => "reproduced",
            (Verdict::Missed, Evidence::Simulated) => "missed in simulation",
            (Verdict::Missed, Evidence::Measured) => "missed",
            (Verdict::Inconclusive, _) => "inconclusive",
            (Verdict::NotRun, _) => "not run",
        }
    }
}

/// A verdict with the numbers behind it, in the unit of the band.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub verdict: Verdict,
    /// Why it is inconclusive; empty otherwise.
    pub why: String,
    /// Pairs.
    pub n: usize,
    /// The claim's number with its interval: [`method`] names the kind.
    pub value: Option<f64>,
    pub interval: Option<Interval>,
    /// Median over the pairs with its exact interval: of the system's number, or of its ratio to the other's.
    pub median: Option<f64>,
    pub median_interval: Option<Interval>,
    /// Pairs in which the system's number is below the other's, and the exact interval of their share.
    pub below: Option<usize>,
    pub below_interval: Option<Interval>,
}

/// How the interval of a claim's number is made.
pub fn method(step: &Step) -> &'static str {
    match (step.claim.relation, step.claim.statistic) {
        (Relation::Within, Statistic::Median) => "order statistics over pairs",
        (Relation::Within, _) => "Student over pairs",
        (Relation::Ratio | Relation::Ascending, _) => "Fieller over pairs",
        (Relation::Below, _) => "Clopper-Pearson over pairs",
    }
}

/// A pair at a load.
type Pair<'a> = (&'a str, &'a str, u64);

/// Judges one step by the rows of this kind; `rows` may hold those of all experiments.
pub fn judge(step: &Step, rows: &[Row], evidence: Evidence) -> Judged {
    let own = values(step, rows, evidence, step.system);
    let others = step.other.map(|other| values(step, rows, evidence, other));
    // Only pairs that both systems have, so that like is compared with like.
    let both: Option<Vec<(f64, f64)>> =
        others.map(|others| own.iter().filter_map(|(pair, a)| Some((*a, *others.get(pair)?))).collect());
    let alone: Vec<f64> = own.into_values().collect();
    let n = both.as_ref().map_or(alone.len(), Vec::len);
    let per_pair = match &both {
        None => alone.clone(),
        Some(both) => both.iter().filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b).collect(),
    };
    let below = both.as_ref().map(|both| both.iter().filter(|(a, b)| a < b).count());
    let below_interval = below.and_then(|below| intervals::clopper_pearson(below, n, CONFIDENCE));
    let median = median(&per_pair);
    let median_interval = intervals::median(&per_pair, CONFIDENCE);
    let (value, interval) = match (step.claim.relation, step.claim.statistic, &both) {
        (Relation::Within, Statistic::Median, _) => (median, median_interval),
        (Relation::Within, ..) => (mean(alone.iter()), intervals::t_interval(&alone, CONFIDENCE)),
        (Relation::Below, _, _) => {
            (below.filter(|_| n > 0).map(|below| below as f64 / n as f64), below_interval)
        }
        (_, _, Some(both)) => {
            let means = mean(both.iter().map(|pair| &pair.0)).zip(mean(both.iter().map(|pair| &pair.1)));
            let ratio = means.filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b);
            (ratio, intervals::fieller(both, CONFIDENCE))
        }
        (_, _, None) => (None, None),
    };
    let (verdict, why) = verdict(step, n, value, interval);
    Judged { verdict, why, n, value, interval, median, median_interval, below, below_interval }
}

fn verdict(step: &Step, n: usize, value: Option<f64>, interval: Option<Interval>) -> (Verdict, String) {
    let [low, high] = step.band;
    let inconclusive = |why: String| (Verdict::Inconclusive, why);
    match (n, value, interval) {
        (0, ..) => (Verdict::NotRun, String::new()),
        (n, ..) if n < step.claim.pairs => inconclusive(format!("{n} of {} pairs", step.claim.pairs)),
        (_, None, _) => inconclusive("the number that is divided by is not above 0".to_owned()),
        (n, _, None) => inconclusive(format!("{n} pairs give no bounded interval")),
        (_, _, Some(interval)) => match interval.place(low, high) {
            Place::Inside => (Verdict::Held, String::new()),
            Place::Outside => (Verdict::Missed, String::new()),
            Place::Across => inconclusive("an end of the band lies within the interval".to_owned()),
        },
    }
}

/// The number of a system in every pair of the claim.
fn values<'a>(step: &Step, rows: &'a [Row], evidence: Evidence, system: &str) -> BTreeMap<Pair<'a>, f64> {
    let claim = step.claim;
    let mut by_seed: BTreeMap<Pair, BTreeMap<u64, f64>> = BTreeMap::new();
    for row in rows {
        let counts = row.kind == "pair"
            && row.status == "ok"
            && row.system == system
            && Evidence::of(row) == evidence
            && claim.experiments.contains(&row.experiment)
            && (claim.inference.is_empty() || claim.inference.contains(&row.inference));
        let value = match claim.metric {
            Metric::P99Overhead => row.p99_overhead,
            Metric::SystemThroughput => row.system_throughput,
            Metric::BestEffortThroughput => row.be_norm,
        };
        if let Some(value) = value.filter(|_| counts) {
            let pair = (row.inference.as_str(), row.training.as_str(), row.load.map_or(0, f64::to_bits));
            // A pair of two experiments is the same cell.
            by_seed.entry(pair).or_default().entry(row.seed).or_insert(value);
        }
    }
    let over_seeds = |seeds: BTreeMap<u64, f64>| {
        let values: Vec<f64> = seeds.into_values().collect();
        match claim.metric {
            Metric::P99Overhead => median(&values),
            Metric::SystemThroughput | Metric::BestEffortThroughput => mean(values.iter()),
        }
    };
    by_seed.into_iter().filter_map(|(pair, seeds)| Some((pair, over_seeds(seeds)?))).collect()
}

fn mean<'a>(values: impl ExactSizeIterator<Item = &'a f64>) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| values.sum::<f64>() / n as f64)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Claim, Source};

    pub(crate) fn row(system: &str, training: &str, overhead: f64) -> Row {
        Row {
            experiment: "x".to_owned(),
            backend: "sim".to_owned(),
            kind: "pair".to_owned(),
            status: "ok".to_owned(),
            system: system.to_owned(),
            training: training.to_owned(),
            p99_overhead: Some(overhead),
            ..Row::default()
        }
    }

    fn claim(relation: Relation, statistic: Statistic, systems: &[&str], band: [f64; 2]) -> Claim {
        Claim {
            id: "c".to_owned(),
            text: "A claim.".to_owned(),
            source: Source::Ours,
            published: None,
            experiments: vec!["x".to_owned()],
            inference: Vec::new(),
            metric: Metric::P99Overhead,
            statistic,
            relation,
            systems: systems.iter().map(|s| (*s).to_owned()).collect(),
            band: Some(band),
            reason: "Tests.".to_owned(),
            pairs: 2,
        }
    }

    fn judged(claim: &Claim, rows: &[Row]) -> Judged {
        judge(&claim.steps()[0], rows, Evidence::Simulated)
    }

    fn mean_of_tally(band: [f64; 2]) -> Claim {
        claim(Relation::Within, Statistic::Mean, &["tally"], band)
    }

    #[test]
    fn an_edge_within_the_interval_is_inconclusive() {
        // Mean 0.2, standard deviation 0.1, n 3: 0.2 +- 4.303 * 0.1 / sqrt(3) = -0.048 to 0.448.
        let rows = [row("tally", "a", 0.1), row("tally", "b", 0.2), row("tally", "c", 0.3)];
        let verdict = |band| judged(&mean_of_tally(band), &rows).verdict;
        assert_eq!(verdict([-0.1, 0.5]), Verdict::Held);
        assert_eq!(verdict([0.0, 0.5]), Verdict::Inconclusive);
        assert_eq!(verdict([0.19, 0.21]), Verdict::Inconclusive);
        assert_eq!(verdict([0.45, 0.5]), Verdict::Missed);
        let found = judged(&mean_of_tally([0.0, 0.5]), &rows);
        assert_eq!((found.n, found.median), (3, Some(0.2)));
        assert!((found.value.unwrap() - 0.2).abs() < 1e-12);
        assert!((found.interval.unwrap().high - 0.4484).abs() < 1e-3);
        assert_eq!(found.median_interval, None, "3 pairs say nothing of a median");
        assert_eq!(found.why, "an end of the band lies within the interval");
    }

    #[test]
    fn few_pairs_and_other_systems_decide_nothing() {
        let claim = mean_of_tally([0.0, 1.0]);
        let one = judged(&claim, &[row("tally", "a", 0.25)]);
        assert_eq!((one.verdict, one.why.as_str()), (Verdict::Inconclusive, "1 of 2 pairs"));
        assert_eq!(judged(&claim, &[row("mps", "a", 0.25)]).verdict, Verdict::NotRun);
        let failed = Row { status: "failed".to_owned(), ..row("tally", "b", 9.0) };
        assert_eq!(judged(&claim, &[row("tally", "a", 0.25), failed]).n, 1);
        let elsewhere = Row { experiment: "y".to_owned(), ..row("tally", "b", 9.0) };
        assert_eq!(judged(&claim, &[row("tally", "a", 0.25), elsewhere]).n, 1);
    }

    #[test]
    fn seeds_and_repeated_cells_are_no_further_pairs() {
        let seed = |seed, overhead| Row { seed, ..row("tally", "a", overhead) };
        let rows = [seed(1, 0.1), seed(2, 0.9), seed(3, 0.2), seed(3, 0.2), row("tally", "b", 0.4)];
        let found = judged(&mean_of_tally([0.0, 1.0]), &rows);
        assert_eq!((found.n, found.value), (2, Some((0.2 + 0.4) / 2.0)), "the median of the seeds, 0.2");
    }

    #[test]
    fn a_ratio_uses_the_pairs_that_both_systems_have() {
        let rows = [
            row("tally", "a", 0.25),
            row("tally", "b", 0.375),
            row("tally", "c", 9.0),
            row("mps", "a", 1.0),
            row("mps", "b", 1.5),
        ];
        let claim = claim(Relation::Ratio, Statistic::Mean, &["tally", "mps"], [0.0, 0.5]);
        let found = judged(&claim, &rows);
        assert_eq!((found.n, found.value, found.median, found.below), (2, Some(0.25), Some(0.25), Some(2)));
        // Two pairs: means of 1.25 +- 3.2 may be 0.
        assert_eq!((found.verdict, found.interval), (Verdict::Inconclusive, None));
        let mut more = rows.to_vec();
        for (training, overhead) in [("d", 1.25), ("e", 1.0), ("f", 1.5)] {
            more.extend([row("tally", training, overhead / 4.0), row("mps", training, overhead)]);
        }
        assert_eq!(judged(&claim, &more).verdict, Verdict::Held);
    }

    #[test]
    fn an_order_counts_pairs() {
        let rows = |below: u32, n: u32| -> Vec<Row> {
            let of = |i: u32| {
                let training = i.to_string();
                [row("tally", &training, if i < below { 0.5 } else { 2.0 }), row("mps", &training, 1.0)]
            };
            (0..n).flat_map(of).collect()
        };
        let claim = claim(Relation::Below, Statistic::Share, &["tally", "mps"], [0.5, 1.0]);
        let of = |below, n| {
            let found = judged(&claim, &rows(below, n));
            (found.below, found.verdict)
        };
        // The exact intervals: 6 of 6 from 0.541, 5 of 6 from 0.359, 0 of 6 up to 0.459.
        assert_eq!(of(6, 6), (Some(6), Verdict::Held));
        assert_eq!(of(5, 6), (Some(5), Verdict::Inconclusive));
        assert_eq!(of(0, 6), (Some(0), Verdict::Missed));
    }

    #[test]
    fn simulated_rows_are_no_measurement() {
        let measured =
            |training, overhead| Row { backend: "gpu".to_owned(), ..row("tally", training, overhead) };
        let mut rows = vec![row("tally", "a", 0.5), row("tally", "b", 0.5)];
        let claim = mean_of_tally([0.4, 0.6]);
        let step = claim.steps()[0];
        assert_eq!(judge(&step, &rows, Evidence::Measured).verdict, Verdict::NotRun);
        rows.extend([measured("a", 0.9), measured("b", 0.9)]);
        let verdicts =
            [Evidence::Simulated, Evidence::Measured].map(|e| judge(&step, &rows, e).verdict.words(e));
        assert_eq!(verdicts, ["holds in simulation", "missed"]);
        assert_eq!(Verdict::Held.words(Evidence::Measured), "reproduced");
    }
}
