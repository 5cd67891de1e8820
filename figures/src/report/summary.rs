//! The first section: where the numbers come from, what ran, and how it ended.

use maud::{Markup, html};
use std::collections::BTreeSet;

use super::folder::Folder;
use super::table::Table;
use crate::style;

/// One line on where the numbers come from: the first and the last line of the page.
pub fn origin(folder: &Folder) -> String {
    let (backends, machines) = (folder.distinct("backend"), folder.distinct("machine").join(", "));
    let (measured, simulated): (Vec<&str>, Vec<&str>) =
        backends.iter().partition(|backend| **backend == "gpu");
    match (measured.is_empty(), simulated.is_empty()) {
        (true, true) => "There are no results in this run.".to_owned(),
        (false, true) => format!("Measured on {machines}."),
        (true, false) => format!("SIMULATED ({machines} model), not measured on a GPU."),
        (false, false) => format!("SIMULATED in part ({machines}): see the column `backend` of every table."),
    }
}

/// Whether any number comes from the simulator.
pub fn is_simulated(folder: &Folder) -> bool {
    folder.distinct("backend").iter().any(|backend| *backend != "gpu")
}

/// The section.
pub fn view(folder: &Folder) -> Markup {
    let origin = origin(folder);
    let count = |status: &str| folder.cells().filter(|(t, row)| t.get(row, "status") == status).count();
    let (cells, failed, skipped) = (folder.cells().count(), count("failed"), count("skipped"));
    let label = |id: &str| style::style_of(id).map_or_else(|_| id.to_owned(), |style| style.label);
    let systems: Vec<String> = folder.distinct("system").into_iter().map(label).collect();
    let experiments: Vec<&str> = folder.experiments.keys().map(String::as_str).collect();
    let (pairs, listed) = pairs(folder);
    let size = folder.info.as_ref().and_then(|info| info.get("size")).and_then(|size| size.as_str());
    html! {
        p {
            strong { (origin) } " "
            @if cells > 0 {
                (cells) " cells of " (number(experiments.len(), "experiment")) " (" (experiments.join(", ")) "): "
                (count("ok")) " finished, " (failed) " failed, " (skipped) " skipped by the planner. "
                "Systems: " (systems.join(", ")) ". "
                (number(pairs, "pair")) " of an inference server and a training job: " (listed) ". "
                @if let Some(claims) = &folder.claims { "Claims, counted by comparison: " (verdicts(claims)) ". " }
                @if size == Some("quick") {
                    "A quick run: one pair and short cells, enough to see that everything works and too little to "
                    "judge a system by. "
                }
            } @else {
                "Next: " code { "cargo xtask reproduce" } ". "
            }
            strong { (origin) }
        }
        @if failed > 0 {
            p.warning { (number(failed, "cell")) " failed: see " a href="#cells" { "failed and skipped cells" } "." }
        }
        @if cells > 0 { (overview(folder)) }
    }
}

fn number(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Every server with its training jobs, and how many pairs that is.
fn pairs(folder: &Folder) -> (usize, String) {
    let mut servers: Vec<(&str, Vec<&str>)> = Vec::new();
    for (table, row) in folder.cells().filter(|(table, row)| table.get(row, "kind") == "pair") {
        let [server, job] = ["inference", "training"].map(|column| style::short_job(table.get(row, column)));
        let at = servers.iter().position(|(known, _)| *known == server).unwrap_or_else(|| {
            servers.push((server, Vec::new()));
            servers.len() - 1
        });
        if !servers[at].1.contains(&job) {
            servers[at].1.push(job);
        }
    }
    let texts: Vec<String> =
        servers.iter().map(|(server, jobs)| format!("{server} beside {}", jobs.join(", "))).collect();
    (servers.iter().map(|(_, jobs)| jobs.len()).sum(), texts.join("; "))
}

/// How many claims have which verdict, for every column of verdicts.
fn verdicts(claims: &Table) -> String {
    let columns: Vec<&String> = claims.header.iter().filter(|name| name.contains("verdict")).collect();
    let of_column = |column: &&String| {
        let counts: Vec<String> = claims
            .distinct(claims.rows.iter(), column)
            .into_iter()
            .map(|value| {
                format!(
                    "{} {value}",
                    claims.rows.iter().filter(|row| claims.get(row, column) == value).count()
                )
            })
            .collect();
        let which = column.replace("_verdict", "") + ": ";
        (!counts.is_empty()).then(|| which + &counts.join(", "))
    };
    let shown: Vec<String> = columns.iter().filter_map(of_column).collect();
    if shown.is_empty() { claims.rows.len().to_string() } else { shown.join("; ") }
}

fn overview(folder: &Folder) -> Markup {
    let heads =
        "experiment cells finished failed skipped overloaded systems pairs loads seeds arrivals".split(' ');
    let row = |(id, table): (&String, &Table)| {
        let count = |column: &str, value: &str| {
            table.rows.iter().filter(|row| table.get(row, column) == value).count().to_string()
        };
        let list = |column: &str| table.distinct(table.rows.iter(), column);
        let pairs: BTreeSet<(&str, &str)> = (table.rows.iter())
            .filter(|row| table.get(row, "kind") == "pair")
            .map(|row| (table.get(row, "inference"), table.get(row, "training")))
            .collect();
        vec![
            id.clone(),
            table.rows.len().to_string(),
            count("status", "ok"),
            count("status", "failed"),
            count("status", "skipped"),
            count("overloaded", "true"),
            list("system").len().to_string(),
            pairs.len().to_string(),
            list("load").join(", "),
            list("seed").join(", "),
            list("trace").join("; "),
        ]
    };
    let table = Table {
        header: heads.map(str::to_owned).collect(),
        rows: folder.experiments.iter().map(row).collect(),
    };
    html! {
        (table.view("Experiments of this run"))
        p.note {
            "Overloaded: requests arrive faster than they are served, so that end-to-end times depend on the length of "
            "the run. Seeds vary the arrivals and the drawn durations of kernels, nothing else: they are no repetitions "
            "on hardware."
        }
    }
}
