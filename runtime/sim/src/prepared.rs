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
/// the whole rest of an undisturbed iteration. Launches are drawn independently, so that an iteration varies less than it
/// did when recorded: slow changes that all launches share, of clocks say, are not in the quantiles of a launch.
pub const REALISATIONS: usize = 16;

/// A job counts as bound by its host when the device idles for more than one in so many of its time.
const HOST_BOUND: Ns = 20;

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
    /// Parts of a wave that end one after the other, see [`crate::kernel::Kernel::phases`].
    pub phases: u64,
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
    /// Time from the first host action to the end on the device of all segments, alone, ns.
    pub busy_ns: Ns,
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
        let mut rng = Pcg64Mcg::new(u128::from(seed) << 64 | 0xcafe_f00d_d15e_a5e5);
        let durations: Vec<Vec<u32>> = (0..REALISATIONS)
            .map(|_| launches().map(|l| quantile(l, rng.random_range(0..=1000))).collect())
            .collect();
        let launches = program.launches();
        let mut prepared = Prepared { parts, steps, durations, medians, launches, busy_ns: 0 };
        prepared.calibrate(program, machine);
        Ok(prepared)
    }

    /// Makes the job alone take as long as it did when measured without a profiler. What the model leaves unexplained is
    /// the host's. Of a host-bound job its calls are stretched as far as needed, which keeps the pauses where they were
    /// recorded; the remainder, and that of a job bound by the device, is added after the segment.
    fn calibrate(&mut self, program: &Program, machine: &Machine) {
        let count = self.durations.len() as u64;
        let mean = |i: usize| self.durations.iter().map(|d| Ns::from(d[i])).sum::<Ns>() / count;
        let means: Vec<Ns> = (0..self.steps.len()).map(mean).collect();
        let whole: Ns = program.unprofiled_median_ns;
        let single = program.segments.len() == 1;
        let mut explained = 0;
        for (part, segment) in self.parts.iter_mut().zip(&program.segments) {
            let repeat = Ns::from(part.repeat.max(1));
            let target = if single { Some(whole / repeat) } else { segment.unprofiled_median_ns };
            if let Some(target) = target {
                let steps = &mut self.steps[part.first..part.first + part.len];
                let wanted = target.saturating_sub(part.tail_ns);
                let rest = wanted.saturating_sub(alone(steps, &means[part.first..], machine));
                if rest > target / HOST_BOUND {
                    stretch_host(steps, &means[part.first..], wanted, machine);
                }
                part.tail_ns += wanted.saturating_sub(alone(steps, &means[part.first..], machine));
            }
            let steps = &self.steps[part.first..part.first + part.len];
            explained += (alone(steps, &means[part.first..], machine) + part.tail_ns) * repeat;
        }
        self.busy_ns = explained - self.parts.iter().map(|p| p.tail_ns * Ns::from(p.repeat)).sum::<Ns>();
        // What lies between the segments is known as a whole only. Where the segments are known it belongs to the first,
        // which begins the request; else every run of every segment has its share.
        let rest = whole.saturating_sub(explained);
        let known = program.segments.iter().all(|s| s.unprofiled_median_ns.is_some());
        let runs = if known { 1 } else { self.parts.iter().map(|p| Ns::from(p.repeat)).sum() };
        for part in self.parts.iter_mut().take(if known { 1 } else { usize::MAX }) {
            part.tail_ns += rest / runs.max(1);
        }
    }
}

/// Stretches the host's times by up to four until one run takes `wanted`; a graph has but one call to stretch.
fn stretch_host(steps: &mut [Step], durations: &[Ns], wanted: Ns, machine: &Machine) {
    let recorded: Vec<Ns> = steps.iter().map(|s| s.host_ns).collect();
    let apply = |steps: &mut [Step], permille: Ns| {
        for (step, ns) in steps.iter_mut().zip(&recorded) {
            step.host_ns = ns * permille / 1000;
        }
    };
    let (mut fits, mut beyond) = (1000, 4000);
    while beyond - fits > 1 {
        let middle = (fits + beyond) / 2;
        apply(steps, middle);
        if alone(steps, durations, machine) <= wanted {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    apply(steps, fits);
}

/// Duration of one run of a segment alone on the device, from its first host action to the host seeing its end, ns.
fn alone(steps: &[Step], durations: &[Ns], machine: &Machine) -> Ns {
    let latency = machine.rules.launch_latency_ns.value as Ns;
    let mut end = 0;
    for (k, (step, duration)) in steps.iter().zip(durations).enumerate() {
        let issued = step.host_ns + latency;
        end = if k == 0 { issued } else { issued.max(end + step.gap_ns) } + duration;
    }
    end + machine.rules.sync_latency_ns.value as Ns
}

/// How many of `blocks` places, spread evenly over the GPCs, clusters can use. Multiprocessors come in pairs, so that
/// clusters of two lose nothing; larger ones have to fit into a GPC as it is.
pub fn clustered(blocks: u64, cluster: u32, gpcs: u32) -> u64 {
    let (cluster, gpcs) = (u64::from(cluster), u64::from(gpcs));
    match cluster {
        0 | 1 => blocks,
        2 => blocks / 2 * 2,
        _ => blocks / gpcs / cluster * cluster * gpcs,
    }
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
            phases: 1,
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
    // The blocks of a cluster start together.
    let phases = if waves > 1 && cluster == 1 { rules.wave_phases.value as u64 } else { 1 };
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
    let form = Form {
        blocks: launch.blocks,
        need: Resources::of_block(&machine.sm, launch.threads, launch.regs, launch.smem),
        threads: launch.threads,
        per_sm,
        capacity,
        cluster,
        waves,
        phases,
        sm_demand,
        dram_demand,
        cuttable: launch.cuttable(name, machine),
    };
    Ok(Step { kind: launch.kind, form, gap_ns, host_ns: launch.host_ns })
}
