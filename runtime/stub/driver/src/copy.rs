//! Copies. They take effect when they are called; their time on the device is that of `memcpy` in STUB_DURATION_US.

use std::ffi::c_void;
use std::sync::Arc;

use crate::call::Call;
use crate::entry::export;
use crate::error::{Answer, Code, required};
use crate::state::state;
use crate::stream;
use crate::types::{DevicePtr, Handle, Memcpy2d, Memcpy3d, Side3d};
use crate::work::Work;

/// CUmemorytype.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

/// Which sides must lie in device memory.
#[derive(Clone, Copy)]
struct Device {
    target: bool,
    source: bool,
}
const TO_DEVICE: Device = Device { target: true, source: false };
const FROM_DEVICE: Device = Device { target: false, source: true };
const WITHIN: Device = Device { target: true, source: true };
const ANY: Device = Device { target: false, source: false };

/// Bytes that go from one address to another.
#[derive(Clone, Copy)]
pub struct Linear {
    pub target: usize,
    pub source: usize,
    pub bytes: usize,
}

/// `stream` is none for a synchronous copy, which uses the default stream and waits.
fn copy(call: &Call, parts: Vec<Linear>, device: Device, stream: Option<Handle>) -> Answer {
    let mut state = state()?;
    let on = state.stream(call, stream.unwrap_or(0))?;
    let parts: Vec<_> = parts.into_iter().filter(|part| part.bytes > 0).collect();
    for &Linear { target, source, bytes } in &parts {
        if target == 0 || source == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if device.target {
            state.memory.check(target, bytes)?;
        }
        if device.source {
            state.memory.check(source, bytes)?;
        }
    }
    if stream.is_none() {
        state.forbid_implicit(on)?;
        state.forbid_while_capturing()?;
        state.forbid_capture(on)?;
    }
    let effect = Arc::new(move || {
        for &Linear { target, source, bytes } in &parts {
            // SAFETY: device sides were checked against the allocations, host sides are promised by the caller.
            unsafe { std::ptr::copy(source as *const u8, target as *mut u8, bytes) };
        }
    });
    state.enqueue(call, on, Work::Copy(effect))?;
    if stream.is_none() {
        let point = state.ready(on)?;
        drop(state);
        stream::wait(&point);
    }
    Ok(())
}

/// Several copies as one piece of work.
pub fn batch(call: &Call, parts: Vec<Linear>, stream: Handle) -> Answer {
    copy(call, parts, ANY, Some(stream))
}

fn linear(
    call: &Call,
    target: usize,
    source: usize,
    bytes: u64,
    device: Device,
    stream: Option<Handle>,
) -> Answer {
    copy(call, vec![Linear { target, source, bytes: bytes as usize }], device, stream)
}

/// Address of a side's first byte, and the distances of its rows and layers. Arrays don't exist here.
fn base(side: &Side3d) -> Answer<(usize, usize, usize)> {
    let address = match side.kind {
        HOST => side.host,
        DEVICE | UNIFIED => side.device,
        _ => return Err(Code::NOT_SUPPORTED),
    };
    let layer = side.pitch.wrapping_mul(side.height);
    let offset =
        side.z.wrapping_mul(layer).wrapping_add(side.y.wrapping_mul(side.pitch)).wrapping_add(side.x);
    Ok((if address == 0 { 0 } else { address.wrapping_add(offset) }, side.pitch, layer))
}

fn copy_3d(call: &Call, copy_of: &Memcpy3d, stream: Option<Handle>) -> Answer {
    let Memcpy3d { source, target, width, height, depth } = copy_of;
    let (from, from_row, from_layer) = base(source)?;
    let (to, to_row, to_layer) = base(target)?;
    let place = |base: usize, row: usize, layer: usize, y: usize, z: usize| match base {
        0 => 0,
        _ => base.wrapping_add(y.wrapping_mul(row)).wrapping_add(z.wrapping_mul(layer)),
    };
    let rows = (0..*depth).flat_map(|z| (0..*height).map(move |y| (y, z))).map(|(y, z)| Linear {
        target: place(to, to_row, to_layer, y, z),
        source: place(from, from_row, from_layer, y, z),
        bytes: *width,
    });
    let device = Device { target: target.kind == DEVICE, source: source.kind == DEVICE };
    copy(call, rows.collect(), device, stream)
}

fn copy_2d(call: &Call, copy_of: *const Memcpy2d, stream: Option<Handle>) -> Answer {
    required(copy_of)?;
    // SAFETY: the caller promises a description.
    let Memcpy2d { source, target, width, height } = unsafe { copy_of.read_unaligned() };
    let [source, target] = [source, target].map(|side| Side3d {
        x: side.x,
        y: side.y,
        z: 0,
        lod: 0,
        kind: side.kind,
        host: side.host,
        device: side.device,
        array: side.array,
        context: 0,
        // 0 means tight rows.
        pitch: if side.pitch == 0 { width } else { side.pitch },
        height,
    });
    copy_3d(call, &Memcpy3d { source, target, width, height, depth: 1 }, stream)
}

