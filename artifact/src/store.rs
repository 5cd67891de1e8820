//! The cells of a run folder. Each is written under a temporary name and renamed when it is whole, so a run can be
//! killed at any moment and goes on where it was.

use crate::files::{PARTIAL, cannot_write, sync_folder, write_synced};
use crate::gpu::Runtime;
use crate::key::{self, Inputs};
use crate::library::one_line;
use crate::measures::Record;
use crate::samples;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sim::Progress;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

const CELL: &str = "cell.toml";
/// The last line of [`CELL`]: without it, a file that ends within a number would be taken for whole.
const SEAL: &str = "# SHA-256 of the lines above: ";
const SAMPLES: &str = "samples.parquet";
const PEERS: &str = "peers.parquet";
const ITERATIONS: &str = "iterations.parquet";
/// Of folders that are not finished. No key starts with a dot.
const TEMPORARY: &str = ".partial-";

/// What is stored of a cell.
#[derive(Debug, PartialEq)]
pub enum Stored {
    Done(Record),
    /// It failed in an earlier run, with this message.
    Failed(String),
    Absent,
    /// Something is there that cannot be used, and why.
    Broken(String),
}

/// `cell.toml`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellFile {
    key: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    inputs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    best_effort: Option<BestEffortTable>,
    /// [`PEERS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    peers: Option<FileTable>,
    /// [`ITERATIONS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<FileTable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<Box<Runtime>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    span_ns: u64,
    end_ns: u64,
    arrivals: u64,
    requests: u64,
    samples_sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BestEffortTable {
    iterations: u64,
    partial: f64,
    elapsed_ns: u64,
}

/// A file beside `cell.toml` that some kinds of cells have.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    /// Servers of [`PEERS`], iterations of [`ITERATIONS`].
    count: u64,
    sha256: String,
}

/// A run folder that no other process writes.
pub struct Store {
    cells: PathBuf,
    /// Held while a folder takes the place of another: cells that differ only in what does not reach their key, such as solo
    /// runs of different length that serve the same number of requests, may finish at the same time.
    replacing: Mutex<()>,
    /// Held as long as the store is open; the system releases it however the process ends.
    _lock: File,
}

impl Store {
    /// Opens a run folder, makes it if it is not there, and clears what a killed run left half-written.
    ///
    /// # Errors
    /// Another process has it open, or it cannot be written.
    pub fn open(run: &Path) -> Result<Store> {
        let cells = run.join("cells");
        fs::create_dir_all(&cells).with_context(|| cannot_write(&cells))?;
        let path = run.join(".lock");
        let lock = File::create(&path).with_context(|| cannot_write(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another run is writing to {}; wait for it, or choose another folder with --out",
                run.display()
            ),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
        for folder in [run, &cells] {
            for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with(TEMPORARY) {
                    fs::remove_dir_all(&path).with_context(|| cannot_write(&path))?;
                } else if name.ends_with(PARTIAL) {
                    fs::remove_file(&path).with_context(|| cannot_write(&path))?;
                }
            }
        }
        Ok(Store { cells, replacing: Mutex::default(), _lock: lock })
    }

    /// What is stored for these inputs.
    pub fn read(&self, inputs: &Inputs) -> Stored {
        read(&self.cells.join(inputs.key()), inputs)
    }

    /// What is stored under a key.
    ///
    /// # Errors
    /// As [`read_any`].
    pub fn read_key(&self, key: &str) -> Result<Stored> {
        Ok(read_any(&self.cells.join(key))?.1)
    }

