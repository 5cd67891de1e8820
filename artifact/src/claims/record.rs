//! `claims.csv` of a run folder: one row per comparison, with its verdict and the numbers behind it. The columns are
//! documented in docs/FORMATS.md; their names are those of the fields of [`Record`].

use super::judge::{Evidence, Judged, Verdict, judge, method};
use super::{Claim, Metric, Relation, Source, Statistic};
use crate::summary::Row;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The file in the run folder.
pub const NAME: &str = "claims.csv";

/// One row. An empty field is a missing number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub claim: String,
    pub text: String,
    pub source: Source,
    pub experiments: String,
    pub inference: String,
    pub metric: Metric,
    pub statistic: Statistic,
    pub relation: Relation,
    pub system: String,
    pub other: String,
    pub published: Option<f64>,
    pub band_low: Option<f64>,
    pub band_high: Option<f64>,
    pub band_reason: String,
    pub pairs_needed: usize,
    pub simulated_verdict: String,
    pub measured_verdict: String,
    pub evidence: String,
    pub machine: String,
    pub why: String,
    pub n: usize,
    pub value: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub interval: String,
    pub median: Option<f64>,
    pub median_low: Option<f64>,
    pub median_high: Option<f64>,
    pub below: Option<usize>,
    pub below_low: Option<f64>,
    pub below_high: Option<f64>,
}

/// Judges every claim by the rows of a run folder, of all its experiments.
pub fn records(claims: &[Claim], rows: &[Row]) -> Vec<Record> {
    claims.iter().flat_map(|claim| of_claim(claim, rows)).collect()
}

fn of_claim(claim: &Claim, rows: &[Row]) -> Vec<Record> {
    let record = |step: &super::Step| {
        let [simulated, measured] =
            [Evidence::Simulated, Evidence::Measured].map(|evidence| (evidence, judge(step, rows, evidence)));
        let words = |(evidence, judged): &(Evidence, Judged)| judged.verdict.words(*evidence).to_owned();
        let (in_simulation, on_gpu) = (words(&simulated), words(&measured));
        // The numbers of a measurement, where there is one; a run folder holds one kind.
        let (evidence, judged) = if measured.1.verdict == Verdict::NotRun { simulated } else { measured };
        let was_run = judged.verdict != Verdict::NotRun;
        let machine = rows.iter().find(|row| was_run && Evidence::of(row) == evidence);
        let [band_low, band_high] = step.band.map(|end| end.is_finite().then_some(end));
        Record {
            claim: claim.id.clone(),
            text: claim.text.clone(),
            source: claim.source,
            experiments: claim.experiments.join(" "),
            inference: claim.inference.join(" "),
            metric: claim.metric,
            statistic: claim.statistic,
            relation: claim.relation,
            system: step.system.to_owned(),
            other: step.other.unwrap_or_default().to_owned(),
            published: claim.published,
            band_low,
            band_high,
            band_reason: claim.reason.clone(),
            pairs_needed: claim.pairs,
            simulated_verdict: in_simulation,
            measured_verdict: on_gpu,
            evidence: if was_run { evidence.name().to_owned() } else { String::new() },
            machine: machine.map(|row| row.machine.clone()).unwrap_or_default(),
            why: judged.why,
            n: judged.n,
            value: judged.value,
            low: judged.interval.map(|i| i.low),
            high: judged.interval.map(|i| i.high),
            interval: judged.interval.map(|_| method(step).to_owned()).unwrap_or_default(),
            median: judged.median,
            median_low: judged.median_interval.map(|i| i.low),
            median_high: judged.median_interval.map(|i| i.high),
            below: judged.below,
            below_low: judged.below_interval.map(|i| i.low),
            below_high: judged.below_interval.map(|i| i.high),
        }
    };
    claim.steps().iter().map(record).collect()
}

