//! Full disks: a small file system of the test's own, where the user may mount one, else skipped with the reason.

use crate::bench::{Bench, FILE, disk, rows};
use crate::server::{Answer, Server};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// A tmpfs, unmounted at the end.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, mib: usize) -> Option<Small> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Small(at.to_path_buf())),
            Ok(output) => {
                println!("skipped: cannot mount a tmpfs: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("skipped: cannot start mount: {error}");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn room_is_compared_before_anything_is_asked_or_written() {
    let data = rows(3 * MIB);
    let server = Server::start();
    server.answer("x", [Answer::ok(&data)]);
    let mut bench = Bench::new(&data, &[server.url("x")]);
    let Some(small) = Small::mount(&bench.path("small"), 2) else { return };
    bench.fetcher.dir = Some(small.0.clone());
    let message = bench.fetch();
    assert!(message.starts_with("not enough room: trace.txt needs 3.0 MiB in "), "{message}");
    assert!(message.contains("has 2.0 MiB free; 1.0 MiB more are needed"), "{message}");
    assert!(message.contains("--dir DIR"), "{message}");
    assert!(server.asked().is_empty() && disk(&small.0).is_empty());
    // The host's own disk has room, and nothing is wrong with the rest.
    bench.fetcher.dir = None;
    assert!(bench.fetch().starts_with("ok: "));
}

#[test]
fn a_disk_that_fills_up_half_way_keeps_earlier_results_and_no_partial_file() {
    let data = rows(3 * MIB);
    let server = Server::start();
    let mut bench = Bench::new(&data, &[server.url("x"), server.url("y")]);
    let Some(small) = Small::mount(&bench.path("small"), 4) else { return };
    let ballast = small.0.join("ballast");
    let fill = {
        let ballast = ballast.clone();
        move || {
            // All that is left, less than the second half needs.
            let _ = fs::write(&ballast, vec![0; 4 * MIB]);
        }
    };
    server.answer("x", [Answer { in_the_middle: Some(Arc::new(fill)), ..Answer::ok(&data) }]);
    fs::write(small.0.join("earlier.txt"), "kept").unwrap();
    bench.fetcher.dir = Some(small.0.clone());
    let message = bench.fetch();
    // How much came before depends on how far the sockets ran ahead.
    assert!(message.starts_with("disk full after "), "{message}");
    assert!(message.contains("which were deleted") && message.contains(" more are needed"), "{message}");
    assert!(message.contains("--dir DIR"), "{message}");
    assert_eq!(fs::read_to_string(small.0.join("earlier.txt")).unwrap(), "kept");
    let left = disk(&small.0);
    assert!(left.len() == 2 && left.iter().all(|file| !file.contains("trace")), "{left:?}");
    // No other place can do better.
    assert!(server.asked().iter().all(|asked| asked.target == "/x"));
    fs::remove_file(&ballast).unwrap();
    server.answer("x", [Answer::ok(&data)]);
    assert!(bench.fetch().starts_with("ok: "));
    assert_eq!(fs::read(small.0.join(FILE)).unwrap(), data);
}

#[cfg(unix)]
#[test]
fn a_disk_that_fills_up_while_unpacking_is_told_the_same() {
    use crate::unpack::{archive_bytes, bench_with_archive};
    let data = rows(2 * MIB);
    let mut bench = bench_with_archive(&data, &["http://127.0.0.1:9/x".to_owned()]);
    let Some(small) = Small::mount(&bench.path("small"), 3) else { return };
    fs::write(bench.path("given.txt"), &data).unwrap();
    fs::write(small.0.join("trace.rar"), archive_bytes()).unwrap();
    let tool = format!(
        "head -c 1000000 '{0}/given.txt'; head -c 4000000 /dev/zero > '{0}/small/ballast'; tail -c +1000001 '{0}/given.txt'",
        bench.fetcher.root.display()
    );
    crate::bench::script(&bench.path("bin/unrar"), &format!("PATH=/usr/bin:/bin\n{tool}"));
    bench.fetcher.settings.path = bench.path("bin").into();
    bench.fetcher.dir = Some(small.0.clone());
    let message = bench.fetch();
    assert!(message.starts_with("disk full after "), "{message}");
    fs::remove_file(small.0.join("ballast")).unwrap();
    assert_eq!(disk(&small.0), [format!("trace.rar {}", archive_bytes().len())]);
}
