//! Our gate: every client decides for itself, from its own state and one shared word.
//!
//! The high-priority side publishes whether it has work on the device ([`High`]). A best-effort client holds back its own
//! launches while that is so and for [`Settings::idle_wait_ns`] after, and keeps at most [`Settings::depth`] launches in
//! flight ([`BestEffort`]), so that the rest of `depth` launches is all that a high-priority request can meet. Above
//! [`Level::Launch`] the launches in flight are also asked to stop at the next block boundary, and are resumed later.

use crate::Ns;

/// Where best-effort work may be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Between launches.
    Launch,
    /// Between thread blocks of kernels that come with PTX.
    Ptx,
    /// Between thread blocks of any multi-wave kernel, by patched machine code.
    Cubin,
}

/// What the shared word says of the high-priority side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Launches may be on the device.
    Active,
    /// Nothing is on the device since this time.
    IdleSince(Ns),
}

/// The high-priority client's half: when to change the shared word.
#[derive(Clone, Debug, Default)]
pub struct High {
    launches: u64,
    active: bool,
}

/// What a high-priority client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HighEvent {
    /// A launch is about to be handed to the driver.
    Launch,
    /// A synchronising call returned; it was entered when this many launches had been made.
    SyncReturned { launches_at_entry: u64 },
}

impl High {
    /// Launches so far: to be read when a synchronising call is entered.
    pub fn launches(&self) -> u64 {
        self.launches
    }

    /// The new value of the shared word, if it has to change.
    ///
    /// A synchronising call ends the activity only if no launch came after it was entered: with several threads another
    /// one may have launched meanwhile.
    pub fn step(&mut self, event: HighEvent, now: Ns) -> Option<Activity> {
        match event {
            HighEvent::Launch => {
                self.launches += 1;
                (!std::mem::replace(&mut self.active, true)).then_some(Activity::Active)
            }
            HighEvent::SyncReturned { launches_at_entry } => {
                let last = self.active && launches_at_entry == self.launches;
                if last {
                    self.active = false;
                }
                last.then_some(Activity::IdleSince(now))
            }
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(level: Level, depth: u32) -> BestEffort {
        BestEffort::new(Settings { level, depth, idle_wait_ns: 100 }, 0)
    }

    #[test]
    fn the_word_follows_the_last_synchronising_call() {
        let mut high = High::default();
        assert_eq!(high.step(HighEvent::Launch, 1), Some(Activity::Active));
        assert_eq!(high.step(HighEvent::Launch, 2), None);
        // Another thread launched while this one was waiting: still active.
        assert_eq!(high.step(HighEvent::SyncReturned { launches_at_entry: 1 }, 3), None);
        assert_eq!(
            high.step(HighEvent::SyncReturned { launches_at_entry: 2 }, 4),
            Some(Activity::IdleSince(4))
        );
        assert_eq!(high.step(HighEvent::SyncReturned { launches_at_entry: 2 }, 5), None);
    }

    #[test]
    fn holds_while_active_and_for_the_wait_after() {
        let mut be = gate(Level::Launch, 1);
        assert_eq!(be.step(Event::Word(Activity::Active), 1000), None);
        assert_eq!(be.step(Event::Launch, 1001), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(2000)), 2000), Some(Op::WakeAt(2100)));
        assert_eq!(be.step(Event::Timer, 2099), Some(Op::WakeAt(2100)));
        assert_eq!(be.step(Event::Timer, 2100), Some(Op::Admit));
        assert_eq!(be.step(Event::Launch, 2101), None, "one in flight at depth 1");
        assert_eq!(be.step(Event::Completed, 2200), Some(Op::Admit));
    }

    #[test]
    fn depth_bounds_what_is_in_flight() {
        let mut be = gate(Level::Launch, 2);
        for now in [100, 101] {
            assert_eq!(be.step(Event::Launch, now), Some(Op::Admit));
        }
        assert_eq!(be.step(Event::Launch, 102), None);
        assert_eq!(be.in_flight(), 2);
        assert_eq!(be.step(Event::Completed, 103), Some(Op::Admit));
    }

    #[test]
    fn block_level_retreats_and_resumes() {
        let mut be = gate(Level::Cubin, 1);
        assert_eq!(be.step(Event::Launch, 100), Some(Op::Admit));
        assert_eq!(be.step(Event::Word(Activity::Active), 150), Some(Op::Retreat));
        assert_eq!(be.step(Event::Stopped, 160), None);
        assert_eq!(be.step(Event::Launch, 161), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(200)), 200), Some(Op::WakeAt(300)));
        assert_eq!(be.step(Event::Timer, 300), Some(Op::Resume));
        assert_eq!(be.step(Event::Completed, 400), Some(Op::Admit));
    }

    #[test]
    fn a_flag_that_came_too_late_is_forgotten() {
        let mut be = gate(Level::Cubin, 1);
        assert_eq!(be.step(Event::Launch, 100), Some(Op::Admit));
        assert_eq!(be.step(Event::Word(Activity::Active), 150), Some(Op::Retreat));
        assert_eq!(be.step(Event::Completed, 151), None);
        assert_eq!(be.step(Event::Launch, 152), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(200)), 300), Some(Op::Admit));
    }
}
