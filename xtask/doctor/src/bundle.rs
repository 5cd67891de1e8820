//! One archive for a bug report: what `doctor` found, how the runs came about, which cells failed and why, and versions.
//! Samples, tables and pictures stay here, and so does what tells whose machine it is ([`Scrub`]).

use crate::probe;
use crate::report::Report;
use crate::scrub::Scrub;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

/// Failed cells listed of a run; more are counted.
const CELLS: usize = 200;

/// The folder in the archive.
const TOP: &str = "bug-report";

/// Files by name, in the order of the archive.
pub type Files = BTreeMap<String, String>;

/// A cell that has no result.
#[derive(Serialize)]
struct Failed {
    key: String,
    error: String,
    inputs: toml::Table,
}

/// What did not go well in a run.
#[derive(Default, Serialize)]
struct Errors {
    finished: usize,
    failed: usize,
    cell: Vec<Failed>,
}

/// Gathers the files. What cannot be read is named in the archive instead of ending it: a bug may be the reason.
///
/// # Errors
/// None that a caller can cause.
pub fn gather(root: &Path, report: &Report, runs: &[PathBuf], scrub: &Scrub) -> Result<Files> {
    let mut files = Files::new();
    let mut put = |name: &str, text: &str| files.insert(name.to_owned(), scrub.text(text));
    put("README.txt", README);
    put("doctor.toml", &report.toml()?);
    put("doctor.txt", &report.pretty());
    put("versions.txt", &versions(root));
    for run in runs {
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        let name = plain(&scrub.text(&name));
        let info = regular(&run.join("run.toml"), bounded::DEFINITION);
        put(&format!("runs/{name}/run.toml"), &info.unwrap_or_else(|why| format!("# {why}\n")));
        put(&format!("runs/{name}/errors.toml"), &errors(run));
    }
    Ok(files)
}

/// Writes the archive under a temporary name and renames it when it is whole.
///
/// # Errors
/// Something of that name is there, or it cannot be written.
pub fn write(path: &Path, files: &Files) -> Result<()> {
    ensure!(!path.exists(), "{} is there already; name another file", path.display());
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> Result<()> {
        let mut file = tempfile::Builder::new().prefix(".bundle-").tempfile_in(parent)?;
        archive(file.as_file_mut(), files)?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// A tar archive without dates, users and groups: equal files give equal bytes.
///
/// # Errors
/// A name that could leave the folder it is unpacked in, or the writer's.
pub fn archive(to: &mut impl Write, files: &Files) -> Result<()> {
    let mut builder = tar::Builder::new(to);
    for (name, text) in files {
        let path = Path::new(TOP).join(name);
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            bail!("`{name}` is no name for a file in an archive");
        }
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_data(&mut header, path, text.as_bytes())?;
    }
    builder.finish()?;
    Ok(())
}

const README: &str = "\
What is in this archive, made by `cargo xtask doctor --bundle`:

doctor.txt, doctor.toml   what the check of the machine found
versions.txt              revision of the repository, toolchain, system
runs/*/run.toml           how each run came about
runs/*/errors.toml        the cells that have no result, and why

Home folders and the names of user and host were replaced by <home>, <user>, <host> and <repository>. Please look through
the files before you send them: what a path or a message says beyond that, no program can know.
";

/// The runs of `results/`, or those that were named.
///
/// # Errors
/// A named folder is not there.
pub fn runs(root: &Path, named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if let Some(absent) = named.iter().find(|run| !run.is_dir()) {
        bail!("there is no run folder {}", absent.display());
    }
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    let Ok(entries) = fs::read_dir(root.join("results")) else { return Ok(Vec::new()) };
    let mut runs: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    runs.sort();
    Ok(runs)
}

fn versions(root: &Path) -> String {
    let root = root.to_string_lossy();
    let mut text = format!("crate {}\n", env!("CARGO_PKG_VERSION"));
    for (program, arguments) in [
        ("git", &["-C", &*root, "rev-parse", "HEAD"][..]),
        ("git", &["-C", &*root, "status", "--porcelain", "--untracked-files=no"]),
        ("rustc", &["-vV"]),
        ("cargo", &["-V"]),
        ("uname", &["-srm"]),
    ] {
        let answer = match probe::ask(program, arguments) {
            Ok(answer) => answer.out + &answer.err,
            Err(silence) => format!("{silence:?}\n"),
        };
        text += &format!("\n$ {program} {}\n{answer}", arguments.join(" "));
    }
    text
}

/// The text of a regular file that is no link to one elsewhere.
fn regular(path: &Path, limit: u64) -> Result<String, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {
            bounded::text(path, limit).map_err(|error| format!("{name} cannot be read: {error}"))
        }
        Ok(_) => Err(format!("{name} is not a regular file")),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// The cells of a run that are not ok, as TOML.
fn errors(run: &Path) -> String {
    let mut errors = Errors::default();
    let mut keys: Vec<String> = Vec::new();
    if let Ok(entries) = fs::read_dir(run.join("cells")) {
        keys = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    }
    keys.sort();
    for key in keys {
        let read = regular(&run.join("cells").join(&key).join("cell.toml"), bounded::DEFINITION);
        let cell =
            read.and_then(|text| toml::from_str::<toml::Table>(&text).map_err(|error| error.to_string()));
        let (error, inputs) = match cell {
            Ok(cell) if cell.get("status").and_then(|status| status.as_str()) == Some("ok") => {
                errors.finished += 1;
                continue;
            }
            Ok(cell) => {
                let error = cell.get("error").and_then(|error| error.as_str()).unwrap_or("no error given");
                let inputs = cell.get("inputs").and_then(|inputs| inputs.as_table()).cloned();
                (error.to_owned(), inputs.unwrap_or_default())
            }
            Err(why) => (why, toml::Table::new()),
        };
        errors.failed += 1;
        if errors.cell.len() < CELLS {
            errors.cell.push(Failed { key, error, inputs });
        }
    }
    toml::to_string(&errors).unwrap_or_else(|error| format!("# {error}\n"))
}

/// A name without anything that has a meaning in a path.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.chars().all(|c| c == '.') { "run".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_archive() {
        assert_eq!(
            (plain("../../x"), plain(".."), plain("h200-sim")),
            (".._.._x".into(), "run".into(), "h200-sim".into())
        );
        for name in ["../x", "/x", "a/../../x"] {
            let files = Files::from([(name.to_owned(), String::new())]);
            let error = archive(&mut Vec::new(), &files).unwrap_err();
            assert!(error.to_string().contains("no name for a file"), "{error}");
        }
    }

    #[test]
    fn equal_files_give_equal_bytes() {
        let files =
            Files::from([("a.txt".to_owned(), "x".to_owned()), ("runs/y/b".to_owned(), "z".to_owned())]);
        let bytes = || {
            let mut bytes = Vec::new();
            archive(&mut bytes, &files).unwrap();
            bytes
        };
        assert_eq!(bytes(), bytes());
        let mut archive = tar::Archive::new(&*bytes().leak());
        let names: Vec<_> =
            archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().into_owned()).collect();
        assert_eq!(names, [Path::new("bug-report/a.txt"), Path::new("bug-report/runs/y/b")]);
    }
}
