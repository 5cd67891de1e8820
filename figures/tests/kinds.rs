//! Figures of what are no grids of pairs: crowds, timelines, and what was recorded. All numbers here are made up.

mod common;

use std::fs;
use std::path::Path;

use common::assert_readable;
use figures::canvas::{Picture, Shape};
use figures::crowd::{self, Crowd};
use figures::inputs::Inputs;
use figures::recorded::{self, DURATIONS, Durations, TURNAROUND};
use figures::records::{self, COLUMNS};
use figures::registry::find;
use figures::timeline::{self, Timeline};
use figures::{draw, fig7a};
use tempfile::TempDir;

/// A row by column name; a column without a value stays empty.
fn row(columns: &str, values: &[(&str, &str)]) -> String {
    let value = |column: &str| values.iter().find(|v| v.0 == column).map_or("", |v| v.1);
    assert!(values.iter().all(|v| columns.split_whitespace().any(|c| c == v.0)), "{values:?}");
    columns.split_whitespace().map(value).collect::<Vec<_>>().join(",") + "\n"
}

fn header(columns: &str) -> String {
    columns.split_whitespace().collect::<Vec<_>>().join(",") + "\n"
}

const SAME: [(&str, &str); 7] = [
    ("key", "0"),
    ("backend", "sim"),
    ("machine", "synthetic"),
    ("inference", "bert-infer"),
    ("load", "0.1"),
    ("seed", "1"),
    ("status", "ok"),
];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    more.iter().chain(&SAME).copied().collect()
}

/// Two systems with 1, 2 and 10 servers, both patterns; each server serves 10 requests a second.
fn crowd_table() -> String {
    let mut out = header(COLUMNS);
    let base = [("experiment", "fig7b"), ("kind", "solo-paced"), ("system", "no-sharing")];
    out += &row(COLUMNS, &with(&[&base[..], &[("service_p99_ns", "4000000")]].concat()));
    for system in ["gate", "tally"] {
        for arrivals in ["independent", "coinciding"] {
            for n in [1, 2, 10] {
                let (clients, p99) = (n.to_string(), (4_000_000 + 1000 * n).to_string());
                let others = if n == 1 { String::new() } else { (10 * (n - 1)).to_string() };
                let values = [
                    ("experiment", "fig7b"),
                    ("kind", "crowd"),
                    ("system", system),
                    ("clients", &clients),
                    ("arrivals", arrivals),
                    ("service_n", "2400"),
                    ("service_p99_ns", &p99),
                    ("hp_rate_hz", "10"),
                    ("be_rate_hz", &others),
                ];
                out += &row(COLUMNS, &with(&values));
            }
        }
    }
    out
}

fn crowd(table: &str) -> Crowd {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fig7b.csv");
    fs::write(&path, table).unwrap();
    Crowd::of(&records::read(&path, "fig7b").unwrap()).unwrap()
}

fn says(picture: &Picture, wanted: &str) -> bool {
    let is_it = |s: &Shape| matches!(s, Shape::Text(t) if t.content.contains(wanted));
    picture.shapes.iter().any(is_it)
}

fn lines(picture: &Picture) -> usize {
    picture.shapes.iter().filter(|s| matches!(s, Shape::Line { from, to, .. } if from != to)).count()
}

#[test]
fn a_crowd_is_drawn_with_the_numbers_of_its_table() {
    let whole = crowd(&crowd_table());
    let picture = crowd::picture(&whole).unwrap();
    assert_readable("crowd", &picture);
    assert!(picture.title.contains("SIMULATED (synthetic model)") && says(&picture, "load 0.1 each"));
    // Tally stands before the gate, as in every figure.
    let csv = crowd::csv(&whole);
    let first = csv.lines().nth(1).unwrap();
    assert!(
        first.starts_with("sim,synthetic,bert-infer,0.1,tally,independent,1,1,0,false,2400,4,4.001,"),
        "{first}"
    );
    // Ten servers of 10 requests a second.
    let last = csv.lines().last().unwrap();
    assert!(last.contains(",gate,coinciding,10,") && last.ends_with(",6000,6000,6000,6000"), "{last}");
    assert_eq!(csv.lines().count(), 1 + 12);
}

