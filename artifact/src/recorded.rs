//! What the recorded profiles say without any simulation: how long kernels are, and how long one waits for the device when
//! a training job may be stopped after an iteration, after a kernel, or after a round of thread blocks.
//!
//! A request that arrives at a uniformly random time meets a piece of work with a probability in proportion to the piece's
//! length X, and then waits for what is left of it, which is uniform on `0..X`. With X the length of a piece picked at
//! random, the wait R has the mean E[X^2] / (2 E[X]) and the tail P(R > r) = E[max(X - r, 0)] / E[X] (the residual life of a
//! renewal process; e.g. Ross, Stochastic Processes, section 3.4).

use crate::experiment::Classes;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sim::program::QUANTILE_PERMILLE;
use sim::{Kind, Launch, Machine, Program};
use workloads::profile::Profile;

/// What follows the experiment's id in the names of the files.
pub const DURATIONS: &str = "-durations";
pub const TURNAROUND: &str = "-turnaround";

/// One duration class of one job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurationRow {
    pub experiment: String,
    /// Product name of the GPU that it was recorded on.
    pub gpu: String,
    pub training: String,
    /// The class holds kernels longer than this.
    pub lower_ns: Option<u64>,
    /// And at most as long as this; empty for the last class.
    pub upper_ns: Option<u64>,
    /// Kernels of one iteration, as an expected number.
    pub launches: Option<f64>,
    pub launch_share: Option<f64>,
    /// Time of these kernels in one iteration.
    pub time_ns: Option<f64>,
    pub time_share: Option<f64>,
    pub status: String,
    pub error: String,
}

/// One job at one granularity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnaroundRow {
    pub experiment: String,
    pub gpu: String,
    pub training: String,
    /// `iteration`, `kernel`, `block`.
    pub granularity: String,
    /// `recorded`, or `derived` for what the recorder cannot see.
    pub origin: String,
    /// Pieces in one iteration.
    pub pieces: Option<f64>,
    /// Mean length of a piece.
    pub piece_mean_ns: Option<f64>,
    pub turnaround_mean_ns: Option<f64>,
    pub turnaround_p99_ns: Option<f64>,
    /// Empty where the longest piece was not recorded.
    pub turnaround_max_ns: Option<f64>,
    /// Share of the time in which no kernel is on the device.
    pub idle_share: Option<f64>,
    pub status: String,
    pub error: String,
}

/// A part of a distribution of lengths: so many pieces, uniformly between two lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    pieces: f64,
    low: f64,
    high: f64,
}

/// Lengths of the pieces that make up an iteration.
#[derive(Clone, Debug, PartialEq)]
struct Lengths(Vec<Part>);

impl Lengths {
    fn pieces(&self) -> f64 {
        self.0.iter().map(|p| p.pieces).sum()
    }

    /// Sum of all lengths.
    fn total(&self) -> f64 {
        self.0.iter().map(|p| p.pieces * (p.low + p.high) / 2.0).sum()
    }

    /// Mean of the wait: E[X^2] / (2 E[X]).
    fn wait_mean(&self) -> f64 {
        let square = |p: &Part| p.pieces * (p.low * p.low + p.low * p.high + p.high * p.high) / 3.0;
        self.0.iter().map(square).sum::<f64>() / (2.0 * self.total())
    }

    /// Longest wait.
    fn longest(&self) -> f64 {
        self.0.iter().map(|p| p.high).fold(0.0, f64::max)
    }

    /// The wait that a share `q` of all arrivals does not exceed, to a nanosecond.
    fn wait_quantile(&self, q: f64) -> f64 {
        let beyond = |r: f64| {
            let excess = |p: &Part| {
                let (low, high) = (p.low, p.high);
                p.pieces
                    * if r <= low {
                        (low + high) / 2.0 - r
                    } else if r >= high {
                        0.0
                    } else {
                        (high - r) * (high - r) / (2.0 * (high - low))
                    }
            };
            self.0.iter().map(excess).sum::<f64>() / self.total()
        };
        let (mut low, mut high) = (0.0, self.longest());
        while high - low > 0.5 {
            let middle = (low + high) / 2.0;
            if beyond(middle) > 1.0 - q { low = middle } else { high = middle }
        }
        high
    }

    /// Pieces longer than `above` and at most `upto`, and their time.
    fn within(&self, above: f64, upto: f64) -> (f64, f64) {
        let part = |p: &Part| {
            if p.low == p.high {
                let inside = p.low > above && p.low <= upto;
                return if inside { (p.pieces, p.pieces * p.low) } else { (0.0, 0.0) };
            }
            let (from, to) = (p.low.max(above), p.high.min(upto));
            let pieces = p.pieces * (to - from).max(0.0) / (p.high - p.low);
            (pieces, pieces * (from + to) / 2.0)
        };
        self.0.iter().map(part).fold((0.0, 0.0), |sum, (pieces, time)| (sum.0 + pieces, sum.1 + time))
    }
}

/// Kernels, each cut into `cuts` equal pieces. Between the recorded quantiles of a launch its duration is taken as uniform,
/// as the simulator draws it. Copies occupy no multiprocessor and are left out.
fn kernels(program: &Program, cuts: impl Fn(&Launch) -> Result<u64>) -> Result<Lengths> {
    let mut parts = Vec::new();
    for segment in &program.segments {
        for launch in segment.launches.iter().filter(|launch| launch.kind == Kind::Kernel) {
            let cuts = cuts(launch)? as f64;
            for (k, pair) in QUANTILE_PERMILLE.windows(2).enumerate() {
                let share = f64::from(pair[1] - pair[0]) / 1000.0;
                let length = |i: usize| f64::from(launch.duration_ns[i]) / cuts;
                let pieces = f64::from(segment.repeat) * share * cuts;
                parts.push(Part { pieces, low: length(k), high: length(k + 1) });
            }
        }
    }
    Ok(Lengths(parts))
}

