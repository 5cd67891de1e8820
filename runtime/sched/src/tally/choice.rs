//! Which form of a best-effort kernel upstream runs: original, sliced, or preemptive persistent blocks.
//!
//! Upstream measures the candidates on real launches; here the caller supplies the measurement.

use crate::Ns;

/// A form in which a kernel may be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Config {
    Original,
    /// So many workers on the device that fetch block after block until told to retreat.
    Persistent {
        workers: u64,
    },
    /// Launches of consecutive parts of the grid.
    Sliced {
        slices: u32,
    },
}

/// What of a launch the choice depends on. As upstream, neither registers nor shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub blocks: u64,
    pub threads: u32,
}

/// The device and the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub sms: u32,
    /// Worker threads per multiprocessor at most: 1536 where a multiprocessor holds 2048 threads.
    pub worker_threads_per_sm: u32,
    /// Turnaround-latency threshold, ns.
    pub threshold_ns: Ns,
}

/// Slowest accepted relative speed in the fall-back.
const LOWEST_SPEED: f64 = 0.1;
/// Speed asked of the forms of a kernel that is shorter than the threshold anyway.
const SHORT_KERNEL_SPEED: f64 = 0.5;
/// Fewest workers, and most blocks per slice, in the fall-back.
const MIN_WORKERS: u64 = 24;
/// The speeds asked for, in turn; upstream's loop loses 0.1 to rounding.
const BARS: [f64; 9] = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2];

/// Forms to try, in upstream's order: most workers first, and for each count of workers slices of the same size.
pub fn candidates(shape: Shape, limits: Limits) -> Vec<Config> {
    let sms = u64::from(limits.sms);
    if shape.blocks <= sms {
        return Vec::new();
    }
    let fits = |w: u32| {
        w * shape.threads <= limits.worker_threads_per_sm
            && (w == 1 || u64::from(w - 1) * sms <= shape.blocks)
    };
    let most = (1..).take_while(|&w| fits(w)).last().unwrap_or(0);
    let mut out = Vec::new();
    for w in (1..=most).rev() {
        let workers = u64::from(w) * sms;
        out.push(Config::Persistent { workers });
        if shape.blocks.div_ceil(workers) > 1 {
            out.push(equal_slices(shape.blocks, shape.blocks.div_ceil(workers)));
        }
    }
    out
}

/// Slices of equal size, as many as it takes: the last of the wished ones can be empty and is left out.
fn equal_slices(blocks: u64, wished: u64) -> Config {
    Config::Sliced { slices: blocks.div_ceil(blocks.div_ceil(wished)) as u32 }
}

/// Sizes, in blocks, of the slices that a grid is cut into; the last one may be smaller.
pub fn slices(blocks: u64, slices: u32) -> impl Iterator<Item = u64> {
    let size = blocks.div_ceil(u64::from(slices.max(1)));
    (0..blocks.div_ceil(size.max(1))).map(move |k| size.min(blocks - k * size))
}

/// Time after which the device is free once a stop was asked for, as upstream estimates it, ns.
fn turnaround(config: Config, duration: Ns, shape: Shape) -> f64 {
    match config {
        Config::Original => duration as f64,
        Config::Persistent { workers } => duration as f64 / shape.blocks.div_ceil(workers) as f64 / 2.0,
        Config::Sliced { slices } => duration as f64 / f64::from(slices),
    }
}

/// Upstream's choice for a kernel, given `measure(form)`: the kernel's duration in that form, ns.
///
/// The first form that is fast enough *and* within the turnaround threshold wins, the demanded speed falling from 1.0 to
/// 0.2. If none is within it, the faster family is restricted until the estimate fits, and taken without further test.
pub fn choose(shape: Shape, limits: Limits, mut measure: impl FnMut(Config) -> Ns) -> Config {
    let original = measure(Config::Original);
    let forms = candidates(shape, limits);
    if forms.is_empty() {
        return Config::Original;
    }
    let measured: Vec<(Config, Ns)> = forms.iter().map(|&form| (form, measure(form).max(1))).collect();
    let speed = |duration: Ns| original as f64 / duration as f64;
    let threshold = limits.threshold_ns as f64;
    let short = original <= limits.threshold_ns;
    for bar in BARS {
        let bar = if short { SHORT_KERNEL_SPEED } else { bar };
        for &(form, duration) in &measured {
            if speed(duration) >= bar && turnaround(form, duration, shape) <= threshold {
                return form;
            }
        }
    }
    if short {
        return Config::Original;
    }
    restrict(shape, limits, original, &measured)
}

