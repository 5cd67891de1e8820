//! Multiprocessors under one order of precedence, and the kernels on them.
//!
//! Rules. Kernels are ordered by priority, then by arrival at the head of their stream. Only the first kernel with
//! blocks left to place may place any (strict head of line); a later kernel's blocks start when the earlier one has none
//! left. Running blocks are never evicted.
//!
//! A kernel that refills its own places is not an event: its next change of consequence, the placing of its last block,
//! is computed in closed form.

use crate::domain::SLOTS;
use crate::kernel::Kernel;
use crate::occupancy::Resources;
use crate::prepared::{MICRO_SM, TICKS_PER_NS};
use crate::scenario::{Counters, Ns};
use crate::sms::{Class, Sms, Ticks};
use arrayvec::ArrayVec;

/// Full speed of a kernel's virtual clock, in 1/1024 ticks per ns.
pub const FULL_RATE: u64 = TICKS_PER_NS << RATE_SHIFT;
const RATE_SHIFT: u32 = 10;

/// A kernel on the device.
#[derive(Clone, Debug)]
pub struct Run {
    pub kernel: Kernel,
    /// Blocks that have not started.
    pub pending: u64,
    /// Blocks that run.
    pub resident: u64,
    /// No further block may start.
    pub halted: bool,
    /// When it came to the head of its stream.
    pub ready: Ns,
    /// Its virtual time.
    pub clock: Ticks,
    /// How fast that goes: [`FULL_RATE`], or less while the kernel is slowed down.
    pub rate: u64,
}

impl Run {
    /// A kernel that comes to the head of its stream.
    pub fn new(kernel: Kernel, ready: Ns) -> Run {
        Run { kernel, pending: kernel.blocks, resident: 0, halted: false, ready, clock: 0, rate: FULL_RATE }
    }

    /// Has blocks to place.
    pub fn places(&self) -> bool {
        self.pending > 0 && !self.halted
    }

    /// Lets so many ns pass.
    pub fn pass(&mut self, ns: Ns) {
        self.clock += (ns * self.rate) >> RATE_SHIFT;
    }

    /// In how many ns the virtual clock reaches `target`.
    pub fn until(&self, target: Ticks) -> Ns {
        let ticks = target.saturating_sub(self.clock);
        // The common case without a division.
        if self.rate == FULL_RATE {
            ticks.div_ceil(TICKS_PER_NS)
        } else {
            (ticks << RATE_SHIFT).div_ceil(self.rate)
        }
    }
}

/// The kernels of all streams, by slot. What an empty slot holds has no meaning.
pub type Runs = [Run; SLOTS];

/// What the blocks on some multiprocessors ask for together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// Instruction throughput, in millionths of a multiprocessor.
    pub sm: u64,
    /// Memory traffic, bytes per ms.
    pub dram: u64,
}

/// Multiprocessors and the kernels on them.
#[derive(Clone, Debug)]
pub struct Pool {
    pub sms: Sms,
    /// Slots with a kernel, in order of precedence.
    pub order: ArrayVec<u8, SLOTS>,
    pub asked: Asked,
    /// Instruction throughput that there is.
    pub sm_capacity: u64,
    /// Something left a multiprocessor, or a kernel came, since blocks were last placed.
    pub changed: bool,
    /// Scratch space.
    ends: Vec<(Ticks, u64)>,
}

impl Pool {
    /// So many idle multiprocessors.
    pub fn new(sms: u32, gpcs: u32, whole: Resources) -> Pool {
        Pool {
            sms: Sms::new(sms, gpcs, whole),
            order: ArrayVec::new(),
            asked: Asked::default(),
            sm_capacity: u64::from(sms) * MICRO_SM,
            changed: false,
            ends: Vec::new(),
        }
    }

    /// Gives a kernel its place in the order of precedence.
    pub fn enter(&mut self, slot: u8, runs: &Runs) {
        let key = |slot: u8| {
            let run = &runs[usize::from(slot)];
            (std::cmp::Reverse(run.kernel.priority), run.ready, slot)
        };
        let at = self.order.iter().position(|&other| key(other) > key(slot)).unwrap_or(self.order.len());
        self.order.insert(at, slot);
        self.changed = true;
    }

    /// The first kernel with blocks to place.
    fn placing(&self, runs: &Runs) -> Option<u8> {
        self.order.iter().copied().find(|&slot| runs[usize::from(slot)].places())
    }

