//! Brings the data that the repository doesn't carry: from its places in order, from a local file, or not at all.
//!
//! **Invariant**: a file gets its final name only after its size and SHA-256 were compared with the manifest's (for git
//! sources: its commit id). Whatever a place, a proxy, a disk or an extractor does wrong, the only change is the message.

pub mod cmd;
mod fault;
mod git;
mod http;
mod local;
mod manifest;
mod obtain;
mod part;
mod pin;
mod progress;
mod settings;
mod sniff;
mod space;
mod tool;
mod unpack;

pub use fault::Fault;
pub use manifest::{Kind, Manifest, Place, Source};
pub use obtain::{Fetcher, Outcome};
pub use pin::Pin;
pub use settings::Settings;
