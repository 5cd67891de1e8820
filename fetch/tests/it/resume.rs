//! Going on where a connection ended, and starting over where that would mix two files.

use crate::bench::{Bench, FILE, rows, settings};
use crate::server::{Answer, Server};
use fetch::Settings;
use std::fs;

const SIZE: usize = 20_000;

fn ranges(server: &Server) -> Vec<(String, String)> {
    server.asked().iter().map(|a| (a.header("range").to_owned(), a.header("if-range").to_owned())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn a_cut_download_goes_on_with_the_validator() {
    for (header, value) in [("ETag", "\"one\""), ("Last-Modified", "Tue, 02 Feb 2021 00:00:00 GMT")] {
        let data = rows(SIZE);
        let server = Server::start();
        let cut = |at| Answer { cut_after: Some(at), ..Answer::ok(&data).header(header, value) };
        // More cuts than attempts are allowed without progress.
        server.answer(
            "x",
            [cut(5000), cut(5000), cut(3000), cut(2000), Answer::ok(&data).header(header, value)],
        );
        let bench = Bench::new(&data, &[server.url("x")]);
        assert_eq!(bench.fetch(), format!("ok: {}", server.url("x")));
        assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
        assert_eq!(bench.disk().len(), 1);
        let expected = [
            ("", ""),
            ("bytes=5000-", value),
            ("bytes=10000-", value),
            ("bytes=13000-", value),
            ("bytes=15000-", value),
        ];
        assert_eq!(ranges(&server), pairs(&expected));
    }
}

#[test]
fn a_later_run_goes_on_where_the_earlier_one_ended() {
    let data = rows(SIZE);
    let server = Server::start();
    // Without a validator the digest alone decides.
    server.answer(
        "x",
        [Answer { cut_after: Some(9000), ..Answer::ok(&data) }, Answer::status("503 Service Unavailable")],
    );
    let bench = Bench::new(&data, &[server.url("x")]);
    assert!(bench.fetch().contains("503"));
    assert_eq!(bench.disk(), ["trace.txt.part 9000"]);
    server.asked();
    server.answer("x", [Answer::ok(&data)]);
    assert!(bench.fetch().starts_with("ok: "));
    assert_eq!(ranges(&server), pairs(&[("bytes=9000-", "")]));
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
}

#[test]
fn a_place_without_ranges_starts_over() {
    let data = rows(SIZE);
    let server = Server::start();
    let whole = Answer { ranges: false, ..Answer::ok(&data) };
    server.answer("x", [Answer { cut_after: Some(9000), ..whole.clone() }, whole]);
    let bench = Bench::new(&data, &[server.url("x")]);
    assert!(bench.fetch().starts_with("ok: "));
    assert_eq!(ranges(&server), pairs(&[("", ""), ("bytes=9000-", "")]));
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
}

#[test]
fn a_file_that_changed_is_not_mixed() {
    let (old, data) = (vec![b'o'; SIZE], rows(SIZE));
    let server = Server::start();
    let url = server.url("x");
    // Told by the validator: the server sends the whole new file.
    let first = Answer { cut_after: Some(9000), ..Answer::ok(&old).header("ETag", "\"old\"") };
    server.answer("x", [first, Answer::ok(&data).header("ETag", "\"new\"")]);
    let bench = Bench::new(&data, std::slice::from_ref(&url));
    assert_eq!(bench.fetch(), format!("ok: {url}"));
    assert_eq!(ranges(&server), pairs(&[("", ""), ("bytes=9000-", "\"old\"")]));
    // A weak ETag promises nothing and isn't used; the digest tells, and the file comes once more in one piece.
    let first = Answer { cut_after: Some(9000), ..Answer::ok(&old).header("ETag", "W/\"1\"") };
    server.answer("x", [first, Answer::ok(&data)]);
    let bench = Bench::new(&data, std::slice::from_ref(&url));
    assert_eq!(bench.fetch(), format!("ok: {url}"));
    assert_eq!(ranges(&server), pairs(&[("", ""), ("bytes=9000-", ""), ("", "")]));
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
}

#[test]
fn a_wrong_rest_is_refused_and_the_file_comes_again() {
    let data = rows(SIZE);
    let server = Server::start();
    let cut = Answer { cut_after: Some(9000), ..Answer::ok(&data) };
    let wrong = Answer::ok(&data).header("Content-Range", "bytes 0-19999/20000");
    server.answer("x", [cut, wrong, Answer::ok(&data)]);
    let bench = Bench::new(&data, &[server.url("x")]);
    assert!(bench.fetch().starts_with("ok: "));
    assert_eq!(ranges(&server), pairs(&[("", ""), ("bytes=9000-", ""), ("", "")]));
}

#[test]
fn another_place_starts_over_and_a_changing_one_comes_to_an_end() {
    let data = rows(SIZE);
    let server = Server::start();
    server.answer("a", [Answer { ranges: false, cut_after: Some(9000), ..Answer::ok(&data) }]);
    server.answer("b", [Answer::ok(&data)]);
    let bench = Bench::new(&data, &[server.url("a"), server.url("b")]);
    assert_eq!(bench.fetch(), format!("ok: {}", server.url("b")));
    let asked = server.asked();
    assert!(asked.last().unwrap().target == "/b" && asked.last().unwrap().header("range").is_empty());
    // Halves that never fit: started over once, then given up.
    let other = Answer::ok(&vec![b'o'; SIZE]);
    server.answer("x", [Answer { cut_after: Some(9000), ..other.clone() }, other]);
    let bench = Bench::new(&data, &[server.url("x")]);
    assert!(bench.fetch().contains("wrong digest"));
    assert_eq!(server.asked().len(), 3);
    assert!(bench.disk().is_empty(), "{:?}", bench.disk());
}

#[test]
fn a_server_may_ask_for_a_pause() {
    let data = rows(SIZE);
    let server = Server::start();
    let busy = Answer::status("429 Too Many Requests").header("Retry-After", "1");
    server.answer("x", [busy, Answer::ok(&data)]);
    let mut bench = Bench::new(&data, &[server.url("x")]);
    bench.fetcher.settings = Settings { attempts: 2, ..settings() };
    let began = std::time::Instant::now();
    assert!(bench.fetch().starts_with("ok: "));
    assert!(began.elapsed().as_millis() >= 1000);
}
