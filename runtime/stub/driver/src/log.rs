//! The log of calls: one line each, written with one system call when the call returns, so that the lines of several
//! processes don't mix and a killed process loses only the calls that it was in.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::Write as _;

use crate::time;
use crate::types::{HostFn, Status, StreamCallback};

/// `BEGIN_NS TID SYMBOL argument=value ...`; [`append`] adds what is known at the end.
pub struct Line {
    text: String,
}

impl Line {
    pub fn new(symbol: &str) -> Self {
        Self { text: format!("{} {} {symbol}", time::now(), thread()) }
    }

    pub fn argument(&mut self, name: &str, value: &impl Argument) {
        self.text.push(' ');
        self.text.push_str(name.trim_start_matches('_'));
        self.text.push('=');
        value.write(&mut self.text);
    }

    pub fn note(&mut self, name: &str, value: impl Display) {
        let value = value.to_string().replace(char::is_whitespace, "_");
        // A String takes whatever is written.
        let _ = write!(self.text, " {name}={value}");
    }
}

/// Writes the line to the file. An error is lost: the driver has nobody to tell it.
pub fn append(mut file: &File, mut line: Line, status: Status) {
    let _ = writeln!(line.text, " result={status} end={} pid={}", time::now(), std::process::id());
    let _ = file.write_all(line.text.as_bytes());
}

/// Number of the calling thread, as the kernel counts them.
pub fn thread() -> i32 {
    thread_local!(static THREAD: Cell<(u32, i32)> = const { Cell::new((0, 0)) });
    // After a fork the only thread of the child has another number.
    let process = std::process::id();
    let (known, thread) = THREAD.get();
    if known == process {
        return thread;
    }
    // SAFETY: gettid has no preconditions.
    let thread = unsafe { libc::gettid() };
    THREAD.set((process, thread));
    thread
}

/// An argument as the log shows it: handles and addresses in hexadecimal, numbers in decimal.
pub trait Argument {
    fn write(&self, text: &mut String);
}

macro_rules! numbers {
    ($($type:ty),*) => {$(impl Argument for $type {
        fn write(&self, text: &mut String) {
            let _ = write!(text, "{self}");
        }
    })*};
}
numbers!(u8, u16, i32, u32, u64, f32);

impl Argument for usize {
    fn write(&self, text: &mut String) {
        let _ = write!(text, "{self:#x}");
    }
}

impl<T> Argument for *const T {
    fn write(&self, text: &mut String) {
        (*self as usize).write(text);
    }
}

impl<T> Argument for *mut T {
    fn write(&self, text: &mut String) {
        (*self as usize).write(text);
    }
}

impl Argument for HostFn {
    fn write(&self, text: &mut String) {
        self.map_or(0, |f: unsafe extern "C" fn(*mut c_void)| f as usize).write(text);
    }
}

impl Argument for StreamCallback {
    fn write(&self, text: &mut String) {
        self.map_or(0, |f| f as usize).write(text);
    }
}

/// The text at `pointer`, for notes and look-ups.
pub fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller of the driver's function promises a text that ends with a zero.
    Some(unsafe { std::ffi::CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
