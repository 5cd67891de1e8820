//! How many blocks of a kernel fit on one multiprocessor.

use crate::machine::SmLimits;

/// Threads per warp on every CUDA device.
const WARP: u32 = 32;
/// Warps are placed in groups of four, one per sub-partition (CUDA occupancy calculator, compute capability 7.0 on).
const WARP_GRANULARITY: u32 = 4;

/// What one block takes of a multiprocessor, or what is left of one: threads, blocks, registers and shared memory, each
/// in its allocation unit, in the four lanes of one word. This is asked and changed at every event of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources(u64);

/// The top bit of each lane, which no amount uses: a borrow out of a lane clears it.
const GUARD: u64 = 0x8000_8000_8000_8000;

impl Resources {
    fn pack(threads: u32, blocks: u32, reg_units: u32, smem_units: u32) -> Self {
        let lanes = [threads, blocks, reg_units, smem_units];
        Resources(lanes.iter().fold(0, |word, &lane| {
            assert!(lane < 0x8000, "a multiprocessor with {lane} units of one resource is beyond this model");
            word << 16 | u64::from(lane)
        }))
    }

    /// A whole multiprocessor.
    pub fn whole(sm: &SmLimits) -> Self {
        let (regs, smem) = (sm.regs / sm.reg_granularity, sm.smem_bytes / sm.smem_granularity);
        Self::pack(sm.threads, sm.blocks, regs, smem)
    }

    /// What one block takes, rounded up as the hardware allocates.
    pub fn of_block(sm: &SmLimits, threads: u32, regs_per_thread: u32, smem: u32) -> Self {
        let warps = threads.div_ceil(WARP);
        let regs_per_warp = (regs_per_thread * WARP).div_ceil(sm.reg_granularity);
        let smem = (smem + sm.smem_reserved_bytes).div_ceil(sm.smem_granularity);
        Self::pack(warps * WARP, 1, (regs_per_warp * warps).min(0x7fff), smem.min(0x7fff))
    }

    /// At least one block of the given need fits into this.
    pub fn holds(&self, need: &Resources) -> bool {
        ((self.0 | GUARD) - need.0) & GUARD == GUARD
    }

    /// How many blocks of the given need fit into this.
    pub fn fit(&self, need: &Resources) -> u32 {
        // Most often the answer is none: divisions only where it is not.
        if !self.holds(need) {
            return 0;
        }
        let lane = |word: u64, k: u32| (word >> (16 * k)) as u16;
        let by = |k| u32::from(lane(self.0, k).checked_div(lane(need.0, k)).unwrap_or(u16::MAX));
        by(0).min(by(1)).min(by(2)).min(by(3))
    }

    /// What `n` blocks of this need take; `n` must be no more than an empty multiprocessor holds.
    pub fn times(&self, n: u32) -> Resources {
        Resources(self.0 * u64::from(n))
    }

    /// This and that.
    pub fn with(&self, other: &Resources) -> Resources {
        Resources(self.0 + other.0)
    }

    /// What is left without that; the caller made sure that it is there.
    pub fn without(&self, other: &Resources) -> Resources {
        Resources(self.0 - other.0)
    }
}

/// Blocks of a kernel that fit on an empty multiprocessor, by the rules of NVIDIA's occupancy calculator. 0 if it cannot
/// run.
pub fn blocks_per_sm(sm: &SmLimits, threads: u32, regs_per_thread: u32, smem: u32) -> u32 {
    let warps = threads.div_ceil(WARP).max(1);
    let regs_per_warp = (regs_per_thread * WARP).next_multiple_of(sm.reg_granularity);
    let warps_by_regs = sm.regs.checked_div(regs_per_warp).unwrap_or(u32::MAX);
    let warps_by_regs = warps_by_regs / WARP_GRANULARITY * WARP_GRANULARITY;
    Resources::whole(sm)
        .fit(&Resources::of_block(sm, threads, regs_per_thread, smem))
        .min(warps_by_regs / warps)
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: SmLimits = SmLimits {
        threads: 2048,
        blocks: 32,
        regs: 65_536,
        smem_bytes: 233_472,
        smem_reserved_bytes: 1024,
        reg_granularity: 256,
        smem_granularity: 128,
    };

    #[test]
    fn each_limit_in_turn() {
        assert_eq!(blocks_per_sm(&H200, 1024, 32, 0), 2, "threads");
        assert_eq!(blocks_per_sm(&H200, 32, 16, 0), 32, "blocks");
        // 128 registers x 256 threads = 32,768 of 65,536.
        assert_eq!(blocks_per_sm(&H200, 256, 128, 0), 2, "registers");
        // 168 x 384 = 64,512.
        assert_eq!(blocks_per_sm(&H200, 384, 168, 0), 1, "registers of a warp-specialised kernel");
        // 100 KiB + 1 KiB reserved: two fit into 228 KiB.
        assert_eq!(blocks_per_sm(&H200, 128, 32, 100 * 1024), 2, "shared memory");
        assert_eq!(blocks_per_sm(&H200, 128, 32, 228 * 1024), 0, "the reserved KiB does not fit");
    }

    #[test]
    fn warps_come_in_fours() {
        // 65,536 / (40 x 32) = 51 warps, of which 48 can be placed: 16 blocks of 3 warps, not 17.
        assert_eq!(blocks_per_sm(&H200, 96, 40, 0), 16);
    }
}
