//! The device as the event loop sees it: one scheduling domain, or contexts that take turns.

use crate::contexts::{Contexts, Turns};
use crate::domain::{Corun, Domain, SLOTS};
use crate::kernel::{Done, Kernel};
use crate::machine::Machine;
use crate::occupancy::Resources;
use crate::prepared::{Prepared, clustered};
use crate::program::{Kind, Program};
use crate::scenario::{Counters, Ns};
use crate::system::Substrate;
use anyhow::{Result, ensure};

/// Either kind of device.
#[derive(Clone, Debug)]
pub enum Device {
    Domain(Box<Domain>),
    Contexts(Contexts),
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

    /// The idle device of a cell with so many clients of either kind, the high-priority one first.
    ///
    /// # Errors
    /// See [`Device::partitioned`].
    pub fn of(machine: &Machine, substrate: Substrate, high: usize, best_effort: usize) -> Result<Device> {
        match substrate {
            Substrate::Contexts => Ok(Device::contexts(machine, high + best_effort)),
            Substrate::Mps => Ok(Device::domain(machine)),
            Substrate::Partitions { high_permille } => {
                let rest = 1000 - high_permille;
                // Thousandths that do not divide evenly are nobody's loss.
                let until = |k: usize| rest * k as u32 / best_effort as u32;
                let each = (0..best_effort).map(|k| until(k + 1) - until(k));
                let shares: Vec<u32> = [high_permille].into_iter().take(high).chain(each).collect();
                Device::partitioned(machine, &shares)
            }
        }
    }

    /// An idle device whose multiprocessors are divided: slot `i` has `shares_permille[i]` thousandths of them for itself,
    /// whole ones, at least one, as under MPS with an active thread percentage per client or in green contexts. Where
    /// one part ends and the next begins is rounded, so that shares of the whole device come to all of it. Its GPCs are
    /// divided in the same proportion, which matters to kernels that launch in clusters. Every part has its own order of
    /// precedence. Memory bandwidth is shared by all, instruction throughput is not.
    ///
    /// # Errors
    /// No share, more than there may be clients, or shares that come to more multiprocessors than the machine has.
    pub fn partitioned(machine: &Machine, shares_permille: &[u32]) -> Result<Device> {
        let parts = parts(machine, shares_permille)?;
        let pool_of = std::array::from_fn(|slot| slot as u8);
        let whole = Resources::whole(&machine.sm);
        let domain = Domain::partitioned(parts, pool_of, whole, machine.dram_bytes_per_us * 1000);
        Ok(Device::Domain(Box::new(domain.with_corun(corun(machine)))))
    }

    /// Makes sure that every kernel of a slot's program finds room on the slot's part of the device.
    ///
    /// # Errors
    /// One whose clusters of blocks are larger than the part, by name.
    pub fn ensure_fits(&self, slot: usize, program: &Program, prepared: &Prepared) -> Result<()> {
        let Device::Domain(domain) = self else { return Ok(()) };
        let Some((sms, gpcs)) = domain.part(slot) else { return Ok(()) };
        let launches = program.segments.iter().flat_map(|segment| &segment.launches);
        for (launch, step) in launches.zip(&prepared.steps).filter(|(_, step)| step.kind == Kind::Kernel) {
            let form = &step.form;
            let room = clustered(u64::from(form.per_sm) * u64::from(sms), form.cluster, gpcs);
            ensure!(
                room > 0,
                "kernel `{}` of `{}` wants clusters of {} blocks, which do not fit on its part of the device \
                 (multiprocessors: {sms}, GPCs: {gpcs}); give it a larger share",
                program.names.get(launch.name as usize).map_or("", String::as_str),
                program.id,
                form.cluster
            );
        }
        Ok(())
    }

    /// When something happens on the device; `Ns::MAX` if never.
    pub fn next(&self) -> Ns {
        match self {
            Device::Domain(d) => d.next(),
            Device::Contexts(c) => c.next(),
            #[cfg(test)]
            Device::Exact(e) => e.next(),
        }
    }

