//! Static parts of the multiprocessors, each a domain of its own. Memory bandwidth is not shared: every part has the
//! device's.

use crate::domain::Domain;
use crate::kernel::{Done, Kernel};
use crate::machine::Machine;
use crate::occupancy::Resources;
use crate::scenario::{Counters, Ns};
use anyhow::{Result, ensure};

/// One part per slot.
#[derive(Clone, Debug)]
pub struct Partitions {
    parts: Vec<Domain>,
    pub counters: Counters,
}

impl Partitions {
    /// Idle parts of so many thousandths, rounded to whole multiprocessors, at least one.
    ///
    /// # Errors
    /// Shares that come to more multiprocessors than there are.
    pub fn new(machine: &Machine, shares_permille: &[u32]) -> Result<Partitions> {
        let part = |of: u32, share: u32| ((of * share + 500) / 1000).max(1);
        let sms: Vec<u32> = shares_permille.iter().map(|&s| part(machine.sms, s)).collect();
        let asked: u32 = sms.iter().sum();
        ensure!(
            asked <= machine.sms,
            "parts of {asked} multiprocessors, but {} has {}",
            machine.name,
            machine.sms
        );
        let whole = Resources::whole(&machine.sm);
        let parts = sms.iter().zip(shares_permille).map(|(&sms, &share)| {
            Domain::new(sms, part(machine.gpcs, share), whole, machine.dram_bytes_per_us * 1000)
        });
        Ok(Partitions { parts: parts.collect(), counters: Counters::default() })
    }

    pub fn next(&self) -> Ns {
        self.parts.iter().map(Domain::next).min().unwrap_or(Ns::MAX)
    }

    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns, done: &mut Vec<Done>) {
        self.parts[slot].submit(slot, kernel, now, done);
    }

    pub fn halt(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.parts[slot].halt(slot, now, done);
    }

    pub fn kill(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        self.parts[slot].kill(slot, now, done);
    }

    pub fn advance(&mut self, now: Ns, done: &mut Vec<Done>) {
        for part in self.parts.iter_mut().filter(|p| p.next() <= now) {
            part.advance(now, done);
        }
    }
}
