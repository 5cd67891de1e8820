//! Our definitions beside upstream's configuration files, read as text: nothing of theirs is run.

use crate::definition::Workload;
use std::collections::BTreeMap;

/// Upstream's name of a job, by ours. The jobs with 384 or tf32 in their name have no counterpart.
const COUNTERPARTS: [(&str, &str); 12] = [
    ("bert-infer", "bert"),
    ("gpt-neo-2.7b-infer", "gpt-neo-2.7B"),
    ("llama-2-7b-infer", "llama-2-7b"),
    ("resnet50-infer", "resnet50"),
    ("stable-diffusion-infer", "stable-diffusion"),
    ("yolov6m-infer", "yolov6m"),
    ("bert-train", "bert"),
    ("gpt2-large-train", "gpt2-large"),
    ("pegasus-x-base-train", "pegasus-x-base"),
    ("pointnet-train", "pointnet"),
    ("resnet50-train", "resnet50"),
    ("whisper-train", "whisper-large-v3"),
];

/// One property of a job in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    pub id: &'static str,
    pub what: &'static str,
    pub ours: String,
    /// `None`: upstream's files do not say.
    pub upstream: Option<String>,
}

impl Compared {
    /// Both say the same.
    pub fn same(&self) -> bool {
        self.upstream.as_ref() == Some(&self.ours)
    }
}

/// Compares with the texts of upstream's `train_config.py` and `infer_config.py`: which jobs there are, their batch sizes,
/// and whether they run in full precision. Upstream's servers have batch size 1 by their code, not by these files.
pub fn compare(ours: &BTreeMap<String, Workload>, train: &str, infer: &str) -> Vec<Compared> {
    let mut rows = Vec::new();
    for (id, upstream) in COUNTERPARTS {
        let Some(workload) = ours.get(id) else { continue };
        if id.ends_with("-infer") {
            let listed = infer.contains(&format!("\"{upstream}\""));
            let upstream = listed.then(|| "yes".to_owned());
            rows.push(Compared { id, what: "listed", ours: "yes".to_owned(), upstream });
            continue;
        }
        let entry = entry(train, upstream);
        let value = |key: &str| entry.and_then(|text| list(text, key));
        rows.push(Compared {
            id,
            what: "batch sizes",
            ours: workload.definition.batch.to_string(),
            upstream: value("batch-sizes"),
        });
        let full = if workload.definition.precision == "fp32" { "False" } else { "True" };
        rows.push(Compared { id, what: "mixed precision", ours: full.to_owned(), upstream: value("amp") });
    }
    rows
}

/// The text between the braces of `"name": { ... }`.
fn entry<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let after = text.split_once(&format!("\"{name}\":"))?.1;
    Some(after.split_once('{')?.1.split_once('}')?.0)
}

/// The elements of `"key": [ ... ]`, joined with commas.
fn list(entry: &str, key: &str) -> Option<String> {
    let after = entry.split_once(&format!("\"{key}\":"))?.1;
    let inside = after.split_once('[')?.1.split_once(']')?.0;
    Some(inside.split(',').map(str::trim).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    // Written for this test in the form of upstream's files.
    const TRAIN: &str = r#"t = {"f": {"resnet50": {"batch-sizes": [128], "amp": [False]},
        "bert": {"amp": [True], "batch-sizes": [16, 32]}}}"#;

    #[test]
    fn what_differs_and_what_is_missing_is_told() {
        let ours = crate::definition::load_all(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        let rows = compare(&ours, TRAIN, r#"{"o": ["bert"]}"#);
        let row = |id: &str, what: &str| rows.iter().find(|r| r.id == id && r.what == what).unwrap();
        assert!(row("resnet50-train", "batch sizes").same());
        assert!(row("resnet50-train", "mixed precision").same());
        assert_eq!(row("bert-train", "batch sizes").upstream.as_deref(), Some("16, 32"));
        assert!(!row("bert-train", "batch sizes").same());
        assert!(!row("bert-train", "mixed precision").same());
        assert_eq!(row("gpt2-large-train", "batch sizes").upstream, None);
        assert!(row("bert-infer", "listed").same());
        assert!(!row("llama-2-7b-infer", "listed").same());
    }
}
