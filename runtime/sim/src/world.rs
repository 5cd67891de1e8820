//! The event loop: clients, policy and device of one cell.

use crate::client::{Client, Hook, Latencies, Next, Phase};
use crate::control::{Control, Timer};
use crate::device::Device;
use crate::forms::Forms;
use crate::kernel::{Done, Kernel};
use crate::prepared::Prepared;
use crate::scenario::{Ns, Outcome, Progress, Scenario};
use crate::server::Server;
use crate::system;
use anyhow::{Result, ensure};
use sched::{Event, Op};

/// Seeds of the clients' draws differ by this.
const STREAM: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// One cell being simulated.
pub struct World<'a> {
    scenario: &'a Scenario<'a>,
    device: Device,
    clients: Vec<Client>,
    /// 1 if slot 0 is the high-priority job.
    high: usize,
    /// Its blocks are placed before those of others.
    high_first: bool,
    /// By slot; `None` for training.
    servers: Vec<Option<Server<'a>>>,
    control: Control,
    forms: Forms,
    timers: Vec<(Ns, Timer)>,
    now: Ns,
    launch_latency: Ns,
    notice: Ns,
    flag_write: Ns,
    early_yield: Ns,
    /// What is left of a slot's interrupted kernel.
    rest: Vec<Option<Kernel>>,
    /// A stop was asked for and is not over.
    stopping: Vec<bool>,
    /// The device sees the stop flag of a slot.
    flagged: Vec<bool>,
    /// How often a slot's flag was lowered.
    lowered: Vec<u32>,
    /// What a slot's stop kills instead of stopping between blocks.
    resets: Vec<bool>,
    ops: Vec<Op>,
    /// Ends of the finished iterations of training, by slot.
    iterations: Vec<Vec<Ns>>,
    done: Vec<Done>,
}

impl<'a> World<'a> {
    /// Sets the cell up.
    ///
    /// # Errors
    /// See [`Prepared::new`], [`Device::partitioned`] and [`Device::ensure_fits`]; no job, or too many.
    pub fn new(scenario: &'a Scenario<'a>) -> Result<Self> {
        let machine = scenario.machine;
        let rules = &machine.rules;
        let ns = |c: &crate::machine::Constant| c.value as Ns;
        ensure!(scenario.high.is_some() || !scenario.best_effort.is_empty(), "a cell needs at least one job");
        let wiring = scenario.system.wiring();
        let hooked = wiring.hook != system::Hook::None;
        let high = usize::from(scenario.high.is_some());
        let slots = high + scenario.best_effort.len();
        ensure!(slots <= crate::domain::SLOTS, "a cell has at most {} jobs", crate::domain::SLOTS);
        let graph = if wiring.mps_daemon { ns(&rules.mps_graph_launch_ns) } else { 0 };
        let latencies =
            Latencies { launch: ns(&rules.launch_latency_ns), sync: ns(&rules.sync_latency_ns), graph };
        let mut clients = Vec::with_capacity(slots);
        let mut servers = Vec::with_capacity(slots);
        if let Some((program, traffic)) = &scenario.high {
            let prepared = Prepared::new(program, machine, scenario.seed)?;
            clients.push(Client::new(prepared, latencies, None, seed(scenario.seed, 0), 0));
            servers.push(Some(Server::new(traffic.clone(), scenario.span_ns)));
        }
        for (k, job) in scenario.best_effort.iter().enumerate() {
            let prepared = Prepared::new(job.program, machine, scenario.seed ^ (k as u64 + 1))?;
            let hook = hooked.then(|| Hook::new(wiring.hook == system::Hook::Client));
            clients.push(Client::new(prepared, latencies, hook, seed(scenario.seed, k + 1), 0));
            servers.push(job.traffic.clone().map(|traffic| Server::new(traffic, scenario.span_ns)));
        }
        for (client, server) in clients.iter_mut().zip(&servers) {
            if let Some(server) = server {
                client.phase = server.first().map_or(Phase::Finished, Phase::Host);
            }
        }
        let device = Device::of(machine, wiring.substrate, high, slots - high)?;
        let programs = scenario.high.iter().map(|(program, _)| *program);
        let programs = programs.chain(scenario.best_effort.iter().map(|job| job.program));
        for (slot, program) in programs.enumerate() {
            device.ensure_fits(slot, program, &clients[slot].program)?;
        }
        let mut world = World {
            scenario,
            device,
            forms: Forms::new(wiring.form, machine, &clients[high..], high),
            control: Control::new(scenario, &clients),
            clients,
            high,
            high_first: wiring.high_first,
            servers,
            timers: Vec::new(),
            now: 0,
            launch_latency: latencies.launch,
            notice: latencies.sync,
            flag_write: ns(&rules.flag_write_ns),
            early_yield: ns(&rules.early_yield_ns),
            rest: vec![None; slots],
            stopping: vec![false; slots],
            flagged: vec![false; slots],
            lowered: vec![0; slots],
            resets: vec![false; slots],
            ops: Vec::new(),
            iterations: vec![Vec::new(); slots],
            done: Vec::new(),
        };
        world.control.step(Event::Start, 0, &mut world.ops);
        world.obey();
        Ok(world)
    }

