//! What is known about the real head of the MAF2 trace (`data/PROVENANCE.md`), and that row order doesn't matter.

use std::collections::{BTreeMap, HashMap};

use traces::bootstrap::{BLOCK, gaps};
use traces::maf2::{self, DAY_NS, Trace};
use traces::rng::{Use, below, generator};

const EXCERPT: &str = include_str!("../../data/maf2_first998_rows.csv");
const SAMPLE: &str = include_str!("../../data/maf2_official_sample.csv");
const DERIVATIVE: &str = include_str!("../data/maf2_first500_arrivals_1s.csv");
const SECOND: u64 = 1_000_000_000;

fn read(text: &str) -> Trace {
    maf2::read("excerpt.csv", text.as_bytes()).unwrap()
}

#[test]
fn counts() {
    let trace = read(EXCERPT);
    let report = &trace.report;
    assert_eq!(
        (report.rows, report.kept, report.left_out_before_start, report.exact_repeats),
        (998, 998, 0, 0)
    );
    assert_eq!((report.apps, report.functions, report.bytes), (21, 49, 154_230));
    let text = "998 rows of 49 functions in 21 apps: 998 kept, 0 left out (running when the trace began), 0 exact repeats";
    assert_eq!(report.to_string(), text);
    // Selecting by `func` alone, as upstream does, is the same here.
    let funcs: std::collections::HashSet<_> = trace.functions.iter().map(|f| &f.func).collect();
    assert_eq!(funcs.len(), 49);

    let mut by_rows: Vec<_> = trace.functions.iter().map(|f| (f.rows, &f.app[..8], &f.func[..8])).collect();
    by_rows.sort_unstable();
    assert_eq!(by_rows[48], (174, "7fa05b60", "9bc86d6c"));
    assert_eq!(by_rows[47], (108, "734272c0", "313c03f5"));
    let top = trace.most_frequent().unwrap();
    assert_eq!((&top.app[..8], &top.func[..8]), ("7fa05b60", "9bc86d6c"));
    assert_eq!((top.rows, top.starts_ns.len()), (174, 174));
}

#[test]
fn starts() {
    let starts = read(EXCERPT).all_starts_ns();
    assert_eq!((starts[0], starts[997]), (1_490_900, 6_464_802_797_007));
    assert_eq!(starts.windows(2).filter(|w| w[0] == w[1]).count(), 3);
    // From Python's decimal module.
    assert_eq!(starts.iter().sum::<u64>(), 2_947_814_304_464_866);
    let mut per_minute = [0u32; 21];
    starts
        .iter()
        .filter(|&&s| s < 21 * 60 * SECOND)
        .for_each(|s| per_minute[(s / (60 * SECOND)) as usize] += 1);
    assert_eq!(per_minute, [42, 8, 6, 6, 7, 13, 6, 4, 6, 6, 34, 4, 7, 4, 6, 15, 3, 7, 6, 5, 24]);
    let collisions = |unit_ns: u64| {
        let rounded: Vec<u64> = starts.iter().map(|s| (s + unit_ns / 2) / unit_ns).collect();
        rounded.windows(2).filter(|w| w[0] == w[1]).count()
    };
    assert_eq!((collisions(1_000), collisions(1_000_000)), (3, 153));
}

#[test]
fn rows_are_in_order_of_starts_and_not_of_ends() {
    let records = csv::Reader::from_reader(EXCERPT.as_bytes()).into_records();
    let times = records.map(|record| {
        let seconds = |i: usize| record.as_ref().unwrap()[i].parse::<f64>().unwrap();
        (seconds(2) - seconds(3), seconds(2))
    });
    let times: Vec<(f64, f64)> = times.collect();
    assert_eq!(times.windows(2).filter(|w| w[1].0 < w[0].0 - 1e-9).count(), 0);
    assert_eq!(times.windows(2).filter(|w| w[1].1 < w[0].1).count(), 345);
}

#[test]
fn agrees_with_a_csv_library_in_floating_point() {
    let mut by_function: HashMap<(String, String), Vec<f64>> = HashMap::new();
    let mut zero_durations = 0;
    for record in csv::Reader::from_reader(EXCERPT.as_bytes()).into_records() {
        let record = record.unwrap();
        let seconds = |i: usize| record[i].parse::<f64>().unwrap();
        zero_durations += usize::from(seconds(3) == 0.0);
        by_function.entry((record[0].into(), record[1].into())).or_default().push(seconds(2) - seconds(3));
    }
    assert_eq!(zero_durations, 43);
    for function in read(EXCERPT).functions {
        let mut expected = by_function.remove(&(function.app, function.func)).unwrap();
        expected.sort_by(f64::total_cmp);
        assert_eq!(expected.len(), function.starts_ns.len());
        // A double at 6,500 s has steps of 0.9e-12 s; half a nanosecond is our own rounding.
        let close = |(&ns, s): (&u64, &f64)| (ns as f64 / 1e9 - s).abs() < 0.51e-9;
        assert!(function.starts_ns.iter().zip(&expected).all(close));
    }
    assert!(by_function.is_empty());
}

#[test]
fn official_sample_is_part_of_it() {
    let sample = SAMPLE.strip_prefix("app,func,end_timestamp,duration\n").unwrap();
    let at = EXCERPT.find(sample).expect("the six rows are contiguous in the excerpt");
    assert_eq!(EXCERPT[..at].lines().count(), 816, "header and 815 rows come before");
    assert_eq!(read(SAMPLE).report.kept, 6);
}