/// Iterations without a profiler: median, 90th and 99th percentile were recorded. The faster half is taken to lie as far
/// below the median as the slower one lies above it up to the 90th percentile, and the last percent at its beginning.
fn iterations(profile: &Profile) -> Lengths {
    let u = &profile.unprofiled;
    // What waits for its input takes longer than it did when recorded.
    let wait = profile.program.unprofiled_median_ns.saturating_sub(u.median_ns) as f64;
    let [median, p90, p99] = [u.median_ns, u.p90_ns, u.p99_ns].map(|ns| ns as f64 + wait);
    Lengths(vec![
        Part { pieces: 0.5, low: (2.0 * median - p90).max(0.0), high: median },
        Part { pieces: 0.4, low: median, high: p90 },
        Part { pieces: 0.09, low: p90, high: p99 },
        Part { pieces: 0.01, low: p99, high: p99 },
    ])
}

/// The rows of one job; a profile that cannot be read is one row that says so.
pub fn durations(
    experiment: &str,
    id: &str,
    profile: &Result<Profile>,
    classes: &Classes,
) -> Vec<DurationRow> {
    let blank = DurationRow {
        experiment: experiment.to_owned(),
        training: id.to_owned(),
        status: "ok".to_owned(),
        ..DurationRow::default()
    };
    let found = profile.as_ref().map_err(crate::library::one_line);
    let found = found
        .and_then(|p| Ok((p, kernels(&p.program, |_| Ok(1)).map_err(|e| crate::library::one_line(&e))?)));
    let (profile, lengths) = match found {
        Ok(found) => found,
        Err(error) => return vec![DurationRow { status: "failed".to_owned(), error, ..blank }],
    };
    let (all, time) = (lengths.pieces(), lengths.total());
    let mut lower = 0;
    let ends = classes.0.iter().map(|&end| Some(end)).chain([None]);
    ends.map(|upper| {
        let above = if lower == 0 { -1.0 } else { lower as f64 };
        let (pieces, spent) = lengths.within(above, upper.map_or(f64::INFINITY, |end| end as f64));
        let row = DurationRow {
            gpu: profile.gpu.clone(),
            lower_ns: Some(lower),
            upper_ns: upper,
            launches: Some(pieces),
            launch_share: Some(pieces / all),
            time_ns: Some(spent),
            time_share: Some(spent / time),
            ..blank.clone()
        };
        lower = upper.unwrap_or(lower);
        row
    })
    .collect()
}

/// The rows of one job; a profile that cannot be read is one row that says so.
pub fn turnaround(
    experiment: &str,
    id: &str,
    profile: &Result<Profile>,
    machine: &Machine,
) -> Vec<TurnaroundRow> {
    let blank = TurnaroundRow {
        experiment: experiment.to_owned(),
        training: id.to_owned(),
        status: "ok".to_owned(),
        ..TurnaroundRow::default()
    };
    let rows = profile.as_ref().map_err(crate::library::one_line).and_then(|profile| {
        granularities(profile, machine, &blank).map_err(|error| crate::library::one_line(&error))
    });
    rows.unwrap_or_else(|error| vec![TurnaroundRow { status: "failed".to_owned(), error, ..blank }])
}

fn granularities(profile: &Profile, machine: &Machine, blank: &TurnaroundRow) -> Result<Vec<TurnaroundRow>> {
    let program = &profile.program;
    let whole = kernels(program, |_| Ok(1))?;
    let rounds = kernels(program, |launch| {
        let name = program.names.get(launch.name as usize).map_or("", String::as_str);
        launch.waves(machine).with_context(|| format!("kernel `{name}` cannot run on {}", machine.name))
    })?;
    let iterations = iterations(profile);
    let idle = 1.0 - whole.total() / program.unprofiled_mean_ns as f64;
    let rows =
        [("iteration", "recorded", iterations), ("kernel", "recorded", whole), ("block", "derived", rounds)];
    let row = |(granularity, origin, lengths): (&str, &str, Lengths)| TurnaroundRow {
        gpu: profile.gpu.clone(),
        granularity: granularity.to_owned(),
        origin: origin.to_owned(),
        pieces: Some(lengths.pieces()),
        piece_mean_ns: Some(match granularity {
            "iteration" => program.unprofiled_mean_ns as f64,
            _ => lengths.total() / lengths.pieces(),
        }),
        turnaround_mean_ns: Some(lengths.wait_mean()),
        turnaround_p99_ns: Some(lengths.wait_quantile(0.99)),
        // Of iterations the longest was not kept.
        turnaround_max_ns: (granularity != "iteration").then(|| lengths.longest()),
        idle_share: Some(idle.max(0.0)),
        ..blank.clone()
    };
    Ok(rows.into_iter().map(row).collect())
}

/// The canonical text of such a table.
///
/// # Errors
/// None that a caller can cause.
pub fn to_csv<R: Serialize>(rows: &[R]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().context("cannot finish the table")
}

#[cfg(test)]
mod tests;