    /// Stores a result; replaces what was there.
    ///
    /// # Errors
    /// The folder cannot be written, as when the disk is full; nothing partial remains.
    pub fn write(&self, inputs: &Inputs, result: std::result::Result<&Record, &str>) -> Result<()> {
        let key = inputs.key();
        let folder = self.cells.join(&key);
        let write = || -> Result<()> {
            // Removed when it goes out of scope, which is when something fails.
            let mut temporary = temporary_in(&self.cells)?;
            let mut file = CellFile {
                key: key.clone(),
                status: "ok".to_owned(),
                error: None,
                inputs: inputs.map().clone(),
                outcome: None,
                best_effort: None,
                peers: None,
                iterations: None,
                runtime: None,
            };
            match result {
                Ok(record) => {
                    let bytes = samples::encode(&record.requests)?;
                    file.outcome = Some(OutcomeTable {
                        trace: record.trace.clone(),
                        span_ns: record.span_ns,
                        end_ns: record.end_ns,
                        arrivals: record.arrivals,
                        requests: record.requests.len() as u64,
                        samples_sha256: key::sha256(&bytes),
                    });
                    file.best_effort = record.best_effort.map(|p| BestEffortTable {
                        iterations: p.iterations,
                        partial: p.partial,
                        elapsed_ns: p.elapsed_ns,
                    });
                    file.runtime.clone_from(&record.runtime);
                    write_synced(&temporary.path().join(SAMPLES), &bytes)?;
                    let write = |name: &str, count: usize, bytes: Vec<u8>| -> Result<Option<FileTable>> {
                        write_synced(&temporary.path().join(name), &bytes)?;
                        Ok(Some(FileTable { count: count as u64, sha256: key::sha256(&bytes) }))
                    };
                    if !record.peers.is_empty() {
                        file.peers = write(PEERS, record.peers.len(), samples::encode_peers(&record.peers)?)?;
                    }
                    let ends = &record.iteration_ends;
                    if !ends.is_empty() {
                        file.iterations = write(ITERATIONS, ends.len(), samples::encode_ends(ends)?)?;
                    }
                }
                Err(message) => {
                    file.status = "failed".to_owned();
                    file.error = Some(message.to_owned());
                }
            }
            write_synced(&temporary.path().join(CELL), sealed(&toml::to_string(&file)?).as_bytes())?;
            sync_folder(temporary.path())?;
            // A folder can only be renamed onto an empty one.
            let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::rename(temporary.path(), &folder)?;
            temporary.disable_cleanup(true);
            sync_folder(&self.cells)?;
            Ok(())
        };
        write().with_context(|| cannot_write(&folder))
    }
}

/// A folder that only this process knows, with the rights of any other folder.
fn temporary_in(cells: &Path) -> std::io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    builder.prefix(TEMPORARY).tempdir_in(cells)
}

/// Reads the folder of a cell, and checks it against what it should be.
fn read(folder: &Path, inputs: &Inputs) -> Stored {
    if !folder.exists() {
        return Stored::Absent;
    }
    let read = || -> Result<Stored> {
        let (found, stored) = read_any(folder)?;
        ensure!(found == *inputs, "{CELL} holds other inputs than those that its key stands for");
        Ok(stored)
    };
    match read() {
        Ok(stored) => stored,
        Err(error) => Stored::Broken(format!("{}: {}", folder.display(), one_line(&error))),
    }
}

fn sealed(text: &str) -> String {
    format!("{text}{SEAL}{}\n", key::sha256(text.as_bytes()))
}

/// The text without its last line, which must fit it.
fn unsealed(text: &str) -> Option<&str> {
    let at = text.rfind(SEAL)?;
    (text == sealed(&text[..at])).then(|| &text[..at])
}

/// The folder of a cell, whatever its inputs are.
///
/// # Errors
/// Something in it is missing, torn, edited or of another version.
pub fn read_any(folder: &Path) -> Result<(Inputs, Stored)> {
    let text = bounded::text(&folder.join(CELL), bounded::DEFINITION)
        .with_context(|| format!("cannot read {CELL}"))?;
    let text =
        unsealed(&text).with_context(|| format!("{CELL} is torn or of another version, or was edited"))?;
    let file: CellFile =
        toml::from_str(text).with_context(|| format!("{CELL} is torn or of another version"))?;
    let inputs = Inputs::from_map(file.inputs);
    ensure!(
        file.key == inputs.key() && folder.ends_with(&file.key),
        "{CELL} has the key {}, not that of its folder or of its inputs",
        file.key
    );
    if file.status == "failed" {
        return Ok((inputs, Stored::Failed(file.error.unwrap_or_default())));
    }
    ensure!(file.status == "ok", "{CELL} has the unknown status `{}`", file.status);
    let outcome = file.outcome.with_context(|| format!("{CELL} has no outcome"))?;
    let bytes = beside(folder, SAMPLES, &outcome.samples_sha256)?;
    let requests = samples::decode(bytes).with_context(|| SAMPLES.to_owned())?;
    ensure!(
        requests.len() as u64 == outcome.requests,
        "{SAMPLES} has {} rows, but {CELL} says {}",
        requests.len(),
        outcome.requests
    );
    let record = Record {
        trace: outcome.trace,
        span_ns: outcome.span_ns,
        end_ns: outcome.end_ns,
        arrivals: outcome.arrivals,
        requests,
        best_effort: file.best_effort.map(|b| Progress {
            iterations: b.iterations,
            partial: b.partial,
            elapsed_ns: b.elapsed_ns,
        }),
        peers: match &file.peers {
            None => Vec::new(),
            Some(table) => samples::decode_peers(beside(folder, PEERS, &table.sha256)?, table.count)
                .with_context(|| PEERS.to_owned())?,
        },
        iteration_ends: match &file.iterations {
            None => Vec::new(),
            Some(table) => samples::decode_ends(beside(folder, ITERATIONS, &table.sha256)?, table.count)
                .with_context(|| ITERATIONS.to_owned())?,
        },
        runtime: file.runtime,
    };
    Ok((inputs, Stored::Done(record)))
}

