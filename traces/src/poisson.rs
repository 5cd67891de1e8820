//! Poisson arrivals: independent exponential gaps, by inversion of the distribution function.

use anyhow::Result;

use crate::rng::{Use, generator, unit};
use crate::spread::spread;

/// Steps per mean gap. With 2^32 of them the largest gap possible (-ln 2^-53 = 36.7 means) still leaves room for 10^8
/// gaps in 64 bits.
const STEPS_PER_MEAN: f64 = 4_294_967_296.0;

/// `count` arrivals over the span ([`spread`] says how the gaps are scaled).
pub fn arrivals(count: u64, span_ns: u64, seed: u64) -> Result<Vec<u64>> {
    let mut rng = generator(seed, Use::Poisson);
    // The logarithm is libm's: the platform's own (behind `f64::ln`) may differ in the last bit.
    let gap = |_| (-libm::log(unit(&mut rng)) * STEPS_PER_MEAN) as u64;
    let gaps: Vec<u64> = (0..=count).map(gap).collect();
    spread(&gaps, span_ns)
}
