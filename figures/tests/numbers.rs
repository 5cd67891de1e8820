//! Aggregates against values computed by hand, and the tables as readers see them.

mod common;

use std::fs;

use common::{Table, run_with};
use figures::grid::{Grid, Spread};
use figures::{draw, overheads, records};
use insta::assert_snapshot;

/// One pair, three systems, two seeds, with numbers that are easy to check: the baseline is 4 ms.
fn small() -> Table {
    let mut table = Table::fig5();
    table.only("bert-infer", "resnet50-train");
    let row = |t: &Table, system: &str| t.rows[t.find(system, "bert-infer", "resnet50-train")].clone();
    let source = table.clone();
    table.rows.truncate(1);
    table.set(0, "upstream_p99_ms", "4");
    for (system, seed, p99, hp, be, overloaded) in [
        ("mps", "1", "8", "1", "0.5", "false"),
        ("mps", "2", "32", "0.5", "0.5", "true"),
        ("tgs-artifact", "1", "6", "1", "0.6", "false"),
        ("tgs-artifact", "2", "10", "1", "0.8", "false"),
        ("tally", "1", "4.2", "1", "0.3", "false"),
        ("tally", "2", "4.4", "1", "0.5", "false"),
    ] {
        table.rows.push(row(&source, system));
        let at = table.rows.len() - 1;
        for (column, value) in [
            ("seed", seed),
            ("upstream_p99_ms", p99),
            ("baseline_p99_ms", "4"),
            ("hp_norm", hp),
            ("be_norm", be),
            ("overloaded", overloaded),
            ("system_throughput", ""),
            ("p99_overhead", ""),
        ] {
            table.set(at, column, value);
        }
        let total = hp.parse::<f64>().unwrap() + be.parse::<f64>().unwrap();
        table.set(at, "system_throughput", &total.to_string());
    }
    table
}

fn read(table: &Table) -> records::Records {
    let dir = run_with(&table.csv());
    records::read(&dir.path().join("fig5.csv"), "fig5").unwrap()
}

#[test]
fn overheads_match_hand_computed_values() {
    let summaries = overheads::summaries(&read(&small()));
    let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} and {b}");
    let mps = summaries.iter().find(|s| s.system == "mps").unwrap();
    // Ratios 2 and 8.
    assert_eq!((mps.cells, mps.overloaded), (2, 1));
    close(mps.mean, 4.0);
    close(mps.geometric, 3.0);
    close(mps.median, 4.0);
    assert_eq!(mps.range, Some((1.0, 7.0)));
    close(mps.hp_norm, 0.75);
    close(mps.be_norm, 0.5);
    close(mps.system_throughput, 1.25);
    // Seed means 1 and 7: 4 +- 12.706 * 3 (two values have a standard error of half their difference).
    let seeds = mps.over_seeds.unwrap();
    assert!((seeds.low + 34.119).abs() < 1e-2 && (seeds.high - 42.119).abs() < 1e-2, "{seeds:?}");
    // The second seed is overloaded: the end-to-end p99 of the first alone, 15.655 ms over 4 ms.
    assert_eq!(mps.end_to_end.1, 1);
    assert!((mps.end_to_end.0.unwrap() - 15.655 / 4.0).abs() < 1e-3, "{:?}", mps.end_to_end);
    // Tally 1.3 and 1.5 against MPS 1.5 and 1.0.
    close(mps.tally_share.map(|t| t.0), 2.8 / 2.5);
    close(mps.tally_share.map(|t| t.1), (1.3 / 1.5 + 1.5) / 2.0);
    let tally = summaries.iter().find(|s| s.system == "tally").unwrap();
    close(tally.mean, 0.075);
    close(tally.tally_share.map(|t| t.0), 1.0);
}

#[test]
fn a_failed_cell_leaves_the_means_and_the_comparison() {
    let mut table = small();
    table.lose(2, "failed", "because");
    let summaries = overheads::summaries(&read(&table));
    let mps = summaries.iter().find(|s| s.system == "mps").unwrap();
    assert_eq!((mps.cells, mps.failed, mps.mean), (1, 1, Some(1.0)));
    assert_eq!(mps.over_seeds, None, "one seed varies by nothing");
    assert_eq!(mps.tally_share, Some((1.3 / 1.5, 1.3 / 1.5)), "only seed 1 was finished by both");
    table.lose(1, "failed", "because");
    let summaries = overheads::summaries(&read(&table));
    let mps = summaries.iter().find(|s| s.system == "mps").unwrap();
    assert_eq!((mps.cells, mps.mean, mps.tally_share), (0, None, None));
}

