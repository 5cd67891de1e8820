//! Launches of kernels.

use std::ffi::c_void;

use crate::call::Call;
use crate::entry::export;
use crate::error::{Answer, Code, required};
use crate::info::{MAX_RESIDENT_BLOCKS, MAX_THREADS_PER_BLOCK, MULTIPROCESSORS};
use crate::log;
use crate::state::state;
use crate::time;
use crate::types::{Handle, LAUNCH_ATTRIBUTE_BYTES, LaunchConfig, LaunchParams};
use crate::work::{KernelLaunch, Work};

/// CU_LAUNCH_ATTRIBUTE_COOPERATIVE.
const COOPERATIVE: u32 = 2;

/// Grids and blocks as the driver accepts them.
fn check(grid: [u32; 3], block: [u32; 3]) -> Answer {
    let sizes = [grid[0], grid[1], grid[2], block[0], block[1], block[2]];
    let threads = u64::from(block[0]) * u64::from(block[1]) * u64::from(block[2]);
    let limits = grid[0] <= i32::MAX as u32 && grid[1] <= 65_535 && grid[2] <= 65_535 && block[2] <= 64;
    match !sizes.contains(&0) && limits && threads <= u64::from(MAX_THREADS_PER_BLOCK) {
        true => Ok(()),
        false => Err(Code::INVALID_VALUE),
    }
}

/// All blocks of a cooperative grid must fit at once.
fn check_cooperative(grid: [u32; 3], block: [u32; 3]) -> Answer {
    let blocks: u64 = grid.iter().map(|&size| u64::from(size)).product();
    let threads: u64 = block.iter().map(|&size| u64::from(size)).product();
    let resident = (2048 / threads.max(1)).min(u64::from(MAX_RESIDENT_BLOCKS)) * u64::from(MULTIPROCESSORS);
    if blocks <= resident { Ok(()) } else { Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE) }
}

#[derive(Clone, Copy)]
struct Launch {
    function: Handle,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    cooperative: bool,
}

fn launch(call: &Call, launch: Launch) -> Answer {
    let Launch { function, grid, block, shared, stream, cooperative } = launch;
    let mut state = state()?;
    if function == 0 {
        return Err(Code::INVALID_HANDLE);
    }
    let (function, name) = state.launched(function)?;
    call.note("kernel", &name);
    let stream = state.stream(call, stream)?;
    check(grid, block)?;
    if cooperative {
        check_cooperative(grid, block)?;
    }
    while let Some(until) = state.full_until(stream)? {
        drop(state);
        time::sleep_towards(until, u64::MAX);
        state = self::state()?;
    }
    let work = Work::Kernel(KernelLaunch { function, name, grid, block, shared });
    if let Some(end) = state.enqueue(call, stream, work)? {
        state.queue(stream, end)?;
    }
    Ok(())
}

fn launch_ex(call: &Call, config: *const LaunchConfig, function: Handle) -> Answer {
    required(config)?;
    // SAFETY: the caller promises a configuration.
    let config = unsafe { config.read_unaligned() };
    let LaunchConfig { grid, block, shared, stream, .. } = config;
    let count = config.attribute_count as usize;
    let attributes: &[u8] = match count {
        0 => &[],
        _ => {
            required(config.attributes)?;
            // SAFETY: the caller promises as many attributes as the configuration says.
            unsafe { std::slice::from_raw_parts(config.attributes.cast(), count * LAUNCH_ATTRIBUTE_BYTES) }
        }
    };
    if call.logged() {
        let dimensions = |of: [u32; 3]| format!("{},{},{}", of[0], of[1], of[2]);
        call.note("grid", dimensions(grid));
        call.note("block", dimensions(block));
        call.note("shared", shared);
        call.note("stream", format_args!("{stream:#x}"));
        call.note("attributes", count);
        call.note("bytes", log::hex(attributes));
    }
    // Identifier, padding, and a union whose first member here is an int.
    let cooperative = attributes.chunks_exact(LAUNCH_ATTRIBUTE_BYTES).any(|attribute| {
        attribute[..4] == COOPERATIVE.to_ne_bytes() && attribute[8..12] != 0_i32.to_ne_bytes()
    });
    launch(call, Launch { function, grid, block, shared, stream, cooperative })
}

fn launch_on_devices(call: &Call, list: *const LaunchParams, count: u32) -> Answer {
    required(list)?;
    // There is one device.
    if count != 1 {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: the caller promises `count` launches.
    let LaunchParams { function, grid, block, shared, stream, .. } = unsafe { list.read_unaligned() };
    launch(call, Launch { function, grid, block, shared, stream, cooperative: true })
}

/// A launch of CUDA 2, whose block was set before.
pub fn shaped(call: &Call, function: Handle, grid: [i32; 2], stream: Handle) -> Answer {
    let (block, shared) = {
        let state = state()?;
        let function = state.functions.find(function)?;
        (function.shape, function.shared)
    };
    let [x, y] = grid.map(|size| u32::try_from(size).unwrap_or(0));
    launch(call, Launch { function, grid: [x, y, 1], block, shared, stream, cooperative: false })
}

export! {
    cuLaunchKernel: [cuLaunchKernel 4000, cuLaunchKernel_ptsz 7000]
        (function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
            stream: Handle, parameters: *mut *mut c_void, extra: *mut *mut c_void) |call| {
        // Parameters come in one of two ways, never in both.
        if !parameters.is_null() && !extra.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(call, Launch { function, grid, block, shared, stream, cooperative: false })
    };
    cuLaunchKernelEx: [cuLaunchKernelEx 11060, cuLaunchKernelEx_ptsz 11060]
        (config: *const LaunchConfig, function: Handle, _parameters: *mut *mut c_void, _extra: *mut *mut c_void) |call| {
        launch_ex(call, config, function)
    };
    cuLaunchCooperativeKernel: [cuLaunchCooperativeKernel 9000, cuLaunchCooperativeKernel_ptsz 9000]
        (function: Handle, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32, shared: u32,
            stream: Handle, _parameters: *mut *mut c_void) |call| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        launch(call, Launch { function, grid, block, shared, stream, cooperative: true })
    };
    cuLaunchCooperativeKernelMultiDevice: [cuLaunchCooperativeKernelMultiDevice 9000]
        (list: *mut LaunchParams, count: u32, _flags: u32) |call| {
        launch_on_devices(call, list, count)
    };
}
