//! The list. A row is what entry points with one signature have in common:
//!
//! ```text
//! kind [version symbol, ...] (argument: type, ...) => expression;
//! ```
//!
//! `version` is the CUDA version (1000 * major + 10 * minor) with which the symbol came; it is what cuGetProcAddress
//! compares. Source of names, versions and signatures: `cuda.h` and `cudaTypedefs.h` of CUDA 12.9 and 13.5 (PyPI packages
//! nvidia-cuda-runtime-cu12 12.9.79 and nvidia-cuda-runtime 13.5.37). Types and the functions of the expressions are the
//! interposer's; the expression of each kind is described at [`Kind`](crate::Kind).

/// Calls the macro `$then` with the whole list.
#[macro_export]
macro_rules! hooks {
    ($then:ident) => { $then! {
        // Kernels, graphs and host functions.
        launch [4000 cuLaunchKernel, 7000 cuLaunchKernel_ptsz]
            (f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
             stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void)
            => (stream, kernel(f, [gx, gy, gz], [bx, by, bz], shared));
        launch [11060 cuLaunchKernelEx, 11060 cuLaunchKernelEx_ptsz]
            (config: *const CUlaunchConfig, f: CUfunction, params: *mut *mut c_void, extra: *mut *mut c_void)
            => configured(config, f);
        launch [9000 cuLaunchCooperativeKernel, 9000 cuLaunchCooperativeKernel_ptsz]
            (f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint,
             stream: CUstream, params: *mut *mut c_void)
            => (stream, kernel(f, [gx, gy, gz], [bx, by, bz], shared));
        launch [9000 cuLaunchCooperativeKernelMultiDevice]
            (list: *mut CUDA_LAUNCH_PARAMS, devices: c_uint, flags: c_uint)
            => first_of(list, devices);
        launch [2000 cuLaunch] (f: CUfunction) => (LEGACY, kernel(f, [1, 1, 1], [0, 0, 0], 0));
        launch [2000 cuLaunchGrid] (f: CUfunction, width: c_int, height: c_int)
            => (LEGACY, kernel(f, [width as c_uint, height as c_uint, 1], [0, 0, 0], 0));
        launch [2000 cuLaunchGridAsync] (f: CUfunction, width: c_int, height: c_int, stream: CUstream)
            => (stream, kernel(f, [width as c_uint, height as c_uint, 1], [0, 0, 0], 0));
        launch [10000 cuGraphLaunch, 10000 cuGraphLaunch_ptsz] (exec: CUgraphExec, stream: CUstream)
            => (stream, Work::Graph(exec));
        launch [10000 cuLaunchHostFunc, 10000 cuLaunchHostFunc_ptsz]
            (stream: CUstream, call: CUhostFn, data: *mut c_void) => (stream, Work::Host);
        launch [13010 cuLaunchHostFunc_v2, 13010 cuLaunchHostFunc_v2_ptsz]
            (stream: CUstream, call: CUhostFn, data: *mut c_void, mode: c_uint) => (stream, Work::Host);
        launch [5000 cuStreamAddCallback, 7000 cuStreamAddCallback_ptsz]
            (stream: CUstream, call: CUstreamCallback, data: *mut c_void, flags: c_uint) => (stream, Work::Host);

        // Copies that return before they end.
        launch [4000 cuMemcpyAsync, 7000 cuMemcpyAsync_ptsz]
            (to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) => (stream, inside(bytes));
        launch [4000 cuMemcpyPeerAsync, 7000 cuMemcpyPeerAsync_ptsz]
            (to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, bytes: usize, stream: CUstream)
            => (stream, inside(bytes));
        launch [3020 cuMemcpyHtoDAsync_v2, 7000 cuMemcpyHtoDAsync_v2_ptsz]
            (to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) => (stream, from_host(bytes));
        launch [3020 cuMemcpyDtoHAsync_v2, 7000 cuMemcpyDtoHAsync_v2_ptsz]
            (to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) => (stream, inside(bytes));
        launch [3020 cuMemcpyDtoDAsync_v2, 7000 cuMemcpyDtoDAsync_v2_ptsz]
            (to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) => (stream, inside(bytes));
        launch [3020 cuMemcpyHtoAAsync_v2, 7000 cuMemcpyHtoAAsync_v2_ptsz]
            (to: CUarray, offset: usize, from: *const c_void, bytes: usize, stream: CUstream) => (stream, from_host(bytes));
        launch [3020 cuMemcpyAtoHAsync_v2, 7000 cuMemcpyAtoHAsync_v2_ptsz]
            (to: *mut c_void, from: CUarray, offset: usize, bytes: usize, stream: CUstream) => (stream, inside(bytes));
        launch [3020 cuMemcpy2DAsync_v2, 7000 cuMemcpy2DAsync_v2_ptsz]
            (copy: *const CUDA_MEMCPY2D, stream: CUstream) => (stream, plane(copy).work());
        launch [3020 cuMemcpy3DAsync_v2, 7000 cuMemcpy3DAsync_v2_ptsz]
            (copy: *const CUDA_MEMCPY3D, stream: CUstream) => (stream, space(copy).work());
        launch [4000 cuMemcpy3DPeerAsync, 7000 cuMemcpy3DPeerAsync_ptsz]
            (copy: *const CUDA_MEMCPY3D_PEER, stream: CUstream) => (stream, space(copy).work());
        launch [12080 cuMemcpyBatchAsync, 12080 cuMemcpyBatchAsync_ptsz]
            (to: *mut CUdeviceptr, from: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void,
             indices: *mut usize, attribute_count: usize, failed: *mut usize, stream: CUstream)
            => (stream, inside(sum(sizes, count)));
        launch [13000 cuMemcpyBatchAsync_v2, 13000 cuMemcpyBatchAsync_v2_ptsz]
            (to: *mut CUdeviceptr, from: *mut CUdeviceptr, sizes: *mut usize, count: usize, attributes: *mut c_void,
             indices: *mut usize, attribute_count: usize, stream: CUstream)
            => (stream, inside(sum(sizes, count)));
        launch [12080 cuMemcpy3DBatchAsync, 12080 cuMemcpy3DBatchAsync_ptsz]
            (count: usize, list: *mut CUDA_MEMCPY3D_BATCH_OP, failed: *mut usize, flags: c_ulonglong, stream: CUstream)
            => (stream, inside(extents(list, count)));
        launch [13000 cuMemcpy3DBatchAsync_v2, 13000 cuMemcpy3DBatchAsync_v2_ptsz]
            (count: usize, list: *mut CUDA_MEMCPY3D_BATCH_OP, flags: c_ulonglong, stream: CUstream)
            => (stream, inside(extents(list, count)));
        launch [13020 cuMemcpyWithAttributesAsync, 13020 cuMemcpyWithAttributesAsync_ptsz]
            (to: CUdeviceptr, from: CUdeviceptr, bytes: usize, attributes: *mut c_void, stream: CUstream)
            => (stream, inside(bytes));
        launch [13020 cuMemcpy3DWithAttributesAsync, 13020 cuMemcpy3DWithAttributesAsync_ptsz]
            (copy: *mut CUDA_MEMCPY3D_BATCH_OP, flags: c_ulonglong, stream: CUstream)
            => (stream, inside(extents(copy, 1)));
        launch [8000 cuMemPrefetchAsync, 8000 cuMemPrefetchAsync_ptsz]
            (pointer: CUdeviceptr, bytes: usize, device: CUdevice, stream: CUstream) => (stream, from_host(bytes));
        launch [12020 cuMemPrefetchAsync_v2, 12020 cuMemPrefetchAsync_v2_ptsz]
            (pointer: CUdeviceptr, bytes: usize, location: CUmemLocation, flags: c_uint, stream: CUstream)
            => (stream, from_host(bytes));
        launch [13000 cuMemPrefetchBatchAsync, 13000 cuMemPrefetchBatchAsync_ptsz,
                13000 cuMemDiscardAndPrefetchBatchAsync, 13000 cuMemDiscardAndPrefetchBatchAsync_ptsz]
            (pointers: *mut CUdeviceptr, sizes: *mut usize, count: usize, locations: *mut CUmemLocation, indices: *mut usize,
             location_count: usize, flags: c_ulonglong, stream: CUstream)
            => (stream, from_host(sum(sizes, count)));
        launch [12060 cuMemBatchDecompressAsync, 12060 cuMemBatchDecompressAsync_ptsz]
            (list: *mut CUmemDecompressParams, count: usize, flags: c_uint, failed: *mut usize, stream: CUstream)
            => (stream, inside(decompressed(list, count)));
        // The forms with 32-bit device addresses, from before CUDA 3.2; libcuda still exports them under the bare names.
        launch [2000 cuMemcpyHtoDAsync] (to: c_uint, from: *const c_void, bytes: c_uint, stream: CUstream)
            => (stream, from_host(bytes as usize));
        launch [2000 cuMemcpyDtoHAsync] (to: *mut c_void, from: c_uint, bytes: c_uint, stream: CUstream)
            => (stream, inside(bytes as usize));
        launch [3000 cuMemcpyDtoDAsync] (to: c_uint, from: c_uint, bytes: c_uint, stream: CUstream)
            => (stream, inside(bytes as usize));
        launch [2000 cuMemcpyHtoAAsync] (to: CUarray, offset: c_uint, from: *const c_void, bytes: c_uint, stream: CUstream)
            => (stream, from_host(bytes as usize));
        launch [2000 cuMemcpyAtoHAsync] (to: *mut c_void, from: CUarray, offset: c_uint, bytes: c_uint, stream: CUstream)
            => (stream, inside(bytes as usize));
        launch [2000 cuMemcpy2DAsync] (copy: *const CUDA_MEMCPY2D_v1, stream: CUstream) => (stream, plane(copy).work());
        launch [2000 cuMemcpy3DAsync] (copy: *const CUDA_MEMCPY3D_v1, stream: CUstream) => (stream, space(copy).work());

        // Memsets that return before they end.
        launch [3020 cuMemsetD8Async, 7000 cuMemsetD8Async_ptsz]
            (to: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream) => (stream, inside(count));
        launch [3020 cuMemsetD16Async, 7000 cuMemsetD16Async_ptsz]
            (to: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream) => (stream, inside(area(count, 1, 2)));
        launch [3020 cuMemsetD32Async, 7000 cuMemsetD32Async_ptsz]
            (to: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) => (stream, inside(area(count, 1, 4)));
        launch [3020 cuMemsetD2D8Async, 7000 cuMemsetD2D8Async_ptsz]
            (to: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize, stream: CUstream)
            => (stream, inside(area(width, height, 1)));
        launch [3020 cuMemsetD2D16Async, 7000 cuMemsetD2D16Async_ptsz]
            (to: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize, stream: CUstream)
            => (stream, inside(area(width, height, 2)));
        launch [3020 cuMemsetD2D32Async, 7000 cuMemsetD2D32Async_ptsz]
            (to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize, stream: CUstream)
            => (stream, inside(area(width, height, 4)));

        // Copies and memsets that may return after their end, in the default stream.
        copy [4000 cuMemcpy, 7000 cuMemcpy_ptds] (to: CUdeviceptr, from: CUdeviceptr, bytes: usize) => Copy::inside(bytes);
        copy [4000 cuMemcpyPeer, 7000 cuMemcpyPeer_ptds]
            (to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext, bytes: usize)
            => Copy::inside(bytes);
        copy [3020 cuMemcpyHtoD_v2, 7000 cuMemcpyHtoD_v2_ptds] (to: CUdeviceptr, from: *const c_void, bytes: usize)
            => Copy::from_host(bytes);
        copy [3020 cuMemcpyDtoH_v2, 7000 cuMemcpyDtoH_v2_ptds] (to: *mut c_void, from: CUdeviceptr, bytes: usize)
            => Copy::to_host(bytes);
        copy [3020 cuMemcpyDtoD_v2, 7000 cuMemcpyDtoD_v2_ptds] (to: CUdeviceptr, from: CUdeviceptr, bytes: usize)
            => Copy::inside(bytes);
        copy [3020 cuMemcpyDtoA_v2, 7000 cuMemcpyDtoA_v2_ptds]
            (to: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) => Copy::inside(bytes);
        copy [3020 cuMemcpyAtoD_v2, 7000 cuMemcpyAtoD_v2_ptds]
            (to: CUdeviceptr, from: CUarray, offset: usize, bytes: usize) => Copy::inside(bytes);
        copy [3020 cuMemcpyHtoA_v2, 7000 cuMemcpyHtoA_v2_ptds]
            (to: CUarray, offset: usize, from: *const c_void, bytes: usize) => Copy::from_host(bytes);
        copy [3020 cuMemcpyAtoH_v2, 7000 cuMemcpyAtoH_v2_ptds]
            (to: *mut c_void, from: CUarray, offset: usize, bytes: usize) => Copy::to_host(bytes);
        copy [3020 cuMemcpyAtoA_v2, 7000 cuMemcpyAtoA_v2_ptds]
            (to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, bytes: usize) => Copy::inside(bytes);
        copy [3020 cuMemcpy2D_v2, 7000 cuMemcpy2D_v2_ptds, 3020 cuMemcpy2DUnaligned_v2, 7000 cuMemcpy2DUnaligned_v2_ptds]
            (copy: *const CUDA_MEMCPY2D) => plane(copy);
        copy [3020 cuMemcpy3D_v2, 7000 cuMemcpy3D_v2_ptds] (copy: *const CUDA_MEMCPY3D) => space(copy);
        copy [4000 cuMemcpy3DPeer, 7000 cuMemcpy3DPeer_ptds] (copy: *const CUDA_MEMCPY3D_PEER) => space(copy);
        copy [3020 cuMemsetD8_v2, 7000 cuMemsetD8_v2_ptds] (to: CUdeviceptr, value: c_uchar, count: usize)
            => Copy::inside(count);
        copy [3020 cuMemsetD16_v2, 7000 cuMemsetD16_v2_ptds] (to: CUdeviceptr, value: c_ushort, count: usize)
            => Copy::inside(area(count, 1, 2));
        copy [3020 cuMemsetD32_v2, 7000 cuMemsetD32_v2_ptds] (to: CUdeviceptr, value: c_uint, count: usize)
            => Copy::inside(area(count, 1, 4));
        copy [3020 cuMemsetD2D8_v2, 7000 cuMemsetD2D8_v2_ptds]
            (to: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize)
            => Copy::inside(area(width, height, 1));
        copy [3020 cuMemsetD2D16_v2, 7000 cuMemsetD2D16_v2_ptds]
            (to: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize)
            => Copy::inside(area(width, height, 2));
        copy [3020 cuMemsetD2D32_v2, 7000 cuMemsetD2D32_v2_ptds]
            (to: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize)
            => Copy::inside(area(width, height, 4));
        copy [2000 cuMemcpyHtoD] (to: c_uint, from: *const c_void, bytes: c_uint) => Copy::from_host(bytes as usize);
        copy [2000 cuMemcpyDtoH] (to: *mut c_void, from: c_uint, bytes: c_uint) => Copy::to_host(bytes as usize);
        copy [2000 cuMemcpyDtoD] (to: c_uint, from: c_uint, bytes: c_uint) => Copy::inside(bytes as usize);
        copy [2000 cuMemcpyDtoA] (to: CUarray, offset: c_uint, from: c_uint, bytes: c_uint) => Copy::inside(bytes as usize);
        copy [2000 cuMemcpyAtoD] (to: c_uint, from: CUarray, offset: c_uint, bytes: c_uint) => Copy::inside(bytes as usize);
        copy [2000 cuMemcpyHtoA] (to: CUarray, offset: c_uint, from: *const c_void, bytes: c_uint)
            => Copy::from_host(bytes as usize);
        copy [2000 cuMemcpyAtoH] (to: *mut c_void, from: CUarray, offset: c_uint, bytes: c_uint)
            => Copy::to_host(bytes as usize);
        copy [2000 cuMemcpyAtoA] (to: CUarray, to_offset: c_uint, from: CUarray, from_offset: c_uint, bytes: c_uint)
            => Copy::inside(bytes as usize);
        copy [2000 cuMemcpy2D, 2000 cuMemcpy2DUnaligned] (copy: *const CUDA_MEMCPY2D_v1) => plane(copy);
        copy [2000 cuMemcpy3D] (copy: *const CUDA_MEMCPY3D_v1) => space(copy);
        copy [2000 cuMemsetD8] (to: c_uint, value: c_uchar, count: c_uint) => Copy::inside(count as usize);
        copy [2000 cuMemsetD16] (to: c_uint, value: c_ushort, count: c_uint) => Copy::inside(area(count as usize, 1, 2));
        copy [2000 cuMemsetD32] (to: c_uint, value: c_uint, count: c_uint) => Copy::inside(area(count as usize, 1, 4));
        copy [2000 cuMemsetD2D8] (to: c_uint, pitch: c_uint, value: c_uchar, width: c_uint, height: c_uint)
            => Copy::inside(area(width as usize, height as usize, 1));
        copy [2000 cuMemsetD2D16] (to: c_uint, pitch: c_uint, value: c_ushort, width: c_uint, height: c_uint)
            => Copy::inside(area(width as usize, height as usize, 2));
        copy [2000 cuMemsetD2D32] (to: c_uint, pitch: c_uint, value: c_uint, width: c_uint, height: c_uint)
            => Copy::inside(area(width as usize, height as usize, 4));

        // Waiting and asking.
        wait [2000 cuStreamSynchronize, 7000 cuStreamSynchronize_ptsz] (stream: CUstream) => Wait::Stream(stream);
        wait [2000 cuCtxSynchronize] () => Wait::Context;
        wait [13000 cuCtxSynchronize_v2] (context: CUcontext) => of_context(context);
        wait [2000 cuEventSynchronize] (event: CUevent) => Wait::Event(event);
        wait [2000 cuStreamQuery, 7000 cuStreamQuery_ptsz] (stream: CUstream) => Wait::QueryStream(stream);
        wait [2000 cuEventQuery] (event: CUevent) => Wait::QueryEvent(event);

        // What happens to streams, events and contexts.
        begin [2000 cuEventRecord, 7000 cuEventRecord_ptsz] (event: CUevent, stream: CUstream)
            => (Note::EventRecorded { event, stream }, Note::EventDestroyed(event));
        begin [11010 cuEventRecordWithFlags, 11010 cuEventRecordWithFlags_ptsz]
            (event: CUevent, stream: CUstream, flags: c_uint)
            => (Note::EventRecorded { event, stream }, Note::EventDestroyed(event));
        // These record all streams of a context, which no note says: nothing is known about the event.
        gone [12050 cuCtxRecordEvent] (context: CUcontext, event: CUevent) => Note::EventDestroyed(event);
        gone [12040 cuGreenCtxRecordEvent] (context: CUgreenCtx, event: CUevent) => Note::EventDestroyed(event);
        gone [2000 cuEventDestroy, 4000 cuEventDestroy_v2] (event: CUevent) => Note::EventDestroyed(event);
        made [2000 cuStreamCreate] (stream: *mut CUstream, flags: c_uint) => out(stream).map(Note::StreamCreated);
        made [5050 cuStreamCreateWithPriority] (stream: *mut CUstream, flags: c_uint, priority: c_int)
            => out(stream).map(Note::StreamCreated);
        made [12050 cuGreenCtxStreamCreate] (stream: *mut CUstream, context: CUgreenCtx, flags: c_uint, priority: c_int)
            => out(stream).map(Note::StreamCreated);
        gone [2000 cuStreamDestroy, 4000 cuStreamDestroy_v2] (stream: CUstream) => Note::StreamDestroyed(stream);
        begin [10000 cuStreamBeginCapture, 10000 cuStreamBeginCapture_ptsz] (stream: CUstream)
            => (Note::CaptureBegan(stream), Note::CaptureEnded(stream));
        begin [10010 cuStreamBeginCapture_v2, 10010 cuStreamBeginCapture_v2_ptsz] (stream: CUstream, mode: c_uint)
            => (Note::CaptureBegan(stream), Note::CaptureEnded(stream));
        begin [12030 cuStreamBeginCaptureToGraph, 12030 cuStreamBeginCaptureToGraph_ptsz]
            (stream: CUstream, graph: CUgraph, after: *const CUgraphNode, edges: *const c_void, count: usize, mode: c_uint)
            => (Note::CaptureBegan(stream), Note::CaptureEnded(stream));
        begin [13030 cuStreamBeginRecaptureToGraph, 13030 cuStreamBeginRecaptureToGraph_ptsz]
            (stream: CUstream, mode: c_uint, graph: CUgraph, call: *mut c_void, data: *mut c_void)
            => (Note::CaptureBegan(stream), Note::CaptureEnded(stream));
        begin [13010 cuStreamBeginCaptureToCig, 13010 cuStreamBeginCaptureToCig_ptsz]
            (stream: CUstream, parameters: *mut c_void)
            => (Note::CaptureBegan(stream), Note::CaptureEnded(stream));
        ended [10000 cuStreamEndCapture, 10000 cuStreamEndCapture_ptsz] (stream: CUstream, graph: *mut CUgraph)
            => Note::CaptureEnded(stream);
        ended [13010 cuStreamEndCaptureToCig, 13010 cuStreamEndCaptureToCig_ptsz] (stream: CUstream)
            => Note::CaptureEnded(stream);
        gone [2000 cuCtxDestroy, 4000 cuCtxDestroy_v2] (context: CUcontext) => Note::ContextDestroyed(context);
        gone [7000 cuDevicePrimaryCtxRelease, 11000 cuDevicePrimaryCtxRelease_v2,
              7000 cuDevicePrimaryCtxReset, 11000 cuDevicePrimaryCtxReset_v2]
            (device: CUdevice) => Note::PrimaryReleased(device);

        // Where the code of a handle comes from.
        made [2000 cuModuleLoad] (module: *mut CUmodule, file: *const c_char)
            => out(module).map(|module| Note::ModuleLoaded { module, image: null() });
        made [2000 cuModuleLoadData] (module: *mut CUmodule, image: *const c_void)
            => out(module).map(|module| Note::ModuleLoaded { module, image });
        made [2010 cuModuleLoadDataEx]
            (module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void)
            => out(module).map(|module| Note::ModuleLoaded { module, image });
        made [2000 cuModuleLoadFatBinary] (module: *mut CUmodule, image: *const c_void)
            => out(module).map(|module| Note::ModuleLoaded { module, image });
        gone [2000 cuModuleUnload] (module: CUmodule) => Note::ModuleUnloaded(module);
        made [2000 cuModuleGetFunction] (function: *mut CUfunction, module: CUmodule, name: *const c_char)
            => out(function).map(|function| Note::FunctionFound { function, module, name });
        made [12040 cuModuleEnumerateFunctions] (functions: *mut CUfunction, count: c_uint, module: CUmodule)
            => functions_of(functions, count, module);
        made [12000 cuLibraryLoadData]
            (library: *mut CUlibrary, image: *const c_void, options: *mut c_uint, values: *mut *mut c_void, count: c_uint,
             library_options: *mut c_uint, library_values: *mut *mut c_void, library_count: c_uint)
            => out(library).map(|library| Note::LibraryLoaded { library, image });
        made [12000 cuLibraryLoadFromFile]
            (library: *mut CUlibrary, file: *const c_char, options: *mut c_uint, values: *mut *mut c_void, count: c_uint,
             library_options: *mut c_uint, library_values: *mut *mut c_void, library_count: c_uint)
            => out(library).map(|library| Note::LibraryLoaded { library, image: null() });
        gone [12000 cuLibraryUnload] (library: CUlibrary) => Note::LibraryUnloaded(library);
        made [12000 cuLibraryGetModule] (module: *mut CUmodule, library: CUlibrary)
            => out(module).map(|module| Note::LibraryModule { library, module });
        made [12000 cuLibraryGetKernel] (kernel: *mut CUkernel, library: CUlibrary, name: *const c_char)
            => out(kernel).map(|kernel| Note::KernelFound { kernel, library, name });
        made [12040 cuLibraryEnumerateKernels] (kernels: *mut CUkernel, count: c_uint, library: CUlibrary)
            => kernels_of(kernels, count, library);
        made [12000 cuKernelGetFunction] (function: *mut CUfunction, kernel: CUkernel)
            => out(function).map(|function| Note::KernelFunction { kernel, function });
        made [10000 cuGraphInstantiate, 11000 cuGraphInstantiate_v2]
            (exec: *mut CUgraphExec, graph: CUgraph, failed: *mut CUgraphNode, log: *mut c_char, bytes: usize)
            => out(exec).map(|exec| Note::GraphInstantiated { exec, graph });
        made [11040 cuGraphInstantiateWithFlags] (exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong)
            => out(exec).map(|exec| Note::GraphInstantiated { exec, graph });
        made [12000 cuGraphInstantiateWithParams, 12000 cuGraphInstantiateWithParams_ptsz]
            (exec: *mut CUgraphExec, graph: CUgraph, parameters: *mut c_void)
            => out(exec).map(|exec| Note::GraphInstantiated { exec, graph });
        made [10020 cuGraphExecUpdate] (exec: CUgraphExec, graph: CUgraph, failed: *mut CUgraphNode, result: *mut c_uint)
            => Some(Note::GraphInstantiated { exec, graph });
        made [12000 cuGraphExecUpdate_v2] (exec: CUgraphExec, graph: CUgraph, result: *mut c_void)
            => Some(Note::GraphInstantiated { exec, graph });
        gone [10000 cuGraphExecDestroy] (exec: CUgraphExec) => Note::GraphDestroyed(exec);

        // Look-ups; dlsym and dlvsym are exports of their own.
        lookup [11030 cuGetProcAddress] (symbol: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64)
            => Question { symbol, address, version, flags };
        lookup [12000 cuGetProcAddress_v2]
            (symbol: *const c_char, address: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_uint)
            => Question { symbol, address, version, flags };
    } };
}
