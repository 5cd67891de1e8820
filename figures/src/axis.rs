//! Value axes: scale, ticks and tick labels.

use crate::style::number;

/// How values map to heights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// From 0 to `max`.
    Linear { max: f64, step: f64 },
    /// From `lo` to `hi`, both > 0.
    Log { lo: f64, hi: f64 },
}

/// Above this ratio of largest to smallest value a linear axis hides the small bars.
const LOG_FROM_RATIO: f64 = 8.0;

impl Scale {
    /// A linear axis from 0 with 3 to 7 round steps. `head` is the share of its length, 0 to below 1, that
    /// stays free above `max`.
    pub fn linear(max: f64, head: f64) -> Scale {
        let max = if max > 0.0 { max / (1.0 - head) } else { 1.0 };
        let raw = max / 7.0;
        let decade = libm::pow(10.0, libm::floor(libm::log10(raw)));
        let step =
            [1.0, 2.0, 5.0, 10.0].iter().map(|m| m * decade).find(|s| *s >= raw).unwrap_or(decade * 10.0);
        Scale::Linear { max, step }
    }

    /// A logarithmic axis that holds `min` to `max`, with `head` as in [`Scale::linear`]. Bars have no
    /// natural foot on it, so it starts at the round number (1, 2 or 5 times a power of ten) below 0.8 times
    /// the smallest value.
    pub fn log(min: f64, max: f64, head: f64) -> Scale {
        let lo = round_numbers(min / 100.0, min * 0.8).last().copied().unwrap_or(min / 2.0);
        Scale::Log { lo, hi: lo * libm::pow(max / lo, 1.0 / (1.0 - head)) }
    }

    /// Logarithmic if the values need it.
    pub fn wants_log(min: f64, max: f64) -> bool {
        max / min > LOG_FROM_RATIO
    }

    /// Height of a value as a share of the axis, 0 to 1.
    pub fn share(&self, value: f64) -> f64 {
        match *self {
            Scale::Linear { max, .. } => value / max,
            Scale::Log { lo, hi } => libm::log(value / lo) / libm::log(hi / lo),
        }
        .clamp(0.0, 1.0)
    }

    /// Where the axis begins.
    pub fn lowest(&self) -> f64 {
        match *self {
            Scale::Log { lo, .. } => lo,
            Scale::Linear { .. } => 0.0,
        }
    }

    /// Values with a grid line, and their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        match *self {
            Scale::Linear { max, step } => {
                let decimals = (-libm::floor(libm::log10(step))).max(0.0) as usize;
                let n = libm::floor(max / step) as usize;
                (0..=n).map(|i| i as f64 * step).map(|v| (v, number(v, decimals))).collect()
            }
            Scale::Log { lo, hi } => {
                let mut values = round_numbers(lo, hi);
                if values.len() > 8 {
                    values.retain(|v| is_power_of_ten(*v));
                }
                values.into_iter().map(|v| (v, number(v, decimals_of(v)))).collect()
            }
        }
    }
}

fn decimals_of(value: f64) -> usize {
    if value >= 1.0 { 0 } else { (-libm::floor(libm::log10(value) + 1e-9)) as usize }
}

fn is_power_of_ten(value: f64) -> bool {
    let exponent = libm::log10(value);
    (exponent - exponent.round()).abs() < 1e-9
}

/// 1, 2 and 5 times powers of ten from `lo` to `hi`.
fn round_numbers(lo: f64, hi: f64) -> Vec<f64> {
    let (first, last) = (libm::floor(libm::log10(lo)) as i32, libm::ceil(libm::log10(hi)) as i32);
    (first..=last)
        .flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * libm::pow(10.0, f64::from(e))))
        .filter(|v| *v >= lo * (1.0 - 1e-12) && *v <= hi * (1.0 + 1e-12))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Scale::linear(1.74, 0.0)), ["0.0", "0.5", "1.0", "1.5"]);
        assert_eq!(labels(Scale::linear(1.74, 0.2)), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(labels(Scale::linear(7100.0, 0.0)), ["0", "2,000", "4,000", "6,000"]);
        assert_eq!(labels(Scale::log(4.098, 48.0, 0.0)), ["2", "5", "10", "20"]);
        assert_eq!(labels(Scale::log(4.098, 48.0, 0.1)), ["2", "5", "10", "20", "50"]);
        assert_eq!(labels(Scale::log(0.03, 0.3, 0.0)), ["0.02", "0.05", "0.1", "0.2"]);
        let wide = Scale::log(4.0, 173_864.0, 0.0);
        assert_eq!(labels(wide), ["10", "100", "1,000", "10,000", "100,000"]);
    }

    #[test]
    fn shares_follow_the_scale() {
        let linear = Scale::Linear { max: 2.0, step: 0.5 };
        assert_eq!(linear.share(1.0), 0.5);
        let log = Scale::Log { lo: 1.0, hi: 100.0 };
        assert!((log.share(10.0) - 0.5).abs() < 1e-12);
        assert_eq!(log.share(0.5), 0.0);
        // A head of a quarter leaves the largest value at three quarters.
        assert!((Scale::linear(3.0, 0.25).share(3.0) - 0.75).abs() < 1e-12);
        assert!((Scale::log(4.0, 50.0, 0.25).share(50.0) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn wide_ranges_get_a_logarithmic_axis() {
        assert!(Scale::wants_log(4.0, 48.0));
        assert!(!Scale::wants_log(2000.0, 7000.0));
    }
}
