//! What the device and the driver say of themselves.

use std::ffi::c_char;

use crate::context::device_exists;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::memory::TOTAL;
use crate::state::state;

pub const DRIVER_VERSION: i32 = 13000;
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;
pub const MAX_RESIDENT_BLOCKS: u32 = 32;
pub const MULTIPROCESSORS: u32 = 132;
const NAME: &str = "Stub GPU";
const PCI_BUS_ID: &str = "0000:01:00.0";
pub const UUID: [u8; 16] = *b"stub-gpu-uuid-00";

/// CUdevice_attribute: an H200's numbers for those that programs commonly ask for.
fn device_attribute(attribute: u32) -> Answer<i32> {
    Ok(match attribute {
        1 => MAX_THREADS_PER_BLOCK as i32,
        2 | 3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65_535,
        8 => 48 * 1024,
        9 => 64 * 1024,
        10 => 32,
        11 => i32::MAX,
        12 => 65_536,
        13 => 1_980_000,
        14 => 512,
        15 => 1,
        16 => MULTIPROCESSORS as i32,
        17 => 0,
        18 | 20 => 0,
        19 | 31 | 41 | 83 | 88 | 89 | 90 | 91 | 95 | 115 => 1,
        33 => 1,
        34 | 35 | 50 => 0,
        36 => 3_201_000,
        37 => 6144,
        38 => 60 << 20,
        39 => 2048,
        40 => 3,
        75 => 9,
        76 => 0,
        78 => 1,
        81 => 228 * 1024,
        82 => 65_536,
        97 => 227 * 1024,
        106 => MAX_RESIDENT_BLOCKS as i32,
        111 => 1024,
        0 | 1000.. => return Err(Code::INVALID_VALUE),
        _ => 0,
    })
}

/// CUfunction_attribute.
pub fn function_attribute(attribute: u32) -> Answer<i32> {
    Ok(match attribute {
        0 => MAX_THREADS_PER_BLOCK as i32,
        4 => 32,
        5 | 6 => 90,
        9 => -1,
        1..=15 => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// Writes a text of at most `length` bytes, its zero included.
fn put_text(out: *mut c_char, length: i32, text: &str) -> Answer {
    required(out)?;
    let room = usize::try_from(length).ok().filter(|&room| room > 0).ok_or(Code::INVALID_VALUE)?;
    for (index, byte) in text.bytes().take(room - 1).chain([0]).enumerate() {
        // SAFETY: the caller promises `length` bytes, and no more are written.
        put(unsafe { out.add(index) }, byte as c_char)?;
    }
    Ok(())
}

/// Properties of devices can be asked for once cuInit has been called.
fn of_device(device: i32) -> Answer {
    drop(state()?);
    device_exists(device)
}

export! {
    cuDriverGetVersion: [cuDriverGetVersion 2020] (out: *mut i32) |_call| put(out, DRIVER_VERSION);
    cuDeviceGetCount: [cuDeviceGetCount 2000] (out: *mut i32) |_call| {
        drop(state()?);
        put(out, 1)
    };
    cuDeviceGet: [cuDeviceGet 2000] (out: *mut i32, ordinal: i32) |_call| {
        required(out)?;
        of_device(ordinal)?;
        put(out, 0)
    };
    cuDeviceGetName: [cuDeviceGetName 2000] (out: *mut c_char, length: i32, device: i32) |_call| {
        of_device(device)?;
        put_text(out, length, NAME)
    };
    cuDeviceGetUuid: [cuDeviceGetUuid 9020, cuDeviceGetUuid_v2 11040] (out: *mut [u8; 16], device: i32) |_call| {
        of_device(device)?;
        put(out, UUID)
    };
    cuDeviceGetPCIBusId: [cuDeviceGetPCIBusId 4010] (out: *mut c_char, length: i32, device: i32) |_call| {
        of_device(device)?;
        put_text(out, length, PCI_BUS_ID)
    };
    cuDeviceGetByPCIBusId: [cuDeviceGetByPCIBusId 4010] (out: *mut i32, bus: *const c_char) |_call| {
        drop(state()?);
        match crate::log::text(bus).as_deref() {
            Some(PCI_BUS_ID) => put(out, 0),
            Some(_) => Err(Code::INVALID_DEVICE),
            None => Err(Code::INVALID_VALUE),
        }
    };
    cuDeviceTotalMem: [cuDeviceTotalMem_v2 3020] (out: *mut u64, device: i32) |_call| {
        of_device(device)?;
        put(out, TOTAL)
    };
    cuDeviceGetAttribute: [cuDeviceGetAttribute 2000] (out: *mut i32, attribute: u32, device: i32) |_call| {
        required(out)?;
        of_device(device)?;
        put(out, device_attribute(attribute)?)
    };
    cuDeviceComputeCapability: [cuDeviceComputeCapability 2000] (major: *mut i32, minor: *mut i32, device: i32) |_call| {
        of_device(device)?;
        put(major, 9)?;
        put(minor, 0)
    };
    cuDeviceCanAccessPeer: [cuDeviceCanAccessPeer 4000] (out: *mut i32, device: i32, _peer: i32) |_call| {
        of_device(device)?;
        put(out, 0)
    };
    cuProfilerStart: [cuProfilerStart 4000] () |_call| Ok(());
    cuProfilerStop: [cuProfilerStop 4000] () |_call| Ok(());
}
