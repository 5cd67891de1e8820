//! Nobody holds anything back: what the device itself makes of two jobs.

use crate::Ns;
use crate::parameter::Values;
use crate::policy::{Event, Op, Policy, Setting};
use crate::system::{Entry, Form, Hook, Substrate, Wiring};

/// Admits everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Free;

impl Free {
    /// For [`Entry::policy`].
    pub fn policy(_: &Values, _: &Setting) -> Box<dyn Policy> {
        Box::new(Free)
    }
}

impl Policy for Free {
    fn step(&mut self, event: Event, _: Ns, ops: &mut Vec<Op>) {
        if let Event::Request { client, .. } = event {
            ops.push(Op::Admit { client, original: true });
        }
    }
}

const CONTEXTS: Wiring = Wiring {
    substrate: Substrate::Contexts,
    mps_daemon: false,
    high_first: false,
    hook: Hook::None,
    form: Form::Original,
};
const MPS: Wiring = Wiring { substrate: Substrate::Mps, mps_daemon: true, ..CONTEXTS };

/// The systems without a policy.
pub static SYSTEMS: &[Entry] = &[
    Entry {
        name: "no-sharing",
        title: "Baseline",
        note: "",
        color: (0x7A, 0x7A, 0x7A),
        source: "the job alone on the device",
        parameters: &[],
        settles_s: 0,
        wiring: |_| CONTEXTS,
        policy: Free::policy,
    },
    Entry {
        name: "time-slicing",
        title: "Time-slicing",
        note: "",
        color: (0xE6, 0x9F, 0x00),
        source: "the driver's default between processes",
        parameters: &[],
        settles_s: 0,
        wiring: |_| CONTEXTS,
        policy: Free::policy,
    },
    Entry {
        name: "mps",
        title: "MPS",
        note: "",
        color: (0x56, 0xB4, 0xE9),
        source: "NVIDIA Multi-Process Service",
        parameters: &[],
        settles_s: 0,
        wiring: |_| MPS,
        policy: Free::policy,
    },
    Entry {
        name: "mps-priority",
        title: "MPS-priority",
        note: "",
        color: (0x00, 0x5B, 0x94),
        source: "NVIDIA Multi-Process Service with client priorities",
        parameters: &[],
        settles_s: 0,
        wiring: |_| Wiring { high_first: true, ..MPS },
        policy: Free::policy,
    },
];
