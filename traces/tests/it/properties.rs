//! What holds for every source, load, span and seed.

use std::sync::OnceLock;

use proptest::prelude::*;
use traces::{Arrivals, Loaded, Source, Target, bootstrap};

fn loaded() -> &'static [Loaded; 4] {
    static LOADED: OnceLock<[Loaded; 4]> = OnceLock::new();
    let sources = [Source::Maf2Excerpt, Source::AzureLlmCode, Source::AzureLlmConv, Source::Poisson];
    LOADED.get_or_init(|| sources.map(|source| source.load().unwrap()))
}

fn target() -> impl Strategy<Value = Target> {
    let solo = 1_000_000u64..2_000_000_000;
    let span = 10_000_000_000u64..600_000_000_000;
    (solo, 0.01f64..2.0, span, any::<u64>())
        .prop_map(|(solo_mean_ns, load, span_ns, seed)| Target { solo_mean_ns, load, span_ns, seed })
        .prop_filter("upstream's rule needs two requests", |target| (2..50_000).contains(&target.requests()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_list_keeps_its_promises(target in target(), which in 0usize..4) {
        let list = loaded()[which].arrivals(&target).unwrap();
        prop_assert!(list.times_ns.is_sorted());
        prop_assert!(list.span_ns <= target.span_ns);
        prop_assert!(Arrivals::check(&list.times_ns, list.span_ns).is_ok());
        prop_assert_eq!(&list, &loaded()[which].arrivals(&target).unwrap());

        // Upstream's rule drops one request, which its server sends at time 0 by itself.
        let shaped = which == 1 || which == 2;
        let requests = list.times_ns.len() as f64 + f64::from(u8::from(shaped));
        let wanted = target.requests() as f64;
        let rate = requests / list.span_ns as f64;
        let target_rate = target.load / target.solo_mean_ns as f64;
        prop_assert!((rate / target_rate - 1.0).abs() <= 1.0 / wanted + 1e-9, "{rate} {target_rate}");
        if list.span_ns == target.span_ns && !shaped {
            prop_assert_eq!(requests, wanted);
        }
    }

    #[test]
    fn resampled_gaps_are_recorded_gaps(count in 1usize..500, seed in any::<u64>()) {
        let recorded: Vec<u64> = (0..30).map(|i| i * i + 1).collect();
        let drawn = bootstrap::resample(&recorded, bootstrap::BLOCK, count, seed).unwrap();
        prop_assert_eq!(drawn.len(), count);
        prop_assert!(drawn.iter().all(|gap| recorded.contains(gap)));
    }
}