    /// Kernels are on the device and share it, so that no slot can run on without asking.
    pub fn is_contended(&self) -> bool {
        matches!(self, Device::Domain(d) if !d.is_idle())
    }

    /// Until when a slot can run on without asking: `Ns::MAX` if nobody else has anything on the device, 0 if not at all.
    pub fn exclusive_until(&self, slot: usize) -> Ns {
        match self {
            // On a part of the device a job takes longer than its recorded time.
            Device::Domain(d) if d.is_idle() && !d.is_partitioned() => Ns::MAX,
            Device::Domain(_) => 0,
            Device::Contexts(c) => c.exclusive_until(slot),
            #[cfg(test)]
            Device::Exact(_) => 0,
        }
    }

    /// A kernel reaches the device.
    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.submit(slot, kernel, now, done),
            Device::Contexts(c) => c.submit(slot, kernel, now),
            #[cfg(test)]
            Device::Exact(e) => e.submit(slot, kernel, now, done),
        }
    }

    /// Tells a slot's kernel to start no further block.
    pub fn halt(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.halt(slot, now, done),
            Device::Contexts(c) => c.halt(slot, now),
            #[cfg(test)]
            Device::Exact(e) => e.halt(slot, now, done),
        }
    }

    /// Takes a slot's kernel off the device at once; the work that it has done is lost.
    pub fn kill(&mut self, slot: usize, now: Ns, done: &mut Vec<Done>) {
        match self {
            Device::Domain(d) => d.kill(slot, now, done),
            Device::Contexts(c) => c.kill(slot, now),
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

    /// Handles what is due at `now`, and goes on to what is due until `limit` as long as no kernel leaves the device, which
    /// nobody outside of it would notice. Returns the time that it got to.
    pub fn advance(&mut self, now: Ns, limit: Ns, done: &mut Vec<Done>) -> Ns {
        match self {
            Device::Domain(d) => return d.advance_until(now, limit, done),
            Device::Contexts(c) => c.advance(now, done),
            #[cfg(test)]
            Device::Exact(e) => e.advance(now, done),
        }
        now
    }

    /// Counters of the device, to be completed by the caller.
    pub fn counters_mut(&mut self) -> &mut Counters {
        match self {
            Device::Domain(d) => &mut d.counters,
            Device::Contexts(c) => &mut c.counters,
            #[cfg(test)]
            Device::Exact(e) => &mut e.counters,
        }
    }
}

/// Multiprocessors and GPCs of each part, see [`Device::partitioned`].
fn parts(machine: &Machine, shares_permille: &[u32]) -> Result<Vec<(u32, u32)>> {
    let slots = shares_permille.len();
    ensure!((1..=SLOTS).contains(&slots), "{slots} parts of a device; there may be 1 to {SLOTS}");
    let rounded = |of: u32, permille: u32| (of * permille + 500) / 1000;
    let (mut shares, mut end) = (0, 0);
    let part = |&share: &u32| {
        shares += share;
        let begin = end;
        end = rounded(machine.sms, shares).max(begin + 1);
        (end - begin, rounded(machine.gpcs, share).max(1))
    };
    let parts: Vec<(u32, u32)> = shares_permille.iter().map(part).collect();
    ensure!(
        end <= machine.sms,
        "parts of {shares_permille:?} thousandths come to {end} multiprocessors, but {} has {}; ask for less",
        machine.name,
        machine.sms
    );
    Ok(parts)
}

fn corun(machine: &Machine) -> Corun {
    Corun {
        start_ns: machine.rules.corun_start_ns.value as Ns,
        start_ns_per_tb_s: machine.rules.corun_start_ns_per_tb_s.value as Ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{h200, kernel, program};

    /// A kernel of so many blocks of 1,024 threads, two to a multiprocessor, that takes `duration_ns` on a whole device.
    fn kernel_of(blocks: u64, duration_ns: u32, dram_bytes: u64) -> Kernel {
        let launch = crate::Launch { dram_bytes: Some(dram_bytes), ..kernel(blocks, 1024, duration_ns) };
        let prepared = Prepared::new(&program(false, vec![launch]), &h200(), 1).unwrap();
        Kernel::original(&prepared.steps[0].form, Ns::from(duration_ns), 0)
    }

    /// When the kernels end that reach the device at 0, one per slot, ns.
    fn ends(mut device: Device, kernels: &[Kernel]) -> Vec<Ns> {
        let mut done = Vec::new();
        for (slot, kernel) in kernels.iter().enumerate() {
            device.submit(slot, *kernel, 0, &mut done);
        }
        while device.next() != Ns::MAX {
            device.advance(device.next(), 0, &mut done);
        }
        done.sort_by_key(|d| d.slot);
        done.iter().map(|d| d.at).collect()
    }

    fn on_parts(shares: &[u32], kernels: &[Kernel]) -> Vec<Ns> {
        ends(Device::partitioned(&h200(), shares).unwrap(), kernels)
    }

    #[test]
    fn a_kernel_on_a_part_takes_its_own_rounds() {
        // 264 blocks are one round of 100 us on 132 multiprocessors and two on 66.
        let (wide, many) = (kernel_of(264, 100_000, 0), kernel_of(2640, 1_000_000, 0));
        assert_eq!(on_parts(&[1000], &[wide]), [100_000]);
        assert_eq!(on_parts(&[500], &[wide]), [200_000]);
        assert_eq!(on_parts(&[500, 500], &[wide, many]), [200_000, 2_000_000]);
        // A quarter is 33 multiprocessors: four rounds of 66 blocks.
        assert_eq!(on_parts(&[250, 750], &[wide, many]), [400_000, 1_350_000]);
    }

    #[test]
    fn kernels_on_parts_wait_for_each_other_no_longer() {
        let (first, second) = (kernel_of(2640, 1_000_000, 0), kernel_of(264, 100_000, 0));
        let machine = h200();
        let shared = ends(Device::domain(&machine), &[first, second]);
        assert_eq!(shared, [1_000_000, 1_100_000], "head of line");
        assert_eq!(on_parts(&[500, 500], &[first, second]), [2_000_000, 200_000]);
    }

    #[test]
    fn parts_share_bandwidth_and_nothing_else() {
        let machine = h200();
        let peak_per_us = machine.dram_bytes_per_us;
        // 132 blocks that fill one half for 100 us. At half the peak each they just do not disturb each other.
        let asks = |permille: u64| kernel_of(132, 100_000, peak_per_us * 100 * permille / 1000);
        assert_eq!(on_parts(&[500, 500], &[asks(500), asks(500)]), [100_000, 100_000]);
        // 1.5 times the peak together: until the end, for one that starts and ends with the other.
        for end in on_parts(&[500, 500], &[asks(750), asks(750)]) {
            assert!(end.abs_diff(150_000) < 100, "{end}");
        }
        // Who asks for none is not slowed down. The other has it alone after 100 us of which it lost nothing.
        let both = on_parts(&[500, 500], &[asks(0), asks(1000)]);
        assert_eq!(both, [100_000, 100_000]);
        // All of one part's instruction throughput is none of the other's.
        let busy = Kernel { sm_demand: 500_000, ..asks(0) };
        assert_eq!(on_parts(&[500, 500], &[busy, busy]), [100_000, 100_000]);
    }

    /// 132 blocks fill one half, where they ask for 118.8 of 66 multiprocessors: 1.8 times as long, with and without a
    /// neighbour on the other half.
    #[test]
    fn a_kernel_that_asks_for_too_much_of_its_part_is_slow_without_a_neighbour() {
        let greedy = Kernel { sm_demand: 900_000, ..kernel_of(132, 100_000, 0) };
        let small = Kernel { sm_demand: 0, ..kernel_of(1, 1_000, 0) };
        let (alone, beside) =
            (on_parts(&[500, 500], &[greedy])[0], on_parts(&[500, 500], &[greedy, small])[0]);
        assert!(
            alone.abs_diff(180_000) < 100 && beside.abs_diff(alone) < 10,
            "{alone} alone, {beside} beside"
        );
        // A start without a neighbour costs nothing more.
        let shares = [500, 500];
        let mut costly = h200();
        costly.rules.corun_start_ns.value = 5000.0;
        assert_eq!(ends(Device::partitioned(&costly, &shares).unwrap(), &[greedy]), [alone]);
    }

    #[test]
    fn looking_too_early_is_no_event_and_changes_nothing() {
        let machine = h200();
        let long = kernel_of(26_400, 10_000_000, 0);
        let short = Kernel { priority: 1, ..kernel_of(264, 100_000, 0) };
        let whole = Resources::whole(&machine.sm);
        let mut domain = Domain::new(machine.sms, machine.gpcs, whole, machine.dram_bytes_per_us * 1000);
        let mut exact =
            crate::exact::Exact::new(machine.sms, machine.gpcs, whole, machine.dram_bytes_per_us * 1000);
        let (mut done, mut expected) = (Vec::new(), Vec::new());
        for (slot, kernel, at) in [(0, long, 0), (1, short, 60_000)] {
            while exact.next() <= at {
                exact.advance(exact.next(), &mut expected);
            }
            domain.submit(slot, kernel, at, &mut done);
            exact.submit(slot, kernel, at, &mut expected);
        }
        let mut looks = 0;
        while domain.next() != Ns::MAX {
            let (at, events) = (domain.next(), domain.counters.events);
            domain.advance(at, &mut done);
            if domain.counters.events == events {
                assert!(domain.next() > at, "it was too early for a reason");
                looks += 1;
            }
        }
        while exact.next() != Ns::MAX {
            exact.advance(exact.next(), &mut expected);
        }
        assert_eq!(done, expected);
        assert_eq!(looks, 1, "the long kernel is alone once, with nearly all of its blocks to place");
    }

    #[test]
    fn parts_are_whole_multiprocessors_and_no_more_than_there_are() {
        // 0.4 % of 132 is half a multiprocessor: at least one. 264 blocks there are 132 rounds.
        assert_eq!(on_parts(&[4], &[kernel_of(264, 100_000, 0)]), [13_200_000]);
        let refused = |shares: &[u32]| Device::partitioned(&h200(), shares).unwrap_err().to_string();
        assert!(refused(&[600, 500]).contains("145 multiprocessors"), "{}", refused(&[600, 500]));
        assert!(refused(&[]).contains("0 parts"), "{}", refused(&[]));
    }

    /// Rounded one by one, 12.5 % and 87.5 % of 132 come to 133.
    #[test]
    fn shares_of_the_whole_device_come_to_all_of_it() {
        let a100 = Machine::parse(include_str!("../../../machines/a100.toml")).unwrap();
        for machine in [h200(), a100] {
            let all = |shares: &[u32]| {
                let parts = parts(&machine, shares).unwrap_or_else(|e| panic!("{shares:?}: {e}"));
                assert_eq!(parts.iter().map(|p| p.0).sum::<u32>(), machine.sms, "{shares:?}: {parts:?}");
                for (part, share) in parts.iter().zip(shares) {
                    let exact = f64::from(machine.sms * share) / 1000.0;
                    assert!((f64::from(part.0) - exact).abs() <= 1.0, "{shares:?}: {parts:?}");
                }
            };
            for permille in (5..1000).step_by(5) {
                all(&[permille, 1000 - permille]);
            }
            for clients in 2..=SLOTS {
                let half = Substrate::Partitions { high_permille: 500 };
                let device = Device::of(&machine, half, 1, clients - 1).unwrap();
                let Device::Domain(domain) = device else { panic!("a domain") };
                let sms: Vec<u32> = (0..clients).filter_map(|slot| domain.part(slot)).map(|p| p.0).collect();
                assert_eq!(sms.iter().sum::<u32>(), machine.sms, "{clients} clients: {sms:?}");
                assert_eq!((sms.len(), sms[0]), (clients, machine.sms / 2));
                let (least, most) = (sms[1..].iter().min().unwrap(), sms[1..].iter().max().unwrap());
                assert!(most - least <= 1, "{clients} clients: {sms:?}");
            }
        }
    }
}