/// The bytes of a file of the cell, which must have this digest.
fn beside(folder: &Path, name: &str, sha256: &str) -> Result<Vec<u8>> {
    let bytes = bounded::bytes(&folder.join(name), bounded::SAMPLES)
        .with_context(|| format!("cannot read {name}"))?;
    let digest = key::sha256(&bytes);
    ensure!(digest == sha256, "{name} has the SHA-256 {digest}, but {CELL} says {sha256}");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Request;

    fn inputs(seed: u64) -> Inputs {
        Inputs::from_map(BTreeMap::from([("seed".to_owned(), seed.to_string())]))
    }

    fn record() -> Record {
        Record {
            trace: Some("a \"label\"".to_owned()),
            span_ns: 10,
            end_ns: 12,
            arrivals: 1,
            requests: vec![Request { arrival_ns: 1, start_ns: 2, end_ns: 12 }],
            best_effort: Some(Progress { iterations: 7, partial: 0.1, elapsed_ns: 12 }),
            peers: Vec::new(),
            iteration_ends: Vec::new(),
            runtime: None,
        }
    }

    #[test]
    fn cells_come_back() {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(run.path()).unwrap();
        assert_eq!(store.read(&inputs(1)), Stored::Absent);
        store.write(&inputs(1), Err("no such kernel")).unwrap();
        assert_eq!(store.read(&inputs(1)), Stored::Failed("no such kernel".to_owned()));
        store.write(&inputs(1), Ok(&record())).unwrap();
        assert_eq!(store.read(&inputs(1)), Stored::Done(record()));
        assert_eq!(store.read(&inputs(2)), Stored::Absent);
        // A server that served nothing is there too.
        let peers = vec![record().requests, Vec::new(), record().requests];
        let more = Record { peers, iteration_ends: vec![5, 9], best_effort: None, ..record() };
        let counted = Runtime { substrate: "mps".to_owned(), admitted: 3, ..Runtime::default() };
        let runtime = Some(Box::new(counted));
        let more = Record { runtime, ..more };
        store.write(&inputs(2), Ok(&more)).unwrap();
        assert_eq!(store.read(&inputs(2)), Stored::Done(more));
        fs::write(run.path().join("cells").join(inputs(2).key()).join(PEERS), b"PAR1").unwrap();
        assert!(matches!(store.read(&inputs(2)), Stored::Broken(reason) if reason.contains(PEERS)));
    }

    #[test]
    fn equal_cells_may_finish_at_the_same_time() {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(run.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..20).for_each(|_| store.write(&inputs(1), Ok(&record())).unwrap()));
            }
        });
        assert_eq!(store.read(&inputs(1)), Stored::Done(record()));
    }

    #[test]
    fn a_second_run_in_the_same_folder_is_refused() {
        let run = tempfile::tempdir().unwrap();
        let first = Store::open(run.path()).unwrap();
        let error = Store::open(run.path()).err().unwrap();
        assert!(format!("{error:#}").contains("another run is writing to"), "{error:#}");
        drop(first);
        Store::open(run.path()).unwrap();
    }

    #[test]
    fn damage_is_found_and_named() {
        let run = tempfile::tempdir().unwrap();
        let store = Store::open(run.path()).unwrap();
        let folder = run.path().join("cells").join(inputs(1).key());
        let damage = |change: &dyn Fn()| {
            store.write(&inputs(1), Ok(&record())).unwrap();
            change();
            match store.read(&inputs(1)) {
                Stored::Broken(reason) => reason,
                other => panic!("{other:?}"),
            }
        };
        let edit = |from: &str, to: &str| {
            let text = fs::read_to_string(folder.join(CELL)).unwrap();
            assert!(text.contains(from), "{text}");
            fs::write(folder.join(CELL), text.replace(from, to)).unwrap();
        };
        let reason = damage(&|| fs::write(folder.join(SAMPLES), b"PAR1").unwrap());
        assert!(reason.contains("SHA-256"), "{reason}");
        assert!(damage(&|| fs::remove_file(folder.join(SAMPLES)).unwrap()).contains(SAMPLES));
        assert!(damage(&|| edit("seed = \"1\"", "seed = \"2\"")).contains("edited"));
        assert!(damage(&|| edit("end_ns", "end_us")).contains("torn or of another version"));
        assert!(damage(&|| fs::write(folder.join(CELL), b"key = \"0").unwrap()).contains("torn"));
    }

    #[test]
    fn what_a_killed_run_left_is_cleared() {
        let run = tempfile::tempdir().unwrap();
        let left = run.path().join("cells/.partial-0123");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join(SAMPLES), b"PA").unwrap();
        let table = run.path().join("x.csv.partial");
        fs::write(&table, b"key,").unwrap();
        Store::open(run.path()).unwrap();
        assert!(!left.exists() && !table.exists());
    }
}
