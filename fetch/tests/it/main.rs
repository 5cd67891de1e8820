//! Fetching from a local server with real faults, to real disks, with stand-ins for the tools.

mod bench;
mod binary;
mod disk;
mod faults;
mod from;
mod git;
mod manifest;
mod places;
mod rar5;
mod resume;
mod server;
#[cfg(unix)]
mod unpack;