#[test]
fn a_lost_cell_of_a_crowd_breaks_its_line() {
    let table = crowd_table();
    let lost: String = table
        .lines()
        .map(|line| {
            let is_it = line.contains(",tally,") && line.ends_with(",2,independent,,");
            let line = if is_it {
                line.replace(",ok,", ",failed,").replace(",4002000,", ",,")
            } else {
                line.to_owned()
            };
            line + "\n"
        })
        .collect();
    let (whole, broken) = (crowd::picture(&crowd(&table)).unwrap(), crowd::picture(&crowd(&lost)).unwrap());
    // Two pieces less in each of the two plots.
    assert_eq!(lines(&whole) - lines(&broken), 4);
    assert!(says(&broken, "1 cells failed") && says(&broken, "INCOMPLETE RUN"));
    assert!(crowd::csv(&crowd(&lost)).contains("tally,independent,2,0,1,false,,4,,,,1200,,,"));
}

#[test]
fn an_overloaded_cell_of_a_crowd_is_hollow() {
    let table = crowd_table();
    let at = COLUMNS.split_whitespace().position(|column| column == "overloaded").unwrap();
    let overloaded: String = table
        .lines()
        .map(|line| {
            let mut fields: Vec<&str> = line.split(',').collect();
            if line.contains(",tally,") && line.ends_with(",10,coinciding,,") {
                fields[at] = "true";
            }
            fields.join(",") + "\n"
        })
        .collect();
    let (plain, marked) = (crowd(&table), crowd(&overloaded));
    assert!(crowd::csv(&marked).contains("tally,coinciding,10,1,0,true,2400,"), "{}", crowd::csv(&marked));
    assert!(!crowd::csv(&plain).contains(",true,"));
    let (plain, marked) = (crowd::picture(&plain).unwrap(), crowd::picture(&marked).unwrap());
    assert!(!says(&plain, "Hollow: overloaded") && says(&marked, "Hollow: overloaded"));
    // A white middle in each of the two plots.
    assert_eq!(marked.shapes.len(), plain.shapes.len() + 2 + notes_more(&plain, &marked));
}

/// Lines of text that the second has more.
fn notes_more(a: &Picture, b: &Picture) -> usize {
    let texts = |p: &Picture| p.shapes.iter().filter(|s| matches!(s, Shape::Text(_))).count();
    texts(b) - texts(a)
}

#[test]
fn both_panels_of_a_figure_are_drawn_when_both_are_there() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("fig7a.csv"), common::FIG7A).unwrap();
    let ids = ["fig7".to_owned()];
    assert_eq!(draw(dir.path(), &ids, false).unwrap().len(), 3);
    fs::write(dir.path().join("fig7b.csv"), crowd_table()).unwrap();
    let paths = draw(dir.path(), &ids, false).unwrap();
    assert!(paths.iter().any(|path| path.ends_with("figures/fig7-b.csv")), "{paths:?}");
    let path = dir.path().join("fig7a.csv");
    let grid = figures::grid::Grid::of(&records::read(&path, "fig7a").unwrap()).unwrap();
    let (alone, both) =
        (fig7a::picture(&grid, None).unwrap(), fig7a::picture(&grid, Some(&crowd(&crowd_table()))).unwrap());
    assert!(says(&alone, "run the experiment fig7b") && !says(&both, "run the experiment fig7b"));
    assert!(says(&both, "Scalability (b)") && says(&both, "SYNTHETIC test data"));
}