#[test]
fn independent_derivative_agrees() {
    // That file: rows with ceil(duration) = 0 dropped, arrival = ceil(end) - ceil(duration), sorted, the first 500.
    let mut pairs: BTreeMap<(u64, u64), i32> = BTreeMap::new();
    for record in csv::Reader::from_reader(EXCERPT.as_bytes()).into_records() {
        let record = record.unwrap();
        let ceil = |i: usize| record[i].parse::<f64>().unwrap().ceil() as u64;
        if ceil(3) > 0 {
            *pairs.entry((ceil(2) - ceil(3), ceil(3))).or_default() += 1;
        }
    }
    let mut compared = 0;
    for record in csv::Reader::from_reader(DERIVATIVE.as_bytes()).into_records() {
        let record = record.unwrap();
        let (arrival, execution): (u64, u64) = (record[1].parse().unwrap(), record[2].parse().unwrap());
        if arrival < 2940 {
            *pairs.entry((arrival, execution)).or_default() -= 1;
            compared += 1;
        }
    }
    assert_eq!(compared, 498);
    assert!(pairs.iter().all(|(&(arrival, _), &count)| arrival >= 2940 || count == 0));
}

#[test]
fn order_of_rows_does_not_matter() {
    let sorted = |text: &str| {
        let mut trace = read(text);
        let top = trace.most_frequent().unwrap().clone();
        trace.functions.sort_by(|a, b| (&a.app, &a.func).cmp(&(&b.app, &b.func)));
        (top, trace.functions, trace.report.kept)
    };
    let (header, rows) = EXCERPT.split_once('\n').unwrap();
    let expected = sorted(EXCERPT);
    for seed in 1..=3 {
        let mut rows: Vec<&str> = rows.lines().collect();
        let mut rng = generator(seed, Use::Thinning);
        for i in (1..rows.len()).rev() {
            rows.swap(i, below(&mut rng, i as u64 + 1) as usize);
        }
        let shuffled = format!("{header}\n{}\n", rows.join("\n"));
        assert_ne!(shuffled, EXCERPT);
        assert!(sorted(&shuffled) == expected, "seed {seed}");
    }
}

#[test]
fn repeated_rows_are_kept_and_counted() {
    let fifth = EXCERPT.lines().nth(5).unwrap();
    let trace = read(&format!("{EXCERPT}{fifth}\n{fifth}\n{fifth}\n"));
    assert_eq!((trace.report.kept, trace.report.exact_repeats), (1001, 3));
    assert!(trace.report.to_string().contains("3 exact repeats"));
    assert_eq!(trace.all_starts_ns().len(), 1001);
}

#[test]
fn windows_are_half_open() {
    let day = DAY_NS / SECOND;
    let text = format!(
        "app,func,end_timestamp,duration\na,f,{day}.0,0.0\na,f,{}.5,0.6\na,f,{},1\na,f,0,0\n",
        day,
        2 * day + 1
    );
    let trace = read(&text);
    let function = trace.most_frequent().unwrap();
    assert_eq!(function.starts_ns, [0, DAY_NS - SECOND / 10, DAY_NS, 2 * DAY_NS]);
    assert_eq!(function.window(0, 1), [0, DAY_NS - SECOND / 10]);
    assert_eq!(function.window(1, 2), [DAY_NS]);
    assert_eq!(function.window(2, 3), [2 * DAY_NS]);
    assert!(function.window(3, 4).is_empty() && function.window(2, 1).is_empty());
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of a whole population: divided by the count.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64
}

fn float_gaps(starts: &[u64]) -> Vec<f64> {
    gaps(starts).iter().map(|&gap| gap as f64).collect()
}

#[test]
fn block_length_covers_the_bursts() {
    let gaps = float_gaps(&read(EXCERPT).all_starts_ns());
    assert_eq!(gaps.len() - BLOCK + 1, 982);
    let (mean, variance_of_one) = (mean(&gaps), variance(&gaps));
    let autocorrelation = |lag: usize| {
        let products = gaps.iter().zip(&gaps[lag..]).map(|(a, b)| (a - mean) * (b - mean));
        products.sum::<f64>() / gaps.len() as f64 / variance_of_one
    };
    let band = 2.0 / (gaps.len() as f64).sqrt();
    let outside: Vec<usize> = (1..=28).filter(|&lag| autocorrelation(lag).abs() > band).collect();
    assert_eq!(outside, [1, 4, 5, 6, 7]);
    // More than half of the pairs at the longest of these lags lie within one block.
    assert!(outside.iter().all(|&lag| 2 * lag < BLOCK));
    let rounded: Vec<String> = outside.iter().map(|&lag| format!("{:.2}", autocorrelation(lag))).collect();
    assert_eq!(rounded, ["0.31", "0.09", "0.11", "0.10", "0.08"]);
    // Longer blocks up to twice the length would not add to the dispersion.
    let dispersion = |count: usize| {
        let sums: Vec<f64> = gaps.windows(count).map(|window| window.iter().sum()).collect();
        variance(&sums) / (count as f64 * mean * mean)
    };
    let rounded = [1, 8, BLOCK, 32, 128].map(|count| format!("{:.1}", dispersion(count)));
    assert_eq!(rounded, ["3.1", "5.5", "6.1", "6.0", "10.5"]);
}

#[test]
fn one_function_is_nearly_a_timer_and_all_together_are_not() {
    let variation = |starts: &[u64]| {
        let gaps = float_gaps(starts);
        variance(&gaps).sqrt() / mean(&gaps)
    };
    let trace = read(EXCERPT);
    let one = variation(&trace.most_frequent().unwrap().starts_ns);
    assert!((one - 0.150).abs() < 0.001, "{one}");
    let all = variation(&trace.all_starts_ns());
    assert!((all - 1.752).abs() < 0.001, "{all}");
}
