//! A real RAR 5 archive, made here byte by byte, and whichever real tool this machine has.

use crate::bench::{Bench, FILE, rows, source};
use fetch::{Kind, Pin, Place};
use std::fs;

/// The format's integers: seven bits a byte, the lowest first.
fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// CRC-32 as in ZIP.
fn crc32(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    (!crc).to_le_bytes()
}

/// A header: its checksum, its length, its content.
fn header(content: &[u8]) -> Vec<u8> {
    let sized = [number(content.len() as u64), content.to_vec()].concat();
    [crc32(&sized).to_vec(), sized].concat()
}

/// One file, stored without compression.
fn archive(name: &str, data: &[u8]) -> Vec<u8> {
    let size = number(data.len() as u64);
    let (has_data, has_crc, unix) = (number(2), number(4), number(1));
    let file = [
        number(2),
        has_data,
        size.clone(),
        has_crc,
        size,
        number(0o100_644),
        crc32(data).to_vec(),
        number(0),
        unix,
        number(name.len() as u64),
        name.as_bytes().to_vec(),
    ]
    .concat();
    let main = [number(1), number(0), number(0)].concat();
    let end = [number(5), number(0), number(0)].concat();
    [b"Rar!\x1a\x07\x01\x00".to_vec(), header(&main), header(&file), data.to_vec(), header(&end)].concat()
}

#[test]
fn a_real_archive_is_unpacked_by_a_real_tool() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let Some(tool) = ["unrar", "bsdtar"].iter().find(|name| there(name)) else {
        println!("skipped: neither unrar nor bsdtar is on PATH");
        return;
    };
    let data = rows(1 << 20);
    let packed = archive(FILE, &data);
    let archive =
        source("archive", "trace.rar", Kind::Rar5(Pin::of(&packed)), vec![Place::Url(String::new())]);
    let text = source("trace", FILE, Kind::File(Pin::of(&data)), vec![Place::Archive("archive".to_owned())]);
    let mut bench = Bench::of(vec![text, archive]);
    fs::create_dir_all(bench.data()).unwrap();
    fs::write(bench.data().join("trace.rar"), &packed).unwrap();
    bench.fetcher.offline = true;
    bench.fetcher.settings.path = path.clone();
    let message = bench.fetch();
    assert!(message.starts_with("ok: ") && message.ends_with(tool), "{message}");
    assert_eq!(fs::read(bench.data().join(FILE)).unwrap(), data);
}
