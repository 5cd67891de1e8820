//! The load to offer, and the list of arrivals that offers it.

use anyhow::{Result, bail, ensure};

/// Longest list made. At 8 bytes a time and another 8 a gap this is 320 MB; the largest planned has 10^5.
const MAX_REQUESTS: f64 = 2e7;

/// A load to offer to one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Mean latency of the model alone on the device, requests back to back, in nanoseconds (S).
    pub solo_mean_ns: u64,
    /// Offered utilisation: arrival rate times S. Above 0, at most 2.
    pub load: f64,
    /// Length of the run in nanoseconds.
    pub span_ns: u64,
    pub seed: u64,
}

impl Target {
    /// # Errors
    /// If a field is out of its range, or the list would have more than 2 * 10^7 requests.
    pub fn validate(&self) -> Result<()> {
        let Target { solo_mean_ns, load, span_ns, seed: _ } = *self;
        ensure!(load > 0.0 && load <= 2.0, "load must be above 0 and at most 2, but is {load}");
        ensure!(solo_mean_ns > 0, "solo_mean_ns must be above 0");
        ensure!(span_ns > 0, "span_ns must be above 0");
        let requests = self.requests_unrounded();
        ensure!(
            requests <= MAX_REQUESTS,
            "{requests:.0} requests in the span are more than {MAX_REQUESTS:.0}"
        );
        Ok(())
    }

    /// N = floor(span / S * load), the requests that make the load over the span (tally-bench's formula, evaluated
    /// in its order).
    pub fn requests(&self) -> u64 {
        // `floor` is exact on every platform, as are the operations before it.
        self.requests_unrounded().floor() as u64
    }

    fn requests_unrounded(&self) -> f64 {
        self.span_ns as f64 / self.solo_mean_ns as f64 * self.load
    }
}

/// Planned arrivals of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Nanoseconds from the beginning of the run, ascending, at most [`Arrivals::span_ns`]. Equal times are two
    /// requests.
    pub times_ns: Vec<u64>,
    /// Time over which the target rate holds. The target's span, except where a trace has too few arrivals to fill
    /// it and was only scaled in time: then less.
    pub span_ns: u64,
    /// Short name of the traffic, for tables and figures.
    pub label: String,
    /// All that determines the list, its own checksum included, one `key=value` per line. Free of paths and dates:
    /// equal lists from equal data have equal text on every machine.
    pub digest_input: String,
    /// How the list came about, for people: rows read and left out, function, branch taken, burstiness.
    pub note: String,
}

impl Arrivals {
    /// Checks that a list can be replayed within a span: not empty, ascending (equal neighbours are allowed), and
    /// nothing beyond the span. Stamps from another clock (since 1970, or of another unit) would otherwise make a
    /// run in which no request ever is due.
    pub fn check(times_ns: &[u64], span_ns: u64) -> Result<()> {
        let (Some(&first), Some(&last)) = (times_ns.first(), times_ns.last()) else {
            bail!("the list of arrivals is empty");
        };
        if let Some(i) = times_ns.windows(2).position(|pair| pair[0] > pair[1]) {
            bail!(
                "arrival {} at {} ns comes before arrival {i} at {} ns",
                i + 1,
                times_ns[i + 1],
                times_ns[i]
            );
        }
        ensure!(
            first <= span_ns,
            "all {} arrivals (from {first} ns) lie beyond the span of {span_ns} ns: they are on another clock or in \
             another unit",
            times_ns.len()
        );
        ensure!(last <= span_ns, "the last arrival, at {last} ns, lies beyond the span of {span_ns} ns");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { solo_mean_ns: 4_050_000, load: 0.5, span_ns: 300_000_000_000, seed: 1 };

    #[test]
    fn requests_as_upstream_has_them() {
        assert_eq!(TARGET.requests(), 37_037);
        assert_eq!(Target { solo_mean_ns: 1_963_900_000, ..TARGET }.requests(), 76);
    }

    #[test]
    fn ranges() {
        assert!(TARGET.validate().is_ok());
        assert!(Target { load: 2.0, ..TARGET }.validate().is_ok());
        for load in [0.0, -0.5, 2.1, f64::NAN, f64::INFINITY] {
            assert!(Target { load, ..TARGET }.validate().is_err(), "{load}");
        }
        assert!(Target { solo_mean_ns: 0, ..TARGET }.validate().is_err());
        assert!(Target { span_ns: 0, ..TARGET }.validate().is_err());
        assert!(Target { solo_mean_ns: 1, ..TARGET }.validate().is_err());
    }

    #[test]
    fn lists_that_can_not_be_replayed_are_refused() {
        let refused = |times: &[u64]| Arrivals::check(times, 300_000_000_000).unwrap_err().to_string();
        let epoch = 1_700_000_000_000_000_000;
        assert!(refused(&[epoch, epoch + 1_000_000_000]).contains("another clock"));
        assert!(refused(&[]).contains("empty"));
        assert_eq!(refused(&[1, 5, 4]), "arrival 2 at 4 ns comes before arrival 1 at 5 ns");
        assert!(refused(&[0, 300_000_000_001]).contains("beyond the span"));
        assert!(Arrivals::check(&[0, 7, 7, 300_000_000_000], 300_000_000_000).is_ok());
    }
}
