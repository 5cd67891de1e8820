//! Streams: queues whose ends are known in advance, since a piece of work gets its start and end when it is enqueued.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::Call;
use crate::capture::CaptureId;
use crate::context;
use crate::device;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::host;
use crate::state::{State, state};
use crate::time;
use crate::types::{Handle, StreamCallback};

/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;
/// CU_STREAM_NON_BLOCKING.
pub const NON_BLOCKING: u32 = 1;
/// What an H200 answers.
pub const GREATEST_PRIORITY: i32 = -5;

/// Launches that a stream holds; the next one waits for the oldest to end. Measured on an H200, driver 580.
const QUEUE: usize = 1021;

/// While only a caller's host function is waited for, its end is unknown.
const POLL_NS: u64 = 50_000;

/// A point in a stream's queue: a time, and host functions that must have returned.
#[derive(Clone, Default)]
pub struct Point {
    pub at: u64,
    pub host: Vec<Arc<AtomicBool>>,
}

impl Point {
    pub fn reached(&self, now: u64) -> bool {
        self.at <= now && self.host.iter().all(|done| done.load(Ordering::Acquire))
    }

    /// The later of both.
    pub fn join(&mut self, other: &Self) {
        self.at = self.at.max(other.at);
        self.host.retain(|done| !done.load(Ordering::Acquire));
        for done in &other.host {
            if !done.load(Ordering::Acquire) && !self.host.iter().any(|known| Arc::ptr_eq(known, done)) {
                self.host.push(done.clone());
            }
        }
    }
}

/// Waits without the lock.
pub fn wait(point: &Point) {
    loop {
        let now = time::now();
        if point.reached(now) {
            return;
        }
        match point.at > now {
            true => time::sleep_towards(point.at, u64::MAX),
            false => time::sleep_towards(now + POLL_NS, POLL_NS),
        }
    }
}

pub struct Stream {
    pub context: Handle,
    pub flags: u32,
    priority: i32,
    id: u64,
    pub end: Point,
    pub capture: Option<CaptureId>,
    /// Ends of launches that may not be over.
    queue: VecDeque<u64>,
    /// A launch waits for room until then, and a query of the stream waits as long.
    held: u64,
}

impl Stream {
    pub fn new(context: Handle, flags: u32, priority: i32) -> Self {
        static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        let priority = priority.clamp(GREATEST_PRIORITY, 0);
        Self {
            context,
            flags,
            priority,
            id,
            end: Point::default(),
            capture: None,
            queue: VecDeque::new(),
            held: 0,
        }
    }
}

impl State {
    /// The stream that a caller's handle means.
    pub fn stream(&mut self, call: &Call, handle: Handle) -> Answer<Handle> {
        // A stream that was made knows its context; the others are the current context's.
        let stream = match handle {
            0 if call.per_thread => self.thread_stream(context::current(self)?)?,
            PER_THREAD => self.thread_stream(context::current(self)?)?,
            0 | LEGACY => self.contexts.find(context::current(self)?)?.legacy,
            other => self.streams.find(other).map(|_| other)?,
        };
        if call.logged() {
            call.note("on", format_args!("{stream:#x}"));
        }
        Ok(stream)
    }

    fn is_legacy(&self, stream: Handle) -> bool {
        let context = self.streams.get(stream).map(|stream| stream.context);
        context.and_then(|context| self.contexts.get(context)).is_some_and(|context| context.legacy == stream)
    }

    /// What must be over before new work in the stream may start. The legacy stream and the blocking ones wait for each
    /// other.
    pub fn ready(&self, stream: Handle) -> Answer<Point> {
        let this = self.streams.find(stream)?;
        let mut point = this.end.clone();
        if self.is_legacy(stream) {
            let others = self.streams.iter().map(|(_, other)| other);
            for other in others.filter(|o| o.context == this.context && o.flags & NON_BLOCKING == 0) {
                point.join(&other.end);
            }
        } else if this.flags & NON_BLOCKING == 0 {
            let legacy = self.contexts.find(this.context)?.legacy;
            point.join(&self.streams.find(legacy)?.end);
        }
        Ok(point)
    }

