//! The figures of several panels: what they show of the numbers, and of those that are not there.

mod common;

use std::fs;

use common::{Table, run_with};
use figures::canvas::{Picture, Shape};
use figures::draw;
use figures::fig5;
use figures::fig6b::{self, Loads};
use figures::fig9::{self, Dots};
use figures::fig10::{self, Thresholds};
use figures::grid::Grid;
use figures::records::{self, Records};

fn read(table: &Table, experiment: &str) -> Records {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.csv");
    fs::write(&path, table.csv()).unwrap();
    records::read(&path, experiment).unwrap()
}

fn texts(picture: &Picture) -> Vec<&str> {
    let mut texts = Vec::new();
    for shape in &picture.shapes {
        if let Shape::Text(text) = shape {
            texts.push(text.content.as_str());
        }
    }
    texts
}

/// The fields of the one row that holds all of these.
fn row<'a>(csv: &'a str, holds: &[&str]) -> Vec<&'a str> {
    let rows = csv.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let mut found: Vec<_> = rows.filter(|r| holds.iter().all(|h| r.contains(h))).collect();
    assert_eq!(found.len(), 1, "{holds:?} in {csv}");
    found.remove(0)
}

#[test]
fn a_pair_that_does_not_fit_is_a_hole_with_the_reason() {
    let mut table = Table::fig5();
    table.leave_out("llama-2-7b-infer", "bert-train");
    let grid = Grid::of(&read(&table, "fig5")).unwrap();
    let picture = fig5::picture(&grid).unwrap();
    let texts = texts(&picture);
    assert_eq!(texts.iter().filter(|t| **t == "does not fit").count(), 2, "in both plots");
    assert!(!texts.contains(&"x"), "it is no lost cell");
    assert!(!texts.iter().any(|t| t.contains("INCOMPLETE")));
    let csv = fig5::csv(&grid);
    let fields = row(&csv, &["llama-2-7b-infer", "bert-train", "tally"]);
    // rows_ok, rows_failed, rows_skipped, left_out, overloaded, requests, few, baseline, then numbers: none of them 0.
    assert_eq!(fields[6..15], ["0", "0", "1", "does not fit", "false", "", "", "", "1982.652"]);
    assert!(fields[15..].iter().all(|f| f.is_empty()), "{fields:?}");
    // A run with such a pair is complete: it is drawn without --partial.
    draw(run_with(&table.csv()).path(), &["fig5".to_owned(), "fig9".to_owned()], false).unwrap();
}

#[test]
fn small_samples_are_marked_once_for_a_panel_or_at_each_bar() {
    // In the synthetic table each p99 of Llama rests on 38 requests, each of BERT's on 5,000.
    let mut table = Table::fig5();
    let daggers = |table: &Table| {
        let picture = fig5::picture(&Grid::of(&read(table, "fig5")).unwrap()).unwrap();
        let texts: Vec<String> = texts(&picture).into_iter().map(str::to_owned).collect();
        let at_bars = texts.iter().filter(|t| *t == "†").count();
        (at_bars, texts.iter().filter(|t| t.ends_with("inference †")).cloned().collect::<Vec<_>>())
    };
    assert_eq!(daggers(&table), (0, vec!["Llama-2-7B inference †".to_owned()]));
    let row = table.find("mps", "bert-infer", "whisper-train");
    table.set(row, "upstream_n", "999");
    assert_eq!(daggers(&table).0, 1);
    table.set(row, "upstream_n", "1000");
    assert_eq!(daggers(&table).0, 0);
}

#[test]
fn a_load_sweep_has_a_point_per_load() {
    let mut table = Table::fig6b();
    let busy = table.find("tally", "bert-infer", "bert-train");
    assert_eq!(table.get(busy, "load"), "0.1");
    table.set(busy, "upstream_p99_ms", "4.444");
    table.set(busy, "p99_overhead", "");
    table.lose(table.find("gate", "bert-infer", "whisper-train"), "failed", "because");
    let loads = Loads::of(&read(&table, "fig6b")).unwrap();
    let csv = fig6b::csv(&loads);
    // 2 servers, 3 trainings, 4 systems, 3 loads.
    assert_eq!(csv.lines().count(), 1 + 2 * 3 * 4 * 3);
    let first = csv.lines().find(|l| l.contains("bert-infer,bert-train,tally,0.1,0.9,")).unwrap();
    assert!(first.contains(",4.098,4.444,4.444,4.444,0.46,"), "{first}");
    let lost = csv.lines().find(|l| l.contains("bert-infer,whisper-train,gate,0.1,")).unwrap();
    assert!(lost.ends_with(",0,1,0,false,,,,4.098,,,,,,"), "{lost}");
    let picture = fig6b::picture(&loads).unwrap();
    let texts = texts(&picture);
    assert!(texts.iter().any(|t| t.contains("loads 0.1, 0.5, 0.9")), "{texts:?}");
    assert_eq!(texts.iter().filter(|t| **t == "x").count(), 2, "p99 and throughput of the lost cell");
}

#[test]
fn thresholds_are_in_order_and_other_systems_are_refused() {
    let mut table = Table::fig10();
    let usual = table.find("tally", "bert-infer", "bert-train");
    table.set(usual, "upstream_p99_ms", "5.555");
    table.set(usual, "p99_overhead", "");
    let csv = fig10::csv(&Thresholds::of(&read(&table, "fig10")).unwrap());
    let of_pair = csv.lines().filter(|l| l.contains("bert-infer,bert-train"));
    let column = |l: &str, i: usize| l.split(',').nth(i).unwrap().to_owned();
    let points: Vec<_> = of_pair.map(|l| (column(l, 5), column(l, 14))).collect();
    let expected = [("0.01", "4.368"), ("0.0316", "5.555"), ("0.316", "4.368"), ("1", "4.368")];
    assert_eq!(points, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    table.set(usual, "system", "tally:wait_us=1");
    let error = Thresholds::of(&read(&table, "fig10")).err().unwrap().to_string();
    assert!(error.contains("line") && error.contains("`tally:wait_us=1`"), "{error}");
}

#[test]
fn response_times_of_overloaded_cells_carry_their_span() {
    let mut table = Table::fig5();
    table.set_all("span_ns", "300000000000");
    table.add_paced("bert-infer", "4200000", "8196000");
    let records = read(&table, "fig5");
    let dots = Dots::of(&records).unwrap();
    let csv = fig9::csv(&dots);
    // 8.196 ms is twice the baseline of 4.098 ms.
    let alone = csv.lines().find(|l| l.contains(",no-sharing,")).unwrap();
    assert!(alone.ends_with(",300,false,37036,false,4.098,4.2,8.196,1.02489019,2"), "{alone}");
    assert_eq!(csv.lines().count(), 1 + 2 * 6 * 8 + 1);
    let overloaded = csv.lines().filter(|l| l.contains(",300,true,")).count();
    let expected = (0..table.rows.len()).filter(|r| table.get(*r, "overloaded") == "true").count();
    assert!(overloaded == expected && overloaded > 0, "{overloaded} of {expected}");
    let text = texts(&fig9::picture(&dots).unwrap()).join(" ");
    assert!(text.contains("how long that was (300 s)"), "{text}");
    assert!(text.contains("such points belong in no average"), "{text}");
}
