//! A best-effort client's half: which launches to hold back, and until when.

use super::{Activity, Level, Settings};
use crate::Ns;
use std::collections::VecDeque;

/// What happens to a best-effort client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The program wants to launch; answered by [`Op::Admit`] now or later. One at a time. With an estimate of the GPU time
    /// that it takes alone, ns, if there is one.
    Launch { duration_ns: Option<Ns> },
    /// The launch of this number completed all its blocks, or failed and never ran. Launches of several streams may
    /// complete in any order. A number that is not in flight is ignored: two observers may report the same completion.
    Completed { launch: u64 },
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
    /// Hand the held launch to the driver. Launches are numbered from 0 in the order of their admission.
    Admit { launch: u64 },
    /// Call again with [`Event::Timer`] at this time, unless the held launch is admitted before. Not repeated while the
    /// same time is due.
    WakeAt(Ns),
    /// Raise the stop flag of the launches in flight.
    Retreat,
    /// Lower the flag and relaunch what was stopped.
    Resume,
}

#[derive(Clone, Copy, Debug)]
struct Launch {
    number: u64,
    duration_ns: Option<Ns>,
}

/// A best-effort client's half.
#[derive(Clone, Debug)]
pub struct BestEffort {
    settings: Settings,
    word: Activity,
    /// The launch that waits to be admitted; its number is how many were admitted before.
    held: Option<Launch>,
    admitted: u64,
    /// In the order of admission, which is nearly that of completion.
    in_flight: VecDeque<Launch>,
    /// Their estimates together. Wraps, as without a budget nobody bounds or reads it.
    in_flight_ns: Ns,
    /// The flag is up, or what it stopped has not been resumed.
    stopping: bool,
    stopped: bool,
    /// The wake-up that was asked for last.
    armed: Option<Ns>,
}

impl BestEffort {
    /// A client that starts at a time when the high-priority side has been idle since `idle_since`.
    pub fn new(settings: Settings, idle_since: Ns) -> Self {
        assert!(settings.depth >= 1, "a gate of depth 0 would never admit anything");
        BestEffort {
            settings,
            word: Activity::IdleSince(idle_since),
            held: None,
            admitted: 0,
            in_flight: VecDeque::with_capacity(settings.depth as usize),
            in_flight_ns: 0,
            stopping: false,
            stopped: false,
            armed: None,
        }
    }

    /// Launches handed to the driver and not yet completed.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The number of the launch that has been in flight longest.
    pub fn oldest(&self) -> Option<u64> {
        self.in_flight.front().map(|launch| launch.number)
    }

    /// One step; at most one operation follows from one event.
    pub fn step(&mut self, event: Event, now: Ns) -> Option<Op> {
        match event {
            Event::Launch { duration_ns } => {
                self.held = Some(Launch { number: self.admitted, duration_ns });
            }
            Event::Completed { launch } => self.complete(launch),
            Event::Stopped => self.stopped = true,
            Event::Word(word) => {
                self.word = word;
                let cuts = self.settings.level != Level::Launch;
                if cuts && word == Activity::Active && !self.in_flight.is_empty() && !self.stopping {
                    self.stopping = true;
                    return Some(Op::Retreat);
                }
            }
            Event::Timer => self.armed = None,
        }
        self.decide(now)
    }

    fn complete(&mut self, number: u64) {
        let Some(at) = self.in_flight.iter().position(|launch| launch.number == number) else { return };
        let launch = self.in_flight.remove(at).expect("found above");
        self.in_flight_ns = self.in_flight_ns.wrapping_sub(launch.duration_ns.unwrap_or(0));
        if self.in_flight.is_empty() {
            // The flag came too late to stop anything.
            self.stopping = false;
            self.stopped = false;
        }
    }

    /// One launch more may be in flight.
    fn has_room(&self, launch: Launch) -> bool {
        let Settings { depth, budget_ns, .. } = self.settings;
        if self.in_flight.is_empty() || budget_ns == 0 {
            return self.in_flight.len() < depth as usize;
        }
        // A launch without an estimate is alone in flight, so the first one speaks for all.
        let known = self.in_flight.front().is_some_and(|first| first.duration_ns.is_some());
        let fits = launch.duration_ns.is_some_and(|ns| self.in_flight_ns.saturating_add(ns) <= budget_ns);
        self.in_flight.len() < depth as usize && known && fits
    }

