//! Multiprocessors under one order of precedence, and the kernels on them.
//!
//! Rules. Kernels are ordered by priority, then by arrival at the head of their stream. Only the first kernel with
//! blocks left to place may place any (strict head of line); a later kernel's blocks start when the earlier one has none
//! left. Running blocks stay until they end, unless their kernel is killed.
//!
//! A kernel that refills its own places is not an event: its next change of consequence, the placing of its last block,
//! is computed in closed form. Times of blocks are those at full speed; while a kernel is slowed down, the ends of its
//! blocks are put off as time goes by.

use crate::domain::SLOTS;
use crate::kernel::{Done, Kernel};
use crate::occupancy::Resources;
use crate::prepared::{MICRO_SM, TICKS_PER_NS};
use crate::scenario::{Counters, Ns};
use crate::sms::{Class, GROUPS, Group, Sms, Ticks};
use arrayvec::ArrayVec;

/// Full speed of a kernel's blocks, in 1/1024 ticks per ns.
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
    /// No block ends before this.
    first: Ticks,
    /// When the last of the resident blocks ends.
    last: Ticks,
    /// No further block may start.
    pub halted: bool,
    /// When it came to the head of its stream.
    ready: Ns,
    /// How fast its blocks run: [`FULL_RATE`], or less while the kernel is slowed down.
    pub rate: u64,
}

impl Run {
    /// A kernel that comes to the head of its stream.
    pub fn new(kernel: Kernel, ready: Ns) -> Run {
        Run {
            kernel,
            pending: kernel.blocks,
            resident: 0,
            first: 0,
            last: 0,
            halted: false,
            ready,
            rate: FULL_RATE,
        }
    }

    /// Has blocks to place.
    pub fn places(&self) -> bool {
        self.pending > 0 && !self.halted
    }

    /// How many ns pass until blocks end that would end after so many ticks at full speed.
    fn takes(&self, ticks: Ticks) -> Ns {
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

impl Asked {
    fn add(&mut self, kernel: &Kernel, blocks: u64) {
        self.sm += blocks * kernel.sm_demand;
        self.dram += blocks * kernel.dram_demand;
    }

    fn take(&mut self, kernel: &Kernel, blocks: u64) {
        self.sm -= blocks * kernel.sm_demand;
        self.dram -= blocks * kernel.dram_demand;
    }
}

/// Multiprocessors and the kernels on them.
#[derive(Clone, Debug)]
pub struct Pool {
    sms: Sms,
    /// Slots with a kernel, in order of precedence.
    pub order: ArrayVec<u8, SLOTS>,
    pub asked: Asked,
    /// Instruction throughput that there is.
    pub sm_capacity: u64,
    /// Something left a multiprocessor, or a kernel came, since blocks were last placed.
    changed: bool,
    /// Blocks have left a multiprocessor since classes were last compared.
    ended: bool,
    /// A kernel may have finished.
    finished: bool,
    /// The first kernel with blocks to place.
    placing: Option<u8>,
    /// How often that has changed; from 1, as classes say 0 for never.
    changes: u32,
    /// It did not take all the room that there was.
    left_over: bool,
    /// When that kernel places its last block if it refills its own places; `None` if not known.
    exhausted: Option<Ticks>,
    /// What [`Pool::next`] said last may lie before the event.
    pub too_early: bool,
    /// Ends of blocks and how many end then, while they are looked through; kept to be used again.
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
            ended: false,
            finished: false,
            placing: None,
            changes: 1,
            left_over: false,
            exhausted: None,
            too_early: false,
            ends: Vec::new(),
        }
    }

    /// Multiprocessors and GPCs.
    pub fn counts(&self) -> (u32, u32) {
        self.sms.counts()
    }

    /// Blocks of a kernel that run together when it is alone; at least 1.
    pub fn capacity(&self, kernel: &Kernel) -> u64 {
        self.sms.capacity(kernel).max(1)
    }

    /// Takes a kernel off its multiprocessors at once: all its blocks are left, and count as never placed.
    pub fn kill(&mut self, slot: u8, runs: &mut Runs, counters: &mut Counters) {
        if !self.order.contains(&slot) {
            return;
        }
        let run = &mut runs[usize::from(slot)];
        let placed = run.kernel.blocks - run.pending;
        counters.blocks_placed -= placed;
        counters.blocks_done -= placed - run.resident;
        self.asked.take(&run.kernel, run.resident);
        (run.pending, run.resident, run.halted) = (run.kernel.blocks, 0, true);
        for class in self.sms.classes_mut() {
            while let Some(at) = class.groups.iter().position(|g| g.slot == slot) {
                class.end(at);
            }
            class.regroup();
        }
        (self.changed, self.ended, self.finished) = (true, true, true);
        self.exhausted = None;
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
        self.finished |= runs[usize::from(slot)].pending == 0;
    }

