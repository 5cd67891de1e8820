//! Occupancy: every kernel uses few registers and no shared memory of its own.

use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::info::{MAX_RESIDENT_BLOCKS, MAX_THREADS_PER_BLOCK, MULTIPROCESSORS};
use crate::state::state;
use crate::types::Handle;

const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
const SHARED_PER_MULTIPROCESSOR: u64 = 228 * 1024;

fn blocks(function: Handle, block: i32, shared: u64) -> Answer<i32> {
    state()?.launched(function)?;
    let block = u32::try_from(block).ok().filter(|&size| size > 0).ok_or(Code::INVALID_VALUE)?;
    if block > MAX_THREADS_PER_BLOCK {
        return Ok(0);
    }
    let by_memory = SHARED_PER_MULTIPROCESSOR.checked_div(shared).unwrap_or(u64::MAX);
    let by_threads = u64::from((THREADS_PER_MULTIPROCESSOR / block).min(MAX_RESIDENT_BLOCKS));
    Ok(by_memory.min(by_threads) as i32)
}

fn best(grid: *mut i32, block: *mut i32, function: Handle, limit: i32) -> Answer {
    required(grid)?;
    required(block)?;
    let most = MAX_THREADS_PER_BLOCK as i32;
    let size = if limit > 0 { limit.min(most) } else { most };
    let per_multiprocessor = blocks(function, size, 0)?;
    put(block, size)?;
    put(grid, per_multiprocessor * MULTIPROCESSORS as i32)
}

export! {
    cuOccupancyMaxActiveBlocksPerMultiprocessor: [cuOccupancyMaxActiveBlocksPerMultiprocessor 6050]
        (out: *mut i32, function: Handle, block: i32, shared: u64) |_call| {
        required(out)?;
        put(out, blocks(function, block, shared)?)
    };
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: [cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags 7000]
        (out: *mut i32, function: Handle, block: i32, shared: u64, _flags: u32) |_call| {
        required(out)?;
        put(out, blocks(function, block, shared)?)
    };
    cuOccupancyMaxPotentialBlockSize: [cuOccupancyMaxPotentialBlockSize 6050]
        (grid: *mut i32, block: *mut i32, function: Handle, _shared_of: usize, _shared: u64, limit: i32) |_call| {
        best(grid, block, function, limit)
    };
    cuOccupancyMaxPotentialBlockSizeWithFlags: [cuOccupancyMaxPotentialBlockSizeWithFlags 7000]
        (grid: *mut i32, block: *mut i32, function: Handle, _shared_of: usize, _shared: u64, limit: i32, _flags: u32)
        |_call| {
        best(grid, block, function, limit)
    };
    cuOccupancyAvailableDynamicSMemPerBlock: [cuOccupancyAvailableDynamicSMemPerBlock 10020]
        (out: *mut u64, function: Handle, blocks_wanted: i32, block: i32) |_call| {
        required(out)?;
        blocks(function, block, 0)?;
        let wanted = u64::try_from(blocks_wanted).ok().filter(|&count| count > 0).ok_or(Code::INVALID_VALUE)?;
        put(out, SHARED_PER_MULTIPROCESSOR / wanted)
    };
    cuOccupancyMaxPotentialClusterSize: [cuOccupancyMaxPotentialClusterSize 11070]
        (out: *mut i32, function: Handle, config: *const u8) |_call| {
        required(out)?;
        required(config)?;
        state()?.launched(function)?;
        put(out, 8)
    };
    cuOccupancyMaxActiveClusters: [cuOccupancyMaxActiveClusters 11070]
        (out: *mut i32, function: Handle, config: *const u8) |_call| {
        required(out)?;
        required(config)?;
        state()?.launched(function)?;
        put(out, MULTIPROCESSORS as i32 / 8)
    };
}