    fn more(&mut self, kernel: &Kernel, blocks: u64) {
        self.asked.sm += blocks * kernel.sm_demand;
        self.asked.dram += blocks * kernel.dram_demand;
    }

    /// Lays out the blocks of the only kernel, which had the device for itself since it started.
    pub fn lay_out(&mut self, runs: &mut Runs, counters: &mut Counters) {
        let slot = self.order[0];
        let run = &mut runs[usize::from(slot)];
        let capacity = self.sms.capacity(&run.kernel);
        let waves = run.kernel.blocks.div_ceil(capacity);
        let wave = (run.clock / run.kernel.block).min(waves - 1);
        let over = wave * capacity;
        let end = (wave + 1) * run.kernel.block;
        let wanted = (run.kernel.blocks - over).min(capacity);
        let placed = self.sms.place(slot, &run.kernel, wanted, end);
        debug_assert_eq!(placed, wanted, "an empty device has room for a kernel's capacity");
        run.pending -= over + placed;
        run.resident = placed;
        counters.blocks_placed += over + placed;
        counters.blocks_done += over;
        let kernel = run.kernel;
        self.more(&kernel, placed);
    }

    /// Takes ended blocks off the multiprocessors; those of the placing kernel are replaced by its next ones as long as
    /// nothing else had a say in it.
    pub fn retire(&mut self, runs: &mut Runs, counters: &mut Counters) {
        let placing = self.placing(runs);
        let Pool { sms, asked, changed, .. } = self;
        for class in &mut sms.classes {
            let mut moved = false;
            let mut i = 0;
            while i < class.groups.len() {
                let group = class.groups[i];
                let run = &mut runs[usize::from(group.slot)];
                if group.end > run.clock {
                    i += 1;
                    continue;
                }
                let blocks = u64::from(class.count) * u64::from(group.per_sm);
                if Some(group.slot) == placing {
                    let (rounds, ended) = rounds(run.clock - group.end, run.kernel.block);
                    let refilled = rounds * blocks;
                    debug_assert!(refilled <= run.pending, "the placing of the last block was passed over");
                    run.pending -= refilled;
                    counters.blocks_placed += refilled;
                    counters.blocks_done += refilled;
                    if !ended {
                        class.groups[i].end = group.end + rounds * run.kernel.block;
                        moved = true;
                        i += 1;
                        continue;
                    }
                }
                *changed = true;
                run.resident -= blocks;
                asked.sm -= blocks * run.kernel.sm_demand;
                asked.dram -= blocks * run.kernel.dram_demand;
                counters.blocks_done += blocks;
                class.free.give(&run.kernel.need, u32::from(group.per_sm));
                class.groups.remove(i);
            }
            if moved && class.groups.len() > 1 {
                class.groups.sort_unstable_by_key(|g| (g.slot, g.end));
            }
        }
    }

    /// Places blocks in the order of precedence, as long as the kernel before has none left.
    pub fn place(&mut self, runs: &mut Runs, counters: &mut Counters) {
        self.changed = false;
        self.sms.join_equal();
        for i in 0..self.order.len() {
            let slot = self.order[i];
            let run = &mut runs[usize::from(slot)];
            if !run.places() {
                continue;
            }
            let kernel = run.kernel;
            let wanted = run.pending.min(kernel.most - run.resident);
            let placed = self.sms.place(slot, &kernel, wanted, run.clock + kernel.block);
            run.pending -= placed;
            run.resident += placed;
            let over = run.pending == 0;
            counters.blocks_placed += placed;
            self.more(&kernel, placed);
            if !over {
                return;
            }
        }
    }

    /// In how many ns something happens here while nobody is slowed down: a block that ends matters only if it makes
    /// room or ends its kernel.
    pub fn next_unhindered(&mut self, runs: &Runs) -> Ns {
        let placing = self.placing(runs);
        let mut next = Ticks::MAX;
        let mut first = Ticks::MAX;
        let mut last = [0; SLOTS];
        for class in &self.sms.classes {
            let mut own = 0;
            for group in &class.groups {
                let left = group.end - runs[usize::from(group.slot)].clock;
                if Some(group.slot) == placing {
                    own += u32::from(group.per_sm);
                    first = first.min(left);
                } else {
                    let last = &mut last[usize::from(group.slot)];
                    *last = left.max(*last);
                }
            }
            if let Some(placing) = placing
                && own < runs[usize::from(placing)].kernel.most_per_sm
                && runs[usize::from(placing)].resident < runs[usize::from(placing)].kernel.most
            {
                next = next.min(room_in(class, placing, runs));
            }
        }
        for &slot in &self.order {
            if Some(slot) != placing && !runs[usize::from(slot)].places() {
                next = next.min(last[usize::from(slot)]);
            }
        }
        if let Some(placing) = placing {
            next = next.min(self.exhaustion(placing, &runs[usize::from(placing)], first, next));
        }
        if next == Ticks::MAX { Ns::MAX } else { next.div_ceil(TICKS_PER_NS) }
    }

