//! The one door of all launches. So far it only counts them.

use crate::types::*;
use hooks::Hook;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

static LAUNCHES: [AtomicU64; Hook::COUNT] = [const { AtomicU64::new(0) }; Hook::COUNT];
static WAITS: [AtomicU64; Hook::COUNT] = [const { AtomicU64::new(0) }; Hook::COUNT];

/// Calls through this hook that came to [`launch`].
pub fn launches(hook: Hook) -> u64 {
    LAUNCHES[hook as usize].load(Relaxed)
}

/// Calls through this hook that came to [`waiting`].
pub fn waits(hook: Hook) -> u64 {
    WAITS[hook as usize].load(Relaxed)
}

/// Admits a launch: every launch of the process comes through here, and `real` is called exactly once.
pub fn launch(unit: &Unit, real: impl FnOnce() -> CUresult) -> CUresult {
    LAUNCHES[unit.hook as usize].fetch_add(1, Relaxed);
    real()
}

/// A call that waits or asks.
pub fn waiting(hook: Hook, _wait: Wait, real: impl FnOnce() -> CUresult) -> CUresult {
    WAITS[hook as usize].fetch_add(1, Relaxed);
    real()
}

/// Takes note.
pub fn note(_note: Note) {}
