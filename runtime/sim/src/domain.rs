//! One scheduling domain: kernels of several streams share the multiprocessors (MPS, or one context with priorities).
//!
//! Rules. Kernels are ordered by priority, then by arrival at the head of their stream. Only the first kernel with
//! blocks left to place may place any (strict head of line); a later kernel's blocks start when the earlier one has none
//! left. Running blocks are never evicted. When resident blocks together ask for more instruction throughput or memory
//! bandwidth than there is, all that ask for it slow down in proportion.
//!
//! A kernel that refills its own places is not an event: its next change of consequence, the placing of its last block,
//! is computed in closed form.

use crate::kernel::{Done, Kernel};
use crate::occupancy::Resources;
use crate::prepared::{MICRO_SM, TICKS_PER_NS};
use crate::scenario::{Counters, Ns};
use crate::sms::{Class, GROUPS, Group, Sms, Ticks};
use arrayvec::ArrayVec;

/// Full speed of a kernel's virtual clock, in 1/1024 ticks per ns.
const FULL_RATE: u64 = TICKS_PER_NS << RATE_SHIFT;
const RATE_SHIFT: u32 = 10;

/// Clients of one domain at most: each may have blocks of its own phase on a multiprocessor, and room for them costs time
/// at every event.
pub const SLOTS: usize = 4;

const BYTES_PER_MS_AT_1_TB_S: u64 = 1_000_000_000;

/// What it costs to start a kernel while another client's runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Corun {
    pub start_ns: Ns,
    pub start_ns_per_tb_s: Ns,
}

#[derive(Clone, Debug)]
struct Run {
    slot: u8,
    kernel: Kernel,
    pending: u64,
    resident: u64,
    halted: bool,
    ready: Ns,
    /// Virtual time at `since`.
    virtual_now: Ticks,
    since: Ns,
    rate: u64,
}

impl Run {
    fn places(&self) -> bool {
        self.pending > 0 && !self.halted
    }

    fn advance(&mut self, to: Ns) {
        self.virtual_now += ((to - self.since) * self.rate) >> RATE_SHIFT;
        self.since = to;
    }

    /// When the virtual clock will have reached `target`.
    fn real(&self, target: Ticks) -> Ns {
        let ticks = target.saturating_sub(self.virtual_now);
        // The common case without a division.
        let ns = if self.rate == FULL_RATE {
            ticks.div_ceil(TICKS_PER_NS)
        } else {
            (ticks << RATE_SHIFT).div_ceil(self.rate)
        };
        self.since + ns
    }
}

/// The domain's state.
#[derive(Clone, Debug)]
pub struct Domain {
    sms: Sms,
    /// In order of precedence.
    runs: Vec<Run>,
    /// The only kernel has the device for itself since it started; its blocks are not laid out.
    alone: bool,
    sm_capacity: u64,
    dram_capacity: u64,
    count: u32,
    gpcs: u32,
    corun: Corun,
    next: Ns,
    /// Position in `runs` by slot.
    index_of: [u8; SLOTS],
    /// Something left a multiprocessor, or a kernel came, since blocks were last placed.
    changed: bool,
    /// Scratch space.
    ends: Vec<(Ticks, u64)>,
    pub counters: Counters,
}

