//! Entry points that give the device work and that programs seldom use.

use std::sync::Arc;

use crate::call::Call;
use crate::copy::{self, Linear};
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::launch;
use crate::state::state;
use crate::types::{DevicePtr, Handle};
use crate::work::Work;

/// `CUmemLocation`: type and identifier.
type Location = u64;

/// Moves nothing: there is one memory.
fn prefetch(call: &Call, address: DevicePtr, bytes: u64, stream: Handle) -> Answer {
    let mut state = state()?;
    let stream = state.stream(call, stream)?;
    state.memory.check(address, bytes as usize)?;
    state.enqueue(call, stream, Work::Copy(Arc::new(|| ()))).map(drop)
}

/// Arrays of `count` targets, sources and sizes.
fn batch(
    call: &Call,
    targets: *const DevicePtr,
    sources: *const DevicePtr,
    sizes: *const u64,
    count: u64,
    stream: Handle,
) -> Answer {
    if count == 0 {
        return Err(Code::INVALID_VALUE);
    }
    required(targets)?;
    required(sources)?;
    required(sizes)?;
    let copies = (0..count as usize).map(|index| {
        // SAFETY: the caller promises `count` entries in each array.
        unsafe {
            Linear {
                target: targets.add(index).read_unaligned(),
                source: sources.add(index).read_unaligned(),
                bytes: sizes.add(index).read_unaligned() as usize,
            }
        }
    });
    copy::batch(call, copies.collect(), stream)
}

fn write_value<T: Send + Sync + Copy + 'static>(
    call: &Call,
    stream: Handle,
    address: DevicePtr,
    value: T,
) -> Answer {
    let mut state = state()?;
    let stream = state.stream(call, stream)?;
    state.memory.check(address, size_of::<T>())?;
    // SAFETY: checked just now.
    let effect = Arc::new(move || unsafe { (address as *mut T).write_unaligned(value) });
    state.enqueue(call, stream, Work::Fill(effect)).map(drop)
}

/// The graph's work takes the place of the executable graph's; no topology is compared.
fn update(exec: Handle, graph: Handle) -> Answer {
    let mut state = state()?;
    let work = state.graph_work(graph)?;
    state.execs.find_mut(exec)?.set_work(work);
    Ok(())
}

export! {
    cuMemPrefetchAsync: [cuMemPrefetchAsync 8000, cuMemPrefetchAsync_ptsz 8000]
        (address: DevicePtr, bytes: u64, _device: i32, stream: Handle) |call| {
        prefetch(call, address, bytes, stream)
    };
    cuMemPrefetchAsync: [cuMemPrefetchAsync_v2 12020, cuMemPrefetchAsync_v2_ptsz 12020]
        (address: DevicePtr, bytes: u64, _location: Location, _flags: u32, stream: Handle) |call| {
        prefetch(call, address, bytes, stream)
    };
    cuMemcpyBatchAsync: [cuMemcpyBatchAsync 12080, cuMemcpyBatchAsync_ptsz 12080]
        (targets: *mut DevicePtr, sources: *mut DevicePtr, sizes: *mut u64, count: u64, _attributes: *mut u8,
            _indices: *mut u64, _attribute_count: u64, _failed: *mut u64, stream: Handle) |call| {
        batch(call, targets, sources, sizes, count, stream)
    };
    cuMemcpyBatchAsync: [cuMemcpyBatchAsync_v2 13000, cuMemcpyBatchAsync_v2_ptsz 13000]
        (targets: *mut DevicePtr, sources: *mut DevicePtr, sizes: *mut u64, count: u64, _attributes: *mut u8,
            _indices: *mut u64, _attribute_count: u64, stream: Handle) |call| {
        batch(call, targets, sources, sizes, count, stream)
    };
    cuStreamWriteValue32: [cuStreamWriteValue32 8000, cuStreamWriteValue32_ptsz 8000,
        cuStreamWriteValue32_v2 11070, cuStreamWriteValue32_v2_ptsz 11070]
        (stream: Handle, address: DevicePtr, value: u32, _flags: u32) |call| {
        write_value(call, stream, address, value)
    };
    cuStreamWriteValue64: [cuStreamWriteValue64 9000, cuStreamWriteValue64_ptsz 9000,
        cuStreamWriteValue64_v2 11070, cuStreamWriteValue64_v2_ptsz 11070]
        (stream: Handle, address: DevicePtr, value: u64, _flags: u32) |call| {
        write_value(call, stream, address, value)
    };
    cuGraphExecUpdate: [cuGraphExecUpdate 10020]
        (exec: Handle, graph: Handle, node: *mut Handle, result: *mut u32) |_call| {
        required(result)?;
        update(exec, graph)?;
        if !node.is_null() {
            put(node, 0)?;
        }
        put(result, 0)
    };
    // The result is a number and two nodes.
    cuGraphExecUpdate: [cuGraphExecUpdate_v2 12000] (exec: Handle, graph: Handle, result: *mut [u64; 3]) |_call| {
        required(result)?;
        update(exec, graph)?;
        put(result, [0; 3])
    };
    cuFuncSetBlockShape: [cuFuncSetBlockShape 2000] (function: Handle, x: i32, y: i32, z: i32) |_call| {
        let shape = [x, y, z].map(|size| u32::try_from(size).unwrap_or(0));
        if shape.contains(&0) {
            return Err(Code::INVALID_VALUE);
        }
        state()?.functions.find_mut(function)?.shape = shape;
        Ok(())
    };
    cuFuncSetSharedSize: [cuFuncSetSharedSize 2000] (function: Handle, bytes: u32) |_call| {
        state()?.functions.find_mut(function)?.shared = bytes;
        Ok(())
    };
    cuLaunch: [cuLaunch 2000] (function: Handle) |call| launch::shaped(call, function, [1, 1], 0);
    cuLaunchGrid: [cuLaunchGrid 2000] (function: Handle, width: i32, height: i32) |call| {
        launch::shaped(call, function, [width, height], 0)
    };
    cuLaunchGridAsync: [cuLaunchGridAsync 2000] (function: Handle, width: i32, height: i32, stream: Handle) |call| {
        launch::shaped(call, function, [width, height], stream)
    };
}
