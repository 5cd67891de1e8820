//! The log of a client: what it was told and what it answered, a line each, so that another program can repeat it.
//!
//! ```text
//! client gate-1:depth=2 at 1000 max-rate 0
//! 1050 launch 700 64
//! 1050 > wake 101000
//! 2000 word active
//! ```
//!
//! The first line names the system and says when the client started and with which rate of the high-priority side. Every
//! other line begins with the time, ns; what begins with `>` is an answer to the event of the line before. An unknown
//! duration is `-`.

use super::{Client, Event, Op};
use crate::gate::Activity;
use crate::{Ns, System};
use std::fmt;
use std::str::{FromStr, SplitAsciiWhitespace};

/// The first line: how the client was made, see [`System::client`].
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// As [`System::parse`] reads it.
    pub system: String,
    pub start: Ns,
    pub max_rate: f64,
}

/// Any other line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line {
    Event { at: Ns, event: Event },
    Op { at: Ns, op: Op },
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {} at {} max-rate {}", self.system, self.start, self.max_rate)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Line::Event { at, event } => {
                write!(f, "{at} ")?;
                match event {
                    Event::Launch { duration_ns: Some(ns), blocks } => write!(f, "launch {ns} {blocks}"),
                    Event::Launch { duration_ns: None, blocks } => write!(f, "launch - {blocks}"),
                    Event::Completed { launch } => write!(f, "completed {launch}"),
                    Event::Word(Activity::Active) => write!(f, "word active"),
                    Event::Word(Activity::IdleSince(since)) => write!(f, "word idle {since}"),
                    Event::Rate(rate) => write!(f, "rate {rate}"),
                    Event::Timer => write!(f, "timer"),
                }
            }
            Line::Op { at, op: Op::Admit { launch } } => write!(f, "{at} > admit {launch}"),
            Line::Op { at, op: Op::WakeAt(time) } => write!(f, "{at} > wake {time}"),
        }
    }
}

/// What is no line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLineError(String);

impl fmt::Display for ParseLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseLineError {}

/// The words of a line.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        (self.word()? == word).then_some(())
    }

    fn number(&mut self) -> Option<u64> {
        self.word()?.parse().ok()
    }

    fn rate(&mut self) -> Option<f64> {
        self.word()?.parse().ok().filter(|rate: &f64| rate.is_finite())
    }

    fn header(&mut self) -> Option<Header> {
        self.literal("client")?;
        let system = self.word()?.to_owned();
        self.literal("at")?;
        let start = self.number()?;
        self.literal("max-rate")?;
        Some(Header { system, start, max_rate: self.rate()? })
    }

    fn line(&mut self) -> Option<Line> {
        let at = self.number()?;
        let event = match self.word()? {
            ">" => {
                let op = match self.word()? {
                    "admit" => Op::Admit { launch: self.number()? },
                    "wake" => Op::WakeAt(self.number()?),
                    _ => return None,
                };
                return Some(Line::Op { at, op });
            }
            "launch" => {
                let duration_ns = match self.word()? {
                    "-" => None,
                    ns => Some(ns.parse().ok()?),
                };
                Event::Launch { duration_ns, blocks: self.number()? }
            }
            "completed" => Event::Completed { launch: self.number()? },
            "word" => Event::Word(match self.word()? {
                "active" => Activity::Active,
                "idle" => Activity::IdleSince(self.number()?),
                _ => return None,
            }),
            "rate" => Event::Rate(self.rate()?),
            "timer" => Event::Timer,
            _ => return None,
        };
        Some(Line::Event { at, event })
    }
}

fn parse<T>(
    text: &str,
    what: &str,
    read: impl for<'a> Fn(&mut Words<'a>) -> Option<T>,
) -> Result<T, ParseLineError> {
    let mut words = Words(text.split_ascii_whitespace());
    let line = read(&mut words).filter(|_| words.word().is_none());
    line.ok_or_else(|| ParseLineError(format!("`{}` is no {what}", text.trim_end())))
}

impl FromStr for Header {
    type Err = ParseLineError;

    fn from_str(text: &str) -> Result<Header, ParseLineError> {
        parse(text, "first line of a client's log, `client SYSTEM at NS max-rate RATE`", |words| {
            words.header()
        })
    }
}

impl FromStr for Line {
    type Err = ParseLineError;

    fn from_str(text: &str) -> Result<Line, ParseLineError> {
        parse(text, "line of a client's log, see the head of runtime/sched/src/client/log.rs", |words| {
            words.line()
        })
    }
}

/// What a log contained that was repeated without a difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    pub events: u64,
    /// Admitted launches.
    pub admitted: u64,
}

