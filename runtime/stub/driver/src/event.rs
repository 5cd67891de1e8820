//! Events.

use crate::call::Call;
use crate::capture::CaptureId;
use crate::context;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::state::{State, state};
use crate::stream::{self, Point};
use crate::time;
use crate::types::Handle;
use crate::work::Work;

/// CU_EVENT_DISABLE_TIMING.
const DISABLE_TIMING: u32 = 2;
/// All flags of an event: blocking sync, disable timing, interprocess.
const FLAGS: u32 = 7;

pub struct Event {
    pub context: Handle,
    flags: u32,
    /// Of the last record; none before the first.
    point: Option<Point>,
    /// The capture in which the event was last recorded.
    captured: Option<CaptureId>,
}

fn record(call: &Call, event: Handle, stream: Handle) -> Answer {
    let mut state = state()?;
    let stream = state.stream(call, stream)?;
    state.events.find(event)?;
    if let Some(id) = state.streams.find(stream)?.capture {
        state.capture_work(id, Work::Empty)?;
        let event = state.events.find_mut(event)?;
        event.captured = Some(id);
        return Ok(());
    }
    state.forbid_implicit(stream)?;
    let mut point = state.ready(stream)?;
    point.at = point.at.max(time::now());
    call.note("finish", point.at);
    let event = state.events.find_mut(event)?;
    event.point = Some(point);
    event.captured = None;
    Ok(())
}

fn wait_event(call: &Call, stream: Handle, event: Handle) -> Answer {
    let mut state = state()?;
    let stream = state.stream(call, stream)?;
    let Event { point, captured, .. } = state.events.find(event)?;
    let (point, captured) = (point.clone(), *captured);
    match (state.streams.find(stream)?.capture, captured) {
        (None, None) => {
            if let Some(point) = point {
                state.streams.find_mut(stream)?.end.join(&point);
            }
            Ok(())
        }
        (None, Some(id)) => state.join_capture(id, stream),
        (Some(own), Some(other)) if own == other => state.capture_work(own, Work::Empty),
        (Some(_), Some(_)) => Err(Code::STREAM_CAPTURE_MERGE),
        // An event from outside can't order what is only written down.
        (Some(id), None) => {
            state.invalidate(id);
            Err(Code::STREAM_CAPTURE_UNSUPPORTED)
        }
    }
}

/// The event's point, for a caller that queries it or waits for it.
fn awaited(state: &mut State, event: Handle) -> Answer<Option<Point>> {
    if let Some(id) = state.events.find(event)?.captured {
        state.invalidate(id);
        return Err(Code::CAPTURED_EVENT);
    }
    state.forbid_while_capturing()?;
    Ok(state.events.find(event)?.point.clone())
}

fn elapsed(out: *mut f32, from: Handle, to: Handle) -> Answer {
    required(out)?;
    let state = state()?;
    let mut times = [0; 2];
    for (time, event) in times.iter_mut().zip([from, to]) {
        let event = state.events.find(event)?;
        let point = event.point.as_ref().filter(|_| event.flags & DISABLE_TIMING == 0);
        let point = point.ok_or(Code::INVALID_HANDLE)?;
        if !point.reached(time::now()) {
            return Err(Code::NOT_READY);
        }
        *time = point.at;
    }
    // Times are a few days at most: exact in an f64.
    let milliseconds = (times[1] as f64 - times[0] as f64) / 1e6;
    put(out, milliseconds as f32)
}

export! {
    cuEventCreate: [cuEventCreate 2000] (out: *mut Handle, flags: u32) |call| {
        required(out)?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut state = state()?;
        let context = context::current(&state)?;
        let event = state.events.insert(Event { context, flags, point: None, captured: None });
        put(out, event)?;
        stream::note_made(call, out);
        Ok(())
    };
    cuEventDestroy: [cuEventDestroy 2000, cuEventDestroy_v2 4000] (event: Handle) |_call| {
        state()?.events.remove(event).map(drop)
    };
    cuEventRecord: [cuEventRecord 2000, cuEventRecord_ptsz 7000] (event: Handle, stream: Handle) |call| {
        record(call, event, stream)
    };
    cuEventRecordWithFlags: [cuEventRecordWithFlags 11010, cuEventRecordWithFlags_ptsz 11010]
        (event: Handle, stream: Handle, _flags: u32) |call| {
        record(call, event, stream)
    };
    cuStreamWaitEvent: [cuStreamWaitEvent 3020, cuStreamWaitEvent_ptsz 7000]
        (stream: Handle, event: Handle, _flags: u32) |call| {
        wait_event(call, stream, event)
    };
    cuEventQuery: [cuEventQuery 2000] (event: Handle) |_call| {
        let point = awaited(&mut *state()?, event)?;
        if point.is_none_or(|point| point.reached(time::now())) { Ok(()) } else { Err(Code::NOT_READY) }
    };
    cuEventSynchronize: [cuEventSynchronize 2000] (event: Handle) |_call| {
        let point = awaited(&mut *state()?, event)?;
        if let Some(point) = point {
            stream::wait(&point);
        }
        Ok(())
    };
    cuEventElapsedTime: [cuEventElapsedTime 2000, cuEventElapsedTime_v2 12080]
        (out: *mut f32, from: Handle, to: Handle) |_call| {
        elapsed(out, from, to)
    };
}
