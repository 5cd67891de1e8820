//! What went into two runs and is not the same: files, versions, machine, settings.

use super::Side;
use crate::runinfo::{Invocation, RunInfo};
use std::collections::{BTreeMap, BTreeSet};

/// What a side does not say.
const UNKNOWN: &str = "-";

/// One thing that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub what: String,
    pub a: String,
    pub b: String,
}

/// All that differs between what the latest invocations of two folders say.
pub fn between(a: &Side, b: &Side) -> Vec<Change> {
    let (a, b) = (facts(&a.info), facts(&b.info));
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let value = |side: &BTreeMap<String, String>, name: &String| {
        side.get(name).cloned().unwrap_or(UNKNOWN.to_owned())
    };
    let changes =
        names.into_iter().map(|name| Change { what: name.clone(), a: value(&a, name), b: value(&b, name) });
    changes.filter(|change| change.a != change.b).collect()
}

/// The facts of a run by name. Dates, durations and counts are no part of what a result depends on.
fn facts(info: &std::result::Result<RunInfo, String>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: String| facts.insert(name.to_owned(), value);
    let info = match info {
        Ok(info) => info,
        Err(why) => {
            put("run.toml", why.clone());
            return facts;
        }
    };
    put("backend", info.backend.clone());
    put("machine", info.machine.clone());
    put("size", info.size.clone());
    // The latest in the order of the file: a clock can go backwards.
    let Some(last) = info.invocation.last() else { return facts };
    let Invocation { revision, dirty, version, rustc, host_cpu, host_os, .. } = last;
    put("revision", format!("{revision}{}", if *dirty { " with changes" } else { "" }));
    put("version", version.clone());
    put("rustc", rustc.clone());
    put("simulator", last.simulator.to_string());
    put("cell format", last.cell_format.to_string());
    put("host", format!("{host_cpu}, {} cores, {host_os}", last.host_cores));
    put("experiments", last.experiments.join(" "));
    for (name, digest) in &last.inputs {
        put(&format!("input {name}"), digest.clone());
    }
    for (system, level) in &last.levels {
        put(&format!("level of {system}"), level.clone());
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_what_is_only_later_is_not() {
        let side = |change: &dyn Fn(&mut Invocation)| {
            let mut invocation =
                Invocation { started: "2026-01-01T00:00:00Z".to_owned(), ..Invocation::default() };
            invocation.inputs.insert("machines/h200.toml".to_owned(), "aa".to_owned());
            change(&mut invocation);
            let info = RunInfo { invocation: vec![Invocation::default(), invocation], ..RunInfo::default() };
            Side { folder: "x".into(), info: Ok(info), rows: BTreeMap::new() }
        };
        let same =
            between(&side(&|_| {}), &side(&|i| (i.started, i.wall_seconds) = ("2027".to_owned(), 9.0)));
        assert_eq!(same, []);
        let other = side(&|i| {
            i.simulator = 2;
            i.inputs.insert("machines/h200.toml".to_owned(), "bb".to_owned());
            i.inputs.insert("Cargo.lock".to_owned(), "cc".to_owned());
        });
        let named: Vec<_> = between(&side(&|_| {}), &other).into_iter().map(|c| (c.what, c.a, c.b)).collect();
        let expected = [
            ("input Cargo.lock", UNKNOWN, "cc"),
            ("input machines/h200.toml", "aa", "bb"),
            ("simulator", "0", "2"),
        ];
        assert_eq!(named, expected.map(|(what, a, b)| (what.to_owned(), a.to_owned(), b.to_owned())));
    }
}
