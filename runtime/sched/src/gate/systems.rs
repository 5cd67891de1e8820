//! The gates of a device in one policy, and the systems that they make.

use super::{Activity, BestEffort, Event, High, HighEvent, Level, Op, Settings};
use crate::Ns;
use crate::client::{self, Client, Halves};
use crate::parameter::{Parameter, Values};
use crate::policy::{self, Policy, Setting};
use crate::system::{Entry, Form, Hook, Substrate, Wiring};
use std::collections::VecDeque;

/// The word has changed for the best-effort clients; the timers above are theirs.
const WORD: usize = 0;

/// The gates of all clients of a device.
#[derive(Debug)]
struct Gates {
    settings: Settings,
    high: High,
    clients: Vec<BestEffort>,
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
            settings,
            high: High::default(),
            clients: vec![BestEffort::new(settings, 0); n],
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
            Some(Op::Admit { .. }) => ops.push(policy::Op::Admit { client, original: true }),
            Some(Op::Resume) => {
                self.raised[client] = false;
                ops.push(policy::Op::Continue { client });
            }
            Some(Op::Retreat) => {
                self.raised[client] = true;
                ops.push(policy::Op::Retreat { client });
            }
            Some(Op::WakeAt(at)) => ops.push(policy::Op::WakeAt { at, timer: self.timer(client) }),
        }
        let completed = matches!(event, Event::Completed { .. });
        if completed && self.raised[client] && self.clients[client].in_flight() == 0 {
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
            policy::Event::Request { client, kernel } => {
                self.client(client, Event::Launch { duration_ns: Some(kernel.duration_ns) }, now, ops);
            }
            policy::Event::Completed { client } => {
                // A client of this policy has one stream.
                let launch = self.clients[client].oldest().expect("only what is in flight completes");
                self.client(client, Event::Completed { launch }, now, ops);
            }
            policy::Event::Stopped { client } => self.client(client, Event::Stopped, now, ops),
            policy::Event::Timer { timer: WORD } => {
                let word = self.words.pop_front().expect("a timer per change of the word");
                for client in 0..self.clients.len() {
                    self.client(client, Event::Word(word), now, ops);
                }
            }
            policy::Event::Timer { timer } => {
                self.client(timer - self.timer(0), Event::Timer, now, ops);
            }
        }
    }

    fn halves(&self) -> Option<&dyn Halves> {
        // Nothing outside of the simulator stops a kernel between its blocks.
        (self.settings.level == Level::Launch).then_some(self)
    }
}

impl Halves for Gates {
    fn client(&self, now: Ns, _max_rate: f64) -> Client {
        Client::gate(BestEffort::new(self.settings, now))
    }

    fn seen(&self, client: usize, event: &policy::Event) -> Option<client::Event> {
        match *event {
            policy::Event::Request { client: of, kernel } if of == client => {
                Some(client::Event::launch(&kernel))
            }
            policy::Event::Completed { client: of } if of == client => {
                self.clients[client].oldest().map(|launch| client::Event::Completed { launch })
            }
            policy::Event::Timer { timer: WORD } => self.words.front().map(|&word| client::Event::Word(word)),
            policy::Event::Timer { timer } if timer == self.timer(client) => Some(client::Event::Timer),
            _ => None,
        }
    }

    fn timer(&self, client: usize) -> usize {
        WORD + 1 + client
    }
}

const LEVELS: &[&str] = &["launch", "ptx", "cubin"];

fn settings(values: &Values) -> Settings {
    let level = match values.word("level") {
        Some("cubin") => Level::Cubin,
        Some("ptx") => Level::Ptx,
        _ => Level::Launch,
    };
    Settings {
        level,
        depth: values.number("depth") as u32,
        budget_ns: values.number("budget_us"),
        lead_ns: values.number("lead_us"),
        idle_wait_ns: values.number("idle_wait_us"),
    }
}

/// Bounded by the number of launches in flight alone, with the idle time that the first measurements were made with.
const fn counted(level: u64, depth: u64) -> [Parameter; 5] {
    let [depth, level, wait, budget, lead] = parameters(level, depth, 100_000, 0, 0);
    // Cells that were simulated before there was a budget keep their keys.
    [depth, level, wait, budget.added_later(), lead.added_later()]
}

/// What `tally run` uses: on an H200, beside two training jobs, 0.04 more best-effort throughput than with one launch in
/// flight, for a p99 that is 4 to 5 % longer (machines/evidence/gate). A budget of 1 ms gives 0.01 more and costs servers
/// with short requests a multiple of that in their tail, in simulation; with a shorter wait best effort gets in between
/// requests that queue.
const TIMED: [Parameter; 5] = parameters(0, 64, 50_000, 500_000, 20_000);

const fn parameters(level: u64, depth: u64, idle_wait: Ns, budget: Ns, lead: Ns) -> [Parameter; 5] {
    [
        Parameter::count("depth", "best-effort launches in flight", depth, 1, 1024),
        Parameter::word("level", "where kernels are held back or stopped", LEVELS, level),
        Parameter::us("idle_wait_us", "how long the high-priority side must be idle", idle_wait),
        Parameter::us("budget_us", "GPU time of what is in flight; 0: only depth counts", budget),
        Parameter::us(
            "lead_us",
            "with a budget: a launch goes so long before the end of those before it",
            lead,
        ),
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

/// Our gate over either way of sharing.
pub static SYSTEMS: &[Entry] = &[
    entry(
        "gate",
        "Gate",
        0x2B,
        "Gate: this project's gate over time-sliced contexts, between launches.",
        &TIMED,
        |v| wiring(v, Substrate::Contexts),
    ),
    entry("gate-1", "Gate, 1", 0x6B, "Gate, 1: one launch in flight.", &counted(0, 1), |v| {
        wiring(v, Substrate::Contexts)
    }),
    entry("gate-cubin", "Gate-cubin", 0x55, "Gate-cubin: also between thread blocks.", &counted(2, 2), |v| {
        wiring(v, Substrate::Contexts)
    }),
    entry("gate-mps", "Gate on MPS", 0x8E, "Gate on MPS: the gate under MPS.", &counted(0, 1), |v| {
        wiring(v, Substrate::Mps)
    }),
    entry(
        "gate-mps-2",
        "Gate on MPS, 2",
        0xA3,
        "Gate on MPS, 2: two launches in flight.",
        &counted(0, 2),
        |v| wiring(v, Substrate::Mps),
    ),
    entry(
        "gate-mps-8",
        "Gate on MPS, 8",
        0xC4,
        "Gate on MPS, 8: eight launches in flight.",
        &counted(0, 8),
        |v| wiring(v, Substrate::Mps),
    ),
];
