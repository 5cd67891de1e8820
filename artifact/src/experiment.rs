//! `artifact/experiments/<id>.toml`: what is run, why, and what is claimed.

use crate::cell::{Load, Source, Span};
use crate::claims::Claim;
use crate::root::Root;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use workloads::profile::ProfileSet;

/// The fewest requests that a cell may expect: below, a p99 is the maximum.
pub const FEWEST_REQUESTS: u64 = 100;

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    id: String,
    title: String,
    reason: String,
    upstream_counterpart: String,
    default: bool,
    expected_minutes: f64,
    systems: Vec<String>,
    #[serde(default)]
    alone: Vec<String>,
    inference: Vec<String>,
    training: Vec<String>,
    loads: Vec<f64>,
    seeds: Vec<u64>,
    trace: Source,
    #[serde(default)]
    profiles: ProfileSet,
    span: WireSpan,
    quick: WireQuick,
    #[serde(default)]
    claim: Vec<Claim>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSpan {
    min_seconds: u64,
    min_requests: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireQuick {
    inference: Vec<String>,
    training: Vec<String>,
    span: WireSpan,
}

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub id: String,
    pub title: String,
    /// Why it is here.
    pub reason: String,
    /// The part of the paper or its artifact that it stands for.
    pub upstream_counterpart: String,
    /// Whether `reproduce` runs it when no experiment is named.
    pub default: bool,
    /// On 2 cores, without the build.
    pub expected_minutes: f64,
    pub systems: Vec<String>,
    /// Systems under which the server also runs without a neighbour, to see what the system itself costs.
    pub alone: Vec<String>,
    pub inference: Vec<String>,
    pub training: Vec<String>,
    pub loads: Vec<Load>,
    pub seeds: Vec<u64>,
    pub source: Source,
    /// Which recordings of the jobs it runs.
    pub profiles: ProfileSet,
    pub span: Span,
    pub claims: Vec<Claim>,
    /// Whether this is the short form of `--quick`.
    pub quick: bool,
}

impl Experiment {
    /// Reads and checks one experiment.
    ///
    /// # Errors
    /// An unknown id (the message lists the known ones), or a malformed file, by line or by field and value.
    pub fn load(root: &Root, id: &str, quick: bool) -> Result<Experiment> {
        let known = Experiment::ids(root)?;
        ensure!(
            known.iter().any(|k| k == id),
            "unknown experiment `{id}`; known experiments: {}",
            known.join(", ")
        );
        let path = root.experiments().join(format!("{id}.toml"));
        let workloads = workload_ids(root)?;
        Experiment::read(&path, quick, &workloads).with_context(|| format!("in {}", path.display()))
    }

    /// The experiments there are, sorted.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn ids(root: &Root) -> Result<Vec<String>> {
        let folder = root.experiments();
        let mut ids = Vec::new();
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "toml")
                && let Some(stem) = path.file_stem()
            {
                ids.push(stem.to_string_lossy().into_owned());
            }
        }
        ids.sort();
        Ok(ids)
    }

    fn read(path: &Path, quick: bool, workloads: &BTreeSet<String>) -> Result<Experiment> {
        let text = bounded::text(path, bounded::DEFINITION).context("cannot read it")?;
        let wire: Wire = toml::from_str(&text)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        ensure!(wire.id == stem, "id `{}` is not the file's name `{stem}`", wire.id);
        let experiment = Experiment::check(wire, quick)?;
        for (field, ids) in [("inference", &experiment.inference), ("training", &experiment.training)] {
            if let Some(unknown) = ids.iter().find(|id| !workloads.contains(*id)) {
                let known: Vec<_> = workloads.iter().map(String::as_str).collect();
                bail!("{field}: unknown workload `{unknown}`; known workloads: {}", known.join(", "));
            }
        }
        Ok(experiment)
    }

    fn check(wire: Wire, quick: bool) -> Result<Experiment> {
        let (inference, training, span) = if quick {
            (wire.quick.inference, wire.quick.training, wire.quick.span)
        } else {
            (wire.inference, wire.training, wire.span)
        };
        for (name, text) in [
            ("title", &wire.title),
            ("reason", &wire.reason),
            ("upstream_counterpart", &wire.upstream_counterpart),
        ] {
            ensure!(!text.trim().is_empty(), "{name} is empty; say it in a sentence");
        }
        filled_without_repeats("systems", &wire.systems)?;
        filled_without_repeats("inference", &inference)?;
        filled_without_repeats("training", &training)?;
        filled_without_repeats("seeds", &wire.seeds)?;
        for system in &wire.systems {
            sim::System::parse(system).context("systems")?;
        }
        for system in &wire.alone {
            sim::System::parse(system).context("alone")?;
        }
        if let Some(twice) = first_repeat(&wire.alone) {
            bail!("alone: \"{twice}\" is listed twice");
        }
        let loads: Vec<Load> =
            wire.loads.iter().map(|l| Load::new(*l)).collect::<Result<_>>().context("loads")?;
        filled_without_repeats("loads", &loads)?;
        ensure!(
            span.min_requests >= FEWEST_REQUESTS,
            "span.min_requests = {}: a cell needs at least {FEWEST_REQUESTS} requests for its percentiles",
            span.min_requests
        );
        ensure!(span.min_seconds > 0, "span.min_seconds must be at least 1");
        let ids: Vec<_> = wire.claim.iter().map(|claim| claim.id.clone()).collect();
        if let Some(twice) = first_repeat(&ids) {
            bail!("claim: the id `{twice}` is used twice");
        }
        for claim in &wire.claim {
            claim.check(&wire.systems).with_context(|| format!("claim `{}`", claim.id))?;
        }
        Ok(Experiment {
            id: wire.id,
            title: wire.title,
            reason: wire.reason,
            upstream_counterpart: wire.upstream_counterpart,
            default: wire.default,
            expected_minutes: wire.expected_minutes,
            systems: wire.systems,
            alone: wire.alone,
            inference,
            training,
            loads,
            seeds: wire.seeds,
            source: wire.trace,
            profiles: wire.profiles,
            span: Span { min_seconds: span.min_seconds, min_requests: span.min_requests },
            claims: wire.claim,
            quick,
        })
    }
}

