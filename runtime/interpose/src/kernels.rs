//! Which code a handle stands for, in a best-effort process: module or library, and name.
//!
//! Handles come again after their module was unloaded, so whatever is unloaded is forgotten at once. A handle of which
//! nothing was noted is asked about at the driver; if that leads nowhere its code is not known, and it is counted.

use crate::admit::Note;
use crate::driver;
use crate::image;
use crate::types::*;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// Nodes of a graph that are looked at; a larger graph is known by its handle only.
const NODES: usize = 4096;
/// Launch shapes that are remembered.
const REMEMBERED: usize = 100_000;
/// `CU_GRAPH_NODE_TYPE_KERNEL`.
const KERNEL_NODE: c_uint = 0;

/// Key of a launch, and whether it means the same in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub key: u64,
    pub lasting: bool,
}

/// Where a handle's code comes from: a module or a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Module(usize),
    Library(usize),
}

#[derive(Clone, Debug)]
struct Function {
    source: Source,
    name: String,
}

/// A graph that was instantiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph {
    pub identity: Identity,
    pub nodes: usize,
    /// Thread blocks of all its kernels; 0 if they are not known.
    pub blocks: u64,
}

/// Handle, grid, block, dynamic shared memory.
type LaunchShape = (usize, [u32; 3], [u32; 3], u32);

#[derive(Debug, Default)]
struct Maps {
    /// Hashes of images; `None` where there was none, as from a file.
    images: HashMap<Source, Option<u64>>,
    /// By `CUfunction` and by `CUkernel`: programs launch either.
    functions: HashMap<usize, Function>,
    graphs: HashMap<usize, Graph>,
    /// Libraries by the modules that were got from them, which go with them.
    modules: HashMap<usize, usize>,
    /// Answers of [`Kernels::kernel`], until what they follow from changes.
    launches: HashMap<LaunchShape, Option<Identity>>,
}

impl Maps {
    fn know(&mut self, handle: usize, function: Function) {
        self.functions.insert(handle, function);
        self.launches.clear();
    }

    fn forget(&mut self, gone: impl Fn(Source) -> bool) {
        self.functions.retain(|_, function| !gone(function.source));
        self.images.retain(|&source, _| !gone(source));
        self.launches.clear();
    }
}

/// All that is known.
#[derive(Debug, Default)]
pub struct Kernels(Mutex<Maps>);

impl Kernels {
    fn maps(&self) -> MutexGuard<'_, Maps> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what concerns code. Driver calls that this needs are made before the lock is taken.
    pub fn note(&self, note: Note) {
        match note {
            Note::ModuleLoaded { module, image } => self.loaded(Source::Module(module.0 as usize), image),
            Note::LibraryLoaded { library, image } => self.loaded(Source::Library(library.0 as usize), image),
            Note::LibraryModule { library, module } => {
                let mut maps = self.maps();
                let image = maps.images.get(&Source::Library(library.0 as usize)).copied().flatten();
                maps.images.insert(Source::Module(module.0 as usize), image);
                maps.modules.insert(module.0 as usize, library.0 as usize);
            }
            Note::ModuleUnloaded(module) => self.unloaded(Source::Module(module.0 as usize)),
            Note::LibraryUnloaded(library) => {
                let library = library.0 as usize;
                let mut maps = self.maps();
                let gone = std::mem::take(&mut maps.modules);
                maps.forget(|old| match old {
                    Source::Library(old) => old == library,
                    Source::Module(module) => gone.get(&module) == Some(&library),
                });
                maps.modules = gone.into_iter().filter(|&(_, of)| of != library).collect();
            }
            Note::FunctionFound { function, module, name } => {
                self.found(function.0 as usize, Source::Module(module.0 as usize), name, || {
                    name_of(function)
                });
            }
            Note::KernelFound { kernel, library, name } => {
                let source = Source::Library(library.0 as usize);
                self.found(kernel.0 as usize, source, name, || name_of_kernel(kernel));
            }
            Note::KernelFunction { kernel, function } => {
                let mut maps = self.maps();
                if let Some(known) = maps.functions.get(&(kernel.0 as usize)).cloned() {
                    maps.know(function.0 as usize, known);
                }
            }
            Note::GraphInstantiated { exec, graph } => {
                let known = self.examine(exec, graph);
                self.maps().graphs.insert(exec.0 as usize, known);
            }
            Note::GraphDestroyed(exec) => {
                self.maps().graphs.remove(&(exec.0 as usize));
            }
            // Which modules were in it is not known; the handles of all may come again.
            Note::ContextDestroyed(_) | Note::PrimaryReleased(_) => {
                self.maps().forget(|source| matches!(source, Source::Module(_)));
            }
            _ => {}
        }
    }

