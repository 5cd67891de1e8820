//! One child at a time, waited for; Ctrl-C is the child's to answer.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The child that Ctrl-C is for; 0 while there is none.
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Waits for a command; its exit code, or 128 + signal as in a shell.
///
/// # Errors
/// The command cannot be started.
pub fn status(mut command: Command) -> Result<u8> {
    forward_signals();
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    CHILD.store(child.id(), Ordering::SeqCst);
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    CHILD.store(0, Ordering::SeqCst);
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|s| 128 + s)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// This process only passes Ctrl-C on and waits, so that the child's message and exit code come through. A terminal
/// sends the signal to both, `kill` only to this one; a second one does no harm.
fn forward_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                let child = CHILD.load(Ordering::SeqCst);
                if child == 0 {
                    std::process::exit(128 + signal);
                }
                // The shell's own `kill`: slim container images have a shell and no program of that name.
                let kill = ["-c", "kill -s \"$1\" \"$2\"", "kill", &signal.to_string(), &child.to_string()];
                let _ = Command::new("/bin/sh").args(kill).status();
            }
        });
    });
}
