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
}

impl Kernel {
    /// A kernel in its original form that takes `duration_ns` alone on the device.
    pub fn original(form: &Form, duration_ns: Ns, priority: i8) -> Kernel {
        let ticks = duration_ns * TICKS_PER_NS;
        // Mostly one wave: no division.
        let block = if form.waves == 1 { ticks } else { ticks / form.waves }.max(TICKS_PER_NS);
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
        }
    }

    /// Blocks on the device when alone.
    pub fn capacity(&self, sms: u32, gpcs: u32) -> u64 {
        clustered(u64::from(self.most_per_sm) * u64::from(sms), self.cluster, gpcs).min(self.most)
    }

    /// How long it takes with the device for itself from start to end, ns.
    pub fn duration_alone(&self, sms: u32, gpcs: u32) -> Ns {
        let waves = self.blocks.div_ceil(self.capacity(sms, gpcs).max(1));
        (waves * self.block).div_ceil(TICKS_PER_NS)
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