/// The text of the file.
///
/// # Errors
/// None that a caller can cause.
pub fn to_csv(records: &[Record]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    for record in records {
        writer.serialize(record)?;
    }
    writer.into_inner().context("cannot finish the claims")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{load, report::report};
    use crate::experiment::Experiment;
    use crate::root::Root;

    /// The published pairs as rows, in our names.
    fn published(root: &Root) -> Vec<Row> {
        let path = root.path().join("figures/reference/reference_a100.csv");
        let mut reader = csv::Reader::from_path(path).unwrap();
        let header = reader.headers().unwrap().clone();
        let rows = reader.records().map(|line| {
            let line = line.unwrap();
            let text = |name: &str| line[header.iter().position(|h| h == name).unwrap()].to_owned();
            let number = |name: &str| text(name).parse::<f64>().ok();
            let system = text("system").replace("tgs", "tgs-artifact");
            let ablation = system.starts_with("tally-no-");
            Row {
                experiment: if ablation { "fig7a" } else { "fig5" }.to_owned(),
                backend: "gpu".to_owned(),
                machine: "a100".to_owned(),
                kind: "pair".to_owned(),
                status: "ok".to_owned(),
                system,
                inference: format!("{}-infer", text("inference")),
                training: text("training"),
                load: number("load"),
                p99_overhead: number("p99_ms").zip(number("baseline_p99_ms")).map(|(a, b)| a / b - 1.0),
                be_norm: number("be_norm_throughput"),
                system_throughput: number("hp_norm_throughput")
                    .zip(number("be_norm_throughput"))
                    .map(|(hp, be)| hp + be),
                ..Row::default()
            }
        });
        let mut rows: Vec<Row> = rows.collect();
        // The ablation's table holds Tally too.
        let tally: Vec<Row> = rows.iter().filter(|row| row.system == "tally").cloned().collect();
        rows.extend(tally.into_iter().map(|row| Row { experiment: "fig7a".to_owned(), ..row }));
        rows
    }

    /// Whoever transcribes a claim wrongly says something that its own source contradicts.
    #[test]
    fn the_claims_of_the_demo_are_true_of_the_demo() {
        let root = Root::find().unwrap();
        let claims = load(&root, &Experiment::ids(&root).unwrap()).unwrap();
        let records = records(&claims, &published(&root));
        let of_demo: Vec<_> = records.iter().filter(|record| record.source == Source::Demo).collect();
        assert!(of_demo.len() > 30);
        for record in of_demo {
            let value = record.value.unwrap();
            let within = record.band_low.is_none_or(|low| low <= value) && value <= record.band_high.unwrap();
            assert!(within && record.measured_verdict != "missed", "{record:#?}");
            assert!(record.n >= record.pairs_needed, "{record:#?}");
            if let Some(published) = record.published {
                assert!((value / published - 1.0).abs() < 0.005, "{value}: {record:#?}");
            }
        }
        let one = |id: &str| records.iter().find(|record| record.claim == id).unwrap();
        assert_eq!(one("demo-tally-tail").measured_verdict, "reproduced");
        assert_eq!(
            (one("demo-tally-tail").evidence.as_str(), one("demo-tally-tail").simulated_verdict.as_str()),
            ("measured", "not run")
        );
        // 12 of the 36 pairs.
        assert_eq!(
            (one("paper-tally-tail").measured_verdict.as_str(), one("paper-tally-tail").why.as_str()),
            ("inconclusive", "12 of 36 pairs")
        );
    }

    #[test]
    fn lines_as_readers_see_them() {
        let root = Root::find().unwrap();
        let claims = load(&root, &Experiment::ids(&root).unwrap()).unwrap();
        let claims: Vec<Claim> = claims
            .into_iter()
            .filter(|claim| {
                ["demo-tally-tail", "demo-tally-lowest", "gate-tail"].contains(&claim.id.as_str())
            })
            .collect();
        let rows: Vec<Row> =
            published(&root).into_iter().map(|row| Row { backend: "sim".to_owned(), ..row }).collect();
        assert_eq!(
            report(&claims, &records(&claims, &rows)),
            "  holds in simulation, 0.048 (0.028 to 0.068) over 12 pairs, accepted 0 to 0.15: demo-tally-tail: Tally's mean \
             p99 overhead is small: 4.8 %.\n  holds in simulation (4 of 4); < time-slicing in 12 of 12, < tgs-artifact in 12 \
             of 12, < mps-priority in 12 of 12, < mps in 12 of 12: demo-tally-lowest: Tally has a lower p99 than every \
             other system, pair by pair (12 of 12 in the demo).\n  not run: gate-tail: Our gate at least halves the mean \
             p99 overhead of MPS with priorities.\n"
        );
    }

    #[test]
    fn a_record_comes_back() {
        let root = Root::find().unwrap();
        let claims = load(&root, &Experiment::ids(&root).unwrap()).unwrap();
        let expected = records(&claims, &published(&root));
        let bytes = to_csv(&expected).unwrap();
        let found: Result<Vec<Record>, _> =
            csv::Reader::from_reader(bytes.as_slice()).deserialize().collect();
        assert_eq!(found.unwrap(), expected);
    }
}
