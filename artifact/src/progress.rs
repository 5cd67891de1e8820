//! One line on stderr that says how far a run is: rewritten in a terminal, repeated every few seconds elsewhere.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between lines when stderr is a file.
const PAUSE: Duration = Duration::from_secs(5);

/// Progress of a known number of cells with estimated costs.
pub struct Progress {
    total: usize,
    terminal: bool,
    state: Mutex<State>,
}

struct State {
    done: usize,
    stored: usize,
    /// Estimated costs, in any unit.
    cost_left: f64,
    cost_done: f64,
    began: Instant,
    spoke: Option<Instant>,
}

impl Progress {
    /// For `total` cells of together `cost`.
    pub fn new(total: usize, cost: f64) -> Progress {
        let now = Instant::now();
        let state = State { done: 0, stored: 0, cost_left: cost, cost_done: 0.0, began: now, spoke: None };
        Progress { total, terminal: stderr().is_terminal(), state: Mutex::new(state) }
    }

    /// A cell is finished; `stored` when it was there already.
    pub fn finish(&self, name: &str, cost: f64, stored: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        state.cost_left -= cost;
        if stored {
            state.stored += 1;
        } else {
            state.cost_done += cost;
        }
        let now = Instant::now();
        let last = state.done == self.total;
        let due = self.terminal || last || state.spoke.unwrap_or(state.began) + PAUSE <= now;
        if !due {
            return;
        }
        state.spoke = Some(now);
        let elapsed = (now - state.began).as_secs_f64();
        let left = match state.cost_done {
            done if done > 0.0 && !last => {
                format!(", about {} left", time(elapsed * state.cost_left.max(0.0) / done))
            }
            _ => String::new(),
        };
        let (done, total, stored, elapsed) = (state.done, self.total, state.stored, time(elapsed));
        let line = format!("{done} of {total} cells done ({stored} were stored), {elapsed}{left}: {name}");
        let mut out = stderr().lock();
        // Progress that cannot be shown is no reason to stop.
        let _ = if self.terminal {
            write!(out, "\r\x1b[K{line}{}", if last { "\n" } else { "" })
        } else {
            writeln!(out, "{line}")
        };
        let _ = out.flush();
    }

    /// A message that stays.
    pub fn note(&self, text: &str) {
        let _state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(stderr().lock(), "{clear}{text}");
    }
}

/// Seconds for people.
pub fn time(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        assert_eq!(
            (time(0.4), time(59.6), time(125.0)),
            ("0 s".into(), "1 min 00 s".into(), "2 min 05 s".into())
        );
    }
}
