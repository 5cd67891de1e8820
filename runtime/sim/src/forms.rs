//! In which form best-effort kernels are launched, and what is left of interrupted ones.

use crate::client::Client;
use crate::kernel::Kernel;
use crate::machine::Machine;
use crate::prepared::{Form, TICKS_PER_NS};
use crate::program::Kind;
use crate::scenario::Ns;
use crate::system;
use sched::tally::{Config, Limits, Shape, choose};

/// Upstream raises its limit of worker threads to this where a multiprocessor holds 2048.
const WORKER_THREADS: (u32, u32) = (2048, 1536);

#[derive(Clone, Copy, Debug)]
struct Interrupted {
    kernel: Kernel,
    config: Config,
    /// Blocks not yet launched (slices) or not yet started (workers, gate).
    left: u64,
}

/// Per slot: the forms that Tally chose for each launch of its program, and the kernel at hand.
#[derive(Debug)]
pub struct Forms {
    sms: u32,
    gpcs: u32,
    high: usize,
    /// Added to each block by a worker's loop or a gate's prelude.
    gated_block_ns: Ns,
    skip_ns_per_1000: Ns,
    saturation_permille: u64,
    /// Every block passes a gate.
    gated: bool,
    /// `chosen[client][step]`; empty unless the system transforms kernels.
    chosen: Vec<Vec<Config>>,
    current: Vec<Option<Interrupted>>,
    pending: Vec<Config>,
}

impl Forms {
    /// Chooses the forms of all launches of the best-effort clients, as upstream's profiling would with a filled cache.
    pub fn new(form: system::Form, machine: &Machine, best_effort: &[Client], high: usize) -> Self {
        let rules = &machine.rules;
        let slots = high + best_effort.len();
        let mut forms = Forms {
            sms: machine.sms,
            gpcs: machine.gpcs,
            high,
            gated_block_ns: rules.gated_block_ns.value as Ns,
            skip_ns_per_1000: rules.skip_ns_per_1000_blocks.value as Ns,
            saturation_permille: rules.saturation_permille.value as u64,
            gated: form == system::Form::Gated,
            chosen: Vec::new(),
            current: vec![None; slots],
            pending: vec![Config::Original; slots],
        };
        if let system::Form::Transformed { threshold_ns } = form {
            let workers = if machine.sm.threads >= WORKER_THREADS.0 { WORKER_THREADS.1 } else { 1024 };
            let limits = Limits { sms: machine.sms, worker_threads_per_sm: workers, threshold_ns };
            let launch = (rules.launch_latency_ns.value + rules.sync_latency_ns.value) as Ns;
            forms.chosen = best_effort.iter().map(|c| forms.choices(c, limits, launch)).collect();
        }
        forms
    }

    fn choices(&self, client: &Client, limits: Limits, launch: Ns) -> Vec<Config> {
        let median = &client.program.medians;
        let steps = client.program.steps.iter().zip(median);
        steps
            .map(|(step, &duration)| {
                if step.kind != Kind::Kernel {
                    return Config::Original;
                }
                let shape = Shape { blocks: step.form.blocks, threads: step.form.threads };
                choose(shape, limits, |config| self.measure(&step.form, duration, config, launch))
            })
            .collect()
    }

    /// Duration of a kernel in a form, launch and synchronisation included, as upstream's profiler sees it, ns.
    fn measure(&self, form: &Form, duration: Ns, config: Config, launch: Ns) -> Ns {
        let original = Kernel::original(form, duration, 0);
        match config {
            Config::Original => launch + original.duration_alone(self.sms, self.gpcs),
            Config::Persistent { workers } => {
                launch + self.persistent(original, workers).duration_alone(self.sms, self.gpcs)
            }
            Config::Sliced { slices } => sched::tally::slices(form.blocks, slices)
                .map(|blocks| launch + Kernel { blocks, ..original }.duration_alone(self.sms, self.gpcs))
                .sum(),
        }
    }