impl Domain {
    /// An empty device. `dram_bytes_per_ms` is its peak memory bandwidth.
    pub fn new(sms: u32, gpcs: u32, whole: Resources, dram_bytes_per_ms: u64) -> Self {
        Domain {
            sms: Sms::new(sms, gpcs, whole),
            runs: Vec::with_capacity(4),
            alone: false,
            sm_capacity: u64::from(sms) * MICRO_SM,
            dram_capacity: dram_bytes_per_ms,
            count: sms,
            gpcs,
            corun: Corun::default(),
            next: Ns::MAX,
            index_of: [0; SLOTS],
            changed: false,
            ends: Vec::new(),
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
        self.runs.is_empty()
    }

    /// A kernel has come to the head of its stream. Every slot has one kernel at a time.
    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns, done: &mut Vec<Done>) {
        debug_assert!(
            self.runs.iter().all(|r| usize::from(r.slot) != slot),
            "one kernel per stream at a time"
        );
        self.catch_up(now);
        let mut run = Run {
            slot: slot as u8,
            kernel,
            pending: kernel.blocks,
            resident: 0,
            halted: false,
            ready: now,
            virtual_now: 0,
            since: now,
            rate: FULL_RATE,
        };
        self.counters.launches += 1;
        if self.runs.is_empty() && kernel.blocks > 0 {
            self.alone = true;
            self.next = now + kernel.duration_alone(self.count, self.gpcs);
            self.runs.push(run);
            self.index();
            return;
        }
        run.kernel.block += self.late_start(&kernel);
        let key = |r: &Run| (std::cmp::Reverse(r.kernel.priority), r.ready, r.slot);
        let at = self.runs.iter().position(|r| key(r) > key(&run)).unwrap_or(self.runs.len());
        self.runs.insert(at, run);
        self.index();
        self.changed = true;
        self.settle(now, done);
    }

    /// What a start beside others costs, spread over the kernel's rounds.
    fn late_start(&self, kernel: &Kernel) -> Ticks {
        let traffic: u64 = self.runs.iter().map(|r| r.resident * r.kernel.dram_demand).sum();
        let per_tb_s = self.corun.start_ns_per_tb_s * traffic / BYTES_PER_MS_AT_1_TB_S;
        let rounds = kernel.blocks.div_ceil(kernel.capacity(self.count, self.gpcs).max(1)).max(1);
        (self.corun.start_ns + per_tb_s) * TICKS_PER_NS / rounds
    }

    /// Tells a slot's kernel to start no further block.
    pub fn halt(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.catch_up(now);
        if let Some(run) = self.runs.iter_mut().find(|r| usize::from(r.slot) == slot) {
            run.halted = true;
            self.changed = true;
        }
        self.settle(now, done);
    }

    /// Handles all that happens until `now`, which must not lie beyond [`Domain::next`].
    pub fn advance(&mut self, now: Ns, done: &mut Vec<Done>) {
        debug_assert!(now <= self.next, "an event of the device was passed over");
        if now < self.next {
            return;
        }
        self.counters.events += 1;
        if self.alone {
            let run = self.runs.pop().expect("a kernel that is alone");
            self.counters.blocks_placed += run.pending;
            self.counters.blocks_done += run.pending;
            self.alone = false;
            self.next = Ns::MAX;
            done.push(Done { slot: usize::from(run.slot), at: now, left: 0 });
            return;
        }
        self.catch_up(now);
        self.settle(now, done);
    }

    /// Brings virtual clocks, and the blocks that were refilled meanwhile, to `now`.
    fn catch_up(&mut self, now: Ns) {
        for run in &mut self.runs {
            run.advance(now);
        }
        if self.alone {
            self.lay_out();
        }
        self.retire();
    }

    /// Lays out the blocks of a kernel that had the device for itself since it started.
    fn lay_out(&mut self) {
        self.alone = false;
        let run = &mut self.runs[0];
        let capacity = run.kernel.capacity(self.count, self.gpcs);
        let (over, running) = run.kernel.running(run.virtual_now, capacity);
        let mut placed = 0;
        for (blocks, end) in running {
            placed += self.sms.place(run.slot, &run.kernel, blocks, end);
        }
        run.pending -= over + placed;
        run.resident = placed;
        self.counters.blocks_placed += over + placed;
        self.counters.blocks_done += over;
    }

