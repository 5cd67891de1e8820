//! `artifact/experiments/<id>.toml`: what is run, and why.

mod kinds;

pub use kinds::{Classes, Crowd, Form, Intervals};

use crate::cell::{Load, Source, Span};
use crate::root::Root;
use anyhow::{Context, Result, bail, ensure};
use flags::Size;
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
    #[serde(default, rename = "kind")]
    _kind: kinds::Name,
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
    quick: WireForm,
    full: Option<WireForm>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSpan {
    min_seconds: u64,
    min_requests: u64,
}

/// `[quick]` and `[full]`: what replaces the fields of the same name.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireForm {
    expected_minutes: Option<f64>,
    systems: Option<Vec<String>>,
    inference: Option<Vec<String>>,
    training: Option<Vec<String>>,
    loads: Option<Vec<f64>>,
    seeds: Option<Vec<u64>>,
    span: Option<WireSpan>,
}

impl Wire {
    /// The experiment in this size. Without `[full]` the full one is the default one.
    fn resize(&mut self, size: Size) {
        let form = match size {
            Size::Quick => std::mem::take(&mut self.quick),
            Size::Default => return,
            Size::Full => self.full.take().unwrap_or_default(),
        };
        replace(&mut self.expected_minutes, form.expected_minutes);
        replace(&mut self.systems, form.systems);
        replace(&mut self.inference, form.inference);
        replace(&mut self.training, form.training);
        replace(&mut self.loads, form.loads);
        replace(&mut self.seeds, form.seeds);
        replace(&mut self.span, form.span);
    }
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
    /// Which form of it this is.
    pub size: Size,
    /// What its cells are.
    pub form: Form,
}

