//! Random numbers: PCG64 under our own seeding and our own mapping to ranges.
//!
//! Libraries keep the right to change how they map bits to a range or a seed to a state. Here both are written out,
//! from wrapping integer arithmetic, so that a seed means the same list of arrivals on every platform and after every
//! update.

use rand::Rng;
use rand_pcg::Pcg64;

/// What the numbers are for. Each use has its own stream, so that adding one never shifts another.
#[derive(Clone, Copy, Debug)]
pub enum Use {
    Thinning = 1,
    Bootstrap = 2,
    Poisson = 3,
}

/// The generator for a seed and a use.
pub fn generator(seed: u64, usage: Use) -> Pcg64 {
    // Nearby seeds (0, 1, 2 ...) must not give nearby states, so they are mixed first.
    let high = mix(seed ^ mix(usage as u64));
    let low = mix(high.wrapping_add(seed));
    Pcg64::new((u128::from(high) << 64) | u128::from(low), usage as u128)
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Uniform in `0..bound`, without bias (Lemire, ACM TOMACS 29(1), 2019). `bound` must be above 0.
pub fn below(rng: &mut Pcg64, bound: u64) -> u64 {
    debug_assert!(bound > 0);
    let threshold = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        if product as u64 >= threshold {
            return (product >> 64) as u64;
        }
    }
}

/// Uniform in (0, 1], in steps of 2^-53: never 0, so that its logarithm is finite.
pub fn unit(rng: &mut Pcg64) -> f64 {
    // Both factors are exact in f64, and so is the product.
    ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_even() {
        let mut rng = generator(7, Use::Thinning);
        let mut counts = [0u32; 6];
        (0..60_000).for_each(|_| counts[below(&mut rng, 6) as usize] += 1);
        // Five standard deviations of a binomial count are 456.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 456), "{counts:?}");
    }

    #[test]
    fn units_are_in_range_and_centred() {
        let mut rng = generator(7, Use::Poisson);
        let values: Vec<f64> = (0..100_000).map(|_| unit(&mut rng)).collect();
        assert!(values.iter().all(|v| *v > 0.0 && *v <= 1.0));
        let mean = values.iter().sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 5.0 * 0.2887 / 316.0, "{mean}");
    }

    #[test]
    fn seeds_and_uses_differ() {
        let first = |seed, usage| generator(seed, usage).next_u64();
        let all = [
            first(0, Use::Thinning),
            first(1, Use::Thinning),
            first(0, Use::Bootstrap),
            first(0, Use::Poisson),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| b != a), "{all:?}");
        }
    }
}