    /// Persistent workers: fewer residents than the original has run faster each, until the multiprocessor is no longer
    /// saturated.
    fn persistent(&self, mut kernel: Kernel, workers: u64) -> Kernel {
        let sms = u64::from(self.sms);
        let usual = u64::from(kernel.most_per_sm).min(kernel.blocks.div_ceil(sms)).max(1);
        let residents = workers.div_ceil(sms).min(usual);
        let saturated = (usual * self.saturation_permille).div_ceil(1000).max(1);
        kernel.block = kernel.block * residents.max(saturated) / usual + self.gated_block_ns * TICKS_PER_NS;
        kernel.most_per_sm = residents as u32;
        kernel.most = workers;
        kernel
    }

    /// The form of the launch at `step`; remembered until it reaches the device.
    pub fn choose(&mut self, slot: usize, step: usize, original: bool) -> Config {
        let client = slot - self.high;
        let config = match self.chosen.get(client) {
            Some(chosen) if !original => chosen[step],
            _ => Config::Original,
        };
        self.pending[slot] = config;
        config
    }

    /// The first launch of a kernel, in the form chosen for it.
    pub fn first(&mut self, slot: usize, original: Kernel, cuttable: bool) -> Kernel {
        if slot < self.high {
            return original;
        }
        let config = self.pending[slot];
        let kernel = match config {
            Config::Persistent { workers } => self.persistent(original, workers),
            _ if self.gated && cuttable => {
                Kernel { block: original.block + self.gated_block_ns * TICKS_PER_NS, ..original }
            }
            _ => original,
        };
        let first = match config {
            Config::Sliced { slices } => kernel.blocks.div_ceil(u64::from(slices.max(1))),
            _ => kernel.blocks,
        };
        self.current[slot] = Some(Interrupted { kernel, config, left: kernel.blocks - first });
        Kernel { blocks: first, ..kernel }
    }

    /// The slot's kernel left the device with so many blocks not started.
    pub fn left_device(&mut self, slot: usize, left: u64) {
        let Some(current) = &mut self.current[slot] else { return };
        match current.config {
            Config::Sliced { .. } => current.left += left,
            Config::Original | Config::Persistent { .. } => current.left = left,
        }
    }

    /// The next launch of an interrupted kernel, and what it costs before its first block, ns.
    pub fn next(&mut self, slot: usize) -> (Kernel, Ns) {
        let current = self.current[slot].as_mut().expect("a kernel was interrupted");
        let kernel = current.kernel;
        match current.config {
            Config::Sliced { slices } => {
                let size = kernel.blocks.div_ceil(u64::from(slices.max(1))).min(current.left);
                current.left -= size;
                (Kernel { blocks: size, ..kernel }, 0)
            }
            Config::Persistent { .. } => (Kernel { blocks: current.left, ..kernel }, 0),
            // The whole grid is launched again; finished blocks exit at once.
            Config::Original => {
                let finished = kernel.blocks - current.left.min(kernel.blocks);
                (Kernel { blocks: current.left, ..kernel }, finished * self.skip_ns_per_1000 / 1000)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::Prepared;
    use crate::testing::{h200, kernel, program};

    /// A grid that leaves most of a multiprocessor empty gets no faster by having fewer workers.
    #[test]
    fn workers_do_not_speed_up_a_small_grid() {
        let machine = h200();
        let small = kernel(240, 64, 97_800);
        let prepared = Prepared::new(&program(false, vec![small]), &machine, 1).unwrap();
        let original = Kernel::original(&prepared.steps[0].form, 97_800, 0);
        let forms = Forms::new(system::Form::Original, &machine, &[], 0);
        let alone = |k: Kernel| k.duration_alone(machine.sms, machine.gpcs);
        for workers in [132, 264, 396] {
            assert!(alone(forms.persistent(original, workers)) >= alone(original), "{workers}");
        }
        // 24 workers take ten rounds.
        assert!(alone(forms.persistent(original, 24)) >= 5 * alone(original));
    }
}
