//! Tests without a GPU: the stub driver under the name of the real one, C programs that use it, and its log.
//!
//! ```no_run
//! let log = std::env::temp_dir().join("calls");
//! let output = stub::command("launches").arg("direct").env("STUB_LOG", &log).output()?;
//! assert!(output.status.success());
//! assert_eq!(stub::read_log(&log)?.iter().filter(|call| call.name == "cuLaunchKernel").count(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod build;
mod log;

use std::path::PathBuf;
use std::process::Command;

pub use build::{library_folder, preload_library, program};
pub use log::{Call, parse_log, read_log};

/// A program of `programs/`, ready to run over the stub driver, without any STUB_* setting of the caller's environment.
///
/// # Panics
/// If the driver or the program can't be built; the message has the compiler's output.
pub fn command(name: &str) -> Command {
    over_stub(program(name))
}

/// Any program, ready to run over the stub driver.
///
/// # Panics
/// As [`command`].
pub fn over_stub(program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library_folder());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STUB_") {
            command.env_remove(name);
        }
    }
    command
}