#[test]
fn seeds_become_a_median_latency_and_a_mean_throughput() {
    let mut table = small();
    let third = table.rows[1].clone();
    table.rows.push(third);
    let at = table.rows.len() - 1;
    table.set(at, "seed", "3");
    table.set(at, "upstream_p99_ms", "9");
    let grid = Grid::of(&read(&table)).unwrap();
    assert_eq!(
        grid.systems.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(),
        ["mps", "tgs-artifact", "tally"]
    );
    assert_eq!(grid.facts.seeds, [1, 2, 3]);
    assert_eq!(grid.panels[0].baseline_p99_ms, Some(4.0));
    let mps = grid.panels[0].groups[0].cells[0].as_ref().unwrap();
    assert_eq!(mps.p99_ms, Some(Spread { value: 9.0, min: 8.0, max: 32.0 }));
    let total = mps.system_throughput.unwrap();
    assert!((total.value - 4.0 / 3.0).abs() < 1e-12 && total.min == 1.0 && total.max == 1.5);
    assert!(mps.overloaded, "one overloaded seed marks the cell");
}

fn tables(table: &Table, partial: bool) -> (String, String, String) {
    let dir = run_with(&table.csv());
    draw(dir.path(), &["overheads".to_owned(), "pairs".to_owned()], partial).unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join("tables").join(name)).unwrap();
    (read("overheads.md"), read("overheads.csv"), read("pairs.md"))
}

