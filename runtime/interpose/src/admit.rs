//! The one door of all launches: what happens at each, by what this process is.

use crate::best_effort::Asked;
use crate::client::{self, Mode, State, mode, state};
use crate::device::{Cuda, Device};
use crate::kernels::{self, blocks_of};
use crate::profile::Shape;
use crate::report;
use crate::types::*;
use hooks::{Hook, Kind};
use protocol::Priority;
use protocol::segment::CALLS;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// What a launch makes the device do.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    Kernel {
        /// A `CUfunction`, or a `CUkernel` in its place, which the driver accepts.
        function: CUfunction,
        /// Blocks.
        grid: [u32; 3],
        /// Threads; zeros where an old entry point leaves them to an earlier call.
        block: [u32; 3],
        /// Bytes of dynamic shared memory.
        shared: u32,
    },
    Graph(CUgraphExec),
    /// A copy or a memset.
    Bytes {
        from_host: bool,
        bytes: u64,
    },
    /// A function of the host, called in stream order.
    Host,
}

/// One launch.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    pub hook: Hook,
    /// Never null: the default streams are [`LEGACY`] and [`PER_THREAD`].
    pub stream: CUstream,
    pub work: Work,
}

/// What a call waits for or asks about. Streams are never null, as in [`Unit`].
#[derive(Debug, Clone, Copy)]
pub enum Wait {
    Stream(CUstream),
    /// The calling thread's current context.
    Context,
    Event(CUevent),
    /// The legacy default stream, and what it waits for.
    Legacy,
    QueryStream(CUstream),
    QueryEvent(CUevent),
}

/// Something that changes what is known. Unless a variant says otherwise it is told after the call succeeded.
#[derive(Debug, Clone, Copy)]
pub enum Note {
    /// Told before the call, so that launches of other threads that come during it are not taken for recorded.
    EventRecorded {
        event: CUevent,
        stream: CUstream,
    },
    /// After [`Note::EventRecorded`] was told and the call has succeeded.
    EventTaken(CUevent),
    /// Told before the call; also when a record failed or says nothing about a stream: nothing is known of the event.
    EventDestroyed(CUevent),
    StreamCreated(CUstream),
    /// Told before the call.
    StreamDestroyed(CUstream),
    /// Told before the call.
    CaptureBegan(CUstream),
    /// Also when the beginning failed.
    CaptureEnded(CUstream),
    /// `image` is null if the module came from a file. It is valid for the time of this call only.
    ModuleLoaded {
        module: CUmodule,
        image: *const c_void,
    },
    /// Told before the call.
    ModuleUnloaded(CUmodule),
    /// `image` as with modules.
    LibraryLoaded {
        library: CUlibrary,
        image: *const c_void,
    },
    /// Told before the call.
    LibraryUnloaded(CUlibrary),
    LibraryModule {
        library: CUlibrary,
        module: CUmodule,
    },
    /// `name` is null if the function was enumerated. It is valid for the time of this call only.
    FunctionFound {
        function: CUfunction,
        module: CUmodule,
        name: *const c_char,
    },
    /// `name` as with functions.
    KernelFound {
        kernel: CUkernel,
        library: CUlibrary,
        name: *const c_char,
    },
    KernelFunction {
        kernel: CUkernel,
        function: CUfunction,
    },
    /// Also when an executable graph got the contents of another graph.
    GraphInstantiated {
        exec: CUgraphExec,
        graph: CUgraph,
    },
    /// Told before the call.
    GraphDestroyed(CUgraphExec),
    /// Told before the call.
    ContextDestroyed(CUcontext),
    /// Told before the call: the device's primary context was reset or given back.
    PrimaryReleased(CUdevice),
}

const _: () = assert!(Hook::COUNT <= CALLS, "a slot has a counter for every hook");

/// Why a launch is passed on without a decision; the order of [`protocol::segment::PASSED`].
#[derive(Debug, Clone, Copy)]
enum Passed {
    Capturing,
    Unregistered,
    Forked,
    Small,
    Policy,
}

/// Copies that are long enough to wait are taken to move so many bytes per µs: what PCIe 3.0 x16 and a small GPU's memory do
/// at least. A faster device makes the estimate too long, which only makes best effort more careful.
const HOST_BYTES_PER_US: u64 = 10_000;
const DEVICE_BYTES_PER_US: u64 = 200_000;

/// Calls through this hook that came to [`launch`] or [`waiting`]; a synchronous copy, which comes to both, counts once.
pub fn calls(hook: Hook) -> u64 {
    state().map_or(0, |state| {
        let (own, local) = (state.activity.slot(), state.local);
        let count = |slot: &protocol::segment::Slot| slot.counters.calls[hook as usize].load(Relaxed);
        if std::ptr::eq(own, local) { count(own) } else { count(own) + count(local) }
    })
}

