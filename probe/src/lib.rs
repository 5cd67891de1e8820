//! Asks other programs, with a limit on how long an answer may take: a broken driver lets its own tool hang.

pub mod nvidia;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The longest that one program may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Read of an answer; more is no answer to a question of ours.
const MOST: u64 = 1 << 20;

/// A program's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub success: bool,
    pub out: String,
    pub err: String,
}

impl Answer {
    /// The first line with anything on it; of stderr when stdout has none.
    pub fn line(&self) -> &str {
        let first = |text: &'_ str| text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::len);
        let text = if first(&self.out).is_some() { &self.out } else { &self.err };
        text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no answer")
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Silence {
    /// There is no such program on PATH.
    Absent,
    /// It cannot be started, or it was stopped, in words.
    Broken(String),
}

/// Runs a program to its end.
///
/// # Errors
/// It is not there, cannot be started, or takes longer than [`PATIENCE`].
pub fn ask(program: &str, arguments: &[&str]) -> Result<Answer, Silence> {
    ask_within(program, arguments, PATIENCE)
}

/// [`ask`] with another limit.
///
/// # Errors
/// As there.
pub fn ask_within(program: &str, arguments: &[&str], patience: Duration) -> Result<Answer, Silence> {
    run(Command::new(program).args(arguments), "", patience)
}

/// Runs a command to its end, with a text on its standard input.
///
/// # Errors
/// As [`ask`].
pub fn run(command: &mut Command, input: &str, patience: Duration) -> Result<Answer, Silence> {
    let program = command.get_program().to_string_lossy().into_owned();
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Silence::Absent,
        _ => Silence::Broken(format!("{program} cannot be started: {error}")),
    })?;
    if let Some(mut pipe) = child.stdin.take() {
        // A program that does not read its input answers anyway. A pipe takes a few KiB without a reader.
        let _ = pipe.write_all(input.as_bytes());
    }
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let deadline = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Silence::Broken(format!(
                    "{program} did not answer within {} s",
                    patience.as_secs_f64()
                )));
            }
            Err(error) => return Err(Silence::Broken(format!("cannot wait for {program}: {error}"))),
        }
    };
    // A grandchild may hold the pipe open for ever.
    let text = |receiver: mpsc::Receiver<String>| receiver.recv_timeout(patience).unwrap_or_default();
    Ok(Answer { success: status.success(), out: text(out), err: text(err) })
}

/// Reads a pipe in a thread of its own, so that a full one stops nobody.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(MOST).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn answers_and_silences() {
        let answer = ask("printf", &["%s\\n", "", "a b"]).unwrap();
        assert_eq!((answer.success, answer.line()), (true, "a b"));
        assert_eq!(ask("no-such-program-anywhere", &[]), Err(Silence::Absent));
        assert!(!ask("false", &[]).unwrap().success);
        let slow = ask_within("sleep", &["20"], Duration::from_millis(50)).unwrap_err();
        assert!(matches!(&slow, Silence::Broken(text) if text.contains("sleep did not answer")), "{slow:?}");
    }

    #[test]
    fn input_is_read_or_ignored() {
        let cat = run(&mut Command::new("cat"), "a\nb\n", PATIENCE).unwrap();
        assert_eq!(cat.out, "a\nb\n");
        assert!(run(&mut Command::new("true"), "unread", PATIENCE).unwrap().success);
    }

    #[test]
    fn a_flood_is_no_reason_to_wait() {
        let answer = ask("head", &["-c", "3000000", "/dev/zero"]).unwrap();
        assert_eq!(answer.out.len() as u64, MOST);
    }
}
