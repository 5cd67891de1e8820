//! The objects' behaviour through the exported functions. Each test has a context and thus streams of its own.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::capture::*;
use crate::context::*;
use crate::copy::*;
use crate::event::*;
use crate::graph::*;
use crate::host::cuLaunchHostFunc;
use crate::launch::*;
use crate::memory::*;
use crate::memset::*;
use crate::module::*;
use crate::state::cuInit;
use crate::stream::*;
use crate::types::{Handle, Side3d, Status};

const PTX: &std::ffi::CStr = c".version 8.0\n.entry work() {}\n.entry more() {}";

/// Calls with an out-pointer; gives what was written.
fn made<T: Default>(call: impl FnOnce(*mut T) -> Status) -> T {
    let mut out = T::default();
    assert_eq!(call(&mut out), 0);
    out
}

fn context() -> Handle {
    assert_eq!(cuInit(0), 0);
    made(|out| cuCtxCreate_v2(out, 0, 0))
}

fn stream(flags: u32) -> Handle {
    made(|out| cuStreamCreate(out, flags))
}

fn function() -> Handle {
    let module = made(|out| cuModuleLoadData(out, PTX.as_ptr().cast()));
    made(|out| cuModuleGetFunction(out, module, c"work".as_ptr()))
}

fn launch(function: Handle, stream: Handle) -> Status {
    let null = std::ptr::null_mut();
    cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, null, null)
}

fn query(stream: Handle) -> Status {
    cuStreamQuery(stream)
}

/// Host functions that block a stream until told otherwise: the only work here that takes time without a setting.
struct Gate(&'static AtomicU32);

impl Gate {
    fn shut(stream: Handle) -> Self {
        extern "C" fn wait(data: *mut c_void) {
            // SAFETY: the address of a leaked counter.
            let counter = unsafe { &*(data as *const AtomicU32) };
            while counter.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
        }
        let counter: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        assert_eq!(cuLaunchHostFunc(stream, Some(wait), std::ptr::from_ref(counter) as usize), 0);
        Self(counter)
    }

    fn open(&self) {
        self.0.store(1, Ordering::Release);
    }
}

/// One after the other: host functions are called by one thread, and a shut gate holds it up.
static ORDER: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ORDER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn without_a_context_nothing_works() {
    std::thread::spawn(|| {
        assert_eq!(cuInit(0), 0);
        let mut out = 0;
        assert_eq!(cuStreamCreate(&mut out, 0), 201);
        assert_eq!(cuCtxSynchronize(), 201);
        assert_eq!(launch(1, 0), 201);
        assert_eq!([query(0), cuStreamQuery_ptsz(0)], [201, 201]);
        assert_eq!(cuInit(1), 1);
    })
    .join()
    .unwrap();
}

#[test]
fn contexts_are_a_stack() {
    let (first, second) = (context(), context());
    assert_eq!(made(|out| cuCtxGetCurrent(out)), second);
    assert_eq!(made(|out| cuCtxPopCurrent_v2(out)), second);
    assert_eq!(made(|out| cuCtxGetCurrent(out)), first);
    assert_eq!(cuCtxPushCurrent_v2(second), 0);
    assert_eq!(cuCtxDestroy_v2(second), 0);
    // Not the destroyed one, whose handle a test beside this one may have been given by now.
    assert_eq!(cuCtxPushCurrent_v2(0x1234_5678), 201);
    assert_eq!(made(|out| cuCtxGetCurrent(out)), first);
}

#[test]
fn the_legacy_stream_and_blocking_streams_wait_for_each_other() {
    let _guard = alone();
    context();
    let (blocking, other, free) = (stream(0), stream(0), stream(1));
    let work = function();
    let gate = Gate::shut(blocking);
    assert_eq!(cuStreamQuery(blocking), 600);
    assert_eq!([other, free].map(query), [0, 0]);
    assert_eq!(launch(work, 0), 0);
    assert_eq!([0, 1].map(query), [600, 600]);
    // Behind the legacy launch is the other blocking stream, not the non-blocking one.
    assert_eq!([launch(work, other), launch(work, free)], [0, 0]);
    assert_eq!([other, free].map(query), [600, 0]);
    assert_eq!(query(stream(0)), 0, "no work of its own");
    gate.open();
    assert_eq!(cuStreamSynchronize(0), 0);
    assert_eq!([blocking, other, free, 0].map(query), [0; 4]);
}

#[test]
fn the_per_thread_stream_is_a_thread_s_own() {
    let _guard = alone();
    let context = context();
    let gate = Gate::shut(2);
    assert_eq!([cuStreamQuery_ptsz(0), cuStreamQuery(2)], [600, 600]);
    std::thread::spawn(move || {
        assert_eq!(cuCtxSetCurrent(context), 0);
        assert_eq!([cuStreamQuery_ptsz(0), cuStreamQuery(2)], [0, 0]);
    })
    .join()
    .unwrap();
    gate.open();
    assert_eq!(cuCtxSynchronize_v2(context), 0);
    assert_eq!(cuStreamQuery_ptsz(0), 0);
}

#[test]
fn an_event_is_done_when_what_was_before_it_is() {
    let _guard = alone();
    context();
    let (first, second) = (stream(1), stream(1));
    let event = made(|out| cuEventCreate(out, 0));
    assert_eq!(cuEventQuery(event), 0, "never recorded");
    let gate = Gate::shut(first);
    assert_eq!([cuEventRecord(event, first), cuStreamWaitEvent(second, event, 0)], [0, 0]);
    assert_eq!([cuEventQuery(event), cuStreamQuery(second)], [600, 600]);
    let mut time = 0.0;
    assert_eq!(cuEventElapsedTime(&mut time, event, event), 600);
    gate.open();
    assert_eq!([cuEventSynchronize(event), cuStreamSynchronize(second)], [0, 0]);
    let later = made(|out| cuEventCreate(out, 0));
    assert_eq!(cuEventRecord(later, first), 0);
    assert_eq!(cuEventElapsedTime(&mut time, event, later), 0);
    assert!(time >= 0.0);
    let untimed = made(|out| cuEventCreate(out, 2));
    assert_eq!(cuEventRecord(untimed, first), 0);
    assert_eq!(cuEventElapsedTime(&mut time, event, untimed), 400);
    assert_eq!([cuEventDestroy_v2(event), cuEventQuery(event)], [0, 400]);
}

#[test]
fn a_destroyed_stream_s_work_is_still_waited_for() {
    let _guard = alone();
    let context = context();
    let gone = stream(1);
    let gate = Gate::shut(gone);
    assert_eq!(cuStreamDestroy_v2(gone), 0);
    assert_eq!(cuStreamQuery(gone), 400);
    let opener = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        gate.open();
        gate
    });
    assert_eq!(cuCtxSynchronize_v2(context), 0);
    assert_eq!(opener.join().unwrap().0.load(Ordering::Acquire), 1, "the gate was open at the end");
}

