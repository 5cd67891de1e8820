//! The table: what a place answers, what is said of it, and what is on the disk afterwards.

use crate::bench::{Bench, rows};
use crate::server::{Answer, Server};
use std::path::Path;
use std::time::{Duration, Instant};

const SIZE: usize = 20_000;

struct Case {
    answer: &'static str,
    message: &'static str,
    disk: &'static [&'static str],
    /// How often the place is asked.
    asked: usize,
}

const CASES: [Case; 20] = [
    Case {
        answer: "404",
        message: "404 Not Found: the file is no longer at this place",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "403",
        message: "403 Forbidden: this place wants a log-in or refuses this network",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "503",
        message: "503 Service Unavailable: the server has trouble of its own, try later",
        disk: &[],
        asked: 3,
    },
    Case {
        answer: "302 to a 404",
        message: "404 Not Found: the file is no longer at this place",
        disk: &[],
        asked: 1,
    },
    Case { answer: "302 in a circle", message: "bad redirection: ", disk: &[], asked: 11 },
    Case { answer: "302 to nowhere", message: "bad redirection: 302 Found to nowhere", disk: &[], asked: 1 },
    Case {
        answer: "HTML",
        message: "an HTML page instead of data (its title: \"Page not found\")",
        disk: &[],
        asked: 1,
    },
    Case { answer: "HTML by its type", message: "an HTML page instead of data", disk: &[], asked: 1 },
    Case {
        answer: "pointer file",
        message: "a Git LFS pointer instead of data: this place has only the name of the file",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "gzip, declared",
        message: "a re-encoded body (Content-Encoding: gzip) instead of the file as it is: the server or a proxy changes it",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "gzip, undeclared",
        message: "a re-encoded body (gzip, which it doesn't say) instead of the file as it is",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "other length",
        message: "wrong size: the server announces 19999 bytes instead of 20000",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "longer, without a length",
        message: "wrong size: more than the 20000 bytes of the file",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "one byte changed",
        message: "wrong digest: right size, but sha256 ",
        disk: &[],
        asked: 1,
    },
    Case {
        answer: "cut at half, always, no ranges",
        message: "truncated: the connection ended after 10000 of 20000 bytes",
        disk: &["trace.txt.part 10000"],
        asked: 3,
    },
    Case {
        answer: "cut, without a length, no ranges",
        message: "truncated: the connection ended after 10000 of 20000 bytes",
        disk: &["trace.txt.part 10000"],
        asked: 3,
    },
    Case {
        answer: "stall in the body, no ranges",
        message: "stalled: nothing came for 0.4 s, after 10000 of 20000 bytes",
        disk: &["trace.txt.part 10000"],
        asked: 3,
    },
    Case {
        answer: "stall before the body",
        message: "stalled: nothing came for 0.4 s, after 0 of 20000 bytes",
        disk: &[],
        asked: 3,
    },
    Case { answer: "nobody listens", message: "no connection: ", disk: &[], asked: 0 },
    Case { answer: "206 to no range", message: "206 Partial Content", disk: &[], asked: 1 },
];

fn answer(server: &Server, name: &str, data: &[u8]) -> Answer {
    let page = "<!doctype html>\n<html><title>Page not found</title><p>Gone.";
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:d56368ef\nsize 20000\n";
    let mut changed = data.to_vec();
    changed[12_345] ^= 1;
    let gzip = [&[0x1f, 0x8b, 8, 0], &data[4..]].concat();
    let broken = Answer { ranges: false, ..Answer::ok(data) };
    match name {
        "404" => Answer::status("404 Not Found"),
        "403" => Answer::status("403 Forbidden"),
        "503" => Answer::status("503 Service Unavailable").header("Retry-After", "0"),
        "302 to a 404" => Answer::status("302 Found").header("Location", "/moved"),
        "302 in a circle" => Answer::status("302 Found").header("Location", "/x"),
        "302 to nowhere" => Answer::status("302 Found"),
        "HTML" => Answer::ok(page.as_bytes()),
        "HTML by its type" => Answer::ok(b"Gone.").header("Content-Type", "text/html; charset=utf-8"),
        "pointer file" => Answer::ok(pointer.as_bytes()).header("Content-Type", "text/plain"),
        "gzip, declared" => Answer::ok(&gzip).header("Content-Encoding", "gzip"),
        "gzip, undeclared" => Answer::ok(&gzip),
        "other length" => Answer::ok(&data[1..]),
        "longer, without a length" => Answer { no_length: true, ..Answer::ok(&[data, b"x"].concat()) },
        "one byte changed" => Answer::ok(&changed),
        "cut at half, always, no ranges" => Answer { cut_after: Some(10_000), ..broken },
        "cut, without a length, no ranges" => Answer { cut_after: Some(10_000), no_length: true, ..broken },
        "stall in the body, no ranges" => Answer { stall_after: Some(10_000), ..broken },
        "stall before the body" => Answer { stall_after: Some(0), ..broken },
        "206 to no range" => Answer { status: "206 Partial Content", ..broken },
        "nobody listens" => broken,
        _ => panic!("{name} for {}", server.url("x")),
    }
}

/// How the page shows what is on the disk.
fn documented(disk: &[&str]) -> &'static str {
    if disk.is_empty() { "nothing" } else { "`.part`, for the next run" }
}

#[test]
fn every_fault_has_its_message_and_leaves_nothing_under_the_final_name() {
    let data = rows(SIZE);
    let began = Instant::now();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/FETCH.md");
    let page = std::fs::read_to_string(page).unwrap();
    println!("| answer | message | on the disk | asked |\n| --- | --- | --- | --- |");
    for case in &CASES {
        let server = Server::start();
        server.answer("x", [answer(&server, case.answer, &data)]);
        let url = if case.answer == "nobody listens" {
            // Port 9 of this machine: nothing of ours or of Debian's listens there.
            "http://127.0.0.1:9/x".to_owned()
        } else {
            server.url("x")
        };
        let bench = Bench::new(&data, std::slice::from_ref(&url));
        let message = bench.fetch();
        let head = format!("no place has it:\n  1. {url}: {}", case.message);
        assert!(message.starts_with(&head), "{}: {message}", case.answer);
        assert!(
            message.ends_with("bring the file yourself: cargo xtask fetch trace --from FILE"),
            "{message}"
        );
        assert_eq!(bench.disk(), case.disk, "{}", case.answer);
        let asked = server.asked().iter().filter(|asked| asked.target == "/x").count();
        assert_eq!(asked, case.asked, "{}", case.answer);
        let shown = message.lines().nth(1).unwrap_or_default().replace(&format!("  1. {url}: "), "");
        println!("| {} | {shown} | {} | {asked} |", case.answer, case.disk.join(", "));
        let row = format!("| {} | {} | {} |\n", case.answer, case.message.trim_end(), documented(case.disk));
        assert!(page.contains(&row), "docs/FETCH.md lacks this row, which the test has shown:\n{row}");
        // The same folder serves a later try at a place that works.
        server.answer("x", [Answer::ok(&data)]);
        if case.asked > 0 {
            assert_eq!(bench.fetch(), format!("ok: {url}"), "{}", case.answer);
            assert_eq!(bench.disk(), ["trace.txt 20000"]);
        }
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
