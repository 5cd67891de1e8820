//! The device as the event loop sees it: one scheduling domain, or contexts that take turns.

use crate::contexts::{Contexts, Turns};
use crate::domain::{Corun, Domain};
use crate::kernel::{Done, Kernel};
use crate::machine::Machine;
use crate::occupancy::Resources;
use crate::partitions::Partitions;
use crate::scenario::{Counters, Ns};
use anyhow::Result;

/// Either kind of device.
#[derive(Clone, Debug)]
pub enum Device {
    Domain(Box<Domain>),
    Contexts(Contexts),
    Partitions(Partitions),
    /// Block by block, to compare with.
    #[cfg(test)]
    Exact(Box<crate::exact::Exact>),
}

impl Device {
    /// An idle device with one scheduling domain for all clients.
    pub fn domain(machine: &Machine) -> Device {
        let whole = Resources::whole(&machine.sm);
        let domain = Domain::new(machine.sms, machine.gpcs, whole, machine.dram_bytes_per_us * 1000);
        Device::Domain(Box::new(domain.with_corun(corun(machine))))
    }

    /// An idle device with so many contexts.
    pub fn contexts(machine: &Machine, slots: usize) -> Device {
        let rules = &machine.rules;
        let turns = Turns {
            slice_ns: rules.slice_ns.value as Ns,
            switch_ns: rules.switch_ns.value as Ns,
            drained_switch_ns: rules.drained_switch_ns.value as Ns,
        };
        Device::Contexts(Contexts::new(slots, machine.sms, machine.gpcs, turns))
    }

    /// An idle device whose slot `i` has `shares_permille[i]` thousandths of the multiprocessors for itself.
    ///
    /// # Errors
    /// Shares that come to more multiprocessors than there are.
    pub fn partitioned(machine: &Machine, shares_permille: &[u32]) -> Result<Device> {
        Ok(Device::Partitions(Partitions::new(machine, shares_permille)?))
    }

    /// When something happens on the device; `Ns::MAX` if never.
    pub fn next(&self) -> Ns {
        match self {
            Device::Domain(d) => d.next(),
            Device::Contexts(c) => c.next(),
            Device::Partitions(p) => p.next(),
            #[cfg(test)]
            Device::Exact(e) => e.next(),
        }
    }

    /// Until when a slot can run on without asking: `Ns::MAX` if nobody else has anything on the device, 0 if not at all.
    pub fn exclusive_until(&self, slot: usize) -> Ns {
        match self {
            Device::Domain(d) if d.is_idle() => Ns::MAX,
            Device::Domain(_) => 0,
            Device::Contexts(c) => c.exclusive_until(slot),
            // On a part of the device a job takes longer than its recorded time.
            Device::Partitions(_) => 0,
            #[cfg(test)]
            Device::Exact(_) => 0,
        }
    }

    /// A kernel reaches the device.
    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.submit(slot, kernel, now, done),
            Device::Contexts(c) => c.submit(slot, kernel, now),
            Device::Partitions(p) => p.submit(slot, kernel, now, done),
            #[cfg(test)]
            Device::Exact(e) => e.submit(slot, kernel, now, done),
        }
    }

    /// Tells a slot's kernel to start no further block.
    pub fn halt(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.halt(slot, now, done),
            Device::Contexts(c) => c.halt(slot, now),
            Device::Partitions(p) => p.halt(slot, now, done),
            #[cfg(test)]
            Device::Exact(e) => e.halt(slot, now, done),
        }
    }

    /// Takes a slot's kernel off the device at once; the work that it has done is lost.
    pub fn kill(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.kill(slot, now, done),
            Device::Contexts(c) => c.kill(slot, now),
            Device::Partitions(p) => p.kill(slot, now, done),
            #[cfg(test)]
            Device::Exact(e) => e.kill(slot, now, done),
        }
    }

    /// Launched work of a slot waits behind its current launch; only contexts care.
    pub fn set_queued(&mut self, slot: usize, queued: bool, now: Ns) {
        if let Device::Contexts(c) = self {
            c.set_queued(slot, queued, now);
        }
    }

    /// The device's clients have reacted to what it reported at `now`; it may hand over to another context.
    pub fn settle(&mut self, now: Ns) {
        if let Device::Contexts(c) = self {
            c.take_turns(now);
        }
    }

    /// Handles what is due at `now`.
    pub fn advance(&mut self, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.advance(now, done),
            Device::Contexts(c) => c.advance(now, done),
            Device::Partitions(p) => p.advance(now, done),
            #[cfg(test)]
            Device::Exact(e) => e.advance(now, done),
        }
    }

    /// Counters of the device, to be completed by the caller.
    pub fn counters_mut(&mut self) -> &mut Counters {
        match self {
            Device::Domain(d) => &mut d.counters,
            Device::Contexts(c) => &mut c.counters,
            Device::Partitions(p) => &mut p.counters,
            #[cfg(test)]
            Device::Exact(e) => &mut e.counters,
        }
    }
}

fn corun(machine: &Machine) -> Corun {
    Corun {
        start_ns: machine.rules.corun_start_ns.value as Ns,
        start_ns_per_tb_s: machine.rules.corun_start_ns_per_tb_s.value as Ns,
    }
}
