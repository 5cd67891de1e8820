//! Host functions: called by a thread of ours, in the order of their times, without the lock.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::entry::export;
use crate::error::{Answer, Code};
use crate::state::{State, state};
use crate::stream::{self, Point};
use crate::types::{Handle, HostFn, Status};
use crate::work::Work;

/// What is called.
#[derive(Clone)]
pub enum Function {
    Plain { function: unsafe extern "C" fn(*mut c_void), data: usize },
    Callback { callback: unsafe extern "C" fn(Handle, Status, *mut c_void), stream: Handle, data: usize },
}

impl Function {
    fn call(&self) {
        match *self {
            // SAFETY: whoever enqueued the function promised that it may be called with this argument, once per run.
            Self::Plain { function, data } => unsafe { function(data as *mut c_void) },
            // SAFETY: as above.
            Self::Callback { callback, stream, data } => unsafe { callback(stream, 0, data as *mut c_void) },
        }
    }
}

struct Entry {
    after: Point,
    function: Function,
    done: Arc<AtomicBool>,
}

struct Queue {
    entries: Vec<Entry>,
    started: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { entries: Vec::new(), started: false });
static ADDED: Condvar = Condvar::new();

/// Calls the function once all that is now in the stream is over; what is enqueued later waits for it.
pub fn enqueue(state: &mut State, stream: Handle, function: Function) -> Answer {
    let (_, at) = state.occupy(stream, 0)?;
    let after = Point { at, ..state.streams.find(stream)?.end.clone() };
    let done = Arc::new(AtomicBool::new(false));
    state.streams.find_mut(stream)?.end.host.push(done.clone());
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    queue.entries.push(Entry { after, function, done });
    if !queue.started {
        let thread = std::thread::Builder::new().name("stub-host".to_owned()).spawn(serve);
        queue.started = thread.map_err(|_| Code::UNKNOWN).is_ok();
    }
    ADDED.notify_one();
    Ok(())
}

fn serve() {
    loop {
        let entry = {
            let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let earliest = queue.entries.iter().enumerate().min_by_key(|(_, entry)| entry.after.at);
                match earliest.map(|(index, _)| index) {
                    Some(index) => break queue.entries.remove(index),
                    None => queue = ADDED.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            }
        };
        stream::wait(&entry.after);
        entry.function.call();
        entry.done.store(true, Ordering::Release);
    }
}

export! {
    cuLaunchHostFunc: [cuLaunchHostFunc 10000, cuLaunchHostFunc_ptsz 10000]
        (stream: Handle, function: HostFn, data: usize) |call| {
        let function = function.ok_or(Code::INVALID_VALUE)?;
        let mut state = state()?;
        let stream = state.stream(call, stream)?;
        state.enqueue(call, stream, Work::Host(Function::Plain { function, data })).map(drop)
    };
}
