//! `SHA256SUMS` of a run folder, in the format of `sha256sum -c`.

use crate::files;
use crate::key;
use crate::runinfo;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file itself.
pub const NAME: &str = "SHA256SUMS";

/// Not covered: what holds dates and host facts (the report shows run.toml), and what is not a result.
const LEFT_OUT: [&str; 3] = [NAME, ".lock", "report.html"];

/// Writes the sums of what the folder holds now.
///
/// # Errors
/// A file cannot be read, or the sums cannot be written.
pub fn write(run: &Path) -> Result<usize> {
    let mut text = String::new();
    let files = list(run)?;
    for name in &files {
        let path = run.join(name);
        let sum = key::sha256_file(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text += &format!("{sum}  {name}\n");
    }
    files::write_atomically(&run.join(NAME), text.as_bytes())?;
    Ok(files.len())
}

/// Compares the folder with its sums. Returns how many files are as they were, and the problems, one line each.
///
/// # Errors
/// The sums are missing or malformed (by line), or the folder cannot be read.
pub fn check(run: &Path) -> Result<(usize, Vec<String>)> {
    let path = run.join(NAME);
    let text = bounded::text(&path, bounded::TABLE).with_context(|| {
        format!(
            "cannot read {}; a run that was not finished has none: run `cargo xtask reproduce` again",
            path.display()
        )
    })?;
    let mut expected = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        match line.split_once("  ") {
            Some((sum, name)) if sum.len() == 64 && !name.is_empty() => {
                expected.insert(name.to_owned(), sum.to_owned());
            }
            _ => bail!("{}, line {}: `{line}` is not a checksum and a name", path.display(), number + 1),
        }
    }
    let mut problems = Vec::new();
    let mut good = 0;
    for name in list(run)? {
        match expected.remove(&name) {
            None => problems.push(format!("{name}: not listed in {NAME}")),
            Some(sum) if key::sha256_file(&run.join(&name))? == sum => good += 1,
            Some(_) => problems.push(format!("{name}: changed since it was written")),
        }
    }
    problems.extend(expected.into_keys().map(|name| format!("{name}: missing")));
    Ok((good, problems))
}

/// Relative names of all files below, with `/`, sorted.
fn list(run: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders: Vec<PathBuf> = vec![run.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let relative = path.strip_prefix(run)?;
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            let name = parts.join("/");
            // Of run.toml also what another version wrote.
            let left_out = LEFT_OUT.contains(&name.as_str()) || name.starts_with(runinfo::NAME);
            if !left_out && !name.ends_with(files::PARTIAL) {
                names.push(name);
            }
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_kind_of_difference_is_named() {
        let run = tempfile::tempdir().unwrap();
        let at = |name: &str| run.path().join(name);
        fs::create_dir_all(at("cells/0")).unwrap();
        for name in ["cells/0/cell.toml", "a.csv", "b.csv", "run.toml", "report.html"] {
            fs::write(at(name), name).unwrap();
        }
        assert_eq!(write(run.path()).unwrap(), 3);
        assert_eq!(check(run.path()).unwrap(), (3, vec![]));
        for name in ["run.toml", "report.html"] {
            fs::write(at(name), "another date").unwrap();
        }
        fs::write(at("a.csv"), "changed").unwrap();
        fs::remove_file(at("b.csv")).unwrap();
        fs::write(at("c.csv"), "new").unwrap();
        let (good, problems) = check(run.path()).unwrap();
        assert_eq!(good, 1);
        assert_eq!(
            problems,
            ["a.csv: changed since it was written", "c.csv: not listed in SHA256SUMS", "b.csv: missing"]
        );
        fs::write(at(NAME), "nonsense\n").unwrap();
        assert!(check(run.path()).unwrap_err().to_string().contains("line 1: `nonsense`"));
    }
}
