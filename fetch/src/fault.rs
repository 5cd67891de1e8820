//! Everything that can be wrong with a place, each with its own message.

use crate::pin::Mismatch;
use crate::progress::size;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a place didn't give the file.
#[derive(Debug)]
pub enum Fault {
    /// The server answered, but not with the file.
    Status { status: String, code: u16, retry_after: Option<Duration> },
    /// A page for people, as dead links and log-ins give.
    Html { title: Option<String> },
    /// A Git LFS pointer: a few lines that name the file.
    Pointer,
    /// A body that was compressed on the way: what arrives isn't the file.
    Encoded { how: String },
    /// The length announced is another file's.
    Announced { found: u64, expected: u64 },
    /// More bytes than the file has.
    TooLong { expected: u64 },
    /// All bytes came, and they are another file's.
    Mismatch(Mismatch),
    /// The connection ended early.
    Truncated { received: u64, expected: u64 },
    /// The connection fell silent.
    Stalled { silence: Duration, received: u64, expected: u64 },
    /// No connection, or it broke before the answer.
    Connect { why: String, proxy: Option<String> },
    /// Redirected in a circle, too often, or nowhere.
    Redirect { why: String },
    /// The answer to a request for the rest of the file was something else.
    Range { why: String },
    /// No room for the rest; what was received is deleted.
    Full { received: u64, more: Option<u64> },
    /// The disk refused for another reason.
    Disk { doing: String, error: io::Error },
    /// Another process writes the same file.
    Locked,
    /// TLS cannot be set up here.
    Tls { why: String },
}

impl Fault {
    /// Whether the same request may do better a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Fault::Status { code, .. } => matches!(code, 408 | 416 | 425 | 429 | 500 | 502 | 503 | 504),
            Fault::Truncated { .. } | Fault::Stalled { .. } | Fault::Range { .. } => true,
            // Asking again doesn't make a certificate known.
            Fault::Connect { why, .. } => !why.contains("certificate"),
            _ => false,
        }
    }

    /// Whether no other place can do better.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Fault::Full { .. } | Fault::Disk { .. } | Fault::Locked)
    }

    /// From an error of a write or rename; `received` bytes of the file were there.
    pub fn disk(doing: impl Into<String>, error: io::Error, received: u64) -> Fault {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Fault::Full { received, more: None }
            }
            _ => Fault::Disk { doing: doing.into(), error },
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Status { status, code, .. } => {
                let meaning = match code {
                    401 | 403 => ": this place wants a log-in or refuses this network",
                    404 | 410 => ": the file is no longer at this place",
                    407 => ": the proxy wants a log-in",
                    429 => ": too many requests from here, try later",
                    500..=599 => ": the server has trouble of its own, try later",
                    _ => "",
                };
                write!(f, "{status}{meaning}")
            }
            Fault::Html { title: Some(title) } => {
                write!(f, "an HTML page instead of data (its title: \"{title}\")")
            }
            Fault::Html { title: None } => write!(f, "an HTML page instead of data"),
            Fault::Pointer => {
                write!(f, "a Git LFS pointer instead of data: this place has only the name of the file")
            }
            Fault::Encoded { how } => {
                write!(
                    f,
                    "a re-encoded body ({how}) instead of the file as it is: the server or a proxy changes it"
                )
            }
            Fault::Announced { found, expected } => {
                write!(f, "wrong size: the server announces {found} bytes instead of {expected}")
            }
            Fault::TooLong { expected } => {
                write!(f, "wrong size: more than the {expected} bytes of the file")
            }
            Fault::Mismatch(mismatch) => write!(f, "{mismatch}"),
            Fault::Truncated { received, expected } => {
                write!(f, "truncated: the connection ended after {received} of {expected} bytes")
            }
            Fault::Stalled { silence, received, expected } => write!(
                f,
                "stalled: nothing came for {} s, after {received} of {expected} bytes",
                silence.as_secs_f64()
            ),
            Fault::Connect { why, proxy } => {
                write!(f, "no connection: {why}")?;
                if why.contains("certificate") {
                    write!(
                        f,
                        " (if a proxy reads TLS here, name a file with its certificate in SSL_CERT_FILE)"
                    )?;
                }
                match proxy {
                    Some(names) => write!(f, " (proxy variables are set: {names})"),
                    None => Ok(()),
                }
            }
            Fault::Redirect { why } => write!(f, "bad redirection: {why}"),
            Fault::Range { why } => write!(f, "bad answer to the request for the rest: {why}"),
            Fault::Full { received, more } => {
                write!(f, "disk full after {}, which were deleted: ", size(*received))?;
                match more {
                    Some(more) => write!(f, "{} more are needed; ", size(*more))?,
                    None => write!(f, "more room is needed; ")?,
                }
                write!(f, "free them, or name a folder on another disk with --dir DIR")
            }
            Fault::Disk { doing, error } => write!(f, "{doing}: {error}"),
            Fault::Locked => write!(f, "another fetch is writing this file: wait for it"),
            Fault::Tls { why } => write!(
                f,
                "cannot set up TLS: {why}; install the system's root certificates (package ca-certificates), or name \
                 a file of them in SSL_CERT_FILE"
            ),
        }
    }
}

impl std::error::Error for Fault {}
