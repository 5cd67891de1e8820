//! Cells without a result, and why.

use maud::{Markup, html};

use super::folder::Folder;
use super::table::Table;

const COLUMNS: [&str; 8] =
    ["experiment", "status", "system", "inference", "training", "load", "seed", "error"];

/// The section.
pub fn view(folder: &Folder) -> Markup {
    let rows: Vec<Vec<String>> = folder
        .cells()
        .filter(|(table, row)| table.get(row, "status") != "ok")
        .map(|(table, row)| COLUMNS.iter().map(|column| table.get(row, column).to_owned()).collect())
        .collect();
    if rows.is_empty() {
        return html! { p { "None: every cell of this run finished." } };
    }
    let table = Table { header: COLUMNS.map(str::to_owned).to_vec(), rows };
    html! {
        p {
            "A failed cell is tried again by the same " code { "cargo xtask reproduce" } "; one that the planner skipped "
            "cannot run on this machine."
        }
        (table.view("Cells without a result"))
    }
}
