//! Tables that must not become a figure, and what the refusal says.

mod common;

use common::{Table, run_with};
use figures::draw;

fn refusal(table: &str, partial: bool) -> String {
    let dir = run_with(table);
    let error = draw(dir.path(), &[], partial).expect_err("must be refused");
    assert!(!dir.path().join("figures").exists(), "nothing may be written");
    format!("{error:#}")
}

/// The message names all of this.
fn names(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn unknown_and_missing_columns() {
    let mut table = Table::fig5();
    let at = table.header.iter().position(|h| h == "hp_norm").unwrap();
    table.header[at] = "hp_norm_pct".to_owned();
    names(
        &refusal(&table.csv(), false),
        &["fig5.csv, line 1", "unknown columns [hp_norm_pct]", "missing columns [hp_norm]", "next:"],
    );
}

#[test]
fn bad_values_name_file_line_column_and_value() {
    for (column, value, why) in [
        ("upstream_p99_ms", "fast", "is not a number"),
        ("upstream_p99_ms", "0", "not greater than 0"),
        ("service_p99_ns", "inf", "not a finite number"),
        ("hp_norm", "-0.1", "not a finite number >= 0"),
        ("upstream_n", "38.5", "not a whole number"),
        ("kind", "duet", "not one of"),
        ("status", "fine", "not one of"),
        ("overloaded", "yes", "not one of"),
        ("backend", "cpu", "not one of"),
        ("experiment", "fig6", "is not `fig5`"),
        ("system_throughput", "1.999", "contradicts"),
        ("p99_overhead", "0.5", "contradicts"),
        ("e2e_p90_ns", "x", "is not a number"),
        ("training", "", "is missing"),
        ("machine", "", "is missing"),
    ] {
        let mut table = Table::fig5();
        table.set(4, column, value);
        let message = refusal(&table.csv(), true);
        names(&message, &["fig5.csv", "line 6", &format!("`{column}`"), &format!("`{value}`"), why, "next:"]);
    }
}

#[test]
fn a_pair_must_not_stand_twice() {
    let mut table = Table::fig5();
    let copy = table.rows[5].clone();
    table.rows.push(copy);
    names(&refusal(&table.csv(), true), &["line 100", "line 7", "next:"]);
}

#[test]
fn one_picture_has_one_load_and_one_machine() {
    let mut table = Table::fig5();
    table.set(9, "load", "0.3");
    names(&refusal(&table.csv(), true), &["line 11", "`load`", "`0.3`", "`0.5`", "next:"]);
    let mut table = Table::fig5();
    table.set(9, "backend", "gpu");
    names(&refusal(&table.csv(), true), &["line 11", "Gpu synthetic", "next:"]);
}

#[test]
fn an_unknown_system_is_not_drawn_in_some_colour() {
    let mut table = Table::fig5();
    table.set(9, "system", "magic");
    names(&refusal(&table.csv(), true), &["fig5", "`magic`", "runtime/sched/src"]);
}

#[test]
fn an_incomplete_run_needs_partial() {
    let mut table = Table::fig5();
    table.lose(6, "failed", "out of memory");
    names(&refusal(&table.csv(), false), &["incomplete", "line 8", "out of memory", "--partial"]);
    draw(run_with(&table.csv()).path(), &[], true).unwrap();

    let mut table = Table::fig5();
    table.set(6, "upstream_p99_ms", "");
    table.set(6, "p99_overhead", "");
    names(&refusal(&table.csv(), false), &["incomplete", "line 8", "no upstream_p99_ms", "--partial"]);
    draw(run_with(&table.csv()).path(), &[], true).unwrap();
}

#[test]
fn a_skipped_pair_is_no_gap() {
    let mut table = Table::fig5();
    table.lose(6, "skipped", "does not fit in memory");
    draw(run_with(&table.csv()).path(), &[], false).unwrap();
}

#[test]
fn nothing_to_draw_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    names(&format!("{:#}", draw(dir.path(), &[], false).unwrap_err()), &["no table", "next:"]);
    let absent = dir.path().join("absent");
    names(&format!("{:#}", draw(&absent, &[], false).unwrap_err()), &["no run folder", "next:"]);
    let wanted = ["fig5".to_owned()];
    names(
        &format!("{:#}", draw(dir.path(), &wanted, false).unwrap_err()),
        &["cannot read", "fig5.csv", "next:"],
    );
    let unknown = ["fig99".to_owned()];
    names(
        &format!("{:#}", draw(dir.path(), &unknown, false).unwrap_err()),
        &["`fig99`", "end-to-end", "pairs"],
    );
    let only_solo = FIG5_HEAD.lines().take(2).collect::<Vec<_>>().join("\n") + "\n";
    names(&refusal(&only_solo, false), &["no rows of kind `pair`", "next:"]);
}

const FIG5_HEAD: &str = common::FIG5;

#[test]
fn a_row_that_is_too_long_or_a_half_written_one_is_refused() {
    let long = common::FIG5.trim_end().to_owned() + ",1,2,3\n";
    names(&refusal(&long, true), &["fig5.csv"]);
    // Cut in the middle of the last row: what is left of it has no numbers at its end.
    let half = &common::FIG5[..common::FIG5.len() - 60];
    names(&refusal(half, false), &["fig5.csv"]);
}