/// A minute of two systems; the second latency interval of the gate has no requests.
fn timeline_run(change: impl Fn(String) -> String) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let cell = |kind, system, training, more: &[(&str, &str)]| {
        let base = [("experiment", "fig6a"), ("kind", kind), ("system", system), ("training", training)];
        row(COLUMNS, &with(&[&base[..], more].concat()))
    };
    let table = header(COLUMNS)
        + &cell("solo-stream", "no-sharing", "", &[("hp_rate_hz", "700")])
        + &cell("solo-training", "no-sharing", "bert-train", &[("be_rate_hz", "5")])
        + &cell("timeline", "gate", "bert-train", &[("trace", "MAF2 excerpt")])
        + &cell("timeline", "tally", "bert-train", &[("trace", "MAF2 excerpt")]);
    fs::write(dir.path().join("fig6a.csv"), table).unwrap();
    let columns = timeline::COLUMNS;
    let mut series = header(columns);
    let mut push = |system: &str, name: &str, length: u64, numbers: &[(u64, &str)]| {
        for (k, (n, value)) in (0u64..).zip(numbers) {
            let (start, end) = (k * length * 1_000_000_000, (k + 1) * length * 1_000_000_000);
            let texts = [start.to_string(), end.to_string(), n.to_string()];
            let values = [
                ("experiment", "fig6a"),
                ("key", "0"),
                ("backend", "sim"),
                ("machine", "synthetic"),
                ("kind", "timeline"),
                ("system", system),
                ("series", name),
                ("start_ns", &texts[0]),
                ("end_ns", &texts[1]),
                ("n", &texts[2]),
                ("value", value),
            ];
            series += &row(columns, &values);
        }
    };
    push("no-sharing", "arrival_rate_hz", 30, &[(300, "10"), (0, "0")]);
    push("no-sharing", "service_p99_ns", 20, &[(200, "4e6"), (150, "4e6"), (90, "4e6")]);
    push("gate", "service_p99_ns", 20, &[(200, "5e6"), (0, ""), (90, "6e6")]);
    push("tally", "service_p99_ns", 20, &[(200, "4.5e6"), (150, "4.5e6"), (90, "4.5e6")]);
    push("gate", "be_rate_hz", 30, &[(90, "3"), (120, "4")]);
    push("tally", "be_rate_hz", 30, &[(60, "2"), (60, "2")]);
    fs::write(dir.path().join("fig6a-series.csv"), change(series)).unwrap();
    dir
}

fn timeline(run: &Path) -> anyhow::Result<Timeline> {
    let entry = find("timeline").unwrap();
    Timeline::of(&Inputs::read(run, entry, false).unwrap(), entry.records[0])
}

#[test]
fn a_timeline_breaks_where_there_was_no_request() {
    let dir = timeline_run(|series| series);
    let t = timeline(dir.path()).unwrap();
    let picture = timeline::picture(&t).unwrap();
    assert_readable("timeline", &picture);
    // Two pieces alone and of Tally, none of the gate; one of each system's progress.
    assert_eq!(lines(&picture), 2 + 2 + 2);
    assert!(picture.title.contains("SIMULATED") && says(&picture, "the server alone serves 700 a second"));
    let csv = timeline::csv(&t);
    assert!(csv.contains("service_p99,ms,gate,20,40,0,\n"), "{csv}");
    assert!(
        csv.contains("arrivals,1/s,,30,60,0,0\n")
            && csv.contains("iterations_alone,1/s,no-sharing,0,60,1,5\n")
    );
    draw(dir.path(), &["fig6a".to_owned()], false).unwrap();
}

