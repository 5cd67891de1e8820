//! Memsets, in the forms of one, two and four bytes, linear and in rows.

use std::sync::Arc;

use crate::call::Call;
use crate::entry::export;
use crate::error::{Answer, Code};
use crate::state::state;
use crate::types::{DevicePtr, Handle};
use crate::work::Work;

/// Writes `width` values in each of `height` rows that are `pitch` bytes apart.
#[derive(Clone, Copy)]
struct Fill {
    target: DevicePtr,
    pitch: u64,
    width: u64,
    height: u64,
}

fn row(target: DevicePtr, count: u64) -> Fill {
    Fill { target, pitch: 0, width: count, height: 1 }
}

/// A memset is asynchronous for the host in every form, as the driver's manual says of device memory; the forms without
/// a stream use the default stream.
fn fill<T: Copy + Send + Sync + 'static>(
    call: &Call,
    fill: Fill,
    value: T,
    stream: Option<Handle>,
) -> Answer {
    let mut state = state()?;
    let on = state.stream(call, stream.unwrap_or(0))?;
    let Fill { target, pitch, width, height } = fill;
    let bytes = (width as usize).checked_mul(size_of::<T>()).ok_or(Code::INVALID_VALUE)?;
    if bytes > 0 && height > 0 {
        if !target.is_multiple_of(size_of::<T>()) || (height > 1 && (pitch as usize) < bytes) {
            return Err(Code::INVALID_VALUE);
        }
        let rows = (pitch as usize).checked_mul(height as usize - 1).ok_or(Code::INVALID_VALUE)?;
        state.memory.check(target, rows.checked_add(bytes).ok_or(Code::INVALID_VALUE)?)?;
    }
    if stream.is_none() {
        state.forbid_while_capturing()?;
        state.forbid_capture(on)?;
    }
    let effect = Arc::new(move || {
        for y in 0..height as usize {
            let start = (target + y * pitch as usize) as *mut T;
            for x in 0..width as usize {
                // SAFETY: checked against the allocations above.
                unsafe { start.add(x).write_unaligned(value) };
            }
        }
    });
    state.enqueue(call, on, Work::Fill(effect)).map(drop)
}

export! {
    cuMemsetD8: [cuMemsetD8_v2 3020, cuMemsetD8_v2_ptds 7000] (target: DevicePtr, value: u8, count: u64) |call| {
        fill(call, row(target, count), value, None)
    };
    cuMemsetD16: [cuMemsetD16_v2 3020, cuMemsetD16_v2_ptds 7000] (target: DevicePtr, value: u16, count: u64) |call| {
        fill(call, row(target, count), value, None)
    };
    cuMemsetD32: [cuMemsetD32_v2 3020, cuMemsetD32_v2_ptds 7000] (target: DevicePtr, value: u32, count: u64) |call| {
        fill(call, row(target, count), value, None)
    };
    cuMemsetD8Async: [cuMemsetD8Async 3020, cuMemsetD8Async_ptsz 7000]
        (target: DevicePtr, value: u8, count: u64, stream: Handle) |call| {
        fill(call, row(target, count), value, Some(stream))
    };
    cuMemsetD16Async: [cuMemsetD16Async 3020, cuMemsetD16Async_ptsz 7000]
        (target: DevicePtr, value: u16, count: u64, stream: Handle) |call| {
        fill(call, row(target, count), value, Some(stream))
    };
    cuMemsetD32Async: [cuMemsetD32Async 3020, cuMemsetD32Async_ptsz 7000]
        (target: DevicePtr, value: u32, count: u64, stream: Handle) |call| {
        fill(call, row(target, count), value, Some(stream))
    };
    cuMemsetD2D8: [cuMemsetD2D8_v2 3020, cuMemsetD2D8_v2_ptds 7000]
        (target: DevicePtr, pitch: u64, value: u8, width: u64, height: u64) |call| {
        fill(call, Fill { target, pitch, width, height }, value, None)
    };
    cuMemsetD2D16: [cuMemsetD2D16_v2 3020, cuMemsetD2D16_v2_ptds 7000]
        (target: DevicePtr, pitch: u64, value: u16, width: u64, height: u64) |call| {
        fill(call, Fill { target, pitch, width, height }, value, None)
    };
    cuMemsetD2D32: [cuMemsetD2D32_v2 3020, cuMemsetD2D32_v2_ptds 7000]
        (target: DevicePtr, pitch: u64, value: u32, width: u64, height: u64) |call| {
        fill(call, Fill { target, pitch, width, height }, value, None)
    };
    cuMemsetD2D8Async: [cuMemsetD2D8Async 3020, cuMemsetD2D8Async_ptsz 7000]
        (target: DevicePtr, pitch: u64, value: u8, width: u64, height: u64, stream: Handle) |call| {
        fill(call, Fill { target, pitch, width, height }, value, Some(stream))
    };
    cuMemsetD2D16Async: [cuMemsetD2D16Async 3020, cuMemsetD2D16Async_ptsz 7000]
        (target: DevicePtr, pitch: u64, value: u16, width: u64, height: u64, stream: Handle) |call| {
        fill(call, Fill { target, pitch, width, height }, value, Some(stream))
    };
    cuMemsetD2D32Async: [cuMemsetD2D32Async 3020, cuMemsetD2D32Async_ptsz 7000]
        (target: DevicePtr, pitch: u64, value: u32, width: u64, height: u64, stream: Handle) |call| {
        fill(call, Fill { target, pitch, width, height }, value, Some(stream))
    };
}
