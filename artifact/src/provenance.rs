//! Where a run's numbers come from: digests of the files it read, how kernels were held back, and the command, without
//! what tells whose machine it was.

use crate::cell::Source;
use crate::experiment::Experiment;
use crate::key;
use crate::root::Root;
use crate::traffic::MAF2_TEXT;
use sim::System;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use workloads::definition::ArtifactProfile;
use workloads::profile::ProfileSet;

/// Of a file that should be there.
const MISSING: &str = "missing";

/// SHA-256 of every file that the experiments and their claims come from, by its name in the repository, and of
/// `Cargo.lock`, which fixes the versions of all libraries. Traces that are built in are named as the files they were built
/// from.
pub fn inputs(
    root: &Root,
    machine: &str,
    recorded_on: &str,
    experiments: &[&Experiment],
) -> BTreeMap<String, String> {
    let mut names = BTreeSet::from(["Cargo.lock", "artifact/claims.toml"].map(str::to_owned));
    for name in [machine, recorded_on] {
        names.insert(format!("machines/{name}.toml"));
    }
    // What is wrong with a definition was said when the experiments were read.
    let definitions = workloads::definition::load_all(&root.workloads()).unwrap_or_default();
    for experiment in experiments {
        names.insert(format!("artifact/experiments/{}.toml", experiment.id));
        for id in experiment.inference.iter().chain(&experiment.training) {
            let recorded = definitions.get(id).map_or(id, |workload| &workload.definition.id);
            names.insert(format!("workloads/{recorded}/workload.toml"));
            let own = definitions.get(id).map(|workload| workload.definition.artifact.profile);
            let folder = match (experiment.profiles, own) {
                (ProfileSet::Artifact, Some(ArtifactProfile::Recorded)) => format!("{recorded_on}-artifact"),
                _ => recorded_on.to_owned(),
            };
            for kind in ["toml", "parquet"] {
                names.insert(format!("workloads/profiles/{folder}/{recorded}.{kind}"));
            }
        }
        let trace = match experiment.source {
            Source::Maf2 | Source::Maf2TwoWeeks if root.path().join(MAF2_TEXT).exists() => Some(MAF2_TEXT),
            Source::Maf2 | Source::Maf2TwoWeeks => Some("traces/data/maf2_first998_rows.csv"),
            Source::AzureLlmCode => Some("traces/data/AzureLLMInferenceTrace_code.csv"),
            Source::AzureLlmConv => Some("traces/data/AzureLLMInferenceTrace_conv.csv"),
            Source::Poisson => None,
        };
        names.extend(trace.map(str::to_owned));
    }
    let digest =
        |name: &String| key::sha256_file(&root.path().join(name)).unwrap_or_else(|_| MISSING.to_owned());
    names.into_iter().map(|name| (name.clone(), digest(&name))).collect()
}

/// At which level each of our systems holds kernels back.
pub fn levels(experiments: &[&Experiment]) -> BTreeMap<String, String> {
    let systems = experiments.iter().flat_map(|experiment| &experiment.systems);
    let level = |name: &String| Some((name.clone(), System::parse(name).ok()?.word("level")?.to_owned()));
    systems.filter_map(level).collect()
}

/// A command line as it could be typed in the repository, without absolute paths: those in the repository become
/// relative, those in the home folder begin with `~`, and of others the last part remains.
pub fn command(arguments: &[String], root: &Path, home: Option<&Path>) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut rest = arguments.iter();
    if let Some(program) = rest.next() {
        shown.push(Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    while let Some(argument) = rest.next() {
        // The text that xtask passes on has a field of its own, and a UUID means nothing on another machine.
        if ["--backend-reason", "--device"].contains(&argument.as_str()) {
            rest.next();
            continue;
        }
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (format!("{flag}="), value),
            _ => (String::new(), argument.as_str()),
        };
        shown.push(quoted(&format!("{flag}{}", without_place(value, root, home))));
    }
    shown.join(" ")
}

fn without_place(argument: &str, root: &Path, home: Option<&Path>) -> String {
    let path = Path::new(argument);
    if !path.is_absolute() {
        return argument.to_owned();
    }
    if let Ok(relative) = path.strip_prefix(root) {
        let relative = relative.to_string_lossy().into_owned();
        return if relative.is_empty() { ".".to_owned() } else { relative };
    }
    if let Some(relative) = home.and_then(|home| path.strip_prefix(home).ok()) {
        return format!("~/{}", relative.display());
    }
    format!("<elsewhere>/{}", path.file_name().unwrap_or_default().to_string_lossy())
}

fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=~:,+<>".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_tells_nobodys_place() {
        let arguments: Vec<String> = [
            "/home/ann/tally/target/debug/artifact",
            "reproduce",
            "--out",
            "/home/ann/tally/results/x",
            "--out=/home/ann/y z",
            "/mnt/ann/elsewhere/w",
            "relative/it's",
            "--backend-reason",
            "no usable GPU because /home/ann",
            "--device",
            "GPU-1234",
            "--jobs",
            "2",
        ]
        .map(str::to_owned)
        .to_vec();
        let text = command(&arguments, Path::new("/home/ann/tally"), Some(Path::new("/home/ann")));
        assert_eq!(
            text,
            r"artifact reproduce --out results/x '--out=~/y z' <elsewhere>/w 'relative/it'\''s' --jobs 2"
        );
    }

    #[test]
    fn everything_that_an_experiment_reads_is_named() {
        let root = Root::at(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")));
        let experiment = Experiment::load(&root, "fig7a", flags::Size::Default).unwrap();
        let inputs = inputs(&root, "h200", "h200", &[&experiment]);
        for name in [
            "Cargo.lock",
            "machines/h200.toml",
            "artifact/experiments/fig7a.toml",
            "traces/data/maf2_first998_rows.csv",
            "workloads/profiles/h200/bert-infer.parquet",
            "workloads/bert-infer/workload.toml",
        ] {
            assert_eq!(inputs.get(name).map(String::len), Some(64), "{name}: {inputs:#?}");
        }
        assert!(inputs.values().all(|digest| digest != MISSING), "{inputs:#?}");
    }
}