    fn loaded(&self, source: Source, image: *const c_void) {
        // SAFETY: the driver has just taken this image, and the note is told before its caller may free it.
        let hash = unsafe { image::hash(image) };
        let mut maps = self.maps();
        // The handle may have been another module's, whose unloading was not seen.
        maps.forget(|old| old == source);
        if let Source::Module(module) = source {
            maps.modules.remove(&module);
        }
        maps.images.insert(source, hash);
    }

    fn unloaded(&self, source: Source) {
        self.maps().forget(|old| old == source);
    }

    fn found(
        &self,
        handle: usize,
        source: Source,
        name: *const c_char,
        ask: impl FnOnce() -> Option<String>,
    ) {
        let name = if name.is_null() { ask() } else { text(name) };
        if let Some(name) = name {
            self.maps().know(handle, Function { source, name });
        }
    }

    /// What a kernel launch is; `None` if its code is not known.
    pub fn kernel(
        &self,
        function: CUfunction,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
    ) -> Option<Identity> {
        let launch = (function.0 as usize, grid, block, shared);
        if let Some(&identity) = self.maps().launches.get(&launch) {
            return identity;
        }
        if self.known(launch.0).is_none() {
            self.ask(function);
        }
        let known = self.known(launch.0);
        let identity = known.and_then(|(image, name)| {
            let (image, shared) = (image?.to_le_bytes(), shared.to_le_bytes());
            let key = hash_of(&[&image, name.as_bytes(), &words(grid), &words(block), &shared]);
            Some(Identity { key, lasting: true })
        });
        let mut maps = self.maps();
        if maps.launches.len() >= REMEMBERED {
            maps.launches.clear();
        }
        maps.launches.insert(launch, identity);
        identity
    }

    /// How a kernel is called; empty if that is not known.
    pub fn name(&self, function: CUfunction) -> String {
        self.known(function.0 as usize).map(|(_, name)| name).unwrap_or_default()
    }

    fn known(&self, handle: usize) -> Option<(Option<u64>, String)> {
        let maps = self.maps();
        let function = maps.functions.get(&handle)?;
        Some((maps.images.get(&function.source).copied().flatten(), function.name.clone()))
    }

    /// Asks the driver about a function that no note told of.
    fn ask(&self, function: CUfunction) {
        let mut module = CUmodule(std::ptr::null_mut());
        // SAFETY: out-parameter is a local; the driver answers with an error to what is no function.
        let asked = unsafe { driver::cuFuncGetModule(&raw mut module, function) };
        if let (true, Some(name)) = (asked.is_success(), name_of(function)) {
            let source = Source::Module(module.0 as usize);
            self.maps().know(function.0 as usize, Function { source, name });
        }
    }

    /// A graph as it was instantiated; one of which nothing was noted is known by its handle.
    pub fn graph(&self, exec: CUgraphExec) -> Graph {
        let known = self.maps().graphs.get(&(exec.0 as usize)).copied();
        known.unwrap_or(Graph { identity: by_handle(exec, 0), nodes: 0, blocks: 0 })
    }

