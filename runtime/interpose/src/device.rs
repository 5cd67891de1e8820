//! The few driver calls that scheduling needs, behind a trait so that its tests need no driver.
//!
//! All of them go to the driver behind the wrappers. None is made while a lock of ours is held.

use crate::driver;
use crate::types::*;

/// `CU_EVENT_DISABLE_TIMING`: the cheapest kind of event.
const DISABLE_TIMING: c_uint = 2;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: calls of this thread do not break captures of other threads.
const RELAXED: c_uint = 2;

/// The answer to a question about a stream or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    Running,
    /// The handle is not valid any more, or the context is broken: nothing will ever tell.
    Lost,
}

fn progress(result: CUresult) -> Progress {
    match result {
        CUresult::SUCCESS => Progress::Done,
        CUresult::NOT_READY => Progress::Running,
        _ => Progress::Lost,
    }
}

/// What scheduling asks of a CUDA driver.
pub trait Device: Send + Sync {
    /// The calling thread's context; null if it has none.
    fn context(&self) -> CUcontext;
    /// Runs `body` with this context current, and this thread's calls harmless to captures of other threads.
    fn within<R>(&self, context: CUcontext, body: impl FnOnce() -> R) -> R;
    /// Whether a stream is being captured. Asking breaks nothing.
    fn is_capturing(&self, stream: CUstream) -> bool;
    /// Whether the stream does not wait for the legacy default stream.
    fn is_non_blocking(&self, stream: CUstream) -> bool;
    fn query_stream(&self, stream: CUstream) -> Progress;
    /// An event of the current context; `None` if the driver refuses.
    fn create_event(&self, timed: bool) -> Option<CUevent>;
    fn destroy_event(&self, event: CUevent);
    /// Whether the driver took it.
    fn record_event(&self, event: CUevent, stream: CUstream) -> bool;
    fn query_event(&self, event: CUevent) -> Progress;
    /// Between two timed events that are done, ns.
    fn elapsed_ns(&self, from: CUevent, to: CUevent) -> Option<u64>;
    /// Waits for all of the current context.
    fn synchronize(&self) -> bool;
}

/// The real driver.
#[derive(Clone, Copy, Debug)]
pub struct Cuda;

// SAFETY (of all blocks): out-parameters are locals; handles come from the driver or from the program, which may pass a
// dead one no less to the driver itself, and the driver answers with an error.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, above")]
impl Device for Cuda {
    fn context(&self) -> CUcontext {
        let mut context = CUcontext::NULL;
        unsafe { driver::cuCtxGetCurrent(&raw mut context) };
        context
    }

    fn within<R>(&self, context: CUcontext, body: impl FnOnce() -> R) -> R {
        let pushed =
            self.context() != context && unsafe { driver::cuCtxPushCurrent_v2(context) }.is_success();
        let mut mode = RELAXED;
        let exchanged = unsafe { driver::cuThreadExchangeStreamCaptureMode(&raw mut mode) }.is_success();
        let result = body();
        if exchanged {
            unsafe { driver::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        }
        if pushed {
            let mut popped = CUcontext::NULL;
            unsafe { driver::cuCtxPopCurrent_v2(&raw mut popped) };
        }
        result
    }

    fn is_capturing(&self, stream: CUstream) -> bool {
        let mut status = 0;
        unsafe { driver::cuStreamIsCapturing(stream, &raw mut status) }.is_success() && status != 0
    }

    fn is_non_blocking(&self, stream: CUstream) -> bool {
        let mut flags = 0;
        unsafe { driver::cuStreamGetFlags(stream, &raw mut flags) }.is_success() && flags & NON_BLOCKING != 0
    }

    fn query_stream(&self, stream: CUstream) -> Progress {
        progress(unsafe { driver::cuStreamQuery(stream) })
    }

    fn create_event(&self, timed: bool) -> Option<CUevent> {
        let mut event = CUevent::NULL;
        let flags = if timed { 0 } else { DISABLE_TIMING };
        unsafe { driver::cuEventCreate(&raw mut event, flags) }.is_success().then_some(event)
    }

    fn destroy_event(&self, event: CUevent) {
        unsafe { driver::cuEventDestroy_v2(event) };
    }

    fn record_event(&self, event: CUevent, stream: CUstream) -> bool {
        unsafe { driver::cuEventRecord(event, stream) }.is_success()
    }

    fn query_event(&self, event: CUevent) -> Progress {
        progress(unsafe { driver::cuEventQuery(event) })
    }

    fn elapsed_ns(&self, from: CUevent, to: CUevent) -> Option<u64> {
        let mut milliseconds = 0.0_f32;
        let known = unsafe { driver::cuEventElapsedTime(&raw mut milliseconds, from, to) }.is_success();
        known.then(|| ((f64::from(milliseconds) * 1e6) as u64).max(1))
    }

    fn synchronize(&self) -> bool {
        let function = driver::real(hooks::Hook::cuCtxSynchronize);
        function.is_some_and(|function| {
            let function: unsafe extern "C" fn() -> CUresult = unsafe { std::mem::transmute(function) };
            unsafe { function() }.is_success()
        })
    }
}
