//! A recorded program on another GPU: durations scaled by published peak rates.
//!
//! This is an extrapolation, not a recording: the other GPU would run other kernels with other grids. Whoever shows its
//! numbers says so.

use crate::profile::{Profile, add_wait};
use anyhow::{Context, Result};
use sim::machine::Peaks;
use sim::occupancy::blocks_per_sm;
use sim::program::MEDIAN;
use sim::{Kind, Launch, Machine, Program};

/// From this share of a peak on a kernel counts as bound by it; below, it is in part bound by latency.
const BOUND: f64 = 0.6;

/// What a Hopper-only kernel (thread-block clusters, or cuBLASLt's `nvjet`) needs as the kernel that upstream runs in its
/// place on Ampere: Tally's CUTLASS tensor-op GEMM with tiles of 128 x 128 x 16, warps of 64 x 64 x 16 and 4 stages, which is
/// 4 warps and 4 x (128 + 128) x 16 x 2 bytes (Tally at commit 86feb12, src/tally/cutlass/cutlass.cu).
const AMPERE_GEMM: Needs = Needs { threads: 128, regs: 232, smem: 32_768 };

/// Of one block. A warp's 64 x 64 tile is 128 accumulators a thread; the other registers are assumed, and any number from
/// 172 to 255 leaves two blocks on a multiprocessor.
struct Needs {
    threads: u32,
    regs: u32,
    smem: u32,
}

/// Rescales a recorded job to another machine, see [`extrapolate`]; a host that waits for its input waits longer as the
/// device is busy for longer, so that the share stays.
///
/// # Errors
/// As [`extrapolate`].
pub fn extrapolate_job(profile: &Profile, from: &Machine, to: &Machine) -> Result<Program> {
    let mut program = extrapolate(&profile.program, from, to)?;
    let (here, there) = (busy(&profile.program), busy(&program));
    let wait = u128::from(profile.input_wait_ns) * u128::from(there) / u128::from(here.max(1));
    add_wait(&mut program, (wait as u64).saturating_sub(profile.input_wait_ns));
    Ok(program)
}

/// Rescales a program recorded on one machine to another.
///
/// A kernel bound by memory takes longer by the ratio of the bandwidths, one bound by arithmetic by the ratio of the
/// peak rates of its precision, one bound by neither by the ratio of the clocks; in between the factor is interpolated.
/// Host times stay. If the other machine has a published solo latency for the job (`anchors`), the result is scaled to it.
///
/// # Errors
/// A machine without peak rates, by name.
pub fn extrapolate(program: &Program, from: &Machine, to: &Machine) -> Result<Program> {
    let peaks = |m: &Machine| {
        let missing = || format!("machines/{}.toml has no [peaks], which an extrapolation needs", m.name);
        m.peaks.clone().with_context(missing)
    };
    let (here, there) = (peaks(from)?, peaks(to)?);
    let mut program = program.clone();
    let before: u64 = busy(&program);
    for segment in &mut program.segments {
        // Known of the recording machine only.
        segment.unprofiled_median_ns = None;
        for launch in &mut segment.launches {
            let name = program.names.get(launch.name as usize).map_or("", String::as_str);
            let factor = factor(launch, name, (from, &here), (to, &there));
            scale(launch, factor);
            fit(launch, name, to);
        }
    }
    let longer = busy(&program).saturating_sub(before);
    program.unprofiled_median_ns += longer;
    program.unprofiled_mean_ns += longer;
    if let Some(anchor) = to.anchors.get(&program.id) {
        anchor_to(&mut program, anchor.value);
    }
    Ok(program)
}

/// Device time of one iteration or request, from the medians, ns.
fn busy(program: &Program) -> u64 {
    let of = |launches: &[Launch]| launches.iter().map(|l| u64::from(l.duration_ns[MEDIAN])).sum::<u64>();
    program.segments.iter().map(|s| of(&s.launches) * u64::from(s.repeat)).sum()
}

fn factor(launch: &Launch, name: &str, from: (&Machine, &Peaks), to: (&Machine, &Peaks)) -> f64 {
    let clock = from.1.clock_mhz / to.1.clock_mhz;
    if launch.kind != Kind::Kernel {
        return 1.0;
    }
    let bandwidth = from.0.dram_bytes_per_us as f64 / to.0.dram_bytes_per_us as f64;
    let half = ["f16", "hsh", "Half"].iter().any(|mark| name.contains(mark));
    let arithmetic = if half {
        from.1.fp16_tensor_tflops / to.1.fp16_tensor_tflops
    } else {
        from.1.fp32_tflops / to.1.fp32_tflops
    };
    let seconds = f64::from(launch.duration_ns[MEDIAN].max(1)) * 1e-9;
    let memory_share =
        launch.dram_bytes.map_or(0.0, |b| b as f64 / seconds / (from.0.dram_bytes_per_us as f64 * 1e6));
    let arithmetic_share = f64::from(launch.sm_permille.unwrap_or(500)) / 1000.0;
    let (share, bound) = if memory_share >= arithmetic_share {
        (memory_share, bandwidth)
    } else {
        (arithmetic_share, arithmetic)
    };
    clock + (bound - clock) * (share / BOUND).min(1.0)
}

