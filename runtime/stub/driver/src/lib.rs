//! A small CUDA driver without a GPU: it keeps the driver's objects, lets launches take the time that a test asks for,
//! and writes down each call. README.md lists its settings and its limits.
//!
//! Names, signatures and numbers of the interface are those of `cuda.h` 13.0. Handles are opaque numbers, not addresses, so
//! that a program which looks behind one fails at once.

#![cfg(target_os = "linux")]

mod arena;
mod call;
mod capture;
mod context;
mod copy;
mod device;
mod entry;
mod error;
mod event;
mod graph;
mod host;
mod image;
mod info;
mod launch;
mod log;
mod lookup;
mod memory;
mod memset;
mod module;
mod occupancy;
mod rare;
mod refused;
mod settings;
mod state;
mod stream;
mod time;
mod types;
mod work;

#[cfg(test)]
mod tests;