    /// A kernel has been told to place no further block.
    pub fn halted(&mut self) {
        self.changed = true;
        self.finished = true;
    }

    /// Lays out the blocks of the only kernel, which had the device for itself since it started.
    pub fn lay_out(&mut self, now: Ns, runs: &mut Runs, counters: &mut Counters) {
        let slot = self.order[0];
        let run = &mut runs[usize::from(slot)];
        let kernel = &run.kernel;
        let capacity = self.sms.capacity(kernel);
        let (over, running) = kernel.running((now - run.ready) * TICKS_PER_NS, capacity);
        let mut placed = 0;
        for (blocks, end) in running {
            let end = run.ready * TICKS_PER_NS + end;
            run.last = run.last.max(end);
            placed += self.sms.place(slot, kernel, blocks, end, true).0;
        }
        self.changed = true;
        run.pending -= over + placed;
        run.resident = placed;
        counters.blocks_placed += over + placed;
        counters.blocks_done += over;
        self.asked.add(kernel, placed);
    }

    /// Puts the blocks' ends off by what they lost in so many ns to being slowed down.
    pub fn put_off(&mut self, passed: Ns, runs: &mut Runs) {
        let lost = |run: &Run| passed * TICKS_PER_NS - ((passed * run.rate) >> RATE_SHIFT);
        for class in self.sms.classes_mut() {
            for group in &mut class.groups {
                group.end += lost(&runs[usize::from(group.slot)]);
            }
            class.regroup();
        }
        for &slot in &self.order {
            let run = &mut runs[usize::from(slot)];
            run.last += lost(run);
        }
        self.exhausted = None;
    }

    /// Takes ended blocks off the multiprocessors; those of the placing kernel are replaced by its next ones as long as
    /// nothing else had a say in it.
    pub fn retire(&mut self, now: Ns, runs: &mut Runs, counters: &mut Counters) {
        let now = now * TICKS_PER_NS;
        let Pool { sms, asked, changed, ended: any_ended, finished, placing, exhausted, .. } = self;
        for class in sms.classes_mut() {
            if class.first > now {
                continue;
            }
            let mut i = 0;
            while i < class.groups.len() {
                let group = class.groups[i];
                if group.end > now {
                    i += 1;
                    continue;
                }
                let run = &mut runs[usize::from(group.slot)];
                let blocks = u64::from(class.count) * u64::from(group.per_sm);
                if Some(group.slot) == *placing {
                    let (rounds, ended) = rounds(now - group.end, run.kernel.block);
                    let refilled = rounds * blocks;
                    debug_assert!(refilled <= run.pending, "the placing of the last block was passed over");
                    run.pending -= refilled;
                    counters.blocks_placed += refilled;
                    counters.blocks_done += refilled;
                    if !ended {
                        let end = group.end + rounds * run.kernel.block;
                        run.last = run.last.max(end);
                        class.put_off(i, end);
                        continue;
                    }
                    *exhausted = None;
                }
                (*changed, *any_ended) = (true, true);
                run.resident -= blocks;
                *finished |= run.resident == 0;
                asked.take(&run.kernel, blocks);
                counters.blocks_done += blocks;
                class.end(i);
            }
            class.regroup();
        }
    }

