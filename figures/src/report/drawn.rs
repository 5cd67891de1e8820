//! The figures and tables of the run, each as it was drawn.

use anyhow::{Context, Result};
use maud::{Markup, html};

use super::folder::{Folder, Kind, names};
use super::table::Table;
use super::{picture, prose, redo};
use crate::registry::{ENTRIES, Entry};

/// A section's body with the anchors in it.
pub struct Drawn {
    /// Anchor and title.
    pub parts: Vec<(String, String)>,
    pub body: Markup,
}

/// Everything of this kind that the folder holds, and what it could hold.
///
/// # Errors
/// A file cannot be read.
pub fn view(folder: &Folder, kind: Kind) -> Result<Drawn> {
    let entries = folder.drawn(kind);
    let mut parts = Vec::new();
    let mut bodies = Vec::new();
    for entry in &entries {
        let anchor = format!("{}-{}", name(kind), entry.id);
        parts.push((anchor.clone(), format!("{}: {}", entry.id, entry.title)));
        bodies.push(html! {
            article id=(anchor) {
                h3 { (entry.id) ": " (entry.title) }
                (one(folder, kind, entry)?)
            }
        });
    }
    let absent: Vec<&Entry> = absent(folder, kind);
    let body = html! {
        @if bodies.is_empty() { p { "None was drawn from this run." } }
        @for body in &bodies { (body) }
        @if !absent.is_empty() {
            p { "Not in this run:" }
            ul { @for entry in absent { li { (entry.id) ", " (entry.title) ": " (redo::missing(entry)) } } }
        }
    };
    Ok(Drawn { parts, body })
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Figure => "figure",
        Kind::Table => "table",
    }
}

/// Entries without files. Which kind such a one would be is not known; those named fig are listed with the figures.
fn absent(folder: &Folder, kind: Kind) -> Vec<&'static Entry> {
    let is_here =
        |entry: &&Entry| [Kind::Figure, Kind::Table].iter().any(|kind| folder.has(&kind.path(entry.id)));
    let is_kind = |entry: &&Entry| entry.id.starts_with("fig") == (kind == Kind::Figure);
    ENTRIES.iter().filter(|entry| !is_here(entry) && is_kind(entry)).collect()
}

fn one(folder: &Folder, kind: Kind, entry: &Entry) -> Result<Markup> {
    let path = folder.path.join(kind.path(entry.id));
    let text =
        bounded::text(&path, bounded::TABLE).with_context(|| format!("cannot read {}", path.display()))?;
    if folder.is_stale(entry, &text) {
        let again = redo::Recipe::of(folder, entry.experiments);
        return Ok(html! {
            p.warning {
                "Not shown: cells of it failed after it was drawn. "
                code { (again.on_folder(&[name(kind), entry.id, "--partial"])) } " draws what is there."
            }
        });
    }
    Ok(match kind {
        Kind::Figure => figure(folder, entry)?,
        Kind::Table => html! {
            (prose::view(&text, entry.title, 2))
            (about(entry))
            (files(folder, "tables", entry.id)?)
        },
    })
}

fn figure(folder: &Folder, entry: &Entry) -> Result<Markup> {
    let numbers = format!("figures/{}.csv", entry.id);
    let numbers = if folder.has(&numbers) { Some(Table::read(&folder.path.join(numbers))?) } else { None };
    Ok(html! {
        figure.picture {
            (picture::view(&folder.path, entry.id, entry.title)?)
            figcaption { (about(entry)) }
        }
        @if let Some(numbers) = numbers {
            details.numbers {
                summary { "The numbers drawn, " (numbers.rows.len()) " rows" }
                (numbers.view(&format!("{}: the numbers drawn", entry.id)))
            }
        }
        (files(folder, "figures", entry.id)?)
    })
}

fn about(entry: &Entry) -> Markup {
    let experiments = entry.experiments.iter().map(|id| format!("{id}.csv"));
    let sources: Vec<String> =
        experiments.chain(entry.records.iter().map(|name| (*name).to_owned())).collect();
    html! {
        p.note {
            "From " (sources.join(", "))
            ". Upstream: " (entry.upstream) "."
            @if !entry.paper_number.is_empty() { " Number in the paper: " (entry.paper_number) "." }
            @if !entry.note.is_empty() { " " (entry.note) }
        }
    }
}

/// Links to the files of an entry.
fn files(folder: &Folder, sub: &str, id: &str) -> Result<Markup> {
    let here = names(&folder.path.join(sub))?;
    let own = here.iter().filter(|name| name.rsplit_once('.').is_some_and(|(stem, _)| stem == id));
    Ok(html! {
        p.note { "Files:" @for file in own { " " a href={ (sub) "/" (file) } { (file) } } }
    })
}
