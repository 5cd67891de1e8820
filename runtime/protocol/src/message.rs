//! Messages between clients and the daemon: one JSON value per packet of a `SOCK_SEQPACKET` socket, descriptors beside it.
//!
//! A client keeps its socket open for as long as it lives: that the kernel closes it is how the daemon learns of any
//! death.

use crate::process::Process;
use crate::{Priority, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::Timeout;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A packet at most.
const BYTES: usize = 64 << 10;
/// Descriptors beside a packet at most.
const DESCRIPTORS: usize = 2;

/// What is asked of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A program has reached its first launch. Answered by [`Reply::Welcome`], with the segment and the known durations
    /// (a memfd, may be absent) beside it.
    ///
    /// `calls` names the counters of calls in the client's slot, so that the daemon can write the report of a client that
    /// was killed, and `report` the folder it goes to (`TALLY_REPORT`).
    Hello {
        version: u32,
        process: Process,
        priority: Priority,
        program: String,
        calls: Vec<String>,
        #[serde(default)]
        report: Option<PathBuf>,
    },
    /// `tally run` wants to start programs, and the daemon to live until this socket closes. Answered by
    /// [`Reply::Ready`]. `policy` must be the daemon's if given.
    Attach { version: u32, policy: Option<String> },
    /// Durations that a client measured are in the descriptor beside it. Answered by [`Reply::Done`].
    Durations,
    /// Answered by [`Reply::Status`].
    Status { version: u32 },
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Welcome {
        version: u32,
        slot: usize,
        policy: String,
        substrate: String,
        gpu: Option<String>,
    },
    /// What a program started by `tally run` needs in its environment.
    Ready {
        version: u32,
        policy: String,
        substrate: String,
        gpu: Option<String>,
        environment: Vec<(String, String)>,
    },
    Status(Status),
    Done,
    /// Why not, for people; the daemon's version so that a client can say whose is older.
    Refused {
        version: u32,
        why: String,
    },
}

/// What `tally status` shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: u32,
    pub daemon: Process,
    pub policy: String,
    pub substrate: String,
    pub gpu: Option<String>,
    pub clients: Vec<Client>,
}

