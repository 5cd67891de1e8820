//! `artifact/claims.toml`: statements about the tables, each with an accepted range, judged after every run.

pub mod judge;
pub mod record;
pub mod report;

use crate::root::Root;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Which column a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    Mean,
    Median,
    /// The share of pairs in which something holds.
    Share,
}

/// What is claimed of the systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The number of one system lies in the band.
    Within,
    /// The number of the first system over that of the second lies in the band.
    Ratio,
    /// The first system is below each of the others, in a share of the pairs that lies in the band.
    Below,
    /// The mean of each system is at most that of the next.
    Ascending,
}

/// Whose statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The paper's abstract and introduction: means over its 36 pairs on an A100.
    Paper,
    /// The results that were published with the paper's artifact: 12 pairs on an A100.
    Demo,
    /// Our own.
    Ours,
}

/// One `[[claim]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub id: String,
    pub text: String,
    pub source: Source,
    /// The number that the source gives, in the unit of the band.
    pub published: Option<f64>,
    /// The tables that hold the pairs; a pair that is in several counts once.
    pub experiments: Vec<String>,
    /// The servers whose pairs count; all of the tables where none is named.
    #[serde(default)]
    pub inference: Vec<String>,
    pub metric: Metric,
    pub statistic: Statistic,
    pub relation: Relation,
    pub systems: Vec<String>,
    /// Accepted range, ends included. Not for `ascending`, where the ratio of neighbours must be at most 1.
    pub band: Option<[f64; 2]>,
    /// Why the band is as it is.
    pub reason: String,
    /// Pairs that the number must rest on; with fewer the answer is inconclusive.
    pub pairs: usize,
}

/// A claim, or one comparison of a claim that has several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<'a> {
    pub claim: &'a Claim,
    pub system: &'a str,
    pub other: Option<&'a str>,
    pub band: [f64; 2],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    claim: Vec<Claim>,
}

/// Reads and checks the claims. `experiments` are the known ones.
///
/// # Errors
/// The file cannot be read or is malformed (by line), or a claim is wrong (by its id and the field).
pub fn load(root: &Root, experiments: &[String]) -> Result<Vec<Claim>> {
    let path = root.claims();
    let text = bounded::text(&path, bounded::DEFINITION)
        .with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, experiments).with_context(|| format!("in {}", path.display()))
}

fn parse(text: &str, experiments: &[String]) -> Result<Vec<Claim>> {
    let claims = toml::from_str::<File>(text)?.claim;
    for (i, claim) in claims.iter().enumerate() {
        claim.check(experiments).with_context(|| format!("claim `{}`", claim.id))?;
        ensure!(
            claims[..i].iter().all(|earlier| earlier.id != claim.id),
            "the id `{}` is used twice",
            claim.id
        );
    }
    Ok(claims)
}

impl Claim {
    fn check(&self, experiments: &[String]) -> Result<()> {
        for (field, text) in [("id", &self.id), ("text", &self.text), ("reason", &self.reason)] {
            ensure!(!text.trim().is_empty(), "{field} is empty");
        }
        ensure!(!self.experiments.is_empty(), "experiments is empty");
        if let Some(unknown) = self.experiments.iter().find(|id| !experiments.contains(id)) {
            bail!("unknown experiment `{unknown}`; known experiments: {}", experiments.join(", "));
        }
        for system in &self.systems {
            sim::System::parse(system).context("systems")?;
        }
        ensure!(self.pairs > 0, "pairs must be at least 1");
        let n = self.systems.len();
        match (self.relation, self.statistic) {
            (Relation::Within, Statistic::Mean | Statistic::Median) => {
                ensure!(n == 1, "`within` is about one system, not {n}");
            }
            (Relation::Ratio, Statistic::Mean) => ensure!(n == 2, "`ratio` is about two systems, not {n}"),
            (Relation::Below, Statistic::Share) | (Relation::Ascending, Statistic::Mean) => {
                ensure!(n > 1, "an order needs at least two systems");
            }
            (relation, statistic) => bail!(
                "relation {relation:?} does not go with statistic {statistic:?}: `within` takes mean or median, `ratio` \
                 and `ascending` mean, `below` share"
            ),
        }
        match (self.relation, self.band) {
            (Relation::Ascending, None) => {}
            (Relation::Ascending, Some(_)) => {
                bail!("`ascending` has no band: each system is to be at most the next")
            }
            (_, Some([low, high])) => {
                ensure!(
                    low.is_finite() && high.is_finite() && low <= high,
                    "band [{low}, {high}] is not a range"
                );
            }
            (_, None) => bail!("band is missing"),
        }
        Ok(())
    }

