//! Our gate: every client decides for itself, from its own state and one shared word.
//!
//! The high-priority side publishes whether it has work on the device ([`High`]; [`Streams`] where it has several streams).
//! A best-effort client holds back its own launches while that is so and for [`Settings::idle_wait_ns`] after
//! ([`BestEffort`]). What a high-priority request can still meet is what is in flight then: at most [`Settings::depth`]
//! launches that take [`Settings::budget_ns`] together, or one that takes longer. Above [`Level::Launch`] the launches in
//! flight are also asked to stop at the next block boundary, and are resumed later.

mod best_effort;
mod high;
mod streams;
mod systems;

pub use best_effort::{BestEffort, Event, Op};
pub use high::{High, HighEvent};
pub use streams::{Class, Mark, Stream, Streams};
pub use systems::SYSTEMS;

use crate::Ns;

/// Where best-effort work may be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Between launches.
    Launch,
    /// Between thread blocks of kernels that come with PTX.
    Ptx,
    /// Between thread blocks of any multi-wave kernel, by patched machine code.
    Cubin,
}

/// What the shared word says of the high-priority side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Launches may be on the device.
    Active,
    /// Nothing is on the device since this time.
    IdleSince(Ns),
}

/// Settings of a best-effort client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub level: Level,
    /// Launches in flight at most; at least 1.
    pub depth: u32,
    /// GPU time that the launches in flight may take together by their estimates, ns. A launch that takes longer, or of
    /// which nothing is known, is alone in flight. 0: only `depth` counts.
    pub budget_ns: Ns,
    /// How long the high-priority side must have been idle, ns.
    pub idle_wait_ns: Ns,
}
