//! Runs the programs to their end: passes signals on, and ends a program where that is this command's business.
//!
//! A program alone over plain contexts is ended by nobody: it gets the signals that this process gets. Where `tally` ends
//! one (the second of two, or any over MPS after a signal), it asks, waits, takes it off MPS, and only then kills: a
//! client that is killed with work on the device can harm the others of its MPS server.

use anyhow::{Context, Result};
use daemon::say;
use daemon::{mps::Mps, processes};
use protocol::Priority;
use protocol::message::Channel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a user or a batch system sends to end a program.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// After a signal that nothing can ignore.
const KILLED: Duration = Duration::from_secs(10);
/// Between two looks at processes that are not children.
const WORKERS: Duration = Duration::from_millis(20);

/// One program.
pub struct Job {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    /// It leads a process group of its own, so the terminal's Ctrl-C does not reach it.
    own_group: bool,
    status: Option<ExitStatus>,
    stop: Stop,
}

/// How far the end of a program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Not,
    /// Asked to end; killed at this time.
    Asked(Instant),
    /// Killed; given up at this time.
    Killed(Instant),
}

impl Job {
    /// Starts a program. One of best effort beside another gets a group of its own and no terminal input.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(mut command: Command, own_group: bool) -> std::io::Result<Job> {
        if own_group {
            command.process_group(0).stdin(Stdio::null());
        }
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn()?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| {
            // Nobody would wait for it.
            let _ = child.kill();
            let _ = child.wait();
            std::io::Error::other(format!("its end cannot be waited for (pidfd_open, Linux 5.3): {error}"))
        })?;
        Ok(Job { name, child, pidfd, own_group, status: None, stop: Stop::Not })
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        let _ = if self.own_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) };
    }

    /// Kills and reaps a program whose partner could not be started.
    pub fn abandon(&mut self) {
        kill_all(&processes::tree(self.child.id()));
        let _ = self.child.wait();
    }
}

/// What happened.
#[derive(Debug)]
pub struct Ended {
    /// Of the first program.
    pub code: u8,
    /// The daemon ended before the programs did.
    pub daemon_lost: bool,
    /// Something had to be killed under MPS.
    pub killed: bool,
}

/// The programs of a run, the one whose end ends the run first.
pub struct Jobs {
    pub jobs: Vec<Job>,
    pub mps: Option<Mps>,
    pub grace: Duration,
    pub signals: Signals,
}

type Signals = SignalDelivery<UnixStream, SignalOnly>;

/// A signal that came before there was a program to give it to, and that would have ended it.
pub fn ending(signals: &mut Signals) -> Option<i32> {
    signals.pending().find(|number| ENDING.contains(number))
}

/// Catches the signals that are passed on. Before the programs are started, so that none is lost.
///
/// # Errors
/// The system refuses.
pub fn catch_signals() -> Result<Signals> {
    let (read, write) = UnixStream::pair()?;
    let passed_on = ENDING.into_iter().chain([SIGUSR1, SIGUSR2]);
    SignalDelivery::with_pipe(read, write, SignalOnly, passed_on).context("cannot catch signals")
}

