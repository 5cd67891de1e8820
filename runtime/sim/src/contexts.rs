//! Separate contexts: one at a time has the device.
//!
//! Rules. Contexts with runnable work alternate. A context that has to wait gets the device when the other has no work
//! left, or after one time slice. A context that is switched out keeps its state: its kernel goes on where it was.

use crate::kernel::{Done, Kernel};
use crate::prepared::TICKS_PER_NS;
use crate::scenario::{Counters, Ns};

#[derive(Clone, Copy, Debug)]
enum Work {
    None,
    /// On the device since the context got it or the kernel started; `end` if it is not switched out.
    Running {
        end: Ns,
    },
    /// Not on the device; this much is left.
    Waiting {
        left: Ns,
    },
}

#[derive(Clone, Debug)]
struct Context {
    work: Work,
    kernel: Option<Kernel>,
    /// Launched work waits behind the current kernel, or between two of them.
    queued: bool,
    /// Blocks left out because the kernel was told to stop.
    cut: u64,
}

impl Context {
    fn runnable(&self) -> bool {
        self.queued || !matches!(self.work, Work::None)
    }
}

/// How contexts take turns.
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    /// How long a context keeps the device while another waits, ns.
    pub slice_ns: Ns,
    /// Change of contexts in the middle of work, ns.
    pub switch_ns: Ns,
    /// Change to a context when the other has drained, ns.
    pub drained_switch_ns: Ns,
}

/// The device and its contexts, one per slot.
#[derive(Clone, Debug)]
pub struct Contexts {
    turns: Turns,
    sms: u32,
    gpcs: u32,
    contexts: Vec<Context>,
    owner: usize,
    /// When the owner has to give way.
    deadline: Ns,
    /// When the owner gets the device, during a switch.
    switching: Ns,
    pub counters: Counters,
}

impl Contexts {
    /// A device with `slots` contexts.
    pub fn new(slots: usize, sms: u32, gpcs: u32, turns: Turns) -> Self {
        let context = Context { work: Work::None, kernel: None, queued: false, cut: 0 };
        Contexts {
            turns,
            sms,
            gpcs,
            contexts: vec![context; slots],
            owner: 0,
            deadline: Ns::MAX,
            switching: Ns::MAX,
            counters: Counters::default(),
        }
    }

    /// When something happens; `Ns::MAX` if never.
    pub fn next(&self) -> Ns {
        let end = match self.contexts[self.owner].work {
            Work::Running { end } => end,
            _ => Ns::MAX,
        };
        end.min(self.deadline).min(self.switching)
    }

    /// Until when this context keeps the device if it does not pause: `Ns::MAX` if no other waits, 0 if it has it not.
    pub fn exclusive_until(&self, slot: usize) -> Ns {
        if self.owner != slot || self.switching != Ns::MAX { 0 } else { self.deadline }
    }

    /// A kernel has come to the head of a context's queue.
    pub fn submit(&mut self, slot: usize, kernel: Kernel, now: Ns) {
        self.counters.launches += 1;
        self.counters.blocks_placed += kernel.blocks;
        let left = kernel.duration_alone(self.sms, self.gpcs);
        let context = &mut self.contexts[slot];
        context.kernel = Some(kernel);
        context.cut = 0;
        context.work = Work::Waiting { left };
        if slot == self.owner && self.switching == Ns::MAX {
            context.work = Work::Running { end: now + left };
        }
        self.take_turns(now);
    }

    /// Says whether launched work of a context waits behind its current kernel.
    pub fn set_queued(&mut self, slot: usize, queued: bool, now: Ns) {
        if std::mem::replace(&mut self.contexts[slot].queued, queued) != queued {
            self.take_turns(now);
        }
    }

    /// Tells a context's kernel to stop at its next block boundary.
    pub fn halt(&mut self, slot: usize, now: Ns) {
        let (sms, gpcs) = (self.sms, self.gpcs);
        let context = &mut self.contexts[slot];
        let Some(kernel) = context.kernel else { return };
        let total = kernel.duration_alone(sms, gpcs);
        let left = match context.work {
            Work::None => return,
            Work::Running { end } => end - now,
            Work::Waiting { left } => left,
        };
        // What runs goes on to its end.
        let elapsed = (total - left) * TICKS_PER_NS;
        let (ended, running) = kernel.running(elapsed, kernel.capacity(sms, gpcs));
        let (mut kept, mut end) = (ended, 0);
        for (blocks, at) in running {
            kept += blocks;
            end = end.max(at);
        }
        let until_boundary = end.saturating_sub(elapsed).div_ceil(TICKS_PER_NS).min(left);
        context.cut = kernel.blocks - kept;
        context.work = match context.work {
            Work::Running { .. } => Work::Running { end: now + until_boundary },
            _ => Work::Waiting { left: until_boundary },
        };
    }

    /// Takes a context's kernel off the device at once; what it has done is lost.
    pub fn kill(&mut self, slot: usize, now: Ns) {
        let context = &mut self.contexts[slot];
        let Some(kernel) = context.kernel else { return };
        context.cut = kernel.blocks;
        context.work = match context.work {
            Work::None => return,
            Work::Running { .. } => Work::Running { end: now },
            Work::Waiting { .. } => Work::Waiting { left: 0 },
        };
    }

    /// Handles what is due at `now`.
    pub fn advance(&mut self, now: Ns, done: &mut Vec<Done>) {
        self.counters.events += 1;
        if let Work::Running { end } = self.contexts[self.owner].work
            && end <= now
        {
            let context = &mut self.contexts[self.owner];
            context.work = Work::None;
            let kernel = context.kernel.take().expect("a running kernel");
            self.counters.blocks_done += kernel.blocks - context.cut;
            self.counters.blocks_placed -= context.cut;
            done.push(Done { slot: self.owner, at: now, left: context.cut });
            // Whether the context goes on is known once its client has reacted: it calls `submit` or `set_queued`.
            return;
        }
        if self.switching <= now {
            self.switching = Ns::MAX;
            if let Work::Waiting { left } = self.contexts[self.owner].work {
                self.contexts[self.owner].work = Work::Running { end: now + left };
            }
        } else if self.deadline <= now {
            self.deadline = Ns::MAX;
            self.give_way(now, self.turns.switch_ns);
        }
        self.take_turns(now);
    }

    /// The next runnable context after the owner, in turn.
    fn waiting(&self) -> Option<usize> {
        let n = self.contexts.len();
        (1..n).map(|k| (self.owner + k) % n).find(|&s| self.contexts[s].runnable())
    }

    fn give_way(&mut self, now: Ns, cost: Ns) {
        let Some(next) = self.waiting() else { return };
        if let Work::Running { end } = self.contexts[self.owner].work {
            self.contexts[self.owner].work = Work::Waiting { left: end - now };
        }
        self.owner = next;
        self.deadline = Ns::MAX;
        self.switching = now + cost;
        self.counters.switches += 1;
    }

    /// Starts or stops the clock of the owner's slice, or lets the next context in.
    pub fn take_turns(&mut self, now: Ns) {
        if self.switching != Ns::MAX {
            return;
        }
        if self.waiting().is_none() {
            self.deadline = Ns::MAX;
        } else if !self.contexts[self.owner].runnable() {
            self.give_way(now, self.turns.drained_switch_ns);
        } else if self.deadline == Ns::MAX {
            self.deadline = now + self.turns.slice_ns;
        }
    }
}
