//! Builds the driver and the programs where cargo builds the tests, each once per process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Folder of the sources.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/programs");

/// The folder with `libcuda.so.1`, for LD_LIBRARY_PATH.
///
/// # Panics
/// If the driver can't be built.
pub fn library_folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(make_library_folder).clone()
}

/// The executable made from `programs/NAME.c`.
///
/// # Panics
/// If it or the driver can't be built.
pub fn program(name: &str) -> PathBuf {
    let arguments =
        ["-pthread".into(), library_folder().join("libcuda.so.1").into_os_string(), "-ldl".into()];
    compile(name, name, &arguments)
}

/// The shared library made from `programs/NAME.c`, as `NAME.so`; it isn't linked to the driver.
///
/// # Panics
/// If it can't be built.
pub fn preload_library(name: &str) -> PathBuf {
    compile(name, &format!("{name}.so"), &["-shared".into(), "-fPIC".into(), "-ldl".into()])
}

/// Where cargo puts what it builds with the profile of the running test: `target/debug`, say.
fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running executable");
    let folder = test.parent().expect("an executable lies in a folder");
    // Tests lie in `deps`, examples in `examples`, binaries one level higher.
    let inner = folder.ends_with("deps") || folder.ends_with("examples");
    if inner { folder.parent().expect("deps lies in a folder") } else { folder }.to_owned()
}

fn make_library_folder() -> PathBuf {
    let profile = profile_folder();
    let target = profile.parent().expect("a profile's folder lies in the target folder");
    let name = profile.file_name().expect("a profile has a name").to_string_lossy().into_owned();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut build = Command::new(cargo);
    // Cargo does nothing if the driver is up to date.
    build
        .args(["build", "--quiet", "--package", "cuda-stub", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/driver/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .arg("--profile")
        .arg(if name == "debug" { "dev" } else { &name });
    run(&mut build, "the stub driver");
    let folder = profile.join("stub").join("lib");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let link = folder.join("libcuda.so.1");
    let driver = profile.join("libcuda_stub.so");
    if std::fs::read_link(&link).ok().as_deref() != Some(&driver) {
        place(&link, |temporary| std::os::unix::fs::symlink(&driver, temporary).map_err(|e| e.to_string()));
    }
    folder
}

fn compile(source: &str, output: &str, arguments: &[OsString]) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(output) {
        return path.clone();
    }
    let folder = profile_folder().join("stub").join("bin");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let path = folder.join(output);
    let source = Path::new(PROGRAMS).join(format!("{source}.c"));
    place(&path, |temporary| {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
        let mut command = Command::new(compiler);
        command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]);
        command.arg(temporary).arg(&source).args(arguments);
        run(&mut command, &source.display().to_string());
        Ok(())
    });
    built.insert(output.to_owned(), path.clone());
    path
}

/// Makes a file under a name of its own, then gives it its place: tests of other processes may be using the old one.
fn place(path: &Path, make: impl FnOnce(&Path) -> Result<(), String>) {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    make(&temporary)
        .and_then(|()| std::fs::rename(&temporary, path).map_err(|error| error.to_string()))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn run(command: &mut Command, what: &str) {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{what}: cannot start {program}: {error}; is it installed?"));
    assert!(
        output.status.success(),
        "{what}: {program} failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
