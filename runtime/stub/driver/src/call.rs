//! What happens around the body of every exported function: wished failures, the log, and that no panic leaves.

use std::cell::RefCell;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::entry;
use crate::error::{Answer, Code};
use crate::log::{self, Line};
use crate::settings;
use crate::types::Status;

/// The call that a body is carrying out.
pub struct Call {
    /// Does stream 0 mean the calling thread's own default stream?
    pub per_thread: bool,
    line: RefCell<Option<Line>>,
}

impl Call {
    /// Adds to the log line what the arguments don't show.
    pub fn note(&self, name: &str, value: impl Display) {
        if let Some(line) = self.line.borrow_mut().as_mut() {
            line.note(name, value);
        }
    }

    /// Is there a log? Saves the making of costly notes.
    pub fn logged(&self) -> bool {
        self.line.borrow().is_some()
    }
}

/// Carries out one call.
pub fn run(
    symbol: &'static str,
    arguments: impl FnOnce(&mut Line),
    body: impl FnOnce(&Call) -> Answer,
) -> Status {
    let Some(settings) = settings::get() else { return Code::UNKNOWN.0 };
    let line = settings.log.as_ref().map(|_| {
        let mut line = Line::new(symbol);
        arguments(&mut line);
        line
    });
    let call = Call { per_thread: entry::per_thread(symbol), line: RefCell::new(line) };
    let answer = match settings.failure(symbol) {
        Some(code) => Err(code),
        None => catch_unwind(AssertUnwindSafe(|| body(&call))).unwrap_or(Err(Code::UNKNOWN)),
    };
    let status = answer.map_or_else(|code| code.0, |()| 0);
    if let (Some(file), Some(line)) = (&settings.log, call.line.into_inner()) {
        log::append(file, line, status);
    }
    status
}