    /// Gives work of `duration` ns its place; returns its start and end.
    pub fn occupy(&mut self, stream: Handle, duration: u64) -> Answer<(u64, u64)> {
        let mut point = self.ready(stream)?;
        let start = device::reserve(point.at.max(time::now()), duration);
        point.at = start + duration;
        self.streams.find_mut(stream)?.end = point;
        Ok((start, start + duration))
    }

    /// Notes a launch that runs until `end`.
    pub fn queue(&mut self, stream: Handle, end: u64) -> Answer {
        self.streams.find_mut(stream)?.queue.push_back(end);
        Ok(())
    }

    /// When the stream has room for one more launch, if it has none.
    pub fn full_until(&mut self, stream: Handle) -> Answer<Option<u64>> {
        let stream = self.streams.find_mut(stream)?;
        let now = time::now();
        while stream.queue.front().is_some_and(|&end| end <= now) {
            stream.queue.pop_front();
        }
        let until = stream.queue.front().copied().filter(|_| stream.queue.len() >= QUEUE);
        if let Some(until) = until {
            stream.held = until;
        }
        Ok(until)
    }

    /// The end of all work of a context.
    pub fn context_point(&self, context: Handle) -> Point {
        let mut point =
            self.contexts.get(context).map_or_else(Point::default, |context| context.rest.clone());
        for (_, stream) in self.streams.iter().filter(|(_, stream)| stream.context == context) {
            point.join(&stream.end);
        }
        point
    }

