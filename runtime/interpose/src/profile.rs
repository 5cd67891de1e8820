//! How long the best-effort client's kernels take alone, and how long high-priority work waited for them.
//!
//! The first runs of a kernel are timed with nothing else in flight; the shortest counts, since the first one may load code.
//! What the daemon knows from earlier programs is taken over, and what is new is sent to it.

use protocol::durations::{Duration, Durations};
use protocol::report::Kernel;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Timed runs of a kernel before its duration counts as known.
pub const SAMPLES: u32 = 3;
/// Kernels in a report at most.
const REPORTED: usize = 50;
/// Kernels that are kept at most; a program that generates code without end must not fill the memory.
const KEPT: usize = 100_000;

/// What a launch is, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub name: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes.
    pub shared: u32,
}

#[derive(Debug, Default)]
struct Entry {
    shape: Shape,
    /// Shortest timed run, ns; 0 without any.
    ns: u64,
    samples: u32,
    /// Of `samples`, those of this process.
    new_samples: u32,
    /// The key means the same in other processes.
    lasting: bool,
    launches: u64,
    stops: u64,
    stop_ns: u64,
    stop_most_ns: u64,
}

/// What is to be done with a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Duration alone, ns, if it is known.
    pub duration_ns: Option<u64>,
    /// It should be timed, if nothing else is in flight.
    pub timed: bool,
}

/// All kernels of the process, by key.
#[derive(Debug, Default)]
pub struct Profile {
    known: Mutex<Durations>,
    kernels: Mutex<HashMap<u64, Entry>>,
    /// Time of the oldest sample that nobody has taken, ns; 0 if there is none.
    unsent_since: AtomicU64,
}

impl Profile {
    /// With what is known from earlier programs.
    pub fn new(known: Durations) -> Profile {
        Profile { known: Mutex::new(known), ..Profile::default() }
    }

    fn kernels(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a launch. `lasting` says that the key means the same in other processes; a duration that is not lasting is
    /// measured all the same. `estimate_ns` replaces measuring.
    pub fn launch(
        &self,
        key: u64,
        lasting: bool,
        estimate_ns: Option<u64>,
        shape: impl FnOnce() -> Shape,
    ) -> Plan {
        let mut kernels = self.kernels();
        if kernels.len() >= KEPT && !kernels.contains_key(&key) {
            return Plan { duration_ns: estimate_ns, timed: false };
        }
        let entry = kernels.entry(key).or_insert_with(|| {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).0.get(&key).cloned();
            let (ns, samples) = match estimate_ns {
                Some(ns) => (ns, SAMPLES),
                None => known.filter(|_| lasting).map_or((0, 0), |known| (known.ns, known.samples)),
            };
            Entry {
                shape: shape(),
                ns,
                samples,
                lasting: lasting && estimate_ns.is_none(),
                ..Entry::default()
            }
        });
        entry.launches += 1;
        let is_known = entry.samples >= SAMPLES;
        Plan { duration_ns: is_known.then_some(entry.ns), timed: !is_known }
    }

