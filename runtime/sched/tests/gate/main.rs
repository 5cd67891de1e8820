//! The gate under random sequences of events: what it may never do, what it has to do in the end, and that without a
//! budget it is the gate that it was.

mod depth_only;

use depth_only as old;
use proptest::prelude::*;
use sched::Ns;
use sched::gate::{Activity, BestEffort, Event, Level, Op, Settings};
use std::collections::VecDeque;

const WAIT: Ns = 100;

/// One step of a client and of what it runs beside; a step that makes no sense where it comes is left out.
#[derive(Clone, Copy, Debug)]
enum Step {
    Launch(Option<Ns>),
    /// Of those in flight, counted from the oldest.
    Complete(usize),
    Active,
    Idle,
    /// Time passes, and the timer fires if it is due.
    Wait(Ns),
    /// As a caller may that does not keep exact time.
    EarlyTimer,
    /// What was told to stop has stopped.
    Stopped,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => proptest::option::weighted(0.8, 0_u64..700).prop_map(Step::Launch),
        4 => (0_usize..4).prop_map(Step::Complete),
        2 => Just(Step::Active),
        3 => Just(Step::Idle),
        4 => (1_u64..150).prop_map(Step::Wait),
        1 => Just(Step::EarlyTimer),
        1 => Just(Step::Stopped),
    ]
}

/// Whoever runs the gate: the device and the clock.
struct Caller {
    gate: BestEffort,
    settings: Settings,
    now: Ns,
    word: Activity,
    held: Option<Option<Ns>>,
    in_flight: VecDeque<(u64, Option<Ns>)>,
    admitted: u64,
    timer: Option<Ns>,
    raised: bool,
}

impl Caller {
    fn new(settings: Settings) -> Caller {
        Caller {
            gate: BestEffort::new(settings, 0),
            settings,
            now: 0,
            word: Activity::IdleSince(0),
            held: None,
            in_flight: VecDeque::new(),
            admitted: 0,
            timer: None,
            raised: false,
        }
    }

    /// The event that a step amounts to, if it makes sense.
    fn event(&mut self, step: Step) -> Option<Event> {
        match step {
            Step::Launch(duration_ns) if self.held.is_none() => {
                self.held = Some(duration_ns);
                Some(Event::Launch { duration_ns })
            }
            Step::Complete(at) if at < self.in_flight.len() => {
                let (launch, _) = self.in_flight.remove(at).unwrap();
                Some(Event::Completed { launch })
            }
            Step::Active if self.word != Activity::Active => self.word(Activity::Active),
            Step::Idle if self.word == Activity::Active => self.word(Activity::IdleSince(self.now)),
            Step::Wait(ns) => {
                self.now += ns;
                let due = self.timer.is_some_and(|at| at <= self.now);
                due.then(|| self.timer = None).map(|()| Event::Timer)
            }
            Step::EarlyTimer => Some(Event::Timer),
            Step::Stopped if self.raised && !self.in_flight.is_empty() => Some(Event::Stopped),
            _ => None,
        }
    }

    fn word(&mut self, word: Activity) -> Option<Event> {
        self.word = word;
        Some(Event::Word(word))
    }

    /// Tells the gate, and checks what it answers.
    fn tell(&mut self, event: Event) -> Result<Option<Op>, TestCaseError> {
        let op = self.gate.step(event, self.now);
        match op {
            Some(Op::Admit { launch }) => {
                prop_assert_eq!(launch, self.admitted, "numbered in order");
                self.admitted += 1;
                let Some(duration_ns) = self.held.take() else {
                    return Err(TestCaseError::fail("admits what nobody wants to launch"));
                };
                self.in_flight.push_back((launch, duration_ns));
                self.check()?;
                self.check_idle()?;
            }
            Some(Op::WakeAt(at)) => {
                prop_assert!(at > self.now, "a wake-up in the past");
                self.timer = Some(at);
            }
            Some(Op::Retreat) => self.raised = true,
            Some(Op::Resume) => {
                self.raised = false;
                self.check_idle()?;
            }
            None => {}
        }
        prop_assert_eq!(self.gate.in_flight(), self.in_flight.len());
        prop_assert!(!self.is_held_for_nothing(), "held: {:?}, in flight: {:?}", self.held, self.in_flight);
        Ok(op)
    }

