//! A program laid out for one machine: block durations, occupancy and demands of every launch.

use crate::machine::Machine;
use crate::occupancy::{Resources, blocks_per_sm};
use crate::program::{Kind, Launch, MEDIAN, Program, QUANTILE_PERMILLE, Segment};
use crate::scenario::Ns;
use anyhow::{Result, ensure};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Virtual time of a kernel is counted in 1/64 ns, so that short blocks keep their length under changing rates.
pub const TICKS_PER_NS: u64 = 64;

/// Realisations of a program's durations that an iteration picks from. Drawing each launch anew would cost more than
/// the whole rest of an undisturbed iteration and change nothing: an iteration sums hundreds of independent draws.
pub const REALISATIONS: usize = 16;

/// One millionth of a multiprocessor, the unit of [`Form::sm_demand`].
pub const MICRO_SM: u64 = 1_000_000;

/// What a kernel launch asks of the device, whatever its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub blocks: u64,
    /// Of one block.
    pub need: Resources,
    pub threads: u32,
    /// Blocks on one multiprocessor when alone.
    pub per_sm: u32,
    /// Blocks on the device when alone.
    pub capacity: u64,
    /// Blocks that start together, on one GPC.
    pub cluster: u32,
    /// Rounds of blocks when alone.
    pub waves: u64,
    /// Instruction throughput that a running block takes, in [`MICRO_SM`].
    pub sm_demand: u64,
    /// Memory traffic of a running block, bytes per ms.
    pub dram_demand: u64,
    /// May be stopped between its blocks by a patched prelude: several waves, blocks independent of each other.
    pub cuttable: bool,
}

/// One launch of the prepared sequence.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub kind: Kind,
    pub form: Form,
    pub gap_ns: Ns,
    pub host_ns: Ns,
}

/// A segment with the position of its launches in [`Prepared::steps`].
#[derive(Clone, Debug)]
pub struct Part {
    pub first: usize,
    pub len: usize,
    pub repeat: u32,
    pub graph: bool,
    /// Host time after the segment, including what the model does not explain of the unprofiled duration.
    pub tail_ns: Ns,
    pub blocks: u64,
}

/// A program laid out for one machine.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub parts: Vec<Part>,
    pub steps: Vec<Step>,
    /// `durations[r][i]`: duration of step `i` in realisation `r`, ns.
    pub durations: Vec<Vec<u32>>,
    /// Median duration of each step alone, ns.
    pub medians: Vec<Ns>,
    /// Launches of one iteration, repeats counted.
    pub launches: u64,
}

impl Prepared {
    /// Lays out `program` for `machine`; `seed` draws the realisations.
    ///
    /// # Errors
    /// An empty program, or a kernel that does not fit on a multiprocessor, by name.
    pub fn new(program: &Program, machine: &Machine, seed: u64) -> Result<Prepared> {
        ensure!(program.launches() > 0, "workload `{}` has no launches in its profile", program.id);
        let mut parts = Vec::new();
        let mut steps = Vec::new();
        for segment in &program.segments {
            ensure!(!segment.launches.is_empty(), "segment `{}` of `{}` is empty", segment.name, program.id);
            let first = steps.len();
            for (i, launch) in segment.launches.iter().enumerate() {
                // The nodes of a graph share the host time of its one launch call.
                let node = segment.graph && i > 0 && segment.launches[i - 1].host_ns == launch.host_ns;
                steps.push(step(launch, node, program, machine)?);
            }
            parts.push(Part {
                first,
                len: segment.launches.len(),
                repeat: segment.repeat,
                graph: segment.graph,
                tail_ns: segment.host_tail_ns,
                blocks: segment.launches.iter().map(|l| l.blocks).sum(),
            });
        }
        let launches = || program.segments.iter().flat_map(|s: &Segment| &s.launches);
        let medians = launches().map(|l| Ns::from(l.duration_ns[MEDIAN])).collect();
        let mut prepared =
            Prepared { parts, steps, durations: Vec::new(), medians, launches: program.launches() };
        prepared.explain_the_rest(program, machine);
        let mut rng = Pcg64Mcg::new(u128::from(seed) << 64 | 0xcafe_f00d_d15e_a5e5);
        prepared.durations = (0..REALISATIONS)
            .map(|_| launches().map(|l| quantile(l, rng.random_range(0..=1000))).collect())
            .collect();
        Ok(prepared)
    }

    /// Spreads what the model leaves unexplained of the unprofiled median over the host's share of each segment, so that
    /// the job alone takes as long as it did when measured.
    fn explain_the_rest(&mut self, program: &Program, machine: &Machine) {
        let once = |part: &Part| alone(part, &self.steps, |i| self.medians[i], machine) + part.tail_ns;
        let modelled: Ns = self.parts.iter().map(|part| once(part) * Ns::from(part.repeat)).sum();
        let runs: Ns = self.parts.iter().map(|p| Ns::from(p.repeat)).sum();
        let rest = program.unprofiled_median_ns.saturating_sub(modelled) / runs.max(1);
        for part in &mut self.parts {
            part.tail_ns += rest;
        }
    }
}

