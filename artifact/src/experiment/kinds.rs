//! The kinds of experiments beside pairs: what else a file may describe, and how it reads.

use super::{Experiment, FEWEST_REQUESTS, are_systems, filled_without_repeats, replace};
use crate::cell::{Load, Pattern, Source, Span};
use anyhow::{Context, Result, ensure};
use flags::Size;
use serde::Deserialize;
use workloads::profile::ProfileSet;

/// As in the field `kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Name {
    #[default]
    Pairs,
    Crowd,
    Timeline,
    Profiles,
}

/// What the cells of an experiment are.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// Every server beside every training job, at every load.
    Pairs,
    /// One high-priority server among best-effort servers of the same job.
    Crowd(Crowd),
    /// Pairs, and how they do over time.
    Timeline(Intervals),
    /// No cells: what the recorded profiles say by themselves.
    Profiles(Classes),
}

/// How many servers run together, and when their requests arrive.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    /// Servers in all, the high-priority one included.
    pub clients: Vec<u8>,
    pub patterns: Vec<Pattern>,
}

/// Lengths of the intervals that a timeline is cut into, s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    /// Of the rate of arrivals.
    pub arrivals_seconds: u64,
    /// Of the percentiles.
    pub latency_seconds: u64,
    /// Of the training's rate.
    pub progress_seconds: u64,
}

/// Upper ends of the duration classes, ns, ascending; a last class holds what is longer.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes(pub Vec<u64>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrowdWire {
    #[serde(rename = "kind")]
    _kind: Name,
    id: String,
    title: String,
    reason: String,
    upstream_counterpart: String,
    default: bool,
    expected_minutes: f64,
    systems: Vec<String>,
    inference: String,
    clients: Vec<u8>,
    arrivals: Vec<Pattern>,
    load: f64,
    seeds: Vec<u64>,
    trace: Source,
    seconds: u64,
    quick: CrowdForm,
    full: Option<CrowdForm>,
}

/// `[quick]` and `[full]` of a crowd: what replaces the fields of the same name.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CrowdForm {
    expected_minutes: Option<f64>,
    clients: Option<Vec<u8>>,
    seeds: Option<Vec<u64>>,
    seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimelineWire {
    #[serde(rename = "kind")]
    _kind: Name,
    id: String,
    title: String,
    reason: String,
    upstream_counterpart: String,
    default: bool,
    expected_minutes: f64,
    systems: Vec<String>,
    inference: String,
    training: String,
    load: f64,
    seed: u64,
    trace: Source,
    seconds: u64,
    intervals: Intervals,
    quick: TimelineForm,
    full: Option<TimelineForm>,
}

/// `[quick]` and `[full]` of a timeline.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimelineForm {
    expected_minutes: Option<f64>,
    seconds: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfilesWire {
    #[serde(rename = "kind")]
    _kind: Name,
    id: String,
    title: String,
    reason: String,
    upstream_counterpart: String,
    default: bool,
    expected_minutes: f64,
    training: Vec<String>,
    classes_us: Vec<u64>,
}

/// Reads a file of one of these kinds.
///
/// # Errors
/// As [`Experiment::load`].
pub(super) fn read(kind: Name, text: &str, size: Size) -> Result<Experiment> {
    match kind {
        Name::Crowd => crowd(toml::from_str(text)?, size),
        Name::Timeline => timeline(toml::from_str(text)?, size),
        Name::Profiles => profiles(toml::from_str(text)?, size),
        Name::Pairs => unreachable!("pairs are read by their own function"),
    }
}

/// What a size changes; without `[full]` the full one is the default one.
fn form<T: Default>(size: Size, quick: T, full: Option<T>) -> T {
    match size {
        Size::Quick => quick,
        Size::Default => T::default(),
        Size::Full => full.unwrap_or_default(),
    }
}

