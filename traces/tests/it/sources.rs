//! The lists themselves: pinned, so that a change of any rule, generator or data file shows.

use std::fs;
use std::path::PathBuf;

use traces::bootstrap::{self, gaps};
use traces::checksum::of_times;
use traces::{Arrivals, Source, Target, arrivals};

/// BERT-like: many short requests. 300 s / 4.05 ms * 0.5 = 37,037.
const SHORT: Target = Target { solo_mean_ns: 4_050_000, load: 0.5, span_ns: 300_000_000_000, seed: 1 };
/// Llama-like: few long requests. 300 s / 1963.9 ms * 0.5 = 76.
const LONG: Target = Target { solo_mean_ns: 1_963_900_000, load: 0.5, span_ns: 300_000_000_000, seed: 1 };

/// First five, sum, count, checksum, covered span.
type Pinned = ([u64; 5], u64, usize, u64, u64);

fn pin(source: &Source, target: Target) -> Pinned {
    let Arrivals { times_ns, span_ns, .. } = arrivals(source, &target).unwrap();
    let first = times_ns[..5].try_into().unwrap();
    (first, times_ns.iter().sum(), times_ns.len(), of_times(&times_ns), span_ns)
}

// All numbers below were also computed by an independent program in Python (big integers, its own PCG64 and CSV
// reader, the platform's logarithm), and agree to the last digit.

#[test]
fn maf2_excerpt() {
    let first = [396, 468, 676, 676, 745];
    let pinned = (first, 5_464_689_074_315_704, 37_037, 0xb6c2_ca04_ed9f_fe9b, 300_000_000_000);
    assert_eq!(pin(&Source::Maf2Excerpt, SHORT), pinned);
    // The third and the fourth arrival tie, as one of the three zero gaps was drawn.
    let first = [191_171, 226_149, 326_523, 326_523, 359_678];
    let pinned = (first, 9_889_567_883_356, 76, 0x4f54_d9a7_0c38_b347, 300_000_000_000);
    assert_eq!(pin(&Source::Maf2Excerpt, LONG), pinned);
}

#[test]
fn azure_llm_code() {
    let first = [1_081_089, 2_041_366, 2_924_845, 9_251_504, 11_209_793];
    let pinned = (first, 277_076_272_059_381, 8_818, 0xd714_2724_b2f3_410d, 71_433_971_433);
    assert_eq!(pin(&Source::AzureLlmCode, SHORT), pinned);
    let first = [17_161_829_293, 17_196_771_003, 19_399_432_154, 20_560_422_465, 20_605_671_723];
    let pinned = (first, 11_026_119_321_597, 75, 0xe3be_0b7e_2af5_6250, 300_000_000_000);
    assert_eq!(pin(&Source::AzureLlmCode, LONG), pinned);
}

#[test]
fn azure_llm_conv() {
    let first = [193_277_878, 203_460_024, 211_010_468, 263_970_101, 282_734_174];
    let pinned = (first, 1_499_487_250_970_207, 19_365, 0x8c3d_8582_e5fe_6e68, 156_864_756_864);
    assert_eq!(pin(&Source::AzureLlmConv, SHORT), pinned);
    let first = [5_822_800_144, 6_623_364_880, 6_838_126_079, 14_285_820_890, 22_622_589_436];
    let pinned = (first, 12_111_931_661_429, 75, 0xb131_023d_6333_52b2, 300_000_000_000);
    assert_eq!(pin(&Source::AzureLlmConv, LONG), pinned);
}

#[test]
fn poisson() {
    let first = [3_938_770, 6_748_906, 9_781_622, 31_620_092, 31_861_624];
    let pinned = (first, 5_552_799_172_284_832, 37_037, 0x2c9d_2480_cd84_399a, 300_000_000_000);
    assert_eq!(pin(&Source::Poisson, SHORT), pinned);
    let first = [2_034_820_520, 3_486_573_569, 5_053_314_578, 16_335_354_970, 16_460_133_517];
    let pinned = (first, 12_367_898_654_143, 76, 0x197a_269a_880f_e3f9, 300_000_000_000);
    assert_eq!(pin(&Source::Poisson, LONG), pinned);
}