/// The fall-back of [`choose`]: fewer workers or more slices than any candidate has.
fn restrict(shape: Shape, limits: Limits, original: Ns, measured: &[(Config, Ns)]) -> Config {
    let last = |persistent: bool| {
        let family = |c: &&(Config, Ns)| matches!(c.0, Config::Persistent { .. }) == persistent;
        measured.iter().rev().find(family).copied()
    };
    let speed = |form: Option<(Config, Ns)>| form.map_or(0.0, |(_, d)| original as f64 / d as f64);
    let (persistent, sliced) = (last(true), last(false));
    if speed(persistent).max(speed(sliced)) < LOWEST_SPEED {
        return Config::Original;
    }
    let threshold = limits.threshold_ns as f64;
    let sms = u64::from(limits.sms);
    if speed(persistent) >= speed(sliced) {
        let (form, duration) = persistent.expect("a speed above zero was measured");
        let share = threshold / turnaround(form, duration, shape);
        let workers = ((share * shape.blocks.min(sms) as f64) as u64).max(MIN_WORKERS);
        if workers >= shape.blocks {
            return Config::Original;
        }
        return Config::Persistent { workers };
    }
    let largest = measured.iter().filter_map(|&(c, _)| match c {
        Config::Sliced { slices } => Some(u64::from(slices)),
        _ => None,
    });
    let wanted = ((1.3 * original as f64 / threshold).ceil() as u64).max(largest.max().unwrap_or(1));
    let slices = wanted.min(shape.blocks.div_ceil(MIN_WORKERS)).min(shape.blocks);
    if slices <= 1 { Config::Original } else { equal_slices(shape.blocks, slices) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { sms: 100, worker_threads_per_sm: 1536, threshold_ns: 31_600 };

    #[test]
    fn candidates_in_upstreams_order() {
        let shape = Shape { blocks: 250, threads: 512 };
        let persistent = |w: u64| Config::Persistent { workers: 100 * w };
        // Three workers of 512 threads fit; slices of 300 blocks would be the whole grid.
        assert_eq!(
            candidates(shape, LIMITS),
            [
                persistent(3),
                persistent(2),
                Config::Sliced { slices: 2 },
                persistent(1),
                Config::Sliced { slices: 3 }
            ]
        );
        assert!(candidates(Shape { blocks: 100, threads: 512 }, LIMITS).is_empty());
    }

    #[test]
    fn slices_cover_the_grid() {
        assert_eq!(slices(250, 3).collect::<Vec<_>>(), [84, 84, 82]);
        assert_eq!(slices(5, 4).collect::<Vec<_>>(), [2, 2, 1]);
    }

    #[test]
    fn the_first_fast_form_within_the_threshold_wins() {
        let shape = Shape { blocks: 10_000, threads: 512 };
        // 1 ms in 34 batches of 3 workers each: 1 ms / 34 / 2 = 14.7 us, within 31.6 us.
        let choice = choose(shape, LIMITS, |c| if c == Config::Original { 1_000_000 } else { 1_050_000 });
        assert_eq!(choice, Config::Persistent { workers: 300 });
    }

    #[test]
    fn long_blocks_fall_back_to_fewer_workers_or_more_slices() {
        let shape = Shape { blocks: 200, threads: 512 };
        let long = 100_000_000;
        let choice =
            choose(shape, LIMITS, |c| if matches!(c, Config::Sliced { .. }) { 2 * long } else { long });
        // 31.6 us of a batch's 25 ms, times 100: below the floor of 24 workers.
        assert_eq!(choice, Config::Persistent { workers: 24 });
        let choice =
            choose(shape, LIMITS, |c| if matches!(c, Config::Persistent { .. }) { 2 * long } else { long });
        // At most ceil(200 / 24) slices.
        assert_eq!(choice, Config::Sliced { slices: 9 });
    }

    #[test]
    fn small_grids_stay_original_however_long() {
        assert_eq!(choose(Shape { blocks: 64, threads: 256 }, LIMITS, |_| 5_000_000), Config::Original);
    }
}
