//! The rules of [`crate::domain`], block by block: slow, simple, and the yardstick of the grouped model in tests.

use crate::kernel::{Done, Kernel};
use crate::occupancy::Resources;
use crate::prepared::{MICRO_SM, TICKS_PER_NS, clustered};
use crate::scenario::{Counters, Ns};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Run {
    slot: usize,
    kernel: Kernel,
    pending: u64,
    /// `(multiprocessor, end in virtual time)` of every running block.
    blocks: Vec<(usize, u64)>,
    halted: bool,
    ready: Ns,
    virtual_now: u64,
    since: Ns,
    rate: u64,
}

#[derive(Clone, Debug)]
pub struct Exact {
    free: Vec<Resources>,
    runs: Vec<Run>,
    dram_capacity: u64,
    gpcs: u32,
    next: Ns,
    pub counters: Counters,
}

const FULL_RATE: u64 = TICKS_PER_NS << 10;

impl Exact {
    pub fn new(sms: u32, gpcs: u32, whole: Resources, dram_bytes_per_ms: u64) -> Self {
        Exact {
            free: vec![whole; sms as usize],
            runs: Vec::new(),
            dram_capacity: dram_bytes_per_ms,
            gpcs,
            next: Ns::MAX,
            counters: Counters::default(),
        }
    }

    pub fn next(&self) -> Ns {
        self.next
    }

    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns, done: &mut Vec<Done>) {
        self.catch_up(now);
        self.runs.push(Run {
            slot,
            kernel,
            pending: kernel.blocks,
            blocks: Vec::new(),
            halted: false,
            ready: now,
            virtual_now: 0,
            since: now,
            rate: FULL_RATE,
        });
        self.runs.sort_by_key(|r| (std::cmp::Reverse(r.kernel.priority), r.ready, r.slot));
        self.settle(now, done);
    }

    pub fn halt(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.catch_up(now);
        for run in self.runs.iter_mut().filter(|r| r.slot == slot) {
            run.halted = true;
        }
        self.settle(now, done);
    }

    pub fn kill(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.catch_up(now);
        for run in self.runs.iter_mut().filter(|r| r.slot == slot) {
            let placed = run.kernel.blocks - run.pending;
            if run.pending > 0 || !run.blocks.is_empty() {
                self.counters.blocks_placed -= placed;
                self.counters.blocks_done -= placed - run.blocks.len() as u64;
                for (sm, _) in run.blocks.drain(..) {
                    self.free[sm] = self.free[sm].with(&run.kernel.need);
                }
                (run.pending, run.halted) = (run.kernel.blocks, true);
            }
        }
        self.settle(now, done);
    }

    pub fn advance(&mut self, now: Ns, done: &mut Vec<Done>) {
        if now >= self.next {
            self.counters.events += 1;
            self.catch_up(now);
            self.settle(now, done);
        }
    }

    fn catch_up(&mut self, now: Ns) {
        for run in &mut self.runs {
            run.virtual_now += ((now - run.since) * run.rate) >> 10;
            run.since = now;
            let need = run.kernel.need;
            let virtual_now = run.virtual_now;
            let (free, counters) = (&mut self.free, &mut self.counters);
            run.blocks.retain(|&(sm, end)| {
                let over = end <= virtual_now;
                if over {
                    free[sm] = free[sm].with(&need);
                    counters.blocks_done += 1;
                }
                !over
            });
        }
    }

    /// Breadth first: one block per multiprocessor and round; in the last round those with most room come first.
    fn place(
        free: &mut [Resources],
        runs: &mut [Run],
        index: usize,
        gpcs: u32,
        wanted: u64,
        end: u64,
    ) -> u64 {
        let mut groups: Vec<BTreeMap<(usize, u64), u32>> = vec![BTreeMap::new(); free.len()];
        for run in runs.iter() {
            for &(sm, end) in &run.blocks {
                *groups[sm].entry((run.slot, end)).or_default() += 1;
            }
        }
        let run = &mut runs[index];
        let need = run.kernel.need;
        let mut rooms: Vec<u32> = free
            .iter()
            .enumerate()
            .map(|(sm, f)| {
                let have = run.blocks.iter().filter(|b| b.0 == sm).count() as u32;
                f.fit(&need).min(run.kernel.most_per_sm.saturating_sub(have))
            })
            .collect();
        let total = rooms.iter().map(|&r| u64::from(r)).sum();
        let room = run.kernel.most - run.blocks.len() as u64;
        let most = wanted.min(run.pending).min(room).min(clustered(total, run.kernel.cluster, gpcs));
        let mut order: Vec<usize> = (0..free.len()).collect();
        order.sort_by(|&i, &j| {
            let by_state = || free[j].cmp(&free[i]).then_with(|| groups[i].cmp(&groups[j]));
            rooms[j].cmp(&rooms[i]).then_with(by_state)
        });
        let mut placed = 0;
        loop {
            let mut any = false;
            for &sm in &order {
                if placed < most && rooms[sm] > 0 {
                    rooms[sm] -= 1;
                    free[sm] = free[sm].without(&need);
                    run.blocks.push((sm, end));
                    run.pending -= 1;
                    placed += 1;
                    any = true;
                }
            }
            if !any {
                return placed;
            }
        }
    }

    fn settle(&mut self, now: Ns, done: &mut Vec<Done>) {
        let sms = self.free.len() as u32;
        for index in 0..self.runs.len() {
            if self.runs[index].pending == 0 || self.runs[index].halted {
                continue;
            }
            let Run { kernel, pending, virtual_now, .. } = self.runs[index];
            let mut place = |wanted, end| {
                self.counters.blocks_placed +=
                    Self::place(&mut self.free, &mut self.runs, index, self.gpcs, wanted, virtual_now + end);
            };
            if pending == kernel.blocks {
                let capacity = kernel.capacity(sms, self.gpcs);
                kernel.running(0, capacity).1.for_each(|(blocks, end)| place(blocks, end));
            } else {
                place(pending, kernel.block);
            }
            if self.runs[index].pending > 0 {
                break;
            }
        }
        self.runs.retain(|run| {
            let over = run.blocks.is_empty() && (run.pending == 0 || run.halted);
            if over {
                done.push(Done { slot: run.slot, at: now, left: run.pending });
            }
            !over
        });
        let total = |demand: fn(&Kernel) -> u64| -> u64 {
            self.runs.iter().map(|r| r.blocks.len() as u64 * demand(&r.kernel)).sum()
        };
        let slowed = |capacity: u64, asked: u64| {
            if asked > capacity {
                (u128::from(FULL_RATE) * u128::from(capacity) / u128::from(asked)) as u64
            } else {
                FULL_RATE
            }
        };
        let by_sm = slowed(self.free.len() as u64 * MICRO_SM, total(|f| f.sm_demand));
        let by_dram = slowed(self.dram_capacity, total(|f| f.dram_demand));
        self.next = Ns::MAX;
        for run in &mut self.runs {
            let kernel = &run.kernel;
            let sm = if kernel.sm_demand > 0 { by_sm } else { FULL_RATE };
            let dram = if kernel.dram_demand > 0 { by_dram } else { FULL_RATE };
            run.rate = sm.min(dram).max(1);
            if let Some(end) = run.blocks.iter().map(|b| b.1).min() {
                let ticks = end - run.virtual_now;
                self.next = self.next.min(now + (ticks << 10).div_ceil(run.rate));
            }
        }
    }
}
