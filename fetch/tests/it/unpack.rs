//! RAR 5 by tools of all kinds: those that fail half-way, those that lie, those that hang, and one that works.

use crate::bench::{Bench, FILE, rows, script, source};
use crate::server::{Answer, Server};
use fetch::{Kind, Pin, Place};
use std::fs;
use std::time::{Duration, Instant};

const SIZE: usize = 2 << 20;
const RAR5: &[u8] = &[0x52, 0x61, 0x72, 0x21, 0x1a, 0x07, 0x01, 0x00];

/// What stands for the archive; only its beginning is real.
pub fn archive_bytes() -> Vec<u8> {
    [RAR5, &rows(5000)].concat()
}

/// `trace` out of `archive`, which is at these addresses.
pub fn bench_with_archive(data: &[u8], urls: &[String]) -> Bench {
    let places = urls.iter().cloned().map(Place::Url).collect();
    let mut archive = source("archive", "trace.rar", Kind::Rar5(Pin::of(&archive_bytes())), places);
    archive.on_request = true;
    let mut text =
        source("trace", FILE, Kind::File(Pin::of(data)), vec![Place::Archive("archive".to_owned())]);
    text.on_request = false;
    Bench::of(vec![text, archive])
}

/// A bench whose archive is served, with `given.txt` (the true text) and `wrong.txt` (one byte changed) for the tools.
fn bench(data: &[u8], server: &Server) -> Bench {
    server.answer("x", [Answer::ok(&archive_bytes())]);
    let mut bench = bench_with_archive(data, &[server.url("x")]);
    fs::write(bench.path("given.txt"), data).unwrap();
    let mut wrong = data.to_vec();
    wrong[SIZE / 2] ^= 1;
    fs::write(bench.path("wrong.txt"), wrong).unwrap();
    bench.fetcher.settings.path = bench.path("bin").into();
    bench
}

impl Bench {
    fn tool(&self, name: &str, body: &str) {
        let body = body.replace("ROOT", &self.fetcher.root.display().to_string());
        script(&self.path("bin").join(name), &format!("PATH=/usr/bin:/bin\n{body}"));
    }
}

/// What is left on the disk when no tool did it: the archive, which is right and need not come again.
fn only_the_archive() -> Vec<String> {
    vec![format!("trace.rar {}", archive_bytes().len())]
}