#[test]
fn azure_llm_facts() {
    let code = include_bytes!("../../data/AzureLLMInferenceTrace_code.csv");
    let conv = include_bytes!("../../data/AzureLLMInferenceTrace_conv.csv");
    for (text, rows, bytes) in [(&code[..], 8_819, 320_117), (&conv[..], 19_366, 719_188)] {
        let times = traces::llm::read("llm.csv", text).unwrap();
        assert_eq!((times.len(), text.len()), (rows, bytes));
        assert!(times.windows(2).all(|w| w[0] < w[1]), "no ties");
        assert!(times.iter().all(|t| t % 100 == 0) && *times.last().unwrap() < 3_600_000_000_000);
    }
}

/// A small trace in which function a/f has 6 rows: one before day 3, four in it, one at the beginning of day 4.
const DAYS: &str = "\
app,func,end_timestamp,duration
b,g,259200.0,0.0
a,f,259199.5,0.25
a,f,259300.0,100
a,f,259230.0,20.0
a,f,345600.0,0
a,f,259230.0,20.0
a,f,259310.0,10
b,g,300000,1
";

/// A file that is removed whatever happens.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Scratch {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        fs::write(&path, text).unwrap();
        Scratch(path)
    }

    fn source(&self) -> Source {
        Source::Maf2Full(self.0.clone())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn maf2_full() {
    // Day 3 has starts at 259200, 259210 twice and 259300 s: offsets 0, 10, 10, 100 s. N = 8 over 1 s, so all four are
    // kept and cover half a second: factor 1 s * 4 / 8 / 100 s.
    let file = Scratch::new("days.csv", DAYS);
    let target = Target { solo_mean_ns: 100_000_000, load: 0.8, span_ns: 1_000_000_000, seed: 1 };
    let list = arrivals(&file.source(), &target).unwrap();
    assert_eq!(list.times_ns, [50_000_000, 50_000_000, 500_000_000]);
    assert_eq!(list.span_ns, 500_000_000);
    assert_eq!(list.label, "MAF2 days 3-4");
    assert_eq!(
        list.note,
        "MAF2: 8 rows of 2 functions in 2 apps: 8 kept, 0 left out (running when the trace began), 1 exact repeat; most \
         frequent function a/f with 6 rows; 4 of them in days [3, 4); scaled in time only: all 4 arrivals kept, 8 would \
         fill the span, the first dropped; 3 arrivals over 500000000 ns, gaps vary by 1.00 of their mean (Poisson: 1)"
    );
    let digest_input = "\
source=maf2-full
rule=upstream, days [3, 4)
data_bytes=164
data_fnv1a64=97530e75f5d8d66e
solo_mean_ns=100000000
load=0.8
target_span_ns=1000000000
seed=1
span_ns=500000000
arrivals=3
arrivals_fnv1a64=d4e421958276312c
";
    assert_eq!(list.digest_input, digest_input);
}

#[test]
fn maf2_two_weeks_takes_all_days() {
    // Starts at 259199.25, 259200, 259210 twice, 259300 and 345600 s: all six are kept of 8 wanted, and 86400.75 s become
    // six eighths of a second.
    let file = Scratch::new("weeks.csv", DAYS);
    let target = Target { solo_mean_ns: 100_000_000, load: 0.8, span_ns: 1_000_000_000, seed: 1 };
    let list = arrivals(&Source::Maf2TwoWeeks(file.0.clone()), &target).unwrap();
    assert_eq!(list.times_ns, [6_510, 93_315, 93_315, 874_558, 750_000_000]);
    assert_eq!((list.span_ns, list.label.as_str()), (750_000_000, "MAF2 days 0-14"));
    assert!(list.digest_input.starts_with("source=maf2-two-weeks\nrule=upstream, days [0, 14)\n"));
}

#[test]
fn equal_data_at_another_path_have_an_equal_digest_input() {
    let (a, b) = (Scratch::new("a.csv", DAYS), Scratch::new("b.csv", DAYS));
    let list = |file: &Scratch| arrivals(&file.source(), &LONG).unwrap();
    assert_eq!(list(&a), list(&b));
}

#[test]
fn a_trace_without_the_day_is_refused() {
    let excerpt = concat!(env!("CARGO_MANIFEST_DIR"), "/data/maf2_first998_rows.csv");
    let error = arrivals(&Source::Maf2Full(excerpt.into()), &SHORT).unwrap_err().to_string();
    assert!(error.contains("no arrivals in days [3, 4); it has 174 from day 0.000 to 0.075"), "{error}");
    let empty = Scratch::new("empty.csv", "app,func,end_timestamp,duration\n");
    assert!(arrivals(&empty.source(), &SHORT).unwrap_err().to_string().ends_with("has no rows"));
}

#[test]
fn targets_out_of_reach_are_refused() {
    let error = |source: Source, target| format!("{:#}", arrivals(&source, &target).unwrap_err());
    assert!(error(Source::Poisson, Target { load: 3.0, ..SHORT }).contains("load must be"));
    let short = Target { span_ns: 1_000_000, ..SHORT };
    assert!(error(Source::Poisson, short).contains("too short for one request"));
    // One request is fine for a list that is drawn, but upstream's rule would drop it.
    let one = Target { span_ns: 10_000_000, ..SHORT };
    assert_eq!(arrivals(&Source::Maf2Excerpt, &one).unwrap().times_ns.len(), 1);
    assert!(error(Source::AzureLlmCode, one).contains("drops the first"));
}

#[test]
fn labels_and_seeds() {
    let list = |seed| arrivals(&Source::Maf2Excerpt, &Target { seed, ..LONG }).unwrap();
    assert_eq!(list(1).label, "MAF2 excerpt, bootstrapped");
    assert_eq!(list(1), list(1));
    assert_ne!(list(1).times_ns, list(2).times_ns);
    let note = "\
        MAF2 excerpt: 998 rows of 49 functions in 21 apps: 998 kept, 0 left out (running when the trace began), 0 exact \
        repeats; moving-block bootstrap, gaps of all functions together, 997 gaps in blocks of 16; recorded gaps vary by \
        1.75 of their mean, those of the most frequent function (7fa05b60/9bc86d6c, 174 rows) by 0.15: nearly a timer, \
        which would understate queueing; drawn; 76 arrivals over 300000000000 ns, gaps vary by 1.63 of their mean \
        (Poisson: 1)";
    assert_eq!(list(1).note, note);
    assert!(list(1).digest_input.starts_with("source=maf2-excerpt\n"));
}

/// Mean wait in a queue served one by one, in solo latencies.
fn mean_wait(times_ns: &[u64], solo_mean_ns: u64) -> f64 {
    let (mut free, mut waited) = (0, 0);
    for &time in times_ns {
        let start = free.max(time);
        waited += start - time;
        free = start + solo_mean_ns;
    }
    waited as f64 / solo_mean_ns as f64 / times_ns.len() as f64
}

#[test]
fn queueing_needs_all_functions() {
    let wait = |times_ns: &[u64]| format!("{:.1}", mean_wait(times_ns, SHORT.solo_mean_ns));
    let excerpt = include_bytes!("../../data/maf2_first998_rows.csv");
    let trace = traces::maf2::read("excerpt.csv", &excerpt[..]).unwrap();
    let one = gaps(&trace.most_frequent().unwrap().starts_ns);
    let one = bootstrap::arrivals(&one, SHORT.requests(), SHORT.span_ns, SHORT.seed).unwrap();
    assert_eq!(wait(&one), "0.0");
    assert_eq!(wait(&arrivals(&Source::Poisson, &SHORT).unwrap().times_ns), "0.5");
    assert_eq!(wait(&arrivals(&Source::Maf2Excerpt, &SHORT).unwrap().times_ns), "6.3");
}