fn copy_3d_at(call: &Call, copy_of: *const Memcpy3d, stream: Option<Handle>) -> Answer {
    required(copy_of)?;
    // SAFETY: the caller promises a description.
    copy_3d(call, &unsafe { copy_of.read_unaligned() }, stream)
}

export! {
    cuMemcpy: [cuMemcpy 4000, cuMemcpy_ptds 7000] (target: DevicePtr, source: DevicePtr, bytes: u64) |call| {
        linear(call, target, source, bytes, ANY, None)
    };
    cuMemcpyAsync: [cuMemcpyAsync 4000, cuMemcpyAsync_ptsz 7000]
        (target: DevicePtr, source: DevicePtr, bytes: u64, stream: Handle) |call| {
        linear(call, target, source, bytes, ANY, Some(stream))
    };
    cuMemcpyHtoD: [cuMemcpyHtoD_v2 3020, cuMemcpyHtoD_v2_ptds 7000]
        (target: DevicePtr, source: *const c_void, bytes: u64) |call| {
        linear(call, target, source as usize, bytes, TO_DEVICE, None)
    };
    cuMemcpyDtoH: [cuMemcpyDtoH_v2 3020, cuMemcpyDtoH_v2_ptds 7000]
        (target: *mut c_void, source: DevicePtr, bytes: u64) |call| {
        linear(call, target as usize, source, bytes, FROM_DEVICE, None)
    };
    cuMemcpyDtoD: [cuMemcpyDtoD_v2 3020, cuMemcpyDtoD_v2_ptds 7000]
        (target: DevicePtr, source: DevicePtr, bytes: u64) |call| {
        linear(call, target, source, bytes, WITHIN, None)
    };
    cuMemcpyHtoDAsync: [cuMemcpyHtoDAsync_v2 3020, cuMemcpyHtoDAsync_v2_ptsz 7000]
        (target: DevicePtr, source: *const c_void, bytes: u64, stream: Handle) |call| {
        linear(call, target, source as usize, bytes, TO_DEVICE, Some(stream))
    };
    cuMemcpyDtoHAsync: [cuMemcpyDtoHAsync_v2 3020, cuMemcpyDtoHAsync_v2_ptsz 7000]
        (target: *mut c_void, source: DevicePtr, bytes: u64, stream: Handle) |call| {
        linear(call, target as usize, source, bytes, FROM_DEVICE, Some(stream))
    };
    cuMemcpyDtoDAsync: [cuMemcpyDtoDAsync_v2 3020, cuMemcpyDtoDAsync_v2_ptsz 7000]
        (target: DevicePtr, source: DevicePtr, bytes: u64, stream: Handle) |call| {
        linear(call, target, source, bytes, WITHIN, Some(stream))
    };
    cuMemcpyPeer: [cuMemcpyPeer 4000, cuMemcpyPeer_ptds 7000]
        (target: DevicePtr, _to: Handle, source: DevicePtr, _from: Handle, bytes: u64) |call| {
        linear(call, target, source, bytes, WITHIN, None)
    };
    cuMemcpyPeerAsync: [cuMemcpyPeerAsync 4000, cuMemcpyPeerAsync_ptsz 7000]
        (target: DevicePtr, _to: Handle, source: DevicePtr, _from: Handle, bytes: u64, stream: Handle) |call| {
        linear(call, target, source, bytes, WITHIN, Some(stream))
    };
    cuMemcpy2D: [cuMemcpy2D_v2 3020, cuMemcpy2D_v2_ptds 7000] (copy: *const Memcpy2d) |call| {
        copy_2d(call, copy, None)
    };
    cuMemcpy2DUnaligned: [cuMemcpy2DUnaligned_v2 3020, cuMemcpy2DUnaligned_v2_ptds 7000] (copy: *const Memcpy2d) |call| {
        copy_2d(call, copy, None)
    };
    cuMemcpy2DAsync: [cuMemcpy2DAsync_v2 3020, cuMemcpy2DAsync_v2_ptsz 7000]
        (copy: *const Memcpy2d, stream: Handle) |call| {
        copy_2d(call, copy, Some(stream))
    };
    cuMemcpy3D: [cuMemcpy3D_v2 3020, cuMemcpy3D_v2_ptds 7000] (copy: *const Memcpy3d) |call| {
        copy_3d_at(call, copy, None)
    };
    cuMemcpy3DAsync: [cuMemcpy3DAsync_v2 3020, cuMemcpy3DAsync_v2_ptsz 7000]
        (copy: *const Memcpy3d, stream: Handle) |call| {
        copy_3d_at(call, copy, Some(stream))
    };
    cuMemcpy3DPeer: [cuMemcpy3DPeer 4000, cuMemcpy3DPeer_ptds 7000] (copy: *const Memcpy3d) |call| {
        copy_3d_at(call, copy, None)
    };
    cuMemcpy3DPeerAsync: [cuMemcpy3DPeerAsync 4000, cuMemcpy3DPeerAsync_ptsz 7000]
        (copy: *const Memcpy3d, stream: Handle) |call| {
        copy_3d_at(call, copy, Some(stream))
    };
}
