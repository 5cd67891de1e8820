//! The answer as a whole, for people and for programs.

use crate::check::{Check, Fitness, Needed, Status};
use crate::costs::{self, Cost, Price};
use crate::{gpu, host};
use anyhow::Result;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub version: String,
    pub system: String,
    pub simulator: Fitness,
    pub gpu: Fitness,
    pub check: Vec<Check>,
    /// How the hours were counted.
    pub hours: String,
    pub cost: Vec<Cost>,
    pub price: Vec<Price>,
}

impl Report {
    /// Looks at this machine.
    pub fn make(root: &Path, prices: &Path) -> Report {
        let mut check = host::checks(root);
        let (mut cost, mut price, mut hours) = (Vec::new(), Vec::new(), String::new());
        match costs::prices(prices).and_then(|prices| Ok((costs::all(root, &prices)?, prices))) {
            Ok((costs, prices)) => {
                let experiments = format!("{} can be read", costs.len());
                check.push(Check::ok("experiments", Needed::Always, experiments));
                hours = format!(
                    "the span of every cell and {} s to set it up ({})",
                    prices.estimate.setup_seconds_per_cell, prices.estimate.setup_origin
                );
                (cost, price) = (costs, prices.price);
            }
            Err(error) => check.push(Check::failed(
                "experiments",
                Needed::Always,
                format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" "),
                "repair the file, or restore it with git",
            )),
        }
        check.extend(gpu::checks());
        Report::of(check, hours, cost, price)
    }

    /// From its parts.
    pub fn of(check: Vec<Check>, hours: String, cost: Vec<Cost>, price: Vec<Price>) -> Report {
        Report {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            simulator: Fitness::of(&check, Needed::Always),
            gpu: Fitness::of(&check, Needed::Gpu),
            check,
            hours,
            cost,
            price,
        }
    }

    /// As JSON, indented.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// As TOML.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn toml(&self) -> Result<String> {
        Ok(toml::to_string(self)?)
    }

    /// For people.
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        for (title, needed) in
            [("needed for every run", Needed::Always), ("needed for a run on a GPU", Needed::Gpu)]
        {
            let _ = writeln!(text, "{title}");
            for check in self.check.iter().filter(|check| check.needed_for == needed) {
                let mark = match check.status {
                    Status::Ok => "ok  ",
                    Status::Warning => "note",
                    Status::Failed => "FAIL",
                };
                let _ = writeln!(text, "  {mark}  {:18} {}", check.name, check.found);
                if let Some(fix) = &check.fix {
                    let _ = writeln!(text, "        {:18} -> {fix}", "");
                }
            }
        }
        self.costs(&mut text);
        let verdict = |fitness: &Fitness| match fitness.fit {
            true => "fit".to_owned(),
            false => format!("NOT FIT ({})", fitness.failed.join(", ")),
        };
        let _ = writeln!(text, "simulator: {}\nGPU: {}", verdict(&self.simulator), verdict(&self.gpu));
        text
    }

    fn costs(&self, text: &mut String) {
        if self.cost.is_empty() {
            return;
        }
        let _ = writeln!(text, "what each experiment costs");
        let _ = write!(text, "  {:26} {:>5} {:>14} {:>9}", "", "cells", "simulator, min", "GPU, h");
        for price in &self.price {
            let _ = write!(text, " {:>22}", price.name);
        }
        text.push('\n');
        for cost in &self.cost {
            let how = match (cost.size, cost.default) {
                ("full", _) => " (--full)",
                (_, true) => "",
                (_, false) => " (by name only)",
            };
            let name = format!("{}{how}", cost.experiment);
            let _ = write!(
                text,
                "  {name:26} {:>5} {:>14} {:>9.2}",
                cost.cells, cost.simulator_minutes, cost.gpu_hours
            );
            for price in &self.price {
                let dollars = cost.dollars.get(&price.name).map(|dollars| format!("${dollars:.2}"));
                let _ = write!(text, " {:>22}", dollars.unwrap_or_default());
            }
            text.push('\n');
        }
        let _ = writeln!(
            text,
            "  GPU hours: {}; an upper bound: cells that two experiments share are counted in both, and systems that are only \
             simulated as well (`cargo xtask reproduce --backend gpu --list` leaves both out)",
            self.hours
        );
        for price in &self.price {
            let example = if price.example { " EXAMPLE, edit artifact/prices.toml:" } else { "" };
            let _ = writeln!(
                text,
                "  {}:{example} ${:.2} an hour ({}, {})",
                price.name, price.dollars_per_hour, price.source, price.date
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let check = vec![
            Check::ok("rust", Needed::Always, "rustc 1.95.0"),
            Check::failed("driver", Gpu, "there is no nvidia-smi on PATH", "install \"it\""),
        ];
        let cost = Cost {
            experiment: "fig5".to_owned(),
            size: "default",
            default: true,
            cells: 118,
            simulator_minutes: 5.0,
            gpu_span_hours: 9.8,
            gpu_hours: 11.8,
            dollars: [("p".to_owned(), 47.2)].into(),
        };
        let price = Price {
            name: "p".to_owned(),
            dollars_per_hour: 4.0,
            source: "example".to_owned(),
            date: "2026-01-02".to_owned(),
            example: true,
        };
        Report::of(check, "spans".to_owned(), vec![cost], vec![price])
    }

    use Needed::Gpu;

    #[test]
    fn people_see_the_fix_and_the_verdict() {
        let text = report().pretty();
        for expected in
            ["-> install \"it\"", "simulator: fit\nGPU: NOT FIT (driver)\n", "$47.20", "EXAMPLE, edit"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn programs_read_the_same() {
        let report = report();
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        let toml: toml::Table = toml::from_str(&report.toml().unwrap()).unwrap();
        assert_eq!(json["gpu"]["fit"], false);
        assert_eq!(json["check"][1]["fix"], "install \"it\"");
        assert_eq!(toml["simulator"]["fit"].as_bool(), Some(true));
        assert_eq!(json, serde_json::to_value(&toml).unwrap());
    }
}