    /// Puts another device in the place of the grouped one.
    #[cfg(test)]
    pub fn replace_device(&mut self, device: Device) {
        self.device = device;
    }

    /// Puts a policy around the cell's.
    #[cfg(test)]
    pub fn wrap_policy(&mut self, wrap: impl FnOnce(Box<dyn sched::Policy>) -> Box<dyn sched::Policy>) {
        self.control.wrap(wrap);
    }

    /// Runs the cell to its end.
    ///
    /// # Errors
    /// Time does not advance: a bug of a policy or of the model, named with the time and the system.
    pub fn run(mut self) -> Result<Outcome> {
        let span = self.scenario.span_ns;
        let mut progress: Option<Vec<Progress>> = None;
        let mut same = 0_u32;
        loop {
            // A search through all. For 2 to 16 clients it costs less than to keep a tournament tree or a calendar queue:
            // 11, 16 and 63 ns an event with 2 clients, 24, 40 and 43 ns with 10.
            let wakes = self.clients.iter().map(Client::wake);
            let timers = self.timers.iter().map(|t| t.0);
            let outside = wakes.chain(timers).min().unwrap_or(Ns::MAX);
            let next = self.device.next().min(outside);
            if next > span && progress.is_none() {
                progress = Some(self.progress(span));
            }
            let serving = self.servers[..self.high].iter().flatten().any(Server::serving);
            if next == Ns::MAX || (next > span && !serving) {
                break;
            }
            same = if next == self.now { same + 1 } else { 0 };
            ensure!(
                same < 1_000_000,
                "time stands still at {next} ns under {:?}: {:?}",
                self.scenario.system,
                self.clients.iter().map(|c| c.phase).collect::<Vec<_>>()
            );
            self.now = next;
            if self.device.next() == next {
                let limit = if next > span { outside } else { outside.min(span) };
                self.now = self.device.advance(next, limit, &mut self.done);
                self.react();
            }
            let now = self.now;
            for slot in 0..self.clients.len() {
                if self.clients[slot].wake() <= now {
                    self.wake(slot);
                }
            }
            while let Some(i) = self.timers.iter().position(|t| t.0 <= now) {
                let (_, timer) = self.timers.swap_remove(i);
                self.timer(timer);
            }
            self.device.settle(now);
            self.run_ahead();
        }
        let end_ns = self.now.max(if self.clients.len() > self.high { span } else { 0 });
        let progress = progress.unwrap_or_else(|| self.progress(end_ns));
        let counters = *self.device.counters_mut();
        let served = |server: Option<Server>| server.map(Server::into_requests).unwrap_or_default();
        let mut servers = self.servers.into_iter().map(served);
        Ok(Outcome {
            requests: servers.by_ref().take(self.high).next().unwrap_or_default(),
            best_effort: progress,
            best_effort_requests: servers.collect(),
            iteration_ends: self.iterations.split_off(self.high),
            end_ns,
            counters,
        })
    }

