//! Two run folders side by side: what went into them, and for every cell whether its numbers are the same, apart by no
//! more than chance explains, or different.

pub mod changes;
pub mod interval;
pub mod rows;
pub mod text;

use crate::runinfo::RunInfo;
use crate::summary::{self, Row};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which cell a row is, in the order of the comparison: the experiment, then the columns that say so, then a number, as a
/// quick run holds two paced solo cells of different lengths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub experiment: String,
    pub kind: String,
    pub system: String,
    pub inference: String,
    pub training: String,
    pub load: String,
    pub seed: u64,
    pub nth: usize,
}

/// One run folder.
pub struct Side {
    pub folder: PathBuf,
    /// Missing or of another version: the numbers can be compared all the same.
    pub info: std::result::Result<RunInfo, String>,
    pub rows: BTreeMap<Identity, Row>,
}

impl Side {
    /// Reads the tables and `run.toml`; cells are read when they are compared.
    ///
    /// # Errors
    /// No folder, no table in it, or one that cannot be read.
    pub fn read(folder: &Path) -> Result<Side> {
        ensure!(
            folder.is_dir(),
            "there is no run folder {}: make one with `cargo xtask reproduce`",
            folder.display()
        );
        let mut rows = BTreeMap::new();
        let mut tables: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "csv") && summary::is_table(&path)? {
                tables.push(path);
            }
        }
        tables.sort();
        for table in tables {
            let mut seen: BTreeMap<Identity, usize> = BTreeMap::new();
            for row in summary::read_csv(&table)? {
                let mut identity = Identity::of(&row);
                let nth = seen.entry(identity.clone()).or_default();
                identity.nth = *nth;
                *nth += 1;
                rows.insert(identity, row);
            }
        }
        ensure!(
            !rows.is_empty(),
            "{} holds no table of a finished run; run `cargo xtask reproduce` again",
            folder.display()
        );
        let info = RunInfo::read(folder).map_err(|error| crate::library::one_line(&error));
        Ok(Side { folder: folder.to_path_buf(), info, rows })
    }
}

impl Identity {
    fn of(row: &Row) -> Identity {
        Identity {
            experiment: row.experiment.clone(),
            kind: row.kind.clone(),
            system: row.system.clone(),
            inference: row.inference.clone(),
            training: row.training.clone(),
            load: row.load.map(|load| load.to_string()).unwrap_or_default(),
            seed: row.seed,
            nth: 0,
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.experiment, self.kind, self.system)?;
        for job in [&self.inference, &self.training].into_iter().filter(|job| !job.is_empty()) {
            write!(f, " {job}")?;
        }
        if !self.load.is_empty() {
            write!(f, " load {}", self.load)?;
        }
        write!(f, " seed {}", self.seed)?;
        if self.nth > 0 { write!(f, " ({})", self.nth + 1) } else { Ok(()) }
    }
}
