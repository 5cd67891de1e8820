//! The moving-block bootstrap (Kuensch, Annals of Statistics 17(3), 1989): what a series of blocks of neighbours amounts to.
//!
//! A replicate is never written out: its mean comes from running sums, and its 99th percentile from a walk over the largest
//! values, which counts how often each was drawn. Tables have hundreds of cells with 100,000 values and 1,000 replicates
//! each.

/// Values in their order, prepared for drawing blocks of them.
pub struct Series<'a> {
    values: &'a [u64],
    block: usize,
    /// `sums[i]` is the sum of the first `i` values.
    sums: Vec<u64>,
    /// The largest value first.
    largest: Vec<Place>,
}

/// A value and where it stands.
struct Place {
    value: u64,
    at: usize,
    /// `at` in block lengths.
    stretch: usize,
}

/// One replicate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    pub mean: f64,
    /// The order statistics around position 0.99 (n - 1), and how far that lies from the first to the second.
    pub below: u64,
    pub above: u64,
    pub weight: f64,
}

impl<'a> Series<'a> {
    /// Blocks have the square root of all values. `None` for no values.
    pub fn new(values: &'a [u64]) -> Option<Series<'a>> {
        if values.is_empty() {
            return None;
        }
        let n = values.len();
        let block = (libm::ceil(libm::sqrt(n as f64)) as usize).min(n);
        let mut sums = vec![0];
        for value in values {
            sums.push(sums[sums.len() - 1] + value);
        }
        let place = |(at, &value)| Place { value, at, stretch: at / block };
        let mut largest: Vec<Place> = values.iter().enumerate().map(place).collect();
        largest.sort_unstable_by(|a, b| b.value.cmp(&a.value).then(a.at.cmp(&b.at)));
        Some(Series { values, block, sums, largest })
    }

    /// Blocks of a replicate.
    pub fn blocks(&self) -> usize {
        self.values.len().div_ceil(self.block)
    }

    /// Places that a block may begin at.
    pub fn places(&self) -> usize {
        self.values.len() - self.block + 1
    }

    /// The replicate of the blocks that begin at these places, which it sorts.
    pub fn drawn(&self, starts: &mut [usize]) -> Drawn {
        starts.sort_unstable();
        let block = self.block;
        let n = starts.len() * block;
        let total: u64 = starts.iter().map(|start| self.sums[start + block] - self.sums[*start]).sum();
        // The starts before each multiple of the block's length: those that reach a value are in two such stretches.
        let mut before = vec![0; self.values.len() / block + 3];
        for start in starts.iter() {
            before[start / block + 1] += 1;
        }
        for i in 1..before.len() {
            before[i] += before[i - 1];
        }
        let times = |place: &Place| {
            let near = &starts[before[place.stretch.saturating_sub(1)]..before[place.stretch + 1]];
            near.iter().filter(|start| **start <= place.at && place.at < **start + block).count()
        };
        let position = 0.99 * (n - 1) as f64;
        let below = position as usize;
        // Ranks from above, the largest being 0.
        let ranks = [n - 1 - (below + 1).min(n - 1), n - 1 - below];
        let mut found = [0, 0];
        let (mut seen, mut next) = (0, 0);
        for place in &self.largest {
            seen += times(place);
            while next < 2 && seen > ranks[next] {
                found[next] = place.value;
                next += 1;
            }
            if next == 2 {
                break;
            }
        }
        let [above, below_value] = found;
        Drawn { mean: total as f64 / n as f64, below: below_value, above, weight: position - below as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What writing the replicate out and sorting it gives.
        #[test]
        fn the_short_walk_finds_what_sorting_finds(
            values in prop::collection::vec(0u64..50, 1..300),
            draws in prop::collection::vec(0usize..1_000_000, 20),
        ) {
            let series = Series::new(&values).unwrap();
            let mut starts: Vec<usize> =
                (0..series.blocks()).map(|i| draws[i % draws.len()] % series.places()).collect();
            let mut written: Vec<u64> =
                starts.iter().flat_map(|start| values[*start..start + series.block].to_vec()).collect();
            written.sort_unstable();
            let n = written.len();
            prop_assert!(n >= values.len() && n < values.len() + series.block);
            let position = 0.99 * (n - 1) as f64;
            let below = position as usize;
            let found = series.drawn(&mut starts);
            prop_assert_eq!(found.below, written[below]);
            prop_assert_eq!(found.above, written[(below + 1).min(n - 1)]);
            prop_assert!((found.weight - (position - below as f64)).abs() < 1e-9);
            prop_assert!((found.mean - written.iter().sum::<u64>() as f64 / n as f64).abs() < 1e-9);
        }
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(Series::new(&[]).is_none());
        let one = Series::new(&[7]).unwrap();
        assert_eq!(one.drawn(&mut [0]), Drawn { mean: 7.0, below: 7, above: 7, weight: 0.0 });
    }
}
