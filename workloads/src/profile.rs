//! `workloads/profiles/<gpu>/<id>.parquet` and `.toml`: a recorded job as the simulator runs it. The files of the artifact
//! set are in `workloads/profiles/<gpu>-artifact`.

use crate::definition::{self, ArtifactProfile};
use crate::table::Table;
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sim::program::QUANTILES;
use sim::{Kind, Launch, Program, Segment};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Columns of the duration quantiles, in the order of [`sim::program::QUANTILE_PERMILLE`].
const QUANTILE_COLUMNS: [&str; QUANTILES] = ["q00", "q10", "q25", "q50", "q75", "q90", "q100"];

/// Longest time that a column may hold, ns: a launch of over 4 s is a mistake in the recording.
const MAX_NS: u64 = u32::MAX as u64;

/// Which software stack the jobs were recorded on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileSet {
    /// PyTorch as it is distributed, with cuDNN.
    #[default]
    Stock,
    /// Stands for upstream's stack: no cuDNN, no TF32. Jobs whose kernels this does not change have one recording.
    Artifact,
}

impl fmt::Display for ProfileSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProfileSet::Stock => "stock",
            ProfileSet::Artifact => "artifact",
        })
    }
}

/// What we read of the TOML; the rest is provenance for people.
#[derive(Deserialize)]
struct Wire {
    workload: String,
    /// Recordings from before there were two sets do not say.
    #[serde(default)]
    stack: ProfileSet,
    parquet_sha256: String,
    host_scale: f64,
    busy_ns: u64,
    unprofiled: Unprofiled,
    segment: BTreeMap<String, WireSegment>,
    memory: Memory,
    versions: Versions,
}

/// Durations of an iteration or request without a profiler, ns.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Unprofiled {
    pub n: u64,
    pub mean_ns: u64,
    pub median_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
}

#[derive(Deserialize)]
struct WireSegment {
    unprofiled: Option<Unprofiled>,
    repeats: u32,
    launches: usize,
    tail_ns: u64,
    host_scale: f64,
}

#[derive(Deserialize)]
struct Memory {
    peak_reserved_bytes: u64,
}

#[derive(Deserialize)]
struct Versions {
    gpu: String,
    driver: String,
}

/// A recorded job.
#[derive(Clone, Debug)]
pub struct Profile {
    pub program: Program,
    /// How long the host waits for its input after each iteration; `program` has it already, ns.
    pub input_wait_ns: u64,
    pub unprofiled: Unprofiled,
    /// Product name of the GPU that it was recorded on.
    pub gpu: String,
    pub driver: String,
    /// Factor that brought the profiled host gaps back to the unprofiled duration.
    pub host_scale: f64,
}

/// Reads the stock profile of a workload or variant; see [`load_set`].
///
/// # Errors
/// As [`load_set`].
pub fn load(workloads: &Path, gpu: &str, id: &str) -> Result<Profile> {
    load_set(workloads, gpu, ProfileSet::Stock, id)
}

/// Reads the profile of a workload or variant in a set. In the artifact set that is the stock recording where the
/// definition says that the kernels are the same.
///
/// # Errors
/// A missing file (with the way to record one), a file that differs from its checksum or was recorded on the other stack,
/// and every value that cannot be, by file, row and column.
pub fn load_set(workloads: &Path, gpu: &str, set: ProfileSet, id: &str) -> Result<Profile> {
    let all = definition::load_all(workloads)?;
    let workload = all.get(id).with_context(|| {
        let known: Vec<_> = all.keys().map(String::as_str).collect();
        format!("unknown workload `{id}`; known workloads: {}", known.join(", "))
    })?;
    let recorded = &workload.definition.id;
    let stack = match workload.definition.artifact.profile {
        ArtifactProfile::Recorded => set,
        ArtifactProfile::Same => ProfileSet::Stock,
    };
    let folder = workloads.join("profiles").join(match stack {
        ProfileSet::Stock => gpu.to_owned(),
        ProfileSet::Artifact => format!("{gpu}-artifact"),
    });
    let (toml, parquet) =
        (folder.join(format!("{recorded}.toml")), folder.join(format!("{recorded}.parquet")));
    for path in [&toml, &parquet] {
        if !path.is_file() {
            bail!(
                "the {stack} profile of `{id}` is missing: no {}; workloads/README.md says how to record it \
                 (record.py --workload {recorded} --stack {stack})",
                path.display()
            );
        }
    }
    let text = bounded::text(&toml, bounded::DEFINITION)
        .with_context(|| format!("cannot read {}", toml.display()))?;
    let wire: Wire = toml::from_str(&text).with_context(|| format!("in {}", toml.display()))?;
    wire.check(recorded, stack).with_context(|| format!("in {}", toml.display()))?;
    let bytes = bounded::bytes(&parquet, bounded::SAMPLES)
        .with_context(|| format!("cannot read {}", parquet.display()))?;
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(
        digest == wire.parquet_sha256,
        "{} has the SHA-256 {digest}, but {} says {}; take both files from one recording",
        parquet.display(),
        toml.display(),
        wire.parquet_sha256
    );
    let mut program = program(bytes, &wire, id).with_context(|| format!("in {}", parquet.display()))?;
    let input_wait_ns =
        workload.gpu_busy_share.map_or(0, |share| wait_for_input(&mut program, wire.busy_ns, share));
    Ok(Profile {
        program,
        input_wait_ns,
        unprofiled: wire.unprofiled,
        gpu: wire.versions.gpu,
        driver: wire.versions.driver,
        host_scale: wire.host_scale,
    })
}