    fn decide(&mut self, now: Ns) -> Option<Op> {
        let Activity::IdleSince(since) = self.word else { return None };
        let next = self.held.filter(|&launch| !self.stopping && self.has_room(launch));
        if !self.stopped && next.is_none() {
            return None;
        }
        let due = since.saturating_add(self.settings.idle_wait_ns);
        if now < due {
            return (self.armed.replace(due) != Some(due)).then_some(Op::WakeAt(due));
        }
        if self.stopped {
            self.stopped = false;
            self.stopping = false;
            self.armed = None;
            return Some(Op::Resume);
        }
        let launch = next?;
        self.held = None;
        self.armed = None;
        self.admitted += 1;
        self.in_flight_ns = self.in_flight_ns.wrapping_add(launch.duration_ns.unwrap_or(0));
        self.in_flight.push_back(launch);
        Some(Op::Admit { launch: launch.number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(level: Level, depth: u32, budget_ns: Ns) -> BestEffort {
        BestEffort::new(Settings { level, depth, budget_ns, idle_wait_ns: 100 }, 0)
    }

    const LAUNCH: Event = Event::Launch { duration_ns: None };

    fn launch(duration_ns: Ns) -> Event {
        Event::Launch { duration_ns: Some(duration_ns) }
    }

    fn admit(launch: u64) -> Option<Op> {
        Some(Op::Admit { launch })
    }

    fn completed(launch: u64) -> Event {
        Event::Completed { launch }
    }

    #[test]
    fn holds_while_active_and_for_the_wait_after() {
        let mut be = gate(Level::Launch, 1, 0);
        assert_eq!(be.step(Event::Word(Activity::Active), 1000), None);
        assert_eq!(be.step(LAUNCH, 1001), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(2000)), 2000), Some(Op::WakeAt(2100)));
        assert_eq!(be.step(Event::Timer, 2099), Some(Op::WakeAt(2100)));
        assert_eq!(be.step(Event::Timer, 2100), admit(0));
        assert_eq!(be.step(LAUNCH, 2101), None, "one in flight at depth 1");
        assert_eq!(be.step(completed(0), 2200), admit(1));
    }

    #[test]
    fn a_wake_up_is_asked_for_once() {
        let mut be = gate(Level::Launch, 2, 0);
        assert_eq!(be.step(LAUNCH, 50), Some(Op::WakeAt(100)));
        assert_eq!(be.step(Event::Word(Activity::IdleSince(0)), 60), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(10)), 70), Some(Op::WakeAt(110)));
        assert_eq!(be.step(Event::Timer, 110), admit(0));
        // The next launch may have to wait for the same time, if the word goes back.
        assert_eq!(be.step(LAUNCH, 109), Some(Op::WakeAt(110)));
    }

    #[test]
    fn depth_bounds_what_is_in_flight() {
        let mut be = gate(Level::Launch, 2, 0);
        for now in [100, 101] {
            assert_eq!(be.step(LAUNCH, now), admit(now - 100));
        }
        assert_eq!(be.step(LAUNCH, 102), None);
        assert_eq!(be.in_flight(), 2);
        assert_eq!(be.step(completed(0), 103), admit(2));
    }

    #[test]
    fn the_budget_bounds_the_time_in_flight() {
        let mut be = gate(Level::Launch, 3, 500);
        assert_eq!(be.step(launch(200), 100), admit(0));
        assert_eq!(be.step(launch(300), 101), admit(1), "500 together");
        assert_eq!(be.step(launch(1), 102), None);
        assert_eq!(be.step(completed(0), 103), admit(2));
        assert_eq!(be.step(launch(100), 104), admit(3));
        assert_eq!(be.step(launch(1), 105), None, "301 + 100 leave room for it, but three are in flight");
        assert_eq!(be.step(completed(1), 106), admit(4));
    }

    #[test]
    fn a_launch_beyond_the_budget_is_alone() {
        let mut be = gate(Level::Launch, 8, 500);
        assert_eq!(be.step(launch(501), 100), admit(0));
        assert_eq!(be.step(launch(0), 101), None, "nothing beside it");
        assert_eq!(be.step(completed(0), 102), admit(1));
        assert_eq!(be.step(launch(501), 103), None, "it waits for what is in flight");
        assert_eq!(be.step(completed(1), 104), admit(2));
    }

    #[test]
    fn a_launch_without_an_estimate_is_alone() {
        let mut be = gate(Level::Launch, 8, 500);
        assert_eq!(be.step(launch(10), 100), admit(0));
        assert_eq!(be.step(LAUNCH, 101), None);
        assert_eq!(be.step(completed(0), 102), admit(1));
        assert_eq!(be.step(launch(10), 103), None);
        assert_eq!(be.step(completed(1), 104), admit(2));
    }

    #[test]
    fn launches_complete_in_any_order_and_once() {
        let mut be = gate(Level::Launch, 8, 500);
        for (number, ns) in [400, 50, 50].into_iter().enumerate() {
            assert_eq!(be.step(launch(ns), 100), admit(number as u64));
        }
        assert_eq!(be.step(launch(100), 101), None);
        assert_eq!(be.step(completed(2), 102), None, "450 in flight");
        assert_eq!(be.step(completed(2), 103), None, "reported twice");
        assert_eq!((be.in_flight(), be.oldest()), (2, Some(0)));
        assert_eq!(be.step(completed(1), 104), admit(3));
        assert_eq!(be.step(completed(0), 105), None);
        assert_eq!((be.in_flight(), be.oldest()), (1, Some(3)));
    }

    #[test]
    fn block_level_retreats_and_resumes() {
        let mut be = gate(Level::Cubin, 1, 0);
        assert_eq!(be.step(LAUNCH, 100), admit(0));
        assert_eq!(be.step(Event::Word(Activity::Active), 150), Some(Op::Retreat));
        assert_eq!(be.step(Event::Stopped, 160), None);
        assert_eq!(be.step(LAUNCH, 161), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(200)), 200), Some(Op::WakeAt(300)));
        assert_eq!(be.step(Event::Timer, 300), Some(Op::Resume));
        assert_eq!(be.step(completed(0), 400), admit(1));
    }

    #[test]
    fn a_flag_that_came_too_late_is_forgotten() {
        let mut be = gate(Level::Cubin, 1, 0);
        assert_eq!(be.step(LAUNCH, 100), admit(0));
        assert_eq!(be.step(Event::Word(Activity::Active), 150), Some(Op::Retreat));
        assert_eq!(be.step(completed(0), 151), None);
        assert_eq!(be.step(LAUNCH, 152), None);
        assert_eq!(be.step(Event::Word(Activity::IdleSince(200)), 300), admit(1));
    }
}
