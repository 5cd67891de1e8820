//! Scores of the simulator beside those of a null model.
//!
//! The error of a pair is |ln(simulated slowdown / known slowdown)|; a system's score is the median over its pairs. The null
//! model predicts a pair's slowdown as the median of the other pairs of the same system and server, so it has the known
//! values of the others and no mechanism: a simulator that does not beat it has learned nothing about pairs.

use crate::fidelity::split::{Role, Source};
use crate::fidelity::truth::Truth;
use serde::Serialize;

/// Known slowdowns closer than this share of the smaller one have no order.
pub const TIE: f64 = 0.10;

/// One known pair beside its simulation.
#[derive(Clone, Debug)]
pub struct Pair {
    pub truth: Truth,
    pub role: Role,
    /// The set of recordings that was simulated.
    pub profiles: String,
    /// The simulated system, where it is not the known one.
    pub simulated_system: String,
    pub simulated: Option<f64>,
    pub simulated_be: Option<f64>,
    pub null: Option<f64>,
}

impl Pair {
    /// ln(simulated / known).
    pub fn log_ratio(&self) -> Option<f64> {
        Some((self.simulated? / self.truth.slowdown).ln())
    }

    /// ln(null / known).
    pub fn null_log_ratio(&self) -> Option<f64> {
        Some((self.null? / self.truth.slowdown).ln())
    }
}

/// The prediction without a mechanism for `truths[at]`: the median of the other trainings beside the same server under the
/// same system and arrivals.
pub fn null(truths: &[Truth], at: usize) -> Option<f64> {
    let own = &truths[at];
    let mut others: Vec<f64> = truths
        .iter()
        .filter(|t| t.system == own.system && t.inference == own.inference && t.training != own.training)
        .filter(|t| t.same_arrivals(own))
        .map(|t| t.slowdown)
        .collect();
    median(&mut others)
}

/// Median; the mean of the two in the middle of an even number.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// `fidelity.csv`: one system, or all in the row of the order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    pub source: String,
    pub profiles: String,
    pub system: String,
    pub role: String,
    pub pairs: usize,
    /// Median of |ln(simulated / known slowdown)|.
    pub error: Option<f64>,
    pub null_error: Option<f64>,
    pub error_over_null: Option<f64>,
    /// Mean p99 overheads over the pairs, ratios.
    pub simulated_overhead: Option<f64>,
    pub known_overhead: Option<f64>,
    /// Median of the absolute difference in best-effort throughput.
    pub be_difference: Option<f64>,
    /// Pairs of systems beside the same two jobs whose known p99s differ by over 10 %, and how many are in the right order.
    pub ordered: Option<usize>,
    pub ordered_right: Option<usize>,
    /// Those of them that the null model orders at all: it has both predictions, and they differ.
    pub null_ordered: Option<usize>,
    pub null_ordered_right: Option<usize>,
}

/// Scores of each system in the order of the pairs, then one row of the order over all validating systems. All pairs are of
/// one source and set of recordings.
pub fn scores(pairs: &[Pair]) -> Vec<Score> {
    let mut systems: Vec<(&str, Role)> = Vec::new();
    for pair in pairs {
        let key = (pair.simulated_system.as_str(), pair.role);
        if !systems.contains(&key) {
            systems.push(key);
        }
    }
    let mut scores: Vec<Score> = systems
        .into_iter()
        .map(|(system, role)| {
            let own: Vec<&Pair> =
                pairs.iter().filter(|p| p.simulated_system == system && p.role == role).collect();
            score(&own, system, role)
        })
        .collect();
    let validating: Vec<&Pair> = pairs.iter().filter(|p| p.role == Role::Validation).collect();
    scores.extend(order(&validating));
    scores
}

