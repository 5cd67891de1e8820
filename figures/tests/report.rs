//! `report.html`: what it says, that it says it the same way each time, and that no record becomes markup.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use common::{Table, hostile_run, run_folder, run_with};
use figures::{draw, report};

fn page(run: &Path) -> String {
    fs::read_to_string(report::renew(run).unwrap()).unwrap()
}

/// The page of the hostile run, and the files beside it. Once: to draw it is most of the time that these tests take.
static HOSTILE: LazyLock<(String, BTreeSet<String>)> = LazyLock::new(|| {
    let run = hostile_run();
    let files = common::files(run.path()).into_iter().map(|(name, _)| name);
    (page(run.path()), files.collect())
});

/// The values of an attribute, in the order of the page.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

/// What a reader sees, line by line: the text between tags.
fn lines(page: &str) -> Vec<&str> {
    let body = page.split_once("<body>").unwrap().1;
    let texts = body.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text).trim());
    texts.filter(|text| !text.is_empty()).collect()
}

#[test]
fn the_first_and_the_last_line_say_where_the_numbers_come_from() {
    let run = run_folder();
    let shown = page(run.path());
    let lines = lines(&shown);
    let expected = "SIMULATED (synthetic model), not measured on a GPU.";
    assert_eq!((lines[0], *lines.last().unwrap()), (expected, expected));

    let mut measured = Table::fig5();
    measured.set_all("backend", "gpu");
    let shown = page(run_with(&measured.csv()).path());
    assert!(shown.contains("Measured on synthetic.") && !shown.contains("SIMULATED"));
    measured.set(0, "backend", "sim");
    assert!(page(run_with(&measured.csv()).path()).contains("SIMULATED in part (synthetic)"));
}

#[test]
fn every_section_has_its_content() {
    let (shown, _) = &*HOSTILE;
    for expected in [
        "1 failed, 1 skipped by the planner",
        "simulated: 1 holds in simulation, 1 missed in simulation, 1 inconclusive",
        "<span class=\"verdict bad\">missed in simulation</span>",
        "aria-label=\"End to end: p99 latency and system throughput. SIMULATED",
        "fig5: the numbers drawn",
        "cargo xtask reproduce --backend sim --machine h200 --experiment fig5 --seeds 3\ncargo xtask figure fig5 --run \
         results/h200-sim",
        "does not fit &amp; is left out",
        "rules.slice_ns",
        "1 measured",
        "Invocation 2, 2026-02-03T04:05:06Z",
        "at revision <code>0123abc</code>",
        "cargo xtask fidelity",
        "<li>fig7, Performance decomposition: <code>cargo xtask reproduce --experiment fig7a --experiment fig7b</code></li>",
    ] {
        assert!(shown.contains(expected), "{expected}");
    }
    assert!(
        shown.find("Invocation 2").unwrap() < shown.find("Invocation 1").unwrap(),
        "the latest comes first"
    );
}

#[test]
fn no_text_of_a_record_becomes_markup() {
    let (shown, _) = &*HOSTILE;
    assert_eq!(shown.matches("<script").count(), 0);
    assert_eq!(shown.matches("<img").count(), 0);
    // In the error, a claim, the machine, an invocation twice, and the name of a job in figure and tables.
    assert!(shown.matches("&lt;script&gt;document.title='taken'&lt;/script&gt;").count() > 20);
    assert!(shown.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"));
}

#[test]
fn every_link_leads_somewhere_and_nothing_is_loaded() {
    let (shown, files) = &*HOSTILE;
    let ids = attributes(shown, "id");
    let set: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), set.len(), "an id is there twice: {ids:?}");
    let links = attributes(shown, "href");
    assert!(links.len() > 20);
    for link in links {
        let leads = link.strip_prefix('#').map_or(files.contains(link), |id| set.contains(id));
        assert!(leads, "{link}");
    }
    for loads in ["src=\"", "<link", "@import", "url(", "<iframe", "<object", "<base"] {
        assert!(!shown.contains(loads), "{loads}");
    }
}

