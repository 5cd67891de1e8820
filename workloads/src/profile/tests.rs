//! Profiles written by hand, read back.

use super::*;
use polars::prelude::{Column, DataFrame, ParquetWriter};

const DEFINITION: &str = r#"
id = "w"
kind = "training"
paper_name = "W"
upstream_actual = "w"
ours = "w"
differences = []
shapes = "1"
batch = 1
precision = "fp32"
reason = "A test."
source = "None."
program = "program.py"
[artifact]
profile = "recorded"
[segments]
first = 1
second = 99
[[variant]]
id = "w-waiting"
reason = "A test."
gpu_busy_share = 0.5
"#;

const TOML: &str = r#"
workload = "w"
parquet_sha256 = "SHA"
host_scale = 0.5
busy_ns = 1000
[unprofiled]
n = 20
mean_ns = 1300
median_ns = 1200
p90_ns = 1400
p99_ns = 1500
[segment.first]
repeats = 1
launches = 2
tail_ns = 10
host_scale = 0.5
[segment.second]
repeats = 99
launches = 1
tail_ns = 20
host_scale = 1.0
[memory]
peak_reserved_bytes = 4096
[versions]
gpu = "NVIDIA H200"
driver = "580.159"
"#;

fn frame() -> DataFrame {
    let numbers = |name: &str, values: [u64; 3]| Column::new(name.into(), values.to_vec());
    let mut columns = vec![
        Column::new("segment".into(), ["first", "first", "second"]),
        Column::new("index".into(), [0u32, 1, 0]),
        Column::new("kind".into(), ["memcpy", "kernel", "kernel"]),
        Column::new("name".into(), ["copy", "gemm", "gemm"]),
        numbers("grid_x", [0, 3, 4]),
        numbers("grid_y", [0, 2, 1]),
        numbers("grid_z", [0, 1, 1]),
        numbers("block_x", [0, 128, 32]),
        numbers("block_y", [0, 2, 1]),
        numbers("block_z", [0, 1, 1]),
        numbers("regs", [0, 64, 32]),
        numbers("smem_static", [0, 100, 0]),
        numbers("smem_dynamic", [0, 28, 0]),
        numbers("stream", [7, 7, 7]),
        numbers("cluster", [0, 2, 1]),
        numbers("gap_ns", [100, 50, 7]),
        Column::new("host_ns".into(), [Some(10u64), None, Some(3)]),
        Column::new("dram_bytes".into(), [None, Some(1u64 << 20), None]),
        Column::new("sm_pct".into(), [None, Some(55.5f32), None]),
    ];
    for (i, name) in QUANTILE_COLUMNS.iter().enumerate() {
        columns.push(numbers(name, [1, 2, 3].map(|k| k * 100 + i as u64)));
    }
    DataFrame::new(3, columns).unwrap()
}

/// Writes `frame` and the TOML that belongs to it into a folder of `profiles`.
fn write(workloads: &Path, folder: &str, toml: impl Fn(String) -> String, mut frame: DataFrame) {
    let profiles = workloads.join("profiles").join(folder);
    std::fs::create_dir_all(&profiles).unwrap();
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes).finish(&mut frame).unwrap();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(profiles.join("w.parquet"), bytes).unwrap();
    std::fs::write(profiles.join("w.toml"), toml(TOML.replace("SHA", &digest))).unwrap();
}

/// Writes a profile and loads it.
fn load_with(id: &str, toml: impl Fn(String) -> String, change: impl Fn(&mut DataFrame)) -> Result<Profile> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("w")).unwrap();
    std::fs::write(folder.path().join("w/workload.toml"), DEFINITION).unwrap();
    let mut frame = frame();
    change(&mut frame);
    write(folder.path(), "h200", toml, frame);
    load(folder.path(), "h200", id)
}

#[test]
fn a_profile_becomes_a_program() {
    let profile = load_with("w", |t| t, |_| {}).unwrap();
    let program = profile.program;
    assert_eq!((program.segments.len(), program.names.len(), program.launches()), (2, 2, 2 + 99));
    let [copy, gemm] = &program.segments[0].launches[..] else { panic!() };
    assert_eq!((copy.kind, copy.blocks, gemm.blocks, gemm.threads), (Kind::Memcpy, 0, 6, 256));
    assert_eq!((gemm.regs, gemm.smem, gemm.cluster, gemm.duration_ns[3]), (64, 128, 2, 203));
    // Host times are scaled by the segment's own factor; a missing one is that of the launch before.
    assert_eq!((copy.gap_ns, gemm.gap_ns, copy.host_ns, gemm.host_ns), (50, 25, 5, 5));
    assert_eq!((gemm.dram_bytes, gemm.sm_permille, copy.dram_bytes), (Some(1 << 20), Some(555), None));
    assert_eq!((program.segments[0].host_tail_ns, program.segments[1].host_tail_ns), (5, 20));
    assert_eq!((program.unprofiled_median_ns, program.unprofiled_mean_ns), (1200, 1300));
    assert_eq!(program.memory_bytes, 4096);
}

