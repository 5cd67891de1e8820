//! One scheduling domain: kernels of several streams share the device (MPS, or one context with stream priorities).
//!
//! Its multiprocessors are one [`Pool`], or several of a fixed size each. The memory bandwidth is shared by all. When
//! resident blocks together ask for more instruction throughput than their pool has, or for more memory bandwidth than
//! the device has, all that ask for it slow down in proportion.

use crate::kernel::{Done, Kernel};
use crate::occupancy::Resources;
use crate::pool::{FULL_RATE, Pool, Run, Runs};
use crate::prepared::TICKS_PER_NS;
use crate::scenario::{Counters, Ns};
use crate::sms::Ticks;

/// Clients of one domain at most.
pub const SLOTS: usize = 16;

const BYTES_PER_MS_AT_1_TB_S: u64 = 1_000_000_000;

/// What it costs to start a kernel while another client's runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Corun {
    pub start_ns: Ns,
    pub start_ns_per_tb_s: Ns,
}

/// The domain's state.
#[derive(Clone, Debug)]
pub struct Domain {
    runs: Runs,
    pools: Box<[Pool]>,
    /// Each slot's pool.
    pool_of: [u8; SLOTS],
    /// There are parts, be it one: its kernels take longer than on the whole device.
    divided: bool,
    /// This slot's kernel has the device for itself since it started; its blocks are not laid out.
    alone: Option<u8>,
    dram_capacity: u64,
    corun: Corun,
    /// The blocks were brought to this time.
    since: Ns,
    next: Ns,
    /// It may be that nothing happens at `next`, but later.
    too_early: bool,
    /// Some kernel's rate is not the full one.
    slowed: bool,
    pub counters: Counters,
}

impl Domain {
    /// An empty device whose clients share all multiprocessors. `dram_bytes_per_ms` is its peak memory bandwidth.
    pub fn new(sms: u32, gpcs: u32, whole: Resources, dram_bytes_per_ms: u64) -> Self {
        let whole = Self::partitioned([(sms, gpcs)], [0; SLOTS], whole, dram_bytes_per_ms);
        Domain { divided: false, ..whole }
    }

    /// An empty device in parts of so many multiprocessors and GPCs; `pool_of` says which part a slot's kernels run on.
    pub fn partitioned(
        parts: impl IntoIterator<Item = (u32, u32)>,
        pool_of: [u8; SLOTS],
        whole: Resources,
        dram_bytes_per_ms: u64,
    ) -> Self {
        Domain {
            runs: std::array::from_fn(|_| Run::new(Kernel::default(), 0)),
            pools: parts.into_iter().map(|(sms, gpcs)| Pool::new(sms, gpcs, whole)).collect(),
            pool_of,
            divided: true,
            alone: None,
            dram_capacity: dram_bytes_per_ms,
            corun: Corun::default(),
            since: 0,
            next: Ns::MAX,
            too_early: false,
            slowed: false,
            counters: Counters::default(),
        }
    }

    /// Sets what it costs to start a kernel beside others.
    pub fn with_corun(mut self, corun: Corun) -> Self {
        self.corun = corun;
        self
    }

    /// When something happens on the device; `Ns::MAX` if never.
    pub fn next(&self) -> Ns {
        self.next
    }

    /// No kernel is on the device.
    pub fn is_idle(&self) -> bool {
        self.pools.iter().all(|p| p.order.is_empty())
    }

    /// No kernel can have all multiprocessors.
    pub fn is_partitioned(&self) -> bool {
        self.divided
    }

    /// Multiprocessors and GPCs of a slot's part; `None` if it shares all of them.
    pub fn part(&self, slot: usize) -> Option<(u32, u32)> {
        self.divided.then(|| self.pools[usize::from(self.pool_of[slot])].counts())
    }

