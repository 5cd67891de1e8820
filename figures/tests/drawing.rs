//! What is drawn: same bytes each time, from no file of the machine, with labels that can be read.

mod common;

use std::fs;
use std::process::Command;

use common::{Table, area, files, run_folder, run_with};
use figures::canvas::{Picture, Shape, Text};
use figures::fig6b::Loads;
use figures::fig9::Dots;
use figures::fig10::Thresholds;
use figures::grid::Grid;
use figures::records::{self, Records};
use figures::{Check, check, draw, fig4, fig5, fig6b, fig7a, fig9, fig10};

fn table(text: &str, experiment: &str) -> Records {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.csv");
    fs::write(&path, text).unwrap();
    records::read(&path, experiment).unwrap()
}

fn grid(text: &str, experiment: &str) -> Grid {
    Grid::of(&table(text, experiment)).unwrap()
}

/// The tables that have caused trouble: everything, one pair, lost cells.
fn pictures() -> Vec<(&'static str, Picture)> {
    let mut quick = Table::fig5();
    quick.only("bert-infer", "resnet50-train");
    let mut lost = Table::fig5();
    for system in ["mps", "tgs", "gate"] {
        let row = lost.find(system, "llama-2-7b-infer", "bert-train");
        lost.lose(row, if system == "tgs" { "skipped" } else { "failed" }, "because");
    }
    let mut left_out = Table::six_servers();
    left_out.leave_out("stable-diffusion-infer", "bert-train");
    let mut waiting = Table::six_servers();
    waiting.add_paced("bert-infer", "4200000", "4800000");
    vec![
        ("six servers", fig5::picture(&grid(&left_out.csv(), "fig5")).unwrap()),
        ("fig4", fig4::picture(&grid(&Table::fig4().csv(), "fig4")).unwrap()),
        ("fig6b", fig6b::picture(&Loads::of(&table(&Table::fig6b().csv(), "fig6b")).unwrap()).unwrap()),
        ("fig9", fig9::picture(&Dots::of(&table(&waiting.csv(), "fig5")).unwrap()).unwrap()),
        ("fig10", fig10::picture(&Thresholds::of(&table(&Table::fig10().csv(), "fig10")).unwrap()).unwrap()),
        ("full", fig5::picture(&grid(common::FIG5, "fig5")).unwrap()),
        ("quick", fig5::picture(&grid(&quick.csv(), "fig5")).unwrap()),
        ("lost", fig5::picture(&grid(&lost.csv(), "fig5")).unwrap()),
        ("fig7a", fig7a::picture(&grid(common::FIG7A, "fig7a"), None).unwrap()),
    ]
}

fn texts(picture: &Picture) -> Vec<&Text> {
    picture
        .shapes
        .iter()
        .filter_map(|s| match s {
            Shape::Text(t) => Some(t),
            Shape::Rect { .. } | Shape::Line { .. } => None,
        })
        .collect()
}

#[test]
fn labels_stay_on_the_page_and_do_not_overlap() {
    for (name, picture) in pictures() {
        let texts = texts(&picture);
        for (i, a) in texts.iter().enumerate() {
            let (l, t, r, b) = area(a);
            let inside = l >= 0 && t >= 0 && r <= picture.width && b <= picture.height;
            assert!(inside, "{name}: `{}` leaves the page", a.content);
            for other in &texts[i + 1..] {
                let (l2, t2, r2, b2) = area(other);
                // Marks of neighbouring bars may touch.
                if a.content.chars().count() > 1 || other.content.chars().count() > 1 {
                    let apart = r <= l2 || r2 <= l || b <= t2 || b2 <= t;
                    assert!(apart, "{name}: `{}` overlaps `{}`", a.content, other.content);
                }
            }
        }
    }
}

#[test]
fn the_picture_says_where_its_numbers_come_from() {
    for (name, picture) in pictures() {
        let all: String = texts(&picture).iter().map(|t| format!("{} ", t.content)).collect();
        for part in ["SIMULATED (synthetic model)", "0.5", "SYNTHETIC test data", "requests behind each p99"]
        {
            assert!(all.contains(part), "{name} lacks `{part}`");
        }
        assert_eq!(name == "lost", all.contains("INCOMPLETE RUN"), "{name}");
        if name == "lost" {
            assert!(all.contains("x: no number (2 failed, 1 skipped by the planner)"), "{all}");
        }
        if name == "fig7a" {
            assert!(all.contains("Panel b: run the experiment fig7b"), "{all}");
        }
    }
    let mut measured = Table::fig5();
    measured.set_all("backend", "gpu");
    let picture = fig5::picture(&grid(&measured.csv(), "fig5")).unwrap();
    let all: String = texts(&picture).iter().map(|t| t.content.clone()).collect();
    assert!(all.contains("Measured on synthetic") && !all.contains("SIMULATED"), "{all}");
}

