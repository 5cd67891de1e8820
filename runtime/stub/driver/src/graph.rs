//! Graphs: made by capture, run as one unit.

use crate::call::Call;
use crate::entry::export;
use crate::error::{Answer, Code, put, required};
use crate::state::{State, state};
use crate::stream::note_made;
use crate::types::{Handle, KernelNodeParams};
use crate::work::Work;

/// A graph, or what was instantiated from one. The nodes run in order.
#[derive(Clone, Default)]
pub struct Graph {
    nodes: Vec<Handle>,
    /// Of an instantiated graph.
    work: Vec<Work>,
}

impl Graph {
    pub fn set_work(&mut self, work: Vec<Work>) {
        self.work = work;
    }
}

pub struct GraphNode {
    graph: Handle,
    work: Work,
}

impl State {
    pub fn add_node(&mut self, graph: Handle, work: Work) -> Answer {
        self.graphs.find(graph)?;
        let node = self.nodes.insert(GraphNode { graph, work });
        self.graphs.find_mut(graph)?.nodes.push(node);
        Ok(())
    }

    /// What the graph's nodes do, in order.
    pub fn graph_work(&self, graph: Handle) -> Answer<Vec<Work>> {
        self.graphs.find(graph)?.nodes.iter().map(|&node| Ok(self.nodes.find(node)?.work.clone())).collect()
    }

    pub fn destroy_graph(&mut self, graph: Handle) -> Answer {
        for node in self.graphs.remove(graph)?.nodes {
            self.nodes.remove(node)?;
        }
        Ok(())
    }
}

fn instantiate(call: &Call, out: *mut Handle, graph: Handle) -> Answer {
    required(out)?;
    let mut state = state()?;
    let work = state.graph_work(graph)?;
    let exec = state.execs.insert(Graph { nodes: Vec::new(), work });
    put(out, exec)?;
    note_made(call, out);
    Ok(())
}

/// Up to `*count` handles; `*count` becomes how many there are, as `cuGraphGetNodes` does.
fn list(handles: &[Handle], out: *mut Handle, count: *mut u64) -> Answer {
    required(count)?;
    if out.is_null() {
        return put(count, handles.len() as u64);
    }
    // SAFETY: the caller promises a count to read and that many places to write.
    let room = unsafe { count.read_unaligned() } as usize;
    for (index, place) in (0..room).enumerate() {
        // SAFETY: as above; the manual says that places beyond the last node are set to null.
        unsafe { out.add(place).write_unaligned(handles.get(index).copied().unwrap_or(0)) };
    }
    put(count, handles.len().min(room) as u64)
}

fn kernel_parameters(node: Handle) -> Answer<KernelNodeParams> {
    let state = state()?;
    let Work::Kernel(launch) = &state.nodes.find(node)?.work else { return Err(Code::INVALID_VALUE) };
    Ok(KernelNodeParams {
        function: launch.function,
        grid: launch.grid,
        block: launch.block,
        shared: launch.shared,
        parameters: std::ptr::null_mut(),
        extra: std::ptr::null_mut(),
        kernel: 0,
        context: 0,
    })
}

export! {
    cuGraphCreate: [cuGraphCreate 10000] (out: *mut Handle, flags: u32) |call| {
        required(out)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let graph = state()?.graphs.insert(Graph::default());
        put(out, graph)?;
        note_made(call, out);
        Ok(())
    };
    cuGraphDestroy: [cuGraphDestroy 10000] (graph: Handle) |_call| state()?.destroy_graph(graph);
    cuGraphInstantiate: [cuGraphInstantiate 10000, cuGraphInstantiate_v2 11000]
        (out: *mut Handle, graph: Handle, _node: *mut Handle, _log: *mut u8, _bytes: u64) |call| {
        instantiate(call, out, graph)
    };
    cuGraphInstantiateWithFlags: [cuGraphInstantiateWithFlags 11040] (out: *mut Handle, graph: Handle, _flags: u64) |call| {
        instantiate(call, out, graph)
    };
    cuGraphInstantiateWithParams: [cuGraphInstantiateWithParams 12000, cuGraphInstantiateWithParams_ptsz 12000]
        (out: *mut Handle, graph: Handle, parameters: *mut u8) |call| {
        required(parameters)?;
        instantiate(call, out, graph)
    };
    cuGraphExecDestroy: [cuGraphExecDestroy 10000] (exec: Handle) |_call| {
        state()?.execs.remove(exec).map(drop)
    };
    cuGraphUpload: [cuGraphUpload 11010, cuGraphUpload_ptsz 11010] (exec: Handle, stream: Handle) |call| {
        let mut state = state()?;
        state.execs.find(exec)?;
        state.stream(call, stream).map(drop)
    };
    cuGraphLaunch: [cuGraphLaunch 10000, cuGraphLaunch_ptsz 10000] (exec: Handle, stream: Handle) |call| {
        let mut state = state()?;
        let stream = state.stream(call, stream)?;
        let work = state.execs.find(exec)?.work.clone();
        call.note("nodes", work.len());
        state.enqueue(call, stream, Work::Graph(work)).map(drop)
    };
    cuGraphGetNodes: [cuGraphGetNodes 10000] (graph: Handle, nodes: *mut Handle, count: *mut u64) |_call| {
        list(&state()?.graphs.find(graph)?.nodes, nodes, count)
    };
    cuGraphGetRootNodes: [cuGraphGetRootNodes 10000] (graph: Handle, nodes: *mut Handle, count: *mut u64) |_call| {
        let state = state()?;
        list(state.graphs.find(graph)?.nodes.get(..1).unwrap_or(&[]), nodes, count)
    };
    cuGraphNodeGetType: [cuGraphNodeGetType 10000] (node: Handle, out: *mut u32) |_call| {
        required(out)?;
        put(out, state()?.nodes.find(node)?.work.node_type())
    };
    cuGraphDestroyNode: [cuGraphDestroyNode 10000] (node: Handle) |_call| {
        let mut state = state()?;
        let graph = state.nodes.remove(node)?.graph;
        state.graphs.find_mut(graph)?.nodes.retain(|&other| other != node);
        Ok(())
    };
    cuGraphKernelNodeGetParams: [cuGraphKernelNodeGetParams 10000] (node: Handle, out: *mut [u8; 56]) |_call| {
        required(out)?;
        let parameters = kernel_parameters(node)?;
        // SAFETY: the first version of the structure is the first 56 bytes of the second.
        put(out, unsafe { std::ptr::from_ref(&parameters).cast::<[u8; 56]>().read() })
    };
    cuGraphKernelNodeGetParams: [cuGraphKernelNodeGetParams_v2 12000]
        (node: Handle, out: *mut KernelNodeParams) |_call| {
        required(out)?;
        put(out, kernel_parameters(node)?)
    };
}