impl Experiment {
    /// Reads and checks one experiment.
    ///
    /// # Errors
    /// An unknown id (the message lists the known ones), or a malformed file, by line or by field and value.
    pub fn load(root: &Root, id: &str, size: Size) -> Result<Experiment> {
        let known = Experiment::ids(root)?;
        ensure!(
            known.iter().any(|k| k == id),
            "unknown experiment `{id}`; known experiments: {}",
            known.join(", ")
        );
        let path = root.experiments().join(format!("{id}.toml"));
        let workloads = workload_ids(root)?;
        Experiment::read(&path, size, &workloads).with_context(|| format!("in {}", path.display()))
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

    fn read(path: &Path, size: Size, workloads: &BTreeSet<String>) -> Result<Experiment> {
        let text = bounded::text(path, bounded::DEFINITION).context("cannot read it")?;
        let experiment = parse(&text, size)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        ensure!(experiment.id == stem, "id `{}` is not the file's name `{stem}`", experiment.id);
        for (name, text) in [
            ("title", &experiment.title),
            ("reason", &experiment.reason),
            ("upstream_counterpart", &experiment.upstream_counterpart),
        ] {
            ensure!(!text.trim().is_empty(), "{name} is empty; say it in a sentence");
        }
        for (field, ids) in [("inference", &experiment.inference), ("training", &experiment.training)] {
            if let Some(unknown) = ids.iter().find(|id| !workloads.contains(*id)) {
                let known: Vec<_> = workloads.iter().map(String::as_str).collect();
                bail!("{field}: unknown workload `{unknown}`; known workloads: {}", known.join(", "));
            }
        }
        Ok(experiment)
    }

    /// ` (quick)` or ` (full)` behind a name; nothing for the default size.
    pub fn size_note(&self) -> String {
        if self.size == Size::Default { String::new() } else { format!(" ({})", self.size.name()) }
    }

    fn check(wire: Wire, size: Size) -> Result<Experiment> {
        let span = wire.span;
        filled_without_repeats("systems", &wire.systems)?;
        filled_without_repeats("inference", &wire.inference)?;
        filled_without_repeats("training", &wire.training)?;
        filled_without_repeats("seeds", &wire.seeds)?;
        are_systems("systems", &wire.systems)?;
        are_systems("alone", &wire.alone)?;
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
        Ok(Experiment {
            id: wire.id,
            title: wire.title,
            reason: wire.reason,
            upstream_counterpart: wire.upstream_counterpart,
            default: wire.default,
            expected_minutes: wire.expected_minutes,
            systems: wire.systems,
            alone: wire.alone,
            span: Span { min_seconds: span.min_seconds, min_requests: span.min_requests },
            inference: wire.inference,
            training: wire.training,
            loads,
            seeds: wire.seeds,
            source: wire.trace,
            profiles: wire.profiles,
            size,
            form: Form::Pairs,
        })
    }
}

/// Only what says how to read the rest.
#[derive(Deserialize)]
struct Tag {
    #[serde(default)]
    kind: kinds::Name,
}

/// Reads the text of a file of any kind.
fn parse(text: &str, size: Size) -> Result<Experiment> {
    match toml::from_str::<Tag>(text)?.kind {
        kinds::Name::Pairs => {
            let mut wire: Wire = toml::from_str(text)?;
            wire.resize(size);
            Experiment::check(wire, size)
        }
        kind => kinds::read(kind, text, size),
    }
}

/// Every workload id: a folder with a `workload.toml`, and the variants that such a file declares.
fn workload_ids(root: &Root) -> Result<BTreeSet<String>> {
    Ok(workloads::definition::load_all(&root.workloads())?.into_keys().collect())
}

/// Puts the value of a size in the place of the field of the same name.
fn replace<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn filled_without_repeats<T: PartialEq + std::fmt::Debug>(name: &str, list: &[T]) -> Result<()> {
    ensure!(!list.is_empty(), "{name} is empty");
    if let Some(twice) = first_repeat(list) {
        bail!("{name}: {twice:?} is listed twice");
    }
    Ok(())
}

/// Known systems, each in one spelling, so that no table has one twice.
fn are_systems(field: &str, names: &[String]) -> Result<()> {
    for name in names {
        let system = sim::System::parse(name).with_context(|| field.to_owned())?;
        ensure!(system.name() == name, "{field}: write `{name}` as `{system}`");
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

    fn read(text: &str, size: Size) -> Result<Experiment> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, text).unwrap();
        Experiment::read(&path, size, &["a", "b", "t"].map(str::to_owned).into())
    }

    #[test]
    fn quick_and_full_replace_what_they_name() {
        let usual = read(GOOD, Size::Default).unwrap();
        assert_eq!((usual.inference.len(), usual.span.min_seconds), (2, 300));
        let quick = read(GOOD, Size::Quick).unwrap();
        assert_eq!((quick.inference.len(), quick.span.min_requests), (1, 100));
        // Without a full form it is the default one.
        let full = read(GOOD, Size::Full).unwrap();
        assert_eq!((full.seeds, full.expected_minutes), (usual.seeds, 1.0));
        let text = format!(
            "{GOOD}[full]\nexpected_minutes = 90\nseeds = [1, 2]\nloads = [0.1, 0.5]\nsystems = [\"no-sharing\"]\n"
        );
        let full = read(&text, Size::Full).unwrap();
        assert_eq!((full.seeds.len(), full.loads.len(), full.systems.len()), (2, 2, 1));
        assert_eq!((full.expected_minutes, full.inference.len(), full.span.min_seconds), (90.0, 2, 300));
        assert_eq!(read(&text, Size::Default).unwrap().seeds, [1]);
        let error = format!("{:#}", read(&format!("{text}pairs = 3\n"), Size::Default).unwrap_err());
        assert!(error.contains("pairs"), "{error}");
    }

    #[test]
    fn problems_name_field_and_value() {
        for (from, to, expected) in [
            ("\"mps\"", "\"mqs\"", "unknown system `mqs`"),
            ("\"mps\"", "\"gate:depth=02\"", "write `gate:depth=02` as `gate:depth=2`"),
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
            let error = format!("{:#}", read(&text, Size::Default).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