#[test]
fn a_waiting_variant_is_busy_for_its_share() {
    let program = load_with("w-waiting", |t| t, |_| {}).unwrap().program;
    // 1,000 ns busy at one half make 2,000 ns; 800 ns are added over the 99 repeats of the last segment.
    assert_eq!((program.unprofiled_median_ns, program.unprofiled_mean_ns), (2000, 2100));
    assert_eq!(program.segments[1].host_tail_ns, 20 + 800 / 99);
}

#[test]
fn problems_name_row_column_and_value() {
    let replaced = |name: &'static str, values: [u64; 3]| {
        move |frame: &mut DataFrame| {
            frame.replace(name, Column::new(name.into(), values.to_vec())).unwrap();
        }
    };
    let error = |change: &dyn Fn(&mut DataFrame)| format!("{:#}", load_with("w", |t| t, change).unwrap_err());
    for (found, expected) in [
        (error(&replaced("q50", [103, 201, 303])), "row 1, column q50: 201 is below the quantile before it"),
        (error(&replaced("grid_y", [0, 0, 1])), "row 1, column grid_x: 0 blocks in the grid"),
        (error(&replaced("block_x", [0, 128, 4096])), "row 2, column block_x: 4096 threads"),
        (error(&replaced("index", [0, 2, 0])), "row 1, column index: 2 should be 1"),
        (
            error(&replaced("regs", [0, 64, 256])),
            "row 2, column regs: 256 is not a whole number from 0 to 255",
        ),
        (error(&|f| drop(f.drop_in_place("gap_ns").unwrap())), "column gap_ns is missing"),
        (
            error(&|f| _ = f.replace("kind", Column::new("kind".into(), ["k"; 3])).unwrap()),
            "row 0, column kind: k",
        ),
    ] {
        assert!(found.contains(expected) && found.contains("w.parquet"), "{expected}: {found}");
    }
}

#[test]
fn the_two_files_must_belong_together() {
    let error =
        |change: &dyn Fn(String) -> String| format!("{:#}", load_with("w", change, |_| {}).unwrap_err());
    assert!(error(&|t| t.replace("parquet_sha256 = \"", "parquet_sha256 = \"0")).contains("SHA-256"));
    assert!(error(&|t| t.replace("launches = 2", "launches = 3")).contains("has 2 rows, the TOML says 3"));
    assert!(error(&|t| t.replace("[segment.second]", "[segment.third]")).contains("not described"));
    assert!(error(&|t| t.replace("median_ns = 1200", "median_ns = 0")).contains("median_ns = 0"));
    assert!(error(&|t| t.replace("mean_ns", "mean_us")).contains("mean_ns"));
    assert!(
        format!("{:#}", load_with("v", |t| t, |_| {}).unwrap_err()).contains("known workloads: w, w-waiting")
    );
}

#[test]
fn a_missing_profile_names_the_file_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("w")).unwrap();
    std::fs::write(folder.path().join("w/workload.toml"), DEFINITION).unwrap();
    let error = load(folder.path(), "h200", "w").unwrap_err().to_string();
    assert!(error.contains("profiles/h200/w.toml") && error.contains("workloads/README.md"), "{error}");
}

#[test]
fn each_set_has_its_own_recording_unless_the_definition_says_that_they_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let workloads = folder.path();
    std::fs::create_dir(workloads.join("w")).unwrap();
    let define = |text: &str| std::fs::write(workloads.join("w/workload.toml"), text).unwrap();
    let median = |set| load_set(workloads, "h200", set, "w").map(|p| p.unprofiled.median_ns);
    define(DEFINITION);
    write(workloads, "h200", |t| t, frame());

    let error = median(ProfileSet::Artifact).unwrap_err().to_string();
    assert!(error.contains("h200-artifact/w.toml") && error.contains("--stack artifact"), "{error}");

    let slower = |t: String| t.replace("median_ns = 1200", "median_ns = 1250");
    write(workloads, "h200-artifact", slower, frame());
    let error = format!("{:#}", median(ProfileSet::Artifact).unwrap_err());
    assert!(error.contains("stack = `stock`"), "{error}");

    write(workloads, "h200-artifact", |t| format!("stack = \"artifact\"\n{}", slower(t)), frame());
    assert_eq!(median(ProfileSet::Stock).unwrap(), 1200);
    assert_eq!(median(ProfileSet::Artifact).unwrap(), 1250);

    let same = "profile = \"same\"\nreason = \"A test.\"";
    define(&DEFINITION.replace("profile = \"recorded\"", same));
    assert_eq!(median(ProfileSet::Artifact).unwrap(), 1200);
}

#[test]
fn sets_are_written_as_they_are_read() {
    for set in [ProfileSet::Stock, ProfileSet::Artifact] {
        let text = format!("set = \"{set}\"\n");
        let read: BTreeMap<String, ProfileSet> = toml::from_str(&text).unwrap();
        assert_eq!((read["set"], toml::to_string(&read).unwrap()), (set, text));
    }
}
