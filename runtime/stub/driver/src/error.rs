//! Status codes of the driver.

use std::ffi::{CStr, c_char};

use crate::entry::export;
use crate::types::Status;

/// A status other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub Status);

/// What every call's body gives.
pub type Answer<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $value:literal, $symbol:literal;)*) => {
        impl Code { $(pub const $name: Code = Code($value);)* }
        fn symbol(status: Status) -> Option<&'static CStr> {
            match status {
                0 => Some(c"CUDA_SUCCESS"),
                $($value => Some($symbol),)*
                _ => None,
            }
        }
    };
}

codes! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT";
    FILE_NOT_FOUND = 301, c"CUDA_ERROR_FILE_NOT_FOUND";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE";
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE";
    STREAM_CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    STREAM_CAPTURE_INVALIDATED = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    STREAM_CAPTURE_MERGE = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE";
    STREAM_CAPTURE_UNMATCHED = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED";
    STREAM_CAPTURE_IMPLICIT = 906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT";
    CAPTURED_EVENT = 907, c"CUDA_ERROR_CAPTURED_EVENT";
    STREAM_CAPTURE_WRONG_THREAD = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN";
}

/// Writes through an out-pointer; a null one is an invalid value, as for most functions of the driver.
pub fn put<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller of the driver's function promises that a pointer which isn't null can be written.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Checks an out-pointer before anything is made.
pub fn required<T>(pointer: *const T) -> Answer {
    if pointer.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }
}

export! {
    cuGetErrorName: [cuGetErrorName 6000] (status: i32, out: *mut *const c_char) |_call| {
        let name = symbol(status).ok_or(Code::INVALID_VALUE)?;
        put(out, name.as_ptr())
    };
    cuGetErrorString: [cuGetErrorString 6000] (status: i32, out: *mut *const c_char) |_call| {
        let name = symbol(status).ok_or(Code::INVALID_VALUE)?;
        put(out, name.as_ptr())
    };
}