    /// The stream's end, for a caller that queries it or waits for it: not allowed while it captures, nor on the legacy
    /// stream while a blocking one does.
    fn awaited(&mut self, stream: Handle) -> Answer<Point> {
        if let Some(id) = self.streams.find(stream)?.capture {
            self.invalidate(id);
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.forbid_implicit(stream)?;
        self.forbid_while_capturing()?;
        // A blocking stream without work of its own is done, whatever the legacy stream does.
        if self.is_legacy(stream) { self.ready(stream) } else { Ok(self.streams.find(stream)?.end.clone()) }
    }

    /// Work on the legacy stream would tie itself to a blocking stream's capture.
    pub fn forbid_implicit(&mut self, stream: Handle) -> Answer {
        if !self.is_legacy(stream) {
            return Ok(());
        }
        let context = self.streams.find(stream)?.context;
        let capturing = self
            .streams
            .iter()
            .filter(|(_, other)| other.context == context && other.flags & NON_BLOCKING == 0)
            .find_map(|(_, other)| other.capture);
        match capturing {
            None => Ok(()),
            Some(id) => {
                self.invalidate(id);
                Err(Code::STREAM_CAPTURE_IMPLICIT)
            }
        }
    }
}

fn create(out: *mut Handle, flags: u32, priority: i32) -> Answer {
    required(out)?;
    if flags & !NON_BLOCKING != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut state = state()?;
    let context = context::current(&state)?;
    let stream = state.streams.insert(Stream::new(context, flags, priority));
    put(out, stream)
}

/// A property of the stream.
fn property<T>(call: &Call, stream: Handle, out: *mut T, read: impl FnOnce(&Stream) -> T) -> Answer {
    required(out)?;
    let mut state = state()?;
    let stream = state.stream(call, stream)?;
    put(out, read(state.streams.find(stream)?))
}

export! {
    cuStreamCreate: [cuStreamCreate 2000] (out: *mut Handle, flags: u32) |call| {
        create(out, flags, 0)?;
        note_made(call, out);
        Ok(())
    };
    cuStreamCreateWithPriority: [cuStreamCreateWithPriority 5050] (out: *mut Handle, flags: u32, priority: i32) |call| {
        create(out, flags, priority)?;
        note_made(call, out);
        Ok(())
    };
    cuStreamDestroy: [cuStreamDestroy 2000, cuStreamDestroy_v2 4000] (stream: Handle) |_call| {
        if stream <= PER_THREAD {
            return Err(Code::INVALID_HANDLE);
        }
        let mut state = state()?;
        context::current(&state)?;
        // Its work goes on: who waits for the context waits for it.
        let gone = state.streams.remove(stream)?;
        if let Some(id) = gone.capture {
            state.invalidate(id);
        }
        state.contexts.find_mut(gone.context)?.rest.join(&gone.end);
        Ok(())
    };
    cuStreamSynchronize: [cuStreamSynchronize 2000, cuStreamSynchronize_ptsz 7000] (stream: Handle) |call| {
        let mut state = state()?;
        let stream = state.stream(call, stream)?;
        let point = state.awaited(stream)?;
        drop(state);
        wait(&point);
        Ok(())
    };
    cuStreamQuery: [cuStreamQuery 2000, cuStreamQuery_ptsz 7000] (stream: Handle) |call| {
        let mut state = state()?;
        let on = state.stream(call, stream)?;
        let held = state.streams.find(on)?.held;
        if held > time::now() {
            drop(state);
            time::sleep_towards(held, u64::MAX);
            state = self::state()?;
        }
        let point = state.awaited(on)?;
        if point.reached(time::now()) { Ok(()) } else { Err(Code::NOT_READY) }
    };
    cuStreamGetFlags: [cuStreamGetFlags 5050, cuStreamGetFlags_ptsz 7000] (stream: Handle, out: *mut u32) |call| {
        required(out)?;
        let mut state = state()?;
        let stream = state.stream(call, stream)?;
        // Not even this may be asked of a capturing stream, in any mode.
        state.forbid_capture(stream)?;
        put(out, state.streams.find(stream)?.flags)
    };
    cuStreamGetPriority: [cuStreamGetPriority 5050, cuStreamGetPriority_ptsz 7000]
        (stream: Handle, out: *mut i32) |call| {
        property(call, stream, out, |stream| stream.priority)
    };
    cuStreamGetId: [cuStreamGetId 12000, cuStreamGetId_ptsz 12000] (stream: Handle, out: *mut u64) |call| {
        property(call, stream, out, |stream| stream.id)
    };
    cuStreamGetCtx: [cuStreamGetCtx 9020, cuStreamGetCtx_ptsz 9020] (stream: Handle, out: *mut Handle) |call| {
        property(call, stream, out, |stream| stream.context)
    };
    cuStreamGetCtx: [cuStreamGetCtx_v2 12050, cuStreamGetCtx_v2_ptsz 12050]
        (stream: Handle, out: *mut Handle, green: *mut Handle) |call| {
        property(call, stream, out, |stream| stream.context)?;
        if green.is_null() { Ok(()) } else { put(green, 0) }
    };
    cuStreamGetDevice: [cuStreamGetDevice 12080, cuStreamGetDevice_ptsz 12080] (stream: Handle, out: *mut i32) |call| {
        property(call, stream, out, |_| 0)
    };
    cuStreamAddCallback: [cuStreamAddCallback 5000, cuStreamAddCallback_ptsz 7000]
        (stream: Handle, callback: StreamCallback, data: usize, flags: u32) |call| {
        let callback = callback.ok_or(Code::INVALID_VALUE)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = state()?;
        let on = state.stream(call, stream)?;
        if let Some(id) = state.streams.find(on)?.capture {
            state.invalidate(id);
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        host::enqueue(&mut state, on, host::Function::Callback { callback, stream, data })
    };
    cuStreamAttachMemAsync: [cuStreamAttachMemAsync 6000, cuStreamAttachMemAsync_ptsz 7000]
        (stream: Handle, _pointer: usize, _bytes: u64, _flags: u32) |call| {
        state()?.stream(call, stream).map(drop)
    };
}

/// The log shows the new handle.
pub fn note_made(call: &Call, out: *const Handle) {
    if call.logged() {
        // SAFETY: the call has just written a handle there.
        call.note("made", format_args!("{:#x}", unsafe { out.read_unaligned() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_waits_for_time_and_host_functions() {
        let done = Arc::new(AtomicBool::new(false));
        let mut point = Point { at: 10, host: vec![] };
        assert!(point.reached(10) && !point.reached(9));
        point.join(&Point { at: 5, host: vec![done.clone()] });
        point.join(&Point { at: 7, host: vec![done.clone()] });
        assert_eq!((point.at, point.host.len()), (10, 1));
        assert!(!point.reached(20));
        done.store(true, Ordering::Release);
        assert!(point.reached(20));
    }
}
