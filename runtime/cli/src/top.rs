//! `tally top`: the state again each second.

use crate::Failure;
use crate::args::Top;
use crate::status;
use daemon::place;
use protocol::settings::Settings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal, Stdin, Write, stdin, stdout};
use std::time::{Duration, Instant};

/// Keys that end it; the last one is Ctrl-C.
const ENDING: &[u8] = b"qQ\x03";
const PERIOD: Duration = Duration::from_secs(1);

/// Shows the state until `q` or Ctrl-C; once if this is no terminal.
pub fn run(flags: &Top, settings: &Settings) -> Result<u8, Failure> {
    let dir = place::folder(flags.dir.as_deref(), settings)?;
    let mut last: Option<(Instant, Vec<protocol::message::Status>)> = None;
    let mut out = stdout();
    if !out.is_terminal() {
        return status::run(&crate::args::Status { json: false, dir: flags.dir.clone() }, settings);
    }
    let keys = Keys::new();
    loop {
        let all = status::ask(&dir)?;
        let now = Instant::now();
        let mut text = String::new();
        for status in &all {
            let before = last.as_ref().and_then(|(when, old)| {
                let old = old.iter().find(|old| old.daemon == status.daemon)?;
                Some((old, (now - *when).as_secs_f64()))
            });
            text += &status::table(status, before);
        }
        if all.is_empty() {
            text = format!("no daemon runs in {}; `tally run` starts one\n", dir.display());
        }
        // Home, the text with the rest of each line cleared, and the rest of the screen cleared.
        let text = text.replace('\n', "\x1b[K\n");
        let shown = write!(out, "\x1b[H{text}\x1b[K\nq ends this\x1b[J").and_then(|()| out.flush());
        if shown.is_err() {
            return Ok(0);
        }
        last = Some((now, all));
        if keys.wait_for_q(PERIOD) {
            let _ = writeln!(out);
            return Ok(0);
        }
    }
}

/// Keys as they are pressed, without Enter; the terminal is as before once this is dropped.
struct Keys {
    stdin: Stdin,
    before: Option<Termios>,
}

impl Keys {
    fn new() -> Keys {
        let stdin = stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(before) = &before {
            let mut keys = before.clone();
            // Ctrl-C as a key, so that the terminal is restored then too.
            keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            let _ = tcsetattr(&stdin, OptionalActions::Now, &keys);
        }
        Keys { stdin, before }
    }

    /// Whether `q` or Ctrl-C is pressed within a time.
    fn wait_for_q(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if self.before.is_none() {
                std::thread::sleep(left);
                return false;
            }
            let mut polled = [PollFd::new(&self.stdin, PollFlags::IN)];
            let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            if !matches!(poll(&mut polled, Some(&time)), Ok(1..)) {
                continue;
            }
            // Not through the standard library's buffer, whose content no poll would see.
            let mut keys = [0; 16];
            match rustix::io::read(&self.stdin, &mut keys[..]) {
                Ok(1..) if !keys.iter().any(|key| ENDING.contains(key)) => {}
                // One of these keys, or the terminal has gone.
                _ => return true,
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.stdin, OptionalActions::Now, before);
        }
    }
}
