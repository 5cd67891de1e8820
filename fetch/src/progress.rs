//! How far a download is and when it will end, on stderr: on a terminal one line that is redrawn, else a line every five
//! seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// One download's progress.
pub struct Progress {
    label: String,
    total: u64,
    began: Instant,
    began_at: u64,
    printed: Instant,
    on: bool,
    terminal: bool,
    drawn: bool,
}

impl Progress {
    /// Prints nothing yet.
    pub fn new(label: &str, total: u64, on: bool) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        Progress {
            label: label.to_owned(),
            total,
            began: now,
            began_at: 0,
            printed: now,
            on,
            terminal,
            drawn: false,
        }
    }

    /// A connection begins to deliver at this offset; speed is counted from here.
    pub fn begin(&mut self, offset: u64) {
        self.began = Instant::now();
        self.began_at = offset;
    }

    /// This many bytes are there.
    pub fn at(&mut self, done: u64) {
        let every = Duration::from_millis(if self.terminal { 200 } else { 5000 });
        if !self.on || self.printed.elapsed() < every {
            return;
        }
        self.printed = Instant::now();
        let text = line(&self.label, self.total, self.began_at, done, self.began.elapsed());
        let mut err = std::io::stderr();
        if self.terminal {
            // Erases what a longer line before it left.
            let _ = write!(err, "\r\x1b[K{text}").and_then(|()| err.flush());
            self.drawn = true;
        } else {
            let _ = writeln!(err, "{text}");
        }
    }

    /// A line of its own.
    pub fn say(&mut self, text: &str) {
        self.clear();
        if self.on {
            let _ = writeln!(std::io::stderr(), "{}: {text}", self.label);
        }
    }

    fn clear(&mut self) {
        if self.drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            self.drawn = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// E.g. `maf2: 45%, 131.1 MiB of 291.2 MiB, 12.3 MiB/s, 13 s left`. Only bytes of this connection count for the speed.
fn line(label: &str, total: u64, began_at: u64, done: u64, elapsed: Duration) -> String {
    let percent = (u128::from(done) * 100).checked_div(u128::from(total)).unwrap_or(100);
    let speed = done.saturating_sub(began_at) as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = if speed > 0.0 {
        format!("{} left", duration(total.saturating_sub(done) as f64 / speed))
    } else {
        "time left unknown".to_owned()
    };
    format!("{label}: {percent}%, {} of {}, {}/s, {left}", size(done), size(total), size(speed as u64))
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..=89 => format!("{seconds} s"),
        90..=5399 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Bytes for people, e.g. `291.2 MiB`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        const MIB: u64 = 1 << 20;
        let ten = Duration::from_secs(10);
        assert_eq!(
            line("maf2", 305_388_316, 0, 123 * MIB, ten),
            "maf2: 42%, 123.0 MiB of 291.2 MiB, 12.3 MiB/s, 14 s left"
        );
        // What an earlier run received does not make this one fast.
        assert_eq!(
            line("maf2", 305_388_316, 100 * MIB, 101 * MIB, ten),
            "maf2: 34%, 101.0 MiB of 291.2 MiB, 102.4 KiB/s, 32 min left"
        );
        assert_eq!(line("x", 2000, 0, 0, ten), "x: 0%, 0 bytes of 2.0 KiB, 0 bytes/s, time left unknown");
        assert_eq!(line("x", 0, 0, 0, ten), "x: 100%, 0 bytes of 0 bytes, 0 bytes/s, time left unknown");
    }

    #[test]
    fn durations_have_two_digits_at_most() {
        assert_eq!(
            [3.2, 89.0, 90.0, 5000.0, 9000.0].map(duration),
            ["4 s", "89 s", "2 min", "84 min", "2 h 30 min"]
        );
    }
}
