//! This process as a client of the daemon: what it was started as, and its registration at the first launch.
//!
//! The state is made once and lives for ever: threads of the program may be in a wrapper at any time, also at exit. No thread
//! that is started here waits for whoever makes it.

use crate::activity::Activity;
use crate::best_effort::{BestEffort, Marking};
use crate::device::Cuda;
use crate::kernels::Kernels;
use crate::log::Log;
use crate::profile::Profile;
use crate::turn::Turn;
use crate::{helper, report};
use protocol::durations::Durations;
use protocol::message::{Channel, Reply, Request};
use protocol::process::Process;
use protocol::segment::{ACTIVE, SLOTS, Segment, Slot};
use protocol::settings::Settings;
use protocol::{Priority, VERSION, clock};
use sched::client::Header;
use sched::{Form, Hook as Where, System};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How far the process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing was launched yet.
    New = 0,
    /// A thread is registering.
    Starting = 1,
    /// Registered, high priority.
    High = 2,
    /// Registered, best effort.
    BestEffort = 3,
    /// Not registered, and why is in [`State::why`].
    Unscheduled = 4,
    /// The child of a fork.
    Forked = 5,
}

static MODE: AtomicU8 = AtomicU8::new(Mode::New as u8);

/// The mode now. The only thing that a launch looks at before it knows what to do.
#[inline]
pub fn mode() -> Mode {
    match MODE.load(Ordering::Acquire) {
        0 => Mode::New,
        1 => Mode::Starting,
        2 => Mode::High,
        3 => Mode::BestEffort,
        4 => Mode::Unscheduled,
        _ => Mode::Forked,
    }
}

/// What a process under the runtime knows of itself.
#[derive(Debug)]
pub struct State {
    pub settings: Settings,
    pub priority: Priority,
    /// Also of best effort, for the captures that are open.
    pub activity: Activity,
    /// Best effort only.
    pub kernels: Kernels,
    /// Counters of what happened before registration, and of a process that is not registered.
    pub local: &'static Slot,
    pub registered: OnceLock<Registered>,
    pub best_effort: OnceLock<BestEffort<Cuda>>,
    pub why: OnceLock<String>,
    /// See [`WEAKENED`].
    pub weakened: OnceLock<()>,
    /// Thread blocks that were launched since the last sample; counted only under a policy that limits by them.
    pub blocks: AtomicU64,
    pub metered: AtomicBool,
    pub daemon_lost: AtomicBool,
    /// Launches whose code was not known.
    pub nameless: AtomicU64,
}

/// What registration gave.
#[derive(Debug)]
pub struct Registered {
    pub process: Process,
    pub channel: Channel,
    pub segment: &'static Segment,
    pub slot: usize,
    pub policy: String,
    pub substrate: String,
    pub gpu: Option<String>,
    /// GPU time that best effort may have in flight, ns; 0 if the policy does not bound it.
    pub budget_ns: u64,
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());
/// The daemon's socket, for the child of a fork, which must close it.
static SOCKET: AtomicI32 = AtomicI32::new(-1);

/// The state, made at the first call; `None` if the settings cannot be used, which was said then.
#[inline]
pub fn state() -> Option<&'static State> {
    // SAFETY: null, or a state that is never freed.
    match unsafe { STATE.load(Ordering::Acquire).as_ref() } {
        Some(state) => Some(state),
        None => make_state(),
    }
}

#[cold]
fn make_state() -> Option<&'static State> {
    if matches!(mode(), Mode::Unscheduled | Mode::Forked) {
        return None;
    }
    let (settings, priority) = match Settings::of_environment() {
        Ok(settings) => match settings.priority {
            Some(priority) => (settings, priority),
            None => return refuse("TALLY_SOCKET is set and TALLY_PRIORITY is not; `tally run` sets both"),
        },
        Err(error) => return refuse(&error.to_string()),
    };
    let local: &'static Slot = Box::leak(Box::default());
    let state = Box::into_raw(Box::new(State {
        settings,
        priority,
        activity: Activity::new(local),
        kernels: Kernels::default(),
        local,
        registered: OnceLock::new(),
        best_effort: OnceLock::new(),
        why: OnceLock::new(),
        weakened: OnceLock::new(),
        blocks: AtomicU64::new(0),
        metered: AtomicBool::new(false),
        daemon_lost: AtomicBool::new(false),
        nameless: AtomicU64::new(0),
    }));
    let null = std::ptr::null_mut();
    match STATE.compare_exchange(null, state, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: made above and never freed from now on.
        Ok(_) => unsafe { state.as_ref() },
        Err(other) => {
            // SAFETY: made above, and nobody else has seen it.
            drop(unsafe { Box::from_raw(state) });
            // SAFETY: a state that is never freed.
            unsafe { other.as_ref() }
        }
    }
}

