//! The gate before it had a budget, kept to compare with.

use sched::Ns;
use sched::gate::{Activity, Level};

/// Settings of a best-effort client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub level: Level,
    /// Launches in flight at most; at least 1.
    pub depth: u32,
    /// How long the high-priority side must have been idle, ns.
    pub idle_wait_ns: Ns,
}

/// What happens to a best-effort client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program wants to launch; answered by [`Op::Admit`] now or later. One at a time.
    Launch,
    /// A launch completed all its blocks.
    Completed,
    /// The launches in flight stopped at a block boundary, as [`Op::Retreat`] asked.
    Stopped,
    /// The shared word changed.
    Word(Activity),
    /// The time of an earlier [`Op::WakeAt`] has come.
    Timer,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Hand the held launch to the driver.
    Admit,
    /// Call again with [`Event::Timer`] at this time.
    WakeAt(Ns),
    /// Raise the stop flag of the launches in flight.
    Retreat,
    /// Lower the flag and relaunch what was stopped.
    Resume,
}

/// A best-effort client's half.
#[derive(Clone, Debug)]
pub struct BestEffort {
    settings: Settings,
    word: Activity,
    in_flight: u32,
    held: bool,
    /// The flag is up, or what it stopped has not been resumed.
    stopping: bool,
    stopped: bool,
}

impl BestEffort {
    /// A client that starts at a time when the high-priority side has been idle since `idle_since`.
    pub fn new(settings: Settings, idle_since: Ns) -> Self {
        assert!(settings.depth >= 1, "a gate of depth 0 would never admit anything");
        BestEffort {
            settings,
            word: Activity::IdleSince(idle_since),
            in_flight: 0,
            held: false,
            stopping: false,
            stopped: false,
        }
    }

    /// Launches handed to the driver and not yet completed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// One step; at most one operation follows from one event.
    pub fn step(&mut self, event: Event, now: Ns) -> Option<Op> {
        match event {
            Event::Launch => self.held = true,
            Event::Completed => {
                self.in_flight -= 1;
                if self.in_flight == 0 {
                    // The flag came too late to stop anything.
                    self.stopping = false;
                    self.stopped = false;
                }
            }
            Event::Stopped => self.stopped = true,
            Event::Word(word) => {
                self.word = word;
                let cuts = self.settings.level != Level::Launch;
                if cuts && word == Activity::Active && self.in_flight > 0 && !self.stopping {
                    self.stopping = true;
                    return Some(Op::Retreat);
                }
            }
            Event::Timer => {}
        }
        self.decide(now)
    }

    fn decide(&mut self, now: Ns) -> Option<Op> {
        let Activity::IdleSince(since) = self.word else { return None };
        let wants = self.stopped || (self.held && !self.stopping && self.in_flight < self.settings.depth);
        if !wants {
            return None;
        }
        let due = since + self.settings.idle_wait_ns;
        if now < due {
            return Some(Op::WakeAt(due));
        }
        if self.stopped {
            self.stopped = false;
            self.stopping = false;
            return Some(Op::Resume);
        }
        self.held = false;
        self.in_flight += 1;
        Some(Op::Admit)
    }
}
