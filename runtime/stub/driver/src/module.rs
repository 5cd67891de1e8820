//! Modules and libraries, and the kernels in them.
//!
//! A library's kernel is a handle of its own; in each context it has a function in a module that is made when it is first
//! asked for.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};

use crate::call::Call;
use crate::context;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::image::{self, Kernels};
use crate::info;
use crate::log;
use crate::state::{State, state};
use crate::stream::note_made;
use crate::types::Handle;

pub struct Module {
    pub context: Handle,
    kernels: Kernels,
    functions: BTreeMap<String, Handle>,
}

pub struct Library {
    kernels: Kernels,
    made: BTreeMap<String, Handle>,
    /// By context.
    modules: BTreeMap<Handle, Handle>,
}

pub struct Function {
    module: Handle,
    name: CString,
    /// Block and shared memory of the launches of CUDA 2, which don't give them.
    pub shape: [u32; 3],
    pub shared: u32,
}

pub struct Kernel {
    library: Handle,
    name: CString,
}

impl State {
    fn module_function(&mut self, module: Handle, name: &str) -> Answer<Handle> {
        let found = self.modules.find(module)?;
        if let Some(&function) = found.functions.get(name) {
            return Ok(function);
        }
        if !found.kernels.has(name) {
            return Err(Code::NOT_FOUND);
        }
        let text = CString::new(name).map_err(|_| Code::NOT_FOUND)?;
        let function = self.functions.insert(Function { module, name: text, shape: [1; 3], shared: 0 });
        self.modules.find_mut(module)?.functions.insert(name.to_owned(), function);
        Ok(function)
    }

    fn library_kernel(&mut self, library: Handle, name: &str) -> Answer<Handle> {
        let found = self.libraries.find(library)?;
        if let Some(&kernel) = found.made.get(name) {
            return Ok(kernel);
        }
        if !found.kernels.has(name) {
            return Err(Code::NOT_FOUND);
        }
        let text = CString::new(name).map_err(|_| Code::NOT_FOUND)?;
        let kernel = self.kernels.insert(Kernel { library, name: text });
        self.libraries.find_mut(library)?.made.insert(name.to_owned(), kernel);
        Ok(kernel)
    }

    /// The library's module in the current context.
    fn library_module(&mut self, library: Handle) -> Answer<Handle> {
        let context = context::current(self)?;
        let found = self.libraries.find(library)?;
        if let Some(&module) =
            found.modules.get(&context).filter(|module| self.modules.get(**module).is_some())
        {
            return Ok(module);
        }
        let kernels = found.kernels.clone();
        let module = self.modules.insert(Module { context, kernels, functions: BTreeMap::new() });
        self.libraries.find_mut(library)?.modules.insert(context, module);
        Ok(module)
    }

    /// The kernel's function in the current context.
    fn kernel_function(&mut self, kernel: Handle) -> Answer<Handle> {
        let Kernel { library, name } = self.kernels.find(kernel)?;
        let (library, name) = (*library, name.to_string_lossy().into_owned());
        let module = self.library_module(library)?;
        self.module_function(module, &name)
    }

    /// The function that a launch means, which may be a library's kernel, and its name.
    pub fn launched(&mut self, function: Handle) -> Answer<(Handle, String)> {
        context::current(self)?;
        let function = match self.kernels.get(function) {
            Some(_) => self.kernel_function(function)?,
            None => function,
        };
        Ok((function, self.functions.find(function)?.name.to_string_lossy().into_owned()))
    }

    pub fn unload(&mut self, module: Handle) -> Answer {
        for function in self.modules.remove(module)?.functions.into_values() {
            self.functions.remove(function)?;
        }
        Ok(())
    }

    fn unload_library(&mut self, library: Handle) -> Answer {
        let Library { made, modules, .. } = self.libraries.remove(library)?;
        for kernel in made.into_values() {
            self.kernels.remove(kernel)?;
        }
        for module in modules.into_values() {
            // Its context may have gone before.
            let _ = self.unload(module);
        }
        Ok(())
    }
}

fn load(call: &Call, out: *mut Handle, image: *const c_void) -> Answer {
    required(out)?;
    let kernels = image::kernels(image)?;
    let mut state = state()?;
    let context = context::current(&state)?;
    let module = state.modules.insert(Module { context, kernels, functions: BTreeMap::new() });
    put(out, module)?;
    note_made(call, out);
    Ok(())
}

/// Queries of a kernel or function tell null (1) from other wrong handles (400).
fn not_null(handle: Handle) -> Answer {
    if handle == 0 { Err(Code::INVALID_VALUE) } else { Ok(()) }
}

