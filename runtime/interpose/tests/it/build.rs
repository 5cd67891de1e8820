//! Compiles the C programs of `tests/c` and a driver from the hook list.

use hooks::HOOKS;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Symbols that the driver writes by hand.
const SPECIAL: [&str; 3] = ["cuGetProcAddress", "cuGetProcAddress_v2", "cuLaunchKernelEx"];

/// A folder with `libcuda.so.1` and whatever else a test builds there.
pub struct Folder {
    folder: TempDir,
}

fn names() -> String {
    let mut text = String::new();
    for (index, entry) in HOOKS.iter().enumerate() {
        let form = if SPECIAL.contains(&entry.name) { "SPECIAL" } else { "SYMBOL" };
        let (base, per_thread) = (entry.base(), u8::from(entry.per_thread));
        let _ = writeln!(text, "{form}({index}, {}, \"{base}\", {}, {per_thread})", entry.name, entry.since);
    }
    text
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../interpose/tests/c")
}

impl Folder {
    pub fn new() -> Folder {
        let folder = Folder { folder: tempfile::tempdir().expect("a temporary folder") };
        fs::write(folder.path().join("names.h"), names()).expect("names.h is written");
        // With a version, so that dlvsym has something to find; the real driver has none.
        let versions = folder.path().join("versions");
        fs::write(&versions, "STUB_1 { *; };").expect("versions is written");
        let script = format!("-Wl,--version-script={}", versions.display());
        folder.library(
            "driver",
            "libcuda.so.1",
            &["-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic-functions", &script],
        );
        folder
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn cc(&self, source: &str, output: &str, more: &[&str]) -> PathBuf {
        let output = self.path().join(output);
        let status = Command::new("cc")
            .args(["-O1", "-g", "-std=gnu17", "-Wall", "-Wno-builtin-declaration-mismatch", "-I"])
            .arg(self.path())
            .arg(sources().join(source).with_extension("c"))
            .arg("-o")
            .arg(&output)
            .args(more)
            .status()
            .expect("cc is installed");
        assert!(status.success(), "cc {source}.c: {status}");
        output
    }

    pub fn library(&self, source: &str, file: &str, more: &[&str]) -> PathBuf {
        self.cc(source, file, &[&["-shared", "-fPIC"], more].concat())
    }

    /// A program that opens the driver itself.
    pub fn program(&self, source: &str) -> PathBuf {
        self.cc(source, source, &["-lpthread", "-ldl"])
    }

    /// A program that is linked with the driver, and perhaps with more.
    pub fn linked(&self, source: &str, more: &[&str]) -> PathBuf {
        let driver = self.path().join("libcuda.so.1");
        let driver = driver.to_str().expect("a path in UTF-8");
        self.cc(source, source, &[&[driver, "-lpthread", "-ldl"], more].concat())
    }
}

/// The library under test, which cargo builds beside this test.
pub fn interposer() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let deps = test.parent().expect("it is in a folder");
    let library = deps.join("libtally_interpose.so");
    assert!(library.is_file(), "{} is missing: run this test through cargo", library.display());
    library
}
