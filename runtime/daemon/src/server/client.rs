//! Clients from their Hello to the end of their process.

use super::{Server, now};
use protocol::Priority;
use protocol::message;
use protocol::process::Process;
use protocol::report::{Ended, Mode, Report};
use protocol::segment::ACTIVE;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What a client says of itself.
pub struct Hello {
    pub process: Process,
    pub priority: Priority,
    pub program: String,
    pub calls: Vec<String>,
    pub report: Option<PathBuf>,
}

/// A registered client.
pub struct Client {
    hello: Hello,
    /// Ready when the process has ended. A closed socket does not say so for sure: it may live on, or a child may hold the
    /// socket open. Absent on kernels without it (before 5.3).
    pub pidfd: Option<OwnedFd>,
    /// Its connection is open.
    connected: bool,
}

impl Server {
    /// Registers a client; its slot, or why not.
    pub fn hello(&mut self, id: u64, hello: Hello) -> Result<usize, String> {
        let Some(connection) = self.connections.get(&id) else { return Err("it has gone".to_owned()) };
        let peer = connection.peer.pid.as_raw_nonzero().get() as u32;
        if hello.process.pid != peer {
            // Numbers of another namespace of processes would tell the others nothing.
            return Err(format!(
                "the program says that it is process {}, and its connection is of process {peer}; programs that share a \
                 device must see the same processes (in containers: one PID namespace)",
                hello.process.pid
            ));
        }
        // The same process again: it has become another program (exec).
        let before = self.clients.iter().find(|(_, client)| client.hello.process == hello.process);
        if let Some(slot) = before.map(|(slot, _)| *slot) {
            self.leave(slot);
            self.ended(slot);
        }
        let pidfd =
            match Pid::from_raw(hello.process.pid as i32).map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
                Some(Ok(pidfd)) => Some(pidfd),
                Some(Err(rustix::io::Errno::SRCH)) | None => return Err("it has ended".to_owned()),
                Some(Err(_)) => None,
            };
        let Some(slot) = self.slots.take(hello.process, hello.priority, now()) else {
            return Err(format!(
                "all {} slots are taken; end a program, or run this one under another daemon (--dir)",
                protocol::segment::SLOTS
            ));
        };
        self.clients.insert(slot, Client { hello, pidfd, connected: true });
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.slot = Some(slot);
        }
        self.met();
        Ok(slot)
    }

    /// The connection of a client has closed, which the kernel does at any death: from now on nobody waits for it.
    pub fn leave(&mut self, slot: usize) {
        self.slots.retire(slot, now());
        let Some(client) = self.clients.get_mut(&slot) else { return };
        if !std::mem::take(&mut client.connected) {
            return;
        }
        let without_end = client.pidfd.is_none();
        for connection in self.connections.values_mut() {
            connection.slot.take_if(|taken| *taken == slot);
        }
        self.write_report(slot);
        if without_end {
            self.ended(slot);
        }
    }

    /// The process of a client has ended, so that its slot can have another owner.
    pub fn ended(&mut self, slot: usize) {
        // The socket of a dead process may still be open in a child of it.
        let open = self.connections.iter().find(|(_, connection)| connection.slot == Some(slot));
        match open.map(|(id, _)| *id) {
            Some(id) => self.close(id),
            None => self.leave(slot),
        }
        if self.clients.remove(&slot).is_some() {
            self.slots.free(slot);
        }
    }

    /// The report of a client that did not write one.
    fn write_report(&self, slot: usize) {
        let Some(Client { hello, .. }) = self.clients.get(&slot) else { return };
        let Some(folder) = &hello.report else { return };
        if folder.join(Report::file_name(hello.process)).exists() {
            return;
        }
        let mode = match hello.priority {
            Priority::High => Mode::Observed,
            Priority::BestEffort if self.policy.holds_back() => Mode::Scheduled,
            Priority::BestEffort => {
                Mode::Unscheduled(format!("the policy {} holds nothing back", self.policy.name()))
            }
        };
        let mut report = Report::new(hello.process, hello.priority, mode, Ended::Killed);
        report.program.clone_from(&hello.program);
        report.policy = self.policy.name().to_owned();
        report.substrate = self.policy.substrate().to_owned();
        report.gpu.clone_from(&self.gpu);
        report.count(self.slots.counters(slot), &hello.calls);
        if let Err(error) = report.write(folder) {
            say!("tallyd: cannot write a report into {}: {error}", folder.display());
        }
    }

    /// For `tally status`; a client that has gone is not shown.
    pub fn shown(&self, slot: usize, client: &Client) -> Option<message::Client> {
        let hello = &client.hello;
        let counters = self.slots.counters(slot);
        let mut report = Report::new(hello.process, hello.priority, Mode::Observed, Ended::Killed);
        report.count(counters, &hello.calls);
        client.connected.then(|| message::Client {
            slot,
            process: hello.process,
            priority: hello.priority,
            program: hello.program.clone(),
            active: (hello.priority == Priority::High).then(|| self.slots.word(slot) == ACTIVE),
            launches: report.launches(),
            held: report.held,
            waited_ns: report.waited_ns,
        })
    }
}
