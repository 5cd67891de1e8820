//! A client process: the test's own executable once more, doing the steps of `CLIENT_DO`, so that it can be killed, can
//! fork and become another program. It registers as an interposed program does, from the same variables.

use protocol::durations::{Duration as Known, Durations};
use protocol::message::{Channel, Reply, Request};
use protocol::process::Process;
use protocol::report::{Ended, Mode, Report};
use protocol::segment::{ACTIVE, Segment};
use protocol::settings::Settings;
use protocol::{Priority, VERSION};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write, stdin};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// For conditions that hold at once on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Waits for a condition.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited too long for: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The command of a client process that does these steps, separated by blanks.
pub fn command(steps: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments()).env("CLIENT_DO", steps);
    command
}

/// The arguments that make this executable a client process.
pub fn arguments() -> [&'static str; 4] {
    ["client::process", "--exact", "--ignored", "--nocapture"]
}

/// A client process that takes further steps.
pub struct Client {
    pub child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Client {
    pub fn start(mut command: Command) -> Client {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Client { child, stdin, stdout }
    }

    /// What it says next.
    pub fn said(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the client has ended");
            // The test harness around it says things as well, and not always with a line end.
            if let Some((_, said)) = line.split_once("CLIENT ") {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Does a step and returns what it says.
    pub fn step(&mut self, step: &str) -> String {
        writeln!(self.stdin, "{step}").unwrap();
        self.said()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Default)]
struct State {
    channel: Option<Channel>,
    segment: Option<Segment>,
    slot: usize,
    children: Vec<Child>,
    term: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

#[test]
#[ignore = "a process of other tests"]
fn process() {
    let Ok(steps) = std::env::var("CLIENT_DO") else { return };
    let mut state = State::default();
    for step in steps.split_ascii_whitespace() {
        if step == "stdin" {
            for line in stdin().lock().lines() {
                state.step(line.unwrap().trim());
            }
        } else {
            state.step(step);
        }
    }
}

fn say(text: &str) {
    println!("CLIENT {text}");
}

impl State {
    fn step(&mut self, step: &str) {
        let settings = Settings::of_environment().unwrap();
        let (verb, value) = step.split_once('=').unwrap_or((step, ""));
        match verb {
            "hello" => self.hello(&settings, value),
            "active" => {
                self.segment().slots()[self.slot].word.store(ACTIVE, SeqCst);
                say("active");
            }
            "activity" => {
                let mask = self.segment().header().high_mask.load(SeqCst);
                let text = match self.segment().activity() {
                    ACTIVE => "active".to_owned(),
                    0 => "nobody".to_owned(),
                    _ => "idle".to_owned(),
                };
                say(&format!("{text} {mask:b}"));
            }
            "launch" => {
                let counters = &self.segment().slots()[self.slot].counters;
                counters.calls[0].store(value.parse().unwrap(), SeqCst);
                counters.admitted.store(value.parse().unwrap(), SeqCst);
            }
            "report" => {
                let (process, priority) = (Process::this().unwrap(), settings.priority.unwrap());
                let mode = match priority {
                    Priority::High => Mode::Observed,
                    Priority::BestEffort => Mode::Scheduled,
                };
                let mut report = Report::new(process, priority, mode, Ended::Exit);
                report.program = "client".to_owned();
                report.count(&self.segment().slots()[self.slot].counters, &["cuLaunchKernel".to_owned()]);
                report.write(&settings.report.unwrap()).unwrap();
            }
            "durations" => {
                let known = Known {
                    ns: 77,
                    samples: 3,
                    name: "k".to_owned(),
                    grid: [1; 3],
                    block: [1; 3],
                    shared: 0,
                };
                let table = Durations(BTreeMap::from([(5, known)])).to_memfd().unwrap();
                let channel = self.channel.as_ref().unwrap();
                let (reply, _) = channel.ask(&Request::Durations, &[table.as_fd()], LIMIT).unwrap();
                assert_eq!(reply, Reply::Done);
                say("done");
            }
            "exec" => {
                let error = command(&value.replace(',', " ")).exec();
                panic!("exec: {error}");
            }
            // Waits for the end of the parent.
            "orphan" => {
                let parent = std::os::unix::process::parent_id();
                until("the parent's end", || (std::os::unix::process::parent_id() != parent).then_some(()));
            }
            // Does steps in a child.
            "spawn" => self.children.push(command(&value.replace(',', " ")).spawn().unwrap()),
            // A child that holds the connection open, as one that a program forked may.
            "leak" => {
                let socket = self.channel.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
                let child = Command::new("sleep").arg("60").stdin(Stdio::from(socket)).spawn().unwrap();
                say(&format!("{}", child.id()));
                self.children.push(child);
            }
            "gone" => {
                until("the daemon's end", || self.channel.as_ref().unwrap().is_closed().then_some(()));
                say("gone");
            }
            "ignore-term" => {
                signal_hook::flag::register(signal_hook::consts::SIGTERM, self.term.clone()).unwrap();
                say("ready");
            }
            "term" => {
                signal_hook::flag::register(signal_hook::consts::SIGTERM, self.term.clone()).unwrap();
                say("ready");
                until("SIGTERM", || self.term.load(SeqCst).then_some(()));
                say("asked");
            }
            // Where a file tells the test about it.
            "touch" => std::fs::write(value, std::process::id().to_string()).unwrap(),
            "see" => until("a file", || std::path::Path::new(value).exists().then_some(())),
            "wait" => loop {
                std::thread::park();
            },
            "exit" => std::process::exit(value.parse().unwrap()),
            other => panic!("no step: {other}"),
        }
    }

    fn segment(&self) -> &Segment {
        self.segment.as_ref().unwrap()
    }

    fn hello(&mut self, settings: &Settings, program: &str) {
        let channel = Channel::connect(settings.socket.as_ref().unwrap()).unwrap();
        let hello = Request::Hello {
            version: VERSION,
            process: Process::this().unwrap(),
            priority: settings.priority.unwrap(),
            program: if program.is_empty() { "client" } else { program }.to_owned(),
            calls: vec!["cuLaunchKernel".to_owned()],
            report: settings.report.clone(),
        };
        match channel.ask(&hello, &[], LIMIT) {
            Ok((Reply::Welcome { slot, policy, .. }, files)) => {
                self.segment = Some(Segment::attach(&files[0]).unwrap());
                self.slot = slot;
                let file = files.get(1).map(|file| file.try_clone().unwrap());
                let known = file.map_or(0, |file| Durations::from_memfd(file).unwrap().0.0.len());
                say(&format!("slot {slot} {policy} {known}"));
            }
            Ok((other, _)) => panic!("{other:?}"),
            Err(error) => say(&format!("refused {error}")),
        }
        self.channel = Some(channel);
    }
}
