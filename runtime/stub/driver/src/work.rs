//! Work given to a stream: it runs, or it becomes a node of the graph that the stream captures.

use crate::call::Call;
use crate::error::{Answer, Code};
use crate::host;
use crate::settings;
use crate::state::State;
use crate::types::Handle;

/// A kernel's name and launch.
#[derive(Clone, Debug)]
pub struct KernelLaunch {
    pub function: Handle,
    pub name: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

/// One piece of work. Kernels compute nothing; copies and memsets take effect when they are enqueued.
#[derive(Clone)]
pub enum Work {
    Kernel(KernelLaunch),
    Copy(std::sync::Arc<dyn Fn() + Send + Sync>),
    Fill(std::sync::Arc<dyn Fn() + Send + Sync>),
    Host(host::Function),
    /// A graph launched into a capturing stream.
    Graph(Vec<Work>),
    /// An event's record or wait, or an empty node.
    Empty,
}

impl Work {
    /// CUgraphNodeType.
    pub fn node_type(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Graph(_) => 4,
            Self::Empty => 5,
        }
    }

    /// Nanoseconds on the device.
    pub fn duration(&self) -> u64 {
        let Some(settings) = settings::get() else { return 0 };
        match self {
            Self::Kernel(kernel) => settings.durations.kernel(&kernel.name),
            Self::Copy(_) => settings.durations.transfer("memcpy"),
            Self::Fill(_) => settings.durations.transfer("memset"),
            Self::Graph(nodes) => nodes.iter().map(Self::duration).sum(),
            Self::Host(_) | Self::Empty => 0,
        }
    }
}

impl State {
    /// Runs the work in the stream, and gives its end, or adds it to the stream's capture.
    pub fn enqueue(&mut self, call: &Call, stream: Handle, work: Work) -> Answer<Option<u64>> {
        if let Some(id) = self.streams.find(stream)?.capture {
            call.note("captured", id.0);
            return self.capture_work(id, work).map(|()| None);
        }
        self.forbid_implicit(stream)?;
        let (start, end) = self.run(stream, work)?;
        if call.logged() {
            call.note("start", start);
            call.note("finish", end);
        }
        Ok(Some(end))
    }

    /// Runs the work; gives its start and end on the device.
    pub fn run(&mut self, stream: Handle, work: Work) -> Answer<(u64, u64)> {
        match work {
            Work::Host(function) => {
                host::enqueue(self, stream, function)?;
                let end = self.ready(stream)?.at;
                Ok((end, end))
            }
            Work::Graph(nodes) => self.run_graph(stream, nodes),
            Work::Copy(effect) => {
                effect();
                self.occupy(stream, Work::Copy(effect).duration())
            }
            Work::Fill(effect) => {
                effect();
                self.occupy(stream, Work::Fill(effect).duration())
            }
            work => self.occupy(stream, work.duration()),
        }
    }

    /// One node after the other. Nodes between two host functions take one place on the device.
    fn run_graph(&mut self, stream: Handle, nodes: Vec<Work>) -> Answer<(u64, u64)> {
        let (mut first, mut last) = (None, 0);
        let mut pending = 0;
        for node in nodes {
            pending += node.duration();
            match node {
                Work::Copy(effect) | Work::Fill(effect) => effect(),
                Work::Host(function) => {
                    let (start, end) = self.occupy(stream, std::mem::take(&mut pending))?;
                    (first, last) = (first.or(Some(start)), end);
                    host::enqueue(self, stream, function)?;
                }
                Work::Graph(nodes) => {
                    // Its duration is already in `pending`; only effects are left.
                    self.run_effects(stream, nodes)?;
                }
                Work::Kernel(_) | Work::Empty => {}
            }
        }
        let (start, end) = self.occupy(stream, pending)?;
        last = last.max(end);
        Ok((first.unwrap_or(start), last))
    }

    fn run_effects(&mut self, stream: Handle, nodes: Vec<Work>) -> Answer {
        for node in nodes {
            match node {
                Work::Copy(effect) | Work::Fill(effect) => effect(),
                Work::Host(function) => host::enqueue(self, stream, function)?,
                Work::Graph(nodes) => self.run_effects(stream, nodes)?,
                Work::Kernel(_) | Work::Empty => {}
            }
        }
        Ok(())
    }

    /// A synchronous call's stream must not be capturing.
    pub fn forbid_capture(&mut self, stream: Handle) -> Answer {
        match self.streams.find(stream)?.capture {
            None => Ok(()),
            Some(id) => {
                self.invalidate(id);
                Err(Code::STREAM_CAPTURE_UNSUPPORTED)
            }
        }
    }
}