#[test]
fn memory_holds_what_is_copied() {
    context();
    let device = made(|out| cuMemAlloc_v2(out, 64));
    let source: [u8; 64] = std::array::from_fn(|index| index as u8);
    let mut target = [0_u8; 64];
    assert_eq!(cuMemcpyHtoD_v2(device, source.as_ptr().cast(), 64), 0);
    assert_eq!(cuMemsetD16_v2(device + 2, 0x0102, 2), 0);
    assert_eq!(cuMemcpyDtoDAsync_v2(device + 32, device, 8, 0), 0);
    assert_eq!(cuMemcpyDtoH_v2(target.as_mut_ptr().cast(), device, 64), 0);
    assert_eq!(target[..8], [0, 1, 2, 1, 2, 1, 6, 7]);
    assert_eq!(made(|out| cuPointerGetAttribute(out, 2, device + 63)), 2);
    assert_eq!(cuPointerGetAttribute(&mut 0, 2, target.as_ptr() as usize), 1, "pageable");
    assert_eq!((&target[32..40], &target[40..]), (&target[..8], &source[40..]));
    assert_eq!(cuMemcpyHtoD_v2(device + 1, source.as_ptr().cast(), 64), 1, "past the end");
    assert_eq!([cuMemFree_v2(device), cuMemFree_v2(device)], [0, 1]);
}

#[test]
fn boxes_are_copied_row_by_row() {
    context();
    let device = made(|out| cuMemAlloc_v2(out, 64));
    let source: [u8; 24] = std::array::from_fn(|index| index as u8);
    let side = |kind, address: usize, pitch, height| Side3d {
        x: 1,
        y: 0,
        z: 0,
        lod: 0,
        kind,
        host: if kind == 1 { address } else { 0 },
        device: if kind == 2 { address } else { 0 },
        array: 0,
        context: 0,
        pitch,
        height,
    };
    let copy = crate::types::Memcpy3d {
        source: side(1, source.as_ptr() as usize, 4, 3),
        target: side(2, device, 8, 2),
        width: 2,
        height: 2,
        depth: 2,
    };
    assert_eq!(cuMemcpy3D_v2(&copy), 0);
    let mut target = [0_u8; 64];
    assert_eq!(cuMemcpyDtoH_v2(target.as_mut_ptr().cast(), device, 64), 0);
    // Layers of the source are 12 bytes apart, those of the target 16.
    for (place, value) in [(1, 1), (2, 2), (9, 5), (10, 6), (17, 13), (18, 14), (25, 17), (26, 18)] {
        assert_eq!(target[place], value, "{place}");
    }
    assert_eq!(target.iter().filter(|&&byte| byte != 0).count(), 8);
}

