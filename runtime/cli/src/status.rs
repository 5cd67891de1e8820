//! `tally status`.

use crate::args::Status as Flags;
use crate::summary::{grouped, seconds};
use crate::{Failure, fail};
use anyhow::{Context, Result};
use daemon::place::{self, Place};
use protocol::VERSION;
use protocol::message::{Channel, Reply, Request, Status};
use protocol::settings::Settings;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::time::Duration;

const ANSWER: Duration = Duration::from_secs(5);

/// Prints the state of all daemons of a folder; 1 if there is none.
pub fn run(flags: &Flags, settings: &Settings) -> Result<u8, Failure> {
    let dir = place::folder(flags.dir.as_deref(), settings)?;
    let all = ask(&dir)?;
    let text = if flags.json {
        serde_json::to_string_pretty(&all).map_err(|error| fail(error.into()))? + "\n"
    } else if all.is_empty() {
        format!("no daemon runs in {}; `tally run` starts one\n", dir.display())
    } else {
        all.iter().map(|status| table(status, None)).collect::<String>()
    };
    // A reader that has gone away, as `head` does, wants no more.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(u8::from(all.is_empty()))
}

/// The state of all daemons of a folder that answer.
pub fn ask(dir: &Path) -> Result<Vec<Status>> {
    let mut all = Vec::new();
    for place in Place::all(dir) {
        let socket = place.socket();
        let channel = match Channel::connect(&socket) {
            Ok(channel) => channel,
            // Left behind by one that was killed.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
                continue;
            }
            Err(error) => return Err(error).with_context(|| socket.display().to_string()),
        };
        match channel.ask(&Request::Status { version: VERSION }, &[], ANSWER) {
            Ok((Reply::Status(status), _)) => all.push(status),
            Ok((other, _)) => anyhow::bail!("{}: the daemon answered with {other:?}", socket.display()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error).with_context(|| socket.display().to_string()),
        }
    }
    Ok(all)
}

/// One daemon for people. With the state before and the seconds since, rates as well.
pub fn table(status: &Status, before: Option<(&Status, f64)>) -> String {
    let mut text = format!(
        "{} over {} on {}, tallyd {}\n",
        status.policy,
        status.substrate,
        status.gpu.as_deref().unwrap_or("no particular GPU"),
        status.daemon.pid
    );
    let (rate, width) = if before.is_some() { ("launches/s", 12) } else { ("", 0) };
    let _ = writeln!(
        text,
        "  {:>4} {:>8} {:<11} {:<6} {:>14}{rate:>width$} {:>12} {:>10}  program",
        "slot", "process", "priority", "state", "launches", "waited", "in all"
    );
    for client in &status.clients {
        let state = match client.active {
            Some(true) => "active",
            Some(false) => "idle",
            None => "",
        };
        let rate = before.map_or(String::new(), |(old, seconds)| {
            let old = old.clients.iter().find(|old| old.process == client.process);
            old.map_or("-".to_owned(), |old| {
                format!("{:.0}", client.launches.saturating_sub(old.launches) as f64 / seconds)
            })
        });
        let _ = writeln!(
            text,
            "  {:>4} {:>8} {:<11} {state:<6} {:>14}{rate:>width$} {:>12} {:>10}  {}",
            client.slot,
            client.process.pid,
            client.priority.name(),
            grouped(client.launches),
            grouped(client.held),
            seconds(client.waited_ns),
            client.program,
        );
    }
    if status.clients.is_empty() {
        text += "  no programs\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Priority;
    use protocol::message::Client;
    use protocol::process::Process;

    fn status(launches: u64) -> Status {
        let client = |slot, priority, active| Client {
            slot,
            process: Process { pid: 100 + slot as u32, start: 5 },
            priority,
            program: "python3".to_owned(),
            active,
            launches,
            held: 3,
            waited_ns: 1_500_000,
        };
        Status {
            version: VERSION,
            daemon: Process { pid: 9, start: 1 },
            policy: "gate".to_owned(),
            substrate: "contexts".to_owned(),
            gpu: None,
            clients: vec![client(0, Priority::High, Some(true)), client(1, Priority::BestEffort, None)],
        }
    }

    #[test]
    fn the_columns_stand_below_their_names() {
        let expected = "\
gate over contexts on no particular GPU, tallyd 9
  slot  process priority    state        launches       waited     in all  program
     0      100 high        active          1,200            3     1.5 ms  python3
     1      101 best-effort                 1,200            3     1.5 ms  python3
";
        assert_eq!(table(&status(1200), None), expected);
    }

    #[test]
    fn rates_are_per_second_since_the_last_look() {
        let text = table(&status(1200), Some((&status(200), 2.0)));
        assert!(text.contains("1,200         500 "), "{text}");
        let mut other = status(200);
        other.clients.clear();
        assert!(table(&status(1200), Some((&other, 2.0))).contains("1,200           - "));
    }
}
