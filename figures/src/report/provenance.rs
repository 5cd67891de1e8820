//! Versions, seeds, and every time that `reproduce` worked in the folder.

use maud::{Markup, html};
use toml::{Table as Toml, Value};

use super::folder::{Folder, shown};
use super::table::{self, boxed};

/// The section.
pub fn view(folder: &Folder) -> Markup {
    let invocations = folder.invocations();
    html! {
        (seeds(folder))
        @if invocations.is_empty() {
            p {
                "This folder has no " code { "run.toml" } " that tells how the run came about. Next: "
                code { "cargo xtask reproduce" } "."
            }
        }
        @for (index, invocation) in invocations.iter().enumerate().rev() {
            details open[index + 1 == invocations.len()] {
                summary {
                    h3 {
                        "Invocation " (index + 1)
                        @if let Some(started) = invocation.get("started") { ", " (shown(started)) }
                    }
                }
                (one(invocation))
            }
        }
    }
}

fn seeds(folder: &Folder) -> Markup {
    let rows: Vec<(String, Vec<String>)> = folder
        .experiments
        .iter()
        .map(|(id, table)| {
            let seeds = table.distinct(table.rows.iter(), "seed");
            (id.clone(), vec![seeds.join(", "), table.distinct(table.rows.iter(), "load").join(", ")])
        })
        .collect();
    html! {
        @if !rows.is_empty() {
            (table::facts("Seeds", &["experiment", "seeds", "loads"], &rows))
            p.note { "A seed determines the arrivals and the drawn durations of kernels; the same seed gives the same numbers." }
        }
    }
}

/// All that `run.toml` says of one invocation.
fn one(invocation: &Toml) -> Markup {
    let tables = invocation.iter().filter_map(|(key, value)| Some((key, value.as_table()?)));
    let mut tables: Vec<_> = tables.filter(|(_, table)| !table.is_empty()).collect();
    tables.sort_by_key(|(key, _)| *key);
    let plain = invocation.iter().filter(|(_, value)| !value.is_table());
    let mut plain: Vec<(&String, &Value)> = plain.collect();
    // The order of run.toml depends on the parser's features; that of the names does not.
    plain.sort_by_key(|(key, _)| *key);
    html! {
        (boxed("How it ran", 0, html! {
            tbody {
                @for (key, value) in plain {
                    tr {
                        th scope="row" { (key.replace('_', " ")) }
                        td {
                            @match value {
                                Value::Array(values) if values.iter().any(|v| shown(v).len() > 40) => {
                                    ul { @for value in values { li { (shown(value)) } } }
                                }
                                value => (shown(value))
                            }
                        }
                    }
                }
            }
        }))
        @for (key, table) in tables {
            details {
                summary { (key.replace('_', " ")) }
                (table::facts(&key.replace('_', " "), &["name", "value"], &sorted(table)))
            }
        }
    }
}

fn sorted(table: &Toml) -> Vec<(String, Vec<String>)> {
    let mut rows: Vec<_> = table.iter().map(|(key, value)| (key.clone(), vec![shown(value)])).collect();
    rows.sort();
    rows
}
