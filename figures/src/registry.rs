//! What can be drawn: ids, titles, the experiment behind each, and upstream's counterpart.

use anyhow::{Result, anyhow};

use crate::crowd::{self, Crowd};
use crate::fidelity::{self, Known};
use crate::fig6b::Loads;
use crate::fig7a;
use crate::fig9::Dots;
use crate::fig10::Thresholds;
use crate::grid::Grid;
use crate::inputs::Inputs;
use crate::recorded::{self, Durations};
use crate::timeline::{self, Timeline};
use crate::{fig4, fig5, fig6b, fig9, fig10, overheads, pairs, table3, table4, workloads};

/// A file of a figure or table: its path in the run folder, with `/`, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub path: String,
    pub bytes: Vec<u8>,
}

impl Output {
    fn new(path: String, bytes: impl Into<Vec<u8>>) -> Output {
        Output { path, bytes: bytes.into() }
    }
}

/// One figure or table.
#[derive(Debug)]
pub struct Entry {
    pub id: &'static str,
    pub title: &'static str,
    /// The experiments it shows, `<experiment>.csv` each. It is drawn as soon as the first has a table.
    pub experiments: &'static [&'static str],
    /// Other files of the run folder that it is drawn from; all of them must be there.
    pub records: &'static [&'static str],
    pub aliases: &'static [&'static str],
    /// What it corresponds to in upstream's scripts.
    pub upstream: &'static str,
    /// How the number in the id was found: upstream's scripts do not give figure numbers.
    pub paper_number: &'static str,
    /// What a reader should know before comparing; may be empty.
    pub note: &'static str,
    render: fn(&Entry, &Inputs) -> Result<Vec<Output>>,
}

impl Entry {
    /// Names of what it is drawn from: experiments, then other files.
    pub fn sources(&self) -> Vec<&'static str> {
        self.experiments.iter().chain(self.records).copied().collect()
    }

    /// Every file of this figure or table.
    ///
    /// # Errors
    /// The records cannot be shown in one picture, or a system has no style.
    pub fn render(&self, inputs: &Inputs) -> Result<Vec<Output>> {
        (self.render)(self, inputs)
    }
}

