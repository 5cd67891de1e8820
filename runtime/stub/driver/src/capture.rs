//! Stream capture, and what may not be called meanwhile.

use std::cell::Cell;

use crate::call::Call;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::graph::Graph;
use crate::log;
use crate::settings;
use crate::state::{State, state};
use crate::types::Handle;
use crate::work::Work;

/// CUstreamCaptureMode.
const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;
/// CUstreamCaptureStatus.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureId(pub u64);

/// A capture that goes on.
pub struct Capture {
    id: CaptureId,
    origin: Handle,
    thread: i32,
    mode: u32,
    /// Where the work is written down.
    graph: Handle,
    valid: bool,
}

thread_local!(static MODE: Cell<u32> = const { Cell::new(GLOBAL) });

impl State {
    fn capture(&self, id: CaptureId) -> Option<&Capture> {
        self.captures.iter().find(|capture| capture.id == id)
    }

    /// Ends a capture's usefulness; the stream still has to end it.
    pub fn invalidate(&mut self, id: CaptureId) {
        if let Some(capture) = self.captures.iter_mut().find(|capture| capture.id == id) {
            capture.valid = false;
        }
    }

    /// Calls that the driver's manual calls potentially unsafe fail while a capture goes on, depending on the modes of the
    /// capture and of the calling thread. Only with STUB_CAPTURE_STRICT.
    pub fn forbid_while_capturing(&mut self) -> Answer {
        if !settings::get().is_some_and(|settings| settings.strict_capture) || MODE.get() == RELAXED {
            return Ok(());
        }
        let (mode, thread) = (MODE.get(), log::thread());
        let harmed = self.captures.iter().find(|capture| {
            let own = capture.thread == thread && capture.mode != RELAXED;
            own || (mode == GLOBAL && capture.mode == GLOBAL)
        });
        match harmed.map(|capture| capture.id) {
            None => Ok(()),
            Some(id) => {
                self.invalidate(id);
                Err(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
        }
    }

    /// Adds work to a capture.
    pub fn capture_work(&mut self, id: CaptureId, work: Work) -> Answer {
        let capture =
            self.capture(id).filter(|capture| capture.valid).ok_or(Code::STREAM_CAPTURE_INVALIDATED)?;
        let graph = capture.graph;
        self.add_node(graph, work)
    }

    /// A stream that waits for an event of a capture becomes part of it.
    pub fn join_capture(&mut self, id: CaptureId, stream: Handle) -> Answer {
        self.capture(id).filter(|capture| capture.valid).ok_or(Code::STREAM_CAPTURE_INVALIDATED)?;
        self.streams.find_mut(stream)?.capture = Some(id);
        Ok(())
    }
}

fn begin(call: &Call, handle: Handle, mode: u32, graph: Option<Handle>) -> Answer {
    static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    if mode > RELAXED {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = state()?;
    let stream = state.stream(call, handle)?;
    let of_context = state.streams.find(stream)?.context;
    if state.contexts.find(of_context)?.legacy == stream {
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    if state.streams.find(stream)?.capture.is_some() {
        return Err(Code::ILLEGAL_STATE);
    }
    let graph = match graph {
        Some(graph) => state.graphs.find(graph).map(|_| graph)?,
        None => state.graphs.insert(Graph::default()),
    };
    let id = CaptureId(IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    state.captures.push(Capture { id, origin: stream, thread: log::thread(), mode, graph, valid: true });
    state.streams.find_mut(stream)?.capture = Some(id);
    call.note("capture", id.0);
    Ok(())
}

fn end(call: &Call, handle: Handle, out: *mut Handle) -> Answer {
    required(out)?;
    let mut state = state()?;
    let stream = state.stream(call, handle)?;
    let id = state.streams.find(stream)?.capture.ok_or(Code::ILLEGAL_STATE)?;
    let index = state.captures.iter().position(|capture| capture.id == id).ok_or(Code::ILLEGAL_STATE)?;
    let capture = &state.captures[index];
    if capture.origin != stream {
        return Err(Code::STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.thread != log::thread() {
        return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
    }
    let capture = state.captures.remove(index);
    let members: Vec<_> =
        state.streams.iter().filter(|(_, s)| s.capture == Some(id)).map(|(h, _)| h).collect();
    for member in members {
        state.streams.find_mut(member)?.capture = None;
    }
    if !capture.valid {
        state.destroy_graph(capture.graph)?;
        put(out, 0)?;
        return Err(Code::STREAM_CAPTURE_INVALIDATED);
    }
    call.note("made", format_args!("{:#x}", capture.graph));
    put(out, capture.graph)
}

/// Status, identifier and graph of the stream's capture.
fn info(call: &Call, handle: Handle) -> Answer<(u32, u64, Handle)> {
    let mut state = state()?;
    let stream = state.stream(call, handle)?;
    state.forbid_implicit(stream)?;
    Ok(match state.streams.find(stream)?.capture.and_then(|id| state.capture(id)) {
        None => (NONE, 0, 0),
        Some(Capture { valid: false, id, .. }) => (INVALIDATED, id.0, 0),
        Some(Capture { id, graph, .. }) => (ACTIVE, id.0, *graph),
    })
}

fn put_wanted<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() { Ok(()) } else { put(out, value) }
}

export! {
    cuStreamBeginCapture: [cuStreamBeginCapture 10000, cuStreamBeginCapture_ptsz 10000] (stream: Handle) |call| {
        begin(call, stream, GLOBAL, None)
    };
    cuStreamBeginCapture: [cuStreamBeginCapture_v2 10010, cuStreamBeginCapture_v2_ptsz 10010]
        (stream: Handle, mode: u32) |call| {
        begin(call, stream, mode, None)
    };
    cuStreamBeginCaptureToGraph: [cuStreamBeginCaptureToGraph 12030, cuStreamBeginCaptureToGraph_ptsz 12030]
        (stream: Handle, graph: Handle, _dependencies: *const Handle, _edges: *const u8, _count: u64, mode: u32) |call| {
        begin(call, stream, mode, Some(graph))
    };
    cuStreamEndCapture: [cuStreamEndCapture 10000, cuStreamEndCapture_ptsz 10000]
        (stream: Handle, out: *mut Handle) |call| {
        end(call, stream, out)
    };
    cuStreamIsCapturing: [cuStreamIsCapturing 10000, cuStreamIsCapturing_ptsz 10000]
        (stream: Handle, out: *mut u32) |call| {
        required(out)?;
        put(out, info(call, stream)?.0)
    };
    cuStreamGetCaptureInfo: [cuStreamGetCaptureInfo 10010, cuStreamGetCaptureInfo_ptsz 10010]
        (stream: Handle, status: *mut u32, id: *mut u64) |call| {
        required(status)?;
        let (now, number, _) = info(call, stream)?;
        put(status, now)?;
        put_wanted(id, number)
    };
    cuStreamGetCaptureInfo: [cuStreamGetCaptureInfo_v2 11030, cuStreamGetCaptureInfo_v2_ptsz 11030]
        (stream: Handle, status: *mut u32, id: *mut u64, graph: *mut Handle, dependencies: *mut usize, count: *mut u64)
        |call| {
        required(status)?;
        let (now, number, made) = info(call, stream)?;
        put(status, now)?;
        put_wanted(id, number)?;
        put_wanted(graph, made)?;
        put_wanted(dependencies, 0)?;
        put_wanted(count, 0)
    };
    cuStreamGetCaptureInfo: [cuStreamGetCaptureInfo_v3 12030, cuStreamGetCaptureInfo_v3_ptsz 12030]
        (stream: Handle, status: *mut u32, id: *mut u64, graph: *mut Handle, dependencies: *mut usize,
            edges: *mut usize, count: *mut u64) |call| {
        required(status)?;
        let (now, number, made) = info(call, stream)?;
        put(status, now)?;
        put_wanted(id, number)?;
        put_wanted(graph, made)?;
        put_wanted(dependencies, 0)?;
        put_wanted(edges, 0)?;
        put_wanted(count, 0)
    };
    cuStreamUpdateCaptureDependencies:
        [cuStreamUpdateCaptureDependencies 11030, cuStreamUpdateCaptureDependencies_ptsz 11030]
        (stream: Handle, _dependencies: *mut Handle, _count: u64, _flags: u32) |call| {
        if info(call, stream)?.0 == ACTIVE { Ok(()) } else { Err(Code::ILLEGAL_STATE) }
    };
    cuStreamUpdateCaptureDependencies:
        [cuStreamUpdateCaptureDependencies_v2 12030, cuStreamUpdateCaptureDependencies_v2_ptsz 12030]
        (stream: Handle, _dependencies: *mut Handle, _edges: *const u8, _count: u64, _flags: u32) |call| {
        if info(call, stream)?.0 == ACTIVE { Ok(()) } else { Err(Code::ILLEGAL_STATE) }
    };
    cuThreadExchangeStreamCaptureMode: [cuThreadExchangeStreamCaptureMode 10010] (mode: *mut u32) |_call| {
        required(mode)?;
        drop(state()?);
        // SAFETY: the caller promises a mode to read and to write.
        let wanted = unsafe { mode.read_unaligned() };
        if wanted > RELAXED {
            return Err(Code::INVALID_VALUE);
        }
        put(mode, MODE.replace(wanted))
    };
}
