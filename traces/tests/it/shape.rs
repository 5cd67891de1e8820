//! Upstream's shaping rule on small numbers worked by hand, and on many seeds.

use std::collections::BTreeMap;

use traces::shape::{Branch, shape};

#[test]
fn few_arrivals_are_scaled_in_time_only() {
    // n = 4, D = 100 ns, N = 10, span = 1000 ns: factor 1000 * 4 / 10 / 100 = 4; offsets 0, 10, 30, 100 become 0, 40,
    // 120, 400, and the first is dropped.
    let shaped = shape(&[40, 10, 110, 20], 10, 1000, 1).unwrap();
    assert_eq!(shaped.times_ns, [40, 120, 400]);
    assert_eq!(shaped.covered_ns, 400);
    assert_eq!(shaped.branch, Branch::Scaled { available: 4, wanted: 10 });
    assert_eq!(shaped.branch.to_string(), "scaled in time only: all 4 arrivals kept, 10 would fill the span");
    // Nothing is drawn, so the seed is without effect.
    assert_eq!(shaped, shape(&[40, 10, 110, 20], 10, 1000, 2).unwrap());
}

#[test]
fn as_many_as_wanted_fill_the_span() {
    let shaped = shape(&[0, 1, 1, 3], 4, 10, 1).unwrap();
    // Thirds of 10 ns, rounded down; the tie stays two requests.
    assert_eq!((shaped.times_ns, shaped.covered_ns), (vec![3, 3, 10], 10));
}

#[test]
fn many_arrivals_are_thinned() {
    // n = 4 > N = 3, D = 100 ns, span = 1000 ns: offsets times 10. One of the four is left out and then the first of
    // the three dropped, which leaves one of these.
    let mut seen: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
    for seed in 0..4000 {
        let shaped = shape(&[10, 20, 40, 110], 3, 1000, seed).unwrap();
        assert_eq!(shaped.branch, Branch::Thinned { available: 4, kept: 3 });
        assert_eq!(shaped.covered_ns, 1000);
        *seen.entry(shaped.times_ns).or_default() += 1;
    }
    // Left out: the last; the third; the second or the first (the drop makes both the same).
    let expected = [vec![100, 300], vec![100, 1000], vec![300, 1000]];
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), expected);
    // Each of the four is left out with probability 1/4; five standard deviations are 137 and 158.
    assert!(seen[&expected[0]].abs_diff(1000) < 137, "{seen:?}");
    assert!(seen[&expected[1]].abs_diff(1000) < 137, "{seen:?}");
    assert!(seen[&expected[2]].abs_diff(2000) < 158, "{seen:?}");
}

#[test]
fn thinning_uses_the_distance_of_all_arrivals() {
    // Of 0, 10, ..., 10,000 one in ten is drawn. Scaled by the distance of the drawn ones alone the last would always
    // land on the span; by that of all it does so only where the last was drawn.
    let starts: Vec<u64> = (0..=1000).map(|i| i * 10).collect();
    let at_end = |seed| *shape(&starts, 100, 10_000, seed).unwrap().times_ns.last().unwrap() == 10_000;
    let hits = (0..500).filter(|&seed| at_end(seed)).count();
    assert!((20..=80).contains(&hits), "{hits} of 500, expected about 50");
}

#[test]
fn seeds_decide() {
    let starts: Vec<u64> = (0..1000).map(|i| i * i).collect();
    assert_eq!(shape(&starts, 100, 1_000_000, 5).unwrap(), shape(&starts, 100, 1_000_000, 5).unwrap());
    assert_ne!(shape(&starts, 100, 1_000_000, 5).unwrap(), shape(&starts, 100, 1_000_000, 6).unwrap());
}

#[test]
fn what_has_no_rate_is_refused() {
    assert!(shape(&[], 10, 1000, 1).is_err());
    assert!(shape(&[5], 10, 1000, 1).is_err());
    assert!(shape(&[5, 5, 5], 10, 1000, 1).unwrap_err().to_string().contains("at the same time"));
    assert!(shape(&[1, 2, 3], 1, 1000, 1).unwrap_err().to_string().contains("drops the first"));
    assert!(shape(&[0, u64::MAX], 10, u64::MAX, 1).unwrap_err().to_string().contains("128 bits"));
}

#[test]
fn two_weeks_in_a_day_do_not_overflow() {
    let fortnight = 14 * 86_400 * 1_000_000_000u64;
    let starts: Vec<u64> = (0..=100_000u64).map(|i| i * (fortnight / 100_000)).collect();
    let shaped = shape(&starts, 200_000, 8_400_000_000_000, 1).unwrap();
    assert_eq!(shaped.covered_ns, 4_200_042_000_000);
    assert_eq!(*shaped.times_ns.last().unwrap(), 4_200_042_000_000);
}
