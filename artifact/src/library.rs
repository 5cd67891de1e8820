//! The jobs and the machine of a run, each read once.

use crate::gpu::Device;
use crate::root::Root;
use anyhow::{Context, Result, anyhow};
use sim::{Kind, Launch, Machine, Program, Segment};
use std::collections::BTreeMap;
use workloads::profile::ProfileSet;

/// The machine that the kernels were recorded on.
pub const RECORDED_ON: &str = "h200";

/// The programs of all workloads that the plan names, and the machine.
pub struct Library {
    pub machine: Machine,
    /// As in the column `machine`.
    pub machine_label: String,
    /// Cells are measured, in real time, on the device that the label names; programs and machine only size them.
    pub measured: bool,
    programs: BTreeMap<String, std::result::Result<Program, String>>,
}

impl Library {
    /// Reads the machine, and the profiles of these workloads. A missing or bad profile is kept as the error of that
    /// workload: its cells fail, the others run.
    ///
    /// # Errors
    /// The machine cannot be read.
    pub fn load<'a>(root: &Root, machine: &str, ids: impl Iterator<Item = &'a str>) -> Result<Library> {
        Library::load_set(root, machine, ProfileSet::Stock, ids)
    }

    /// The same with the recordings of a set; the machine's label names one that is not the stock set.
    ///
    /// # Errors
    /// As [`Library::load`].
    pub fn load_set<'a>(
        root: &Root,
        machine: &str,
        set: ProfileSet,
        ids: impl Iterator<Item = &'a str>,
    ) -> Result<Library> {
        let model = Machine::load(&root.machine(machine)).with_context(|| {
            format!("there is no usable machine `{machine}`; the machines are the files of machines/")
        })?;
        let recorded_on =
            if machine == RECORDED_ON { None } else { Some(Machine::load(&root.machine(RECORDED_ON))?) };
        let mut programs = BTreeMap::new();
        for id in ids {
            programs.entry(id.to_owned()).or_insert_with(|| {
                let profile = workloads::profile::load_set(&root.workloads(), RECORDED_ON, set, id);
                let program = profile.and_then(|profile| match &recorded_on {
                    None => Ok(profile.program),
                    Some(from) => workloads::extrapolate_job(&profile, from, &model),
                });
                program.map_err(|error| one_line(&error))
            });
        }
        let mut machine_label =
            if recorded_on.is_none() { machine.to_owned() } else { format!("{machine} (extrapolated)") };
        if set != ProfileSet::Stock {
            machine_label += &format!(", {set} profiles");
        }
        Ok(Library { machine: model, machine_label, measured: false, programs })
    }

    /// The same programs on another model of the machine.
    pub fn with_machine(&self, machine: Machine) -> Library {
        let Library { machine_label, measured, programs, .. } = self;
        Library {
            machine,
            machine_label: machine_label.clone(),
            measured: *measured,
            programs: programs.clone(),
        }
    }

    /// The same for cells that are measured on this device.
    pub fn on_device(mut self, device: &Device, set: ProfileSet, root: &Root) -> Library {
        self.machine.memory_bytes = device.memory_bytes;
        self.machine_label = device.label(root);
        if set != ProfileSet::Stock {
            self.machine_label += &format!(", {set} stack");
        }
        self.measured = true;
        self
    }

    /// The first workload without a usable profile, and why.
    pub fn missing(&self) -> Option<&str> {
        self.programs.values().find_map(|program| program.as_ref().err().map(String::as_str))
    }

    /// A library of made-up programs, for [`crate::executor::Fake`].
    ///
    /// # Errors
    /// The machine that this binary was built with is not valid.
    pub fn fake<'a>(ids: impl Iterator<Item = &'a str>) -> Result<Library> {
        let machine =
            Machine::parse(include_str!("../../machines/h200.toml")).context("in machines/h200.toml")?;
        let programs = ids.map(|id| (id.to_owned(), Ok(fake_program(id)))).collect();
        Ok(Library { machine, machine_label: "fake".to_owned(), measured: false, programs })
    }

    /// Lets a made-up program need this much memory.
    #[cfg(test)]
    pub fn set_memory(&mut self, id: &str, bytes: u64) {
        if let Some(Ok(program)) = self.programs.get_mut(id) {
            program.memory_bytes = bytes;
        }
    }

    /// The program of a workload.
    ///
    /// # Errors
    /// It could not be read; the message says why and what to do.
    pub fn program(&self, id: &str) -> Result<&Program> {
        match self.programs.get(id) {
            Some(Ok(program)) => Ok(program),
            Some(Err(message)) => Err(anyhow!("{message}")),
            None => Err(anyhow!("the profile of `{id}` was not read")),
        }
    }
}

/// An error with its causes, without line breaks: it becomes a field of a table.
pub fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fake_program(id: &str) -> Program {
    let launch = Launch {
        kind: Kind::Kernel,
        name: 0,
        blocks: 1,
        threads: 32,
        regs: 32,
        cluster: 1,
        smem: 0,
        duration_ns: [1_000_000; sim::program::QUANTILES],
        gap_ns: 0,
        host_ns: 0,
        dram_bytes: None,
        sm_permille: None,
    };
    let segment = Segment {
        name: "all".to_owned(),
        repeat: 1,
        graph: true,
        launches: vec![launch],
        unprofiled_median_ns: None,
        host_tail_ns: 0,
    };
    Program {
        id: id.to_owned(),
        segments: vec![segment],
        names: vec!["kernel".to_owned()],
        unprofiled_median_ns: 1_000_000,
        unprofiled_mean_ns: 2_000_000,
        memory_bytes: 1,
    }
}
