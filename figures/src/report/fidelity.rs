//! How far the simulator can be trusted, as `cargo xtask fidelity` found.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use maud::{Markup, html};

use super::folder::{Folder, names, shown};
use super::table::Table;
use super::{picture, prose};

/// The section: from the run folder itself, else from `fidelity` beside it.
///
/// # Errors
/// A file cannot be read.
pub fn view(folder: &Folder) -> Result<Markup> {
    let beside = folder.path.canonicalize().ok().and_then(|path| Some(path.parent()?.join("fidelity")));
    let candidates = [Some(folder.path.clone()), beside];
    for (found, prefix) in candidates.into_iter().flatten().zip(["", "../fidelity/"]) {
        let files: Vec<String> = names(&found)?.into_iter().filter(|name| is_about_it(name)).collect();
        if !files.is_empty() {
            return known(folder, &found, prefix, &files);
        }
    }
    Ok(html! {
        p {
            "Not in this run. " code { "cargo xtask fidelity" } " compares the simulator with published and measured "
            "numbers and with a null model, and varies its constants; " code { "cargo xtask report" } " then shows it here. "
            code { "cargo xtask h200-check" } " is the short form."
        }
    })
}

fn is_about_it(name: &str) -> bool {
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    (stem.starts_with("fidelity") || stem.starts_with("sensitivity")) && ["csv", "md"].contains(&ending)
}

fn known(folder: &Folder, found: &Path, prefix: &str, files: &[String]) -> Result<Markup> {
    let (texts, tables): (Vec<&String>, Vec<&String>) = files.iter().partition(|name| name.ends_with(".md"));
    let mut shown_tables = Vec::new();
    for name in &tables {
        shown_tables.push((name, Table::read(&found.join(name))?));
    }
    let mut prose_of = Vec::new();
    for name in texts {
        let path: PathBuf = found.join(name);
        let text = bounded::text(&path, bounded::TABLE)
            .with_context(|| format!("cannot read {}", path.display()))?;
        prose_of.push(prose::view(&text, "Fidelity", 2));
    }
    // Pictures of the run itself stand with its other figures.
    let mut pictures = Vec::new();
    if !prefix.is_empty() {
        for name in names(&found.join("figures"))? {
            if let Some(id) = name.strip_suffix(".svg") {
                pictures.push(picture::view(found, id, id)?);
            }
        }
    }
    Ok(html! {
        @if !prefix.is_empty() { (other_run(folder, found)?) }
        @for picture in pictures { figure.picture { (picture) } }
        @for text in prose_of { (text) }
        @for (name, table) in shown_tables {
            details {
                summary { (name) ", " (table.rows.len()) " rows" }
                (table.view(name))
                p.note { a href={ (prefix) (name) } { (name) } }
            }
        }
    })
}

/// It is a run of its own, maybe of another simulator.
fn other_run(folder: &Folder, found: &Path) -> Result<Markup> {
    let version = |folder: &Folder| {
        folder
            .invocations()
            .last()
            .and_then(|run| run.get("simulator"))
            .map(shown)
            .unwrap_or("unknown".to_owned())
    };
    let (own, other) = (version(folder), version(&Folder::read(found)?));
    Ok(html! {
        p {
            "A run of its own, from " code { "results/fidelity" } "; version of its simulator: " (other) "."
            @if own != other { strong { " This run's is " (own) ", so it is not about the same simulator." } }
        }
    })
}
