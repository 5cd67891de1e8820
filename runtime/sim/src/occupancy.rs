//! How many blocks of a kernel fit on one multiprocessor.

use crate::machine::SmLimits;

/// Threads per warp on every CUDA device.
const WARP: u32 = 32;
/// Warps are placed in groups of four, one per sub-partition (CUDA occupancy calculator, compute capability 7.0 on).
const WARP_GRANULARITY: u32 = 4;

/// What one block takes of a multiprocessor, or what is left of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources {
    pub threads: u32,
    pub blocks: u32,
    pub regs: u32,
    pub smem: u32,
}

impl Resources {
    /// A whole multiprocessor.
    pub fn whole(sm: &SmLimits) -> Self {
        Resources { threads: sm.threads, blocks: sm.blocks, regs: sm.regs, smem: sm.smem_bytes }
    }

    /// What one block takes, rounded up as the hardware allocates.
    pub fn of_block(sm: &SmLimits, threads: u32, regs_per_thread: u32, smem: u32) -> Self {
        let warps = threads.div_ceil(WARP);
        let regs_per_warp = (regs_per_thread * WARP).next_multiple_of(sm.reg_granularity);
        Resources {
            threads: warps * WARP,
            blocks: 1,
            regs: regs_per_warp * warps,
            smem: (smem + sm.smem_reserved_bytes).next_multiple_of(sm.smem_granularity),
        }
    }

    /// How many blocks of the given need fit into this.
    pub fn fit(&self, need: &Resources) -> u32 {
        let by = |have: u32, need: u32| have.checked_div(need).unwrap_or(u32::MAX);
        by(self.threads, need.threads)
            .min(by(self.blocks, need.blocks))
            .min(by(self.regs, need.regs))
            .min(by(self.smem, need.smem))
    }

    /// Takes `n` blocks; the caller made sure that they fit.
    pub fn take(&mut self, need: &Resources, n: u32) {
        self.threads -= need.threads * n;
        self.blocks -= need.blocks * n;
        self.regs -= need.regs * n;
        self.smem -= need.smem * n;
    }

    /// Gives `n` blocks back.
    pub fn give(&mut self, need: &Resources, n: u32) {
        self.threads += need.threads * n;
        self.blocks += need.blocks * n;
        self.regs += need.regs * n;
        self.smem += need.smem * n;
    }
}

/// Blocks of a kernel that fit on an empty multiprocessor, by the rules of NVIDIA's occupancy calculator. 0 if it cannot
/// run.
pub fn blocks_per_sm(sm: &SmLimits, threads: u32, regs_per_thread: u32, smem: u32) -> u32 {
    let warps = threads.div_ceil(WARP).max(1);
    let regs_per_warp = (regs_per_thread * WARP).next_multiple_of(sm.reg_granularity);
    let warps_by_regs = sm.regs.checked_div(regs_per_warp).unwrap_or(u32::MAX);
    let warps_by_regs = warps_by_regs / WARP_GRANULARITY * WARP_GRANULARITY;
    Resources::whole(sm).fit(&Resources::of_block(sm, threads, regs_per_thread, smem)).min(warps_by_regs / warps)
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