    /// Places blocks in the order of precedence, as long as the kernel before has none left, and reports the kernels
    /// that are finished, if anything has changed.
    pub fn settle(&mut self, now: Ns, runs: &mut Runs, counters: &mut Counters, done: &mut Vec<Done>) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        if std::mem::take(&mut self.ended) {
            self.sms.join_equal();
        }
        let (mut first, mut placing, mut left_over) = (true, None, false);
        for i in 0..self.order.len() {
            let slot = self.order[i];
            let run = &mut runs[usize::from(slot)];
            if !run.places() {
                continue;
            }
            // Where nothing has ended since it placed the last ones, there still is no room.
            let fresh = run.pending == run.kernel.blocks;
            let anywhere = fresh || Some(slot) != self.placing || self.left_over || !first;
            first = false;
            let capacity = if fresh { self.capacity(&run.kernel) } else { 0 };
            let (mut placed, mut earliest, mut last) = (0, Ticks::MAX, 0);
            let mut place = |wanted: u64, block: Ticks| {
                let end = now * TICKS_PER_NS + block;
                let (some, room) = self.sms.place(slot, &run.kernel, wanted, end, anywhere);
                left_over = some < room;
                placed += some;
                if some > 0 {
                    (earliest, last) = (end.min(earliest), end.max(last));
                }
                some == wanted
            };
            let kernel = &run.kernel;
            if !fresh {
                place(run.pending.min(kernel.most - run.resident), kernel.block);
            } else if kernel.blocks <= capacity {
                place(kernel.blocks, kernel.block);
            } else {
                // Where a part found too little room, there is none for the next.
                kernel.running(0, capacity).1.all(|(blocks, block)| place(blocks, block));
            }
            if placed > 0 {
                if fresh {
                    run.first = earliest;
                }
                run.pending -= placed;
                run.resident += placed;
                run.last = last.max(run.last);
                counters.blocks_placed += placed;
                self.exhausted = None;
                self.asked.add(&run.kernel, placed);
                if run.pending == 0 {
                    continue;
                }
            }
            placing = Some(slot);
            break;
        }
        self.left_over = left_over;
        if placing != self.placing {
            self.placing = placing;
            self.exhausted = None;
            self.changes = self.changes.wrapping_add(1).max(1);
        }
        if std::mem::take(&mut self.sms.blurred) {
            self.find_last(runs);
        }
        if !std::mem::take(&mut self.finished) {
            return;
        }
        self.order.retain(|slot| {
            let run = &runs[usize::from(*slot)];
            let over = run.resident == 0 && !run.places();
            if over {
                done.push(Done { slot: usize::from(*slot), at: now, left: run.pending });
            }
            !over
        });
        if self.order.is_empty() {
            self.sms.clear();
        }
    }

    /// Finds the ends of the kernels' last blocks anew.
    fn find_last(&mut self, runs: &mut Runs) {
        self.exhausted = None;
        for &slot in &self.order {
            runs[usize::from(slot)].last = 0;
        }
        for group in self.sms.classes().iter().flat_map(|c| &c.groups) {
            let run = &mut runs[usize::from(group.slot)];
            run.last = run.last.max(group.end);
        }
    }

    /// When something happens here while nobody is slowed down: a block that ends matters only if it makes room or ends
    /// its kernel. `now` is the time that the blocks were brought to. Unless asked for `exactly`, a time before may do, which
    /// `too_early` tells: others mostly come before what took long to find.
    pub fn next(&mut self, now: Ns, runs: &Runs, exactly: bool) -> Ns {
        self.too_early = false;
        let mut next = Ticks::MAX;
        for &slot in &self.order {
            let run = &runs[usize::from(slot)];
            if !run.places() {
                next = next.min(run.last);
            }
        }
        if let Some(placing) = self.placing {
            let run = &runs[usize::from(placing)];
            // Nobody else's blocks can make room if there are none.
            if self.order.len() > 1 && run.resident < run.kernel.most {
                for class in self.sms.classes_mut() {
                    // Not before its first blocks end.
                    if class.first < next {
                        if class.found_for != self.changes {
                            class.found_for = self.changes;
                            class.room_at = room_at(class, placing, runs);
                        }
                        next = next.min(class.room_at);
                    }
                }
            }
            next = next.min(self.exhaustion(placing, run, now * TICKS_PER_NS, next, exactly));
        }
        if next == Ticks::MAX { Ns::MAX } else { next.div_ceil(TICKS_PER_NS) }
    }

    /// When something happens here while blocks are slowed down: every block that ends changes the speeds, unless its own
    /// kernel's next one takes its place.
    pub fn next_slowed(&mut self, now: Ns, runs: &Runs) -> Ns {
        let ticks = now * TICKS_PER_NS;
        let placing = self.placing;
        let mut first = [Ticks::MAX; SLOTS];
        for group in self.sms.classes().iter().flat_map(|c| &c.groups) {
            let first = &mut first[usize::from(group.slot)];
            *first = group.end.min(*first);
        }
        let mut next = Ns::MAX;
        for i in 0..self.order.len() {
            let slot = self.order[i];
            let run = &runs[usize::from(slot)];
            let target = if Some(slot) == placing {
                self.exhaustion(slot, run, ticks, Ticks::MAX, true)
            } else {
                first[usize::from(slot)]
            };
            if target < Ticks::MAX {
                next = next.min(now + run.takes(target - ticks));
            }
        }
        next
    }

    /// When the placing kernel, refilling only its own places, places its last block, if that is before `limit`. Unless
    /// asked for `exactly`, a time before that may do.
    fn exhaustion(&mut self, placing: u8, run: &Run, now: Ticks, limit: Ticks, exactly: bool) -> Ticks {
        if run.resident == 0 || run.first >= limit {
            return Ticks::MAX;
        }
        if let Some(known) = self.exhausted {
            return known;
        }
        // Mostly it is far off: no division.
        let (block, before_last) = (run.kernel.block, run.pending - 1);
        let few = before_last < run.resident;
        if limit != Ticks::MAX && !few {
            let at_least = if before_last >= 4 * run.resident { 4 * block } else { block };
            if now + at_least >= limit {
                return Ticks::MAX;
            }
        }
        let rounds = if few { 0 } else { before_last / run.resident };
        let later = rounds * block;
        // What runs ends after now.
        let at_least = now + later;
        if at_least >= limit {
            return Ticks::MAX;
        }
        if rounds > 0 && !exactly {
            self.too_early = true;
            return at_least;
        }
        let rest = run.pending - rounds * run.resident;
        let Some(end) = self.end_of(placing, rest, limit - later) else { return Ticks::MAX };
        self.exhausted = Some(end + later);
        end + later
    }

    /// When that many of a slot's blocks, in the order in which they end, have ended, if that is before `limit`.
    fn end_of(&mut self, slot: u8, blocks: u64, limit: Ticks) -> Option<Ticks> {
        let Pool { sms, ends, .. } = self;
        ends.clear();
        let mut ended = 0;
        for class in sms.classes() {
            if class.first >= limit {
                continue;
            }
            for group in class.groups.iter().filter(|g| g.slot == slot && g.end < limit) {
                let n = u64::from(class.count) * u64::from(group.per_sm);
                ended += n;
                ends.push((group.end, n));
            }
        }
        // Mostly there are not that many before the limit.
        if ended < blocks {
            return None;
        }
        // From the last one back: often it is one of the last.
        loop {
            let (i, &(end, n)) = ends.iter().enumerate().max_by_key(|(_, end)| **end)?;
            ended -= n;
            if ended < blocks {
                return Some(end);
            }
            ends.swap_remove(i);
        }
    }
}