    /// In how many ns something happens here while blocks are slowed down: every block that ends changes the speeds,
    /// unless its own kernel's next one takes its place.
    pub fn next_slowed(&mut self, runs: &Runs) -> Ns {
        let placing = self.placing(runs);
        let mut first = [Ticks::MAX; SLOTS];
        for group in self.sms.classes.iter().flat_map(|c| &c.groups) {
            let first = &mut first[usize::from(group.slot)];
            *first = group.end.min(*first);
        }
        let mut next = Ns::MAX;
        for i in 0..self.order.len() {
            let slot = self.order[i];
            let (run, first) = (&runs[usize::from(slot)], first[usize::from(slot)]);
            if first == Ticks::MAX {
                continue;
            }
            if Some(slot) != placing {
                next = next.min(run.until(first));
                continue;
            }
            let target = self.exhaustion(slot, run, first - run.clock, Ticks::MAX);
            next = next.min(run.until(run.clock + target));
        }
        next
    }

    /// In how many ticks the placing kernel, refilling only its own places, places its last block, if that is before
    /// `limit`. `first` is the time until its first block ends.
    fn exhaustion(&mut self, placing: u8, run: &Run, first: Ticks, limit: Ticks) -> Ticks {
        if run.resident == 0 {
            return Ticks::MAX;
        }
        let (block, before_last) = (run.kernel.block, run.pending - 1);
        // Mostly it is far off: no division.
        let mut least = 1;
        while least * run.resident <= before_last && limit != Ticks::MAX {
            if first + least * block >= limit {
                return Ticks::MAX;
            }
            least *= 4;
        }
        let rounds = if before_last < run.resident { 0 } else { before_last / run.resident };
        let later = rounds * block;
        if first + later >= limit {
            return Ticks::MAX;
        }
        let mut rest = run.pending - rounds * run.resident;
        self.ends.clear();
        for class in &self.sms.classes {
            let own = class.groups.iter().filter(|g| g.slot == placing);
            self.ends.extend(own.map(|g| (g.end, u64::from(class.count) * u64::from(g.per_sm))));
        }
        if self.ends.len() > 1 {
            self.ends.sort_unstable();
        }
        for &(end, n) in &self.ends {
            if n >= rest {
                return end - run.clock + later;
            }
            rest -= n;
        }
        Ticks::MAX
    }
}

/// How many blocks a place has seen end, one after the other, when the first ended `late` ago, and whether the last of
/// them ended just now: what follows it is left to the placement.
fn rounds(late: Ticks, block: Ticks) -> (u64, bool) {
    // Mostly less than one: no division.
    let (rounds, rest) = if late < block { (0, late) } else { (late / block, late % block) };
    if rest < TICKS_PER_NS { (rounds, true) } else { (rounds + 1, false) }
}

/// In how many ticks blocks of others that end make room for a further block of the placing kernel on a class, nobody
/// being slowed down.
fn room_in(class: &Class, placing: u8, runs: &Runs) -> Ticks {
    let need = &runs[usize::from(placing)].kernel.need;
    let left = |slot: u8, end: Ticks| end - runs[usize::from(slot)].clock;
    let mut others = class.groups.iter().filter(|g| g.slot != placing);
    let Some(only) = others.next() else { return Ticks::MAX };
    let mut free = class.free;
    let Some(second) = others.next() else {
        free.give(&runs[usize::from(only.slot)].kernel.need, u32::from(only.per_sm));
        return if free.holds(need) { left(only.slot, only.end) } else { Ticks::MAX };
    };
    let mut ends: ArrayVec<_, { SLOTS + 1 }> = [only, second].into_iter().chain(others).collect();
    ends.sort_unstable_by_key(|g| left(g.slot, g.end));
    for group in ends {
        free.give(&runs[usize::from(group.slot)].kernel.need, u32::from(group.per_sm));
        if free.holds(need) {
            return left(group.slot, group.end);
        }
    }
    Ticks::MAX
}