/// All figures and tables.
pub static ENTRIES: &[Entry] = &[
    Entry {
        id: "fig4",
        title: "Motivation: tail latency under time-slicing and MPS",
        experiments: &["fig4"],
        records: &[],
        aliases: &["motivation"],
        upstream: "motivation bars",
        paper_number: "inferred",
        note: "",
        render: |entry, inputs| {
            let grid = Grid::of(inputs.first()?)?;
            figure(entry, &fig4::picture(&grid)?, fig5::csv(&grid))
        },
    },
    Entry {
        id: "fig5",
        title: "End-to-end p99 latency and system throughput",
        experiments: &["fig5"],
        records: &[],
        aliases: &["end-to-end"],
        upstream: "end-to-end grid of the pairwise runs (load 0.5)",
        paper_number: "inferred",
        note: "",
        render: |entry, inputs| {
            let grid = Grid::of(inputs.first()?)?;
            figure(entry, &fig5::picture(&grid)?, fig5::csv(&grid))
        },
    },
    Entry {
        id: "fig6a",
        title: "Timeline of recorded traffic",
        experiments: &["fig6a"],
        records: &["fig6a-series.csv"],
        aliases: &["timeline", "two-week"],
        upstream: "two-week time series (3 rows)",
        paper_number: "inferred",
        note: "",
        render: |entry, inputs| {
            let timeline = Timeline::of(inputs, entry.records[0])?;
            figure(entry, &timeline::picture(&timeline)?, timeline::csv(&timeline))
        },
    },
    Entry {
        id: "fig6b",
        title: "Load sweep: tail latency and best-effort throughput",
        experiments: &["fig6b"],
        records: &[],
        aliases: &["load-sweep"],
        upstream: "latency and throughput against load (2x2)",
        paper_number: "inferred",
        note: "",
        render: |entry, inputs| {
            let loads = Loads::of(inputs.first()?)?;
            figure(entry, &fig6b::picture(&loads)?, fig6b::csv(&loads))
        },
    },
    Entry {
        id: "fig7",
        title: "Performance decomposition",
        experiments: &["fig7a", "fig7b"],
        records: &[],
        aliases: &["decomposition", "fig7a"],
        upstream: "ablation bars; N workloads",
        paper_number: "inferred",
        note: "Panel b is drawn when the experiment fig7b was run too.",
        render: |entry, inputs| {
            let grid = Grid::of(inputs.first()?)?;
            let crowd = inputs.table("fig7b").map(Crowd::of).transpose()?;
            let picture = fig7a::picture(&grid, crowd.as_ref())?;
            let mut outputs = figure(entry, &picture, fig5::csv(&grid))?;
            // The two panels have other columns.
            let panel_b =
                crowd.map(|crowd| Output::new(format!("figures/{}-b.csv", entry.id), crowd::csv(&crowd)));
            outputs.extend(panel_b);
            Ok(outputs)
        },
    },
    Entry {
        id: "fig7b",
        title: "One to ten servers",
        experiments: &["fig7b"],
        records: &[],
        aliases: &["scalability", "n-workloads"],
        upstream: "N workloads: p99 and requests per minute",
        paper_number: "inferred",
        note: "also panel b of fig7",
        render: |entry, inputs| {
            let crowd = Crowd::of(inputs.first()?)?;
            figure(entry, &crowd::picture(&crowd)?, crowd::csv(&crowd))
        },
    },
    Entry {
        id: "fig8",
        title: "Kernel durations of the training jobs",
        experiments: &[],
        records: &["fig8-durations.csv"],
        aliases: &["kernel-durations"],
        upstream: "kernel-duration pies",
        paper_number: "inferred",
        note: "recorded, not simulated",
        render: |entry, inputs| {
            let durations = Durations::of(inputs, entry.records[0])?;
            figure(entry, &recorded::picture(&durations)?, recorded::csv(&durations))
        },
    },
    Entry {
        id: "table1",
        title: "Turnaround by scheduling granularity",
        experiments: &[],
        records: &["fig8-turnaround.csv"],
        aliases: &["turnaround"],
        upstream: "none: the paper's table of turnaround at iteration, kernel and block granularity",
        paper_number: "inferred",
        note: "recorded, not simulated; rounds of blocks are derived",
        render: |entry, inputs| {
            let (markdown, csv) = recorded::turnaround(entry.title, inputs, entry.records[0])?;
            Ok(table(entry, markdown, csv))
        },
    },
    Entry {
        id: "fig9",
        title: "Service time against response time",
        experiments: &["fig5"],
        records: &[],
        aliases: &["service-vs-response"],
        upstream: "none: upstream measures service time alone",
        paper_number: "ours, not in the paper's scripts",
        note: "",
        render: |entry, inputs| {
            let dots = Dots::of(inputs.first()?)?;
            figure(entry, &fig9::picture(&dots)?, fig9::csv(&dots))
        },
    },
    Entry {
        id: "fig10",
        title: "Sensitivity to Tally's turnaround-latency threshold",
        experiments: &["fig10"],
        records: &[],
        aliases: &["threshold"],
        upstream: "threshold sweep",
        paper_number: "inferred",
        note: "",
        render: |entry, inputs| {
            let thresholds = Thresholds::of(inputs.first()?)?;
            figure(entry, &fig10::picture(&thresholds)?, fig10::csv(&thresholds))
        },
    },
    Entry {
        id: "table2",
        title: "Workloads: the paper's, upstream's and ours",
        experiments: &[],
        records: &["workloads.csv"],
        aliases: &["workloads"],
        upstream: "none: its configurations and workload scripts, read",
        paper_number: "inferred",
        note: "",
        render: |entry, inputs| {
            let (markdown, csv) = workloads::render(entry.title, &inputs.path("workloads.csv"))?;
            Ok(table(entry, markdown, csv))
        },
    },
    Entry {
        id: "overheads",
        title: "p99 overhead and system throughput by system",
        experiments: &["fig5"],
        records: &[],
        aliases: &[],
        upstream: "collect_numbers, beside the paper and the published A100 demo",
        paper_number: "",
        note: "",
        render: render_overheads,
    },
    Entry {
        id: "pairs",
        title: "Every cell of the end-to-end grid",
        experiments: &["fig5"],
        records: &[],
        aliases: &[],
        upstream: "priority-aware-perf.csv",
        paper_number: "",
        note: "",
        render: render_pairs,
    },
    Entry {
        id: "overheads-fig7",
        title: "p99 overhead and system throughput by system, decomposition",
        experiments: &["fig7a"],
        records: &[],
        aliases: &[],
        upstream: "collect_numbers, beside the paper and the published A100 demo",
        paper_number: "",
        note: "",
        render: render_overheads,
    },
    Entry {
        id: "pairs-fig7",
        title: "Every cell of the decomposition",
        experiments: &["fig7a"],
        records: &[],
        aliases: &[],
        upstream: "priority-aware-perf.csv",
        paper_number: "",
        note: "",
        render: render_pairs,
    },
    Entry {
        id: "table3",
        title: "What each mechanism alone costs: inputs, with source",
        experiments: &[],
        records: &["mechanisms.csv"],
        aliases: &["overhead-sources"],
        upstream: "the benchmark summary's overheads, and the runs of single jobs under Tally without scheduling",
        paper_number: "inferred",
        note: "Constants of the machine model turned into percentages of named jobs; an empty cell has a reason.",
        render: |entry, inputs| {
            let (markdown, csv) = table3::render(entry.title, &inputs.path("mechanisms.csv"))?;
            Ok(table(entry, markdown, csv))
        },
    },
    Entry {
        id: "fidelity",
        title: "Simulated slowdowns beside known ones",
        experiments: &[],
        records: &["fidelity-pairs.csv"],
        aliases: &[],
        upstream: "none",
        paper_number: "ours, not in the paper's scripts",
        note: "drawn by `cargo xtask fidelity`",
        render: |entry, inputs| {
            let known = Known::read(&inputs.path(entry.records[0]))?;
            figure(entry, &fidelity::picture(&known)?, fidelity::csv(&known))
        },
    },
    Entry {
        id: "table4",
        title: "Claims and their verdicts",
        experiments: &[],
        records: &["claims.csv"],
        aliases: &["claims"],
        upstream: "the paper's abstract, collect_numbers, and the order of the published results",
        paper_number: "",
        note: "Simulated and measured evidence have a column each.",
        render: |entry, inputs| {
            let (markdown, csv) = table4::render(entry.title, &inputs.path("claims.csv"))?;
            Ok(table(entry, markdown, csv))
        },
    },
];

