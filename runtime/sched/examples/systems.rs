//! Prints docs/SYSTEMS.md: `cargo run --package sched --example systems > docs/SYSTEMS.md`.

use sched::{Hook, Substrate, System, registry};
use std::fmt::Write as _;

fn main() {
    print!("{}", document());
}

/// The list of all systems as Markdown.
pub fn document() -> String {
    let mut text = String::from(
        "# Systems\n\n\
         <!-- `cargo run --package sched --example systems > docs/SYSTEMS.md` writes this file; a test compares. -->\n\n\
         Written as `name` or `name:parameter=value,parameter=value`, wherever a system is named. What each one does and\n\
         leaves out stands at the head of its file in `runtime/sched/src`. How to add one: \
         [ADDING-A-SYSTEM.md](ADDING-A-SYSTEM.md).\n\n\
         | name | in figures | follows | device | launches are held | parameters (defaults) |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for entry in registry::entries() {
        let system = System::parse(entry.name).expect("an entry's name is a system");
        let wiring = system.wiring();
        let device = match wiring.substrate {
            Substrate::Contexts => "contexts in turn",
            Substrate::Mps if wiring.mps_daemon => "MPS",
            Substrate::Mps => "one context",
            Substrate::Partitions { .. } => "parts",
        };
        let held = match wiring.hook {
            Hook::None => "never",
            Hook::Client => "in the client",
            Hook::Server | Hook::Closing => "in a server",
        };
        let parameters = entry.parameters.iter().map(|p| format!("`{}={}`", p.name, p.show(p.default)));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {device} | {held} | {parameters} |",
            entry.name, entry.title, entry.source
        );
    }
    text.push_str("\n| parameter | of | meaning | values |\n| --- | --- | --- | --- |\n");
    // Systems of one policy have the same parameters with other defaults.
    let mut rows: Vec<([String; 3], Vec<String>)> = Vec::new();
    for entry in registry::entries() {
        for parameter in entry.parameters {
            let range = parameter.to_string();
            let range = range.split_once(" (").map_or("", |(_, r)| r.trim_end_matches(')')).to_owned();
            let row = [parameter.name.to_owned(), parameter.meaning.to_owned(), range];
            let name = format!("`{}`", entry.name);
            match rows.iter_mut().find(|known| known.0 == row) {
                Some((_, names)) => names.push(name),
                None => rows.push((row, vec![name])),
            }
        }
    }
    for ([name, meaning, range], names) in rows {
        let _ = writeln!(text, "| `{name}` | {} | {meaning} | {range} |", names.join(", "));
    }
    text
}