fn scale(launch: &mut Launch, factor: f64) {
    for duration in &mut launch.duration_ns {
        *duration = (f64::from(*duration) * factor).round() as u32;
    }
}

/// Gives a kernel the needs that it would have on another GPU: no clusters, and no more shared memory than there is. The
/// grid stays as recorded.
fn fit(launch: &mut Launch, name: &str, to: &Machine) {
    if launch.kind != Kind::Kernel {
        return;
    }
    if launch.cluster > 1 || name.contains("nvjet") {
        let Needs { threads, regs, smem } = AMPERE_GEMM;
        (launch.threads, launch.regs, launch.smem) = (threads, regs, smem);
    }
    launch.cluster = 1;
    if blocks_per_sm(&to.sm, launch.threads, launch.regs, launch.smem) == 0 {
        launch.smem = launch.smem.min(to.sm.smem_bytes - to.sm.smem_reserved_bytes);
    }
}

/// Scales device and host times alike, so that the mean latency alone is the published one.
fn anchor_to(program: &mut Program, mean_ns: f64) {
    let factor = mean_ns / program.unprofiled_mean_ns as f64;
    let times = |ns: u64| (ns as f64 * factor).round() as u64;
    for segment in &mut program.segments {
        segment.host_tail_ns = times(segment.host_tail_ns);
        for launch in &mut segment.launches {
            scale(launch, factor);
            launch.gap_ns = times(u64::from(launch.gap_ns)) as u32;
            launch.host_ns = times(launch.host_ns);
        }
    }
    program.unprofiled_median_ns = times(program.unprofiled_median_ns);
    program.unprofiled_mean_ns = times(program.unprofiled_mean_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn machine(name: &str) -> Machine {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines");
        Machine::load(&folder.join(format!("{name}.toml"))).unwrap()
    }

    fn kernel(dram_bytes: u64, sm_permille: u32) -> Launch {
        Launch {
            kind: Kind::Kernel,
            name: 0,
            blocks: 1000,
            threads: 128,
            regs: 32,
            cluster: 8,
            smem: 200_000,
            duration_ns: [1_000_000; 7],
            gap_ns: 0,
            host_ns: 0,
            dram_bytes: Some(dram_bytes),
            sm_permille: Some(sm_permille),
        }
    }

    #[test]
    fn factors_by_what_binds_a_kernel() {
        let (h200, a100) = (machine("h200"), machine("a100"));
        let (here, there) = (h200.peaks.clone().unwrap(), a100.peaks.clone().unwrap());
        let of = |launch: &Launch, name: &str| factor(launch, name, (&h200, &here), (&a100, &there));
        // 4.8 TB/s for 1 ms is 4.8 GB; the bandwidths are 4.8 and 1.555 TB/s.
        assert!((of(&kernel(4_800_000_000, 100), "k") - 4.8 / 1.555).abs() < 1e-9);
        assert!((of(&kernel(0, 900), "k") - 67.0 / 19.5).abs() < 1e-9);
        assert!((of(&kernel(0, 900), "gemm_f16") - 989.0 / 312.0).abs() < 1e-9);
        // Half of the share from which it counts as bound: half-way between the clocks' ratio and the peaks'.
        let clock = 1980.0 / 1410.0;
        assert!((of(&kernel(0, 300), "k") - (clock + (67.0 / 19.5 - clock) / 2.0)).abs() < 1e-9);
    }

    #[test]
    fn kernels_are_made_to_fit() {
        let a100 = machine("a100");
        let per_sm = |l: &Launch| blocks_per_sm(&a100.sm, l.threads, l.regs, l.smem);
        // 200 KB are more than the A100 has.
        let mut large = Launch { cluster: 1, ..kernel(0, 0) };
        fit(&mut large, "k", &a100);
        assert_eq!((large.threads, large.smem, per_sm(&large)), (128, 166_912, 1));
        // Two of 4 warps: 2 x 128 x 232 registers of 65,536.
        for (cluster, name) in [(8, "k"), (1, "nvjet_sm90_hsh")] {
            let mut hopper = Launch { cluster, ..kernel(0, 0) };
            fit(&mut hopper, name, &a100);
            assert_eq!((hopper.cluster, hopper.smem, hopper.blocks, per_sm(&hopper)), (1, 32_768, 1000, 2));
        }
    }

    #[test]
    fn a_wait_for_input_keeps_its_share() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let recorded = crate::profile::load(folder, "h200", "whisper-train").unwrap();
        let there = extrapolate_job(&recorded, &machine("h200"), &machine("a100")).unwrap();
        let share = busy(&there) as f64 / there.unprofiled_median_ns as f64;
        assert!((0.45..0.53).contains(&share), "the device is busy for {share}, half is wanted");
    }

    #[test]
    fn anchored_jobs_take_as_long_as_published() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (id, mean_ns) in [("bert-infer", 4_050_000), ("llama-2-7b-infer", 1_963_886_000)] {
            let recorded = crate::profile::load(folder, "h200", id).unwrap().program;
            let there = extrapolate(&recorded, &machine("h200"), &machine("a100")).unwrap();
            assert!(there.unprofiled_mean_ns.abs_diff(mean_ns) < 1000, "{id}: {}", there.unprofiled_mean_ns);
        }
    }
}