    /// Takes ended blocks off the multiprocessors; those of the placing kernel are replaced by its next ones as long as
    /// nothing else had a say in it.
    fn retire(&mut self) {
        let placing = self.runs.iter().position(Run::places);
        let Domain { sms, runs, counters, index_of, changed, .. } = self;
        for class in &mut sms.classes {
            let mut moved = false;
            let mut i = 0;
            while i < class.groups.len() {
                let Group { slot, per_sm, end } = class.groups[i];
                let index = usize::from(index_of[usize::from(slot)]);
                let run = &mut runs[index];
                if end > run.virtual_now {
                    i += 1;
                    continue;
                }
                let blocks = u64::from(class.count) * u64::from(per_sm);
                let late = run.virtual_now - end;
                let mut ended = true;
                if Some(index) == placing {
                    // Ends within the current nanosecond are left to the placement that follows.
                    let block = run.kernel.block;
                    // Mostly less than a round: no division.
                    let (rounds, rest) = if late < block { (0, late) } else { (late / block, late % block) };
                    ended = rest < TICKS_PER_NS;
                    let refills = rounds + u64::from(!ended);
                    let refilled = refills * blocks;
                    debug_assert!(refilled <= run.pending, "the placing of the last block was passed over");
                    run.pending -= refilled;
                    counters.blocks_placed += refilled;
                    counters.blocks_done += refilled;
                    if !ended {
                        class.groups[i].end = end + refills * run.kernel.block;
                        moved = true;
                    }
                }
                if ended {
                    *changed = true;
                    run.resident -= blocks;
                    counters.blocks_done += blocks;
                    class.free.give(&run.kernel.need, u32::from(per_sm));
                    class.groups.remove(i);
                } else {
                    i += 1;
                }
            }
            if moved {
                class.groups.sort_unstable_by_key(|g| (g.slot, g.end));
            }
        }
    }

    /// Places what may be placed, reports finished kernels, and finds out when to look again.
    fn settle(&mut self, now: Ns, done: &mut Vec<Done>) {
        if std::mem::take(&mut self.changed) {
            self.place();
        }
        let over = |run: &Run| run.resident == 0 && !run.places();
        if self.runs.iter().any(over) {
            for run in self.runs.iter().filter(|r| over(r)) {
                done.push(Done { slot: usize::from(run.slot), at: now, left: run.pending });
            }
            self.runs.retain(|r| !over(r));
            self.index();
        }
        if self.runs.is_empty() {
            self.sms.clear();
            self.next = Ns::MAX;
            return;
        }
        self.share();
        self.next = self.find_next();
    }

    /// Places blocks in the order of precedence, as long as the kernel before has none left.
    fn place(&mut self) {
        for run in self.runs.iter_mut().filter(|r| r.places()) {
            let kernel = &run.kernel;
            let mut place = |wanted: u64, end: Ticks| {
                let placed = self.sms.place(run.slot, kernel, wanted, run.virtual_now + end);
                self.counters.blocks_placed += placed;
                placed
            };
            let placed = if run.pending == kernel.blocks {
                let (_, first) = kernel.running(0, kernel.capacity(self.count, self.gpcs));
                first.map(|(blocks, end)| place(blocks, end)).sum()
            } else {
                place(run.pending.min(kernel.most - run.resident), kernel.block)
            };
            run.pending -= placed;
            run.resident += placed;
            if run.pending > 0 {
                return;
            }
        }
    }

    /// Sets the speeds at which the kernels' blocks run.
    fn share(&mut self) {
        let total = |demand: fn(&Kernel) -> u64| -> u64 {
            self.runs.iter().map(|r| r.resident * demand(&r.kernel)).sum()
        };
        let slowed = |capacity: u64, asked: u64| {
            if asked > capacity { FULL_RATE * capacity / asked } else { FULL_RATE }
        };
        let by_sm = slowed(self.sm_capacity, total(|f| f.sm_demand));
        let by_dram = slowed(self.dram_capacity, total(|f| f.dram_demand));
        for run in &mut self.runs {
            let kernel = &run.kernel;
            let sm = if kernel.sm_demand > 0 { by_sm } else { FULL_RATE };
            let dram = if kernel.dram_demand > 0 { by_dram } else { FULL_RATE };
            run.rate = sm.min(dram).max(1);
        }
    }