#[test]
fn the_same_records_give_the_same_bytes_wherever_they_are() {
    let (a, b) = (hostile_run(), tempfile::tempdir().unwrap());
    for (name, bytes) in common::files(a.path()) {
        let path = b.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    assert_eq!(page(a.path()), page(b.path()));
    assert_eq!(report::is_current(a.path()).unwrap(), Some(true));
    let info = a.path().join("run.toml");
    fs::write(&info, fs::read_to_string(&info).unwrap().replace("2026-02-03", "2026-02-04")).unwrap();
    assert_eq!(report::is_current(a.path()).unwrap(), Some(false));
    fs::remove_file(a.path().join("report.html")).unwrap();
    assert_eq!(report::is_current(a.path()).unwrap(), None);
}

#[test]
fn what_is_missing_is_said() {
    let run = run_folder();
    let shown = page(run.path());
    for expected in [
        "it has no <code>claims.csv</code>",
        "None was drawn from this run.",
        "no <code>machine.toml</code>",
        "no <code>run.toml</code>",
        "None: every cell of this run finished.",
    ] {
        assert!(shown.contains(expected), "{expected}");
    }
    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("notes.csv"), "a,b\n1\n").unwrap();
    assert!(page(empty.path()).contains("There are no results in this run."));
    let error = report::renew(&empty.path().join("none")).unwrap_err().to_string();
    assert!(error.contains("no run folder") && error.contains("cargo xtask reproduce"), "{error}");
}

#[test]
fn a_picture_from_before_a_failure_is_not_shown() {
    let run = run_with(common::FIG5);
    draw(run.path(), &[], false).unwrap();
    assert!(page(run.path()).contains("<svg"));
    let mut table = Table::fig5();
    table.lose(5, "failed", "because");
    fs::write(run.path().join("fig5.csv"), table.csv()).unwrap();
    let shown = page(run.path());
    assert!(
        !shown.contains("<svg") && shown.contains("cargo xtask figure fig5 --partial --run results/h200-sim")
    );
    draw(run.path(), &[], true).unwrap();
    assert!(page(run.path()).contains("<svg"), "drawn from what is there, and it says so");
}

#[test]
fn fidelity_comes_from_the_folder_beside() {
    let results = tempfile::tempdir().unwrap();
    let (run, beside) = (results.path().join("run"), results.path().join("fidelity"));
    for folder in [&run, &beside] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(run.join("fig5.csv"), common::FIG5).unwrap();
    fs::write(beside.join("fidelity.md"), "# Fidelity\n\nWithin a factor of 1.5.\n").unwrap();
    fs::write(beside.join("sensitivity.csv"), "parameter,factor\nslice_ns,2\n").unwrap();
    fs::write(beside.join("run.toml"), "[[invocation]]\nsimulator = 3\n").unwrap();
    let shown = page(&run);
    assert!(
        shown.contains("Within a factor of 1.5.") && shown.contains("href=\"../fidelity/sensitivity.csv\"")
    );
    assert!(shown.contains("it is not about the same simulator"), "this run's version is not known");
    fs::write(run.join("run.toml"), "[[invocation]]\nsimulator = 3\n").unwrap();
    assert!(!page(&run).contains("it is not about the same simulator"));
    // What the run itself holds comes first.
    fs::write(run.join("fidelity.csv"), "system,score\nmps,0.3\n").unwrap();
    let shown = page(&run);
    assert!(shown.contains("href=\"fidelity.csv\"") && !shown.contains("../fidelity"));
}

#[test]
fn the_command_writes_it_and_the_check_tells_when_it_is_old() {
    let run = run_folder();
    let figures = |verb: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_figures"))
            .args([verb, "--run"])
            .arg(run.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    draw(run.path(), &[], false).unwrap();
    let (code, text) = figures("report");
    assert!(code == Some(0) && text.trim_end().ends_with("report.html"), "{text}");
    let (code, text) = figures("check");
    assert!(code == Some(0) && !text.contains("report.html"), "{text}");
    fs::write(run.path().join("report.html"), "changed").unwrap();
    let (code, text) = figures("check");
    assert!(code == Some(0) && text.contains("report.html is not of these files"), "{text}");
    fs::write(run.path().join("machine.toml"), "sms = \n").unwrap();
    let (code, text) = figures("report");
    assert!(code == Some(1) && text.contains("machine.toml") && text.contains("line 1"), "{text}");
}