impl Jobs {
    /// Waits until all have ended. `daemon` is watched meanwhile.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(&mut self, daemon: Option<&Channel>) -> Result<Ended> {
        let mut ended = Ended { code: 0, daemon_lost: false, killed: false };
        while self.jobs.iter().any(|job| job.status.is_none()) {
            let watched = daemon.filter(|_| !ended.daemon_lost);
            self.wait(watched)?;
            self.pass_on();
            for (index, job) in self.jobs.iter_mut().enumerate().filter(|(_, job)| job.status.is_none()) {
                job.status = job.child.try_wait().context("cannot wait for a program")?;
                // The code of the run says nothing of the second program.
                if let Some(status) = job.status.filter(|status| index > 0 && !status.success())
                    && job.stop == Stop::Not
                {
                    say!("tally: {} failed ({status}); the first program goes on", job.name);
                }
            }
            if watched.is_some_and(Channel::is_closed) {
                ended.daemon_lost = true;
                say!(
                    "tally: the daemon has gone; the programs go on as before, new ones need another daemon"
                );
            }
            if self.jobs[0].status.is_some() {
                self.jobs[1..].iter_mut().for_each(|job| ask(job, self.grace, true));
            }
            ended.killed |= self.kill_late();
            if self.jobs.iter().any(given_up) {
                break;
            }
        }
        ended.killed |= self.end_groups();
        ended.code = self.jobs[0].status.map_or(128 + 9, code);
        Ok(ended)
    }

    fn wait(&self, daemon: Option<&Channel>) -> Result<()> {
        let mut polled = vec![PollFd::from_borrowed_fd(self.signals.get_read().as_fd(), PollFlags::IN)];
        if let Some(daemon) = daemon {
            polled.push(PollFd::new(daemon, PollFlags::RDHUP));
        }
        for job in self.jobs.iter().filter(|job| job.status.is_none()) {
            polled.push(PollFd::new(&job.pidfd, PollFlags::IN));
        }
        let times = self.jobs.iter().filter(|job| job.status.is_none()).filter_map(|job| match job.stop {
            Stop::Asked(when) | Stop::Killed(when) => Some(when),
            Stop::Not => None,
        });
        let limit = times.min().map(|when| {
            let limit = when.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) }
        });
        match poll(&mut polled, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for the programs"),
        }
    }

    /// Gives the programs the signals that arrived here.
    fn pass_on(&mut self) {
        let signals: Vec<i32> = self.signals.pending().collect();
        for number in signals {
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            // The terminal has given these to every member of its group already; Python, for one, would take the second
            // as an interruption of its handling of the first.
            let terminal = matches!(number, SIGINT | SIGQUIT) && processes::has_terminal();
            for job in self.jobs.iter_mut().filter(|job| job.status.is_none()) {
                if job.own_group || !terminal {
                    job.signal(signal);
                }
                if ENDING.contains(&number) && self.mps.is_some() {
                    ask(job, self.grace, false);
                }
            }
        }
    }

    /// Kills programs whose grace has passed; whether one was a client of MPS.
    fn kill_late(&mut self) -> bool {
        let mut killed = false;
        for index in 0..self.jobs.len() {
            let job = &self.jobs[index];
            let Stop::Asked(when) = job.stop else { continue };
            if job.status.is_some() || Instant::now() < when {
                continue;
            }
            say!("tally: {} did not end within {} s, so it is killed", job.name, self.grace.as_secs());
            killed |= self.kill(job, &processes::tree(job.child.id()));
            self.jobs[index].stop = Stop::Killed(Instant::now() + KILLED);
        }
        killed
    }
}

impl Jobs {
    /// Ends what is left of programs that had a group of their own: workers that outlive their parent. They were asked
    /// with it. Whether something was killed under MPS.
    fn end_groups(&self) -> bool {
        let mut killed = false;
        for job in self.jobs.iter().filter(|job| job.own_group && job.status.is_some()) {
            let end = Instant::now() + self.grace;
            let left = loop {
                let left = processes::tree(job.child.id());
                if left.is_empty() || Instant::now() >= end {
                    break left;
                }
                std::thread::sleep(WORKERS);
            };
            if !left.is_empty() {
                say!("tally: processes of {} that did not end are killed: {left:?}", job.name);
                killed |= self.kill(job, &left);
            }
        }
        killed
    }

    /// Kills these processes of a program; whether MPS may have suffered.
    fn kill(&self, job: &Job, pids: &[u32]) -> bool {
        if let Some(mps) = &self.mps
            && let Err(error) = mps.terminate(pids)
        {
            say!("tally: cannot take {} off MPS first: {error}", job.name);
        }
        kill_all(pids);
        self.mps.is_some()
    }
}

fn kill_all(pids: &[u32]) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Begins the end of a program, asking it now or because it was asked already.
fn ask(job: &mut Job, grace: Duration, with_signal: bool) {
    if job.status.is_some() || job.stop != Stop::Not {
        return;
    }
    if with_signal {
        job.signal(Signal::TERM);
    }
    job.stop = Stop::Asked(Instant::now() + grace);
}

/// A process that does not end when killed hangs in the driver.
fn given_up(job: &Job) -> bool {
    match job.stop {
        Stop::Killed(when) if job.status.is_none() && Instant::now() >= when => {
            say!(
                "tally: {} (process {}) was killed and does not end: it hangs in the driver; `nvidia-smi` tells whether \
                 the device still answers",
                job.name,
                job.child.id()
            );
            true
        }
        _ => false,
    }
}

/// As in a shell.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// For messages about a program.
pub fn describe(priority: Priority) -> &'static str {
    match priority {
        Priority::High => "high priority",
        Priority::BestEffort => "best effort",
    }
}