    fn progress(&self, elapsed_ns: Ns) -> Vec<Progress> {
        let best_effort = self.clients.iter().enumerate().skip(self.high);
        best_effort
            .map(|(slot, c)| match &self.servers[slot] {
                Some(server) => Progress { iterations: server.served(elapsed_ns), partial: 0.0, elapsed_ns },
                None => Progress {
                    iterations: self.iterations[slot].len() as u64,
                    partial: c.partial(elapsed_ns),
                    elapsed_ns,
                },
            })
            .collect()
    }

    fn priority(&self, slot: usize) -> i8 {
        i8::from(slot < self.high && self.high_first)
    }

    /// A job that nobody disturbs runs to the next event of anybody else in one go.
    fn run_ahead(&mut self) {
        if self.device.is_contended() {
            return;
        }
        let mut others = self.timers.iter().map(|t| t.0).min().unwrap_or(Ns::MAX).min(self.scenario.span_ns);
        let mut candidate = None;
        for (slot, client) in self.clients.iter().enumerate() {
            match client.phase {
                Phase::Ready(_) if client.hook.is_none() && !client.copies() && candidate.is_none() => {
                    candidate = Some(slot);
                }
                _ => others = others.min(client.wake()),
            }
        }
        let Some(slot) = candidate else { return };
        let exclusive = self.device.exclusive_until(slot);
        let limit = others.min(exclusive);
        if self.rest[slot].is_some() || limit <= self.now {
            return;
        }
        // With somebody waiting, pauses and the end of the segment hand the device over: those take the normal way.
        let pause = if exclusive == Ns::MAX { None } else { Some(self.early_yield) };
        let blocks = self.clients[slot].run_ahead(limit, pause);
        let counters = self.device.counters_mut();
        counters.blocks_placed += blocks;
        counters.blocks_done += blocks;
        // A pause that ends beyond the limit but soon is none.
        self.tell_queued(slot, limit.max(self.now + self.early_yield));
    }

    /// A client's own time has come.
    fn wake(&mut self, slot: usize) {
        let now = self.now;
        if let Some(hook) = &mut self.clients[slot].hook {
            if hook.notices.front().is_some_and(|&at| at <= now) {
                hook.notices.pop_front();
                let client = slot - self.high;
                self.tell(Event::Completed { client });
            }
            if self.clients[slot].hook.as_ref().is_some_and(|h| h.next <= now) {
                self.reach_hook(slot);
            }
        }
        match self.clients[slot].phase {
            Phase::Host(at) if at <= now => self.begin_segment(slot),
            Phase::Ready(at) if at <= now => self.start(slot),
            Phase::Copy(at) if at <= now => {
                self.launch_done(slot);
                self.stop_next(slot);
            }
            Phase::Sync(at) if at <= now => self.segment_done(slot),
            _ => {}
        }
    }

    fn begin_segment(&mut self, slot: usize) {
        let now = self.now;
        if self.clients[slot].fresh {
            match &mut self.servers[slot] {
                Some(server) => server.begin(now),
                None if self.clients[slot].finished_one => self.iterations[slot].push(now),
                None => {}
            }
        }
        self.clients[slot].begin_segment(now);
        if slot < self.high
            && let Some(at) = self.clients[slot].first_kernel()
        {
            // Copies before it do not count as work of the high-priority job.
            self.timers.push((at, Timer::HighLaunch));
        }
    }

