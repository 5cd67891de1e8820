//! What a run folder holds, read once for all sections.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use toml::Table as Toml;

use super::table::Table;
use crate::registry::{ENTRIES, Entry};

/// The records and descriptions of a run folder.
pub struct Folder {
    pub path: PathBuf,
    /// `run.toml`; without it nothing is known of how the run came about.
    pub info: Option<Toml>,
    /// `machine.toml`: the GPU model as it was.
    pub machine: Option<Toml>,
    /// `claims.csv`.
    pub claims: Option<Table>,
    /// `<experiment>.csv`, by experiment.
    pub experiments: BTreeMap<String, Table>,
}

impl Folder {
    /// Reads the folder.
    ///
    /// # Errors
    /// There is no such folder; a file in it cannot be read or parsed.
    pub fn read(path: &Path) -> Result<Folder> {
        if !path.is_dir() {
            bail!("no run folder {}; next: make one with `cargo xtask reproduce`", path.display());
        }
        let mut experiments = BTreeMap::new();
        for name in names(path)? {
            let Some(id) = name.strip_suffix(".csv") else { continue };
            // What else lies there as CSV is no table of cells, and maybe not ours.
            if let Some(table) = Table::read_if(&path.join(&name), &COLUMNS)? {
                experiments.insert(id.to_owned(), table);
            }
        }
        let claims = path.join("claims.csv");
        Ok(Folder {
            info: toml(&path.join("run.toml"))?,
            machine: toml(&path.join("machine.toml"))?,
            claims: if claims.exists() { Some(Table::read(&claims)?) } else { None },
            experiments,
            path: path.to_path_buf(),
        })
    }

    /// All rows of all experiments with their table.
    pub fn cells(&self) -> impl Iterator<Item = (&Table, &Vec<String>)> {
        self.experiments.values().flat_map(|table| table.rows.iter().map(move |row| (table, row)))
    }

    /// The different values of a column over all experiments, in the order of their first appearance.
    pub fn distinct(&self, column: &str) -> Vec<&str> {
        let mut found = Vec::new();
        for table in self.experiments.values() {
            for value in table.distinct(table.rows.iter(), column) {
                if !found.contains(&value) {
                    found.push(value);
                }
            }
        }
        found
    }

    /// The times that `reproduce` worked in the folder, the latest last.
    pub fn invocations(&self) -> Vec<&Toml> {
        let listed =
            self.info.as_ref().and_then(|info| info.get("invocation")).and_then(|list| list.as_array());
        listed.into_iter().flatten().filter_map(|invocation| invocation.as_table()).collect()
    }

    /// Figures and tables whose files are here, in the order of the registry.
    pub fn drawn(&self, kind: Kind) -> Vec<&'static Entry> {
        ENTRIES.iter().filter(|entry| self.has(&kind.path(entry.id))).collect()
    }

    /// Whether the folder holds this file.
    pub fn has(&self, name: &str) -> bool {
        self.path.join(name).is_file()
    }

    /// Why a figure or table must not be shown: cells of it failed after it was drawn. One that was drawn from an
    /// incomplete table says so itself.
    pub fn is_stale(&self, entry: &Entry, shown: &str) -> bool {
        let failed = |id: &&str| {
            self.experiments
                .get(*id)
                .is_some_and(|t| t.rows.iter().any(|row| t.get(row, "status") == "failed"))
        };
        !shown.contains("INCOMPLETE RUN") && entry.experiments.iter().any(failed)
    }
}

/// What an entry of the registry becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Figure,
    Table,
}

impl Kind {
    /// The file by which one is known to be there.
    pub fn path(self, id: &str) -> String {
        match self {
            Kind::Figure => format!("figures/{id}.svg"),
            Kind::Table => format!("tables/{id}.md"),
        }
    }
}

/// By which a table of cells is known.
const COLUMNS: [&str; 5] = ["key", "experiment", "kind", "system", "status"];

/// The names of the files of a folder, sorted; none where there is no folder.
pub fn names(folder: &Path) -> Result<Vec<String>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let context = || format!("cannot list {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(context)? {
        let entry = entry.with_context(context)?;
        if entry.path().is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn toml(path: &Path) -> Result<Option<Toml>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = bounded::text(path, bounded::DEFINITION)
        .with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).map(Some).with_context(|| format!("in {}", path.display()))
}

/// A value of TOML as a reader wants it: text without quotes.
pub fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
