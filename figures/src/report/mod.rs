//! `report.html`: all that a run folder says, in one file that needs nothing else.
//!
//! It is made of what lies in the folder: pictures and tables as they were drawn, records, `run.toml`. It runs no script and
//! refers to nothing outside the folder, and a policy in its head makes the browser see to that.

mod cells;
mod drawn;
mod fidelity;
mod folder;
mod machine;
mod picture;
mod prose;
mod provenance;
mod redo;
mod summary;
mod table;

use std::path::{Path, PathBuf};

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::output::write;
use folder::{Folder, Kind};

/// The file's name.
pub const NAME: &str = "report.html";

/// No script, no network: pictures and styles are in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Writes the report of a run folder into it; returns its path.
///
/// # Errors
/// There is no such folder, something in it cannot be read, or the report cannot be written.
pub fn renew(run: &Path) -> Result<PathBuf> {
    let path = run.join(NAME);
    write(&path, page(run)?.as_bytes())?;
    Ok(path)
}

/// Whether the folder's report is the one that would be written now; `None` without one.
///
/// # Errors
/// As [`renew`].
pub fn is_current(run: &Path) -> Result<Option<bool>> {
    let path = run.join(NAME);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(bounded::bytes(&path, bounded::TABLE)? == page(run)?.into_bytes()))
}

/// One section of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    /// Anchors within it, for the table of contents.
    parts: Vec<(String, String)>,
    body: Markup,
}

fn section(id: &'static str, title: &'static str, body: Markup) -> Section {
    Section { id, title, parts: Vec::new(), body }
}

/// The whole page.
fn page(run: &Path) -> Result<String> {
    let folder = Folder::read(run)?;
    let (figures, tables) = (drawn::view(&folder, Kind::Figure)?, drawn::view(&folder, Kind::Table)?);
    let sections = [
        section("summary", "Summary", summary::view(&folder)),
        section("claims", "Claims", claims(&folder)),
        Section { id: "figures", title: "Figures", parts: figures.parts, body: figures.body },
        Section { id: "tables", title: "Tables", parts: tables.parts, body: tables.body },
        section("fidelity", "Fidelity of the simulator", fidelity::view(&folder)?),
        section("cells", "Failed and skipped cells", cells::view(&folder)),
        section("machine", "Machine model", machine::view(&folder)),
        section("redo", "How to redo each number", redo::view(&folder)),
        section("provenance", "Versions, seeds and invocations", provenance::view(&folder)),
    ];
    let origin = summary::origin(&folder);
    let class = if summary::is_simulated(&folder) { "origin simulated" } else { "origin measured" };
    let title = format!("GPU sharing by priority: results, {}", folder.distinct("machine").join(", "));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="cargo xtask report";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                p class=(class) { (origin) }
                header { h1 { (title) } }
                div.columns {
                    nav aria-label="Contents" { (contents(&sections)) }
                    main { @for section in &sections { (section.view()) } }
                }
                footer { p class=(class) { (origin) } }
            }
        }
    };
    Ok(page.into_string())
}

impl Section {
    fn view(&self) -> Markup {
        html! {
            section id=(self.id) aria-labelledby={ (self.id) "-title" } {
                details open {
                    summary { h2 id={ (self.id) "-title" } { (self.title) } }
                    (self.body)
                }
            }
        }
    }
}

fn contents(sections: &[Section]) -> Markup {
    html! {
        ol {
            @for section in sections {
                li {
                    a href={ "#" (section.id) } { (section.title) }
                    @if !section.parts.is_empty() {
                        ul { @for (id, title) in &section.parts { li { a href={ "#" (id) } { (title) } } } }
                    }
                }
            }
        }
    }
}

/// What a reader wants of a claim first; a phone shows the beginning of it.
const CLAIM: [&str; 12] = [
    "simulated_verdict",
    "text",
    "measured_verdict",
    "system",
    "other",
    "value",
    "low",
    "high",
    "n",
    "band_low",
    "band_high",
    "claim",
];

fn claims(folder: &Folder) -> Markup {
    let Some(claims) = &folder.claims else {
        return html! {
            p {
                "Not in this run: it has no " code { "claims.csv" } ". Next: " code { "cargo xtask reproduce" }
                ", which judges every claim that its experiments bear on."
            }
        };
    };
    html! {
        @if summary::is_simulated(folder) {
            p { "A claim that a simulation agrees with holds in simulation. It is not reproduced by that." }
        }
        @let short = claims.select(&CLAIM);
        @if short.header.len() == CLAIM.len() {
            (short.view("Claims and their verdicts"))
            details {
                summary { "All columns" }
                (claims.view("Claims, all columns"))
            }
        } @else {
            (claims.view("Claims and their verdicts"))
        }
        p.note { a href="claims.csv" { "claims.csv" } }
    }
}
