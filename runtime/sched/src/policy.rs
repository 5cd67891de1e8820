//! The interface between a policy and whatever runs it: events in, operations out.

use crate::Ns;
use crate::client::Halves;
use crate::tally::Config;

/// A scheduling policy: one instance decides for all best-effort clients of a device, which are numbered from 0.
///
/// It has no clock and no device. Whoever runs it calls [`Policy::step`] with every event in order of time and carries
/// out the operations in their order. The high-priority client is observed and never held back.
pub trait Policy: std::fmt::Debug + Send {
    /// One event at time `now`; what has to be done is appended to `ops`.
    fn step(&mut self, event: Event, now: Ns, ops: &mut Vec<Op>);

    /// Its clients' halves, if each client decides for itself, so that it also runs in processes of their own.
    fn halves(&self) -> Option<&dyn Halves> {
        None
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Once, before any other event. A policy that samples sets its first timer here.
    Start,
    /// The high-priority client launches a stretch of work that ends with its host waiting: one CUDA graph, or all calls
    /// until a synchronisation.
    HighLaunch {
        /// Thread blocks of the whole stretch.
        blocks: u64,
        /// Its kernels' means, weighted by duration; [`Kernel::duration_ns`] and blocks are plain means.
        mean: Kernel,
    },
    /// The high-priority client's host saw the end of all that it launched.
    HighIdle,
    /// A best-effort client wants to launch; answered by [`Op::Admit`] now or later. One launch of a client at a time.
    Request { client: usize, kernel: Kernel },
    /// A launch was handed to the device in this form: the answer to [`Op::Admit`], before any other event.
    Launched { client: usize, form: Config },
    /// A launch completed all its blocks. With [`crate::Hook::Closing`]: what was launched last has left the device,
    /// complete or not.
    Completed { client: usize },
    /// What [`Op::Retreat`] or [`Op::Reset`] interrupted has left the device, with blocks left to run. Launches behind it
    /// wait for [`Op::Continue`].
    Stopped { client: usize },
    /// The time of an earlier [`Op::WakeAt`] has come.
    Timer { timer: usize },
}

/// What has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Hand the client's held launch to the device. `original` keeps a system that transforms kernels from doing so.
    Admit { client: usize, original: bool },
    /// Lower the stop flag and launch the rest of what was interrupted: the next slice, or the blocks that are left.
    Continue { client: usize },
    /// Raise the stop flag: running blocks end, no further ones start. Kernels that cannot be stopped run on.
    Retreat { client: usize },
    /// Lower the stop flag: there is nothing that it could stop.
    Lower { client: usize },
    /// Kill what the client has on the device, `latency_ns` from now. The work of its kernel is lost.
    Reset { client: usize, latency_ns: Ns },
    /// The client's kernel counts as done; only with [`crate::Hook::Closing`].
    Close { client: usize },
    /// Call again with [`Event::Timer`] at this time. The number is the policy's own; timers cannot be taken back.
    WakeAt { at: Ns, timer: usize },
}

/// What is known of a kernel before it runs, from a recording of the job alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Thread blocks of the grid.
    pub blocks: u64,
    /// Threads per block.
    pub threads: u32,
    /// Median duration alone on the device, ns.
    pub duration_ns: Ns,
    /// Multiprocessors that hold all its blocks at once; more than the device has if it runs in several waves.
    pub sms: u64,
    /// Busiest pipe of the multiprocessors, in 1/1000 of the device's peak.
    pub sm_permille: u32,
    /// Memory traffic, in 1/1000 of the device's peak bandwidth.
    pub dram_permille: u32,
}

/// What a policy is told before the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Best-effort clients.
    pub clients: usize,
    /// Multiprocessors of the device.
    pub sms: u32,
    /// Thread blocks of one high-priority request; 0 without a high-priority client.
    pub high_blocks: u64,
    /// Mean duration of a high-priority request alone, ns; 0 without a high-priority client.
    pub high_latency_ns: Ns,
    /// Until a change of a word in shared memory is seen by other processes, ns.
    pub word_delay_ns: Ns,
}