/// The entry with this id or alias.
///
/// # Errors
/// Unknown id; the message lists the known ones.
pub fn find(id: &str) -> Result<&'static Entry> {
    ENTRIES.iter().find(|e| e.id == id || e.aliases.contains(&id)).ok_or_else(|| {
        let ids: Vec<String> = ENTRIES
            .iter()
            .map(|e| match e.aliases {
                [] => e.id.to_owned(),
                aliases => format!("{} (also {})", e.id, aliases.join(", ")),
            })
            .collect();
        anyhow!("unknown figure or table `{id}`; known ids: {}", ids.join("; "))
    })
}

fn figure(entry: &Entry, picture: &crate::canvas::Picture, csv: String) -> Result<Vec<Output>> {
    let path = |ending: &str| format!("figures/{}.{ending}", entry.id);
    Ok(vec![
        Output::new(path("png"), picture.png()?),
        Output::new(path("svg"), picture.svg()?),
        Output::new(path("csv"), csv),
    ])
}

fn table(entry: &Entry, markdown: String, csv: String) -> Vec<Output> {
    let path = |ending: &str| format!("tables/{}.{ending}", entry.id);
    vec![Output::new(path("md"), markdown), Output::new(path("csv"), csv)]
}

fn render_overheads(entry: &Entry, inputs: &Inputs) -> Result<Vec<Output>> {
    let (markdown, csv) = overheads::render(entry.title, inputs.first()?)?;
    Ok(table(entry, markdown, csv))
}

fn render_pairs(entry: &Entry, inputs: &Inputs) -> Result<Vec<Output>> {
    let (markdown, csv) = pairs::render(entry.title, inputs.first()?)?;
    Ok(table(entry, markdown, csv))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_are_used_once_and_experiments_exist() {
        let names: Vec<&str> =
            ENTRIES.iter().flat_map(|e| [e.id].into_iter().chain(e.aliases.iter().copied())).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "`{name}` names two figures");
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../artifact/experiments");
        for entry in ENTRIES {
            assert!(!entry.sources().is_empty(), "{}", entry.id);
            for experiment in entry.experiments {
                assert!(folder.join(format!("{experiment}.toml")).is_file(), "{}: {experiment}", entry.id);
            }
        }
    }

    #[test]
    fn aliases_lead_to_their_figure() {
        assert_eq!(find("end-to-end").unwrap().id, "fig5");
        assert_eq!(find("decomposition").unwrap().id, "fig7");
        let error = find("fig99").unwrap_err().to_string();
        assert!(
            error.contains("fig99") && error.contains("fig5") && error.contains("decomposition"),
            "{error}"
        );
    }
}
