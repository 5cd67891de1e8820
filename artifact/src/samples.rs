//! `samples.parquet`: the raw times of the requests of one cell.

use anyhow::{Context, Result, ensure};
use polars::prelude::{Column, DataFrame, ParquetCompression, ParquetReader, ParquetWriter, SerReader};
use sim::Request;
use std::io::Cursor;

const COLUMNS: [&str; 3] = ["arrival_ns", "start_ns", "end_ns"];

/// As the bytes of a Parquet file, zstd-compressed.
///
/// # Errors
/// The Parquet writer's.
pub fn encode(requests: &[Request]) -> Result<Vec<u8>> {
    let column = |name: &str, of: fn(&Request) -> u64| {
        Column::new(name.into(), requests.iter().map(of).collect::<Vec<u64>>())
    };
    let columns = vec![
        column(COLUMNS[0], |r| r.arrival_ns),
        column(COLUMNS[1], |r| r.start_ns),
        column(COLUMNS[2], |r| r.end_ns),
    ];
    let mut frame = DataFrame::new(requests.len(), columns)?;
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes).with_compression(ParquetCompression::Zstd(None)).finish(&mut frame)?;
    Ok(bytes)
}

/// From the bytes of such a file.
///
/// # Errors
/// Not Parquet, another set of columns, a missing number, or times that run backwards, with the row.
pub fn decode(bytes: Vec<u8>) -> Result<Vec<Request>> {
    let frame = ParquetReader::new(Cursor::new(bytes)).finish().context("not a readable Parquet file")?;
    let column = |name: &str| -> Result<Vec<u64>> {
        let values = frame.column(name)?.u64().with_context(|| format!("column {name}"))?;
        ensure!(values.null_count() == 0, "column {name} has missing numbers");
        Ok(values.into_no_null_iter().collect())
    };
    let [arrival, start, end] = [column(COLUMNS[0])?, column(COLUMNS[1])?, column(COLUMNS[2])?];
    let requests: Vec<Request> = arrival
        .into_iter()
        .zip(start)
        .zip(end)
        .map(|((arrival_ns, start_ns), end_ns)| Request { arrival_ns, start_ns, end_ns })
        .collect();
    check(&requests)?;
    Ok(requests)
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