impl Wire {
    fn check(&self, recorded: &str, stack: ProfileSet) -> Result<()> {
        ensure!(
            self.workload == recorded,
            "workload = `{}` is not the file's name `{recorded}`",
            self.workload
        );
        ensure!(
            self.stack == stack,
            "stack = `{}`, but this folder holds {stack} recordings; move the files or record again with --stack {stack}",
            self.stack
        );
        let scales =
            self.segment.iter().map(|(name, s)| (format!("segment.{name}.host_scale"), s.host_scale));
        for (name, scale) in scales.chain([("host_scale".to_owned(), self.host_scale)]) {
            ensure!((0.0..=10.0).contains(&scale), "{name} = {scale} is not a factor from 0 to 10");
        }
        ensure!(!self.segment.is_empty(), "there is no segment");
        for (name, segment) in &self.segment {
            ensure!(segment.repeats > 0, "segment.{name}.repeats must be at least 1");
        }
        let Unprofiled { n, mean_ns, median_ns, p90_ns, p99_ns } = self.unprofiled;
        ensure!(
            n > 0 && mean_ns > 0 && 0 < median_ns && median_ns <= p90_ns && p90_ns <= p99_ns,
            "unprofiled: n = {n}, mean_ns = {mean_ns}, median_ns = {median_ns}, p90_ns = {p90_ns}, p99_ns = {p99_ns} \
             are not durations of something that ran"
        );
        Ok(())
    }
}