/// Where a log and its repetition differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Counted from 1.
    pub line: usize,
    pub problem: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the client's log: {}", self.line, self.problem)
    }
}

impl std::error::Error for Mismatch {}

/// Repeats a log with a new client. The writer may have died at any byte: what follows the last line feed does not count,
/// and the answer to the last event may be missing.
///
/// # Errors
/// The first line at which the log cannot be read, time goes back, or the client answers otherwise.
pub fn replay(log: &str) -> Result<Replayed, Mismatch> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let mut lines = whole.lines().enumerate().map(|(at, text)| (at + 1, text));
    let mismatch = |line, problem: String| Mismatch { line, problem };
    let first = lines.next().map_or("", |(_, text)| text);
    let header: Header = first.parse().map_err(|error: ParseLineError| mismatch(1, error.to_string()))?;
    let system = System::parse(&header.system).map_err(|error| mismatch(1, error.to_string()))?;
    let client = system.client(header.start, header.max_rate);
    let mut client: Client = client.map_err(|refused| mismatch(1, refused.to_string()))?;
    let mut replayed = Replayed::default();
    let mut now = header.start;
    // What the client answered to the event before, with the number of its line.
    let mut expected: Option<(usize, Line)> = None;
    for (number, text) in lines {
        let line: Line = text.parse().map_err(|error: ParseLineError| mismatch(number, error.to_string()))?;
        match (line, expected.take()) {
            (line, Some((_, answer))) if line == answer => {}
            (_, Some((event, answer))) => {
                return Err(mismatch(
                    number,
                    format!("`{line}`; the event of line {event} is answered by `{answer}`"),
                ));
            }
            (Line::Op { .. }, None) => {
                return Err(mismatch(number, format!("`{line}`; the event before it has no such answer")));
            }
            (Line::Event { at, .. }, None) if at < now => {
                return Err(mismatch(number, format!("`{line}` comes before {now}")));
            }
            (Line::Event { at, event }, None) => {
                now = at;
                replayed.events += 1;
                let op = client.step(event, at);
                replayed.admitted += u64::from(matches!(op, Some(Op::Admit { .. })));
                expected = op.map(|op| (number, Line::Op { at, op }));
            }
        }
    }
    Ok(replayed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
client gate-1:depth=8,budget_us=1 at 1000 max-rate 0
1050 launch 700 64
1050 > wake 101000
2000 word active
5000 word idle 4900
5000 > wake 104900
101000 timer
101000 > wake 104900
104900 timer
104900 > admit 0
104901 launch - 12
104902 rate 4990.5
110000 completed 0
110000 > admit 1
";

    #[test]
    fn every_line_is_read_as_it_is_written() {
        let mut lines = LOG.lines();
        let header = lines.next().unwrap();
        assert_eq!(header.parse::<Header>().unwrap().to_string(), header);
        for line in lines {
            assert_eq!(line.parse::<Line>().unwrap().to_string(), line);
        }
        for bad in [
            "",
            "5",
            "5 lunch 1 2",
            "5 launch 1",
            "5 launch 1 2 3",
            "5 rate inf",
            "-5 timer",
            "5 > word active",
        ] {
            assert!(bad.parse::<Line>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_log_is_repeated() {
        assert_eq!(replay(LOG), Ok(Replayed { events: 8, admitted: 2 }));
    }

    #[test]
    fn any_changed_line_is_found() {
        for (old, new, line, part) in [
            ("gate-1:", "gat-1:", 1, "unknown system"),
            ("gate-1:depth=8,budget_us=1", "mps", 1, "holds no launches back"),
            ("client", "klient", 1, "first line"),
            ("1050 > wake 101000\n", "", 3, "`1050 > wake 101000`"),
            ("> wake 101000", "> wake 101001", 3, "line 2"),
            ("2000 word", "2000 ward", 4, "`2000 ward active`"),
            ("2000 word active\n", "2000 word active\n2000 > admit 0\n", 5, "no such answer"),
            ("> admit 0", "> admit 1", 10, "`104900 > admit 0`"),
            ("104902 rate", "104900 rate", 12, "comes before 104901"),
        ] {
            let mismatch = replay(&LOG.replacen(old, new, 1)).unwrap_err();
            assert_eq!(mismatch.line, line, "{mismatch}");
            assert!(mismatch.to_string().contains(part), "{mismatch}");
        }
    }

    #[test]
    fn a_log_may_end_at_any_byte_after_its_first_line() {
        let first = LOG.find('\n').unwrap() + 1;
        for end in first..LOG.len() {
            replay(&LOG[..end]).unwrap();
        }
        assert!(replay(&LOG[..first - 1]).is_err());
    }
}