/// Admits a launch: every launch of the process comes through here, and `real` is called exactly once.
#[inline]
pub fn launch(unit: &Unit, real: impl FnOnce() -> CUresult) -> CUresult {
    match (mode(), state()) {
        (Mode::High, Some(state)) => high(state, unit, real),
        (Mode::BestEffort, Some(state)) => best_effort(state, unit, real),
        _ => first(unit, real),
    }
}

/// Before the process is registered, or when it never will be.
#[cold]
fn first(unit: &Unit, real: impl FnOnce() -> CUresult) -> CUresult {
    let mode = match mode() {
        Mode::New | Mode::Starting => client::start(),
        other => other,
    };
    let Some(state) = state() else { return real() };
    match mode {
        Mode::High => high(state, unit, real),
        Mode::Starting if state.priority == Priority::High => high(state, unit, real),
        Mode::BestEffort => best_effort(state, unit, real),
        Mode::Forked => pass(state, unit, Passed::Forked, real),
        Mode::New | Mode::Starting | Mode::Unscheduled => pass(state, unit, Passed::Unregistered, real),
    }
}

fn pass(state: &State, unit: &Unit, why: Passed, real: impl FnOnce() -> CUresult) -> CUresult {
    count(state, unit.hook);
    passed(state, why);
    real()
}

#[inline]
fn count(state: &State, hook: Hook) {
    slot(state).counters.calls[hook as usize].fetch_add(1, Relaxed);
}

fn passed(state: &State, why: Passed) {
    slot(state).counters.passed[why as usize].fetch_add(1, Relaxed);
}

/// Where this process counts.
#[inline]
fn slot(state: &State) -> &protocol::segment::Slot {
    match (state.priority, mode(), state.registered.get()) {
        (Priority::BestEffort, Mode::BestEffort, Some(registered)) => {
            &registered.segment.slots()[registered.slot]
        }
        _ => state.activity.slot(),
    }
}

#[inline]
fn is_capturing(state: &State, stream: CUstream) -> bool {
    state.activity.captures() > 0 && Cuda.is_capturing(stream)
}

/// High priority: counted and published, never held.
#[inline]
fn high(state: &State, unit: &Unit, real: impl FnOnce() -> CUresult) -> CUresult {
    count(state, unit.hook);
    if is_capturing(state, unit.stream) {
        passed(state, Passed::Capturing);
        return real();
    }
    if state.metered.load(Relaxed) {
        state.blocks.fetch_add(blocks(state, &unit.work), Relaxed);
    }
    let place = state.activity.launch(&Cuda, unit.stream);
    let result = real();
    state.activity.handed(place, result.is_success());
    result
}

fn blocks(state: &State, work: &Work) -> u64 {
    match *work {
        Work::Kernel { grid, .. } => blocks_of(grid),
        Work::Graph(exec) => state.kernels.graph(exec).blocks,
        Work::Bytes { .. } | Work::Host => 0,
    }
}

/// Best effort: held back as the policy wants it.
fn best_effort(state: &State, unit: &Unit, real: impl FnOnce() -> CUresult) -> CUresult {
    count(state, unit.hook);
    let capturing = state.activity.captures() > 0;
    let why = match (state.best_effort.get(), &unit.work) {
        _ if capturing && Cuda.is_capturing(unit.stream) => Passed::Capturing,
        (None, _) | (_, Work::Host) => Passed::Policy,
        (_, Work::Bytes { bytes, .. }) if *bytes < state.settings.large_bytes => Passed::Small,
        (Some(client), _) => {
            let asked = ask(state, &client.profile, unit);
            let result = client.launch(asked, capturing, &|| state.check_daemon(), real);
            report::send_durations_in_time(state, &client.profile);
            return result;
        }
    };
    passed(state, why);
    real()
}

/// What the policy needs to know of a launch.
fn ask(state: &State, profile: &crate::profile::Profile, unit: &Unit) -> Asked {
    let kernels = &state.kernels;
    let (identity, estimate_ns) = match unit.work {
        Work::Kernel { function, grid, block, shared } => {
            let known = kernels.kernel(function, grid, block, shared);
            if known.is_none() {
                state.nameless.fetch_add(1, Relaxed);
            }
            (known.unwrap_or_else(|| kernels::of_handle(function, grid)), None)
        }
        Work::Graph(exec) => (kernels.graph(exec).identity, None),
        Work::Bytes { from_host, bytes } => {
            let rate = if from_host { HOST_BYTES_PER_US } else { DEVICE_BYTES_PER_US };
            (kernels::of_bytes(from_host, bytes), Some((bytes.saturating_mul(1000) / rate).max(1)))
        }
        Work::Host => (kernels::of_bytes(true, 0), Some(1)),
    };
    let mut plan = profile.launch(identity.key, identity.lasting, estimate_ns, || shape(state, &unit.work));
    if matches!(unit.work, Work::Kernel { .. }) && !identity.lasting {
        // The handle may come to mean other code at any time.
        plan.duration_ns = None;
    }
    let budget_ns = state.registered.get().map_or(0, |registered| registered.budget_ns);
    let is_long = budget_ns > 0 && plan.duration_ns.is_some_and(|ns| ns > budget_ns);
    if is_long && matches!(unit.work, Work::Graph(_)) {
        slot(state).counters.unprotected.fetch_add(1, Relaxed);
    }
    Asked { stream: unit.stream, key: identity.key, plan, blocks: blocks(state, &unit.work) }
}