/// Every workload id: a folder with a `workload.toml`, and the variants that such a file declares.
fn workload_ids(root: &Root) -> Result<BTreeSet<String>> {
    Ok(workloads::definition::load_all(&root.workloads())?.into_keys().collect())
}

fn filled_without_repeats<T: PartialEq + std::fmt::Debug>(name: &str, list: &[T]) -> Result<()> {
    ensure!(!list.is_empty(), "{name} is empty");
    if let Some(twice) = first_repeat(list) {
        bail!("{name}: {twice:?} is listed twice");
    }
    Ok(())
}

fn first_repeat<T: PartialEq>(list: &[T]) -> Option<&T> {
    list.iter().enumerate().find(|(i, item)| list[..*i].contains(item)).map(|(_, item)| item)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
id = "x"
title = "A title"
reason = "A reason."
upstream_counterpart = "figure 0"
default = true
expected_minutes = 1.0
systems = ["no-sharing", "mps"]
inference = ["a", "b"]
training = ["t"]
loads = [0.5]
seeds = [1]
trace = "maf2"
[span]
min_seconds = 300
min_requests = 1000
[quick]
inference = ["a"]
training = ["t"]
span = { min_seconds = 30, min_requests = 100 }
"#;

    fn read(text: &str, quick: bool) -> Result<Experiment> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, text).unwrap();
        Experiment::read(&path, quick, &["a", "b", "t"].map(str::to_owned).into())
    }

    #[test]
    fn quick_replaces_jobs_and_span() {
        let full = read(GOOD, false).unwrap();
        assert_eq!((full.inference.len(), full.span.min_seconds), (2, 300));
        let quick = read(GOOD, true).unwrap();
        assert_eq!((quick.inference.len(), quick.span.min_requests), (1, 100));
    }

    #[test]
    fn problems_name_field_and_value() {
        for (from, to, expected) in [
            ("\"mps\"", "\"mqs\"", "unknown system `mqs`"),
            ("\"mps\"", "\"no-sharing\"", "systems: \"no-sharing\" is listed twice"),
            ("[\"a\", \"b\"]", "[\"a\", \"c\"]", "unknown workload `c`"),
            ("[0.5]", "[1.5]", "load 1.5"),
            ("[0.5]", "[]", "loads is empty"),
            ("title =", "titel =", "titel"),
            ("min_requests = 1000", "min_requests = 99", "99"),
            ("id = \"x\"", "id = \"y\"", "not the file's name `x`"),
            ("trace = \"maf2\"", "trace = \"maf3\"", "maf3"),
            ("seeds = [1]", "seeds = [1", "line 1"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            let error = format!("{:#}", read(&text, false).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
