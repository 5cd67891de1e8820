//! The stub driver's log of calls.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// One call. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub begin: u64,
    pub end: u64,
    pub process: u32,
    pub thread: u32,
    /// The exported symbol, with its suffix.
    pub name: String,
    pub result: i32,
    /// Arguments and notes, as text: numbers decimal, handles and addresses with `0x`.
    pub arguments: BTreeMap<String, String>,
}

impl Call {
    /// An argument's or a note's text; empty if there is none.
    pub fn argument(&self, name: &str) -> &str {
        self.arguments.get(name).map_or("", String::as_str)
    }

    /// An argument's or a note's number, decimal or hexadecimal.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.argument(name);
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

/// The calls of a log, in the order of their ends.
///
/// # Errors
/// If the file can't be read, or if a line is not one of the stub's; the error has the line's number.
pub fn read_log(path: &Path) -> io::Result<Vec<Call>> {
    parse_log(&std::fs::read_to_string(path)?)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// The calls of a log's text.
///
/// # Errors
/// With the number of the first line that is not one of the stub's.
pub fn parse_log(text: &str) -> Result<Vec<Call>, String> {
    text.lines()
        .enumerate()
        .map(|(index, line)| parse(line).ok_or(format!("line {}: not a call: `{line}`", index + 1)))
        .collect()
}

fn parse(line: &str) -> Option<Call> {
    let mut words = line.split(' ');
    let begin = words.next()?.parse().ok()?;
    let thread = words.next()?.parse().ok()?;
    let name = words.next()?.to_owned();
    let mut arguments = BTreeMap::new();
    for word in words {
        let (name, value) = word.split_once('=')?;
        arguments.insert(name.to_owned(), value.to_owned());
    }
    let mut take = |name| arguments.remove(name);
    Some(Call {
        begin,
        end: take("end")?.parse().ok()?,
        process: take("pid")?.parse().ok()?,
        result: take("result")?.parse().ok()?,
        thread,
        name,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line() {
        let calls =
            parse_log("5 70 cuStreamQuery_ptsz stream=0x10 on=0x20 result=600 end=9 pid=69\n").unwrap();
        let [call] = &calls[..] else { panic!("{calls:?}") };
        assert_eq!((call.begin, call.end, call.thread, call.process, call.result), (5, 9, 70, 69, 600));
        assert_eq!(
            (call.name.as_str(), call.number("on"), call.argument("none")),
            ("cuStreamQuery_ptsz", Some(32), "")
        );
    }

    #[test]
    fn other_lines_are_errors() {
        let error = parse_log("5 70 cuInit flags=0 result=0 end=9 pid=1\nhello\n").unwrap_err();
        assert!(error.starts_with("line 2"), "{error}");
    }
}
