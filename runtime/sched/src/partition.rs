//! Static partition: each side has multiprocessors of its own, and nobody is asked.
//!
//! Source: NVIDIA's MPS with a share of the multiprocessors per client (static partitioning, active thread percentage)
//! and green contexts, as their documentation describes them. A request never queues behind a best-effort block, but has
//! its share only, and memory bandwidth stays common.
//!
//! Left out: that the active thread percentage is a limit of threads, which does not say on which multiprocessors they
//! run, and that partitions come in steps of several multiprocessors on some GPUs. Best-effort clients share the rest
//! equally.

use crate::free::Free;
use crate::parameter::Parameter;
use crate::system::{Entry, Form, Hook, Substrate, Wiring};

/// Half and half unless said otherwise.
pub static SYSTEMS: &[Entry] = &[Entry {
    name: "partition",
    title: "Static partition",
    note: "Static partition: each side on multiprocessors of its own, half of them unless stated.",
    color: (0x8B, 0x6D, 0x3A),
    source: "NVIDIA MPS (static partitioning) and green contexts",
    parameters: &[Parameter::percent("high_percent", "the high-priority client's share", 500, 10, 990)],
    settles_s: 0,
    wiring: |values| Wiring {
        substrate: Substrate::Partitions { high_permille: values.number("high_percent") as u32 },
        mps_daemon: true,
        high_first: false,
        hook: Hook::None,
        form: Form::Original,
    },
    policy: Free::policy,
}];

#[cfg(test)]
mod tests {
    use crate::{Substrate, System};

    #[test]
    fn the_share_is_a_parameter() {
        let shares =
            [("partition", 500), ("partition:high_percent=60", 600), ("partition:high_percent=12.5", 125)];
        for (name, permille) in shares {
            let substrate = System::parse(name).unwrap().wiring().substrate;
            assert_eq!(substrate, Substrate::Partitions { high_permille: permille }, "{name}");
        }
    }
}
