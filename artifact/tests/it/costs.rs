//! `doctor` counts cells and hours from the experiments' files alone; here they are compared with the plan.

use artifact::experiment::Experiment;
use artifact::library::Library;
use artifact::plan::{Plan, simulated_seconds};
use artifact::root::Root;
use clap::ValueEnum;
use flags::Size;
use std::path::Path;

#[test]
fn doctor_counts_the_cells_of_the_plan() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let root = Root::at(folder);
    let prices = doctor::costs::prices(&folder.join("artifact/prices.toml")).unwrap();
    let costs = doctor::costs::all(folder, &prices).unwrap();
    let usual = costs.iter().filter(|cost| cost.size == "default").count();
    assert_eq!(usual, Experiment::ids(&root).unwrap().len());
    for cost in costs {
        let experiment =
            Experiment::load(&root, &cost.experiment, Size::from_str(cost.size, false).unwrap()).unwrap();
        let jobs: Vec<String> = experiment.inference.iter().chain(&experiment.training).cloned().collect();
        let library = Library::load(&root, "h200", jobs.iter().map(String::as_str)).unwrap();
        let plan = Plan::new(vec![experiment], &library).unwrap();
        let hours: f64 =
            plan.cells.iter().filter_map(|cell| simulated_seconds(cell, &library)).sum::<f64>() / 3600.0;
        assert_eq!(cost.cells, plan.cells.len() as u64, "{}", cost.experiment);
        assert!((cost.gpu_span_hours - hours).abs() < 0.02, "{cost:?}: {hours}");
    }
}