fn crowd(mut wire: CrowdWire, size: Size) -> Result<Experiment> {
    let form = form(size, wire.quick, wire.full);
    replace(&mut wire.expected_minutes, form.expected_minutes);
    replace(&mut wire.clients, form.clients);
    replace(&mut wire.seeds, form.seeds);
    replace(&mut wire.seconds, form.seconds);
    let (clients, seconds) = (wire.clients, wire.seconds);
    filled_without_repeats("systems", &wire.systems)?;
    filled_without_repeats("clients", &clients)?;
    filled_without_repeats("arrivals", &wire.arrivals)?;
    filled_without_repeats("seeds", &wire.seeds)?;
    are_systems("systems", &wire.systems)?;
    if let Some(wrong) = clients.iter().find(|n| !(1..=sim::MOST_JOBS as u8).contains(n)) {
        anyhow::bail!("clients: {wrong} servers are not between 1 and {}", sim::MOST_JOBS);
    }
    Ok(Experiment {
        id: wire.id,
        title: wire.title,
        reason: wire.reason,
        upstream_counterpart: wire.upstream_counterpart,
        default: wire.default,
        expected_minutes: wire.expected_minutes,
        systems: wire.systems,
        alone: Vec::new(),
        inference: vec![wire.inference],
        training: Vec::new(),
        loads: vec![Load::new(wire.load).context("load")?],
        seeds: wire.seeds,
        source: wire.trace,
        span: span(seconds)?,
        profiles: ProfileSet::default(),
        size,
        form: Form::Crowd(Crowd { clients, patterns: wire.arrivals }),
    })
}

fn timeline(mut wire: TimelineWire, size: Size) -> Result<Experiment> {
    let form = form(size, wire.quick, wire.full);
    replace(&mut wire.expected_minutes, form.expected_minutes);
    replace(&mut wire.seconds, form.seconds);
    let seconds = wire.seconds;
    filled_without_repeats("systems", &wire.systems)?;
    are_systems("systems", &wire.systems)?;
    let Intervals { arrivals_seconds, latency_seconds, progress_seconds } = wire.intervals;
    for (name, length) in [
        ("arrivals_seconds", arrivals_seconds),
        ("latency_seconds", latency_seconds),
        ("progress_seconds", progress_seconds),
    ] {
        ensure!(
            length > 0 && seconds.is_multiple_of(length),
            "intervals.{name} = {length} does not divide the {seconds} s of the run"
        );
    }
    Ok(Experiment {
        id: wire.id,
        title: wire.title,
        reason: wire.reason,
        upstream_counterpart: wire.upstream_counterpart,
        default: wire.default,
        expected_minutes: wire.expected_minutes,
        systems: wire.systems,
        alone: Vec::new(),
        inference: vec![wire.inference],
        training: vec![wire.training],
        loads: vec![Load::new(wire.load).context("load")?],
        seeds: vec![wire.seed],
        source: wire.trace,
        span: span(seconds)?,
        profiles: ProfileSet::default(),
        size,
        form: Form::Timeline(wire.intervals),
    })
}

fn profiles(wire: ProfilesWire, size: Size) -> Result<Experiment> {
    filled_without_repeats("training", &wire.training)?;
    let ends = &wire.classes_us;
    ensure!(
        ends.first().is_some_and(|first| *first > 0) && ends.windows(2).all(|pair| pair[0] < pair[1]),
        "classes_us: {ends:?} are not ascending ends of classes"
    );
    Ok(Experiment {
        id: wire.id,
        title: wire.title,
        reason: wire.reason,
        upstream_counterpart: wire.upstream_counterpart,
        default: wire.default,
        expected_minutes: wire.expected_minutes,
        systems: Vec::new(),
        alone: Vec::new(),
        inference: Vec::new(),
        training: wire.training,
        loads: Vec::new(),
        seeds: Vec::new(),
        // Nothing arrives anywhere.
        source: Source::Poisson,
        span: Span { min_seconds: 0, min_requests: 0 },
        profiles: ProfileSet::default(),
        size,
        form: Form::Profiles(Classes(ends.iter().map(|us| us * 1000).collect())),
    })
}

