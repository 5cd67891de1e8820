//! Percentiles of samples.

/// Linear interpolation between order statistics at position `q * (n - 1)`, as NumPy does by default.
/// `sorted` must not be empty.
pub fn percentile(sorted: &[u64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let (a, b) = (sorted[below] as f64, sorted[above] as f64);
    let t = position - below as f64;
    // NumPy starts from the nearer end, which decides the last bit.
    if t < 0.5 { a + (b - a) * t } else { b - (b - a) * (1.0 - t) }
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_by_hand() {
        // Position 0.99 * 4 = 3.96: 40 + 0.96 * 10.
        assert_eq!(percentile(&[10, 20, 30, 40, 50], 0.99), 49.6);
        assert_eq!(percentile(&[10, 20, 30, 40, 50], 0.5), 30.0);
        assert_eq!(percentile(&[1, 2], 0.5), 1.5);
        assert_eq!(percentile(&[7], 0.99), 7.0);
        assert_eq!(percentile(&[1, 2, 3, 4], 0.25), 1.75);
    }
}