fn shape(state: &State, work: &Work) -> Shape {
    match *work {
        Work::Kernel { function, grid, block, shared } => {
            let name = match state.kernels.name(function) {
                name if name.is_empty() => format!("kernel at {:p}", function.0),
                name => name,
            };
            Shape { name, grid, block, shared }
        }
        Work::Graph(exec) => {
            let graph = state.kernels.graph(exec);
            Shape { name: format!("graph of {} nodes", graph.nodes), ..Shape::default() }
        }
        Work::Bytes { from_host, bytes } => {
            let (from, up_to) = (if from_host { "host" } else { "device" }, bytes.next_power_of_two());
            Shape { name: format!("copy or fill from the {from} up to {up_to} B"), ..Shape::default() }
        }
        Work::Host => Shape { name: "host function".to_owned(), ..Shape::default() },
    }
}

/// A call that waits or asks.
#[inline]
pub fn waiting(hook: Hook, wait: Wait, real: impl FnOnce() -> CUresult) -> CUresult {
    let (mode, Some(state)) = (mode(), state()) else { return real() };
    // A synchronous copy has been counted as a launch.
    let is_copy = hook.entry().kind == Kind::Copy;
    if !is_copy && mode != Mode::New {
        count(state, hook);
    }
    let high = mode == Mode::High || (mode == Mode::Starting && state.priority == Priority::High);
    if !high {
        return real();
    }
    let activity = &state.activity;
    let own = u64::from(is_copy);
    let asks = matches!(wait, Wait::QueryStream(_) | Wait::QueryEvent(_));
    let mark = match wait {
        Wait::Stream(stream) | Wait::QueryStream(stream) => activity.enter_stream(&Cuda, stream, own),
        Wait::Legacy => activity.enter_stream(&Cuda, LEGACY, own),
        Wait::Context => activity.enter_context(&Cuda),
        Wait::Event(event) | Wait::QueryEvent(event) => activity.enter_event(event),
    };
    if asks {
        let result = real();
        if result.is_success() {
            activity.done(&mark);
        }
        return result;
    }
    activity.waiting().fetch_add(1, SeqCst);
    let result = real();
    activity.waiting().fetch_sub(1, SeqCst);
    if result.is_success() {
        activity.done(&mark);
    }
    result
}

/// Takes note.
pub fn note(note: Note) {
    let (mode, Some(state)) = (mode(), state()) else { return };
    match mode {
        Mode::Unscheduled | Mode::Forked => return,
        Mode::New | Mode::Starting | Mode::High | Mode::BestEffort => {}
    }
    match note {
        Note::CaptureBegan(_) => {
            state.activity.capture_begins();
            settle(state);
        }
        Note::CaptureEnded(_) => state.activity.capture_ended(),
        Note::StreamDestroyed(_) => settle(state),
        Note::ContextDestroyed(context) => {
            if let Some(client) = state.best_effort.get() {
                client.context_gone(context);
            }
        }
        Note::PrimaryReleased(_) => {
            if let Some(client) = state.best_effort.get() {
                client.any_context_gone();
            }
        }
        _ => {}
    }
    match state.priority {
        Priority::High => note_high(state, note),
        Priority::BestEffort => state.kernels.note(note),
    }
}

fn settle(state: &State) {
    if let Some(client) = state.best_effort.get() {
        client.settle();
    }
}

fn note_high(state: &State, note: Note) {
    match note {
        Note::EventRecorded { event, stream } => state.activity.record(&Cuda, event, stream),
        Note::EventTaken(event) => state.activity.recorded(event),
        Note::EventDestroyed(event) => state.activity.forget(event),
        Note::StreamDestroyed(stream) => state.activity.destroying(stream),
        Note::ContextDestroyed(context) => state.activity.context_gone(context),
        Note::PrimaryReleased(_) => state.activity.any_context_gone(),
        // The blocks of a graph's kernels, for policies that limit by them; before registration it is not known whether one
        // does. Nothing here is on the path of a launch.
        Note::GraphInstantiated { .. } | Note::GraphDestroyed(_) if is_metered(state) => {
            state.kernels.note(note)
        }
        _ => {}
    }
}

fn is_metered(state: &State) -> bool {
    mode() != Mode::High || state.metered.load(Relaxed)
}
