//! The daemon's loop: one thread that waits for connections, messages, deaths and signals.

mod client;
mod start;

use crate::place;
use crate::policy::Runnable;
use crate::profiles::Profiles;
use crate::slots::Slots;
use anyhow::{Context, Result};
use client::Client;
use protocol::message::{Channel, Reply, Request, Status};
use protocol::process::Process;
use protocol::{VERSION, clock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{SocketFlags, UCred};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
pub use start::{Occupied, Options, run};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long one client that does not read may keep all others waiting.
const SEND: Duration = Duration::from_secs(1);

/// Between two tries to accept a connection when the system has no room for one.
const AGAIN: Duration = Duration::from_millis(100);

type Signals = SignalDelivery<UnixStream, SignalOnly>;

/// One that has connected.
struct Connection {
    channel: Channel,
    peer: UCred,
    /// The slot of a client that said Hello here.
    slot: Option<usize>,
    attached: bool,
}

struct Server {
    this: Process,
    policy: Runnable,
    gpu: Option<String>,
    environment: Vec<(String, String)>,
    profiles: Option<Profiles>,
    slots: Slots,
    socket: OwnedFd,
    signals: Signals,
    connections: BTreeMap<u64, Connection>,
    /// By slot. One whose connection has closed stays until its process has ended.
    clients: BTreeMap<usize, Client>,
    next: u64,
    /// Ends when nobody is there at this time or later.
    until_idle: Option<Instant>,
    ending: bool,
}

/// What a descriptor that became ready means.
enum Ready {
    Signal,
    Newcomer,
    Message(u64),
    Closed(u64),
    Ended(usize),
}

impl Server {
    fn run(&mut self) -> Result<()> {
        loop {
            let mut ready = self.wait()?;
            // Deaths first: whoever asks for the state after a death sees it.
            ready.sort_by_key(|what| !matches!(what, Ready::Closed(_) | Ready::Ended(_)));
            for what in ready {
                match what {
                    Ready::Signal => {
                        if self.signals.pending().next().is_some() {
                            return Ok(());
                        }
                    }
                    Ready::Newcomer => self.accept(),
                    Ready::Message(id) => self.read(id),
                    Ready::Closed(id) => {
                        // What it said before, such as durations.
                        self.read(id);
                        self.close(id);
                    }
                    Ready::Ended(slot) => self.ended(slot),
                }
            }
            if self.ending {
                return Ok(());
            }
            let busy = !self.connections.is_empty();
            if !busy && self.until_idle.is_some_and(|when| Instant::now() >= when) {
                // Somebody may have connected since; whoever comes later finds nobody and starts another daemon.
                self.accept();
                if self.connections.is_empty() {
                    return Ok(());
                }
            }
        }
    }

    fn wait(&self) -> Result<Vec<Ready>> {
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.signals.get_read().as_fd(), PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
        ];
        for connection in self.connections.values() {
            polled.push(PollFd::new(&connection.channel, PollFlags::IN | PollFlags::RDHUP));
        }
        for client in self.clients.values() {
            if let Some(process) = &client.pidfd {
                polled.push(PollFd::new(process, PollFlags::IN));
            }
        }
        let limit = match self.until_idle {
            Some(when) if self.connections.is_empty() => Some(when.saturating_duration_since(Instant::now())),
            _ => None,
        };
        // One more, so that the time has really passed when this returns.
        let limit = limit.map(|limit| limit + Duration::from_millis(1));
        let limit =
            limit.map(|l| Timespec { tv_sec: l.as_secs() as i64, tv_nsec: i64::from(l.subsec_nanos()) });
        match poll(&mut polled, limit.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for clients"),
        }
        let mut states = polled.iter().map(PollFd::revents);
        let mut ready = Vec::new();
        for fixed in [Ready::Signal, Ready::Newcomer] {
            if states.next().is_some_and(|state| !state.is_empty()) {
                ready.push(fixed);
            }
        }
        for id in self.connections.keys() {
            let state = states.next().unwrap_or(PollFlags::empty());
            if state.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
                ready.push(Ready::Closed(*id));
            } else if !state.is_empty() {
                ready.push(Ready::Message(*id));
            }
        }
        for (slot, _) in self.clients.iter().filter(|(_, client)| client.pidfd.is_some()) {
            if states.next().is_some_and(|state| !state.is_empty()) {
                ready.push(Ready::Ended(*slot));
            }
        }
        Ok(ready)
    }

    fn accept(&mut self) {
        loop {
            let socket = match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    say!("tallyd: cannot accept a connection: {error}");
                    // It is still there to be accepted, so the next wait ends at once.
                    std::thread::sleep(AGAIN);
                    return;
                }
            };
            let _ = set_socket_timeout(&socket, Timeout::Send, Some(SEND));
            let Ok(peer) = socket_peercred(&socket) else { continue };
            let channel = Channel::new(socket);
            self.connections.insert(self.next, Connection { channel, peer, slot: None, attached: false });
            self.next += 1;
        }
    }

    /// Answers all that has arrived on a connection.
    fn read(&mut self, id: u64) {
        while let Some(connection) = self.connections.get(&id) {
            match connection.channel.receive::<Request>(Duration::ZERO) {
                Ok((request, descriptors)) => self.answer(id, request, descriptors),
                Err(error) if error.kind() == ErrorKind::TimedOut => return,
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    let why = format!("version {VERSION} does not understand this message: {error}");
                    self.reply(id, &refused(why), &[]);
                }
                Err(_) => return self.close(id),
            }
        }
    }

    fn answer(&mut self, id: u64, request: Request, mut descriptors: Vec<OwnedFd>) {
        let ours = place::uid();
        if let Some(theirs) = self.connections.get(&id).map(|connection| connection.peer.uid.as_raw())
            && theirs != ours
        {
            say!("tallyd: refused user {theirs}");
            let why = format!("it serves user {ours} only, and this is user {theirs}");
            self.reply(id, &refused(why), &[]);
            return self.close(id);
        }
        if let Request::Hello { version, .. } | Request::Attach { version, .. } | Request::Status { version } =
            &request
            && *version != VERSION
        {
            let why = format!(
                "the daemon speaks version {VERSION} and the program version {version}; use files of one build, and end \
                 the daemon (process {}) if it is the older one",
                self.this.pid
            );
            return self.reply(id, &refused(why), &[]);
        }
        let reply = match request {
            Request::Hello { process, priority, program, calls, report, .. } => {
                let asked = client::Hello { process, priority, program, calls, report };
                match self.hello(id, asked) {
                    Ok(slot) => return self.welcome(id, slot),
                    Err(why) => refused(why),
                }
            }
            Request::Attach { policy, .. } => match self.attach(id, policy.as_deref()) {
                Some(reply) => reply,
                None => return self.close(id),
            },
            Request::Durations => match descriptors.pop() {
                Some(file) => self.durations(file),
                None => refused("durations without a descriptor".to_owned()),
            },
            Request::Status { .. } => Reply::Status(self.status()),
        };
        self.reply(id, &reply, &[]);
    }

    /// The answer; `None` if the daemon ends instead, so that another one can be started.
    fn attach(&mut self, id: u64, policy: Option<&str>) -> Option<Reply> {
        match policy.map(Runnable::parse) {
            Some(Err(why)) => return Some(refused(why.to_string())),
            Some(Ok(asked)) if !asked.is(&self.policy) => {
                let needed = |other: &Connection| other.attached || other.slot.is_some();
                if self.until_idle.is_some() && !self.connections.values().any(needed) {
                    // It is about to end anyway: its last user has just gone.
                    self.ending = true;
                    return None;
                }
                return Some(refused(format!(
                    "it runs the policy {}, not {}; leave --policy out, wait until its programs have ended, or choose \
                     another folder with --dir",
                    self.policy.name(),
                    asked.name()
                )));
            }
            _ => {}
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.attached = true;
            self.met();
        }
        Some(Reply::Ready {
            version: VERSION,
            policy: self.policy.name().to_owned(),
            substrate: self.policy.substrate().to_owned(),
            gpu: self.gpu.clone(),
            environment: self.environment.clone(),
        })
    }

    /// Somebody is here whose end may end the daemon.
    fn met(&mut self) {
        self.until_idle = self.until_idle.map(|_| Instant::now());
    }

    fn welcome(&mut self, id: u64, slot: usize) {
        let reply = Reply::Welcome {
            version: VERSION,
            slot,
            policy: self.policy.name().to_owned(),
            substrate: self.policy.substrate().to_owned(),
            gpu: self.gpu.clone(),
        };
        let Some(connection) = self.connections.get(&id) else { return };
        let known = self.profiles.as_ref().map(|profiles| profiles.table().to_memfd());
        let known = match known {
            Some(Err(error)) => {
                say!("tallyd: cannot hand out durations: {error}");
                None
            }
            Some(Ok(file)) => Some(file),
            None => None,
        };
        let mut descriptors = vec![self.slots.file()];
        descriptors.extend(known.as_ref().map(AsFd::as_fd));
        if connection.channel.send(&reply, &descriptors).is_err() {
            self.close(id);
        }
    }

    fn durations(&mut self, file: OwnedFd) -> Reply {
        let (new, damaged) = match protocol::durations::Durations::from_memfd(file) {
            Ok(read) => read,
            Err(error) => return refused(format!("durations that cannot be read: {error}")),
        };
        damaged.iter().for_each(|line| say!("tallyd: durations of a client, {line}"));
        if let Some(profiles) = &mut self.profiles {
            match profiles.add(new) {
                Ok(warnings) => warnings.iter().for_each(|warning| say!("tallyd: {warning}")),
                Err(error) => {
                    say!("tallyd: {error:#}");
                    return refused(format!("{error:#}"));
                }
            }
        }
        Reply::Done
    }

    fn status(&self) -> Status {
        Status {
            version: VERSION,
            daemon: self.this,
            policy: self.policy.name().to_owned(),
            substrate: self.policy.substrate().to_owned(),
            gpu: self.gpu.clone(),
            clients: self.clients.iter().filter_map(|(slot, client)| self.shown(*slot, client)).collect(),
        }
    }

    fn reply(&mut self, id: u64, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
        if let Some(connection) = self.connections.get(&id)
            && connection.channel.send(reply, descriptors).is_err()
        {
            self.close(id);
        }
    }

    fn close(&mut self, id: u64) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if let Some(slot) = connection.slot {
            self.leave(slot);
        }
    }
}

fn refused(why: String) -> Reply {
    Reply::Refused { version: VERSION, why }
}

/// Of the daemon's clock, for words in the segment.
fn now() -> u64 {
    clock::now()
}