/// The bytes of a file, with a zero behind them.
fn read(path: *const c_char) -> Answer<Vec<u8>> {
    let path = log::text(path).ok_or(Code::INVALID_VALUE)?;
    let mut bytes = std::fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)?;
    bytes.push(0);
    Ok(bytes)
}

fn load_library(call: &Call, out: *mut Handle, image: *const c_void) -> Answer {
    required(out)?;
    let kernels = image::kernels(image)?;
    let library = Library { kernels, made: BTreeMap::new(), modules: BTreeMap::new() };
    let library = state()?.libraries.insert(library);
    put(out, library)?;
    note_made(call, out);
    Ok(())
}

fn named(call: &Call, name: *const c_char) -> Answer<String> {
    let name = log::text(name).ok_or(Code::INVALID_VALUE)?;
    call.note("kernel", &name);
    Ok(name)
}

fn count(kernels: &Kernels) -> u32 {
    match kernels {
        Kernels::Listed(names) => names.len() as u32,
        Kernels::Any => 0,
    }
}

/// Handles of the first `room` kernels, each made by `make`.
fn enumerate(
    out: *mut Handle,
    room: u32,
    kernels: Kernels,
    mut make: impl FnMut(&str) -> Answer<Handle>,
) -> Answer {
    required(out)?;
    let Kernels::Listed(names) = kernels else { return Err(Code::NOT_SUPPORTED) };
    for (index, name) in names.iter().take(room as usize).enumerate() {
        // SAFETY: the caller promises `room` places.
        put(unsafe { out.add(index) }, make(name)?)?;
    }
    Ok(())
}

