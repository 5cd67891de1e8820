//! All objects of the driver in this process, behind one lock. The lock is never held while a caller's function runs or
//! while a call waits for the device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::arena::Arena;
use crate::capture::Capture;
use crate::context::Context;
use crate::entry::export;
use crate::error::{Answer, Code};
use crate::event::Event;
use crate::graph::{Graph, GraphNode};
use crate::memory::Memory;
use crate::module::{Function, Kernel, Library, Module};
use crate::stream::Stream;
use crate::types::Handle;

pub struct State {
    initialized: bool,
    /// The device's primary context, made at the first retain.
    pub primary: Option<Handle>,
    pub contexts: Arena<Context>,
    pub streams: Arena<Stream>,
    pub events: Arena<Event>,
    pub modules: Arena<Module>,
    pub libraries: Arena<Library>,
    pub functions: Arena<Function>,
    pub kernels: Arena<Kernel>,
    pub graphs: Arena<Graph>,
    pub execs: Arena<Graph>,
    pub nodes: Arena<GraphNode>,
    pub captures: Vec<Capture>,
    pub memory: Memory,
}

static STATE: Mutex<State> = Mutex::new(State {
    initialized: false,
    primary: None,
    contexts: Arena::new(1),
    streams: Arena::new(2),
    events: Arena::new(3),
    modules: Arena::new(4),
    libraries: Arena::new(5),
    functions: Arena::new(6),
    kernels: Arena::new(7),
    graphs: Arena::new(8),
    execs: Arena::new(9),
    nodes: Arena::new(10),
    captures: Vec::new(),
    memory: Memory::new(),
});

/// Set in a child that was forked after cuInit: as with the real driver, it can't use CUDA.
static FORKED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    // In glibc's static part, and therefore not in the libc crate.
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

extern "C" fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

fn lock() -> Answer<MutexGuard<'static, State>> {
    // Before the lock: another thread may have held it at the fork.
    if FORKED.load(Ordering::Relaxed) {
        return Err(Code::NOT_INITIALIZED);
    }
    Ok(STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The objects, once cuInit has been called.
pub fn state() -> Answer<MutexGuard<'static, State>> {
    let state = lock()?;
    if state.initialized { Ok(state) } else { Err(Code::NOT_INITIALIZED) }
}

export! {
    cuInit: [cuInit 2000] (flags: u32) |_call| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = lock()?;
        if !state.initialized {
            // SAFETY: the handler only stores a flag, and this library is never unloaded while it has threads.
            unsafe { pthread_atfork(None, None, Some(forked)) };
            state.initialized = true;
        }
        Ok(())
    };
}
