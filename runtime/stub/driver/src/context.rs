//! Contexts and the stack of them that each thread has.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::log;
use crate::state::{State, state};
use crate::stream::{self, Point, Stream};
use crate::types::Handle;

pub struct Context {
    id: u64,
    flags: u32,
    /// Retains of the primary context; one for another.
    references: u32,
    pub legacy: Handle,
    /// The end of what destroyed streams were given.
    pub rest: Point,
    pub per_thread: BTreeMap<i32, Handle>,
}

thread_local!(static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) });

/// The calling thread's context, if it still exists.
pub fn current(state: &State) -> Answer<Handle> {
    let top = STACK.with_borrow(|stack| stack.last().copied()).ok_or(Code::INVALID_CONTEXT)?;
    state.contexts.get(top).map(|_| top).ok_or(Code::INVALID_CONTEXT)
}

/// The context itself, or the current one for null.
fn given(state: &State, context: Handle) -> Answer<Handle> {
    if context == 0 {
        return current(state);
    }
    state.contexts.get(context).map(|_| context).ok_or(Code::INVALID_CONTEXT)
}

pub fn device_exists(device: i32) -> Answer {
    if device == 0 { Ok(()) } else { Err(Code::INVALID_DEVICE) }
}

fn create(state: &mut State, flags: u32) -> Handle {
    static IDS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let id = IDS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let context = state.contexts.insert(Context {
        id,
        flags,
        references: 1,
        legacy: 0,
        rest: Point::default(),
        per_thread: BTreeMap::new(),
    });
    let legacy = state.streams.insert(Stream::new(context, 0, 0));
    if let Some(made) = state.contexts.get_mut(context) {
        made.legacy = legacy;
    }
    context
}

/// Removes a context and all that belongs to it.
fn remove(state: &mut State, context: Handle) -> Answer {
    state.contexts.remove(context).map_err(|_| Code::INVALID_CONTEXT)?;
    let streams: Vec<_> =
        state.streams.iter().filter(|(_, s)| s.context == context).map(|(h, _)| h).collect();
    for stream in streams {
        state.streams.remove(stream)?;
    }
    let events: Vec<_> = state.events.iter().filter(|(_, e)| e.context == context).map(|(h, _)| h).collect();
    for event in events {
        state.events.remove(event)?;
    }
    let modules: Vec<_> =
        state.modules.iter().filter(|(_, m)| m.context == context).map(|(h, _)| h).collect();
    for module in modules {
        state.unload(module)?;
    }
    Ok(())
}

fn release_primary(state: &mut State) -> Answer {
    let context = state.primary.ok_or(Code::INVALID_CONTEXT)?;
    let references = &mut state.contexts.find_mut(context)?.references;
    *references -= 1;
    if *references == 0 {
        state.primary = None;
        remove(state, context)?;
    }
    Ok(())
}

fn create_current(out: *mut Handle, flags: u32, device: i32) -> Answer {
    required(out)?;
    device_exists(device)?;
    let mut state = state()?;
    let context = create(&mut state, flags);
    STACK.with_borrow_mut(|stack| stack.push(context));
    put(out, context)
}

fn synchronize(context: Handle) -> Answer {
    let mut state = state()?;
    state.forbid_while_capturing()?;
    let context = given(&state, context)?;
    // In every mode of capture and thread.
    let of_context = state.streams.iter().filter(|(_, stream)| stream.context == context);
    let capture = of_context.filter_map(|(_, stream)| stream.capture).next();
    if let Some(id) = capture {
        state.invalidate(id);
        return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
    }
    let point = state.context_point(context);
    drop(state);
    stream::wait(&point);
    Ok(())
}

