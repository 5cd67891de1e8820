//! Upstream's rule for fitting a recorded day to a target load (tally-bench, `bench_utils/trace.py`), on integer
//! nanoseconds and with a seeded permutation where upstream's is unseeded.
//!
//! With n arrivals over D = last - first, a span, and N = floor(span / S * load) for a solo mean latency S:
//! - n > N: N arrivals drawn without replacement, times multiplied by span / D, with the D of all n;
//! - n <= N: all arrivals, times multiplied by (span * n / N) / D: the same mean rate over a shorter time.
//!
//! Then the first is dropped: upstream's server sends its first request at time 0 by itself. Products are 128 bits wide
//! and each time is rounded down once (upstream multiplies floats).

use std::fmt;

use anyhow::{Result, ensure};

use crate::rng::{Use, below, generator};

/// Which case of the rule applied. Counts are before the first arrival is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// More arrivals than needed: `kept` of `available` were drawn.
    Thinned { available: u64, kept: u64 },
    /// Not more arrivals than `wanted`: all `available` were kept, and they cover less than the span.
    Scaled { available: u64, wanted: u64 },
}

impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Branch::Thinned { available, kept } => write!(f, "thinned: {kept} of {available} arrivals drawn"),
            Branch::Scaled { available, wanted } => {
                write!(f, "scaled in time only: all {available} arrivals kept, {wanted} would fill the span")
            }
        }
    }
}

/// Result of [`shape`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shaped {
    /// Ascending, from 0 to `covered_ns`, both possible.
    pub times_ns: Vec<u64>,
    /// Time over which the target rate holds: the span if thinned, span * n / N (rounded down) if scaled.
    pub covered_ns: u64,
    pub branch: Branch,
}

/// Applies the rule to starts in any order; `wanted` is N.
///
/// # Errors
/// If all starts are equal (no time to scale), if fewer than 2 arrivals are there or wanted (the first is dropped, so
/// none would be left), or if a product exceeds 128 bits.
pub fn shape(starts_ns: &[u64], wanted: u64, span_ns: u64, seed: u64) -> Result<Shaped> {
    let available = starts_ns.len() as u64;
    ensure!(available >= 2, "{available} arrivals are too few to fit to a load; at least 2 are needed");
    ensure!(
        wanted >= 2,
        "the span holds {wanted} requests at this load, and upstream's rule drops the first"
    );
    let mut starts = starts_ns.to_vec();
    starts.sort_unstable();
    let (first, last) = (starts[0], starts[starts.len() - 1]);
    ensure!(first < last, "all {available} arrivals are at the same time, so they have no rate");
    let wide = |value: u64| u128::from(value);
    let distance = wide(last - first);

    // A time t is multiplied by numerator / denominator.
    let (branch, numerator, denominator) = if available > wanted {
        starts = draw(starts, wanted as usize, seed);
        (Branch::Thinned { available, kept: wanted }, wide(span_ns), distance)
    } else {
        let branch = Branch::Scaled { available, wanted };
        (branch, wide(span_ns) * wide(available), checked(wide(wanted), distance)?)
    };
    let covered_ns = match branch {
        Branch::Thinned { .. } => span_ns,
        Branch::Scaled { .. } => (numerator / wide(wanted)) as u64,
    };
    let scale = |&start: &u64| Ok((checked(wide(start - first), numerator)? / denominator) as u64);
    let times_ns = starts[1..].iter().map(scale).collect::<Result<_>>()?;
    Ok(Shaped { times_ns, covered_ns, branch })
}

/// `count` of `starts`, each subset being equally likely, ascending: the first part of a Fisher-Yates permutation.
fn draw(mut starts: Vec<u64>, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = generator(seed, Use::Thinning);
    for i in 0..count {
        let rest = (starts.len() - i) as u64;
        starts.swap(i, i + below(&mut rng, rest) as usize);
    }
    starts.truncate(count);
    starts.sort_unstable();
    starts
}

fn checked(a: u128, b: u128) -> Result<u128> {
    let product = a.checked_mul(b);
    product.ok_or_else(|| anyhow::anyhow!("times and span are too long: a product exceeds 128 bits"))
}
