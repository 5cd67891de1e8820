//! Memory: device addresses are addresses of host memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;

use crate::call::Call;
use crate::context;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::state::{State, state};
use crate::stream::note_made;
use crate::types::{DevicePtr, Handle};

const GIB: u64 = 1 << 30;
pub const TOTAL: u64 = 8 * GIB;
/// As the real allocator aligns.
const ALIGNMENT: usize = 256;
/// Flags of host allocations are accepted and mean nothing here.
const HOST: bool = true;
/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE, and CUmemorytype.
const MEMORY_TYPE: u32 = 2;
const HOST_MEMORY: u32 = 1;
const DEVICE_MEMORY: u32 = 2;

struct Allocation {
    bytes: usize,
    host: bool,
}

pub struct Memory {
    allocations: BTreeMap<usize, Allocation>,
    used: u64,
}

impl Memory {
    pub const fn new() -> Self {
        Self { allocations: BTreeMap::new(), used: 0 }
    }

    fn allocate(&mut self, bytes: u64, host: bool) -> Answer<usize> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if !host && self.used.saturating_add(bytes) > TOTAL {
            return Err(Code::OUT_OF_MEMORY);
        }
        let size = usize::try_from(bytes).map_err(|_| Code::OUT_OF_MEMORY)?;
        let layout = Layout::from_size_align(size, ALIGNMENT).map_err(|_| Code::OUT_OF_MEMORY)?;
        // SAFETY: the size is not zero.
        let address = unsafe { alloc_zeroed(layout) } as usize;
        if address == 0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.allocations.insert(address, Allocation { bytes: size, host });
        if !host {
            self.used += bytes;
        }
        Ok(address)
    }

    fn free(&mut self, address: usize, host: bool) -> Answer {
        let Some(Allocation { bytes, .. }) =
            self.allocations.remove(&address).filter(|allocation| allocation.host == host)
        else {
            return Err(Code::INVALID_VALUE);
        };
        if !host {
            self.used -= bytes as u64;
        }
        let layout = Layout::from_size_align(bytes, ALIGNMENT).map_err(|_| Code::UNKNOWN)?;
        // SAFETY: allocated above with this layout, and no longer in the table.
        unsafe { dealloc(address as *mut u8, layout) };
        Ok(())
    }

    /// Start and size of the allocation that holds the address.
    fn around(&self, address: usize) -> Option<(usize, &Allocation)> {
        let (&start, allocation) = self.allocations.range(..=address).next_back()?;
        (address < start + allocation.bytes).then_some((start, allocation))
    }

    /// Do these bytes lie within one allocation of device memory?
    pub fn check(&self, address: DevicePtr, bytes: usize) -> Answer {
        let (start, allocation) = self.around(address).ok_or(Code::INVALID_VALUE)?;
        let end = address.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        if end <= start + allocation.bytes { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

fn allocate(call: &Call, out: *mut usize, bytes: u64, host: bool) -> Answer {
    required(out)?;
    let mut state = state()?;
    state.forbid_while_capturing()?;
    context::current(&state)?;
    let address = state.memory.allocate(bytes, host)?;
    put(out, address)?;
    note_made(call, out);
    Ok(())
}

fn free(address: usize, host: bool) -> Answer {
    if address == 0 {
        return Ok(());
    }
    let mut state = state()?;
    state.forbid_while_capturing()?;
    // Freeing waits for the device, which may still use the memory.
    let context = context::current(&state)?;
    let point = state.context_point(context);
    drop(state);
    crate::stream::wait(&point);
    self::state()?.memory.free(address, host)
}

impl State {
    /// Address and size around a device address.
    fn range(&self, address: usize) -> Answer<(usize, usize)> {
        let (start, allocation) = self.memory.around(address).ok_or(Code::NOT_FOUND)?;
        Ok((start, allocation.bytes))
    }
}

export! {
    cuMemAlloc: [cuMemAlloc_v2 3020] (out: *mut DevicePtr, bytes: u64) |call| allocate(call, out, bytes, !HOST);
    cuMemAllocManaged: [cuMemAllocManaged 6000] (out: *mut DevicePtr, bytes: u64, _flags: u32) |call| {
        allocate(call, out, bytes, !HOST)
    };
    cuMemAllocPitch: [cuMemAllocPitch_v2 3020]
        (out: *mut DevicePtr, pitch: *mut u64, width: u64, height: u64, _element: u32) |call| {
        required(pitch)?;
        let row = width.checked_next_multiple_of(512).ok_or(Code::INVALID_VALUE)?;
        allocate(call, out, row.checked_mul(height).ok_or(Code::INVALID_VALUE)?, !HOST)?;
        put(pitch, row)
    };
    cuMemFree: [cuMemFree_v2 3020] (address: DevicePtr) |_call| free(address, !HOST);
    cuMemAllocAsync: [cuMemAllocAsync 11020, cuMemAllocAsync_ptsz 11020]
        (out: *mut DevicePtr, bytes: u64, stream: Handle) |call| {
        required(out)?;
        let mut state = state()?;
        let stream = state.stream(call, stream)?;
        state.forbid_capture(stream)?;
        let address = state.memory.allocate(bytes, !HOST)?;
        put(out, address)
    };
    cuMemFreeAsync: [cuMemFreeAsync 11020, cuMemFreeAsync_ptsz 11020] (address: DevicePtr, stream: Handle) |call| {
        let mut state = state()?;
        let stream = state.stream(call, stream)?;
        state.forbid_capture(stream)?;
        state.memory.free(address, !HOST)
    };
    cuMemGetAddressRange: [cuMemGetAddressRange_v2 3020] (base: *mut DevicePtr, bytes: *mut u64, address: DevicePtr) |_call| {
        let (start, size) = state()?.range(address)?;
        if !base.is_null() {
            put(base, start)?;
        }
        if !bytes.is_null() {
            put(bytes, size as u64)?;
        }
        Ok(())
    };
    // The real one accepts null for either, as a renderer found out.
    cuMemGetInfo: [cuMemGetInfo_v2 3020] (free: *mut u64, total: *mut u64) |_call| {
        let state = state()?;
        context::current(&state)?;
        if !free.is_null() {
            put(free, TOTAL - state.memory.used)?;
        }
        if !total.is_null() {
            put(total, TOTAL)?;
        }
        Ok(())
    };
    cuMemAllocHost: [cuMemAllocHost_v2 3020] (out: *mut usize, bytes: u64) |call| allocate(call, out, bytes, HOST);
    cuMemHostAlloc: [cuMemHostAlloc 2020] (out: *mut usize, bytes: u64, _flags: u32) |call| {
        allocate(call, out, bytes, HOST)
    };
    cuMemFreeHost: [cuMemFreeHost 2000] (address: usize) |_call| free(address, HOST);
    cuMemHostRegister: [cuMemHostRegister 4000, cuMemHostRegister_v2 6050] (address: usize, bytes: u64, _flags: u32) |_call| {
        context::current(&*state()?)?;
        if address == 0 || bytes == 0 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    };
    cuMemHostUnregister: [cuMemHostUnregister 4000] (address: usize) |_call| {
        context::current(&*state()?)?;
        if address == 0 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    };
    cuMemHostGetDevicePointer: [cuMemHostGetDevicePointer_v2 3020] (out: *mut DevicePtr, address: usize, _flags: u32) |_call| {
        required(out)?;
        context::current(&*state()?)?;
        if address == 0 { Err(Code::INVALID_VALUE) } else { put(out, address) }
    };
    // What kind of memory an address is of; pageable memory is an invalid value.
    cuPointerGetAttribute: [cuPointerGetAttribute 4000] (out: *mut u32, attribute: u32, address: DevicePtr) |_call| {
        required(out)?;
        let state = state()?;
        let (_, allocation) = state.memory.around(address).ok_or(Code::INVALID_VALUE)?;
        match attribute {
            MEMORY_TYPE => put(out, if allocation.host { HOST_MEMORY } else { DEVICE_MEMORY }),
            _ => Err(Code::NOT_SUPPORTED),
        }
    };
    cuMemHostGetFlags: [cuMemHostGetFlags 2030] (out: *mut u32, address: usize) |_call| {
        required(out)?;
        match state()?.memory.around(address) {
            Some((_, Allocation { host: true, .. })) => put(out, 0),
            _ => Err(Code::INVALID_VALUE),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let mut memory = Memory::new();
        let address = memory.allocate(100, !HOST).unwrap();
        assert_eq!(memory.check(address + 10, 90), Ok(()));
        assert_eq!(memory.check(address + 10, 91), Err(Code::INVALID_VALUE));
        assert_eq!(memory.check(0, 1), Err(Code::INVALID_VALUE));
        assert_eq!(memory.allocate(TOTAL, !HOST), Err(Code::OUT_OF_MEMORY));
        assert_eq!(memory.free(address, !HOST), Ok(()));
        assert_eq!(memory.free(address, !HOST), Err(Code::INVALID_VALUE));
        assert_eq!(memory.used, 0);
    }
}