    /// Hashes the kernels of a graph in the order in which the driver lists them.
    fn examine(&self, exec: CUgraphExec, graph: CUgraph) -> Graph {
        let mut count = 0;
        // SAFETY: a null list asks for the number only.
        let listed = unsafe { driver::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count) };
        let unknown = Graph { identity: by_handle(exec, count), nodes: count, blocks: 0 };
        if !listed.is_success() || count == 0 || count > NODES {
            return unknown;
        }
        let mut nodes = vec![CUgraphNode(std::ptr::null_mut()); count];
        // SAFETY: room for `count` nodes.
        let listed = unsafe { driver::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count) };
        if !listed.is_success() {
            return unknown;
        }
        let mut hash = Xxh3::new();
        let (mut blocks, mut lasting) = (0_u64, true);
        hash.update(&(count as u64).to_le_bytes());
        for &node in &nodes[..count.min(nodes.len())] {
            let mut kind = c_uint::MAX;
            // SAFETY: a node of the list; the out-parameter is a local.
            unsafe { driver::cuGraphNodeGetType(node, &raw mut kind) };
            hash.update(&kind.to_le_bytes());
            if kind != KERNEL_NODE {
                continue;
            }
            let (identity, grid) = self.node(node);
            lasting &= identity.is_some();
            hash.update(&identity.map_or(0, |identity| identity.key).to_le_bytes());
            blocks = blocks.saturating_add(blocks_of(grid));
        }
        let identity = Identity { key: hash.digest(), lasting: true };
        Graph { identity: if lasting { identity } else { unknown.identity }, nodes: count, blocks }
    }

    /// What a kernel node launches, and its grid; no blocks if the driver does not tell.
    fn node(&self, node: CUgraphNode) -> (Option<Identity>, [u32; 3]) {
        /// `CUDA_KERNEL_NODE_PARAMS_v2` (cuda.h of CUDA 12 and 13).
        #[repr(C)]
        struct Parameters {
            function: CUfunction,
            grid: [c_uint; 3],
            block: [c_uint; 3],
            shared: c_uint,
            parameters: *mut c_void,
            extra: *mut c_void,
            kernel: CUkernel,
            context: CUcontext,
        }
        // SAFETY: zeros are a value of every field.
        let mut parameters: Parameters = unsafe { std::mem::zeroed() };
        // SAFETY: a kernel node, and room for the parameters.
        let asked = unsafe { driver::cuGraphKernelNodeGetParams_v2(node, (&raw mut parameters).cast()) };
        let Parameters { function, grid, block, shared, kernel, .. } = parameters;
        let handle = if function.is_null() { CUfunction(kernel.0) } else { function };
        if !asked.is_success() {
            return (None, [0; 3]);
        }
        (self.kernel(handle, grid, block, shared), grid)
    }
}

/// Thread blocks of a grid.
pub fn blocks_of(grid: [u32; 3]) -> u64 {
    grid.iter().map(|&side| u64::from(side)).fold(1, u64::saturating_mul)
}

fn by_handle(exec: CUgraphExec, nodes: usize) -> Identity {
    let key = hash_of(&[b"graph", &(exec.0 as u64).to_le_bytes(), &(nodes as u64).to_le_bytes()]);
    Identity { key, lasting: false }
}

/// The identity of what is none: good for this process, and never a source of estimates for others.
pub fn of_handle(function: CUfunction, grid: [u32; 3]) -> Identity {
    Identity { key: hash_of(&[b"handle", &(function.0 as u64).to_le_bytes(), &words(grid)]), lasting: false }
}

/// Copies and fills of about the same size are one.
pub fn of_bytes(from_host: bool, bytes: u64) -> Identity {
    let size = bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
    Identity { key: hash_of(&[b"bytes", &[from_host.into()], &size.to_le_bytes()]), lasting: false }
}