    /// A timed run with nothing else in flight took so long; seen at `now`.
    pub fn sample(&self, key: u64, ns: u64, now: u64) {
        if let Some(entry) = self.kernels().get_mut(&key) {
            entry.ns = if entry.samples == 0 { ns } else { entry.ns.min(ns) };
            entry.samples += 1;
            entry.new_samples += 1;
            let _ = self.unsent_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// High-priority work became active while it ran, and it went on for so long.
    pub fn stop(&self, key: u64, ns: u64) {
        if let Some(entry) = self.kernels().get_mut(&key) {
            entry.stops += 1;
            entry.stop_ns += ns;
            entry.stop_most_ns = entry.stop_most_ns.max(ns);
        }
    }

    /// What this process has measured since this was asked last, and others can use.
    pub fn take_measured(&self) -> Durations {
        let mut kernels = self.kernels();
        self.unsent_since.store(0, Ordering::Relaxed);
        let is_new = |entry: &Entry| entry.lasting && entry.new_samples > 0 && entry.ns > 0;
        let new = kernels.iter_mut().filter(|(_, entry)| is_new(entry));
        Durations(
            new.map(|(&key, entry)| {
                let Shape { name, grid, block, shared } = entry.shape.clone();
                let samples = std::mem::take(&mut entry.new_samples);
                (key, Duration { ns: entry.ns, samples, name, grid, block, shared })
            })
            .collect(),
        )
    }

    /// Whether something was measured more than `age_ns` ago and nobody has taken it; says so to one caller.
    pub fn is_due(&self, age_ns: u64, now: impl FnOnce() -> u64) -> bool {
        let since = self.unsent_since.load(Ordering::Relaxed);
        since != 0
            && now().saturating_sub(since) > age_ns
            && self.unsent_since.compare_exchange(since, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The kernels that high-priority work waited for, longest total first, then others by launches.
    pub fn report(&self) -> Vec<Kernel> {
        let kernels = self.kernels();
        let mut rows: Vec<(&u64, &Entry)> = kernels.iter().collect();
        rows.sort_unstable_by_key(|(key, entry)| (std::cmp::Reverse((entry.stop_ns, entry.launches)), **key));
        rows.truncate(REPORTED);
        rows.into_iter()
            .map(|(_, entry)| Kernel {
                name: entry.shape.name.clone(),
                grid: entry.shape.grid,
                block: entry.shape.block,
                shared: entry.shape.shared,
                duration_ns: (entry.samples > 0 && entry.ns > 0).then_some(entry.ns),
                launches: entry.launches,
                stops: entry.stops,
                stop_ns: entry.stop_ns,
                stop_most_ns: entry.stop_most_ns,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn shape() -> Shape {
        Shape { name: "k".to_owned(), grid: [4, 1, 1], block: [32, 1, 1], shared: 0 }
    }

    fn known(ns: u64, samples: u32) -> Durations {
        let Shape { name, grid, block, shared } = shape();
        Durations(BTreeMap::from([(1, Duration { ns, samples, name, grid, block, shared })]))
    }

    #[test]
    fn the_shortest_of_three_runs_counts() {
        let profile = Profile::default();
        for ns in [900, 300, 400] {
            assert_eq!(profile.launch(1, true, None, shape), Plan { duration_ns: None, timed: true });
            profile.sample(1, ns, 1);
        }
        assert_eq!(profile.launch(1, true, None, shape), Plan { duration_ns: Some(300), timed: false });
        assert_eq!(profile.take_measured(), known(300, 3));
    }

    #[test]
    fn what_was_measured_is_taken_once() {
        let profile = Profile::default();
        profile.launch(1, true, None, shape);
        assert!(!profile.is_due(0, || 100), "nothing was measured");
        profile.sample(1, 300, 50);
        assert!(!profile.is_due(50, || 100));
        assert!(profile.is_due(50, || 101) && !profile.is_due(50, || 101), "said to one caller");
        assert_eq!(profile.take_measured(), known(300, 1));
        assert_eq!(profile.take_measured(), Durations::default());
        profile.sample(1, 200, 60);
        assert_eq!(profile.take_measured(), known(200, 1));
        assert!(!profile.is_due(0, || 100));
    }

    #[test]
    fn what_the_daemon_knows_is_not_measured_again() {
        let profile = Profile::new(known(250, 3));
        assert_eq!(profile.launch(1, true, None, shape).duration_ns, Some(250));
        assert_eq!(profile.take_measured(), Durations::default());
        let unsure = Profile::new(known(250, 2));
        assert_eq!(unsure.launch(1, true, None, shape).duration_ns, None);
        unsure.sample(1, 270, 1);
        assert_eq!(unsure.launch(1, true, None, shape).duration_ns, Some(250));
        assert_eq!(unsure.take_measured(), known(250, 1));
        let passing = Profile::new(known(250, 3));
        assert_eq!(passing.launch(1, false, None, shape).duration_ns, None, "another process's handle");
    }

    #[test]
    fn estimates_are_no_measurements() {
        let profile = Profile::default();
        assert_eq!(profile.launch(1, true, Some(77), shape), Plan { duration_ns: Some(77), timed: false });
        assert_eq!(profile.take_measured(), Durations::default());
    }

    #[test]
    fn the_longest_stops_come_first() {
        let profile = Profile::default();
        for (key, stops) in [(1, &[10][..]), (2, &[7, 8][..]), (3, &[][..])] {
            profile.launch(key, true, None, shape);
            stops.iter().for_each(|&ns| profile.stop(key, ns));
        }
        let rows = profile.report();
        let stops: Vec<_> = rows.iter().map(|k| (k.stops, k.stop_ns, k.stop_most_ns)).collect();
        assert_eq!(stops, [(2, 15, 8), (1, 10, 10), (0, 0, 0)]);
        assert_eq!(rows[0].duration_ns, None);
    }
}