    /// The host of a hooked client comes to its next launch.
    fn reach_hook(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        let step = client.hooked_step().expect("the hook is at a launch");
        let kernel = step.kind == crate::program::Kind::Kernel;
        let position = client.hooked_position();
        let hook = client.hook.as_mut().expect("only hooked clients get here");
        hook.next = Ns::MAX;
        if !kernel {
            // Copies are not gated; they keep their place in the stream.
            client.issue(self.now);
            return;
        }
        hook.held = true;
        self.control.request(slot - self.high, position, self.now, &mut self.ops);
        self.obey();
    }

    /// The next launch reaches the device.
    fn start(&mut self, slot: usize) {
        let now = self.now;
        if self.clients[slot].copies() && self.rest[slot].is_none() {
            self.clients[slot].phase = Phase::Copy(now + self.clients[slot].duration());
            // A context that copies has not run out of work.
            self.device.set_queued(slot, true, now);
            return;
        }
        let kernel = self.rest[slot].take().unwrap_or_else(|| self.first_form(slot));
        self.clients[slot].phase = Phase::OnDevice;
        self.device.submit(slot, kernel, now, &mut self.done);
        self.device.set_queued(slot, false, now);
        self.react();
    }

    /// The first launch of a client's next kernel, in the form chosen for it.
    fn first_form(&mut self, slot: usize) -> Kernel {
        let (client, priority) = (&self.clients[slot], self.priority(slot));
        let form = &client.step().form;
        let original = Kernel::original(form, client.duration(), priority);
        let cuttable = form.cuttable;
        self.forms.first(slot, original, cuttable)
    }

    /// Kernels left the device.
    fn react(&mut self) {
        while let Some(done) = self.done.pop() {
            let (slot, client) = (done.slot, done.slot.wrapping_sub(self.high));
            if slot < self.high || !self.control.hooks() {
                self.launch_done(slot);
            } else if self.control.closes() {
                // The policy says whether the kernel goes on or counts as done.
                self.forms.left_device(slot, done.left);
                self.clients[slot].phase = Phase::Interrupted;
                self.tell(Event::Completed { client });
            } else if done.left > 0 {
                self.stopped(slot, done.left);
            } else {
                self.launch_done(slot);
                self.notify(slot);
            }
        }
    }

    fn notify(&mut self, slot: usize) {
        let at = self.now + self.notice;
        if let Some(hook) = &mut self.clients[slot].hook {
            hook.notices.push_back(at);
        }
        self.stop_next(slot);
    }

    /// The device sees the flag: what is on it stops at its next block, what comes next does not begin.
    fn raise_flag(&mut self, slot: usize, lowered: u32) {
        if !self.stopping[slot] || lowered != self.lowered[slot] {
            return;
        }
        self.flagged[slot] = true;
        if self.clients[slot].phase == Phase::OnDevice && self.cuttable(slot) {
            if self.resets[slot] {
                self.device.kill(slot, self.now, &mut self.done);
            } else {
                self.device.halt(slot, self.now, &mut self.done);
            }
            self.react();
        } else {
            self.stop_next(slot);
        }
    }

    fn lower_flag(&mut self, slot: usize) {
        self.lowered[slot] += 1;
        self.stopping[slot] = false;
        self.flagged[slot] = false;
        self.resets[slot] = false;
    }

    /// With its flag up, a launch that comes next exits at once and is kept for later, if it looks at the flag.
    fn stop_next(&mut self, slot: usize) {
        let waiting = matches!(self.clients[slot].phase, Phase::Ready(_));
        if self.flagged[slot] && waiting && !self.clients[slot].copies() && self.cuttable(slot) {
            let kernel = self.rest[slot].take().unwrap_or_else(|| self.first_form(slot));
            self.stopped(slot, kernel.blocks);
        }
    }

    fn stopped(&mut self, slot: usize, left: u64) {
        self.forms.left_device(slot, left);
        self.clients[slot].phase = Phase::Interrupted;
        self.device.set_queued(slot, false, self.now);
        self.tell(Event::Stopped { client: slot - self.high });
    }

