//! Look-ups: `cuGetProcAddress` in both versions and `cuGetExportTable`.

use std::ffi::{c_char, c_void};

use crate::call::Call;
use crate::entry::{Entry, export, per_thread};
use crate::error::{Answer, Code, put, required};
use crate::log;
use crate::{
    capture, context, copy, error, event, graph, host, info, launch, memory, memset, module, occupancy, rare,
    refused, state, stream,
};

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// CUdriverProcAddressQueryResult.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookUp {
    Success = 0,
    SymbolNotFound = 1,
    VersionNotSufficient = 2,
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    [
        capture::ENTRIES,
        context::ENTRIES,
        copy::ENTRIES,
        error::ENTRIES,
        event::ENTRIES,
        graph::ENTRIES,
        host::ENTRIES,
        info::ENTRIES,
        launch::ENTRIES,
        ENTRIES,
        memory::ENTRIES,
        memset::ENTRIES,
        module::ENTRIES,
        occupancy::ENTRIES,
        rare::ENTRIES,
        refused::ENTRIES,
        state::ENTRIES,
        stream::ENTRIES,
    ]
    .into_iter()
    .flatten()
}

/// The newest variant that is not newer than the caller's version. A caller that asks for a default stream per thread gets
/// that variant where there is one.
fn find(name: &str, version: i32, flags: u64) -> Result<&'static Entry, LookUp> {
    let wants_per_thread = flags & PER_THREAD_DEFAULT_STREAM != 0;
    let mut found = Err(LookUp::SymbolNotFound);
    for entry in entries().filter(|entry| entry.name == name) {
        if entry.version > version || (per_thread(entry.symbol) && !wants_per_thread) {
            if found.is_err() && !per_thread(entry.symbol) {
                found = Err(LookUp::VersionNotSufficient);
            }
            continue;
        }
        let rank = |entry: &Entry| (entry.version, per_thread(entry.symbol));
        if found.is_err() || found.is_ok_and(|known: &Entry| rank(entry) > rank(known)) {
            found = Ok(entry);
        }
    }
    found
}

fn look_up(
    call: &Call,
    name: *const c_char,
    out: *mut *const c_void,
    version: i32,
    flags: u64,
) -> Answer<LookUp> {
    required(name)?;
    required(out)?;
    let name = log::text(name).ok_or(Code::INVALID_VALUE)?;
    call.note("name", &name);
    match find(&name, version, flags) {
        Ok(entry) => {
            call.note("found", entry.symbol);
            put(out, entry.address.0)?;
            Ok(LookUp::Success)
        }
        Err(why) => {
            put(out, std::ptr::null())?;
            Ok(why)
        }
    }
}

/// The table that the stub has, and its identifier. The first word is the table's size in bytes, as in real ones.
const TABLE_ID: [u8; 16] =
    [0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9];
static TABLE: [usize; 4] = [32, 0x1111, 0x2222, 0x3333];

export! {
    cuGetProcAddress: [cuGetProcAddress 11030]
        (name: *const c_char, out: *mut *const c_void, version: i32, flags: u64) |call| {
        match look_up(call, name, out, version, flags)? {
            LookUp::Success => Ok(()),
            _ => Err(Code::NOT_FOUND),
        }
    };
    cuGetProcAddress: [cuGetProcAddress_v2 12000]
        (name: *const c_char, out: *mut *const c_void, version: i32, flags: u64, status: *mut i32) |call| {
        let found = look_up(call, name, out, version, flags)?;
        call.note("status", found as i32);
        if !status.is_null() {
            put(status, found as i32)?;
        }
        match found {
            LookUp::Success => Ok(()),
            _ => Err(Code::NOT_FOUND),
        }
    };
    cuGetExportTable: [cuGetExportTable 3000] (out: *mut *const c_void, id: *const [u8; 16]) |_call| {
        required(out)?;
        required(id)?;
        // SAFETY: the caller promises an identifier of 16 bytes.
        match unsafe { id.read_unaligned() } == TABLE_ID {
            true => put(out, TABLE.as_ptr().cast()),
            false => Err(Code::INVALID_VALUE),
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, version: i32, flags: u64) -> Result<&'static str, LookUp> {
        find(name, version, flags).map(|entry| entry.symbol)
    }

    #[test]
    fn the_callers_version_decides() {
        assert_eq!(symbol("cuCtxSynchronize", 12080, 0), Ok("cuCtxSynchronize"));
        assert_eq!(symbol("cuCtxSynchronize", 13000, 0), Ok("cuCtxSynchronize_v2"));
        assert_eq!(symbol("cuGetProcAddress", 11040, 0), Ok("cuGetProcAddress"));
        assert_eq!(symbol("cuGetProcAddress", 12000, 0), Ok("cuGetProcAddress_v2"));
        assert_eq!(symbol("cuLaunchKernelEx", 11000, 0), Err(LookUp::VersionNotSufficient));
        assert_eq!(symbol("cuNoSuchThing", 13000, 0), Err(LookUp::SymbolNotFound));
    }

    #[test]
    fn a_default_stream_per_thread_is_another_symbol() {
        assert_eq!(symbol("cuLaunchKernel", 4000, 0), Ok("cuLaunchKernel"));
        assert_eq!(symbol("cuLaunchKernel", 4000, 2), Ok("cuLaunchKernel"));
        assert_eq!(symbol("cuLaunchKernel", 7000, 0), Ok("cuLaunchKernel"));
        assert_eq!(symbol("cuLaunchKernel", 7000, 1), Ok("cuLaunchKernel"));
        assert_eq!(symbol("cuLaunchKernel", 7000, 2), Ok("cuLaunchKernel_ptsz"));
        assert_eq!(symbol("cuLaunchKernelEx", 13000, 2), Ok("cuLaunchKernelEx_ptsz"));
        assert_eq!(symbol("cuMemcpyHtoD", 13000, 2), Ok("cuMemcpyHtoD_v2_ptds"));
        assert_eq!(symbol("cuCtxSynchronize", 13000, 2), Ok("cuCtxSynchronize_v2"));
    }

    /// As driver 580 answered on an H200 (machines/evidence/driver/lookups.csv).
    #[test]
    fn names_with_several_versions() {
        for (name, version, flags, expected) in [
            ("cuCtxCreate", 3020, 0, "cuCtxCreate_v2"),
            ("cuCtxGetDevice", 2000, 0, "cuCtxGetDevice"),
            ("cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"),
            ("cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2"),
            ("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2"),
            ("cuMemPrefetchAsync", 12020, 2, "cuMemPrefetchAsync_v2_ptsz"),
            ("cuMemcpyBatchAsync", 12080, 0, "cuMemcpyBatchAsync"),
            ("cuMemcpyBatchAsync", 13000, 2, "cuMemcpyBatchAsync_v2_ptsz"),
            ("cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2"),
            ("cuStreamGetCaptureInfo", 10010, 2, "cuStreamGetCaptureInfo_ptsz"),
            ("cuStreamGetCaptureInfo", 11030, 0, "cuStreamGetCaptureInfo_v2"),
            ("cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3"),
            ("cuStreamUpdateCaptureDependencies", 12030, 0, "cuStreamUpdateCaptureDependencies_v2"),
        ] {
            assert_eq!(symbol(name, version, flags), Ok(expected), "{name} {version} {flags}");
        }
    }

    /// A symbol twice would be two answers to one look-up.
    #[test]
    fn symbols_are_unique() {
        let mut symbols: Vec<_> = entries().map(|entry| entry.symbol).collect();
        let count = symbols.len();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!(symbols.len(), count);
    }
}
