//! What an entry is drawn from: tables of experiments, and other records of the run folder.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};

use crate::records::{self, Records};
use crate::registry::Entry;

/// The records of one entry.
#[derive(Debug)]
pub struct Inputs {
    run: PathBuf,
    tables: Vec<(&'static str, Records)>,
}

impl Inputs {
    /// Whether the run folder holds what the entry cannot do without: the table of its first experiment, and all of
    /// its other records.
    pub fn are_there(run: &Path, entry: &Entry) -> bool {
        let first = entry.experiments.first().map(|experiment| table(run, experiment));
        first.into_iter().chain(entry.records.iter().map(|file| run.join(file))).all(|path| path.is_file())
    }

    /// Reads the tables. One that is missing is an error for the first experiment alone: what shows several
    /// experiments leaves out the others that were not run, and says so.
    ///
    /// # Errors
    /// See [`records::read`]; also, without `partial`, a table with gaps.
    pub fn read(run: &Path, entry: &Entry, partial: bool) -> Result<Inputs> {
        let mut tables = Vec::new();
        for (i, experiment) in entry.experiments.iter().enumerate() {
            let path = table(run, experiment);
            if i > 0 && !path.exists() {
                continue;
            }
            let records = records::read(&path, experiment)?;
            let gaps = records.gaps();
            if let Some(first) = gaps.first().filter(|_| !partial) {
                bail!(
                    "{} is incomplete ({} rows; first: {first}); next: run the experiment again, or pass --partial to \
                     draw what is there, with an x for each missing cell",
                    path.display(),
                    gaps.len()
                );
            }
            tables.push((*experiment, records));
        }
        Ok(Inputs { run: run.to_path_buf(), tables })
    }

    /// The table of the entry's first experiment.
    ///
    /// # Errors
    /// The entry has no experiment; a defect of the registry.
    pub fn first(&self) -> Result<&Records> {
        self.tables.first().map(|t| &t.1).ok_or_else(|| anyhow!("this entry has no experiment"))
    }

    /// The table of another experiment of the entry; `None` where it was not run.
    pub fn table(&self, experiment: &str) -> Option<&Records> {
        self.tables.iter().find(|t| t.0 == experiment).map(|t| &t.1)
    }

    /// Where another record of the run folder lies.
    pub fn path(&self, file: &str) -> PathBuf {
        self.run.join(file)
    }
}

fn table(run: &Path, experiment: &str) -> PathBuf {
    run.join(format!("{experiment}.csv"))
}
