//! The committed profiles against the model: the driver's own occupancy, and each job alone.

use sim::occupancy::blocks_per_sm;
use sim::{Machine, Scenario, System, Traffic};
use std::path::PathBuf;
use workloads::ProfileSet;
use workloads::definition::ArtifactProfile;

fn workloads() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn h200() -> Machine {
    Machine::load(&workloads().join("../machines/h200.toml")).unwrap()
}

/// Files of a set by the end of their name; the counts are how many recordings there are at least.
fn profiles(set: ProfileSet, extension: &str) -> Vec<PathBuf> {
    let (folder, least) = match set {
        ProfileSet::Stock => ("profiles/h200", 15),
        ProfileSet::Artifact => ("profiles/h200-artifact", 6),
    };
    let folder = workloads().join(folder);
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        files.filter(|path| path.file_name().unwrap().to_str().unwrap().ends_with(extension)).collect();
    found.sort();
    assert!(found.len() >= least, "the recorded profiles are in the repository");
    found
}

/// Every recording with its set.
fn recordings() -> Vec<(ProfileSet, String)> {
    let sets = [ProfileSet::Stock, ProfileSet::Artifact];
    let of = |set| profiles(set, ".toml").into_iter().map(move |path| (set, path));
    let named = |(set, path): (_, PathBuf)| (set, path.file_stem().unwrap().to_str().unwrap().to_owned());
    sets.into_iter().flat_map(of).map(named).collect()
}

/// Fields of a line of an occupancy table; the kernel's name is the only one that may be quoted.
fn fields(line: &str) -> Vec<&str> {
    let rest = match line.strip_prefix('"') {
        Some(quoted) => quoted.rsplit_once("\",").unwrap().1,
        None => line.split_once(',').unwrap().1,
    };
    rest.split(',').collect()
}

/// The driver was asked `cuOccupancyMaxActiveBlocksPerMultiprocessor` for every kernel when the jobs were recorded.
#[test]
fn occupancy_is_what_the_driver_answered() {
    let sm = h200().sm;
    let (mut checked, mut wrong) = (0, Vec::new());
    let sets = [ProfileSet::Stock, ProfileSet::Artifact];
    for path in sets.into_iter().flat_map(|set| profiles(set, ".occupancy.csv")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("name,block_threads,smem_dynamic,smem_static,regs,blocks_per_sm,max_threads,binary_version")
        );
        for line in lines {
            let f = fields(line);
            let number = |k: usize| f[k].parse::<u32>().ok();
            let (Some(threads), Some(dynamic), Some(fixed), Some(regs)) =
                (number(0), number(1), number(2), number(3))
            else {
                continue;
            };
            // Empty: the driver gave no answer for this handle.
            let Some(answer) = number(4) else { continue };
            let ours = blocks_per_sm(&sm, threads, regs, dynamic + fixed);
            checked += 1;
            if ours != answer {
                wrong.push(format!("{}: {line}: we say {ours}", path.display()));
            }
        }
    }
    assert!(checked >= 300, "{checked} kernels");
    assert!(wrong.is_empty(), "{} of {checked} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Iterations or requests of a job alone on the simulated device, ns each.
fn alone(set: ProfileSet, id: &str) -> (f64, f64) {
    let machine = h200();
    let profile = workloads::profile::load_set(&workloads(), "h200", set, id).unwrap();
    let inference = id.ends_with("-infer");
    let scenario = Scenario {
        machine: &machine,
        system: &System::parse("no-sharing").unwrap(),
        high: inference.then_some((&profile.program, Traffic::ClosedLoop { requests: 40 })),
        best_effort: if inference { vec![] } else { vec![(&profile.program).into()] },
        span_ns: 60_000_000_000,
        seed: 1,
    };
    let outcome = sim::simulate(&scenario).unwrap();
    let simulated = if inference {
        let total: u64 = outcome.requests.iter().map(|r| r.end_ns - r.start_ns).sum();
        total as f64 / outcome.requests.len() as f64
    } else {
        1e9 / outcome.best_effort[0].rate_hz().unwrap()
    };
    (simulated, profile.program.unprofiled_median_ns as f64)
}

#[test]
fn every_job_alone_takes_within_5_percent_of_what_was_measured_without_a_profiler() {
    for (set, id) in recordings() {
        let (simulated, measured) = alone(set, &id);
        let ratio = simulated / measured;
        assert!(
            (0.95..1.05).contains(&ratio),
            "{set} {id}: {simulated:.0} ns against {measured:.0} ns, {ratio:.3}"
        );
    }
}

/// Steps of each segment, and each set's recordings, are what the definitions say.
#[test]
fn recordings_are_what_the_definitions_declare() {
    let recordings = recordings();
    let definitions = workloads::definition::load_all(&workloads()).unwrap();
    for (id, workload) in definitions.iter().filter(|(id, w)| **id == w.definition.id) {
        let own = recordings.contains(&(ProfileSet::Artifact, id.clone()));
        let declared = workload.definition.artifact.profile == ArtifactProfile::Recorded;
        assert_eq!(own, declared, "{id}");
        for set in [ProfileSet::Stock, ProfileSet::Artifact] {
            let program = workloads::profile::load_set(&workloads(), "h200", set, id).unwrap().program;
            let steps = program.segments.iter().map(|s| (s.name.clone(), s.repeat)).collect();
            assert_eq!(workload.definition.segments, steps, "{set} {id}");
        }
    }
}

/// Without cuDNN a convolution goes through its batch one sample at a time, as im2col and a product.
#[test]
fn convolutions_of_the_artifact_set_are_not_cudnns() {
    for (set, id) in recordings() {
        let program = workloads::profile::load_set(&workloads(), "h200", set, &id).unwrap().program;
        let cudnn = program.names.iter().filter(|name| name.contains("cudnn")).count();
        let im2col = program.names.iter().filter(|name| name.contains("im2col")).count();
        if set == ProfileSet::Artifact {
            assert_eq!(cudnn, 0, "{id}");
            // The convolutions of PointNet are 1 x 1, which need no im2col.
            assert!(im2col > 0 || id == "pointnet-train", "{id}");
            assert!(program.names.iter().all(|name| !name.contains("tf32")), "{id}");
        } else {
            assert_eq!(im2col, 0, "{id}");
        }
    }
}