    /// A launch is over as far as its stream is concerned.
    fn launch_done(&mut self, slot: usize) {
        let now = self.now;
        self.clients[slot].launch_done(now);
        self.tell_queued(slot, now + self.early_yield);
    }

    fn segment_done(&mut self, slot: usize) {
        let now = self.now;
        if slot < self.high {
            self.control.step(Event::HighIdle, now, &mut self.ops);
        }
        let next = self.clients[slot].segment_done(now);
        self.clients[slot].phase = match next {
            Next::Segment(at) => Phase::Host(at),
            Next::Iteration(at) => match &mut self.servers[slot] {
                Some(server) => server.end(at).map_or(Phase::Finished, Phase::Host),
                None => Phase::Host(at),
            },
        };
        self.obey();
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Halt { client, lowered } => self.raise_flag(client + self.high, lowered),
            Timer::HighLaunch => {
                self.control.high_launch(self.clients[0].part(), self.now, &mut self.ops);
                self.obey();
            }
            Timer::Policy(timer) => self.tell(Event::Timer { timer }),
        }
    }

    /// Tells the policy of an event and carries out what it asks for.
    fn tell(&mut self, event: Event) {
        self.control.step(event, self.now, &mut self.ops);
        self.obey();
    }

    /// Carries out what the policy asked for; doing so may lead to further operations.
    fn obey(&mut self) {
        while !self.ops.is_empty() {
            let mut ops = std::mem::take(&mut self.ops);
            for op in ops.drain(..) {
                self.carry_out(op);
            }
            // What was asked for meanwhile went into a new list; keep the larger buffer.
            if self.ops.is_empty() {
                self.ops = ops;
            }
        }
    }

    fn carry_out(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::WakeAt { at, timer } => self.timers.push((at, Timer::Policy(timer))),
            Op::Admit { client, original } => {
                let slot = client + self.high;
                let form = self.forms.choose(slot, self.clients[slot].hooked_position(), original);
                self.control.step(Event::Launched { client, form }, now, &mut self.ops);
                self.clients[slot].issue(now);
                self.stop_next(slot);
                self.tell_queued(slot, now + self.early_yield);
            }
            Op::Continue { client } => {
                let slot = client + self.high;
                self.lower_flag(slot);
                let (kernel, extra) = self.forms.next(slot);
                self.rest[slot] = Some(kernel);
                self.clients[slot].phase = Phase::Ready(now + self.launch_latency + extra);
                self.tell_queued(slot, now + self.early_yield);
            }
            Op::Retreat { client } => self.stop(client, false, self.flag_write),
            Op::Reset { client, latency_ns } => self.stop(client, true, latency_ns),
            Op::Lower { client } => self.lower_flag(client + self.high),
            Op::Close { client } => self.launch_done(client + self.high),
        }
    }

    fn stop(&mut self, client: usize, reset: bool, latency: Ns) {
        let slot = client + self.high;
        self.device.counters_mut().switches += 1;
        self.stopping[slot] = true;
        self.resets[slot] = reset;
        self.timers.push((self.now + latency, Timer::Halt { client, lowered: self.lowered[slot] }));
    }

    /// Tells the device whether a launch of this slot comes by `soon`, so that a pause until then is none.
    fn tell_queued(&mut self, slot: usize, soon: Ns) {
        let queued = matches!(self.clients[slot].phase, Phase::Ready(at) if at <= soon);
        self.device.set_queued(slot, queued, self.now);
    }

    /// The launch that is on the device or comes next can be killed, or be stopped between its blocks. A policy that
    /// closes kernels stops only forms that can be.
    fn cuttable(&self, slot: usize) -> bool {
        self.resets[slot] || self.control.closes() || self.clients[slot].step().form.cuttable
    }
}

fn seed(seed: u64, stream: usize) -> u128 {
    (u128::from(seed) << 64 | 0x5851_f42d_4c95_7f2d).wrapping_add(STREAM.wrapping_mul(stream as u128 + 1))
}