#[test]
fn a_series_that_cannot_be_is_refused() {
    for (from, to, wanted) in [
        (",20000000000,200,", ",0,200,", "`end_ns`"),
        (",synthetic,", ",another,", "`machine`"),
        (",300,10\n", ",300,-10\n", "value `-10` is not a finite number >= 0"),
        (",series,", ",serie,", "unknown columns [serie]"),
        (",tally,", ",magic,", "unknown system `magic`"),
    ] {
        let dir = timeline_run(|series| {
            assert!(series.contains(from), "{from}");
            series.replace(from, to)
        });
        let error = format!("{:#}", timeline(dir.path()).unwrap_err());
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn a_system_without_a_series_is_named() {
    let dir = timeline_run(|series| {
        series.lines().filter(|line| !line.contains(",tally,")).map(|line| format!("{line}\n")).collect()
    });
    let picture = timeline::picture(&timeline(dir.path()).unwrap()).unwrap();
    assert!(says(&picture, "No numbers (the cell failed or was skipped): tally."));
}

fn recorded_run() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let base = [("experiment", "fig8"), ("gpu", "a GPU"), ("status", "ok")];
    let mut durations = header(DURATIONS);
    let mut turnaround = header(TURNAROUND);
    for training in ["whisper-train", "bert-train"] {
        let job = [&base[..], &[("training", training)]].concat();
        for (lower, upper, launches, share, ns, time) in [
            ("0", "100000", "75", "0.75", "1e6", "0.25"),
            ("100000", "10000000", "25", "0.25", "3e6", "0.75"),
            ("10000000", "", "0", "0", "0", "0"),
        ] {
            let more = [
                ("lower_ns", lower),
                ("upper_ns", upper),
                ("launches", launches),
                ("launch_share", share),
                ("time_ns", ns),
                ("time_share", time),
            ];
            durations += &row(DURATIONS, &[&job[..], &more[..]].concat());
        }
        for (granularity, origin, mean, max) in [
            ("iteration", "recorded", "2.5e6", ""),
            ("kernel", "recorded", "4e4", "9e4"),
            ("block", "derived", "5e3", "1e4"),
        ] {
            let more = [
                ("granularity", granularity),
                ("origin", origin),
                ("pieces", "10"),
                ("piece_mean_ns", "1e4"),
                ("turnaround_mean_ns", mean),
                ("turnaround_p99_ns", "8e6"),
                ("turnaround_max_ns", max),
                ("idle_share", "0.2"),
            ];
            turnaround += &row(TURNAROUND, &[&job[..], &more[..]].concat());
        }
    }
    let lost = [
        ("experiment", "fig8"),
        ("training", "gpt2-large-train"),
        ("status", "failed"),
        ("error", "no profile"),
    ];
    turnaround += &row(TURNAROUND, &lost);
    fs::write(dir.path().join("fig8-durations.csv"), durations).unwrap();
    fs::write(dir.path().join("fig8-turnaround.csv"), turnaround).unwrap();
    dir
}

#[test]
fn what_was_recorded_does_not_say_that_it_was_simulated() {
    let dir = recorded_run();
    let entry = find("fig8").unwrap();
    let durations =
        Durations::of(&Inputs::read(dir.path(), entry, false).unwrap(), entry.records[0]).unwrap();
    let picture = recorded::picture(&durations).unwrap();
    assert_readable("fig8", &picture);
    assert!(
        picture.title.contains("Recorded on a GPU, not simulated") && !picture.title.contains("SIMULATED")
    );
    assert!(says(&picture, "No kernel of these jobs takes over 10 ms."));
    // BERT before Whisper, and exactly the shares drawn.
    let csv = recorded::csv(&durations);
    assert_eq!(csv.lines().nth(1).unwrap(), "a GPU,false,bert-train,0,0.1,75,75,1,25");
    assert!(says(&picture, "75") && says(&picture, "25"));
}

#[test]
fn turnaround_is_a_table_of_granularities() {
    let dir = recorded_run();
    draw(dir.path(), &["table1".to_owned()], false).unwrap();
    let markdown = fs::read_to_string(dir.path().join("tables/table1.md")).unwrap();
    let bert = "| bert | 2.50 | 8.00 | 0.0400 | 8.00 | 0.0900 | 0.00500 | 8.00 | 0.0100 | 20.0 % |";
    assert!(markdown.contains(bert), "{markdown}");
    assert!(
        markdown.contains("not simulated · INCOMPLETE") && markdown.contains("gpt2-large-train: no profile")
    );
    let csv = fs::read_to_string(dir.path().join("tables/table1.csv")).unwrap();
    assert!(csv.contains("a GPU,false,bert-train,block,derived,10,0.01,0.005,8,0.01,0.2\n"), "{csv}");
    assert!(csv.contains("bert-train,iteration,recorded,10,0.01,2.5,8,,0.2\n"), "{csv}");
}
