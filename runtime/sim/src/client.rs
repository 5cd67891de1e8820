//! One job on the simulated host: what it launches next, and when.
//!
//! A launch reaches the device at the later of two times: its host call plus the launch latency, and the end of the
//! launch before it plus the dispatch gap. A client whose launches nobody holds back issues them at the recorded host
//! times; one with a [`Hook`] issues them one by one, as its policy admits them.

use crate::prepared::{Part, Prepared, Step};
use crate::program::Kind;
use crate::scenario::Ns;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// Costs on the way between host and device, ns.
#[derive(Clone, Copy, Debug)]
pub struct Latencies {
    pub launch: Ns,
    pub sync: Ns,
    /// Added to the first launch of a segment that contains a CUDA graph.
    pub graph: Ns,
}

/// Where a client stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The host is busy or waits; the next segment begins at this time.
    Host(Ns),
    /// Nothing has been issued to the device.
    Starved,
    /// The current launch has left the device and its policy has not said yet whether it goes on or counts as done.
    Interrupted,
    /// The next launch reaches the device at this time.
    Ready(Ns),
    /// A kernel is on the device.
    OnDevice,
    /// A copy ends at this time.
    Copy(Ns),
    /// The host sees the end of the segment at this time.
    Sync(Ns),
    /// No more work.
    Finished,
}

/// The launch hook of a client whose launches need a policy's consent.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Next launch to issue, within the segment.
    pub position: usize,
    /// When the host comes to it; `Ns::MAX` while it is held, or when the segment is issued.
    pub next: Ns,
    /// The launch is waiting for consent.
    pub held: bool,
    /// The host waits inside the call, instead of going on (a server queues for it).
    pub blocking: bool,
    /// Issued and not yet on the device: times of the calls.
    pub queue: VecDeque<Ns>,
    /// Completions that the host has not seen yet.
    pub notices: VecDeque<Ns>,
}

impl Hook {
    /// A hook that has seen nothing yet.
    pub fn new(blocking: bool) -> Self {
        Hook {
            position: 0,
            next: Ns::MAX,
            held: false,
            blocking,
            queue: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }
}

/// One job.
#[derive(Debug)]
pub struct Client {
    pub program: Prepared,
    latencies: Latencies,
    rng: Pcg64Mcg,
    realisation: usize,
    part: usize,
    repeat: u32,
    /// Next launch for the device, within the segment.
    pub position: usize,
    /// Host time at which the segment began.
    begin: Ns,
    previous_end: Ns,
    pub phase: Phase,
    pub hook: Option<Hook>,
    /// Launches of the current iteration that have completed.
    pub completed: u64,
    /// The next segment is the first of an iteration.
    pub fresh: bool,
    /// An iteration was finished before the one at hand.
    pub finished_one: bool,
}

/// What the end of a segment means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another segment of the same iteration begins at this time.
    Segment(Ns),
    /// The iteration is over at this time.
    Iteration(Ns),
}

impl Client {
    /// A job that begins its first iteration at `begin`.
    pub fn new(program: Prepared, latencies: Latencies, hook: Option<Hook>, seed: u128, begin: Ns) -> Self {
        Client {
            program,
            latencies,
            rng: Pcg64Mcg::new(seed),
            realisation: 0,
            part: 0,
            repeat: 0,
            position: 0,
            begin: 0,
            previous_end: 0,
            phase: Phase::Host(begin),
            hook,
            completed: 0,
            fresh: true,
            finished_one: false,
        }
    }

    /// When this client wants to be looked at; `Ns::MAX` if never by itself.
    pub fn wake(&self) -> Ns {
        let phase = match self.phase {
            Phase::Host(at) | Phase::Ready(at) | Phase::Copy(at) | Phase::Sync(at) => at,
            Phase::Starved | Phase::Interrupted | Phase::OnDevice | Phase::Finished => Ns::MAX,
        };
        let hook =
            self.hook.as_ref().map_or(Ns::MAX, |h| h.next.min(h.notices.front().copied().unwrap_or(Ns::MAX)));
        phase.min(hook)
    }

    /// The segment at hand.
    pub fn segment(&self) -> &Part {
        &self.program.parts[self.part]
    }

    /// Its position among the program's segments.
    pub fn part(&self) -> usize {
        self.part
    }

    fn steps(&self) -> &[Step] {
        let part = self.segment();
        &self.program.steps[part.first..part.first + part.len]
    }

    /// Position of the launch that the device gets next, within the whole program.
    pub fn index(&self) -> usize {
        self.segment().first + self.position
    }

    /// The launch that the device gets next.
    pub fn step(&self) -> &Step {
        &self.program.steps[self.index()]
    }

    /// Its duration alone, ns.
    pub fn duration(&self) -> Ns {
        Ns::from(self.program.durations[self.realisation][self.index()])
    }

    /// The launch that the hook is at.
    pub fn hooked_step(&self) -> Option<&Step> {
        let hook = self.hook.as_ref()?;
        self.steps().get(hook.position)
    }

    /// Position of that launch within the whole program.
    pub fn hooked_position(&self) -> usize {
        self.segment().first + self.hook.as_ref().map_or(0, |h| h.position)
    }

