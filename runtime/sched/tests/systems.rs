//! Every system of the registry, and what may be written for one.

#[allow(dead_code)]
#[path = "../examples/systems.rs"]
mod example;

use sched::{Hook, Setting, System, registry};
use std::collections::BTreeSet;

#[test]
fn every_entry_is_complete() {
    let (mut names, mut titles, mut colors) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for entry in registry::entries() {
        let name = entry.name;
        assert!(!entry.title.is_empty() && !entry.source.is_empty(), "{name}");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
        assert!(names.insert(name), "{name} twice");
        assert!(titles.insert(entry.title), "{name}: title of another system");
        assert!(colors.insert(entry.color), "{name}: colour of another system");
        assert!(entry.note.is_empty() || entry.note.starts_with(entry.title), "{name}: {}", entry.note);
        for parameter in entry.parameters {
            assert!(!parameter.meaning.is_empty(), "{name}: {parameter}");
        }
    }
}

/// Every entry parses, with each parameter's default written out too, and makes a policy.
#[test]
fn every_entry_parses_and_makes_a_policy() {
    for entry in registry::entries() {
        let plain = System::parse(entry.name).unwrap();
        assert_eq!((plain.name(), plain.entry().name), (entry.name, entry.name));
        let setting = Setting { clients: 3, sms: 132, ..Setting::default() };
        let _ = plain.policy(&setting);
        if plain.parameters().is_empty() {
            continue;
        }
        let written = format!("{}:{}", entry.name, plain.parameters());
        let system = System::parse(&written).unwrap();
        assert_eq!((system.name(), system.wiring()), (written.as_str(), plain.wiring()));
        let _ = system.policy(&setting);
    }
}

#[test]
fn parameters_are_read_and_their_names_have_one_spelling() {
    let system = System::parse("gate:idle_wait_us=50.0,level=cubin,depth=02").unwrap();
    assert_eq!(system.name(), "gate:depth=2,level=cubin,idle_wait_us=50");
    assert_eq!(system.parameters(), "depth=2,level=cubin,idle_wait_us=50,budget_us=500,lead_us=20");
    assert_eq!(system.word("level"), Some("cubin"));
    let default = System::parse("tally").unwrap();
    assert_eq!((default.name(), default.parameters().as_str()), ("tally", "threshold_ms=0.0316"));
    assert_eq!(System::parse("tally:threshold_ms=0.1").unwrap().parameters(), "threshold_ms=0.1");
    assert_ne!(System::parse("tally:threshold_ms=0.1").unwrap(), default);
}

/// What was stored of a system before it had the parameter is still its own.
#[test]
fn a_parameter_that_was_added_later_is_silent_at_its_default() {
    let parameters = |text: &str| System::parse(text).unwrap().parameters();
    assert_eq!(parameters("gate-1"), "depth=1,level=launch,idle_wait_us=100");
    assert_eq!(parameters("gate-1:budget_us=0"), parameters("gate-1"));
    assert_eq!(parameters("gate-1:budget_us=0.5"), "depth=1,level=launch,idle_wait_us=100,budget_us=0.5");
    assert_ne!(System::parse("gate:budget_us=1").unwrap(), System::parse("gate:budget_us=2").unwrap());
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (text, parts) in [
        ("tely", ["unknown system `tely`", "known systems: no-sharing, time-slicing"]),
        ("gate:dept=2", ["unknown parameter `dept`", "depth (1 to 1024), level (launch, ptx, cubin)"]),
        ("gate:depth=0", ["`gate`", "`0` is no value of depth (1 to 1024)"]),
        ("gate:level=warp", ["`warp`", "level (launch, ptx, cubin)"]),
        ("gate:depth", ["`depth`", "`name=value`"]),
        ("gate:", ["``", "`name=value`"]),
        ("gate:depth=1,depth=2", ["`depth`", "twice"]),
        ("mps:depth=1", ["`mps`", "no parameters"]),
        ("tally:threshold_ms=0", ["`0`", "threshold_ms (0.000001 to 1000, 6 decimals)"]),
        ("partition:high_percent=100", ["`100`", "high_percent (1 to 99, 1 decimal)"]),
    ] {
        let error = System::parse(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{text}: `{part}` is not in: {error}");
        }
    }
}

/// Whoever runs a policy may ask it although its system does not need that.
#[test]
fn systems_without_a_hook_admit_everything() {
    for entry in registry::entries() {
        let system = System::parse(entry.name).unwrap();
        if system.wiring().hook != Hook::None {
            continue;
        }
        let mut policy = system.policy(&Setting { clients: 1, ..Setting::default() });
        let mut ops = Vec::new();
        let kernel = sched::Kernel::default();
        policy.step(sched::Event::Request { client: 0, kernel }, 5, &mut ops);
        assert_eq!(ops, [sched::Op::Admit { client: 0, original: true }], "{}", entry.name);
    }
}

#[test]
fn the_document_lists_every_system() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SYSTEMS.md");
    let text = std::fs::read_to_string(path).expect("docs/SYSTEMS.md is there");
    assert_eq!(
        text,
        example::document(),
        "renew it: cargo run --package sched --example systems > docs/SYSTEMS.md"
    );
}
