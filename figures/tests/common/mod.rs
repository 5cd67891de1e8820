//! Run folders for tests: the synthetic tables, whole or changed.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::path::Path;

use figures::canvas::{Anchor, Picture, Shape, Text, text_width};
use tempfile::TempDir;

pub const FIG5: &str = include_str!("../data/fig5.csv");
pub const FIG7A: &str = include_str!("../data/fig7a.csv");

/// A run folder with both synthetic tables.
pub fn run_folder() -> TempDir {
    folder(FIG5, FIG7A)
}

/// A run folder with the given text as table of fig5 and no other table.
pub fn run_with(fig5: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("fig5.csv"), fig5).unwrap();
    dir
}

fn folder(fig5: &str, fig7a: &str) -> TempDir {
    let dir = run_with(fig5);
    fs::write(dir.path().join("fig7a.csv"), fig7a).unwrap();
    dir
}

/// A table as rows of fields, to change single values.
#[derive(Clone)]
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn fig5() -> Table {
        // The label of the arrivals holds a comma; here a simpler one will do.
        let text = FIG5.replace("\"SYNTHETIC test data, not a measurement\"", "SYNTHETIC test data");
        let mut lines = text.lines().map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        Table { header: lines.next().unwrap(), rows: lines.collect() }
    }

    /// Some rows of the synthetic table as another experiment.
    fn as_experiment(experiment: &str, systems: &[&str], trainings: &[&str]) -> Table {
        let mut table = Table::fig5();
        table.set_all("experiment", experiment);
        let (system, training) = (table.column("system"), table.column("training"));
        table.rows.retain(|r| {
            (r[system] == "no-sharing" || systems.contains(&r[system].as_str()))
                && (r[training].is_empty() || trainings.contains(&r[training].as_str()))
        });
        table
    }

    pub fn fig4() -> Table {
        let mut table = Table::as_experiment(
            "fig4",
            &["time-slicing", "mps", "mps-priority"],
            &["resnet50-train", "whisper-train"],
        );
        table.keep("inference", |job| job == "bert-infer");
        table
    }

    /// The same numbers at three loads.
    pub fn fig6b() -> Table {
        let mut table = Table::as_experiment(
            "fig6b",
            &["tgs", "tgs-artifact", "tally", "gate"],
            &["bert-train", "gpt2-large-train", "whisper-train"],
        );
        table.repeat("load", &["0.1", "0.5", "0.9"]);
        table
    }

    /// The numbers of Tally at four thresholds.
    pub fn fig10() -> Table {
        let mut table = Table::as_experiment("fig10", &["tally"], &["resnet50-train", "bert-train"]);
        let thresholds =
            ["tally", "tally:threshold_ms=1", "tally:threshold_ms=0.01", "tally:threshold_ms=0.316"];
        table.repeat("system", &thresholds);
        table
    }

    /// The end-to-end table with all six servers, each with the numbers of BERT or of Llama.
    pub fn six_servers() -> Table {
        let mut table = Table::fig5();
        let column = table.column("inference");
        let others = [
            ("bert-infer", "resnet50-infer"),
            ("bert-infer", "yolov6m-infer"),
            ("llama-2-7b-infer", "gpt-neo-2.7b-infer"),
            ("llama-2-7b-infer", "stable-diffusion-infer"),
        ];
        let rows = table.rows.clone();
        for (from, to) in others {
            for row in rows.iter().filter(|r| r[column] == from) {
                let mut row = row.clone();
                row[column] = to.to_owned();
                table.rows.push(row);
            }
        }
        table
    }

    /// Adds the server alone with the same arrivals as a pair.
    pub fn add_paced(&mut self, inference: &str, service_ns: &str, e2e_ns: &str) {
        let pair = self.find("tally", inference, "bert-train");
        self.rows.push(self.rows[pair].clone());
        let row = self.rows.len() - 1;
        for (column, value) in [
            ("kind", "solo-paced"),
            ("system", "no-sharing"),
            ("training", ""),
            ("service_p99_ns", service_ns),
            ("e2e_p99_ns", e2e_ns),
        ] {
            self.set(row, column, value);
        }
    }

    fn keep(&mut self, column: &str, keep: impl Fn(&str) -> bool) {
        let column = self.column(column);
        self.rows.retain(|r| keep(&r[column]));
    }

    /// Repeats the rows with both jobs, once for each value.
    fn repeat(&mut self, column: &str, values: &[&str]) {
        let (kind, column) = (self.column("kind"), self.column(column));
        let rows = std::mem::take(&mut self.rows);
        for row in rows {
            if row[kind] != "pair" {
                self.rows.push(row);
                continue;
            }
            for value in values {
                let mut row = row.clone();
                row[column] = (*value).to_owned();
                self.rows.push(row);
            }
        }
    }

    fn column(&self, name: &str) -> usize {
        self.header.iter().position(|h| h == name).unwrap()
    }

    pub fn get(&self, row: usize, column: &str) -> &str {
        &self.rows[row][self.column(column)]
    }

    pub fn set(&mut self, row: usize, column: &str, value: &str) {
        let column = self.column(column);
        self.rows[row][column] = value.to_owned();
    }

    pub fn set_all(&mut self, column: &str, value: &str) {
        for row in 0..self.rows.len() {
            self.set(row, column, value);
        }
    }

    /// First row of a pair.
    pub fn find(&self, system: &str, inference: &str, training: &str) -> usize {
        (0..self.rows.len())
            .find(|r| {
                self.get(*r, "system") == system
                    && self.get(*r, "inference") == inference
                    && self.get(*r, "training") == training
            })
            .unwrap()
    }

    /// Empties every result of a row and gives it a status.
    pub fn lose(&mut self, row: usize, status: &str, error: &str) {
        for column in self.column("requests")..self.header.len() {
            self.rows[row][column].clear();
        }
        self.set(row, "status", status);
        self.set(row, "error", error);
    }

    /// Skips a pair under every system, as the planner does with one that does not fit.
    pub fn leave_out(&mut self, inference: &str, training: &str) {
        let (i, t) = (self.column("inference"), self.column("training"));
        for row in 0..self.rows.len() {
            if self.rows[row][i] == inference && self.rows[row][t] == training {
                self.lose(
                    row,
                    "skipped",
                    "does not fit: the two jobs need 150.0 GiB of the device's 139.8 GiB",
                );
            }
        }
    }

    /// Keeps the rows of one pair and the solo rows.
    pub fn only(&mut self, inference: &str, training: &str) {
        let (i, t) = (self.column("inference"), self.column("training"));
        self.rows.retain(|r| r[i] == inference && (r[t].is_empty() || r[t] == training));
    }

    pub fn csv(&self) -> String {
        let mut out = self.header.join(",") + "\n";
        for row in &self.rows {
            out += &(row.join(",") + "\n");
        }
        out
    }
}