    /// Begins a segment at host time `now`.
    pub fn begin_segment(&mut self, now: Ns) {
        if self.fresh {
            self.fresh = false;
            self.completed = 0;
            self.realisation = self.rng.random_range(0..self.program.durations.len());
        }
        self.begin = now;
        self.position = 0;
        self.previous_end = 0;
        let first = now + self.steps()[0].host_ns;
        match &mut self.hook {
            None => self.phase = Phase::Ready(self.ready(first)),
            Some(hook) => {
                hook.position = 0;
                hook.next = first;
                self.phase = Phase::Starved;
            }
        }
    }

    /// When the next launch, issued at `issued`, reaches the device.
    fn ready(&self, issued: Ns) -> Ns {
        if self.position == 0 {
            let graph = if self.segment().graph { self.latencies.graph } else { 0 };
            return issued + self.latencies.launch + graph;
        }
        (issued + self.latencies.launch).max(self.previous_end + self.step().gap_ns)
    }

    /// The launch on the device completed at `now`; finds the next one or the end of the segment.
    pub fn launch_done(&mut self, now: Ns) {
        self.previous_end = now;
        self.position += 1;
        self.completed += 1;
        if self.position == self.segment().len {
            self.phase = Phase::Sync(now + self.latencies.sync);
            return;
        }
        let issued = match &mut self.hook {
            None => Some(self.begin + self.step().host_ns),
            Some(hook) => hook.queue.pop_front(),
        };
        self.phase = issued.map_or(Phase::Starved, |issued| Phase::Ready(self.ready(issued)));
    }

    /// Runs launches ahead of the event loop while nobody else has a say: stops before the first one that would end
    /// after `limit`, and at the end of the segment. With `pause`, it also stops before the last launch, and where the
    /// device would idle for longer than that. The device must be this client's. Returns blocks run.
    pub fn run_ahead(&mut self, limit: Ns, pause: Option<Ns>) -> u64 {
        debug_assert!(self.hook.is_none(), "a hooked launch needs its policy");
        let Phase::Ready(mut at) = self.phase else { return 0 };
        let part = &self.program.parts[self.part];
        let steps = &self.program.steps[part.first..part.first + part.len];
        let durations = &self.program.durations[self.realisation][part.first..part.first + part.len];
        let issue = self.begin + self.latencies.launch;
        let mut blocks = 0;
        let start = self.position;
        let mut i = start;
        loop {
            let end = at + Ns::from(durations[i]);
            let hands_over =
                pause.is_some_and(|p| i + 1 == part.len || (i > 0 && at > self.previous_end + p));
            if end > limit || hands_over {
                self.phase = Phase::Ready(at);
                break;
            }
            blocks += steps[i].form.blocks;
            self.previous_end = end;
            i += 1;
            if i == part.len {
                self.phase = Phase::Sync(end + self.latencies.sync);
                break;
            }
            at = (issue + steps[i].host_ns).max(end + steps[i].gap_ns);
        }
        self.position = i;
        self.completed += (i - start) as u64;
        blocks
    }

    /// The host saw the end of the segment at `now`.
    pub fn segment_done(&mut self, now: Ns) -> Next {
        let (tail_ns, repeat) = (self.segment().tail_ns, self.segment().repeat);
        let end = now + tail_ns;
        self.repeat += 1;
        if self.repeat < repeat {
            return Next::Segment(end);
        }
        self.repeat = 0;
        self.part += 1;
        if self.part < self.program.parts.len() {
            return Next::Segment(end);
        }
        self.part = 0;
        self.fresh = true;
        self.finished_one = true;
        Next::Iteration(end)
    }

    /// The hook's launch is issued at `now`.
    pub fn issue(&mut self, now: Ns) {
        let at = self.hook.as_ref().expect("only a hooked client issues").position;
        let steps = self.steps();
        let following =
            steps.get(at + 1).map(|next| (next.host_ns - steps[at].host_ns, self.begin + next.host_ns));
        let hook = self.hook.as_mut().expect("checked above");
        hook.held = false;
        hook.position += 1;
        hook.next = match following {
            None => Ns::MAX,
            Some((after, _)) if hook.blocking => now + after,
            Some((_, planned)) => planned.max(now),
        };
        hook.queue.push_back(now);
        if self.phase == Phase::Starved {
            let issued = self.hook.as_mut().and_then(|h| h.queue.pop_front()).expect("pushed above");
            self.phase = Phase::Ready(self.ready(issued));
        }
    }

    /// The next launch is a copy, not a kernel.
    pub fn copies(&self) -> bool {
        self.step().kind != Kind::Kernel
    }

    /// Host time of the first kernel of the segment at hand; `None` if it only copies.
    pub fn first_kernel(&self) -> Option<Ns> {
        self.steps().iter().find(|s| s.kind == Kind::Kernel).map(|s| self.begin + s.host_ns)
    }

    /// How far the iteration at hand has come at `now`: launches completed, and then its pause on the host.
    pub fn partial(&self, now: Ns) -> f64 {
        let tails: Ns = self.program.parts.iter().map(|p| p.tail_ns * Ns::from(p.repeat)).sum();
        let pause = tails as f64 / (self.program.busy_ns + tails).max(1) as f64;
        match self.phase {
            Phase::Host(_) if self.fresh && !self.finished_one => 0.0,
            Phase::Host(next) if self.fresh => {
                let last = self.program.parts.last().map_or(0, |p| p.tail_ns).max(1);
                let left = next.saturating_sub(now).min(last) as f64 / last as f64;
                1.0 - pause * left
            }
            _ => self.completed as f64 / self.program.launches as f64 * (1.0 - pause),
        }
    }
}
