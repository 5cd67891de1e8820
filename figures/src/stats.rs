//! Means, medians and ratios: pure functions, checked against hand-computed values.
//!
//! Logarithms and exponentials come from `libm` in Rust, so the last bit is the same on every platform.

/// Arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Median: the middle value, or the mean of the two middle ones; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// Geometric mean of overheads: `exp(mean(ln(1 + o))) - 1`, that is of the ratios p99 / baseline, minus 1.
///
/// `None` for no values or for an overhead of -1 or less, which no latency can have.
pub fn geometric_overhead(overheads: &[f64]) -> Option<f64> {
    if overheads.iter().any(|o| *o <= -1.0) {
        return None;
    }
    let logs: Vec<f64> = overheads.iter().map(|o| libm::log(1.0 + o)).collect();
    mean(&logs).map(|m| libm::exp(m) - 1.0)
}

/// Smallest and largest value; `None` for no values.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let min = values.iter().copied().min_by(f64::total_cmp)?;
    let max = values.iter().copied().max_by(f64::total_cmp)?;
    Some((min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_computed_values() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(median(&[6.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[6.0, 1.0, 2.0, 3.0]), Some(2.5));
        // Ratios 2 and 8: their geometric mean is 4, an overhead of 3; the arithmetic mean would be 4.
        let geometric = geometric_overhead(&[1.0, 7.0]).unwrap();
        assert!((geometric - 3.0).abs() < 1e-12, "{geometric}");
        assert_eq!(range(&[3.0, -1.0, 2.0]), Some((-1.0, 3.0)));
    }

    #[test]
    fn no_values_give_no_number() {
        assert_eq!(mean(&[]), None);
        assert_eq!(median(&[]), None);
        assert_eq!(geometric_overhead(&[]), None);
        assert_eq!(geometric_overhead(&[-1.0]), None);
        assert_eq!(range(&[]), None);
    }
}
