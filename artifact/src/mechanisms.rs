//! `mechanisms.csv` of a run folder: what each mechanism alone costs a job, as far as the machine's constants say.
//!
//! These are inputs of the simulation turned into percentages of named jobs, not results of it: each row has the origin and
//! the source of the constant behind it. Where there is none, the row has a reason and no number.

use crate::experiment::Experiment;
use crate::h200_check;
use crate::host_cost::{self, HostCost, Mechanism};
use crate::library::Library;
use crate::root::Root;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sim::machine::Constant;
use sim::occupancy::blocks_per_sm;
use sim::program::MEDIAN;
use sim::{Kind, Launch, Machine, Program};

/// The file in the run folder.
pub const NAME: &str = "mechanisms.csv";

/// Upstream cuts kernels to stop within this (10^-1.5 ms, the threshold of the published runs), ns.
const THRESHOLD_NS: f64 = 31_600.0;

/// One row. An empty field is a missing number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub mechanism: String,
    pub job: String,
    pub quantity: String,
    pub better: String,
    pub unit: String,
    pub baseline: Option<f64>,
    pub with: Option<f64>,
    pub overhead: Option<f64>,
    pub machine: String,
    pub origin: String,
    pub source: String,
    pub reason: String,
}

/// What is paid, and by whom.
struct Cost<'a> {
    mechanism: &'static str,
    /// What is paid each time, ns.
    each: f64,
    /// How often it is paid, in words.
    rule: &'static str,
    /// Where the number comes from.
    constant: &'a Constant,
}

/// The rows of these experiments' jobs.
///
/// # Errors
/// The measured cells cannot be read.
pub fn rows(root: &Root, experiments: &[&Experiment], library: &Library) -> Result<Vec<Row>> {
    let jobs = |list: fn(&Experiment) -> &Vec<String>| {
        let mut ids: Vec<&String> = Vec::new();
        for id in experiments.iter().flat_map(|experiment| list(experiment)) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    };
    let (servers, trainings) = (jobs(|e| &e.inference), jobs(|e| &e.training));
    let machine = &library.machine;
    let rules = &machine.rules;
    let mut rows = Vec::new();

    if machine.name == crate::library::RECORDED_ON
        && let Some((job, baseline, with)) = h200_check::mps_alone(root)?
    {
        rows.push(Row {
            mechanism: "MPS alone".to_owned(),
            origin: "measured".to_owned(),
            source: format!("{}, first run, medians of the server alone", h200_check::MEASURED),
            ..latency(&job, baseline, with)
        });
    }
    let graph = Cost::of("MPS alone", &rules.mps_graph_launch_ns, "once per launched CUDA graph");
    for id in &servers {
        rows.push(graph.row(id, library, |program| {
            let graphs =
                program.segments.iter().filter(|s| s.graph).map(|s| f64::from(s.repeat)).sum::<f64>();
            Paid::Latency(graphs * rules.mps_graph_launch_ns.value)
        }));
    }
    rows.push(missing("MPS alone", "throughput", "no measurement of a training alone as an MPS client"));
    rows.extend(host_costs(&host_cost::load(root, &machine.name)?, library, &servers, &trainings));
    rows.push(missing(
        "profiling, cold start",
        "throughput",
        "upstream fills its cache before the measured run and counts none of it; the simulator begins with a full one",
    ));
    // Both numbers are common figures; the launch is the larger one.
    let per_slice = rules.launch_latency_ns.value + rules.sync_latency_ns.value;
    let slices = Cost {
        each: per_slice,
        ..Cost::of(
            "slicing",
            &rules.launch_latency_ns,
            "to launch and await a further slice; kernels longer than 31.6 us cut to slices of that length, of a wave at least",
        )
    };
    let worker = Cost::of(
        "persistent blocks",
        &rules.gated_block_ns,
        "per block that a worker takes, in kernels longer than 31.6 us",
    );
    let gate = Cost::of(
        "cubin gate",
        &rules.gated_block_ns,
        "per block in a multiprocessor's place, in kernels of several rounds of blocks that are neither of clusters nor nvjet",
    );
    let flag = Cost::of("cubin gate", &rules.flag_write_ns, "one flag per request");
    for id in &trainings {
        rows.push(slices.row(id, library, |program| {
            Paid::Throughput(sum(program, |launch| {
                let wanted = (median(launch) / THRESHOLD_NS).ceil().min(waves(launch, machine));
                (wanted - 1.0).max(0.0) * per_slice
            }))
        }));
    }
    for id in &trainings {
        rows.push(worker.row(id, library, |program| {
            let long = |launch: &Launch| median(launch) > THRESHOLD_NS;
            let blocks = |launch: &Launch| if long(launch) { waves(launch, machine) } else { 0.0 };
            Paid::Throughput(sum(program, |launch| blocks(launch) * rules.gated_block_ns.value))
        }));
    }
    for id in &trainings {
        rows.push(gate.row(id, library, |program| {
            Paid::Throughput(gated_blocks(program, machine) * rules.gated_block_ns.value)
        }));
    }
    for id in &servers {
        rows.push(flag.row(id, library, |_| Paid::Latency(rules.flag_write_ns.value)));
    }
    for row in &mut rows {
        row.machine.clone_from(&library.machine_label);
    }
    Ok(rows)
}

