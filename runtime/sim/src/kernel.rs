//! What either kind of device runs, and what it reports.

use crate::occupancy::Resources;
use crate::prepared::{Form, TICKS_PER_NS, clustered};
use crate::scenario::Ns;
use crate::sms::Ticks;

/// A kernel to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    /// Of one block.
    pub need: Resources,
    /// Instruction throughput that a running block takes, in [`MICRO_SM`].
    pub sm_demand: u64,
    /// Memory traffic of a running block, bytes per ms.
    pub dram_demand: u64,
    /// Blocks to run: the whole grid, or what an earlier interruption left.
    pub blocks: u64,
    /// Duration of one block.
    pub block: Ticks,
    /// Blocks that start together, on one GPC.
    pub cluster: u32,
    /// Blocks on one multiprocessor at most: the form's own limit, or fewer persistent workers.
    pub most_per_sm: u32,
    /// Blocks on the device at most: persistent workers; `u64::MAX` for no limit of its own.
    pub most: u64,
    /// Higher is placed first.
    pub priority: i8,
    /// Equal parts of a full wave, which end one after the other and evenly spread over a block's duration; 1 for waves in
    /// lockstep. Of consequence only with more blocks than fit at once.
    pub phases: u64,
}

impl Kernel {
    /// A kernel in its original form that takes `duration_ns` alone on the device.
    pub fn original(form: &Form, duration_ns: Ns, priority: i8) -> Kernel {
        let ticks = duration_ns * TICKS_PER_NS;
        // Mostly one wave: no division.
        let block = if form.waves == 1 {
            ticks
        } else {
            ticks * form.phases / (form.phases * form.blocks).div_ceil(form.capacity)
        }
        .max(TICKS_PER_NS);
        Kernel {
            need: form.need,
            sm_demand: form.sm_demand,
            dram_demand: form.dram_demand,
            blocks: form.blocks,
            block,
            cluster: form.cluster,
            most_per_sm: form.per_sm,
            most: u64::MAX,
            priority,
            phases: form.phases,
        }
    }

    /// Blocks on the device when alone.
    pub fn capacity(&self, sms: u32, gpcs: u32) -> u64 {
        clustered(u64::from(self.most_per_sm) * u64::from(sms), self.cluster, gpcs).min(self.most)
    }

    /// How long it takes with the device for itself from start to end, ns.
    pub fn duration_alone(&self, sms: u32, gpcs: u32) -> Ns {
        self.duration_with(self.capacity(sms, gpcs))
    }

    /// The same where so many blocks fit at once.
    pub fn duration_with(&self, capacity: u64) -> Ns {
        let capacity = capacity.max(1);
        let phases = self.phases_on(capacity);
        let parts = (phases * self.blocks).div_ceil(capacity).max(phases.min(self.blocks));
        (parts * self.block / phases).div_ceil(TICKS_PER_NS)
    }

    /// The state `elapsed` ticks after it began to run with the device for itself: blocks that have ended, and the running
    /// ones as `(blocks, when they end)`, in the order in which they were placed at first. `capacity` is what fits at once.
    pub fn running(
        &self,
        elapsed: Ticks,
        capacity: u64,
    ) -> (u64, impl Iterator<Item = (u64, Ticks)> + use<>) {
        let Kernel { blocks, block, .. } = *self;
        let phases = self.phases_on(capacity);
        // Part k, of all that follow each other, holds the blocks from `start(k)` on and ends at (k + 1) / phases of a
        // block's duration.
        let parts = (phases * blocks).div_ceil(capacity).max(1);
        let start = move |part: u64| (part * capacity / phases).min(blocks);
        let first = (elapsed * phases / block).min(parts - 1);
        // The longest are placed first: where there is little room, blocks come to be apart by themselves.
        let part = move |lane: u64| first + (lane + phases - first % phases) % phases;
        let running = (0..phases).rev().map(part).filter(move |part| *part < parts);
        let running = running.map(move |part| (start(part + 1) - start(part), (part + 1) * block / phases));
        (start(first), running)
    }

    /// A kernel whose blocks all fit begins them together.
    fn phases_on(&self, capacity: u64) -> u64 {
        if self.blocks > capacity { self.phases } else { 1 }
    }
}

/// A kernel left the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    pub slot: usize,
    pub at: Ns,
    /// Blocks that never started, because the kernel was told to stop.
    pub left: u64,
}
