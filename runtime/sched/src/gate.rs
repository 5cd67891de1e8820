//! Our gate: every client decides for itself, from its own state and one shared word.
//!
//! The high-priority side publishes whether it has work on the device ([`High`]). A best-effort client holds back its own
//! launches while that is so and for [`Settings::idle_wait_ns`] after, and keeps at most [`Settings::depth`] launches in
//! flight ([`BestEffort`]), so that the rest of `depth` launches is all that a high-priority request can meet. Above
//! [`Level::Launch`] the launches in flight are also asked to stop at the next block boundary, and are resumed later.

use crate::Ns;
use crate::parameter::{Parameter, Values};
use crate::policy::{self, Policy, Setting};
use crate::system::{Entry, Form, Hook, Substrate, Wiring};
use std::collections::VecDeque;

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

/// The word has changed for the best-effort clients; the timers above are theirs.
const WORD: usize = 0;

/// The gates of all clients of a device.
#[derive(Debug)]
struct Gates {
    high: High,
    clients: Vec<BestEffort>,
    /// The last time that each client asked to be woken at.
    armed: Vec<Ns>,
    /// The stop flags that are up.
    raised: Vec<bool>,
    /// Values of the word that the other processes do not see yet.
    words: VecDeque<Activity>,
    word_delay_ns: Ns,
}

impl Gates {
    fn new(settings: Settings, setting: &Setting) -> Gates {
        let n = setting.clients;
        Gates {
            high: High::default(),
            clients: vec![BestEffort::new(settings, 0); n],
            armed: vec![Ns::MAX; n],
            raised: vec![false; n],
            words: VecDeque::new(),
            word_delay_ns: setting.word_delay_ns,
        }
    }

    fn publish(&mut self, word: Option<Activity>, now: Ns, ops: &mut Vec<policy::Op>) {
        if let Some(word) = word {
            self.words.push_back(word);
            ops.push(policy::Op::WakeAt { at: now + self.word_delay_ns, timer: WORD });
        }
    }

    fn client(&mut self, client: usize, event: Event, now: Ns, ops: &mut Vec<policy::Op>) {
        match self.clients[client].step(event, now) {
            None => {}
            Some(Op::Admit) => ops.push(policy::Op::Admit { client, original: true }),
            Some(Op::Resume) => {
                self.raised[client] = false;
                ops.push(policy::Op::Continue { client });
            }
            Some(Op::Retreat) => {
                self.raised[client] = true;
                ops.push(policy::Op::Retreat { client });
            }
            // Asking twice for the same time would only wake it twice.
            Some(Op::WakeAt(at)) if self.armed[client] != at => {
                self.armed[client] = at;
                ops.push(policy::Op::WakeAt { at, timer: WORD + 1 + client });
            }
            Some(Op::WakeAt(_)) => {}
        }
        if event == Event::Completed && self.raised[client] && self.clients[client].in_flight() == 0 {
            self.raised[client] = false;
            ops.push(policy::Op::Lower { client });
        }
    }
}

impl Policy for Gates {
    fn step(&mut self, event: policy::Event, now: Ns, ops: &mut Vec<policy::Op>) {
        match event {
            policy::Event::Start | policy::Event::Launched { .. } => {}
            policy::Event::HighLaunch { .. } => {
                let word = self.high.step(HighEvent::Launch, now);
                self.publish(word, now, ops);
            }
            policy::Event::HighIdle => {
                let launches_at_entry = self.high.launches();
                let word = self.high.step(HighEvent::SyncReturned { launches_at_entry }, now);
                self.publish(word, now, ops);
            }
            policy::Event::Request { client, .. } => self.client(client, Event::Launch, now, ops),
            policy::Event::Completed { client } => self.client(client, Event::Completed, now, ops),
            policy::Event::Stopped { client } => self.client(client, Event::Stopped, now, ops),
            policy::Event::Timer { timer: WORD } => {
                let word = self.words.pop_front().expect("a timer per change of the word");
                for client in 0..self.clients.len() {
                    self.client(client, Event::Word(word), now, ops);
                }
            }
            policy::Event::Timer { timer } => {
                let client = timer - WORD - 1;
                self.armed[client] = Ns::MAX;
                self.client(client, Event::Timer, now, ops);
            }
        }
    }
}

const LEVELS: &[&str] = &["launch", "ptx", "cubin"];

fn settings(values: &Values) -> Settings {
    let level = match values.word("level") {
        Some("cubin") => Level::Cubin,
        Some("ptx") => Level::Ptx,
        _ => Level::Launch,
    };
    Settings { level, depth: values.number("depth") as u32, idle_wait_ns: values.number("idle_wait_us") }
}

const fn parameters(level: u64, depth: u64) -> [Parameter; 3] {
    [
        Parameter::count("depth", "best-effort launches in flight", depth, 1, 1024),
        Parameter::word("level", "where kernels are held back or stopped", LEVELS, level),
        Parameter::us("idle_wait_us", "how long the high-priority side must be idle", 100_000),
    ]
}

fn wiring(values: &Values, substrate: Substrate) -> Wiring {
    let stops = settings(values).level != Level::Launch;
    Wiring {
        substrate,
        mps_daemon: substrate == Substrate::Mps,
        high_first: true,
        hook: Hook::Client,
        form: if stops { Form::Gated } else { Form::Original },
    }
}

const fn entry(
    name: &'static str,
    title: &'static str,
    shade: u8,
    note: &'static str,
    parameters: &'static [Parameter],
    wiring: fn(&Values) -> Wiring,
) -> Entry {
    Entry {
        name,
        title,
        note,
        color: (shade, shade, shade),
        source: "this project",
        parameters,
        settles_s: 0,
        wiring,
        policy: |values, setting| Box::new(Gates::new(settings(values), setting)),
    }
}

/// Our gate over either way of sharing, as it was measured.
pub static SYSTEMS: &[Entry] = &[
    entry(
        "gate",
        "Gate",
        0x2B,
        "Gate: this project's gate over time-sliced contexts, between launches.",
        &parameters(0, 1),
        |v| wiring(v, Substrate::Contexts),
    ),
    entry(
        "gate-cubin",
        "Gate-cubin",
        0x55,
        "Gate-cubin: also between thread blocks.",
        &parameters(2, 2),
        |v| wiring(v, Substrate::Contexts),
    ),
    entry("gate-mps", "Gate on MPS", 0x8E, "Gate on MPS: the gate under MPS.", &parameters(0, 1), |v| {
        wiring(v, Substrate::Mps)
    }),
    entry(
        "gate-mps-2",
        "Gate on MPS, 2",
        0xA3,
        "Gate on MPS, 2: two launches in flight.",
        &parameters(0, 2),
        |v| wiring(v, Substrate::Mps),
    ),
    entry(
        "gate-mps-8",
        "Gate on MPS, 8",
        0xC4,
        "Gate on MPS, 8: eight launches in flight.",
        &parameters(0, 8),
        |v| wiring(v, Substrate::Mps),
    ),
];

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
