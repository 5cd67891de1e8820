//! The GPU model: its limits, and every rule with its origin.

use maud::{Markup, html};
use toml::{Table as Toml, Value};

use super::folder::{Folder, shown};
use super::table::{self, Table};

/// The section.
pub fn view(folder: &Folder) -> Markup {
    if folder.distinct("backend") == ["gpu"] {
        return html! {
            p {
                "The cells were measured: no model of a GPU was involved. What they were measured on is in "
                code { "run.toml" } ", under " code { "device" } "."
            }
        };
    }
    let Some(machine) = &folder.machine else {
        return html! {
            p {
                "This run folder has no " code { "machine.toml" } ", as it was made by an earlier version; the models are "
                "the files of " code { "machines/" } ". Next: run " code { "cargo xtask reproduce" } " again, which keeps "
                "finished cells."
            }
        };
    };
    let (mut facts, mut rules) = (Vec::new(), Vec::new());
    collect(machine, "", &mut facts, &mut rules);
    let count = |origin: &str| rules.iter().filter(|rule: &&Vec<String>| rule[2] == origin).count();
    let origins: Vec<String> = ["documented", "measured", "assumed"]
        .iter()
        .filter(|origin| count(origin) > 0)
        .map(|origin| format!("{} {origin}", count(origin)))
        .collect();
    let header = ["constant", "value", "origin", "source"].map(str::to_owned).to_vec();
    html! {
        p {
            "What the simulator takes the GPU for. "
            @if !origins.is_empty() { "Of its constants with an origin, " (origins.join(", ")) ". " }
            "Every one may be changed in " code { "machines/" } "; the keys of the cells change with it."
        }
        (table::facts("Limits", &["limit", "value"], &facts))
        (Table { header, rows: rules }.view("Constants with their origin"))
        p.note { a href="machine.toml" { "machine.toml" } }
    }
}

/// Sorts the values into plain ones and those with an origin, by their dotted names.
fn collect(table: &Toml, prefix: &str, facts: &mut Vec<(String, Vec<String>)>, rules: &mut Vec<Vec<String>>) {
    // In the order of the names, whatever order the parser keeps: that depends on which crates are built together.
    let mut keys: Vec<&String> = table.keys().collect();
    keys.sort();
    for key in keys {
        let name = format!("{prefix}{key}");
        match &table[key] {
            Value::Table(inner) if inner.contains_key("origin") => {
                let field = |key: &str| inner.get(key).map(shown).unwrap_or_default();
                rules.push(vec![name, field("value"), field("origin"), field("source")]);
            }
            Value::Table(inner) => collect(inner, &format!("{name}."), facts, rules),
            value => facts.push((name, vec![shown(value)])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_limits_are_told_apart() {
        let text =
            "sms = 132\n[sm]\nthreads = 2048\n[rules.a]\nvalue = 5\norigin = \"assumed\"\nsource = \"x\"\n";
        let (mut facts, mut rules) = (Vec::new(), Vec::new());
        collect(&toml::from_str(text).unwrap(), "", &mut facts, &mut rules);
        assert_eq!(rules, [["rules.a", "5", "assumed", "x"]]);
        let facts: Vec<_> = facts.iter().map(|(name, values)| (name.as_str(), values[0].as_str())).collect();
        assert_eq!(facts, [("sm.threads", "2048"), ("sms", "132")]);
    }
}
