//! What a workload's program writes with `--out`, as the times of a cell.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sim::{Progress, Request};
use std::path::Path;

/// The part of a result that cells are made of; workloads/common/harness.py writes it. The rest of the file sums it up.
#[derive(Clone, Debug, Deserialize)]
pub struct Timed {
    /// On the system's monotonic clock, ns.
    pub begin_ns: i64,
    pub elapsed_ns: u64,
    /// From `begin_ns`: when each request or iteration began.
    starts_ns: Vec<u64>,
    /// How long each took.
    samples_ns: Vec<u64>,
}

impl Timed {
    /// Reads a result.
    ///
    /// # Errors
    /// The file is not there or is not as expected.
    pub fn read(path: &Path) -> Result<Timed> {
        let bytes = bounded::bytes(path, bounded::SAMPLES).context("the program has left no result")?;
        let timed: Timed =
            serde_json::from_slice(&bytes).context("the program's result is not as expected")?;
        ensure!(
            timed.starts_ns.len() == timed.samples_ns.len(),
            "the program's result has {} starts and {} samples",
            timed.starts_ns.len(),
            timed.samples_ns.len()
        );
        Ok(timed)
    }

    fn spans(&self) -> impl Iterator<Item = (u64, u64)> {
        self.starts_ns.iter().zip(&self.samples_ns).map(|(start, sample)| (*start, start + sample))
    }

    /// Requests of a closed loop: each arrives when the one before it has ended.
    pub fn closed_loop(&self) -> Vec<Request> {
        self.spans().map(|(start_ns, end_ns)| Request { arrival_ns: start_ns, start_ns, end_ns }).collect()
    }

    /// Requests with planned arrivals, on the clock that began at `zero_ns`. The first request is the program's own, at
    /// time zero, and is in no plan.
    ///
    /// # Errors
    /// More requests than were planned, or one that began before it arrived.
    pub fn paced(&self, arrivals_ns: &[u64], zero_ns: i64) -> Result<Vec<Request>> {
        let served = self.samples_ns.len().saturating_sub(1);
        ensure!(
            served <= arrivals_ns.len(),
            "the program served {served} requests of {} planned ones",
            arrivals_ns.len()
        );
        let shift = |time: u64| time.saturating_add_signed(self.begin_ns - zero_ns);
        let request = |((start, end), arrival): ((u64, u64), &u64)| {
            // The program reads arrivals as seconds, which may round to the nanosecond before.
            ensure!(start + 1 >= *arrival, "a request planned for {arrival} ns began at {start} ns");
            Ok(Request { arrival_ns: shift(start.min(*arrival)), start_ns: shift(start), end_ns: shift(end) })
        };
        self.spans().skip(1).zip(arrivals_ns).map(request).collect()
    }

    /// Iterations within a window of the monotonic clock that begins at `zero_ns`: those that its ends cut count for the
    /// share of their time that lies in it.
    ///
    /// # Errors
    /// The job had ended before the window did.
    pub fn progress(&self, zero_ns: i64, window_ns: u64) -> Result<Progress> {
        let (shift, window) = (self.begin_ns - zero_ns, window_ns as i64);
        let last = shift + self.elapsed_ns as i64;
        ensure!(
            last >= window,
            "the training ended {:.1} s before the server, which had the device to itself then",
            (window - last) as f64 / 1e9
        );
        let share = |(start, end): (u64, u64)| {
            let (start, end) = (start as i64 + shift, end as i64 + shift);
            let inside = (end.min(window) - start.max(0)).max(0);
            if end > start { inside as f64 / (end - start) as f64 } else { 0.0 }
        };
        let done: f64 = self.spans().map(share).sum();
        Ok(Progress { iterations: done as u64, partial: done.fract(), elapsed_ns: window_ns })
    }

    /// When iterations ended that did so in the window.
    pub fn ends(&self, zero_ns: i64, window_ns: u64) -> Vec<u64> {
        let ends = self.spans().map(|(_, end)| end as i64 + self.begin_ns - zero_ns);
        ends.filter_map(|end| u64::try_from(end).ok()).filter(|end| *end <= window_ns).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn timed(begin_ns: i64, elapsed_ns: u64, spans: &[(u64, u64)]) -> Timed {
        Timed {
            begin_ns,
            elapsed_ns,
            starts_ns: spans.iter().map(|span| span.0).collect(),
            samples_ns: spans.iter().map(|span| span.1).collect(),
        }
    }

    #[test]
    fn iterations_that_the_window_cuts_count_in_part() {
        // The server's clock begins 5 ms after the training's and ends at 30 ms: of iterations of 10 ms each, the first
        // counts half, the next two whole, the fourth half.
        let spans: Vec<(u64, u64)> = (0..5).map(|k| (k * 10 * MS, 10 * MS)).collect();
        let training = timed(1_000_000_000, 50 * MS, &spans);
        let progress = training.progress(1_005_000_000, 30 * MS).unwrap();
        assert_eq!((progress.iterations, progress.elapsed_ns), (3, 30 * MS));
        assert!(progress.partial.abs() < 1e-9, "{progress:?}");
        assert_eq!(training.ends(1_005_000_000, 30 * MS), [5 * MS, 15 * MS, 25 * MS]);
        // Alone the window is its own time.
        let alone = training.progress(1_000_000_000, 50 * MS).unwrap();
        assert_eq!((alone.iterations, alone.partial), (5, 0.0));
        let error = training.progress(1_000_000_000, 1_050 * MS).unwrap_err();
        assert!(error.to_string().contains("ended 1.0 s before"), "{error}");
    }

    #[test]
    fn the_first_request_is_in_no_plan() {
        let served = timed(7, 40 * MS, &[(0, MS), (4 * MS - 1, 2 * MS), (6 * MS, MS)]);
        let requests = served.paced(&[4 * MS, 5 * MS, 50 * MS], 7).unwrap();
        let times: Vec<(u64, u64, u64)> =
            requests.iter().map(|r| (r.arrival_ns, r.start_ns, r.end_ns)).collect();
        assert_eq!(times, [(4 * MS - 1, 4 * MS - 1, 6 * MS - 1), (5 * MS, 6 * MS, 7 * MS)]);
        // On the clock of a server that began 3 ns later.
        assert_eq!(served.paced(&[4 * MS, 5 * MS], 10).unwrap()[1].start_ns, 6 * MS - 3);
        assert!(served.paced(&[4 * MS], 7).is_err());
        assert!(served.paced(&[4 * MS, 7 * MS], 7).unwrap_err().to_string().contains("planned for 7000000"));
        assert_eq!(
            timed(0, MS, &[(3, 4)]).closed_loop()[0],
            Request { arrival_ns: 3, start_ns: 3, end_ns: 7 }
        );
    }
}
