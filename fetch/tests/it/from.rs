//! `--from`: files and folders that somebody brought.

use crate::bench::{Bench, FILE, rows};
use crate::server::{Answer, Server};
use std::fs;

const SIZE: usize = 20_000;

/// Nothing may be asked of this place.
fn bench(data: &[u8], server: &Server) -> Bench {
    server.answer("x", [Answer::ok(data)]);
    Bench::new(data, &[server.url("x")])
}

#[test]
fn a_text_is_copied_and_stays_as_it_is() {
    let data = rows(SIZE);
    let server = Server::start();
    let mut bench = bench(&data, &server);
    let brought = bench.path("brought, with any name");
    fs::write(&brought, &data).unwrap();
    bench.fetcher.from = Some(brought.clone());
    assert_eq!(bench.fetch(), format!("ok: {}", brought.display()));
    assert_eq!(bench.disk(), ["trace.txt 20000"]);
    assert_eq!(fs::read(&brought).unwrap(), data);
    assert_eq!(bench.fetch(), "present");
    assert!(server.asked().is_empty());
}

#[test]
fn a_folder_is_searched_for_the_name() {
    let data = rows(SIZE);
    let server = Server::start();
    let mut bench = bench(&data, &server);
    let folder = bench.path("usb stick");
    fs::create_dir(&folder).unwrap();
    bench.fetcher.from = Some(folder.clone());
    assert_eq!(bench.fetch(), format!("{} has no file trace.txt", folder.display()));
    fs::write(folder.join(FILE), &data).unwrap();
    assert!(bench.fetch().starts_with("ok: "));
    assert_eq!(bench.disk(), ["trace.txt 20000"]);
}

#[test]
fn a_file_that_is_not_it_is_told_and_nothing_is_written() {
    let data = rows(SIZE);
    let server = Server::start();
    let mut bench = bench(&data, &server);
    let brought = bench.path("brought");
    let mut changed = data.clone();
    changed[777] ^= 1;
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 20000\n".to_vec();
    for (content, expected) in [
        (data[..SIZE - 1].to_vec(), "wrong size: 19999 bytes instead of 20000; it was not taken"),
        (changed, "wrong digest: right size"),
        (b"<html><title>Sign in</title>".to_vec(), "an HTML page instead of data (its title: \"Sign in\")"),
        (pointer, "a Git LFS pointer instead of data"),
        (Vec::new(), "wrong size: 0 bytes instead of 20000"),
        (b"Rar!\x1a\x07\x01\x00 of something".to_vec(), "is an archive, and trace has none"),
    ] {
        fs::write(&brought, content).unwrap();
        bench.fetcher.from = Some(brought.clone());
        let message = bench.fetch();
        assert!(message.contains(expected), "{message}");
        assert!(bench.disk().is_empty(), "{:?}", bench.disk());
    }
    bench.fetcher.from = Some(bench.path("nowhere"));
    assert!(bench.fetch().starts_with("there is no file or folder "), "{}", bench.fetch());
    assert!(server.asked().is_empty());
}

#[cfg(unix)]
#[test]
fn an_archive_is_unpacked_if_it_is_the_known_one() {
    use crate::bench::script;
    use crate::unpack::{archive_bytes, bench_with_archive};
    let data = rows(SIZE);
    let mut bench = bench_with_archive(&data, &["http://127.0.0.1:9/x".to_owned()]);
    let root = bench.fetcher.root.display().to_string();
    fs::write(bench.path("given.txt"), &data).unwrap();
    script(
        &bench.path("bin/unrar"),
        &format!("PATH=/usr/bin:/bin\necho > '{root}/ran'; cat '{root}/given.txt'"),
    );
    bench.fetcher.settings.path = bench.path("bin").into();
    let folder = bench.path("brought");
    fs::create_dir(&folder).unwrap();
    // Of the right kind, but somebody else's: no tool sees it.
    let brought = folder.join("trace.rar");
    fs::write(&brought, [archive_bytes(), b"more".to_vec()].concat()).unwrap();
    bench.fetcher.from = Some(brought.clone());
    assert!(bench.fetch().contains("it is no trace.rar"), "{}", bench.fetch());
    assert!(!bench.path("ran").exists());
    fs::write(&brought, archive_bytes()).unwrap();
    for from in [brought, folder] {
        bench.fetcher.from = Some(from);
        assert!(bench.fetch().contains("trace.rar, unpacked by "), "{}", bench.fetch());
        assert_eq!(bench.disk(), ["trace.txt 20000"]);
        fs::remove_file(bench.data().join(FILE)).unwrap();
    }
    // The archive itself can be brought, too.
    assert!(bench.fetch_id("archive").starts_with("ok: "));
}
