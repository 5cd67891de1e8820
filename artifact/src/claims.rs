//! Claims of an experiment: statements about its table with an accepted range, checked after every run.

use crate::stats;
use crate::summary::Row;
use anyhow::{Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// Which column a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Column `p99_overhead`.
    P99Overhead,
    /// Column `system_throughput`.
    SystemThroughput,
    /// Column `be_norm`.
    BestEffortThroughput,
}

/// How the pairs become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    Mean,
    Median,
    Max,
}

/// One `[[claim]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub id: String,
    /// The statement, with its source.
    pub text: String,
    pub metric: Metric,
    pub statistic: Statistic,
    pub system: String,
    /// The number is divided by the same statistic of this system.
    pub relative_to: Option<String>,
    /// Accepted range, ends included.
    pub band: [f64; 2],
    /// Pairs (times loads and seeds) that the number must rest on; with fewer the answer is inconclusive.
    pub pairs: usize,
}

/// What a run says about a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Held(f64),
    Missed(f64),
    /// The value, from too few pairs.
    Inconclusive(f64, usize),
    NotRun,
}

impl Claim {
    /// Checks what can be checked without results.
    pub(crate) fn check(&self, systems: &[String]) -> Result<()> {
        for system in [Some(&self.system), self.relative_to.as_ref()].into_iter().flatten() {
            ensure!(systems.contains(system), "`{system}` is not among the experiment's systems");
        }
        let [low, high] = self.band;
        ensure!(low.is_finite() && high.is_finite() && low <= high, "band [{low}, {high}] is not a range");
        ensure!(self.pairs > 0, "pairs must be at least 1");
        Ok(())
    }

    /// Judges the rows of an experiment.
    pub fn judge(&self, rows: &[Row]) -> Verdict {
        let own = self.values(rows, &self.system);
        let mut values: Vec<f64> = own.values().copied().collect();
        let mut number = self.reduce(&mut values);
        let mut pairs = own.len();
        if let Some(other) = &self.relative_to {
            let others = self.values(rows, other);
            // Only pairs that both systems have, so that the ratio compares like with like.
            let both: Vec<_> = own.keys().filter(|pair| others.contains_key(*pair)).collect();
            let mut a: Vec<f64> = both.iter().map(|pair| own[*pair]).collect();
            let mut b: Vec<f64> = both.iter().map(|pair| others[*pair]).collect();
            pairs = both.len();
            number = self.reduce(&mut a).zip(self.reduce(&mut b)).map(|(a, b)| a / b);
        }
        match number {
            None => Verdict::NotRun,
            Some(value) if pairs < self.pairs => Verdict::Inconclusive(value, pairs),
            Some(value) if (self.band[0]..=self.band[1]).contains(&value) => Verdict::Held(value),
            Some(value) => Verdict::Missed(value),
        }
    }

    fn values<'a>(&self, rows: &'a [Row], system: &str) -> BTreeMap<(&'a str, &'a str, u64, u64), f64> {
        rows.iter()
            .filter(|row| row.kind == "pair" && row.system == system && row.status == "ok")
            .filter_map(|row| {
                let value = match self.metric {
                    Metric::P99Overhead => row.p99_overhead,
                    Metric::SystemThroughput => row.system_throughput,
                    Metric::BestEffortThroughput => row.be_norm,
                }?;
                let load = row.load.map_or(0, f64::to_bits);
                Some(((row.inference.as_str(), row.training.as_str(), load, row.seed), value))
            })
            .collect()
    }

    fn reduce(&self, values: &mut [f64]) -> Option<f64> {
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let n = values.len();
        Some(match self.statistic {
            Statistic::Mean => values.iter().sum::<f64>() / n as f64,
            Statistic::Median => (values[(n - 1) / 2] + values[n / 2]) / 2.0,
            Statistic::Max => values[n - 1],
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Held(_) => f.write_str("held"),
            Verdict::Missed(_) => f.write_str("missed"),
            Verdict::Inconclusive(..) => f.write_str("inconclusive"),
            Verdict::NotRun => f.write_str("not run"),
        }
    }
}

/// One line per claim. `backend` labels the evidence: a simulated claim says nothing about a GPU by itself.
pub fn report(claims: &[Claim], rows: &[Row], backend: &str) -> String {
    let evidence = if backend == "sim" { "simulated" } else { backend };
    let mut lines = String::new();
    for claim in claims {
        let verdict = claim.judge(rows);
        let [low, high] = claim.band;
        // Adding zero makes a negative zero positive.
        let shown = |value: &f64| stats::round(*value, 3) + 0.0;
        let detail = match &verdict {
            Verdict::Held(value) | Verdict::Missed(value) => {
                format!("{} (accepted: {low} to {high})", shown(value))
            }
            Verdict::Inconclusive(value, pairs) => {
                let value = shown(value);
                format!("{value} from {pairs} of {} pairs (accepted: {low} to {high})", claim.pairs)
            }
            Verdict::NotRun => "no finished pair".to_owned(),
        };
        lines += &format!("  {evidence}, {verdict}: {}: {} {detail}\n", claim.id, claim.text);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, training: &str, overhead: f64) -> Row {
        Row {
            kind: "pair".to_owned(),
            status: "ok".to_owned(),
            system: system.to_owned(),
            training: training.to_owned(),
            p99_overhead: Some(overhead),
            ..Row::default()
        }
    }

    fn claim(relative_to: Option<&str>) -> Claim {
        Claim {
            id: "c".to_owned(),
            text: "A claim.".to_owned(),
            metric: Metric::P99Overhead,
            statistic: Statistic::Mean,
            system: "tally".to_owned(),
            relative_to: relative_to.map(str::to_owned),
            band: [0.1, 0.3],
            pairs: 2,
        }
    }

    #[test]
    fn verdicts_by_hand() {
        let judge = |rows: &[Row]| claim(None).judge(rows);
        assert_eq!(judge(&[row("tally", "a", 0.25), row("tally", "b", 0.25)]), Verdict::Held(0.25));
        assert_eq!(judge(&[row("tally", "a", 0.5), row("tally", "b", 0.25)]), Verdict::Missed(0.375));
        assert_eq!(judge(&[row("tally", "a", 0.25)]), Verdict::Inconclusive(0.25, 1));
        assert_eq!(judge(&[row("mps", "a", 0.25)]), Verdict::NotRun);
        let failed = Row { status: "failed".to_owned(), ..row("tally", "b", 9.0) };
        assert_eq!(judge(&[row("tally", "a", 0.25), failed]), Verdict::Inconclusive(0.25, 1));
    }

    #[test]
    fn a_ratio_uses_the_pairs_that_both_systems_have() {
        let rows = [
            row("tally", "a", 0.25),
            row("tally", "b", 0.25),
            row("tally", "c", 9.0),
            row("mps", "a", 1.0),
            row("mps", "b", 1.5),
        ];
        assert_eq!(claim(Some("mps")).judge(&rows), Verdict::Held(0.2));
        let text = report(&[claim(Some("mps"))], &rows, "sim");
        assert_eq!(text, "  simulated, held: c: A claim. 0.2 (accepted: 0.1 to 0.3)\n");
    }

    #[test]
    fn a_claim_is_about_systems_of_its_experiment() {
        let systems = ["tally".to_owned()];
        assert!(claim(None).check(&systems).is_ok());
        assert!(claim(Some("mps")).check(&systems).unwrap_err().to_string().contains("`mps`"));
    }
}