/// What the runtime's own code costs the host, where it was measured; the simulator charges nothing for it.
fn host_costs(costs: &[HostCost], library: &Library, servers: &[&String], trainings: &[&String]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (mechanism, name) in [(Mechanism::Hook, "hook"), (Mechanism::Admission, "admission")] {
        let Some(measured) = costs.iter().find(|cost| cost.mechanism == mechanism) else {
            let reason = format!("not measured on this machine: {} has no number", host_cost::NAME);
            rows.extend(["latency", "throughput"].map(|quantity| missing(name, quantity, &reason)));
            continue;
        };
        let constant = measured.constant();
        let cost = Cost::of(
            name,
            &constant,
            "once per launch call, all of it added as if the device always waited for its host",
        );
        let more = |program: &Program| host_cost::launch_calls(program) * measured.launch_ns;
        match mechanism {
            Mechanism::Hook => {
                let row = |id: &&String| cost.row(id, library, |program| Paid::Latency(more(program)));
                rows.extend(servers.iter().map(row));
            }
            Mechanism::Admission => {
                rows.push(missing(name, "latency", "no policy is asked about high-priority launches"));
            }
        }
        let row = |id: &&String| cost.row(id, library, |program| Paid::Throughput(more(program)));
        rows.extend(trainings.iter().map(row));
    }
    rows
}

/// Time that a request or an iteration takes longer, ns.
enum Paid {
    Latency(f64),
    Throughput(f64),
}

