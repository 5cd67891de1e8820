//! Upstream's scheduler as a policy, whole and with parts switched off.

use super::{Event, MIN_WAIT_NS, Op, Scheduler};
use crate::Ns;
use crate::free::Free;
use crate::parameter::{Kind, Parameter};
use crate::policy::{self, Policy};
use crate::system::{Entry, Form, Hook, Wiring};

/// The scheduler with its only timer.
#[derive(Debug)]
struct Central {
    scheduler: Scheduler,
    ops: Vec<Op>,
}

impl Central {
    fn new(clients: usize, min_wait_ns: Ns) -> Central {
        Central { scheduler: Scheduler::new(clients, min_wait_ns, 0), ops: Vec::new() }
    }
}

impl Policy for Central {
    fn step(&mut self, event: policy::Event, now: Ns, ops: &mut Vec<policy::Op>) {
        let event = match event {
            policy::Event::Start => return,
            policy::Event::Launched { client, form } => return self.scheduler.launched(client, form),
            policy::Event::HighLaunch { .. } => Event::HighLaunched,
            policy::Event::HighIdle => Event::HighCompleted,
            policy::Event::Request { client, .. } => Event::Queued { client },
            policy::Event::Completed { client } | policy::Event::Stopped { client } => {
                Event::Completed { client }
            }
            policy::Event::Timer { .. } => Event::Timer,
        };
        self.scheduler.step(event, now, &mut self.ops);
        ops.extend(self.ops.drain(..).map(|op| match op {
            Op::Launch { client, original } => policy::Op::Admit { client, original },
            Op::Continue { client } => policy::Op::Continue { client },
            Op::Retreat { client } => policy::Op::Retreat { client },
            Op::Close { client } => policy::Op::Close { client },
            Op::WakeAt(at) => policy::Op::WakeAt { at, timer: 0 },
        }));
    }
}

/// Upstream's server runs all clients in one context, on streams with priorities.
const ONE_CONTEXT: Wiring = Wiring { hook: Hook::Closing, ..Wiring::SERVER };

/// The threshold of the published runs is 10^-1.5 ms.
const THRESHOLD: Parameter = Parameter {
    kind: Kind::Number { decimals: 6, min: 1, max: 1_000_000_000 },
    ..Parameter::ms("threshold_ms", "turnaround latency that a kernel's form may have", 31_600)
};

/// As in the paper's decomposition, least first.
pub static SYSTEMS: &[Entry] = &[
    Entry {
        name: "tally-no-scheduling",
        title: "No scheduling",
        note: "",
        color: (0xD5, 0x5E, 0x00),
        source: "upstream with scheduling and transformation off: stream priorities only",
        parameters: &[],
        settles_s: 0,
        wiring: |_| Wiring { hook: Hook::None, ..ONE_CONTEXT },
        policy: Free::policy,
    },
    Entry {
        name: "tally-no-transform",
        title: "Scheduling w/o transformation",
        note: "",
        color: (0xE8, 0xC5, 0x47),
        source: "upstream with transformation off",
        parameters: &[],
        settles_s: 0,
        wiring: |_| ONE_CONTEXT,
        policy: |_, setting| Box::new(Central::new(setting.clients, 0)),
    },
    Entry {
        name: "tally",
        title: "Tally",
        note: "Tally: scheduling and transformation as upstream.",
        color: (0x00, 0x9E, 0x73),
        source: "Tally (ASPLOS'25) and upstream",
        parameters: &[THRESHOLD],
        settles_s: 0,
        wiring: |values| {
            let threshold_ns = values.number("threshold_ms");
            Wiring { form: Form::Transformed { threshold_ns }, ..ONE_CONTEXT }
        },
        policy: |_, setting| Box::new(Central::new(setting.clients, MIN_WAIT_NS)),
    },
];
