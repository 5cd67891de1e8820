//! The commands that make each number again.

use clap::Parser;
use flags::{Machine, Reproduce};
use maud::{Markup, html};
use std::collections::BTreeSet;
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
    /// The flags of the latest invocation that ran one of these experiments, else of the latest; the defaults where there is
    /// none or where it cannot be understood, as of another version.
    pub fn of(folder: &Folder, experiments: &[&str]) -> Recipe {
        let ran = |invocation: &&&toml::Table| experiments.iter().any(|id| listed(invocation).contains(id));
        let invocations = folder.invocations();
        let (mut flags, _) = typed(invocations.iter().rfind(ran).or(invocations.last()).copied());
        flags.experiments = experiments.iter().map(|id| (*id).to_owned()).collect();
        Recipe { flags }
    }

    /// The latest invocation as it was typed.
    fn latest(folder: &Folder) -> Recipe {
        let invocation = folder.invocations().last().copied();
        let (mut flags, is_check) = typed(invocation);
        if is_check {
            flags.experiments =
                invocation.map(listed).unwrap_or_default().into_iter().map(str::to_owned).collect();
        }
        Recipe { flags }
    }

    /// What an entry needs, and no more.
    pub fn for_entry(folder: &Folder, entry: &Entry) -> Recipe {
        match Need::of(entry) {
            Need::Experiments(ids) => Recipe::of(folder, &ids),
            Need::Latest => Recipe::latest(folder),
            Need::Claimed => {
                let claims = folder.claims.iter().flat_map(|t| t.distinct(t.rows.iter(), "experiments"));
                let claimed: BTreeSet<&str> = claims.flat_map(str::split_whitespace).collect();
                let ran: Vec<&str> =
                    claimed.into_iter().filter(|id| folder.experiments.contains_key(*id)).collect();
                if ran.is_empty() { Recipe::latest(folder) } else { Recipe::of(folder, &ran) }
            }
        }
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

/// Whose cells an entry is made of.
#[derive(Debug, PartialEq)]
enum Need {
    Experiments(Vec<&'static str>),
    /// Those that the claims are judged by, as far as they were run.
    Claimed,
    /// Those of the latest invocation.
    Latest,
}

impl Need {
    fn of(entry: &Entry) -> Need {
        // `<experiment>-<what>.csv`; other records belong to the folder.
        let of_experiments = entry.records.iter().filter_map(|record| Some(record.split_once('-')?.0));
        let ids: BTreeSet<&str> = entry.experiments.iter().copied().chain(of_experiments).collect();
        match entry.records {
            // Made by `cargo xtask fidelity` in a folder of its own.
            ["fidelity-pairs.csv"] => Need::Latest,
            _ if !ids.is_empty() => Need::Experiments(ids.into_iter().collect()),
            ["claims.csv"] => Need::Claimed,
            // The same from every run, so that the one without cells will do.
            ["workloads.csv"] => Need::Experiments(vec!["fig8"]),
            // `mechanisms.csv` shows the jobs of the invocation that wrote it.
            _ => Need::Latest,
        }
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
            let recipe = Recipe::for_entry(folder, entry);
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
    if let Need::Experiments(ids) = Need::of(entry) {
        arguments.extend(ids.into_iter().flat_map(|id| ["--experiment", id]).map(OsString::from));
    }
    html! { code { (line(&arguments)) } }
}

fn commands(lines: &[String]) -> Markup {
    html! { pre.commands tabindex="0" { code { (lines.join("\n")) } } }
}

/// `reproduce` of one experiment; the flags are the same.
const CHECK: &str = "h200-check";

/// The experiments that an invocation ran.
fn listed(invocation: &toml::Table) -> Vec<&str> {
    let list = invocation.get("experiments").and_then(|list| list.as_array());
    list.into_iter().flatten().filter_map(|id| id.as_str()).collect()
}

/// The flags of an invocation that change numbers, and whether it is a [`CHECK`]; the defaults where it cannot be understood.
fn typed(invocation: Option<&toml::Table>) -> (Reproduce, bool) {
    let command = invocation.and_then(|run| run.get("command")).map(shown);
    let words = command.as_deref().and_then(words).unwrap_or_default();
    let verb = words.iter().position(|word| word == "reproduce" || word == CHECK);
    let after = verb.map_or(0, |at| at + 1);
    let arguments = std::iter::once("x").chain(words[after..].iter().map(String::as_str));
    let mut flags = Typed::try_parse_from(arguments).map(|typed| typed.flags).unwrap_or_default();
    // What changes no number.
    (flags.jobs, flags.list, flags.partial) = (None, false, false);
    // A folder whose name was not kept, see `provenance` in artifact: the default one will do.
    flags.out = flags.out.filter(|out| !out.starts_with("<elsewhere>"));
    (flags, verb.is_some_and(|at| words[at] == CHECK))
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
    use super::super::table::Table;
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    fn folder(command: &str, experiments: &[&str]) -> Folder {
        let text = format!("[[invocation]]\ncommand = {command:?}\nexperiments = {experiments:?}\n");
        Folder {
            path: PathBuf::new(),
            info: Some(toml::from_str(&text).unwrap()),
            machine: None,
            claims: None,
            experiments: BTreeMap::new(),
        }
    }

    fn recipe(command: &str) -> Recipe {
        Recipe::of(&folder(command, &["fig5", "fig7a"]), &["fig7a"])
    }

    #[test]
    fn an_entry_asks_for_no_more_than_it_shows() {
        let shown = |folder: &Folder, id: &str| {
            let arguments = Recipe::for_entry(folder, crate::registry::find(id).unwrap()).reproduce();
            arguments.strip_prefix("cargo xtask reproduce --backend sim --machine h200").unwrap().to_owned()
        };
        let mut all = folder("artifact reproduce --backend sim", &["fig5", "fig7a", "fig8"]);
        for (id, expected) in [
            ("fig6a", " --experiment fig6a"),
            ("fig7", " --experiment fig7a --experiment fig7b"),
            ("fig8", " --experiment fig8"),
            ("table1", " --experiment fig8"),
            ("table2", " --experiment fig8"),
            ("table3", ""),
            ("table4", ""),
        ] {
            assert_eq!(shown(&all, id), expected, "{id}");
        }
        // The claims name three experiments, of which one was not run; the folder holds one that no claim names.
        let row = |experiments: &str| vec![experiments.to_owned()];
        all.claims = Some(Table {
            header: vec!["experiments".to_owned()],
            rows: vec![row("fig7a fig5"), row("fig5"), row("h200-check")],
        });
        for id in ["fig4", "fig5", "fig7a"] {
            all.experiments.insert(id.to_owned(), Table::default());
        }
        assert_eq!(shown(&all, "table4"), " --experiment fig5 --experiment fig7a");
        // The mechanisms are those of the jobs that ran last.
        let one = folder("artifact reproduce --backend sim --experiment fig4", &["fig4"]);
        assert_eq!(shown(&one, "table3"), " --experiment fig4");
        let check = folder("artifact h200-check --backend sim", &["h200-check"]);
        assert_eq!(shown(&check, "table3"), " --experiment h200-check");
    }

    #[test]
    fn every_record_has_a_maker() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../artifact/experiments");
        for entry in crate::registry::ENTRIES {
            if let Need::Experiments(ids) = Need::of(entry) {
                for id in ids {
                    assert!(folder.join(format!("{id}.toml")).is_file(), "{}: {id}", entry.id);
                }
            }
        }
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
