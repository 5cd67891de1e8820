//! `samples.parquet`: the raw times of the requests of one cell.

use anyhow::{Context, Result, ensure};
use polars::prelude::{Column, DataFrame, ParquetCompression, ParquetReader, ParquetWriter, SerReader};
use sim::Request;
use std::io::Cursor;

const COLUMNS: [&str; 3] = ["arrival_ns", "start_ns", "end_ns"];
/// Of best-effort servers: which one, counted from 0.
const SERVER: &str = "server";

/// As the bytes of a Parquet file, zstd-compressed.
///
/// # Errors
/// The Parquet writer's.
pub fn encode(requests: &[Request]) -> Result<Vec<u8>> {
    write(times(requests.iter()))
}

/// The requests of several servers as the bytes of such a file, with the number of the server before the times.
///
/// # Errors
/// The Parquet writer's.
pub fn encode_peers(peers: &[Vec<Request>]) -> Result<Vec<u8>> {
    let server = peers.iter().enumerate().flat_map(|(k, requests)| requests.iter().map(move |_| k as u64));
    let mut columns = vec![Column::new(SERVER.into(), server.collect::<Vec<u64>>())];
    columns.extend(times(peers.iter().flatten()));
    write(columns)
}

/// Ends of iterations as the bytes of such a file.
///
/// # Errors
/// The Parquet writer's.
pub fn encode_ends(ends_ns: &[u64]) -> Result<Vec<u8>> {
    write(vec![Column::new(COLUMNS[2].into(), ends_ns.to_vec())])
}

fn times<'a>(requests: impl Iterator<Item = &'a Request> + Clone) -> Vec<Column> {
    let column = |name: &str, of: fn(&Request) -> u64| {
        Column::new(name.into(), requests.clone().map(of).collect::<Vec<u64>>())
    };
    vec![
        column(COLUMNS[0], |r| r.arrival_ns),
        column(COLUMNS[1], |r| r.start_ns),
        column(COLUMNS[2], |r| r.end_ns),
    ]
}

fn write(columns: Vec<Column>) -> Result<Vec<u8>> {
    let mut frame = DataFrame::new(columns.first().map_or(0, Column::len), columns)?;
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes).with_compression(ParquetCompression::Zstd(None)).finish(&mut frame)?;
    Ok(bytes)
}

/// From the bytes of such a file.
///
/// # Errors
/// Not Parquet, another set of columns, a missing number, or times that run backwards, with the row.
pub fn decode(bytes: Vec<u8>) -> Result<Vec<Request>> {
    let requests = requests(&read(bytes)?)?;
    check(&requests)?;
    Ok(requests)
}

/// From the bytes of [`encode_peers`] of so many servers.
///
/// # Errors
/// As [`decode`]; and a server that is none of them.
pub fn decode_peers(bytes: Vec<u8>, servers: u64) -> Result<Vec<Vec<Request>>> {
    ensure!(servers <= sim::MOST_JOBS as u64, "{servers} servers are more than a cell can have");
    let frame = read(bytes)?;
    let mut peers = vec![Vec::new(); servers as usize];
    for (row, (server, request)) in numbers(&frame, SERVER)?.into_iter().zip(requests(&frame)?).enumerate() {
        let list = peers.get_mut(server as usize);
        list.with_context(|| format!("row {row}: there is no server {server}"))?.push(request);
    }
    for (server, list) in peers.iter().enumerate() {
        check(list).with_context(|| format!("server {server}"))?;
    }
    Ok(peers)
}

/// From the bytes of [`encode_ends`] of so many iterations.
///
/// # Errors
/// As [`decode`]; and another number of them.
pub fn decode_ends(bytes: Vec<u8>, iterations: u64) -> Result<Vec<u64>> {
    let ends = numbers(&read(bytes)?, COLUMNS[2])?;
    ensure!(ends.len() as u64 == iterations, "{} rows, not {iterations}", ends.len());
    ensure!(ends.is_sorted(), "the ends of iterations run backwards");
    Ok(ends)
}

fn read(bytes: Vec<u8>) -> Result<DataFrame> {
    ParquetReader::new(Cursor::new(bytes)).finish().context("not a readable Parquet file")
}

fn numbers(frame: &DataFrame, name: &str) -> Result<Vec<u64>> {
    let values = frame.column(name)?.u64().with_context(|| format!("column {name}"))?;
    ensure!(values.null_count() == 0, "column {name} has missing numbers");
    Ok(values.into_no_null_iter().collect())
}

fn requests(frame: &DataFrame) -> Result<Vec<Request>> {
    let [arrival, start, end] = [0, 1, 2].map(|k| numbers(frame, COLUMNS[k]));
    let times = arrival?.into_iter().zip(start?).zip(end?);
    Ok(times.map(|((arrival_ns, start_ns), end_ns)| Request { arrival_ns, start_ns, end_ns }).collect())
}

/// Checks that the times of requests are on one clock and in order.
///
/// # Errors
/// The first request that ends before it starts, starts before it arrives, or starts before the one before it ended.
pub fn check(requests: &[Request]) -> Result<()> {
    let mut free = 0;
    for (row, r) in requests.iter().enumerate() {
        ensure!(
            r.arrival_ns <= r.start_ns && r.start_ns <= r.end_ns && free <= r.start_ns,
            "request {row}: arrival {} ns, start {} ns, end {} ns, after an end at {free} ns: not in order",
            r.arrival_ns,
            r.start_ns,
            r.end_ns
        );
        free = r.end_ns;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_come_back() {
        let requests: Vec<_> = (0..1000)
            .map(|k| Request { arrival_ns: k * 10, start_ns: k * 10 + 1, end_ns: k * 10 + 9 })
            .collect();
        let bytes = encode(&requests).unwrap();
        assert_eq!(bytes, encode(&requests).unwrap());
        assert_eq!(decode(bytes).unwrap(), requests);
        assert_eq!(decode(encode(&[]).unwrap()).unwrap(), []);
    }

    #[test]
    fn bad_samples_are_refused() {
        assert!(decode(b"PAR1".to_vec()).is_err());
        let backwards = [Request { arrival_ns: 5, start_ns: 4, end_ns: 6 }];
        assert!(format!("{:#}", decode(encode(&backwards).unwrap()).unwrap_err()).contains("request 0"));
        let overlap = [(0, 0, 10), (0, 9, 12)];
        let overlap = overlap.map(|(arrival_ns, start_ns, end_ns)| Request { arrival_ns, start_ns, end_ns });
        assert!(check(&overlap).unwrap_err().to_string().contains("request 1"));
    }
}
