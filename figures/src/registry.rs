//! What can be drawn: ids, titles, the experiment behind each, and upstream's counterpart.

use anyhow::{Result, anyhow};

use crate::fig7a;
use crate::grid::Grid;
use crate::inputs::Inputs;
use crate::{fig5, overheads, pairs};

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
        id: "fig7",
        title: "Performance decomposition",
        experiments: &["fig7a"],
        records: &[],
        aliases: &["decomposition", "fig7a"],
        upstream: "ablation bars",
        paper_number: "inferred",
        note: fig7a::PANEL_B,
        render: |entry, inputs| {
            let grid = Grid::of(inputs.first()?)?;
            figure(entry, &fig7a::picture(&grid)?, fig5::csv(&grid))
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

    #[test]
    fn aliases_lead_to_their_figure() {
        assert_eq!(find("end-to-end").unwrap().id, "fig5");
        assert_eq!(find("decomposition").unwrap().id, "fig7");
        let error = find("fig9").unwrap_err().to_string();
        assert!(
            error.contains("fig9") && error.contains("fig5") && error.contains("decomposition"),
            "{error}"
        );
    }
}
