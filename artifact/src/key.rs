//! A cell's key: the hash of everything that determines its numbers, and of nothing else.

use crate::cell::{Cell, Kind};
use crate::traffic;
use anyhow::Result;
use sha2::{Digest, Sha256};
use sim::{Machine, Program, System};
use std::collections::BTreeMap;
use toml::Value;
use traces::Arrivals;

/// Changes when the stored form of a cell changes.
pub const FORMAT: u32 = 1;

/// All inputs of a cell by name. Their canonical text, one `name = value` per line in the order of the names, is what
/// is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs(BTreeMap<String, String>);

/// The parts of a cell that are known only once everything is read.
pub struct Parts<'a> {
    pub backend: &'a str,
    pub machine: &'a Machine,
    pub system: &'a System,
    pub inference: Option<&'a Program>,
    pub training: Option<&'a Program>,
    pub arrivals: Option<&'a Arrivals>,
    /// Of the best-effort servers.
    pub peers: &'a [Arrivals],
    pub span_ns: u64,
    /// Requests of a closed loop.
    pub closed_loop: Option<u64>,
    /// In place of machine and programs where a cell is measured, see [`crate::executor::Executor::inputs`].
    pub measured: Option<BTreeMap<String, String>>,
}

impl Inputs {
    /// Gathers the inputs. Programs and machine enter as the simulator sees them, so a changed comment or provenance
    /// changes no key; arrivals enter as the list itself.
    pub fn gather(cell: &Cell, parts: &Parts) -> Inputs {
        let mut inputs = BTreeMap::new();
        let mut put = |name: &str, value: String| inputs.insert(name.to_owned(), value);
        put("format", FORMAT.to_string());
        put("backend", parts.backend.to_owned());
        if parts.backend == "sim" {
            put("simulator", sim::VERSION.to_string());
        }
        match &parts.measured {
            Some(measured) => {
                for (name, value) in measured {
                    put(name, value.clone());
                }
            }
            None => {
                put("machine", sha256(values(parts.machine).as_bytes()));
                for (name, program) in [("inference", parts.inference), ("training", parts.training)] {
                    if let Some(program) = program {
                        put(name, format!("{} {}", program.id, sha256(format!("{program:?}").as_bytes())));
                    }
                }
            }
        }
        put("kind", cell.kind.name().to_owned());
        put("system", format!("{} {}", cell.system, parts.system.parameters()));
        if let Some(arrivals) = parts.arrivals {
            put("trace", arrivals.label.clone());
            put("arrivals", format!("{} {}", arrivals.times_ns.len(), traffic::digest(&arrivals.times_ns)));
        }
        if let Kind::Crowd { clients, pattern } = cell.kind {
            let times: Vec<u64> = parts.peers.iter().flat_map(|peer| &peer.times_ns).copied().collect();
            put("clients", format!("{clients} {}", pattern.name()));
            put("peers", format!("{} {}", times.len(), traffic::digest(&times)));
        }
        if let Some(load) = cell.load {
            put("load", load.to_string());
        }
        if let Some(requests) = parts.closed_loop {
            put("closed_loop", requests.to_string());
        }
        put("seed", cell.seed.to_string());
        put("span_ns", parts.span_ns.to_string());
        Inputs(inputs)
    }

    /// From stored ones.
    pub fn from_map(map: BTreeMap<String, String>) -> Inputs {
        Inputs(map)
    }

    /// By name.
    pub fn map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// The first 16 hex digits of the SHA-256 of the text.
    pub fn key(&self) -> String {
        let text: String = self.0.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        sha256(text.as_bytes())[..16].to_owned()
    }
}

/// What the simulator reads of a machine, one `name = value` per line: no texts about a number, and nothing of what only
/// the planner, tables and extrapolation use. A new field counts unless it is named here.
fn values(machine: &Machine) -> String {
    const UNREAD: &[&str] = &["product", "memory_bytes", "peaks", "anchors"];
    let Ok(Value::Table(mut table)) = Value::try_from(machine) else {
        unreachable!("a machine is read from a table, so it is one")
    };
    table.retain(|name, _| !UNREAD.contains(&name));
    let mut text = String::new();
    write(&mut text, "", &Value::Table(table));
    text
}

/// Of a number with its origin and source, only the number.
fn write(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Table(constant) if constant.contains_key("source") => {
            write(text, name, &constant["value"]);
        }
        Value::Table(table) => {
            let of = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            table.iter().for_each(|(key, value)| write(text, &of(key), value));
        }
        value => text.push_str(&format!("{name} = {value}\n")),
    }
}

/// SHA-256 as hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of a file's content, as hex.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_file(path: &std::path::Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match std::io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Span;
    use crate::library::Library;

    fn inputs(change: impl Fn(&mut Cell)) -> Inputs {
        let mut cell = Cell {
            kind: Kind::SoloTraining,
            system: "no-sharing".to_owned(),
            inference: None,
            training: Some("t".to_owned()),
            load: None,
            source: None,
            seed: 1,
            span: Span { min_seconds: 1, min_requests: 100 },
            base: Span { min_seconds: 1, min_requests: 100 },
        };
        change(&mut cell);
        let library = Library::fake(["t"].into_iter()).unwrap();
        let system = System::parse(&cell.system).unwrap();
        Inputs::gather(
            &cell,
            &Parts {
                backend: "sim",
                machine: &library.machine,
                system: &system,
                inference: None,
                training: Some(library.program("t").unwrap()),
                arrivals: None,
                peers: &[],
                span_ns: 5,
                closed_loop: None,
                measured: None,
            },
        )
    }

    #[test]
    fn whatever_determines_a_cell_changes_its_key() {
        let key = inputs(|_| {}).key();
        assert_eq!(key.len(), 16);
        assert_eq!(inputs(|_| {}).key(), key);
        assert_ne!(inputs(|c| c.seed = 2).key(), key);
        assert_ne!(inputs(|c| c.system = "mps".to_owned()).key(), key);
        assert_ne!(inputs(|c| c.kind = Kind::Pair).key(), key);
    }

    #[test]
    fn texts_about_a_machine_change_no_key_and_its_values_do() {
        let machine = Library::fake(["t"].into_iter()).unwrap().machine;
        let text = values(&machine);
        for line in ["sms = 132", "sm.threads = 2048", "dram_bytes_per_us = 4800000"] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        let slice = format!("rules.slice_ns = {:?}", machine.rules.slice_ns.value);
        assert!(text.lines().any(|l| l == slice), "{slice} in\n{text}");
        let changed = |change: fn(&mut Machine)| {
            let mut other = machine.clone();
            change(&mut other);
            values(&other) != text
        };
        assert!(!changed(|m| m.rules.slice_ns.source = "said in other words".to_owned()));
        assert!(!changed(|m| m.rules.slice_ns.origin = sim::machine::Origin::Assumed));
        assert!(!changed(|m| m.product = "the same".to_owned()));
        assert!(!changed(|m| m.peaks = None));
        assert!(!changed(|m| m.anchors.clear()));
        assert!(changed(|m| m.rules.slice_ns.value += 1.0));
        assert!(changed(|m| m.rules.wave_phases.value += 1.0));
        assert!(changed(|m| m.sm.smem_granularity += 1));
        assert!(changed(|m| m.gpcs -= 1));
        // Another name is another machine.
        assert!(changed(|m| m.name.push('x')));
    }

    #[test]
    fn sha256_of_a_known_text() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
