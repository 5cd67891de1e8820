//! The figure of simulated against known slowdowns. All numbers here are made up.

mod common;

use std::fs;

use common::assert_readable;
use figures::canvas::{Picture, Shape};
use figures::draw;
use figures::fidelity::{self, Known};

const HEAD: &str = "source,run,profiles,system,simulated_system,role,inference,training,load,seed,known_slowdown,\
    simulated_slowdown,null_slowdown,log_ratio,null_log_ratio,known_be_norm,simulated_be_norm\n";

fn table() -> String {
    HEAD.to_owned()
        + "published,1,artifact,mps,mps,validation,bert-infer,bert-train,0.5,,4,7,,,,,\n"
        + "published,1,artifact,mps,mps,validation,bert-infer,pointnet-train,0.5,,2,20,,,,,\n"
        + "published,1,artifact,tgs-artifact,tgs,finding,bert-infer,bert-train,0.5,,4,1.5,,,,,\n"
        + "published,1,stock,mps,mps,validation,bert-infer,bert-train,0.5,,4,30,,,,,\n"
        + "published,1,artifact,tally,tally,validation,bert-infer,bert-train,0.5,,1.1,,,,,,\n"
        + "measured,2,stock,gate,gate,validation,bert-base-384-infer,bert-base-384-train,0.5,,1.4,1.4,,,,,\n"
}

fn known(text: &str) -> anyhow::Result<Known> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("fidelity-pairs.csv");
    fs::write(&path, text)?;
    Known::read(&path)
}

fn says(picture: &Picture, wanted: &str) -> bool {
    picture.shapes.iter().any(|s| matches!(s, Shape::Text(t) if t.content.contains(wanted)))
}

#[test]
fn points_are_those_with_both_numbers() {
    let known = known(&table()).unwrap();
    let picture = fidelity::picture(&known).unwrap();
    assert_readable("fidelity", &picture);
    assert!(picture.title.contains("SIMULATED · INCOMPLETE RUN") && says(&picture, "1 known pairs without"));
    // 7 / 4 and 1.4 / 1.4 are within 2; 20 / 2 and 30 / 4 are not; the finding is no test.
    assert!(says(&picture, "as 2 of 4 full points are"));
    assert!(says(&picture, "A100, artifact profiles") && says(&picture, "H200, stock profiles"));
    let csv = fidelity::csv(&known);
    assert_eq!(csv.lines().count(), 1 + 5);
    assert!(csv.contains("published,artifact,1,tgs,finding,bert-infer,bert-train,0.5,,4,1.5\n"), "{csv}");
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    for (text, expected) in [
        (HEAD.to_owned(), "no pair has both"),
        (table().replace(",4,7", ",4,0"), "line 2, column `simulated_slowdown`: value `0`"),
        (table().replace(",4,7", ",4,x"), "line 2, column `simulated_slowdown`"),
        (table().replace(",gate,gate,", ",gate,magic,"), "magic"),
        (table().replace("load", "loads"), "missing columns [load]"),
    ] {
        let error = format!("{:#}", known(&text).err().unwrap());
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn it_is_drawn_into_a_folder_with_its_pairs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("fidelity-pairs.csv"), table()).unwrap();
    let drawn = draw(dir.path(), &[], false).unwrap();
    let names: Vec<_> =
        drawn.iter().map(|path| path.strip_prefix(dir.path()).unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["figures/fidelity.png", "figures/fidelity.svg", "figures/fidelity.csv"]);
}