fn words(three: [u32; 3]) -> [u8; 12] {
    let mut bytes = [0; 12];
    for (at, word) in three.iter().enumerate() {
        bytes[at * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn hash_of(parts: &[&[u8]]) -> u64 {
    let mut hash = Xxh3::new();
    for part in parts {
        hash.update(&(part.len() as u32).to_le_bytes());
        hash.update(part);
    }
    hash.digest()
}

fn text(name: *const c_char) -> Option<String> {
    // SAFETY: the driver has taken or given it as a name.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

fn name_of(function: CUfunction) -> Option<String> {
    let mut name = std::ptr::null();
    // SAFETY: the out-parameter is a local.
    let asked = unsafe { driver::cuFuncGetName(&raw mut name, function) };
    asked.is_success().then(|| text(name)).flatten()
}

fn name_of_kernel(kernel: CUkernel) -> Option<String> {
    let mut name = std::ptr::null();
    // SAFETY: the out-parameter is a local.
    let asked = unsafe { driver::cuKernelGetName(&raw mut name, kernel) };
    asked.is_success().then(|| text(name)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut as handle;

    const GRID: [u32; 3] = [4, 2, 1];

    fn load(kernels: &Kernels, module: usize, image: &CStr) {
        kernels.note(Note::ModuleLoaded { module: CUmodule(handle(module)), image: image.as_ptr().cast() });
    }

    fn find(kernels: &Kernels, function: usize, module: usize, name: &CStr) {
        let (function, module) = (CUfunction(handle(function)), CUmodule(handle(module)));
        kernels.note(Note::FunctionFound { function, module, name: name.as_ptr() });
    }

    fn key(kernels: &Kernels, function: usize) -> Option<u64> {
        // The functions of these tests are all noted, so that no driver is asked.
        kernels.kernel(CUfunction(handle(function)), GRID, [32, 1, 1], 0).map(|identity| identity.key)
    }

    #[test]
    fn the_same_code_is_the_same_key_wherever_it_is() {
        let (a, b) = (Kernels::default(), Kernels::default());
        load(&a, 16, c"//code");
        find(&a, 32, 16, c"k");
        find(&a, 64, 16, c"l");
        load(&b, 160, c"//code");
        find(&b, 320, 160, c"k");
        assert_eq!(key(&a, 32), key(&b, 320));
        assert_ne!(key(&a, 32), key(&a, 64));
        assert_eq!(a.name(CUfunction(handle(64))), "l");
    }

    #[test]
    fn an_address_that_comes_again_is_other_code() {
        let kernels = Kernels::default();
        load(&kernels, 16, c"//one");
        find(&kernels, 32, 16, c"k");
        let before = key(&kernels, 32);
        kernels.note(Note::ModuleUnloaded(CUmodule(handle(16))));
        assert_eq!(kernels.known(32), None);
        load(&kernels, 16, c"//two");
        find(&kernels, 32, 16, c"k");
        assert!(key(&kernels, 32).is_some_and(|key| Some(key) != before));
    }

    #[test]
    fn a_kernel_handle_and_its_function_are_one() {
        let kernels = Kernels::default();
        let (library, kernel) = (CUlibrary(handle(16)), CUkernel(handle(48)));
        kernels.note(Note::LibraryLoaded { library, image: c"//lib".as_ptr().cast() });
        kernels.note(Note::KernelFound { kernel, library, name: c"k".as_ptr() });
        kernels.note(Note::KernelFunction { kernel, function: CUfunction(handle(80)) });
        assert!(key(&kernels, 48).is_some());
        assert_eq!(key(&kernels, 48), key(&kernels, 80));
        kernels.note(Note::LibraryModule { library, module: CUmodule(handle(112)) });
        find(&kernels, 144, 112, c"k");
        assert_eq!(key(&kernels, 144), key(&kernels, 48));
        kernels.note(Note::LibraryUnloaded(library));
        assert_eq!((kernels.known(48), kernels.known(80)), (None, None));
        assert_eq!(kernels.known(144), None, "the library's module has gone with it");
    }

    #[test]
    fn a_file_gives_no_identity_but_a_name() {
        let kernels = Kernels::default();
        kernels.note(Note::ModuleLoaded { module: CUmodule(handle(16)), image: std::ptr::null() });
        find(&kernels, 32, 16, c"k");
        assert_eq!(key(&kernels, 32), None);
        assert_eq!(kernels.name(CUfunction(handle(32))), "k");
        assert_eq!(blocks_of(GRID), 8);
        assert_eq!(blocks_of([u32::MAX; 3]), u64::MAX);
    }
}
