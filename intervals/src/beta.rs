//! The regularised incomplete beta function, of which the quantiles of Student's distribution and of the binomial's
//! intervals are inverses.

/// Steps of the continued fraction; it converges in about the square root of the larger parameter.
const STEPS: u32 = 500;

/// Halvings: more than a double can tell apart.
const HALVINGS: u32 = 200;

/// `I_x(a, b)` for positive `a` and `b` and `x` from 0 to 1 (NIST Digital Library of Mathematical Functions, 8.17).
pub fn regularised(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly below the mean only (DLMF 8.17.4 turns the rest round).
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - regularised(1.0 - x, b, a);
    }
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log1p(-x) - log_beta);
    front / a / fraction(x, a, b)
}

/// The continued fraction of DLMF 8.17.22 by Lentz's method, without its zeroth numerator.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let coefficient = |step: u32| {
        let m = f64::from(step / 2);
        if step.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    let (mut value, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 1..STEPS {
        let next = coefficient(step);
        d = 1.0 / away_from_zero(1.0 + next * d);
        c = away_from_zero(1.0 + next / c);
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// The `x` at which `I_x(a, b)` is `p`.
pub fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if regularised(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn closed_forms() {
        // I_x(1, b) = 1 - (1 - x)^b, I_x(a, 1) = x^a, and I_x(2, 2) = x^2 (3 - 2 x).
        for x in [0.01, 0.3, 0.5, 0.9] {
            assert!((regularised(x, 1.0, 3.0) - (1.0 - (1.0 - x) * (1.0 - x) * (1.0 - x))).abs() < 1e-14);
            assert!((regularised(x, 2.0, 1.0) - x * x).abs() < 1e-14);
            assert!((regularised(x, 2.0, 2.0) - x * x * (3.0 - 2.0 * x)).abs() < 1e-14);
        }
        assert_eq!((regularised(0.0, 2.0, 3.0), regularised(1.0, 2.0, 3.0)), (0.0, 1.0));
    }

    proptest! {
        /// The sum of the binomial's terms, term by term.
        #[test]
        fn it_is_the_tail_of_a_binomial(n in 1u32..60, k in 1u32..60, percent in 1u32..100) {
            prop_assume!(k <= n);
            let p = f64::from(percent) / 100.0;
            let mut tail = 0.0;
            for i in k..=n {
                let mut term = 1.0;
                for j in 0..i {
                    term *= f64::from(n - j) / f64::from(i - j);
                }
                tail += term * libm::pow(p, f64::from(i)) * libm::pow(1.0 - p, f64::from(n - i));
            }
            let found = regularised(p, f64::from(k), f64::from(n - k + 1));
            prop_assert!((found - tail).abs() < 1e-11, "{found} and {tail}");
        }

        #[test]
        fn the_quantile_is_the_inverse(p in 0.001f64..0.999, a in 0.5f64..40.0, b in 0.5f64..40.0) {
            prop_assert!((regularised(quantile(p, a, b), a, b) - p).abs() < 1e-10);
        }
    }
}