fn refuse(why: &str) -> Option<&'static State> {
    let before = MODE.swap(Mode::Unscheduled as u8, Ordering::AcqRel);
    if before != Mode::Unscheduled as u8 {
        say(&format!("{why}; this program runs unscheduled"));
    }
    None
}

/// One line on stderr.
pub fn say(text: &str) {
    let line = format!("tally: {}: {text}\n", report::program());
    if let Ok(line) = std::ffi::CString::new(line) {
        crate::say(&line);
    }
}

/// Registers, if no other thread does; returns the mode after, which is `Starting` only for a high-priority launch while
/// another thread registers.
#[cold]
pub fn start() -> Mode {
    let Some(state) = state() else { return mode() };
    let (new, starting) = (Mode::New as u8, Mode::Starting as u8);
    if MODE.compare_exchange(new, starting, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return others_start(state);
    }
    report::at_exit();
    // SAFETY: the handler makes only calls that a child of a threaded process may make.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    let mode = match register(state) {
        Ok(mode) => mode,
        Err(why) => {
            say(&format!("{why}; this program runs unscheduled"));
            let _ = state.why.set(why);
            if let Some(registered) = state.registered.get() {
                registered.channel.close();
            }
            Mode::Unscheduled
        }
    };
    // Not if this is the child of a fork by now.
    let _ = MODE.compare_exchange(starting, mode as u8, Ordering::AcqRel, Ordering::Acquire);
    self::mode()
}

/// High priority goes on and is counted when the other thread is done. Best effort waits for it, as long as it may take.
fn others_start(state: &State) -> Mode {
    let end = Instant::now() + 2 * state.settings.start_limit.duration();
    while mode() == Mode::Starting && state.priority == Priority::BestEffort && Instant::now() < end {
        std::thread::sleep(Duration::from_micros(200));
    }
    mode()
}

extern "C" fn in_child() {
    MODE.store(Mode::Forked as u8, Ordering::Release);
    // The daemon takes the parent for alive as long as anybody has its socket.
    let socket = SOCKET.swap(-1, Ordering::AcqRel);
    if socket >= 0 {
        // SAFETY: this process's copy of the descriptor, which nobody uses in this mode.
        unsafe { libc::close(socket) };
    }
    // SAFETY: null, or a state that is never freed.
    if let Some(state) = unsafe { STATE.load(Ordering::Acquire).as_ref() } {
        report::forget(state.local);
        state.activity.forked(state.local);
    }
}

fn register(state: &'static State) -> Result<Mode, String> {
    let Some(socket) = &state.settings.socket else { return Err("TALLY_SOCKET is not set".to_owned()) };
    let process = Process::this().map_err(|error| format!("cannot read /proc: {error}"))?;
    let failed =
        |error: std::io::Error| format!("no answer from the daemon at {}: {error}", socket.display());
    let limit = state.settings.start_limit.duration();
    let channel = Channel::connect_within(socket, limit).map_err(failed)?;
    let hello = Request::Hello {
        version: VERSION,
        process,
        priority: state.priority,
        program: report::program(),
        calls: hooks::Hook::all().map(|hook| hook.name().to_owned()).collect(),
        report: state.settings.report.clone(),
    };
    let (reply, files) = channel.ask(&hello, &[], limit).map_err(failed)?;
    let Reply::Welcome { version, slot, policy, substrate, gpu } = reply else {
        return Err(format!("the daemon's answer is no welcome: {reply:?}"));
    };
    if version != VERSION || slot >= SLOTS {
        return Err(format!("the daemon speaks version {version} and gave slot {slot}"));
    }
    let mut files = files.into_iter();
    let file = files.next().ok_or("the daemon sent no segment")?;
    let segment = Segment::attach(file).map_err(|error| error.to_string())?;
    let segment: &'static Segment = Box::leak(Box::new(segment));
    let system = System::parse(&policy).map_err(|error| error.to_string())?;
    let budget_ns = parameter(&system, "budget_us") * 1000;
    SOCKET.store(std::os::fd::AsFd::as_fd(&channel).as_raw_fd(), Ordering::Release);
    let registered = Registered { process, channel, segment, slot, policy, substrate, gpu, budget_ns };
    let registered = state.registered.get_or_init(|| registered);
    let own = &segment.slots()[slot];
    // First: without it nothing that is published would ever be taken back.
    if state.priority == Priority::High {
        helper::start(state).map_err(|error| format!("cannot start the helper thread: {error}"))?;
    }
    state.metered.store(system.entry().name.starts_with("tgs"), Ordering::Relaxed);
    let mode = match state.priority {
        Priority::High => {
            state.activity.publish_in(own);
            Mode::High
        }
        Priority::BestEffort => {
            if let Some(client) = best_effort(state, registered, &system, files.next())? {
                let _ = state.best_effort.set(client);
            }
            Mode::BestEffort
        }
    };
    report::move_counters(state.local, own);
    Ok(mode)
}