export! {
    cuModuleLoad: [cuModuleLoad 2000] (out: *mut Handle, path: *const c_char) |call| {
        load(call, out, read(path)?.as_ptr().cast())
    };
    cuModuleLoadData: [cuModuleLoadData 2000] (out: *mut Handle, image: *const c_void) |call| {
        load(call, out, image)
    };
    cuModuleLoadDataEx: [cuModuleLoadDataEx 2010]
        (out: *mut Handle, image: *const c_void, _count: u32, _options: *mut u32, _values: *mut usize) |call| {
        load(call, out, image)
    };
    cuModuleLoadFatBinary: [cuModuleLoadFatBinary 2000] (out: *mut Handle, image: *const c_void) |call| {
        load(call, out, image)
    };
    cuModuleUnload: [cuModuleUnload 2000] (module: Handle) |_call| state()?.unload(module);
    cuModuleGetFunction: [cuModuleGetFunction 2000] (out: *mut Handle, module: Handle, name: *const c_char) |call| {
        required(out)?;
        let name = named(call, name)?;
        put(out, state()?.module_function(module, &name)?)?;
        note_made(call, out);
        Ok(())
    };
    cuModuleGetFunctionCount: [cuModuleGetFunctionCount 12040] (out: *mut u32, module: Handle) |_call| {
        required(out)?;
        put(out, count(&state()?.modules.find(module)?.kernels))
    };
    cuModuleEnumerateFunctions: [cuModuleEnumerateFunctions 12040] (out: *mut Handle, room: u32, module: Handle) |_call| {
        let mut state = state()?;
        let kernels = state.modules.find(module)?.kernels.clone();
        enumerate(out, room, kernels, |name| state.module_function(module, name))
    };
    cuModuleGetGlobal: [cuModuleGetGlobal 2000, cuModuleGetGlobal_v2 3020]
        (_out: *mut usize, _bytes: *mut u64, module: Handle, name: *const c_char) |_call| {
        required(name)?;
        state()?.modules.find(module)?;
        Err(Code::NOT_FOUND)
    };
    cuModuleGetLoadingMode: [cuModuleGetLoadingMode 11070] (out: *mut u32) |_call| put(out, 2);
    cuLibraryLoadData: [cuLibraryLoadData 12000]
        (out: *mut Handle, image: *const c_void, _jit_options: *mut u32, _jit_values: *mut usize, _jit_count: u32,
            _options: *mut u32, _values: *mut usize, _count: u32) |call| {
        load_library(call, out, image)
    };
    cuLibraryLoadFromFile: [cuLibraryLoadFromFile 12000]
        (out: *mut Handle, path: *const c_char, _jit_options: *mut u32, _jit_values: *mut usize, _jit_count: u32,
            _options: *mut u32, _values: *mut usize, _count: u32) |call| {
        load_library(call, out, read(path)?.as_ptr().cast())
    };
    cuLibraryUnload: [cuLibraryUnload 12000] (library: Handle) |_call| state()?.unload_library(library);
    cuLibraryGetKernel: [cuLibraryGetKernel 12000] (out: *mut Handle, library: Handle, name: *const c_char) |call| {
        required(out)?;
        let name = named(call, name)?;
        put(out, state()?.library_kernel(library, &name)?)?;
        note_made(call, out);
        Ok(())
    };
    cuLibraryGetModule: [cuLibraryGetModule 12000] (out: *mut Handle, library: Handle) |call| {
        required(out)?;
        put(out, state()?.library_module(library)?)?;
        note_made(call, out);
        Ok(())
    };
    cuLibraryGetKernelCount: [cuLibraryGetKernelCount 12040] (out: *mut u32, library: Handle) |_call| {
        required(out)?;
        put(out, count(&state()?.libraries.find(library)?.kernels))
    };
    cuLibraryEnumerateKernels: [cuLibraryEnumerateKernels 12040] (out: *mut Handle, room: u32, library: Handle) |_call| {
        let mut state = state()?;
        let kernels = state.libraries.find(library)?.kernels.clone();
        enumerate(out, room, kernels, |name| state.library_kernel(library, name))
    };
    cuKernelGetFunction: [cuKernelGetFunction 12000] (out: *mut Handle, kernel: Handle) |call| {
        required(out)?;
        put(out, state()?.kernel_function(kernel)?)?;
        note_made(call, out);
        Ok(())
    };
    cuKernelGetLibrary: [cuKernelGetLibrary 12050] (out: *mut Handle, kernel: Handle) |_call| {
        required(out)?;
        not_null(kernel)?;
        put(out, state()?.kernels.find(kernel)?.library)
    };
    cuKernelGetName: [cuKernelGetName 12030] (out: *mut *const c_char, kernel: Handle) |_call| {
        required(out)?;
        not_null(kernel)?;
        put(out, state()?.kernels.find(kernel)?.name.as_ptr())
    };
    cuKernelGetAttribute: [cuKernelGetAttribute 12000] (out: *mut i32, attribute: u32, kernel: Handle, _device: i32) |_call| {
        required(out)?;
        state()?.kernels.find(kernel)?;
        put(out, info::function_attribute(attribute)?)
    };
    cuKernelSetAttribute: [cuKernelSetAttribute 12000] (_attribute: u32, _value: i32, kernel: Handle, _device: i32) |_call| {
        state()?.kernels.find(kernel).map(drop)
    };
    cuFuncGetName: [cuFuncGetName 12030] (out: *mut *const c_char, function: Handle) |_call| {
        required(out)?;
        not_null(function)?;
        put(out, state()?.functions.find(function)?.name.as_ptr())
    };
    cuFuncGetModule: [cuFuncGetModule 11000] (out: *mut Handle, function: Handle) |_call| {
        required(out)?;
        not_null(function)?;
        put(out, state()?.functions.find(function)?.module)
    };
    cuFuncGetAttribute: [cuFuncGetAttribute 2020] (out: *mut i32, attribute: u32, function: Handle) |_call| {
        required(out)?;
        state()?.launched(function)?;
        put(out, info::function_attribute(attribute)?)
    };
    cuFuncSetAttribute: [cuFuncSetAttribute 9000] (function: Handle, _attribute: u32, _value: i32) |_call| {
        state()?.launched(function).map(drop)
    };
    cuFuncSetCacheConfig: [cuFuncSetCacheConfig 3000] (function: Handle, _config: u32) |_call| {
        state()?.launched(function).map(drop)
    };
    cuFuncIsLoaded: [cuFuncIsLoaded 12040] (out: *mut u32, function: Handle) |_call| {
        required(out)?;
        state()?.functions.find(function)?;
        put(out, 1)
    };
    cuFuncLoad: [cuFuncLoad 12040] (function: Handle) |_call| state()?.functions.find(function).map(drop);
    // The images that the stub reads don't tell what the parameters are.
    cuFuncGetParamInfo: [cuFuncGetParamInfo 12040] (function: Handle, _index: u64, _offset: *mut u64, _bytes: *mut u64) |_call| {
        state()?.functions.find(function)?;
        Err(Code::INVALID_VALUE)
    };
    cuKernelGetParamInfo: [cuKernelGetParamInfo 12040] (kernel: Handle, _index: u64, _offset: *mut u64, _bytes: *mut u64) |_call| {
        state()?.kernels.find(kernel)?;
        Err(Code::INVALID_VALUE)
    };
}