    /// A launch is held although it might go. Not asked above the launch level, where it also waits for what was stopped.
    fn is_held_for_nothing(&self) -> bool {
        let Settings { level, depth, budget_ns, idle_wait_ns } = self.settings;
        let Activity::IdleSince(since) = self.word else { return false };
        let Some(wanted) = self.held else { return false };
        let fits = || {
            let all = self.in_flight.iter().map(|(_, ns)| *ns).chain([wanted]);
            all.sum::<Option<Ns>>().is_some_and(|ns| ns <= budget_ns)
        };
        let room = self.in_flight.len() < depth as usize;
        let free = self.in_flight.is_empty() || (room && (budget_ns == 0 || fits()));
        level == Level::Launch && self.now >= since + idle_wait_ns && free
    }

    /// After an admission.
    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.in_flight.len() <= self.settings.depth as usize);
        if self.settings.budget_ns > 0 && self.in_flight.len() > 1 {
            let together: Option<Ns> = self.in_flight.iter().map(|(_, ns)| *ns).sum();
            prop_assert!(together.is_some_and(|ns| ns <= self.settings.budget_ns), "{:?}", self.in_flight);
        }
        Ok(())
    }

    fn check_idle(&self) -> Result<(), TestCaseError> {
        match self.word {
            Activity::Active => Err(TestCaseError::fail("admits while high priority is active")),
            Activity::IdleSince(since) => {
                prop_assert!(self.now >= since + self.settings.idle_wait_ns, "admits within the wait");
                Ok(())
            }
        }
    }
}

fn level() -> impl Strategy<Value = Level> {
    prop_oneof![Just(Level::Launch), Just(Level::Cubin)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Never more in flight than depth and budget allow, nothing while high priority is active or within the wait; and
    /// once it stays idle and what is in flight completes, whatever is held is admitted, by no more than the wake-ups that
    /// were asked for.
    #[test]
    fn bounded_and_live(
        (depth, budget_ns, level) in (1_u32..6, prop_oneof![Just(0_u64), 1_u64..1000], level()),
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let settings = Settings { level, depth, budget_ns, idle_wait_ns: WAIT };
        let mut caller = Caller::new(settings);
        for step in steps {
            if let Some(event) = caller.event(step) {
                caller.tell(event)?;
            }
        }
        for step in [Step::Idle, Step::Launch(Some(5000))] {
            if let Some(event) = caller.event(step) {
                caller.tell(event)?;
            }
        }
        for _ in 0..=depth {
            if let Some(event) = caller.event(Step::Complete(0)) {
                caller.tell(event)?;
            }
        }
        if let Some(at) = caller.timer.take().filter(|_| caller.held.is_some()) {
            caller.now = caller.now.max(at);
            caller.tell(Event::Timer)?;
        }
        // A timer of an earlier time may have been asked for before the word changed; the next one is the last.
        if let Some(at) = caller.timer.take().filter(|_| caller.held.is_some()) {
            caller.now = caller.now.max(at);
            caller.tell(Event::Timer)?;
        }
        prop_assert!(caller.held.is_none(), "held for ever");
    }

    /// Without a budget it decides as it did before, whatever the estimates say. It used to repeat a wake-up that was still
    /// due, which its caller left out.
    #[test]
    fn without_a_budget_nothing_has_changed(
        (depth, level) in (1_u32..6, level()),
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut caller = Caller::new(Settings { level, depth, budget_ns: 0, idle_wait_ns: WAIT });
        let mut before = old::BestEffort::new(old::Settings { level, depth, idle_wait_ns: WAIT }, 0);
        let mut armed = None;
        for step in steps {
            let Some(event) = caller.event(step) else { continue };
            let new = caller.tell(event)?;
            if event == Event::Timer {
                armed = None;
            }
            let answer = before.step(
                match event {
                    Event::Launch { .. } => old::Event::Launch,
                    Event::Completed { .. } => old::Event::Completed,
                    Event::Stopped => old::Event::Stopped,
                    Event::Word(word) => old::Event::Word(word),
                    Event::Timer => old::Event::Timer,
                },
                caller.now,
            );
            let expected = match answer {
                Some(old::Op::WakeAt(at)) if armed == Some(at) => None,
                Some(old::Op::WakeAt(at)) => {
                    armed = Some(at);
                    Some(Op::WakeAt(at))
                }
                Some(old::Op::Admit) => Some(Op::Admit { launch: caller.admitted - 1 }),
                Some(old::Op::Retreat) => Some(Op::Retreat),
                Some(old::Op::Resume) => Some(Op::Resume),
                None => None,
            };
            prop_assert_eq!(new, expected);
            prop_assert_eq!(caller.gate.in_flight(), before.in_flight() as usize);
        }
    }
}