#[test]
fn tables_as_readers_see_them() {
    let mut table = small();
    table.set_all("machine", "h200");
    table.lose(4, "skipped", "38 + 120 GiB | too much");
    table.set(1, "upstream_n", "38");
    let (overheads, csv, pairs) = tables(&table, false);
    assert_snapshot!(overheads, @r#"
**SIMULATED (h200 model)**, not measured on a GPU. Load 0.5. Arrivals: SYNTHETIC test data. Seeds (arrival variance only): 1, 2.

# p99 overhead and system throughput by system

This run:

| system | cells | overloaded | failed | skipped | p99 overhead, mean | 95 % over seeds | geometric mean | median | min..max | end-to-end p99 / baseline, median | of cells | HP | BE | system |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| mps | 2 | 1 | 0 | 0 | 400.0 % | -3411.9..4211.9 % | 300.0 % | 400.0 % | 100.0..700.0 % | 3.914 | 1 | 0.750 | 0.500 | 1.250 |
| tgs-artifact | 1 | 0 | 0 | 1 | 50.0 % |  | 50.0 % | 50.0 % | 50.0..50.0 % | 3.023 | 1 | 1.000 | 0.600 | 1.600 |
| tally | 2 | 0 | 0 | 0 | 7.5 % | -24.3..39.3 % | 7.5 % | 7.5 % | 5.0..10.0 % | 1.705 | 2 | 1.000 | 0.400 | 1.400 |

Beside the published numbers; mean, median and min..max are of the p99 overhead:

| system | mean, this run | mean, paper | mean, demo | median, this run | median, demo | min..max, this run | min..max, demo | system, this run | system, demo | Tally / this, this run | mean of ratios | Tally / this, demo | Tally / this, paper |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| mps | 400.0 % | 345.0 % | 289.9 % | 400.0 % | 188.4 % | 100.0..700.0 % | 29.5..1077.6 % | 1.250 | 1.730 | 1.120 | 1.183 | 0.834 |  |
| tgs-artifact | 50.0 % | 188.9 % | 177.1 % | 50.0 % | 107.1 % | 50.0..50.0 % | 22.2..411.3 % | 1.600 | 1.737 | 0.812 | 0.812 | 0.830 | > 0.800 |
| tally | 7.5 % | 7.2 % | 4.8 % | 7.5 % | 4.2 % | 5.0..10.0 % | 1.5..9.9 % | 1.400 | 1.442 | 1.000 | 1.000 | 1.000 |  |

- p99 overhead: `upstream_p99_ms / baseline_p99_ms - 1` per cell; a cell is one pair and seed. Mean: arithmetic,
  the paper's number; a single bad pair can dominate it. Geometric mean: `exp(mean(ln(p99 / baseline))) - 1`.
- 95 % over seeds: Student's interval of that mean from seed to seed, over the pairs that every seed has. It is the
  variance of arrivals (simulated, also of drawn durations) only; with a single seed there is none.
- End-to-end p99 (planned arrival to end) over the baseline's p99: median over the cells that are not overloaded. In
  an overloaded cell it grows with the span, so it enters no number over cells; the table of all pairs has it.
- HP, BE, system: means of the normalised throughputs of the high-priority job, the best-effort job, and their
  sum.
- Tally / this: Tally's mean system throughput over that of the row, over the cells that both finished; beside it
  the mean of the ratios per cell.
- Paper: means over the paper's own pairs on an A100. Its throughput claim is against TGS.
- Demo: the published A100 run, computed from `figures/reference/reference_a100.csv`, 12 pairs. Its TGS rows come
  from a port whose rate control is disconnected: `tgs-artifact`. The paper's TGS numbers stand there too; of which
  revision its own runs were is unknown. Nothing published is of `tgs` and `tgs-mps`.
- Overloaded cells have a growing queue, which service times leave out. An empty cell is a missing number.

**SIMULATED (h200 model)**, not measured on a GPU.
"#);
    assert_snapshot!(csv, @r#"
backend,machine,load,system,cells,overloaded,failed,skipped,p99_overhead_mean,p99_overhead_geometric_mean,p99_overhead_median,p99_overhead_min,p99_overhead_max,p99_overhead_mean_seeds_low,p99_overhead_mean_seeds_high,e2e_p99_over_baseline_median,e2e_cells,hp_norm_mean,be_norm_mean,system_throughput_mean,tally_share_of_means,tally_share_mean_of_ratios,paper_p99_overhead_mean,demo_p99_overhead_mean,demo_p99_overhead_geometric_mean,demo_p99_overhead_median,demo_p99_overhead_min,demo_p99_overhead_max,demo_hp_norm_mean,demo_be_norm_mean,demo_system_throughput_mean,demo_tally_share_of_means
sim,h200,0.5,mps,2,1,0,0,4,3,4,1,7,-34.118614209,42.118614209,3.91374225,1,0.75,0.5,1.25,1.12,1.183333333,3.45,2.898971828,2.141611615,1.884071183,0.29455043,10.77647633,0.856666667,0.873333333,1.73,0.833815029
sim,h200,0.5,tgs-artifact,1,0,0,1,0.5,0.5,0.5,0.5,0.5,,,3.0230525,1,1,0.6,1.6,0.8125,0.8125,1.889,1.771310347,1.466425687,1.071392554,0.222044514,4.113469985,0.95,0.7875,1.7375,0.830215827
sim,h200,0.5,tally,2,0,0,0,0.075,0.074709263,0.075,0.05,0.1,-0.242655118,0.392655118,1.7052645,2,1,0.4,1.4,1,1,0.072,0.047818262,0.047399284,0.041990878,0.01479483,0.099072718,1,0.4425,1.4425,1
"#);
    assert_snapshot!(pairs, @r#"
**SIMULATED (h200 model)**, not measured on a GPU. Load 0.5. Arrivals: SYNTHETIC test data. Seeds (arrival variance only): 1, 2.

# Every cell of the end-to-end grid

| inference | training | system | seed | n | p50 ms | p99 ms | p99 overhead | n, all | service p99 ms, all | its 95 % interval | end-to-end p99 ms | HP | BE | overloaded | status |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| bert | resnet50 | mps | 1 | 38 | 5.952 | 8.000 * | 100.0 % | 37036 | 9.114 | 8.934..9.204 | 15.655 | 1.000 | 0.500 |  |  |
| bert | resnet50 | mps | 2 | 5000 | 5.952 | 32.000 | 700.0 % | 37036 | 9.114 | 8.934..9.204 | 15.655 | 0.500 | 0.500 | over 300 s |  |
| bert | resnet50 | tgs-artifact | 1 | 5000 | 5.049 | 6.000 | 50.0 % | 37036 | 7.523 | 7.375..7.598 | 12.092 | 1.000 | 0.600 |  |  |
| bert | resnet50 | tgs-artifact | 2 |  |  |  |  |  |  |  |  |  |  |  | skipped (1) |
| bert | resnet50 | tally | 1 | 5000 | 4.167 | 4.200 | 5.0 % | 37036 | 4.549 | 4.459..4.594 | 6.821 | 1.000 | 0.300 |  |  |
| bert | resnet50 | tally | 2 | 5000 | 4.167 | 4.400 | 10.0 % | 37036 | 4.549 | 4.459..4.594 | 6.821 | 1.000 | 0.500 |  |  |

- n, p50, p99: service time by upstream's rule (second half of the run, at most the last 5,000 requests).
- n, all; service p99, all: service time of all requests. Its 95 % interval: moving-block bootstrap within the run,
  so it knows nothing of other seeds, models or machines. End-to-end: planned arrival to end, all requests; in an
  overloaded cell it grows with the length of the run, which is given.
- Seeds differ in their arrivals (and, simulated, in the durations that are drawn), in nothing else.
- `*`: fewer than 1,000 requests, so the p99 is close to the maximum.
- HP, BE: normalised throughput of the high-priority and the best-effort job. An empty cell is a missing number.
- (1) skipped: 38 + 120 GiB | too much

**SIMULATED (h200 model)**, not measured on a GPU.
"#);
}

#[test]
fn the_first_and_the_last_line_say_simulated() {
    let mut table = small();
    let lines = |text: &str| {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines[0].clone(), lines[lines.len() - 1].clone())
    };
    for text in [tables(&table, false).0, tables(&table, false).2] {
        let (first, last) = lines(&text);
        assert!(first.contains("SIMULATED") && last.contains("SIMULATED"), "{text}");
    }
    table.lose(3, "failed", "because");
    let (first, last) = lines(&tables(&table, true).0);
    assert!(first.contains("INCOMPLETE RUN") && last.contains("INCOMPLETE RUN"));
    let mut measured = small();
    measured.set_all("backend", "gpu");
    assert!(!tables(&measured, false).0.contains("SIMULATED"));
}