fn span(seconds: u64) -> Result<Span> {
    ensure!(seconds > 0, "seconds must be at least 1");
    Ok(Span { min_seconds: seconds, min_requests: FEWEST_REQUESTS })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "id = \"x\"\ntitle = \"t\"\nreason = \"r\"\nupstream_counterpart = \"u\"\ndefault = true\n\
        expected_minutes = 1.0\n";
    const CROWD: &str = "kind = \"crowd\"\nsystems = [\"mps\"]\ninference = \"a\"\nclients = [1, 10]\n\
        arrivals = [\"independent\", \"coinciding\"]\nload = 0.1\nseeds = [1]\ntrace = \"poisson\"\nseconds = 60\n\
        quick = { clients = [2], seconds = 6 }\n";
    const TIMELINE: &str = "kind = \"timeline\"\nsystems = [\"mps\"]\ninference = \"a\"\ntraining = \"t\"\nload = 0.3\n\
        seed = 1\ntrace = \"maf2-two-weeks\"\nseconds = 60\n\
        intervals = { arrivals_seconds = 3, latency_seconds = 10, progress_seconds = 30 }\n\
        quick = { seconds = 30 }\n";
    const PROFILES: &str = "kind = \"profiles\"\ntraining = [\"t\"]\nclasses_us = [100, 1000]\n";

    fn parse(body: &str, size: Size) -> Result<Experiment> {
        super::super::parse(&format!("{HEAD}{body}"), size)
    }

    #[test]
    fn each_kind_is_read_with_its_quick_form() {
        let crowd = parse(CROWD, Size::Default).unwrap();
        assert!(matches!(&crowd.form, Form::Crowd(c) if c.clients == [1, 10] && c.patterns.len() == 2));
        let quick = parse(CROWD, Size::Quick).unwrap();
        assert!(matches!(&quick.form, Form::Crowd(c) if c.clients == [2]));
        assert_eq!((crowd.span.min_seconds, quick.span.min_seconds), (60, 6));
        let timeline = parse(TIMELINE, Size::Quick).unwrap();
        assert!(matches!(timeline.form, Form::Timeline(i) if i.latency_seconds == 10));
        assert_eq!(timeline.span.min_seconds, 30);
        let profiles = parse(PROFILES, Size::Default).unwrap();
        assert_eq!(profiles.form, Form::Profiles(Classes(vec![100_000, 1_000_000])));
    }

    #[test]
    fn the_full_form_replaces_what_it_names() {
        let full = "full = { expected_minutes = 9, seeds = [1, 2], clients = [1, 16], seconds = 600 }\n";
        let crowd = parse(&format!("{CROWD}{full}"), Size::Full).unwrap();
        assert!(matches!(&crowd.form, Form::Crowd(c) if c.clients == [1, 16] && c.patterns.len() == 2));
        assert_eq!((crowd.expected_minutes, crowd.seeds.len(), crowd.span.min_seconds), (9.0, 2, 600));
        let timeline = parse(&format!("{TIMELINE}full = {{ seconds = 8400 }}\n"), Size::Full).unwrap();
        assert_eq!((timeline.expected_minutes, timeline.span.min_seconds), (1.0, 8400));
        // Other sizes do not see it, and without it the full one is the default one.
        for body in [format!("{CROWD}{full}"), CROWD.to_owned()] {
            let usual = parse(&body, Size::Default).unwrap();
            assert_eq!((usual.expected_minutes, usual.seeds.len(), usual.span.min_seconds), (1.0, 1, 60));
        }
        assert_eq!(parse(TIMELINE, Size::Full).unwrap().span.min_seconds, 60);
        let error = format!(
            "{:#}",
            parse(&format!("{TIMELINE}full = {{ seconds = 65 }}\n"), Size::Full).unwrap_err()
        );
        assert!(error.contains("arrivals_seconds = 3 does not divide the 65 s"), "{error}");
    }

    #[test]
    fn problems_name_field_and_value() {
        for (body, from, to, expected) in [
            (CROWD, "[1, 10]", "[0]", "clients: 0 servers"),
            (CROWD, "[1, 10]", "[17]", "clients: 17 servers"),
            (CROWD, "\"coinciding\"", "\"equal\"", "unknown variant `equal`"),
            (CROWD, "load = 0.1", "loads = [0.1]", "unknown field `loads`"),
            (CROWD, "[\"mps\"]", "[\"mqs\"]", "unknown system `mqs`"),
            (CROWD, "[\"mps\"]", "[\"gate:depth=02\"]", "write `gate:depth=02` as `gate:depth=2`"),
            (TIMELINE, "[\"mps\"]", "[\"gate:depth=02\"]", "write `gate:depth=02` as `gate:depth=2`"),
            (TIMELINE, "seconds = 60", "seconds = 65", "arrivals_seconds = 3 does not divide the 65 s"),
            (TIMELINE, "training = \"t\"", "training = [\"t\"]", "line"),
            (TIMELINE, "seed = 1", "seed = 1\nclients = [1]", "unknown field `clients`"),
            (PROFILES, "[100, 1000]", "[1000, 100]", "classes_us"),
            (PROFILES, "\"profiles\"", "\"profile\"", "unknown variant `profile`"),
        ] {
            let text = body.replace(from, to);
            assert_ne!(text, body, "{from}");
            let error = format!("{:#}", parse(&text, Size::Default).unwrap_err());
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
