//! The commands that make each number again.

use clap::Parser;
use flags::{Machine, Reproduce};
use maud::{Markup, html};
use std::ffi::OsString;

use super::folder::{Folder, Kind, shown};
use super::table;
use crate::registry::Entry;

/// A command line as `run.toml` keeps it.
#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    flags: Reproduce,
}

/// How an experiment of the folder was run.
pub struct Recipe {
    flags: Reproduce,
}

impl Recipe {
    /// The flags of the latest invocation that ran one of these experiments, of any when none is named; the defaults where there is none or where it
    /// cannot be understood, as of another version.
    pub fn of(folder: &Folder, experiments: &[&str]) -> Recipe {
        let ran = |invocation: &&&toml::Table| {
            let listed = invocation.get("experiments").and_then(|list| list.as_array());
            if experiments.is_empty() {
                return true;
            }
            listed.into_iter().flatten().any(|id| id.as_str().is_some_and(|id| experiments.contains(&id)))
        };
        let command = folder.invocations().iter().rfind(ran).and_then(|run| run.get("command")).map(shown);
        let words = command.as_deref().and_then(words).unwrap_or_default();
        // `h200-check` is `reproduce` of one experiment; the flags are the same.
        let after =
            words.iter().position(|word| word == "reproduce" || word == "h200-check").map_or(0, |at| at + 1);
        let arguments =
            std::iter::once("x").chain(words[after.min(words.len())..].iter().map(String::as_str));
        let mut flags = Typed::try_parse_from(arguments).map(|typed| typed.flags).unwrap_or_default();
        // What changes no number.
        (flags.jobs, flags.list, flags.partial) = (None, false, false);
        // A folder whose name was not kept, see `provenance` in artifact: the default one will do.
        flags.out = flags.out.filter(|out| !out.starts_with("<elsewhere>"));
        flags.experiments = experiments.iter().map(|id| (*id).to_owned()).collect();
        Recipe { flags }
    }

    /// The command that runs the cells.
    pub fn reproduce(&self) -> String {
        let mut arguments: Vec<OsString> = ["cargo", "xtask", "reproduce"].map(OsString::from).to_vec();
        arguments.extend(self.flags.arguments());
        line(&arguments)
    }

    /// A command about the run folder.
    pub fn on_folder(&self, verb: &[&str]) -> String {
        let folder = self.folder();
        let words = [&["cargo", "xtask"], verb, &["--run", folder.as_str()]].concat();
        line(&words.into_iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn folder(&self) -> String {
        let Reproduce { out, machine, backend, .. } = &self.flags;
        let backend = if matches!(backend, flags::Backend::Gpu) { "gpu" } else { "sim" };
        flags::out_folder(out.as_deref(), *machine, backend, self.flags.size()).display().to_string()
    }
}

/// The section.
pub fn view(folder: &Folder) -> Markup {
    let all: Vec<&str> = folder.experiments.keys().map(String::as_str).collect();
    if all.is_empty() {
        return html! { p { "Nothing has run yet: " code { "cargo xtask reproduce" } } };
    }
    let whole = Recipe::of(folder, &all);
    let latest = folder.invocations().last().copied();
    let revision =
        latest.and_then(|run| run.get("revision")).map(shown).filter(|revision| revision != "unknown");
    let dirty = latest.and_then(|run| run.get("dirty")).and_then(|dirty| dirty.as_bool());
    let mut rows = Vec::new();
    for (kind, verb) in [(Kind::Figure, "figure"), (Kind::Table, "table")] {
        for entry in folder.drawn(kind) {
            let recipe = Recipe::of(folder, entry.experiments);
            rows.push((
                format!("{verb} {}", entry.id),
                vec![commands(&[recipe.reproduce(), recipe.on_folder(&[verb, entry.id])])],
            ));
        }
    }
    for id in &all {
        let recipe = Recipe::of(folder, &[*id]);
        rows.push((format!("{id}.csv"), vec![commands(&[recipe.reproduce()])]));
    }
    html! {
        p {
            "In a clone of the repository"
            @if let Some(revision) = revision { " at revision " code { (revision) } }
            @if dirty == Some(true) { ", whose files were changed before this run" }
            ". Finished cells are kept and skipped; name another folder with " code { "--out" } " to run all of them again."
        }
        p { "Everything, then a check of files, numbers and figures, then this page:" }
        (commands(&[whole.reproduce(), whole.on_folder(&["verify"]), whole.on_folder(&["report"])]))
        (table::facts("Each number", &["what", "commands"], &rows))
        @if whole.flags.machine != Machine::H200 {
            p.note { "The machine is an extrapolation; there are no golden values to compare with." }
        }
    }
}

/// How to make a figure or table that this run does not have.
pub fn missing(entry: &Entry) -> Markup {
    let mut arguments: Vec<OsString> = ["cargo", "xtask", "reproduce"].map(OsString::from).to_vec();
    for id in entry.experiments {
        arguments.extend(["--experiment", id].map(OsString::from));
    }
    html! { code { (line(&arguments)) } }
}

fn commands(lines: &[String]) -> Markup {
    html! { pre.commands tabindex="0" { code { (lines.join("\n")) } } }
}

/// The words as a line for a shell; those with anything unusual in quotes.
fn line(words: &[OsString]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=~:+,".contains(c);
    let quoted = |word: &OsString| {
        let word = word.to_string_lossy().into_owned();
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Splits a line that `run.toml` holds; `None` when a quote stays open.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_none() { Some(words) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    fn recipe(command: &str) -> Recipe {
        let text = format!("[[invocation]]\ncommand = {command:?}\nexperiments = [\"fig5\", \"fig7a\"]\n");
        let folder = Folder {
            path: PathBuf::new(),
            info: Some(toml::from_str(&text).unwrap()),
            machine: None,
            claims: None,
            experiments: BTreeMap::new(),
        };
        Recipe::of(&folder, &["fig7a"])
    }

    #[test]
    fn the_flags_that_change_numbers_are_kept() {
        let r =
            recipe("artifact reproduce --quick --experiment fig5 --jobs 1 --seeds 3 --backend sim --partial");
        assert_eq!(
            r.reproduce(),
            "cargo xtask reproduce --quick --backend sim --machine h200 --experiment fig7a --seeds 3"
        );
        assert_eq!(r.on_folder(&["figure", "fig7"]), "cargo xtask figure fig7 --run results/h200-sim-quick");
        let r = recipe("artifact reproduce --machine a100 --out 'my results' --backend sim");
        assert_eq!(
            r.reproduce(),
            "cargo xtask reproduce --backend sim --machine a100 --experiment fig7a --out 'my results'"
        );
        assert_eq!(r.on_folder(&["verify"]), "cargo xtask verify --run 'my results'");
        assert_eq!(
            recipe("nonsense --x").on_folder(&["verify"]),
            "cargo xtask verify --run results/h200-sim"
        );
    }
}