#[test]
fn svg_text_is_text_with_a_generic_font() {
    for (name, picture) in pictures() {
        let svg = picture.svg().unwrap();
        assert!(svg.starts_with("<svg width=\"177.97mm\""), "{name}");
        assert!(svg.contains("Helvetica, Arial, sans-serif"), "{name}");
        assert_eq!(svg.matches("<text ").count(), texts(&picture).len(), "{name}");
        assert!(!svg.contains("<image") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(svg.contains("<title>") && svg.contains("BERT"), "{name}");
    }
}

/// The bounding box of every text holds pixels of its colour: a font that draws nothing would go unseen in a
/// comparison of bytes.
#[test]
fn every_label_leaves_ink_in_the_png() {
    for (name, picture) in pictures() {
        let bytes = picture.png().unwrap();
        let mut reader = png::Decoder::new(bytes.as_slice()).read_info().unwrap();
        assert_eq!(reader.info().pixel_dims.unwrap().xppu, 11_811, "{name}: 300 dpi");
        let mut pixels = vec![0; reader.output_buffer_size()];
        reader.next_frame(&mut pixels).unwrap();
        for t in texts(&picture) {
            let (l, top, r, b) = area(t);
            let dark = (top..b).flat_map(|y| (l..r).map(move |x| (x, y))).filter(|(x, y)| {
                let at = ((y * picture.width + x) * 3) as usize;
                let near = |i: usize, c: u8| pixels[at + i].abs_diff(c) < 30;
                near(0, t.color.0) && near(1, t.color.1) && near(2, t.color.2)
            });
            assert!(dark.count() >= 5, "{name}: `{}` is not to be seen", t.content);
        }
    }
}

#[test]
fn drawing_again_gives_the_same_bytes() {
    let (a, b) = (run_folder(), run_folder());
    let written = draw(a.path(), &[], false).unwrap();
    draw(b.path(), &[], false).unwrap();
    let (a_files, b_files) = (files(a.path()), files(b.path()));
    assert_eq!(a_files.len(), written.len() + 2);
    assert!(a_files == b_files);
    assert!(a_files.iter().all(|f| !f.0.contains(".part")), "a temporary file was left behind");
    assert_eq!(check(a.path(), &[], false).unwrap(), Check::Same { files: written.len() });

    let touched = a.path().join("tables/pairs.csv");
    let text = fs::read_to_string(&touched).unwrap().replacen("11.196", "11.197", 1);
    fs::write(&touched, text).unwrap();
    match check(a.path(), &[], false).unwrap() {
        Check::Differs { path, reason } => {
            assert_eq!(path, "tables/pairs.csv");
            assert!(reason.contains("byte"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let only = ["fig7".to_owned()];
    assert_eq!(check(a.path(), &only, false).unwrap(), Check::Same { files: 3 });
    fs::remove_file(a.path().join("figures/fig7.svg")).unwrap();
    assert!(
        matches!(check(a.path(), &only, false).unwrap(), Check::Differs { path, .. } if path == "figures/fig7.svg")
    );
}

/// With no fonts, no home and no environment at all the command draws the same bytes.
#[test]
fn no_font_of_the_machine_is_needed() {
    let (plain, bare) = (run_folder(), run_folder());
    draw(plain.path(), &[], false).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let config = empty.path().join("fonts.conf");
    fs::write(&config, "<?xml version=\"1.0\"?><fontconfig></fontconfig>").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_figures"))
        .args(["draw", "--run"])
        .arg(bare.path())
        .env_clear()
        .env("HOME", empty.path())
        .env("XDG_DATA_HOME", empty.path())
        .env("FONTCONFIG_FILE", &config)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(files(plain.path()) == files(bare.path()));
}

#[test]
fn the_command_is_honest_about_its_result() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_figures")).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let dir = run_folder();
    let path = dir.path().to_str().unwrap();
    let (code, text) = run(&["list"]);
    assert!(
        code == Some(0)
            && text.contains("end-to-end")
            && text.contains("Panel b")
            && text.contains("inferred")
    );
    assert_eq!(run(&["check", "--run", path]).0, Some(1), "nothing was drawn yet");
    let (code, text) = run(&["draw", "--run", path, "decomposition"]);
    assert!(code == Some(0) && text.contains("fig7.png") && !text.contains("fig5"), "{text}");
    assert_eq!(run(&["check", "--run", path, "fig7"]).0, Some(0));
    fs::write(dir.path().join("figures/fig7.csv"), "changed").unwrap();
    let (code, text) = run(&["check", "--run", path, "fig7"]);
    assert!(code == Some(1) && text.contains("fig7.csv"), "{text}");
    let (code, text) = run(&["draw", "--run", path, "fig99"]);
    assert!(code == Some(1) && text.contains("known ids"), "{text}");
}

#[test]
fn a_lost_cell_is_an_x_and_an_overloaded_one_an_o() {
    let mut table = Table::fig5();
    table.only("bert-infer", "resnet50-train");
    let marks = |t: &Table| {
        let picture = fig5::picture(&grid(&t.csv(), "fig5")).unwrap();
        let count = |mark| texts(&picture).iter().filter(|t| t.content == mark).count();
        (count("o"), count("x"))
    };
    assert_eq!(marks(&table), (2, 0), "time-slicing and tgs");
    let row = table.find("mps", "bert-infer", "resnet50-train");
    table.lose(row, "failed", "because");
    assert_eq!(marks(&table), (2, 2), "one in each of the two plots");
}

#[test]
fn csv_of_a_figure_holds_the_numbers_drawn() {
    let dir = run_with(common::FIG5);
    draw(dir.path(), &["fig5".to_owned()], false).unwrap();
    let csv = fs::read_to_string(dir.path().join("figures/fig5.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 6 * 8);
    let row = csv.lines().nth(1).unwrap();
    assert_eq!(
        row,
        "sim,synthetic,0.5,bert-infer,resnet50-train,time-slicing,1,0,0,,true,5000,5000,false,4.098,11.196,11.196,11.196,\
         0.74,0.56,1.3,1.3,1.3"
    );
}
