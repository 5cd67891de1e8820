//! How patient a fetch is, and what it may use of its surroundings. Tests shorten and replace these.

use std::ffi::OsString;
use std::time::Duration;

/// See the fields.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Attempts at one place without a single new byte before the next place is tried.
    pub attempts: u32,
    /// Pause after the first failed attempt; it doubles with each further one.
    pub pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// How long a connection may take, and how long it may be silent.
    pub silence: Duration,
    /// How long an extractor or git may take.
    pub tool_limit: Duration,
    /// Whether the proxy variables of the environment are honoured.
    pub proxies: bool,
    /// Where tools are looked for, as in `PATH`.
    pub path: OsString,
    /// Whether progress is printed.
    pub progress: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            attempts: 5,
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            tool_limit: Duration::from_secs(900),
            proxies: true,
            path: std::env::var_os("PATH").unwrap_or_default(),
            progress: true,
        }
    }
}

impl Settings {
    /// The pause after this many failures in a row: 1, 2, 4, ... times the first. No jitter: a fetch is one client, and
    /// the same faults should take the same time.
    pub fn pause_after(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        self.pause.saturating_mul(1 << doublings).min(self.longest_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let settings = Settings::default();
        let seconds: Vec<u64> =
            [1, 2, 3, 5, 6, 7, u32::MAX].map(|n| settings.pause_after(n).as_secs()).into();
        assert_eq!(seconds, [1, 2, 4, 16, 30, 30, 30]);
    }
}
