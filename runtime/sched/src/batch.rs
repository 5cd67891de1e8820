//! What the published TGS rows amount to: stream priorities, and best-effort launches in drained batches.
//!
//! In the port that upstream measured, the rate control never receives a sample, so that apart from a transient at the
//! start nothing limits the best-effort job but this rule: twenty launches are counted without asking the device, then
//! the event recorded after the last one must complete before the count starts anew. One count serves all best-effort
//! clients.

use crate::Ns;
use crate::policy::{Event, Op, Policy};
use crate::system::{Entry, Wiring};

/// Launches per batch in the port.
pub const BATCH: u32 = 20;

/// The count that all best-effort clients share. With several clients the port waits for the stream of the last launch
/// only; here all twenty have to end, which is the same for one client.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    launched: u32,
    in_flight: u32,
}

impl Batch {
    /// Asks to launch; `true` admits and counts it.
    pub fn admit(&mut self) -> bool {
        let room = self.launched < BATCH;
        if room {
            self.launched += 1;
            self.in_flight += 1;
        }
        room
    }

    /// A launch completed; `true` if a full batch has drained, so that held launches may ask again.
    pub fn completed(&mut self) -> bool {
        self.in_flight -= 1;
        let drained = self.in_flight == 0 && self.launched == BATCH;
        if drained {
            self.launched = 0;
        }
        drained
    }
}

/// The count and the launches that wait for it.
#[derive(Debug)]
struct Batches {
    batch: Batch,
    held: Vec<bool>,
}

impl Policy for Batches {
    fn step(&mut self, event: Event, _: Ns, ops: &mut Vec<Op>) {
        match event {
            Event::Request { client, .. } => {
                if self.batch.admit() {
                    ops.push(Op::Admit { client, original: true });
                } else {
                    self.held[client] = true;
                }
            }
            Event::Completed { .. } if self.batch.completed() => {
                for (client, held) in self.held.iter_mut().enumerate() {
                    if *held && self.batch.admit() {
                        *held = false;
                        ops.push(Op::Admit { client, original: true });
                    }
                }
            }
            _ => {}
        }
    }
}

/// The port.
pub static SYSTEMS: &[Entry] = &[Entry {
    name: "tgs-artifact",
    title: "TGS-artifact",
    note: "TGS-artifact: the port behind the published TGS rows (priorities, batches of 20, no working rate control).",
    color: (0x6B, 0x1F, 0x4F),
    source: "upstream's port of TGS, as its published rows were measured",
    parameters: &[],
    settles_s: 0,
    // Upstream's server runs all clients in one context, on streams with priorities.
    wiring: |_| Wiring::SERVER,
    policy: |_, setting| Box::new(Batches { batch: Batch::default(), held: vec![false; setting.clients] }),
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_then_drain() {
        let mut batch = Batch::default();
        for _ in 0..3 {
            batch.admit();
            assert!(!batch.completed(), "an idle device does not reset the count");
        }
        for _ in 3..BATCH {
            assert!(batch.admit());
        }
        assert!(!batch.admit());
        for _ in 3..BATCH - 1 {
            assert!(!batch.completed());
        }
        assert!(!batch.admit());
        assert!(batch.completed());
        assert!(batch.admit());
    }
}