/// One client in a [`Status`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Client {
    pub slot: usize,
    pub process: Process,
    pub priority: Priority,
    pub program: String,
    /// High priority: whether it has work on the device.
    pub active: Option<bool>,
    pub launches: u64,
    pub held: u64,
    pub waited_ns: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// A connection to the daemon whose socket has this path.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(path: &Path) -> Result<Channel> {
        Channel::open(path, None)
    }

    /// As [`Channel::connect`], for a program that must not wait longer than `limit` for a daemon that accepts nobody, or
    /// later for one that reads nothing.
    ///
    /// # Errors
    /// Nobody listens there, or nobody accepts within the limit (`WouldBlock`).
    pub fn connect_within(path: &Path, limit: Duration) -> Result<Channel> {
        Channel::open(path, Some(limit))
    }

    fn open(path: &Path, limit: Option<Duration>) -> Result<Channel> {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        // connect(2) of a local socket waits for a place in the listener's queue, for as long as a send may wait.
        rustix::net::sockopt::set_socket_timeout(&socket, Timeout::Send, limit)?;
        let address = SocketAddrUnix::new(path)?;
        // The program's signals may come at any time.
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
        Ok(Channel { socket })
    }

    /// A connection that was accepted.
    pub fn new(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The other side has gone, or the message is too long. Never a signal.
    pub fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() > BYTES || descriptors.len() > DESCRIPTORS {
            return Err(Error::new(ErrorKind::InvalidInput, format!("a message of {} bytes", bytes.len())));
        }
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            beside.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// The next message, waiting for at most `limit`.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other side has closed, `TimedOut`, or `InvalidData` for what is no message.
    pub fn receive<T: DeserializeOwned>(&self, limit: Duration) -> Result<(T, Vec<OwnedFd>)> {
        let end = Instant::now() + limit;
        loop {
            if !self.wait(end.saturating_duration_since(Instant::now()), PollFlags::IN)? {
                // A signal of the program ends the waiting early.
                if Instant::now() < end {
                    continue;
                }
                return Err(Error::new(
                    ErrorKind::TimedOut,
                    format!("no answer within {} ms", limit.as_millis()),
                ));
            }
            let mut bytes = vec![0; BYTES];
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let received = match rustix::net::recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut beside,
                flags,
            ) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let descriptors = beside
                .drain()
                .flat_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
                    _ => Vec::new(),
                })
                .collect();
            if received.bytes == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if received.flags.contains(ReturnFlags::TRUNC) {
                return Err(Error::new(ErrorKind::InvalidData, "a message that is too long"));
            }
            return Ok((serde_json::from_slice(&bytes[..received.bytes])?, descriptors));
        }
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// As [`Channel::send`] and [`Channel::receive`]; a refusal as `PermissionDenied` with its reason.
    pub fn ask(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        self.send(request, descriptors)?;
        match self.receive(limit)? {
            (Reply::Refused { version, why }, _) => {
                let whose = match version.cmp(&VERSION) {
                    std::cmp::Ordering::Equal => String::new(),
                    _ => format!(" (the daemon speaks version {version}, this program version {VERSION})"),
                };
                Err(Error::new(ErrorKind::PermissionDenied, format!("the daemon refused: {why}{whose}")))
            }
            answer => Ok(answer),
        }
    }

    /// Ends the connection for both sides, although this end stays open.
    pub fn close(&self) {
        // It has failed if the other side has gone.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Whether the other side has closed its end; asks without waiting.
    pub fn is_closed(&self) -> bool {
        // What was sent and not yet read does not count as closed.
        matches!(self.poll(Duration::ZERO, PollFlags::RDHUP), Ok(flags) if flags.intersects(PollFlags::HUP | PollFlags::RDHUP))
    }

    fn wait(&self, limit: Duration, flags: PollFlags) -> Result<bool> {
        Ok(!self.poll(limit, flags)?.is_empty())
    }

    fn poll(&self, limit: Duration, flags: PollFlags) -> Result<PollFlags> {
        let mut polled = [PollFd::new(&self.socket, flags)];
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        match poll(&mut polled, Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(polled[0].revents()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Segment;

    fn pair() -> (Channel, Channel) {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        (Channel::new(a), Channel::new(b))
    }

    const SOON: Duration = Duration::from_secs(5);

    #[test]
    fn a_segment_travels_beside_its_message() {
        let (client, daemon) = pair();
        let (segment, file) = Segment::create().unwrap();
        segment.slots()[1].word.store(42, std::sync::atomic::Ordering::SeqCst);
        let reply = Reply::Welcome {
            version: VERSION,
            slot: 1,
            policy: "gate".to_owned(),
            substrate: "contexts".to_owned(),
            gpu: None,
        };
        daemon.send(&reply, &[file.as_fd()]).unwrap();
        let (got, files): (Reply, _) = client.receive(SOON).unwrap();
        assert_eq!(got, reply);
        let seen = Segment::attach(&files[0]).unwrap();
        assert_eq!(seen.slots()[1].word.load(std::sync::atomic::Ordering::SeqCst), 42);
    }

    #[test]
    fn a_death_is_seen_and_never_a_signal() {
        let (client, daemon) = pair();
        assert!(!client.is_closed());
        daemon.send(&Reply::Done, &[]).unwrap();
        drop(daemon);
        assert!(client.is_closed());
        let (last, _): (Reply, _) = client.receive(SOON).unwrap();
        assert_eq!(last, Reply::Done, "what was sent before is still there");
        assert_eq!(client.receive::<Reply>(SOON).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert!(client.send(&Request::Durations, &[]).is_err());
    }

    #[test]
    fn a_daemon_that_accepts_nobody_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("full.sock");
        let kind = SocketType::SEQPACKET;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let limit = Duration::from_millis(20);
        let mut open = Vec::new();
        // The queue of a listener holds one more than it was told.
        let refused = (0..8).find_map(|_| match Channel::connect_within(&path, limit) {
            Ok(channel) => {
                open.push(channel);
                None
            }
            Err(error) => Some(error.kind()),
        });
        assert_eq!(refused, Some(ErrorKind::WouldBlock));
    }

    #[test]
    fn bad_bytes_silence_and_refusals_are_errors() {
        let (client, daemon) = pair();
        let error = client.receive::<Reply>(Duration::from_millis(10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        daemon.send(&"neither", &[]).unwrap();
        assert_eq!(client.receive::<Reply>(SOON).unwrap_err().kind(), ErrorKind::InvalidData);
        let why = "another policy".to_owned();
        daemon.send(&Reply::Refused { version: VERSION + 1, why }, &[]).unwrap();
        let error = client.ask(&Request::Status { version: VERSION }, &[], SOON).unwrap_err().to_string();
        assert!(error.contains("another policy (the daemon speaks version 2"), "{error}");
    }
}