/// Duration of one run of `part` alone on the device, from its first host action to the host seeing its end, ns.
fn alone(part: &Part, steps: &[Step], duration: impl Fn(usize) -> Ns, machine: &Machine) -> Ns {
    let latency = machine.rules.launch_latency_ns.value as Ns;
    let mut end = 0;
    for (offset, step) in steps[part.first..part.first + part.len].iter().enumerate() {
        let issued = step.host_ns + latency;
        let ready = if offset == 0 { issued } else { issued.max(end + step.gap_ns) };
        end = ready + duration(part.first + offset);
    }
    end + machine.rules.sync_latency_ns.value as Ns
}

/// How many of `blocks` places, spread evenly over the GPCs, clusters can use.
pub fn clustered(blocks: u64, cluster: u32, gpcs: u32) -> u64 {
    if cluster <= 1 {
        return blocks;
    }
    let (cluster, gpcs) = (u64::from(cluster), u64::from(gpcs));
    blocks / gpcs / cluster * cluster * gpcs
}

/// Piecewise linear between the recorded quantiles.
fn quantile(launch: &Launch, permille: u32) -> u32 {
    let d = &launch.duration_ns;
    let above = QUANTILE_PERMILLE.iter().position(|&p| p >= permille).expect("1000 is the last");
    if above == 0 {
        return d[0];
    }
    let (p0, p1) = (QUANTILE_PERMILLE[above - 1], QUANTILE_PERMILLE[above]);
    let (low, high) = (u64::from(d[above - 1]), u64::from(d[above].max(d[above - 1])));
    (low + (high - low) * u64::from(permille - p0) / u64::from(p1 - p0)) as u32
}

fn step(launch: &Launch, node: bool, program: &Program, machine: &Machine) -> Result<Step> {
    let rules = &machine.rules;
    // Outside of a graph longer gaps are the host's doing, which `host_ns` already says; the device adds no more than this.
    let longest = if node { Ns::MAX } else { rules.dispatch_gap_ns.value as Ns };
    let gap_ns = Ns::from(launch.gap_ns).min(longest);
    if launch.kind != Kind::Kernel {
        let form = Form {
            blocks: 0,
            need: Resources::default(),
            threads: 0,
            per_sm: 0,
            capacity: 0,
            cluster: 1,
            waves: 0,
            sm_demand: 0,
            dram_demand: 0,
            cuttable: false,
        };
        return Ok(Step { kind: launch.kind, form, gap_ns, host_ns: launch.host_ns });
    }
    let name = program.names.get(launch.name as usize).map_or("", String::as_str);
    let per_sm = blocks_per_sm(&machine.sm, launch.threads, launch.regs, launch.smem);
    ensure!(
        per_sm > 0 && launch.blocks > 0,
        "kernel `{name}` of `{}` cannot run on {}: {} blocks of {} threads, {} registers a thread, {} bytes of shared memory",
        program.id,
        machine.name,
        launch.blocks,
        launch.threads,
        launch.regs,
        launch.smem
    );
    let sms = u64::from(machine.sms);
    let cluster = launch.cluster.max(1);
    let capacity = clustered(u64::from(per_sm) * sms, cluster, machine.gpcs);
    ensure!(
        capacity > 0,
        "kernel `{name}` of `{}` wants clusters of {cluster} blocks, which do not fit on a GPC of {}",
        program.id,
        machine.name
    );
    let waves = launch.blocks.div_ceil(capacity);
    let resident = launch.blocks.min(capacity);
    let busy = u64::from(launch.sm_permille.unwrap_or(rules.default_sm_permille.value as u32));
    // A block's share of the kernel's mean demand; a full wave may not ask for more than the device has.
    let sm_total = busy * sms * (MICRO_SM / 1000);
    let sm_demand = (sm_total * waves / launch.blocks).min(sms * MICRO_SM / resident);
    let median = u64::from(launch.duration_ns[MEDIAN]).max(1);
    let peak_per_ms = machine.dram_bytes_per_us * 1000;
    let traffic_per_ms = match launch.dram_bytes {
        Some(bytes) => (u128::from(bytes) * 1_000_000 / u128::from(median)) as u64,
        None => peak_per_ms * rules.default_dram_permille.value as u64 / 1000,
    };
    let dram_demand = (traffic_per_ms.min(peak_per_ms) * waves / launch.blocks).min(peak_per_ms / resident);
    // Persistent and cluster kernels (cuBLASLt's nvjet) coordinate their blocks and must run as they are.
    let cuttable = waves > 1 && cluster == 1 && !name.contains("nvjet");
    let form = Form {
        blocks: launch.blocks,
        need: Resources::of_block(&machine.sm, launch.threads, launch.regs, launch.smem),
        threads: launch.threads,
        per_sm,
        capacity,
        cluster,
        waves,
        sm_demand,
        dram_demand,
        cuttable,
    };
    Ok(Step { kind: launch.kind, form, gap_ns, host_ns: launch.host_ns })
}