/// How many blocks a place has seen end, one after the other, when the first ended `late` ago, and whether the last of
/// them ended just now: what follows it is left to the placement.
fn rounds(late: Ticks, block: Ticks) -> (u64, bool) {
    // Mostly less than one: no division.
    let (rounds, rest) = if late < block { (0, late) } else { (late / block, late % block) };
    if rest < TICKS_PER_NS { (rounds, true) } else { (rounds + 1, false) }
}

/// When blocks of others that end make room for a further block of the placing kernel on a class, nobody being slowed
/// down.
fn room_at(class: &Class, placing: u8, runs: &Runs) -> Ticks {
    let kernel = &runs[usize::from(placing)].kernel;
    let (mut own, mut others, mut other) = (0, 0, 0);
    for (i, group) in class.groups.iter().enumerate() {
        if group.slot == placing {
            own += u32::from(group.per_sm);
        } else {
            others += 1;
            other = i;
        }
    }
    if others == 0 || own >= kernel.most_per_sm {
        return Ticks::MAX;
    }
    if others == 1 {
        let group = &class.groups[other];
        return if class.free.with(&group.taken).holds(&kernel.need) { group.end } else { Ticks::MAX };
    }
    let mut free = class.free;
    let makes_room = |group: &Group| {
        free = free.with(&group.taken);
        free.holds(&kernel.need).then_some(group.end)
    };
    let others = || class.groups.iter().filter(|g| g.slot != placing);
    if others().is_sorted_by_key(|g| g.end) {
        return others().find_map(makes_room).unwrap_or(Ticks::MAX);
    }
    let mut ends: ArrayVec<&Group, GROUPS> = others().collect();
    ends.sort_unstable_by_key(|g| g.end);
    ends.into_iter().find_map(makes_room).unwrap_or(Ticks::MAX)
}
