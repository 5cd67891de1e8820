//! Inputs that are wrong, and what is said about them.

use traces::maf2::{Trace, read};
use traces::rows::{BadRows, MAX_LISTED};

const HEADER: &str = "app,func,end_timestamp,duration";

fn bad_rows(text: &str) -> BadRows {
    read("t.csv", text.as_bytes()).unwrap_err().downcast_ref::<BadRows>().expect("an error of rows").clone()
}

fn rows(rows: &[(&str, &str)]) -> String {
    let rows: String = rows.iter().map(|(end, duration)| format!("a,f,{end},{duration}\n")).collect();
    format!("{HEADER}\n{rows}")
}

fn good(text: &str) -> Trace {
    read("t.csv", text.as_bytes()).unwrap()
}

#[test]
fn starts_before_the_trace_and_bad_numbers() {
    let bad =
        bad_rows(&rows(&[("5.0", "9.0"), ("5.0", "5.0"), ("5.0", "-1"), ("NaN", "1"), ("5.0", "1e400")]));
    assert_eq!((bad.kept, bad.left_out_before_start, bad.total), (1, 1, 3));
    let text = "\
t.csv: 3 bad rows (1 kept, 1 left out)
  t.csv: line 4: column duration is negative: \"-1\"
  t.csv: line 5: column end_timestamp is not a decimal number: \"NaN\"
  t.csv: line 6: column duration has an exponent, but plain decimal seconds are expected: \"1e400\"";
    assert_eq!(bad.to_string(), text);

    let trace = good(&rows(&[("5.0", "9.0"), ("5.0", "5.0")]));
    assert_eq!((trace.report.kept, trace.report.left_out_before_start), (1, 1));
    assert_eq!(trace.functions[0].starts_ns, [0]);
    assert_eq!(trace.functions[0].rows, 2);
    assert!(trace.report.to_string().contains("1 kept, 1 left out (running when the trace began)"));
}

#[test]
fn equal_rows_are_two_requests() {
    let trace = good(&rows(&[("7.5", "2.5"), ("7.5", "2.5"), ("5", "0"), ("9", "4")]));
    // Four requests at 5 s; the last two have other durations, so they repeat nothing.
    assert_eq!(trace.functions[0].starts_ns, [5_000_000_000; 4]);
    assert_eq!(trace.report.exact_repeats, 1);
}

#[test]
fn most_rows_first_seen_wins_a_tie() {
    let trace = good(&format!("{HEADER}\nb,f,9,0\na,f,1,0\na,f,2,0\nb,f,8,0\na,g,1,0\n"));
    assert_eq!(trace.report.functions, 3);
    assert_eq!(trace.most_frequent().unwrap().app, "b");
    // The same func in two apps is two functions, and ids may look like numbers.
    let trace = good(&format!("{HEADER}\n1,f,9,0\n1,g,1,0\n2,f,1,0\n1,g,3,0\n"));
    assert_eq!((trace.report.functions, trace.report.apps), (3, 2));
    assert_eq!(trace.most_frequent().unwrap().func, "g");
}

#[test]
fn line_numbers_are_physical() {
    let text = format!("\u{feff}{HEADER}\r\n\r\na,f,1,0\r\na,f,2\r\na,f,3,0");
    let bad = bad_rows(&text);
    assert_eq!((bad.kept, bad.total), (2, 1));
    let text = "\
t.csv: 1 bad row (2 kept, 0 left out)
  t.csv: line 4: column duration is missing (the row has 3 fields, the header 4): \"a,f,2\"";
    assert_eq!(bad.to_string(), text);
}

#[test]
fn blank_lines_and_missing_line_feed_are_fine() {
    let trace = good(&format!("\u{feff}\n{HEADER}\n\n\r\na,f,1,0\n   \nb,f, 2 ,0.5 \r\n\n\n"));
    assert_eq!((trace.report.rows, trace.report.kept), (2, 2));
    assert_eq!(trace.functions[1].starts_ns, [1_500_000_000]);
    assert_eq!(good(&format!("{HEADER}\na,f,1,0")).report.kept, 1);
}

#[test]
fn too_many_fields_empty_ids_and_other_clocks() {
    let bad = bad_rows(&format!("{HEADER}\na,f,1,0,9\n,f,1,0\na,,1,0\na,f,,0\na,f,1700000000.5,0.5\n"));
    let listed: Vec<String> = bad.listed.iter().map(ToString::to_string).collect();
    assert_eq!(
        listed[0],
        "line 2: column duration is followed by more (the row has 5 fields, the header 4): \"a,f,1,0,9\""
    );
    assert_eq!(listed[1], "line 3: column app is empty: \"\"");
    assert_eq!(listed[2], "line 4: column func is empty: \"\"");
    assert_eq!(listed[3], "line 5: column end_timestamp is empty: \"\"");
    assert!(listed[4].contains("column end_timestamp is 1e9 s or more, so it is not on the trace's clock"));
    assert!(listed[4].ends_with("\"1700000000.5\""));
}

#[test]
fn many_errors_are_counted_and_the_first_listed() {
    let mut text = format!("{HEADER}\n");
    (0..1000).for_each(|i| text.push_str(&format!("a,f,{},x{i}\n", i)));
    let bad = bad_rows(&text);
    assert_eq!((bad.total, bad.listed.len()), (1000, MAX_LISTED));
    assert!(bad.to_string().ends_with("\n  and 980 more"));
    assert_eq!(bad.to_string().lines().count(), 22);
}

#[test]
fn texts_are_shown_short_and_printable() {
    let text = format!("{HEADER}\na,f,\u{1b}[31m{},0\n", "9".repeat(500));
    let shown = &bad_rows(&text).listed[0].text;
    assert!(shown.starts_with("\\u{1b}[31m999") && shown.ends_with("...") && shown.len() < 100, "{shown}");
    let invalid = [HEADER.as_bytes(), b"\na,f,\xff\xfe,0\n"].concat();
    assert!(read("t.csv", invalid.as_slice()).unwrap_err().to_string().contains("is not a decimal number"));
}

#[test]
fn other_formats_are_refused_by_name() {
    let error = |text: &str| format!("{:#}", read("t.csv", text.as_bytes()).unwrap_err());
    let text = error("HashOwner,HashApp,HashFunction,Trigger,1,2,3\nx,y,z,http,0,0,1\n");
    assert!(text.contains("t.csv: line 1: this is the Azure Functions 2019 format"), "{text}");
    assert!(error("Rar!\u{1a}\u{7}\u{1}\n").contains("RAR archive"));
    assert!(
        error("app,func,duration,end_timestamp\n").contains("instead of app,func,end_timestamp,duration")
    );
    assert_eq!(error(""), "t.csv is empty");
    assert_eq!(error("\n\r\n"), "t.csv is empty");
    assert!(
        error(&format!("{HEADER}\n{}", "x".repeat(100_000))).contains("line 2 has more than 65536 bytes")
    );
}

#[test]
fn missing_file_is_named() {
    let error = traces::maf2::read_path("no/such/trace.txt".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "can't open the trace no/such/trace.txt");
}