fn score(pairs: &[&Pair], system: &str, role: Role) -> Score {
    // Only pairs that have both, so that the two errors are over the same ones.
    let done: Vec<&&Pair> = pairs.iter().filter(|p| p.simulated.is_some()).collect();
    let of = |f: &dyn Fn(&Pair) -> Option<f64>| done.iter().filter_map(|p| f(p)).collect::<Vec<f64>>();
    let error = median(&mut of(&|p| Some(p.log_ratio()?.abs())));
    let null_error = median(&mut of(&|p| Some(p.null_log_ratio()?.abs())));
    let be = |p: &Pair| Some((p.simulated_be? - p.truth.be_norm?).abs());
    Score {
        source: source(pairs),
        profiles: pairs.first().map(|p| p.profiles.clone()).unwrap_or_default(),
        system: system.to_owned(),
        role: role.name().to_owned(),
        pairs: done.len(),
        error,
        null_error,
        error_over_null: error.zip(null_error).map(|(error, null)| error / null),
        simulated_overhead: mean(&of(&|p| Some(p.simulated? - 1.0))),
        known_overhead: mean(&of(&|p| Some(p.truth.slowdown - 1.0))),
        be_difference: median(&mut of(&be)),
        ..Score::default()
    }
}

fn source(pairs: &[&Pair]) -> String {
    pairs.first().map_or(Source::Published, |p| p.truth.source).name().to_owned()
}

