//! Reader of the Azure LLM inference traces of 2023: `TIMESTAMP,ContextTokens,GeneratedTokens`, one row per request.

use anyhow::{Context, Result, ensure};

use crate::lines::Lines;
use crate::maf2::DAY_NS;
use crate::rows::{self, Bad, Errors};

/// Columns of the file, in its order.
pub const COLUMNS: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];

/// Times of all requests in nanoseconds from the first, ascending. The token counts are checked and not used: the
/// service time comes from the model under test.
///
/// # Errors
/// A wrong header, no rows, or bad rows ([`rows::BadRows`]).
pub fn read(name: &str, text: &[u8]) -> Result<Vec<u64>> {
    let mut lines = Lines::new(text);
    let (_, header) = lines.next_line()?.with_context(|| format!("{name} is empty"))?;
    let expected = COLUMNS.join(",");
    ensure!(
        header == expected.as_bytes(),
        "{name}: the header is \"{}\" instead of {expected}",
        rows::shown(header)
    );
    let mut stamps = Vec::new();
    let mut errors = Errors::default();
    while let Some((number, line)) = lines.next_line()? {
        match row(line) {
            Ok(stamp) => stamps.push(stamp),
            Err(bad) => errors.push(number, bad),
        }
    }
    errors.finish(name, stamps.len() as u64, 0).map_err(anyhow::Error::new)?;
    stamps.sort_unstable();
    let first = *stamps.first().with_context(|| format!("{name} has no rows"))?;
    Ok(stamps.into_iter().map(|stamp| stamp - first).collect())
}

fn row(line: &[u8]) -> Result<u64, Bad<'_>> {
    let [stamp, context, generated] = rows::fields(line, &COLUMNS)?;
    for (column, text) in [(COLUMNS[1], context), (COLUMNS[2], generated)] {
        if number(text).is_none() {
            return Err(Bad { column, problem: "is not a count".to_owned(), text });
        }
    }
    let problem = || "is not a time like 2023-11-16 18:17:03.9799600".to_owned();
    stamp_ns(stamp).ok_or_else(|| Bad { column: COLUMNS[0], problem: problem(), text: stamp })
}

/// Nanoseconds from 2000-01-01 of `YYYY-MM-DD hh:mm:ss[.fraction]` with up to 9 fractional digits. The traces have no
/// time zone, so none is applied.
fn stamp_ns(text: &[u8]) -> Option<u64> {
    let (time, fraction) = text.split_at_checked(19)?;
    let separators = [(4, b'-'), (7, b'-'), (10, b' '), (13, b':'), (16, b':')];
    let part = |from: usize, to: usize, range: std::ops::RangeInclusive<u64>| {
        number(&time[from..to]).filter(|value| range.contains(value))
    };
    if separators.iter().any(|&(at, b)| time[at] != b) {
        return None;
    }
    let (year, month) = (part(0, 4, 2000..=2199)?, part(5, 7, 1..=12)?);
    let day = part(8, 10, 1..=days_in_month(year, month))?;
    let (hour, minute, second) = (part(11, 13, 0..=23)?, part(14, 16, 0..=59)?, part(17, 19, 0..=59)?);
    let fraction_ns = match fraction {
        [] => 0,
        [b'.', digits @ ..] if digits.len() <= 9 => number(digits)? * 10u64.pow(9 - digits.len() as u32),
        _ => return None,
    };
    let days: u64 = (2000..year).map(|y| if is_leap(y) { 366 } else { 365 }).sum::<u64>()
        + (1..month).map(|m| days_in_month(year, m)).sum::<u64>()
        + (day - 1);
    Some(days * DAY_NS + ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction_ns)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Digits only, at least one.
fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n";

    fn times(rows: &str) -> Result<Vec<u64>> {
        read("llm.csv", format!("{HEADER}{rows}").as_bytes())
    }

    #[test]
    fn stamps_by_hand() {
        assert_eq!(stamp_ns(b"2000-01-01 00:00:00"), Some(0));
        assert_eq!(stamp_ns(b"2000-03-01 00:00:01.5"), Some(60 * DAY_NS + 1_500_000_000));
        assert_eq!(stamp_ns(b"2023-11-16 00:00:00.0000001"), Some(8720 * DAY_NS + 100));
        for text in [
            "2023-02-29 00:00:00",
            "2023-11-16T18:17:03",
            "2023-11-16 24:00:00",
            "2023-11-16 18:17:03.",
            "NaN",
            "1700000000",
            "2023-11-16 18:17:03.1234567890",
            "2023-11-16 18:17:0x",
        ] {
            assert_eq!(stamp_ns(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn sorts_and_counts_from_the_first() {
        let rows = "2023-11-16 18:00:00.5,3,4\r\n\r\n2023-11-15 23:59:59.75,1,2";
        assert_eq!(times(rows).unwrap(), [0, 64_800_750_000_000]);
    }

    #[test]
    fn bad_rows_are_named() {
        let error =
            times("2023-11-16 18:00:00,3,4\r\n\r\nNaN,3,4\r\n2023-11-16 18:00:00,-3,4\r\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("llm.csv: line 4: column TIMESTAMP is not a time like"), "{text}");
        assert!(text.contains("llm.csv: line 5: column ContextTokens is not a count: \"-3\""), "{text}");
        assert!(times("").unwrap_err().to_string().contains("has no rows"));
        assert!(read("x", b"a,b,c\n").unwrap_err().to_string().contains("the header is \"a,b,c\""));
    }
}