    /// A kernel has come to the head of its stream. Every slot has one kernel at a time.
    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns, done: &mut Vec<Done>) {
        let pool = usize::from(self.pool_of[slot]);
        debug_assert!(
            self.pools[pool].order.iter().all(|&s| usize::from(s) != slot),
            "one kernel per stream at a time"
        );
        self.counters.launches += 1;
        self.runs[slot] = Run::new(kernel, now);
        let idle = self.is_idle();
        if idle && kernel.blocks > 0 && !self.over_asks(&kernel, pool) {
            self.pools[pool].order.push(slot as u8);
            self.alone = Some(slot as u8);
            self.next = now + kernel.duration_with(self.pools[pool].capacity(&kernel));
            self.too_early = false;
            return;
        }
        self.catch_up(now);
        if !idle {
            self.runs[slot].kernel.block += self.late_start(&kernel, pool);
        }
        self.pools[pool].enter(slot as u8, &self.runs);
        self.settle(now, done);
    }

    /// On its part of the device a kernel asks for more instruction throughput than there is, so that it is slowed down
    /// without any neighbour. On the whole device none does: its demand was counted there.
    fn over_asks(&self, kernel: &Kernel, pool: usize) -> bool {
        let pool = &self.pools[pool];
        self.divided && kernel.blocks.min(pool.capacity(kernel)) * kernel.sm_demand > pool.sm_capacity
    }

    /// What a start beside others costs, spread over the kernel's rounds.
    fn late_start(&self, kernel: &Kernel, pool: usize) -> Ticks {
        let traffic: u64 = self.pools.iter().map(|p| p.asked.dram).sum();
        let cost = self.corun.start_ns + self.corun.start_ns_per_tb_s * traffic / BYTES_PER_MS_AT_1_TB_S;
        if cost == 0 {
            return 0;
        }
        let rounds = kernel.blocks.div_ceil(self.pools[pool].capacity(kernel)).max(1);
        cost * TICKS_PER_NS / rounds
    }

    /// Tells a slot's kernel to start no further block.
    pub fn halt(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.catch_up(now);
        let pool = &mut self.pools[usize::from(self.pool_of[slot])];
        if pool.order.iter().any(|&s| usize::from(s) == slot) {
            self.runs[slot].halted = true;
            pool.halted();
        }
        self.settle(now, done);
    }

    /// Takes a slot's kernel off the device at once: all its blocks are left, and count as never placed.
    pub fn kill(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.catch_up(now);
        let pool = &mut self.pools[usize::from(self.pool_of[slot])];
        pool.kill(slot as u8, &mut self.runs, &mut self.counters);
        self.settle(now, done);
    }

    /// Handles all that happens until `now`, which must not lie beyond [`Domain::next`].
    pub fn advance(&mut self, now: Ns, done: &mut Vec<Done>) {
        debug_assert!(now <= self.next, "an event of the device was passed over");
        if now < self.next {
            return;
        }
        if std::mem::take(&mut self.too_early) {
            self.find_next(true);
            if now < self.next {
                return;
            }
        }
        self.counters.events += 1;
        if let Some(slot) = self.alone.take() {
            let slot = usize::from(slot);
            self.pools[usize::from(self.pool_of[slot])].order.clear();
            let blocks = self.runs[slot].pending;
            self.counters.blocks_placed += blocks;
            self.counters.blocks_done += blocks;
            self.next = Ns::MAX;
            done.push(Done { slot, at: now, left: 0 });
            return;
        }
        self.catch_up(now);
        self.settle(now, done);
    }

    /// Handles what happens at `now`, and then until `limit` as long as no kernel leaves the device and time goes on.
    /// Returns the time that it got to.
    pub fn advance_until(&mut self, mut now: Ns, limit: Ns, done: &mut Vec<Done>) -> Ns {
        loop {
            self.advance(now, done);
            if !done.is_empty() || self.next > limit || self.next <= now {
                return now;
            }
            now = self.next;
        }
    }

    /// Brings the blocks to `now`: those that ended, and those that were put in their places meanwhile.
    fn catch_up(&mut self, now: Ns) {
        if let Some(slot) = self.alone.take() {
            let pool = usize::from(self.pool_of[usize::from(slot)]);
            self.pools[pool].lay_out(now, &mut self.runs, &mut self.counters);
        }
        if self.slowed {
            for pool in &mut self.pools {
                pool.put_off(now - self.since, &mut self.runs);
            }
        }
        self.since = now;
        for pool in &mut self.pools {
            pool.retire(now, &mut self.runs, &mut self.counters);
        }
    }

    /// Places what may be placed, reports finished kernels, and finds out when to look again.
    fn settle(&mut self, now: Ns, done: &mut Vec<Done>) {
        let mut dram = 0;
        let mut over = self.slowed;
        for pool in &mut self.pools {
            pool.settle(now, &mut self.runs, &mut self.counters, done);
            dram += pool.asked.dram;
            over |= pool.asked.sm > pool.sm_capacity;
        }
        if over || dram > self.dram_capacity {
            self.share(dram);
        }
        // On a part of its own there is nobody who could come before.
        self.find_next(self.divided);
    }

    /// Finds out when to look at the blocks again, after they were brought to `since`.
    fn find_next(&mut self, exactly: bool) {
        (self.next, self.too_early) = (Ns::MAX, false);
        for pool in &mut self.pools {
            let next = if self.slowed {
                pool.next_slowed(self.since, &self.runs)
            } else {
                let next = pool.next(self.since, &self.runs, exactly);
                self.too_early |= pool.too_early;
                next
            };
            self.next = self.next.min(next);
        }
    }

    /// Sets the speeds at which the kernels' blocks run that together ask for so much memory bandwidth.
    fn share(&mut self, dram: u64) {
        self.slowed = false;
        let by_dram = slowed(self.dram_capacity, dram);
        for pool in &self.pools {
            let by_sm = slowed(pool.sm_capacity, pool.asked.sm);
            for &slot in &pool.order {
                let run = &mut self.runs[usize::from(slot)];
                let sm = if run.kernel.sm_demand > 0 { by_sm } else { FULL_RATE };
                let dram = if run.kernel.dram_demand > 0 { by_dram } else { FULL_RATE };
                run.rate = sm.min(dram).max(1);
                self.slowed |= run.rate != FULL_RATE;
            }
        }
    }
}

fn slowed(capacity: u64, asked: u64) -> u64 {
    if asked > capacity { FULL_RATE * capacity / asked } else { FULL_RATE }
}
