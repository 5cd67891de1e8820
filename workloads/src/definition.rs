//! `workloads/<id>/workload.toml`: what the paper names, what upstream ran, what we run, and where they differ.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Which side of a pair a workload can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// High priority: serves requests.
    Inference,
    /// Best effort: iterates.
    Training,
}

/// Which recording stands for the workload on upstream's software stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactProfile {
    /// One of its own, in `profiles/<gpu>-artifact`.
    Recorded,
    /// The stock one.
    Same,
}

/// How the workload takes part in the profile set that stands for upstream's stack.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub profile: ArtifactProfile,
    /// Why the stock recording is good enough; every `same` has one.
    pub reason: Option<String>,
}

/// A derived form of a recorded workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub id: String,
    /// Why it is needed.
    pub reason: String,
    /// The host waits after each iteration, as for its input, until the device was busy for this share of it.
    pub gpu_busy_share: Option<f64>,
}

/// A checked `workload.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The name of its folder.
    pub id: String,
    pub kind: Kind,
    /// What the paper calls it.
    pub paper_name: String,
    /// What upstream's scripts really run.
    pub upstream_actual: String,
    /// What we run.
    pub ours: String,
    /// Where ours differs from upstream's, one sentence each.
    pub differences: Vec<String>,
    /// Shapes of the inputs, as text.
    pub shapes: String,
    pub batch: u32,
    pub precision: String,
    /// Why the workload is here.
    pub reason: String,
    /// Where the definition comes from.
    pub source: String,
    /// The Python file that runs it, relative to the folder.
    pub program: String,
    /// Steps of each recorded segment per iteration or request, by name.
    pub segments: BTreeMap<String, u32>,
    /// See [`Artifact`].
    pub artifact: Artifact,
    /// As upstream ran it, where the recording differs: see [`Variant::gpu_busy_share`].
    pub gpu_busy_share: Option<f64>,
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
}

/// A workload by id: the workload itself or a variant of it.
#[derive(Clone, Debug)]
pub struct Workload {
    pub definition: Definition,
    /// See [`Variant::gpu_busy_share`]; `None` for the recording itself.
    pub gpu_busy_share: Option<f64>,
}

impl Definition {
    /// Parses and checks the text of one file.
    ///
    /// # Errors
    /// Unknown or missing fields by line, empty texts, shares out of range.
    pub fn parse(text: &str) -> Result<Definition> {
        let definition: Definition = toml::from_str(text)?;
        for (name, value) in [
            ("paper_name", &definition.paper_name),
            ("upstream_actual", &definition.upstream_actual),
            ("ours", &definition.ours),
            ("reason", &definition.reason),
            ("source", &definition.source),
            ("program", &definition.program),
        ] {
            ensure!(!value.trim().is_empty(), "{name} is empty");
        }
        ensure!(definition.batch > 0, "batch must be at least 1");
        ensure!(definition.segments.values().all(|steps| *steps > 0), "segments: each needs at least 1 step");
        let reason = definition.artifact.reason.as_deref().unwrap_or_default().trim();
        ensure!(
            definition.artifact.profile == ArtifactProfile::Recorded || !reason.is_empty(),
            "artifact.profile = \"same\" needs artifact.reason: why upstream's stack runs the same kernels"
        );
        let shares = definition.variants.iter().map(|v| v.gpu_busy_share).chain([definition.gpu_busy_share]);
        for share in shares.flatten() {
            ensure!(share > 0.0 && share <= 1.0, "gpu_busy_share {share} must be above 0 and at most 1");
        }
        Ok(definition)
    }
}

/// All workloads and variants, by id.
///
/// # Errors
/// A file that cannot be read or is not right, an id that is not its folder's name, an id used twice.
pub fn load_all(folder: &Path) -> Result<BTreeMap<String, Workload>> {
    let mut all = BTreeMap::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path().join("workload.toml");
        if !path.is_file() {
            continue;
        }
        let read = || -> Result<Definition> {
            let definition = Definition::parse(&bounded::text(&path, bounded::DEFINITION)?)?;
            let name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
            ensure!(definition.id == name, "id `{}` is not the folder's name `{name}`", definition.id);
            Ok(definition)
        };
        let definition = read().with_context(|| format!("in {}", path.display()))?;
        let own = (definition.id.clone(), definition.gpu_busy_share);
        let variants =
            definition.variants.iter().map(|v| (v.id.clone(), v.gpu_busy_share)).collect::<Vec<_>>();
        for (id, gpu_busy_share) in [own].into_iter().chain(variants) {
            let workload = Workload { definition: definition.clone(), gpu_busy_share };
            if all.insert(id.clone(), workload).is_some() {
                bail!("in {}: the workload id `{id}` is used twice", path.display());
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
id = "w"
kind = "training"
paper_name = "W"
upstream_actual = "w-small"
ours = "w-small"
differences = []
shapes = "16 x 80 x 3000"
batch = 16
precision = "fp32"
reason = "Because."
source = "a test"
program = "program.py"
[artifact]
profile = "same"
reason = "No convolution."
[segments]
step = 1
[[variant]]
id = "w-input-bound"
reason = "As upstream ran it."
gpu_busy_share = 0.5
"#;

    fn load(text: &str) -> Result<BTreeMap<String, Workload>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("w")).unwrap();
        std::fs::write(folder.path().join("w/workload.toml"), text).unwrap();
        load_all(folder.path())
    }

    #[test]
    fn variants_are_workloads_of_their_own() {
        let all = load(GOOD).unwrap();
        assert_eq!(all["w"].gpu_busy_share, None);
        assert_eq!(all["w-input-bound"].gpu_busy_share, Some(0.5));
        assert_eq!(all["w-input-bound"].definition.id, "w");
    }

    #[test]
    fn a_workload_can_wait_and_its_variant_be_the_recording() {
        let text = GOOD
            .replace("gpu_busy_share = 0.5\n", "")
            .replace("[artifact]", "gpu_busy_share = 0.5\n[artifact]");
        let all = load(&text).unwrap();
        assert_eq!((all["w"].gpu_busy_share, all["w-input-bound"].gpu_busy_share), (Some(0.5), None));
    }

    #[test]
    fn problems_name_file_and_field() {
        for (from, to, expected) in [
            ("batch = 16", "batsh = 16", "batsh"),
            ("batch = 16", "batch = 0", "batch must be at least 1"),
            ("id = \"w\"", "id = \"v\"", "not the folder's name `w`"),
            ("w-input-bound", "w", "used twice"),
            ("0.5", "1.5", "gpu_busy_share 1.5"),
            ("\"training\"", "\"traning\"", "traning"),
            ("reason = \"Because.\"", "reason = \" \"", "reason is empty"),
            ("reason = \"No convolution.\"", "", "needs artifact.reason"),
            ("\"same\"", "\"sane\"", "sane"),
        ] {
            let text = GOOD.replace(from, to);
            assert_ne!(text, GOOD);
            let error = format!("{:#}", load(&text).unwrap_err());
            assert!(error.contains(expected) && error.contains("workload.toml"), "{expected}: {error}");
        }
    }
}