/// Every file of a folder, by path relative to it, sorted.
pub fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Fails where a label leaves the page or two overlap.
pub fn assert_readable(name: &str, picture: &Picture) {
    let texts = picture.shapes.iter().filter_map(|shape| match shape {
        Shape::Text(text) => Some((text, area(text))),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    for (i, (text, (l, t, r, b))) in texts.iter().enumerate() {
        let inside = *l >= 0 && *t >= 0 && *r <= picture.width && *b <= picture.height;
        assert!(inside, "{name}: `{}` leaves the page", text.content);
        for (other, (l2, t2, r2, b2)) in &texts[i + 1..] {
            let apart = r <= l2 || r2 <= l || b <= t2 || b2 <= t;
            assert!(apart, "{name}: `{}` overlaps `{}`", text.content, other.content);
        }
    }
}

/// Left, top, right, bottom of what a text covers.
pub fn area(t: &Text) -> (i32, i32, i32, i32) {
    let w = text_width(&t.content, t.em, t.bold).unwrap();
    let before = match t.anchor {
        Anchor::Start => 0,
        Anchor::Middle => w / 2,
        Anchor::End => w,
    };
    // Letters reach 0.76 em above the baseline and 0.24 em below.
    let (up, down) = (t.em * 76 / 100, t.em * 24 / 100);
    if t.vertical {
        (t.x - up, t.y - w + before, t.x + down, t.y + before)
    } else {
        (t.x - before, t.y - up, t.x - before + w, t.y + down)
    }
}

/// What a hostile file could hold.
pub const HOSTILE: &str = "<script>document.title='taken'</script><img src=x onerror=alert(1)>";

/// A drawn run folder with everything that a report shows: one failed and one skipped cell, claims, a machine, two
/// invocations, and hostile text wherever a record holds text.
pub fn hostile_run() -> TempDir {
    let mut table = Table::fig5();
    let failed = table.find("mps", "llama-2-7b-infer", "bert-train");
    table.lose(failed, "failed", HOSTILE);
    let skipped = table.find("tgs", "llama-2-7b-infer", "bert-train");
    table.lose(skipped, "skipped", "does not fit & is left out");
    for row in 0..table.rows.len() {
        if table.get(row, "training") == "whisper-train" {
            table.set(row, "training", &format!("{HOSTILE}-train"));
        }
    }
    let dir = run_with(&table.csv());
    let put = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    put(
        "claims.csv",
        &format!(
            "claim,text,source,experiments,inference,metric,statistic,relation,system,other,published,band_low,band_high,\
             band_reason,pairs_needed,simulated_verdict,measured_verdict,evidence,machine,why,n,value,low,high,interval,\
             median,median_low,median_high,below,below_low,below_high\n\
             a,{HOSTILE},ours,fig5,,p99-overhead,mean,within,tally,,,0,0.1,r,12,holds in simulation,not run,\
             simulated,synthetic,,12,0.035,0,0.1,Student over pairs,,,,,,\n\
             b,b,ours,fig5,,p99-overhead,mean,within,mps,,,0,5,r,12,missed in simulation,not run,\
             simulated,synthetic,,12,11.5,9,14,Student over pairs,,,,,,\n\
             c,c,ours,fig5,,p99-overhead,mean,within,tgs,,,0,5,r,12,inconclusive,not run,,,,1,,,,,,,,,,\n"
        ),
    );
    put(
        "machine.toml",
        &format!(
            "name = \"synthetic\"\nsms = 132\n[rules.slice_ns]\nvalue = 2_200_000\norigin = \"measured\"\nsource = \"{HOSTILE}\"\n"
        ),
    );
    put(
        "run.toml",
        &format!(
            "machine = \"synthetic\"\nbackend = \"sim\"\nsize = \"default\"\n\n[[invocation]]\ncommand = \"artifact reproduce \
             --seeds 2 --backend sim\"\nstarted = \"2026-01-02T03:04:05Z\"\nexperiments = [\"fig5\"]\nsimulator = 7\n\n\
             [[invocation]]\ncommand = \"artifact reproduce --seeds 3 --jobs 2 --backend sim\"\nstarted = \
             \"2026-02-03T04:05:06Z\"\nrevision = \"0123abc\"\ndirty = false\nexperiments = [\"fig5\"]\nsimulator = 7\n\
             arrivals = [\"{HOSTILE}, and more than forty letters of text\"]\n[invocation.inputs]\n\"{HOSTILE}\" = \"00\"\n"
        ),
    );
    figures::draw(dir.path(), &[], true).unwrap();
    figures::report::renew(dir.path()).unwrap();
    dir
}
