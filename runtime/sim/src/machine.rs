//! The device: `machines/*.toml`.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Where a rule or constant comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The vendor says so.
    Documented,
    /// We measured it on this machine.
    Measured,
    /// Chosen so that the model gives published values; `artifact/fidelity.toml` names them.
    Fitted,
    /// From public reverse engineering, or a guess; each has a switch for the sensitivity table.
    Assumed,
}

/// A number of the device model with its origin and source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    pub value: f64,
    pub origin: Origin,
    /// Where the number comes from.
    pub source: String,
}

/// Limits of one streaming multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmLimits {
    pub threads: u32,
    pub blocks: u32,
    /// 32-bit registers.
    pub regs: u32,
    /// Bytes that blocks may use together.
    pub smem_bytes: u32,
    /// Bytes that the driver reserves per block.
    pub smem_reserved_bytes: u32,
    /// Registers are handed out to warps in this granularity.
    pub reg_granularity: u32,
    /// Shared memory is handed out in this granularity, bytes.
    pub smem_granularity: u32,
}

/// Device rules and costs; every one has a source, and the sensitivity table varies the assumed ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// How long a context keeps the device while another waits, ns.
    pub slice_ns: Constant,
    /// Time in which nothing runs when the device changes contexts in the middle of work, ns.
    pub switch_ns: Constant,
    /// The same when the context that leaves has nothing on the device, ns.
    pub drained_switch_ns: Constant,
    /// A context keeps the device over a pause of this length between two of its launches, ns.
    pub early_yield_ns: Constant,
    /// Added to each CUDA-graph launch of an MPS client, ns.
    pub mps_graph_launch_ns: Constant,
    /// From a host launch call to the start on an idle device, ns.
    pub launch_latency_ns: Constant,
    /// From the end on the device to a waiting host seeing it, ns.
    pub sync_latency_ns: Constant,
    /// Between dependent launches of one stream when the host is ahead, ns.
    pub dispatch_gap_ns: Constant,
    /// From a change of the shared word to the other processes seeing it, ns.
    pub word_delay_ns: Constant,
    /// From asking for a stop to the running blocks seeing the flag, ns.
    pub flag_write_ns: Constant,
    /// Added to the lifetime of a block by a gate or a persistent worker's loop, ns.
    pub gated_block_ns: Constant,
    /// To skip a thousand finished blocks when an interrupted kernel is launched again, ns.
    pub skip_ns_per_1000_blocks: Constant,
    /// Share of a multiprocessor's usual residents at which its throughput is already saturated, in 1/1000: fewer
    /// persistent workers than that slow a kernel down in proportion.
    pub saturation_permille: Constant,
    /// Parts of a full wave of blocks that end one after the other, evenly spread over a block's duration; 1 for waves in
    /// lockstep.
    pub wave_phases: Constant,
    /// Added to a kernel that starts while another client's runs, ns.
    pub corun_start_ns: Constant,
    /// The same for each TB/s of memory traffic of the others, ns.
    pub corun_start_ns_per_tb_s: Constant,
    /// Demand for instruction throughput of a kernel whose own was not counted, in 1/1000 of the device.
    pub default_sm_permille: Constant,
    /// Demand for memory bandwidth of a kernel whose traffic was not counted, in 1/1000 of the peak.
    pub default_dram_permille: Constant,
}

/// Published peak rates, for extrapolation only; the simulator itself does not read them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peaks {
    pub fp32_tflops: f64,
    /// Dense, accumulating in FP32.
    pub fp16_tensor_tflops: f64,
    /// Highest clock of the multiprocessors.
    pub clock_mhz: f64,
    pub source: String,
}

/// One GPU model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// `h200`: the name of the file.
    pub name: String,
    /// Full product name.
    pub product: String,
    pub sms: u32,
    /// Clusters of multiprocessors (GPCs); the blocks of a thread-block cluster run on one of them.
    pub gpcs: u32,
    pub sm: SmLimits,
    /// Peak device-memory bandwidth, bytes per microsecond (1e6 = 1 TB/s).
    pub dram_bytes_per_us: u64,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    pub rules: Rules,
    pub peaks: Option<Peaks>,
    /// Published mean latencies of jobs alone on this machine, ns, by workload id: an extrapolation is scaled to them.
    #[serde(default)]
    pub anchors: BTreeMap<String, Constant>,
}

impl Machine {
    /// Reads and checks a machine file.
    ///
    /// # Errors
    /// Names the file and the offending field.
    pub fn load(path: &Path) -> Result<Machine> {
        let text = bounded::text(path, bounded::DEFINITION)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Machine::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Parses and checks the text of a machine file.
    ///
    /// # Errors
    /// Unknown or missing fields, and values out of range, by name.
    pub fn parse(text: &str) -> Result<Machine> {
        let machine: Machine = toml::from_str(text)?;
        ensure!(machine.sms > 0, "sms must be at least 1");
        ensure!((1..=machine.sms).contains(&machine.gpcs), "gpcs must be between 1 and sms");
        ensure!(machine.dram_bytes_per_us > 0, "dram_bytes_per_us must be at least 1");
        ensure!(
            (1.0..=64.0).contains(&machine.rules.wave_phases.value),
            "wave_phases must be between 1 and 64"
        );
        ensure!(machine.sm.threads >= 32 && machine.sm.blocks > 0, "sm.threads and sm.blocks are too small");
        ensure!(
            machine.sm.reg_granularity > 0 && machine.sm.smem_granularity > 0,
            "granularities must be positive"
        );
        Ok(machine)
    }
}