    fn find_next(&mut self) -> Ns {
        let placing = self.runs.iter().position(Run::places);
        // While nobody is slowed down by another, a block that ends matters only if it makes room or ends its kernel.
        let contended = self.runs.len() > 1 && self.runs.iter().any(|r| r.rate != FULL_RATE);
        let mut spans: ArrayVec<Span, SLOTS> = self.runs.iter().map(|_| Span::EMPTY).collect();
        for class in &self.sms.classes {
            for group in &class.groups {
                let span = &mut spans[usize::from(self.index_of[usize::from(group.slot)])];
                span.blocks += u64::from(class.count) * u64::from(group.per_sm);
                span.first = span.first.min(group.end);
                span.last = span.last.max(group.end);
            }
        }
        let mut next = Ns::MAX;
        for (index, (run, span)) in self.runs.iter().zip(&spans).enumerate() {
            if Some(index) != placing && span.blocks > 0 && (contended || !run.places()) {
                next = next.min(run.real(if contended { span.first } else { span.last }));
            }
        }
        let Some(placing) = placing else { return next };
        if !contended {
            for class in &self.sms.classes {
                next = next.min(self.room_at(class, &self.runs[placing]));
            }
        }
        self.exhaustion(placing, spans[placing], next)
    }

    /// When blocks of others that end make room for a further block of the placing kernel on a class.
    fn room_at(&self, class: &Class, placing: &Run) -> Ns {
        let own = |g: &&Group| g.slot == placing.slot;
        let have: u32 = class.groups.iter().filter(own).map(|g| u32::from(g.per_sm)).sum();
        if have >= placing.kernel.most_per_sm {
            return Ns::MAX;
        }
        let mut others: ArrayVec<(Ns, u8, u16), GROUPS> = class
            .groups
            .iter()
            .filter(|g| g.slot != placing.slot)
            .map(|g| (self.run_of(g.slot).real(g.end), g.slot, g.per_sm))
            .collect();
        others.sort_unstable();
        let mut free = class.free;
        for (at, slot, per_sm) in others {
            free.give(&self.run_of(slot).kernel.need, u32::from(per_sm));
            if free.holds(&placing.kernel.need) {
                return at;
            }
        }
        Ns::MAX
    }

    fn run_of(&self, slot: u8) -> &Run {
        &self.runs[usize::from(self.index_of[usize::from(slot)])]
    }

    /// Notes where each slot's kernel stands in the order of precedence.
    fn index(&mut self) {
        for (index, run) in self.runs.iter().enumerate() {
            self.index_of[usize::from(run.slot)] = index as u8;
        }
    }

    /// The multiprocessors' groups of a slot: blocks, and when they end.
    fn groups_of(&self, slot: u8) -> impl Iterator<Item = (u64, Ticks)> {
        self.sms.classes.iter().flat_map(move |class| {
            let mine = class.groups.iter().filter(move |g| g.slot == slot);
            mine.map(|g| (u64::from(class.count) * u64::from(g.per_sm), g.end))
        })
    }

    /// When the placing kernel, refilling only its own places, places its last block; at most `next`.
    fn exhaustion(&mut self, placing: usize, span: Span, next: Ns) -> Ns {
        let run = &self.runs[placing];
        let per_round = span.blocks;
        if per_round == 0 {
            return next;
        }
        let rounds = (run.pending - 1) / per_round;
        let later = rounds * run.kernel.block;
        if run.real(span.first + later) >= next {
            return next;
        }
        let mut rest = run.pending - rounds * per_round;
        let mut ends = std::mem::take(&mut self.ends);
        ends.clear();
        ends.extend(self.groups_of(run.slot).map(|(n, end)| (end, n)));
        ends.sort_unstable();
        let mut target = Ticks::MAX;
        for &(end, n) in &ends {
            if n >= rest {
                target = end + later;
                break;
            }
            rest -= n;
        }
        self.ends = ends;
        next.min(self.runs[placing].real(target))
    }
}

/// The running blocks of one kernel.
#[derive(Clone, Copy)]
struct Span {
    blocks: u64,
    /// When the first and the last of them end.
    first: Ticks,
    last: Ticks,
}

impl Span {
    const EMPTY: Span = Span { blocks: 0, first: Ticks::MAX, last: 0 };
}