#[test]
fn a_capture_spreads_by_events_and_ends_whole() {
    context();
    let (origin, side) = (stream(1), stream(1));
    let work = function();
    let event = made(|out| cuEventCreate(out, 2));
    assert_eq!(cuStreamBeginCapture_v2(origin, 2), 0);
    assert_eq!(launch(work, origin), 0);
    assert_eq!([cuEventRecord(event, origin), cuStreamWaitEvent(side, event, 0)], [0, 0]);
    assert_eq!(launch(work, side), 0);
    assert_eq!(made(|out| cuStreamIsCapturing(side, out)), 1);
    let mut graph = 0;
    assert_eq!(cuStreamEndCapture(side, &mut graph), 903);
    assert_eq!(cuStreamEndCapture(origin, &mut graph), 0);
    assert_eq!(made(|out| cuStreamIsCapturing(side, out)), 0);
    let mut nodes = [0; 4];
    let mut count = 4;
    assert_eq!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut count), 0);
    assert_eq!(
        nodes[..3].iter().map(|&node| made(|out| cuGraphNodeGetType(node, out))).collect::<Vec<_>>(),
        [0, 5, 0]
    );
    assert_eq!((count, nodes[3]), (3, 0));
    let exec = made(|out| cuGraphInstantiateWithFlags(out, graph, 0));
    assert_eq!([cuGraphDestroy(graph), cuGraphLaunch(exec, side), cuGraphExecDestroy(exec)], [0; 3]);
}

#[test]
fn what_breaks_a_capture() {
    context();
    let (captured, blocking) = (stream(1), stream(0));
    let work = function();
    let mut graph = 7;
    for breaks in [cuStreamQuery as extern "C" fn(Handle) -> Status, cuStreamSynchronize] {
        assert_eq!(cuStreamBeginCapture_v2(captured, 2), 0);
        assert_eq!(breaks(captured), 900);
        assert_eq!(made(|out| cuStreamIsCapturing(captured, out)), 2);
        assert_eq!(launch(work, captured), 901);
        assert_eq!((cuStreamEndCapture(captured, &mut graph), graph), (901, 0));
    }
    assert_eq!(cuStreamBeginCapture_v2(blocking, 2), 0);
    assert_eq!(launch(work, 0), 906, "the legacy stream waits for blocking ones");
    assert_eq!(cuStreamEndCapture(blocking, &mut graph), 901);
    assert_eq!(cuStreamBeginCapture_v2(0, 2), 900);
}

#[test]
fn a_captured_host_function_runs_at_every_launch() {
    extern "C" fn count(data: *mut c_void) {
        // SAFETY: the address of the test's counter, which outlives the stream's work.
        unsafe { &*(data as *const AtomicU32) }.fetch_add(1, Ordering::Relaxed);
    }
    let _guard = alone();
    context();
    let captured = stream(1);
    let counter: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    assert_eq!(cuStreamBeginCapture_v2(captured, 2), 0);
    assert_eq!(cuLaunchHostFunc(captured, Some(count), std::ptr::from_ref(counter) as usize), 0);
    let graph = made(|out| cuStreamEndCapture(captured, out));
    assert_eq!(counter.load(Ordering::Relaxed), 0);
    let exec = made(|out| cuGraphInstantiateWithFlags(out, graph, 0));
    for _ in 0..3 {
        assert_eq!(cuGraphLaunch(exec, captured), 0);
    }
    assert_eq!(cuStreamSynchronize(captured), 0);
    assert_eq!(counter.load(Ordering::Relaxed), 3);
}

#[test]
fn sizes_that_the_driver_refuses() {
    context();
    let work = function();
    let null = std::ptr::null_mut();
    let sized = |grid: [u32; 3], block: u32| {
        cuLaunchKernel(work, grid[0], grid[1], grid[2], block, 1, 1, 0, 0, null, null)
    };
    assert_eq!([sized([i32::MAX as u32, 1, 1], 1), sized([1, 65_535, 65_535], 1024)], [0, 0]);
    assert_eq!([sized([1, 65_536, 1], 1), sized([1, 1, 1], 1025), sized([0, 1, 1], 1)], [1; 3]);
}

#[test]
fn unloading_takes_functions_and_kernels_along() {
    context();
    let library =
        made(|out| cuLibraryLoadData(out, PTX.as_ptr().cast(), out.cast(), out, 0, out.cast(), out, 0));
    let kernel = made(|out| cuLibraryGetKernel(out, library, c"more".as_ptr()));
    let function = made(|out| cuKernelGetFunction(out, kernel));
    assert_eq!(made(|out| cuLibraryGetModule(out, library)), made(|out| cuFuncGetModule(out, function)));
    let mut out = 0;
    assert_eq!(cuLibraryGetKernel(&mut out, library, c"none".as_ptr()), 500);
    assert_eq!([launch(kernel, 0), launch(function, 0)], [0, 0]);
    assert_eq!(cuLibraryUnload(library), 0);
    assert_eq!([launch(kernel, 0), launch(function, 0)], [400, 400]);
}
