//! Seconds as decimal text, read exactly: no floating point, so that no digit depends on the platform.

use std::fmt;

/// Fractional digits that are kept. With the 9 digits before the point this is 33 of the 38 that an `i128` holds.
/// The trace prints at most 17.
const DIGITS: u32 = 24;
/// Units of a [`Seconds`] in one nanosecond.
const UNITS_PER_NS: i128 = 10i128.pow(DIGITS - 9);
/// Longest integer part, leading zeros aside. 10^9 s are 31 years: the trace has two weeks, and seconds since 1970
/// (1.7e9) are thereby refused as what they are, another clock.
const INTEGER_DIGITS: usize = 9;

/// An exact number of seconds, in units of 10^-24 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(i128);

/// Why a text is not taken as a number of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Empty,
    NotANumber,
    Exponent,
    OutOfRange,
    Negative,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Empty => "is empty",
            Problem::NotANumber => "is not a decimal number",
            Problem::Exponent => "has an exponent, but plain decimal seconds are expected",
            Problem::OutOfRange => "is 1e9 s or more, so it is not on the trace's clock, which starts at 0",
            Problem::Negative => "is negative",
        })
    }
}

impl Seconds {
    /// Reads `[+-]digits[.digits]` (either side of the point may be empty, not both). Digits after the 24th
    /// fractional one are dropped.
    ///
    /// # Errors
    /// Anything else, NaN and infinities included; an exponent; 10^9 s or more.
    pub fn parse(text: &[u8]) -> Result<Seconds, Problem> {
        let (negative, digits) = match text {
            [] => return Err(Problem::Empty),
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let point = digits.iter().position(|&b| b == b'.').unwrap_or(digits.len());
        let (integer, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or_default());
        if integer.is_empty() && fraction.is_empty() {
            return Err(Problem::NotANumber);
        }
        if !integer.iter().chain(fraction).all(u8::is_ascii_digit) {
            return Err(if is_exponent_form(digits) { Problem::Exponent } else { Problem::NotANumber });
        }
        let zeros = integer.iter().take_while(|&&b| b == b'0').count();
        let integer = &integer[zeros..];
        if integer.len() > INTEGER_DIGITS {
            return Err(Problem::OutOfRange);
        }
        let kept = &fraction[..fraction.len().min(DIGITS as usize)];
        let value = integer.iter().chain(kept).fold(0i128, |sum, &b| sum * 10 + i128::from(b - b'0'));
        let value = value * 10i128.pow(DIGITS - kept.len() as u32);
        Ok(Seconds(if negative { -value } else { value }))
    }

    /// As [`Seconds::parse`], and a value below 0 is an error too ("-0" is 0).
    pub fn parse_non_negative(text: &[u8]) -> Result<Seconds, Problem> {
        match Seconds::parse(text)? {
            Seconds(value) if value < 0 => Err(Problem::Negative),
            seconds => Ok(seconds),
        }
    }

    /// `self - other` in nanoseconds. The subtraction is exact and the result is rounded once, to the nearest
    /// nanosecond, halves upwards (towards plus infinity).
    pub fn minus_ns(self, other: Seconds) -> i64 {
        // Both are below 10^9 s in size, so the difference has at most 19 digits of nanoseconds and fits.
        (self.0 - other.0 + UNITS_PER_NS / 2).div_euclid(UNITS_PER_NS) as i64
    }
}

/// Whether an unsigned text is a number in scientific notation, which gets its own message.
fn is_exponent_form(text: &[u8]) -> bool {
    let Some(at) = text.iter().position(|b| b.eq_ignore_ascii_case(&b'e')) else { return false };
    let (mantissa, exponent) = (&text[..at], &text[at + 1..]);
    let exponent = exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    digits(mantissa) && digits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_ns(end: &str, duration: &str) -> i64 {
        let parse = |text: &str| Seconds::parse(text.as_bytes()).unwrap();
        parse(end).minus_ns(parse(duration))
    }

    #[test]
    fn subtracts_exactly_and_rounds_once() {
        assert_eq!(start_ns("0.07949090003967285", "0.078"), 1_490_900);
        assert_eq!(start_ns("1209600", "0.000000001"), 1_209_599_999_999_999);
        // 0.6 ns - 0.1 ns is half a nanosecond; rounding each number first would give 1 - 0 = 1 as well, but
        // 0.6 ns - 0.2 ns would then wrongly be 1.
        assert_eq!(start_ns("0.0000000006", "0.0000000001"), 1);
        assert_eq!(start_ns("0.0000000006", "0.0000000002"), 0);
        assert_eq!(start_ns("0", "0.0000000005"), 0);
        assert_eq!(start_ns("0", "0.0000000006"), -1);
        assert_eq!(start_ns("5", "9.25"), -4_250_000_000);
    }

    #[test]
    fn long_fractions_and_leading_zeros() {
        assert_eq!(start_ns("000000000001.5", ".5"), 1_000_000_000);
        assert_eq!(start_ns("999999999.9999999999999999999999999999", "0."), 1_000_000_000_000_000_000);
        assert_eq!(start_ns("+2", "-0"), 2_000_000_000);
    }

    #[test]
    fn refuses_all_else() {
        let problem = |text: &str| Seconds::parse_non_negative(text.as_bytes()).unwrap_err();
        assert_eq!(problem(""), Problem::Empty);
        for text in ["NaN", "inf", "-inf", ".", "-", "1.2.3", "1,5", "0x10", "1 2", "e5", "1e", "--1", "٣"] {
            assert_eq!(problem(text), Problem::NotANumber, "{text}");
        }
        for text in ["1e400", "1.5E-3", "5e+05", "-1e1"] {
            assert_eq!(problem(text), Problem::Exponent, "{text}");
        }
        for text in ["1000000000", "1700000000.5", "-1000000000"] {
            assert_eq!(problem(text), Problem::OutOfRange, "{text}");
        }
        assert_eq!(problem("-0.001"), Problem::Negative);
        assert!(Seconds::parse_non_negative(b"-0.0").is_ok());
    }
}