    /// The comparisons that it consists of.
    pub fn steps(&self) -> Vec<Step<'_>> {
        let step = |system, other, band| Step { claim: self, system, other, band: self.band.unwrap_or(band) };
        let [first, rest @ ..] = self.systems.as_slice() else { return Vec::new() };
        match self.relation {
            Relation::Within => vec![step(first, None, [0.0, 0.0])],
            Relation::Ratio | Relation::Below => {
                rest.iter().map(|other| step(first, Some(other), [0.0, 1.0])).collect()
            }
            // Overheads may be a little below 0, and so may their ratio.
            Relation::Ascending => self
                .systems
                .windows(2)
                .map(|two| step(&two[0], Some(&two[1]), [f64::NEG_INFINITY, 1.0]))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    const GOOD: &str = r#"
[[claim]]
id = "c"
text = "A claim."
source = "ours"
experiments = ["x"]
metric = "p99-overhead"
statistic = "mean"
relation = "ratio"
systems = ["tally", "mps"]
band = [0.0, 0.5]
reason = "Tests."
pairs = 2
"#;

    fn read(text: &str) -> Result<Vec<Claim>> {
        parse(text, &["x".to_owned()])
    }

    #[test]
    fn problems_name_claim_field_and_value() {
        assert_eq!(read(GOOD).unwrap()[0].steps().len(), 1);
        for (from, to, expected) in [
            ("\"x\"", "\"y\"", "claim `c`: unknown experiment `y`; known experiments: x"),
            ("\"mps\"", "\"mqs\"", "unknown system `mqs`"),
            ("[\"tally\", \"mps\"]", "[\"tally\"]", "two systems, not 1"),
            ("[0.0, 0.5]", "[0.5, 0.0]", "band [0.5, 0] is not a range"),
            ("band = [0.0, 0.5]\n", "", "band is missing"),
            ("\"mean\"", "\"share\"", "does not go with"),
            ("\"ratio\"", "\"ascending\"", "has no band"),
            ("\"Tests.\"", "\" \"", "reason is empty"),
            ("pairs = 2", "pairs = 0", "at least 1"),
            ("pairs = 2", "pair = 2", "unknown field `pair`"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            let error = format!("{:#}", read(&text).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
        let twice = format!("{:#}", read(&format!("{GOOD}{GOOD}")).unwrap_err());
        assert!(twice.contains("the id `c` is used twice"), "{twice}");
    }

    #[test]
    fn an_order_is_compared_neighbour_by_neighbour() {
        let text = GOOD
            .replace("\"ratio\"", "\"ascending\"")
            .replace("band = [0.0, 0.5]\n", "")
            .replace("[\"tally\", \"mps\"]", "[\"tally\", \"tgs\", \"mps\"]");
        let claims = read(&text).unwrap();
        let steps: Vec<_> = claims[0].steps().iter().map(|step| (step.system, step.other)).collect();
        assert_eq!(steps, [("tally", Some("tgs")), ("tgs", Some("mps"))]);
    }

    /// A claim about a system that no experiment of its runs could never be judged.
    #[test]
    fn the_shipped_claims_are_about_what_their_experiments_run() {
        let root = Root::find().unwrap();
        let ids = Experiment::ids(&root).unwrap();
        let claims = load(&root, &ids).unwrap();
        assert!(claims.len() > 20);
        for claim in &claims {
            let experiments: Vec<Experiment> = claim
                .experiments
                .iter()
                .map(|id| Experiment::load(&root, id, flags::Size::Default).unwrap())
                .collect();
            for system in &claim.systems {
                assert!(experiments.iter().any(|e| e.systems.contains(system)), "{}: {system}", claim.id);
            }
            for inference in &claim.inference {
                assert!(
                    experiments.iter().any(|e| e.inference.contains(inference)),
                    "{}: {inference}",
                    claim.id
                );
            }
        }
    }
}