/// Whether systems are ranked as they are known to be.
fn order(pairs: &[&Pair]) -> Option<Score> {
    let (mut compared, mut right) = (0, 0);
    let (mut null_compared, mut null_right) = (0, 0);
    for (i, a) in pairs.iter().enumerate() {
        for b in &pairs[i + 1..] {
            let (x, y) = (&a.truth, &b.truth);
            let same = x.run == y.run && x.same_cell(y);
            let apart = (x.slowdown - y.slowdown).abs() > TIE * x.slowdown.min(y.slowdown);
            let (Some(sim_x), Some(sim_y)) = (a.simulated, b.simulated) else { continue };
            if !same || !apart {
                continue;
            }
            compared += 1;
            right += usize::from((x.slowdown < y.slowdown) == (sim_x < sim_y));
            if let Some((m, n)) = a.null.zip(b.null).filter(|(m, n)| m != n) {
                null_compared += 1;
                null_right += usize::from((x.slowdown < y.slowdown) == (m < n));
            }
        }
    }
    let first = pairs.first()?;
    Some(Score {
        source: source(pairs),
        profiles: first.profiles.clone(),
        system: "order".to_owned(),
        role: Role::Validation.name().to_owned(),
        pairs: pairs.iter().filter(|p| p.simulated.is_some()).count(),
        ordered: Some(compared),
        ordered_right: Some(right),
        null_ordered: Some(null_compared),
        null_ordered_right: Some(null_right),
        ..Score::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Load;

    fn pairs(truths: &[Truth], simulated: &[f64]) -> Vec<Pair> {
        let pair = |(at, (truth, simulated)): (usize, (&Truth, &f64))| Pair {
            truth: truth.clone(),
            role: Role::Validation,
            profiles: "stock".to_owned(),
            simulated_system: truth.system.clone(),
            simulated: Some(*simulated),
            simulated_be: Some(0.75),
            null: null(truths, at),
        };
        truths.iter().zip(simulated).enumerate().map(pair).collect()
    }

    #[test]
    fn the_null_model_leaves_the_pair_out() {
        let truths = [
            Truth::published("mps", "t", 2.0),
            Truth::published("mps", "u", 4.0),
            Truth::published("mps", "v", 6.0),
            Truth::published("x", "u", 9.0),
        ];
        assert_eq!(null(&truths, 0), Some(5.0));
        assert_eq!(null(&truths, 1), Some(4.0));
        assert_eq!(null(&truths, 3), None);
    }

    #[test]
    fn other_loads_and_seeds_are_other_cells() {
        let at = |truth: Truth, load: f64, seed| Truth { load: Load::new(load).unwrap(), seed, ..truth };
        let truths = [
            at(Truth::published("mps", "t", 2.0), 0.5, Some(1)),
            at(Truth::published("mps", "u", 4.0), 0.5, Some(1)),
            at(Truth::published("mps", "u", 9.0), 0.9, Some(1)),
            at(Truth::published("mps", "u", 7.0), 0.5, Some(2)),
            at(Truth::published("tally", "t", 9.0), 0.9, Some(1)),
            at(Truth::published("tally", "t", 1.0), 0.5, Some(2)),
        ];
        assert_eq!(null(&truths, 0), Some(4.0));
        let order = scores(&pairs(&truths, &[1.0; 6])).pop().unwrap();
        assert_eq!((order.ordered, order.ordered_right), (Some(0), Some(0)));
    }

    #[test]
    fn scores_by_hand() {
        let truths = [
            Truth::published("mps", "t", 2.0),
            Truth::published("mps", "u", 4.0),
            Truth::published("mps", "v", 8.0),
        ];
        // Off by factors of 2, 1 and 0.5; the null predicts 6, 5 and 3.
        let scores = scores(&pairs(&truths, &[4.0, 4.0, 4.0]));
        let mps = &scores[0];
        assert_eq!((mps.pairs, mps.be_difference), (3, Some(0.25)));
        assert!((mps.error.unwrap() - 2f64.ln()).abs() < 1e-12);
        // ln of 3, 1.25 and 8/3: the median is the last.
        assert!((mps.null_error.unwrap() - (8.0f64 / 3.0).ln()).abs() < 1e-12);
        assert!((mps.simulated_overhead.unwrap() - 3.0).abs() < 1e-12);
        assert!((mps.known_overhead.unwrap() - 11.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn order_counts_only_what_differs() {
        let truths = [
            Truth::published("a", "t", 1.0),
            Truth::published("b", "t", 1.05),
            Truth::published("c", "t", 2.0),
            Truth::published("c", "u", 0.5),
        ];
        // b and a are a tie; a < c is right, b < c is wrong; the other training is ranked apart.
        let scores = scores(&pairs(&truths, &[1.0, 3.0, 2.0, 9.0]));
        let order = scores.last().unwrap();
        assert_eq!((order.ordered, order.ordered_right), (Some(2), Some(1)));
        // Of a, b and c beside t only c has another training to predict it by.
        assert_eq!((order.null_ordered, order.null_ordered_right), (Some(0), Some(0)));
    }

    #[test]
    fn the_null_model_is_counted_where_it_orders() {
        let truths = [
            Truth::published("a", "t", 1.0),
            Truth::published("a", "u", 3.0),
            Truth::published("b", "t", 2.0),
            Truth::published("b", "u", 1.5),
            Truth::published("c", "t", 4.0),
            Truth::published("d", "t", 8.0),
            Truth::published("c", "u", 3.0),
        ];
        // Beside t the null predicts 3, 1.5, 3 and nothing for a, b, c and d; beside u 1, 2 and 4 for a, b and c.
        let order = scores(&pairs(&truths, &[1.0, 3.0, 2.0, 1.5, 4.0, 8.0, 3.0])).pop().unwrap();
        // Six pairs beside t, two beside u, where a and c are a tie; all simulated as known.
        assert_eq!((order.ordered, order.ordered_right), (Some(8), Some(8)));
        // a and c beside t are a tie of the null, and d has none: left are a-b (wrong) and b-c (right) beside t, a-b (wrong)
        // and b-c (right) beside u. The order of the arguments changes nothing.
        assert_eq!((order.null_ordered, order.null_ordered_right), (Some(4), Some(2)));
        let mut reversed: Vec<Truth> = truths.to_vec();
        reversed.reverse();
        let order = scores(&pairs(&reversed, &[3.0, 8.0, 4.0, 1.5, 2.0, 3.0, 1.0])).pop().unwrap();
        assert_eq!((order.null_ordered, order.null_ordered_right), (Some(4), Some(2)));
    }

    #[test]
    fn a_missing_simulation_is_no_number() {
        let truths = [Truth::published("mps", "t", 2.0)];
        let mut pairs = pairs(&truths, &[1.0]);
        pairs[0].simulated = None;
        let scores = scores(&pairs);
        assert_eq!((scores[0].pairs, scores[0].error, scores[0].error_over_null), (0, None, None));
    }
}
