//! Places in their order, what is already there, and other processes.

use crate::bench::{Bench, FILE, rows};
use crate::server::{Answer, Server};
use std::fs;

#[test]
fn dead_links_are_passed_over_and_redirects_followed() {
    let data = rows(20_000);
    let server = Server::start();
    let elsewhere = Server::start();
    server.answer("second", [Answer::status("302 Found").header("Location", &elsewhere.url("third"))]);
    elsewhere.answer("third", [Answer::ok(&data)]);
    let bench = Bench::new(&data, &[server.url("first"), server.url("second")]);
    assert_eq!(bench.fetch(), format!("ok: {}", server.url("second")));
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
    assert_eq!(elsewhere.asked().len(), 1);
    // There and verified: nothing is asked again.
    server.asked();
    assert_eq!(bench.fetch(), "present");
    assert!(server.asked().is_empty());
}

#[test]
fn when_all_places_are_dead_each_has_its_status_in_the_message() {
    let data = rows(20_000);
    let server = Server::start();
    server.answer("second", [Answer::status("302 Found").header("Location", "/third")]);
    let bench = Bench::new(&data, &[server.url("first"), server.url("second"), server.url("fourth")]);
    let message = bench.fetch();
    for (number, path) in [(1, "first"), (2, "second"), (3, "fourth")] {
        assert!(message.contains(&format!("{number}. {}: 404 Not Found", server.url(path))), "{message}");
    }
    assert!(message.contains("--from FILE"), "{message}");
    assert!(bench.disk().is_empty());
}

#[test]
fn no_place_is_asked_for_anything_but_the_file_as_it_is() {
    let data = rows(20_000);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let bench = Bench::new(&data, &[server.url("x")]);
    bench.fetch();
    let asked = server.asked();
    assert_eq!(asked[0].header("accept-encoding"), "identity");
    assert!(asked[0].header("user-agent").starts_with("artifact-fetch/"));
}

#[test]
fn somebody_elses_file_under_the_final_name_is_kept_and_told() {
    let data = rows(20_000);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let bench = Bench::new(&data, &[server.url("x")]);
    fs::create_dir_all(bench.data()).unwrap();
    for (theirs, expected) in [
        (b"short".to_vec(), "wrong size: 5 bytes instead of 20000"),
        (vec![b'x'; 20_000], "wrong digest: right size"),
    ] {
        fs::write(bench.data().join(FILE), &theirs).unwrap();
        let message = bench.fetch();
        assert!(message.contains(expected) && message.contains("move it away"), "{message}");
        assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), theirs);
    }
    assert!(server.asked().is_empty());
}

#[test]
fn offline_asks_nothing() {
    let data = rows(20_000);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let mut bench = Bench::new(&data, &[server.url("x")]);
    bench.fetcher.offline = true;
    let message = bench.fetch();
    assert!(message.contains("it is not there") && message.contains("--from FILE"), "{message}");
    assert!(server.asked().is_empty() && bench.disk().is_empty());
    fs::create_dir_all(bench.data()).unwrap();
    fs::write(bench.data().join(FILE), &data).unwrap();
    assert_eq!(bench.fetch(), "present");
}

#[test]
fn two_fetches_of_one_file_do_not_mix() {
    let data = rows(20_000);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let bench = Bench::new(&data, &[server.url("x"), server.url("x")]);
    fs::create_dir_all(bench.data()).unwrap();
    let other = fs::File::create(bench.data().join("trace.txt.part")).unwrap();
    other.lock().unwrap();
    assert_eq!(bench.fetch(), "another fetch is writing this file: wait for it");
    drop(other);
    assert!(bench.fetch().starts_with("ok: "));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_made_is_told() {
    let data = rows(20_000);
    let mut bench = Bench::new(&data, &["http://127.0.0.1:9/x".to_owned()]);
    fs::write(bench.path("taken"), "").unwrap();
    bench.fetcher.dir = Some(bench.path("taken/below"));
    assert!(bench.fetch().starts_with("cannot create "), "{}", bench.fetch());
}
