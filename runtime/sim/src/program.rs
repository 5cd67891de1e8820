//! What a job launches: the recorded sequence of one iteration or request.

use crate::machine::Machine;
use crate::occupancy::blocks_per_sm;
use crate::prepared::clustered;
use serde::Deserialize;

/// Number of duration quantiles kept per launch: minimum, 10, 25, 50, 75, 90 % and maximum.
pub const QUANTILES: usize = 7;
/// The probabilities, in 1/1000, that the entries of [`Launch::duration_ns`] belong to.
pub const QUANTILE_PERMILLE: [u32; QUANTILES] = [0, 100, 250, 500, 750, 900, 1000];

/// Position of the median among them.
pub const MEDIAN: usize = QUANTILES / 2;

/// What occupies the device during a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A kernel: occupies streaming multiprocessors.
    Kernel,
    /// A copy between host and device: occupies a copy engine, no multiprocessor.
    Memcpy,
    /// A device memory set: modelled like a copy.
    Memset,
}

/// One launch of the recorded sequence.
#[derive(Clone, Debug)]
pub struct Launch {
    pub kind: Kind,
    /// Index into [`Program::names`].
    pub name: u32,
    /// Thread blocks of the grid (product of its three dimensions); 0 for copies.
    pub blocks: u64,
    /// Threads per block.
    pub threads: u32,
    /// Registers per thread.
    pub regs: u32,
    /// Blocks that have to start together, on multiprocessors of one cluster (GPC); 1 for an ordinary kernel.
    pub cluster: u32,
    /// Shared memory per block, static plus dynamic, bytes.
    pub smem: u32,
    /// Duration alone on the device, ns, at [`QUANTILE_PERMILLE`].
    pub duration_ns: [u32; QUANTILES],
    /// Median gap on the device between the previous launch's end and this one's start, ns.
    pub gap_ns: u32,
    /// When the host issues this launch, ns after the segment's first host action, when nothing holds it back.
    pub host_ns: u64,
    /// Bytes read and written in device memory; `None` where the recording could not count them.
    pub dram_bytes: Option<u64>,
    /// Busiest multiprocessor pipe over the kernel's duration, in 1/1000 of its peak; `None` where not counted.
    pub sm_permille: Option<u32>,
}

impl Launch {
    /// Rounds of blocks that the kernel needs alone on the machine; `None` for a copy, and where a block does not fit.
    pub fn waves(&self, machine: &Machine) -> Option<u64> {
        if self.kind != Kind::Kernel || self.blocks == 0 {
            return None;
        }
        let per_sm = blocks_per_sm(&machine.sm, self.threads, self.regs, self.smem);
        let capacity = clustered(u64::from(per_sm) * u64::from(machine.sms), self.cluster, machine.gpcs);
        (capacity > 0).then(|| self.blocks.div_ceil(capacity))
    }

    /// Whether a gate can stop the kernel between its blocks: it has several rounds of them, and persistent and cluster
    /// kernels (cuBLASLt's nvjet) coordinate their blocks and must run as they are. `name` is the kernel's.
    pub fn cuttable(&self, name: &str, machine: &Machine) -> bool {
        let several = self.waves(machine).is_some_and(|waves| waves > 1);
        several && self.cluster.max(1) == 1 && !name.contains("nvjet")
    }
}

/// A stretch of launches that ends with the host waiting for the device.
#[derive(Clone, Debug)]
pub struct Segment {
    pub name: String,
    /// How often the segment runs in one iteration or request.
    pub repeat: u32,
    /// Launched by one host call (a CUDA graph) instead of one call per launch.
    pub graph: bool,
    pub launches: Vec<Launch>,
    /// Median duration of one run of the segment measured without a profiler, ns; `None` if only the whole was measured.
    pub unprofiled_median_ns: Option<u64>,
    /// Host time between the end of the segment on the device and the next host action, ns.
    pub host_tail_ns: u64,
}

/// One iteration of training, or one request of an inference server, as recorded alone on the device.
#[derive(Clone, Debug)]
pub struct Program {
    /// Workload id, as the folder under `workloads/`.
    pub id: String,
    pub segments: Vec<Segment>,
    /// Kernel names, for reports.
    pub names: Vec<String>,
    /// Median duration of an iteration or request measured without a profiler, ns.
    pub unprofiled_median_ns: u64,
    /// Mean of the same, ns: upstream shapes traffic from the mean.
    pub unprofiled_mean_ns: u64,
    /// Device memory in use, bytes.
    pub memory_bytes: u64,
}

impl Program {
    /// Launches of one iteration or request, repeats counted.
    pub fn launches(&self) -> u64 {
        self.segments.iter().map(|s| u64::from(s.repeat) * s.launches.len() as u64).sum()
    }
}
