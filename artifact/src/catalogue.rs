//! `workloads.csv` of a run folder: what the jobs are, where they differ from upstream's, and what was recorded of them.
//! The columns are documented in docs/FORMATS.md; their names are those of the fields of [`Job`].

use crate::library::{RECORDED_ON, one_line};
use crate::root::Root;
use anyhow::{Context, Result};
use serde::Serialize;
use workloads::definition::{self, Workload};
use workloads::profile::{self, Profile};

/// The file's name.
pub const NAME: &str = "workloads.csv";

/// One row. An empty field is a missing number: nothing was recorded yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Job {
    workload: String,
    kind: String,
    /// The recorded workload that this one is derived from.
    variant_of: String,
    paper_name: String,
    upstream_actual: String,
    ours: String,
    /// Separated by `; `.
    differences: String,
    shapes: String,
    batch: u32,
    precision: String,
    reason: String,
    gpu_busy_share: Option<f64>,
    recorded_on: String,
    recorded_n: Option<u64>,
    recorded_mean_ns: Option<u64>,
    recorded_p99_ns: Option<u64>,
    unit_mean_ns: Option<u64>,
    launches_per_unit: Option<u64>,
    kernels_per_unit: Option<u64>,
    memory_bytes: Option<u64>,
    problem: String,
}

/// The file's text: every workload and variant of the repository, sorted by id.
///
/// # Errors
/// A definition that is not right. A profile that is missing or not right leaves its fields empty and says why in
/// `problem`.
pub fn to_csv(root: &Root) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    for (id, workload) in definition::load_all(&root.workloads())? {
        let mut job = Job::defined(&id, &workload);
        match profile::load(&root.workloads(), RECORDED_ON, &id) {
            Ok(profile) => job.record(&profile),
            // Without the path of this machine.
            Err(error) => job.problem = one_line(&error).replace(&format!("{}/", root.path().display()), ""),
        }
        writer.serialize(job)?;
    }
    writer.into_inner().context("cannot finish the table of the workloads")
}

impl Job {
    fn defined(id: &str, workload: &Workload) -> Job {
        let d = &workload.definition;
        let variant = d.variants.iter().find(|variant| variant.id == id);
        Job {
            workload: id.to_owned(),
            kind: match d.kind {
                definition::Kind::Inference => "inference".to_owned(),
                definition::Kind::Training => "training".to_owned(),
            },
            variant_of: variant.map(|_| d.id.clone()).unwrap_or_default(),
            paper_name: d.paper_name.clone(),
            upstream_actual: d.upstream_actual.clone(),
            ours: d.ours.clone(),
            differences: d.differences.join("; "),
            shapes: d.shapes.clone(),
            batch: d.batch,
            precision: d.precision.clone(),
            reason: variant.map_or(&d.reason, |variant| &variant.reason).clone(),
            gpu_busy_share: workload.gpu_busy_share,
            ..Job::default()
        }
    }

    fn record(&mut self, profile: &Profile) {
        let count = |keep: fn(&sim::Launch) -> bool| {
            let segments = profile.program.segments.iter();
            segments.map(|s| u64::from(s.repeat) * s.launches.iter().filter(|l| keep(l)).count() as u64).sum()
        };
        self.recorded_on.clone_from(&profile.gpu);
        self.recorded_n = Some(profile.unprofiled.n);
        self.recorded_mean_ns = Some(profile.unprofiled.mean_ns);
        self.recorded_p99_ns = Some(profile.unprofiled.p99_ns);
        self.unit_mean_ns = Some(profile.program.unprofiled_mean_ns);
        self.launches_per_unit = Some(count(|_| true));
        self.kernels_per_unit = Some(count(|launch| launch.kind == sim::Kind::Kernel));
        self.memory_bytes = Some(profile.program.memory_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::Path;

    /// Rows by workload, fields by column.
    fn table() -> BTreeMap<String, BTreeMap<String, String>> {
        let root = Root::at(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        let bytes = to_csv(&root).unwrap();
        let mut reader = csv::Reader::from_reader(bytes.as_slice());
        let rows: Vec<BTreeMap<String, String>> = reader.deserialize().collect::<Result<_, _>>().unwrap();
        rows.into_iter().map(|row| (row["workload"].clone(), row)).collect()
    }

    #[test]
    fn numbers_are_those_of_the_recordings() {
        let table = table();
        let bert = &table["bert-infer"];
        // workloads/profiles/h200/bert-infer.toml: [unprofiled] and [segment.request].
        for (column, expected) in [
            ("kind", "inference"),
            ("batch", "1"),
            ("precision", "fp16"),
            ("recorded_n", "3456"),
            ("recorded_mean_ns", "1442378"),
            ("launches_per_unit", "331"),
            ("kernels_per_unit", "302"),
            ("problem", ""),
        ] {
            assert_eq!(bert[column], expected, "{column}");
        }
        // Whisper waits for its input until the device was busy half of the time; the variant is the recording.
        let (whisper, bound) = (&table["whisper-train"], &table["whisper-train-gpu-bound"]);
        assert_eq!((bound["variant_of"].as_str(), whisper["variant_of"].as_str()), ("whisper-train", ""));
        assert_eq!(whisper["gpu_busy_share"], "0.5");
        assert_eq!(whisper["recorded_mean_ns"], bound["recorded_mean_ns"]);
        let unit = |row: &BTreeMap<String, String>| row["unit_mean_ns"].parse::<f64>().unwrap();
        assert!(unit(whisper) > 1.5 * unit(bound));
    }

    #[test]
    fn what_was_not_recorded_is_empty_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/bert-infer/workload.toml");
        std::fs::create_dir_all(folder.path().join("workloads/bert-infer")).unwrap();
        std::fs::copy(source, folder.path().join("workloads/bert-infer/workload.toml")).unwrap();
        let text = String::from_utf8(to_csv(&Root::at(folder.path())).unwrap()).unwrap();
        let row = text.lines().nth(1).unwrap();
        assert!(row.contains(",,,,,,,,"), "{row}");
        assert!(row.contains("is missing: no workloads/profiles/h200/bert-infer.toml"), "{row}");
    }
}