impl<'a> Cost<'a> {
    fn of(mechanism: &'static str, constant: &'a Constant, rule: &'static str) -> Cost<'a> {
        Cost { mechanism, each: constant.value, rule, constant }
    }

    fn row(&self, id: &str, library: &Library, paid: impl Fn(&Program) -> Paid) -> Row {
        let row = match library.program(id) {
            Err(error) => Row { job: id.to_owned(), reason: format!("{error:#}"), ..Row::default() },
            Ok(program) => {
                let alone = program.unprofiled_mean_ns as f64;
                match paid(program) {
                    Paid::Latency(more) => latency(id, alone / 1e6, (alone + more) / 1e6),
                    Paid::Throughput(more) => throughput(id, 1e9 / alone, 1e9 / (alone + more)),
                }
            }
        };
        Row {
            mechanism: self.mechanism.to_owned(),
            origin: format!("{:?}", self.constant.origin).to_lowercase(),
            source: format!("{} ns {}; {}", self.each, self.rule, self.constant.source),
            ..row
        }
    }
}

/// Upstream's formula for latencies: `x / baseline - 1`. Both in ms.
fn latency(job: &str, baseline: f64, with: f64) -> Row {
    number(job, ["latency", "lower", "ms"], baseline, with, with / baseline - 1.0)
}

/// Its benchmark summary's for throughputs: `(baseline - x) / baseline`. Both in 1/s.
fn throughput(job: &str, baseline: f64, with: f64) -> Row {
    number(job, ["throughput", "higher", "1/s"], baseline, with, (baseline - with) / baseline)
}

fn number(job: &str, [quantity, better, unit]: [&str; 3], baseline: f64, with: f64, overhead: f64) -> Row {
    Row {
        job: job.to_owned(),
        quantity: quantity.to_owned(),
        better: better.to_owned(),
        unit: unit.to_owned(),
        baseline: Some(baseline),
        with: Some(with),
        overhead: Some(overhead),
        ..Row::default()
    }
}

fn missing(mechanism: &str, quantity: &str, reason: &str) -> Row {
    let better = if quantity == "latency" { "lower" } else { "higher" };
    Row {
        mechanism: mechanism.to_owned(),
        quantity: quantity.to_owned(),
        better: better.to_owned(),
        reason: reason.to_owned(),
        ..Row::default()
    }
}

/// Over the kernels of one iteration.
fn sum(program: &Program, cost: impl Fn(&Launch) -> f64) -> f64 {
    let of = |segment: &sim::Segment| {
        let kernels = segment.launches.iter().filter(|launch| launch.kind == Kind::Kernel);
        f64::from(segment.repeat) * kernels.map(&cost).sum::<f64>()
    };
    program.segments.iter().map(of).sum()
}

/// Rounds of blocks that pass a gate in one iteration.
fn gated_blocks(program: &Program, machine: &Machine) -> f64 {
    sum(program, |launch| {
        let name = program.names.get(launch.name as usize).map_or("", String::as_str);
        if launch.cuttable(name, machine) { waves(launch, machine) } else { 0.0 }
    })
}

fn median(launch: &Launch) -> f64 {
    f64::from(launch.duration_ns[MEDIAN])
}

/// Blocks that run one after the other in one place of a multiprocessor.
fn waves(launch: &Launch, machine: &Machine) -> f64 {
    let places = blocks_per_sm(&machine.sm, launch.threads, launch.regs, launch.smem) * machine.sms;
    launch.blocks.div_ceil(u64::from(places.max(1))) as f64
}

/// The text of the file.
///
/// # Errors
/// None that a caller can cause.
pub fn to_csv(rows: &[Row]) -> Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().context("cannot finish the table of mechanisms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(blocks: u64, duration_ns: u32) -> Launch {
        Launch {
            kind: Kind::Kernel,
            name: 0,
            blocks,
            // Two blocks of 1,024 threads to a multiprocessor: 264 places.
            threads: 1024,
            regs: 32,
            cluster: 1,
            smem: 0,
            duration_ns: [duration_ns; sim::program::QUANTILES],
            gap_ns: 0,
            host_ns: 0,
            dram_bytes: None,
            sm_permille: None,
        }
    }

    /// One experiment with the jobs that a library of made-up programs has, and one kernel each.
    fn found() -> (Vec<Row>, Library) {
        let root = Root::find().unwrap();
        let experiment = Experiment::load(&root, "fig7a", flags::Size::Quick).unwrap();
        let jobs = experiment.inference.iter().chain(&experiment.training).map(String::as_str);
        let library = Library::fake(jobs).unwrap();
        (rows(&root, &[&experiment], &library).unwrap(), library)
    }

    #[test]
    fn percentages_by_hand() {
        let (rows, _) = found();
        let of = |mechanism: &str, job: &str, origin: &str| {
            let row = rows.iter().find(|r| r.mechanism == mechanism && r.job == job && r.origin == origin);
            row.unwrap().overhead.unwrap()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} and {b}");
        // A request of 2 ms in one graph: 0.15 ms more, and a flag of 7 us.
        close(of("MPS alone", "bert-infer", "measured"), 0.075);
        close(of("cubin gate", "bert-infer", "measured"), 0.0035);
        // An iteration of 2 ms with one kernel of one block, which has no gate and cannot be sliced.
        close(of("cubin gate", "resnet50-train", "measured"), 0.0);
        close(of("persistent blocks", "resnet50-train", "measured"), 500.0 / 2_000_500.0);
        close(of("slicing", "resnet50-train", "assumed"), 0.0);
        // 1.752 ms against 1.595 ms, as measured.
        close(of("MPS alone", "bert-base-384-infer", "measured"), 1.752 / 1.595 - 1.0);
    }