/// `None` under a policy that holds nothing back.
fn best_effort(
    state: &'static State,
    registered: &Registered,
    system: &System,
    known: Option<OwnedFd>,
) -> Result<Option<BestEffort<Cuda>>, String> {
    if system.wiring().hook == Where::None {
        return Ok(None);
    }
    let (segment, own) = (registered.segment, &registered.segment.slots()[registered.slot]);
    let weaker = at_launch_level(system);
    if weaker.is_some() {
        say(WEAKENED);
        let _ = state.weakened.set(());
    }
    let system = weaker.as_ref().unwrap_or(system);
    let start = clock::now();
    let max_rate = largest_rate(segment);
    let client = system.client(start, max_rate).map_err(|refused| refused.to_string())?;
    let header = Header { system: system.name().to_owned(), start, max_rate };
    let log = match &state.settings.event_log {
        Some(path) => Some(
            Log::create(path, &header)
                .map_err(|error| format!("TALLY_EVENT_LOG={}: {error}", path.display()))?,
        ),
        None => None,
    };
    let known = match known.map(Durations::from_memfd) {
        Some(Ok((known, damaged))) => {
            damaged.iter().for_each(|line| say(&format!("durations from the daemon: {line}")));
            known
        }
        Some(Err(error)) => {
            say(&format!("durations from the daemon: {error}"));
            Durations::default()
        }
        None => Durations::default(),
    };
    let gate = system.entry().name.starts_with("gate");
    let marking = Marking::of(parameter(system, "depth"), registered.budget_ns, gate);
    let turn = Turn::new(client, start, log);
    let spin = state.settings.spin.duration();
    Ok(Some(BestEffort::new(Cuda, (segment, own), turn, marking, spin, Profile::new(known))))
}

/// What a report says of a policy that asks for more than can be done here.
pub const WEAKENED: &str =
    "kernels are not interrupted between thread blocks, but held back at their launch (level=launch)";

/// The same policy between launches, of one that interrupts kernels.
fn at_launch_level(system: &System) -> Option<System> {
    if system.wiring().form == Form::Original {
        return None;
    }
    let written = system.parameters();
    let parameters: Vec<&str> = written
        .split(',')
        .map(|pair| if pair.starts_with("level=") { "level=launch" } else { pair })
        .collect();
    System::parse(&format!("{}:{}", system.entry().name, parameters.join(","))).ok()
}

/// A whole-numbered parameter of a system; 0 if it has none or leaves it at its default of 0.
fn parameter(system: &System, name: &str) -> u64 {
    let written = system.parameters();
    let value = written.split(',').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    value.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// The high-priority side's rate so far; 0 if there is none.
fn largest_rate(segment: &Segment) -> f64 {
    let mask = segment.header().high_mask.load(Ordering::Acquire);
    let slots = segment.slots().iter().enumerate().filter(|(slot, _)| mask >> slot & 1 == 1);
    slots.map(|(_, slot)| f64::from_bits(slot.sample.rate.load(Ordering::Relaxed))).fold(0.0, f64::max)
}

impl State {
    /// While a launch waits: if the daemon has gone, looks after the high-priority processes in its place.
    pub fn check_daemon(&self) {
        let Some(registered) = self.registered.get() else { return };
        if !registered.channel.is_closed() {
            return;
        }
        if !self.daemon_lost.swap(true, Ordering::Relaxed) {
            say("the daemon has gone; best effort is still held back, and deaths are looked for in /proc");
        }
        bury(registered.segment);
    }

    /// Where the report goes.
    pub fn report_folder(&self) -> Option<&PathBuf> {
        self.settings.report.as_ref()
    }
}

/// Clears the bits of high-priority processes that are dead.
fn bury(segment: &Segment) {
    let mask = segment.header().high_mask.load(Ordering::Acquire);
    for slot in (0..SLOTS).filter(|slot| mask >> slot & 1 == 1) {
        let owner = &segment.slots()[slot].owner;
        let (pid, start) = (owner.pid.load(Ordering::Acquire), owner.start.load(Ordering::Acquire));
        if pid == 0 || !(Process { pid, start }).is_alive() {
            segment.header().high_mask.fetch_and(!(1 << slot), Ordering::SeqCst);
            let word = &segment.slots()[slot].word;
            let _ = word.compare_exchange(ACTIVE, clock::now(), Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}