#[test]
fn without_a_tool_the_packages_are_named() {
    let data = rows(SIZE);
    let server = Server::start();
    let bench = bench(&data, &server);
    let message = bench.fetch();
    for part in ["no tool that reads RAR 5", "unrar", "libarchive-tools", "7zip-rar", "--from FILE.txt"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(bench.disk(), only_the_archive());
}

#[test]
fn a_7z_that_writes_a_part_and_fails_is_refused() {
    let data = rows(SIZE);
    let server = Server::start();
    let bench = bench(&data, &server);
    bench.tool(
        "7z",
        "head -c 1048576 ROOT/given.txt; head -c 1048576 ROOT/given.txt > part-of-it.txt\n\
         echo 'ERROR: Unsupported Method : trace.txt' >&2; exit 2",
    );
    let message = bench.fetch();
    let expected = "7z: exit status: 2, \"ERROR: Unsupported Method : trace.txt\", and wrong size: 1048576 bytes instead of \
                    2097152";
    assert!(message.contains(expected), "{message}");
    assert!(message.contains("package libarchive-tools"), "{message}");
    assert_eq!(bench.disk(), only_the_archive());
}

#[test]
fn a_tool_that_changes_a_byte_and_says_it_went_well_is_refused() {
    let data = rows(SIZE);
    let server = Server::start();
    let bench = bench(&data, &server);
    // unar is known to fail on this archive, so it isn't even started; under another name it is judged by the digest.
    bench.tool("unar", "echo > ROOT/unar-ran; cat ROOT/wrong.txt; exit 0");
    assert!(bench.fetch().contains("no tool that reads RAR 5"));
    for name in ["unrar", "bsdtar", "7zz", "7z"] {
        bench.tool(name, "cat ROOT/wrong.txt; cp ROOT/wrong.txt trace.txt; exit 0");
        let message = bench.fetch();
        assert!(
            message.contains(&format!("{name}: exit status: 0, and wrong digest: right size")),
            "{message}"
        );
        assert_eq!(bench.disk(), only_the_archive());
    }
    assert!(!bench.path("unar-ran").exists());
    // Once the archive was there, it did not come again.
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn the_next_tool_is_tried_and_only_the_digest_counts() {
    let data = rows(SIZE);
    let server = Server::start();
    let bench = bench(&data, &server);
    bench.tool("unrar", "cat ROOT/wrong.txt");
    bench.tool("bsdtar", "cat ROOT/given.txt ROOT/given.txt");
    // Right, though it claims otherwise; and it is given the archive and nothing else.
    bench.tool("7zz", "echo \"$@\" > ROOT/arguments; cat ROOT/given.txt; echo warning >&2; exit 1");
    let message = bench.fetch();
    assert_eq!(message, format!("ok: {}, unpacked by {}", server.url("x"), bench.path("bin/7zz").display()));
    let archive = bench.data().join("trace.rar");
    assert_eq!(
        fs::read_to_string(bench.path("arguments")).unwrap().trim(),
        format!("x -so -bd {}", archive.display())
    );
    assert_eq!(bench.disk(), [only_the_archive(), vec![format!("{FILE} {SIZE}")]].concat());
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
}

#[test]
fn a_tool_that_hangs_or_never_stops_writing_is_ended() {
    let data = rows(SIZE);
    let server = Server::start();
    let mut bench = bench(&data, &server);
    bench.fetcher.settings.tool_limit = Duration::from_millis(300);
    bench.tool("unrar", "exec sleep 30");
    bench.tool("bsdtar", "exec cat /dev/zero");
    bench.tool("7zz", "exec >&- 2>&-; exec sleep 30");
    bench.tool("7z", "echo unpacking; exit 3");
    let began = Instant::now();
    let message = bench.fetch();
    assert!(began.elapsed() < Duration::from_secs(15));
    for part in [
        "unrar: not done after 0.3 s",
        "bsdtar: wrong size: more than the 2097152 bytes of the file",
        "7zz: not done after 0.3 s",
        "7z: exit status: 3, and wrong size: 10 bytes",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(bench.disk(), only_the_archive());
}

#[test]
fn offline_an_archive_that_is_there_is_unpacked() {
    let data = rows(SIZE);
    let server = Server::start();
    let mut bench = bench(&data, &server);
    fs::create_dir_all(bench.data()).unwrap();
    fs::write(bench.data().join("trace.rar"), archive_bytes()).unwrap();
    bench.tool("unrar", "cat ROOT/given.txt");
    bench.fetcher.offline = true;
    assert!(bench.fetch().contains(", unpacked by "));
    assert!(server.asked().is_empty());
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
}

#[test]
fn an_archive_that_is_no_rar_5_is_never_given_to_a_tool() {
    let data = rows(SIZE);
    let server = Server::start();
    // RAR 4: 00 where RAR 5 has 01 00.
    let old = [&[0x52, 0x61, 0x72, 0x21, 0x1a, 0x07, 0x00, 0x00][..], &rows(5000)].concat();
    server.answer("x", [Answer::ok(&old)]);
    let archive =
        source("archive", "trace.rar", Kind::Rar5(Pin::of(&old)), vec![Place::Url(server.url("x"))]);
    let text = source("trace", FILE, Kind::File(Pin::of(&data)), vec![Place::Archive("archive".to_owned())]);
    let mut bench = Bench::of(vec![text, archive]);
    bench.fetcher.settings.path = bench.path("bin").into();
    bench.tool("unrar", "echo > ROOT/ran");
    assert!(bench.fetch().contains("is no RAR 5 archive"), "{}", bench.fetch());
    assert!(!bench.path("ran").exists());
}