    #[test]
    fn what_the_runtime_costs_the_host_by_hand() {
        let (_, library) = found();
        let (server, training) = ("bert-infer".to_owned(), "resnet50-train".to_owned());
        let cost = |mechanism, launch_ns| HostCost {
            machine: "h200".to_owned(),
            mechanism,
            launch_ns,
            source: "s".to_owned(),
        };
        let costs = [cost(Mechanism::Hook, 200.0), cost(Mechanism::Admission, 2_000.0)];
        let rows = host_costs(&costs, &library, &[&server], &[&training]);
        let of = |mechanism: &str, quantity: &str| {
            let mut found = rows.iter().filter(|row| row.mechanism == mechanism && row.quantity == quantity);
            (found.next().unwrap().overhead, found.next())
        };
        // A request or iteration of 2 ms, launched by one call.
        assert!((of("hook", "latency").0.unwrap() - 0.0001).abs() < 1e-12);
        assert!((of("admission", "throughput").0.unwrap() - 2.0 / 2_002.0).abs() < 1e-12);
        assert_eq!(of("admission", "latency"), (None, None));
        assert!(rows.iter().filter(|row| row.overhead.is_some()).all(|row| row.origin == "measured"));
        // Without the file there are reasons.
        let rows = host_costs(&[], &library, &[&server], &[&training]);
        assert!(rows.len() == 4 && rows.iter().all(|row| row.reason.contains("host-cost.toml")), "{rows:?}");
        // Called one by one.
        let mut program = library.program("bert-infer").unwrap().clone();
        program.segments[0].graph = false;
        program.segments[0].repeat = 3;
        program.segments[0].launches = vec![launch(1, 1); 4];
        assert_eq!(host_cost::launch_calls(&program), 12.0);
    }

    #[test]
    fn waves_and_slices_by_hand() {
        let machine = sim::Machine::parse(include_str!("../../machines/h200.toml")).unwrap();
        for (blocks, expected) in [(1, 1.0), (264, 1.0), (265, 2.0), (2640, 10.0)] {
            assert_eq!(waves(&launch(blocks, 1), &machine), expected);
        }
        assert_eq!(median(&launch(1, 7)), 7.0);
    }

    /// As in the simulator: 264 blocks are one round, 2640 are ten.
    #[test]
    fn only_kernels_that_can_be_cut_have_gates() {
        let machine = sim::Machine::parse(include_str!("../../machines/h200.toml")).unwrap();
        let (_, library) = found();
        let mut program = library.program("resnet50-train").unwrap().clone();
        program.names = vec!["gemm".to_owned(), "nvjet_tst".to_owned()];
        for (changed, expected) in [
            (launch(2640, 9), 10.0),
            (launch(264, 9), 0.0),
            (Launch { cluster: 2, ..launch(2640, 9) }, 0.0),
            (Launch { name: 1, ..launch(2640, 9) }, 0.0),
            (Launch { kind: Kind::Memcpy, ..launch(2640, 9) }, 0.0),
        ] {
            program.segments.truncate(1);
            program.segments[0].launches = vec![changed.clone()];
            program.segments[0].repeat = 1;
            assert_eq!(gated_blocks(&program, &machine), expected, "{changed:?}");
        }
    }

    #[test]
    fn what_has_no_number_has_a_reason_and_every_number_a_source() {
        let (rows, _) = found();
        for row in &rows {
            assert_eq!(row.overhead.is_none(), !row.reason.is_empty(), "{row:?}");
            assert_eq!(row.overhead.is_some(), !row.source.is_empty() && !row.origin.is_empty(), "{row:?}");
            assert!(row.better == if row.quantity == "latency" { "lower" } else { "higher" }, "{row:?}");
        }
        for mechanism in [
            "MPS alone",
            "hook",
            "admission",
            "profiling, cold start",
            "slicing",
            "persistent blocks",
            "cubin gate",
        ] {
            assert!(rows.iter().any(|row| row.mechanism == mechanism), "{mechanism}");
        }
    }
}