export! {
    cuCtxCreate: [cuCtxCreate_v2 3020] (out: *mut Handle, flags: u32, device: i32) |_call| {
        create_current(out, flags, device)
    };
    cuCtxCreate: [cuCtxCreate_v3 11040]
        (out: *mut Handle, _affinity: *mut u8, _count: i32, flags: u32, device: i32) |_call| {
        create_current(out, flags, device)
    };
    cuCtxCreate: [cuCtxCreate_v4 12050] (out: *mut Handle, _parameters: *mut u8, flags: u32, device: i32) |_call| {
        create_current(out, flags, device)
    };
    cuCtxDestroy: [cuCtxDestroy 2000, cuCtxDestroy_v2 4000] (context: Handle) |_call| {
        let mut state = state()?;
        if state.primary == Some(context) {
            return Err(Code::INVALID_CONTEXT);
        }
        remove(&mut state, context)?;
        STACK.with_borrow_mut(|stack| stack.pop_if(|top| *top == context));
        Ok(())
    };
    cuCtxPushCurrent: [cuCtxPushCurrent 2000, cuCtxPushCurrent_v2 4000] (context: Handle) |_call| {
        if context == 0 || state()?.contexts.get(context).is_none() {
            return Err(Code::INVALID_CONTEXT);
        }
        STACK.with_borrow_mut(|stack| stack.push(context));
        Ok(())
    };
    cuCtxPopCurrent: [cuCtxPopCurrent 2000, cuCtxPopCurrent_v2 4000] (out: *mut Handle) |_call| {
        drop(state()?);
        let context = STACK.with_borrow_mut(Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
        if out.is_null() { Ok(()) } else { put(out, context) }
    };
    cuCtxSetCurrent: [cuCtxSetCurrent 4000] (context: Handle) |_call| {
        if context != 0 && state()?.contexts.get(context).is_none() {
            return Err(Code::INVALID_CONTEXT);
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if context != 0 {
                stack.push(context);
            }
        });
        Ok(())
    };
    cuCtxGetCurrent: [cuCtxGetCurrent 4000] (out: *mut Handle) |_call| {
        required(out)?;
        let state = state()?;
        put(out, current(&state).unwrap_or(0))
    };
    cuCtxGetDevice: [cuCtxGetDevice 2000] (out: *mut i32) |_call| {
        required(out)?;
        current(&*state()?)?;
        put(out, 0)
    };
    cuCtxGetDevice: [cuCtxGetDevice_v2 13000] (out: *mut i32, context: Handle) |_call| {
        required(out)?;
        given(&*state()?, context)?;
        put(out, 0)
    };
    cuCtxSynchronize: [cuCtxSynchronize 2000] () |_call| synchronize(0);
    cuCtxSynchronize: [cuCtxSynchronize_v2 13000] (context: Handle) |_call| synchronize(context);
    cuCtxGetFlags: [cuCtxGetFlags 7000] (out: *mut u32) |_call| {
        required(out)?;
        let state = state()?;
        put(out, state.contexts.find(current(&state)?)?.flags)
    };
    cuCtxSetFlags: [cuCtxSetFlags 12010] (flags: u32) |_call| {
        let mut state = state()?;
        let context = current(&state)?;
        state.contexts.find_mut(context)?.flags = flags;
        Ok(())
    };
    cuCtxGetId: [cuCtxGetId 12000] (context: Handle, out: *mut u64) |_call| {
        required(out)?;
        let state = state()?;
        put(out, state.contexts.find(given(&state, context)?)?.id)
    };
    cuCtxGetApiVersion: [cuCtxGetApiVersion 3020] (context: Handle, out: *mut u32) |_call| {
        required(out)?;
        given(&*state()?, context)?;
        put(out, 3020)
    };
    cuCtxGetStreamPriorityRange: [cuCtxGetStreamPriorityRange 5050] (least: *mut i32, greatest: *mut i32) |_call| {
        current(&*state()?)?;
        // Both may be null: then the caller doesn't want to know.
        if !least.is_null() {
            put(least, 0)?;
        }
        if !greatest.is_null() {
            put(greatest, stream::GREATEST_PRIORITY)?;
        }
        Ok(())
    };
    cuCtxSetLimit: [cuCtxSetLimit 3010] (_limit: u32, _value: u64) |_call| {
        current(&*state()?).map(drop)
    };
    cuCtxGetLimit: [cuCtxGetLimit 3010] (out: *mut u64, _limit: u32) |_call| {
        current(&*state()?)?;
        put(out, 0)
    };
    cuCtxSetCacheConfig: [cuCtxSetCacheConfig 3020] (_config: u32) |_call| {
        current(&*state()?).map(drop)
    };
    cuDevicePrimaryCtxRetain: [cuDevicePrimaryCtxRetain 7000] (out: *mut Handle, device: i32) |_call| {
        required(out)?;
        device_exists(device)?;
        let mut state = state()?;
        let context = match state.primary {
            Some(context) => {
                state.contexts.find_mut(context)?.references += 1;
                context
            }
            None => create(&mut state, 0),
        };
        state.primary = Some(context);
        put(out, context)
    };
    cuDevicePrimaryCtxRelease: [cuDevicePrimaryCtxRelease 7000, cuDevicePrimaryCtxRelease_v2 11000] (device: i32) |_call| {
        device_exists(device)?;
        release_primary(&mut *state()?)
    };
    cuDevicePrimaryCtxReset: [cuDevicePrimaryCtxReset 7000, cuDevicePrimaryCtxReset_v2 11000] (device: i32) |_call| {
        device_exists(device)?;
        let mut state = state()?;
        match state.primary.take() {
            Some(context) => remove(&mut state, context),
            None => Ok(()),
        }
    };
    cuDevicePrimaryCtxSetFlags: [cuDevicePrimaryCtxSetFlags 7000, cuDevicePrimaryCtxSetFlags_v2 11000]
        (device: i32, flags: u32) |_call| {
        device_exists(device)?;
        let mut state = state()?;
        if let Some(context) = state.primary {
            state.contexts.find_mut(context)?.flags = flags;
        }
        Ok(())
    };
    cuDevicePrimaryCtxGetState: [cuDevicePrimaryCtxGetState 7000] (device: i32, flags: *mut u32, active: *mut i32) |_call| {
        required(flags)?;
        required(active)?;
        device_exists(device)?;
        let state = state()?;
        let context = state.primary.and_then(|context| state.contexts.get(context));
        put(flags, context.map_or(0, |context| context.flags))?;
        put(active, i32::from(context.is_some()))
    };
}

impl State {
    /// The stream that stands for the calling thread in this context.
    pub fn thread_stream(&mut self, context: Handle) -> Answer<Handle> {
        let thread = log::thread();
        if let Some(&stream) = self.contexts.find(context)?.per_thread.get(&thread) {
            return Ok(stream);
        }
        let stream = self.streams.insert(Stream::new(context, 0, 0));
        self.contexts.find_mut(context)?.per_thread.insert(thread, stream);
        Ok(stream)
    }
}