/// Builds the program; segments come in the order of their first row, streams are ignored: launches run in the order
/// in which the host made them, which is how the recorded jobs use their streams.
fn program(bytes: Vec<u8>, wire: &Wire, id: &str) -> Result<Program> {
    let table = Table::read(bytes)?;
    let small = u64::from(u32::MAX);
    let (segment, index) = (table.texts("segment")?, table.numbers("index", small)?);
    let (kind, name) = (table.texts("kind")?, table.texts("name")?);
    let sizes = |names: [&str; 3]| -> Result<Vec<u64>> {
        let [x, y, z] = names.map(|name| table.numbers(name, small));
        let (x, y, z) = (x?, y?, z?);
        Ok((0..table.rows()).map(|row| x[row].saturating_mul(y[row]).saturating_mul(z[row])).collect())
    };
    let blocks = sizes(["grid_x", "grid_y", "grid_z"])?;
    let threads = sizes(["block_x", "block_y", "block_z"])?;
    let regs = table.numbers("regs", 255)?;
    let smem = [table.numbers("smem_static", small / 2)?, table.numbers("smem_dynamic", small / 2)?];
    let durations = QUANTILE_COLUMNS.map(|name| table.numbers(name, MAX_NS));
    let durations: Vec<_> = durations.into_iter().collect::<Result<_>>()?;
    let (gap, host) = (table.numbers("gap_ns", MAX_NS)?, table.optional("host_ns", u64::MAX)?);
    let cluster = table.optional("cluster", 64)?;
    let dram = table.optional("dram_bytes", u64::MAX)?;
    let sm = table.floats("sm_pct")?;

    let mut names: Vec<String> = Vec::new();
    let mut segments: Vec<Segment> = Vec::new();
    for row in 0..table.rows() {
        let wrong = |column: &str, value: &dyn std::fmt::Display, what: &str| {
            format!("row {row}, column {column}: {value} {what}")
        };
        if segments.last().is_none_or(|s| s.name != segment[row]) {
            let is_new = segments.iter().all(|s| s.name != segment[row]);
            ensure!(is_new, wrong("segment", &segment[row], "starts a second time"));
            let known = wire.segment.get(&segment[row]);
            let known =
                known.with_context(|| wrong("segment", &segment[row], "is not described in the TOML"))?;
            segments.push(Segment {
                name: segment[row].clone(),
                repeat: known.repeats,
                graph: false,
                launches: Vec::new(),
                unprofiled_median_ns: known.unprofiled.map(|u| u.median_ns),
                host_tail_ns: scaled(known.tail_ns, known.host_scale),
            });
        }
        let current = segments.last_mut().context("no segment")?;
        let scale = wire.segment[&segment[row]].host_scale;
        ensure!(
            index[row] == current.launches.len() as u64,
            wrong("index", &index[row], &format!("should be {}", current.launches.len()))
        );
        let kind = match kind[row].as_str() {
            "kernel" => Kind::Kernel,
            "memcpy" => Kind::Memcpy,
            "memset" => Kind::Memset,
            other => bail!(wrong("kind", &other, "is none of kernel, memcpy, memset")),
        };
        let mut duration_ns = [0; QUANTILES];
        for (column, values) in durations.iter().enumerate() {
            duration_ns[column] = values[row] as u32;
            let ordered = column == 0 || duration_ns[column - 1] <= duration_ns[column];
            ensure!(
                ordered,
                wrong(QUANTILE_COLUMNS[column], &values[row], "is below the quantile before it")
            );
        }
        if kind == Kind::Kernel {
            ensure!(blocks[row] > 0, wrong("grid_x", &blocks[row], "blocks in the grid"));
            ensure!(
                (1..=1024).contains(&threads[row]),
                wrong("block_x", &threads[row], "threads in a block")
            );
        }
        let name_index = names.iter().position(|known| *known == name[row]).unwrap_or_else(|| {
            names.push(name[row].clone());
            names.len() - 1
        });
        let sm_permille = match sm[row] {
            Some(percent) if (0.0..=100.5).contains(&percent) => Some((percent * 10.0).round() as u32),
            Some(percent) => bail!(wrong("sm_pct", &percent, "is not a percentage")),
            None => None,
        };
        // A launch whose host call was not recorded is made right after the one before it.
        let host_ns = match host[row] {
            Some(ns) => scaled(ns, scale),
            None => current.launches.last().map_or(0, |launch| launch.host_ns),
        };
        current.launches.push(Launch {
            kind,
            name: name_index as u32,
            blocks: if kind == Kind::Kernel { blocks[row] } else { 0 },
            threads: threads[row] as u32,
            regs: regs[row] as u32,
            // 0 as well as nothing: launched without clusters.
            cluster: cluster[row].unwrap_or(0).max(1) as u32,
            smem: (smem[0][row] + smem[1][row]) as u32,
            duration_ns,
            gap_ns: scaled(gap[row], scale) as u32,
            host_ns,
            dram_bytes: dram[row],
            sm_permille,
        });
    }
    for (name, described) in &wire.segment {
        let found = segments.iter().find(|s| s.name == *name).map_or(0, |s| s.launches.len());
        ensure!(
            found == described.launches,
            "segment {name} has {found} rows, the TOML says {}",
            described.launches
        );
    }
    for segment in &mut segments {
        segment.graph = is_graph(&segment.launches);
    }
    Ok(Program {
        id: id.to_owned(),
        segments,
        names,
        unprofiled_median_ns: wire.unprofiled.median_ns,
        unprofiled_mean_ns: wire.unprofiled.mean_ns,
        memory_bytes: wire.memory.peak_reserved_bytes,
    })
}

/// Whether one host call made most launches: the nodes of a CUDA graph share the time of its launch call.
fn is_graph(launches: &[Launch]) -> bool {
    let mut calls: BTreeMap<u64, usize> = BTreeMap::new();
    for launch in launches {
        *calls.entry(launch.host_ns).or_default() += 1;
    }
    launches.len() > 1 && calls.values().any(|n| n * 2 > launches.len())
}

fn scaled(ns: u64, factor: f64) -> u64 {
    (ns as f64 * factor).round() as u64
}

/// Makes the host wait after each iteration, as for the input pipeline that the recording leaves out, until the device
/// was busy for `share` of it. The recorded mean and median grow by the same wait, which is returned.
fn wait_for_input(program: &mut Program, busy_ns: u64, share: f64) -> u64 {
    let wanted = scaled(busy_ns, 1.0 / share);
    let wait = wanted.saturating_sub(program.unprofiled_median_ns);
    add_wait(program, wait);
    wait
}

/// Makes the host wait longer after each iteration.
pub(crate) fn add_wait(program: &mut Program, wait: u64) {
    if let Some(last) = program.segments.last_mut() {
        // A repeated segment waits at each of its ends; together they make the whole wait.
        last.host_tail_ns += wait / u64::from(last.repeat);
    }
    program.unprofiled_median_ns += wait;
    program.unprofiled_mean_ns += wait;
}

#[cfg(test)]
mod tests;
