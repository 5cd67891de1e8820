//! What the conclusions owe to single constants: every rule of the machine at half and at twice its value, one at a time.

use crate::summary::Row;
use anyhow::{Context, Result};
use serde::Serialize;
use sim::Machine;
use sim::machine::Constant;

/// The experiment whose cells are simulated for every variant.
pub const EXPERIMENT: &str = "rules-check";

/// Factors of a constant.
pub const FACTORS: [f64; 2] = [0.5, 2.0];

/// A statement that a variant may overturn: the number of a system over that of another one lies in a band.
struct Conclusion {
    id: &'static str,
    metric: Metric,
    system: &'static str,
    over: &'static str,
    band: (f64, f64),
}

#[derive(Clone, Copy)]
enum Metric {
    /// Mean p99 overhead over the pairs.
    Overhead,
    /// Mean system throughput over the pairs.
    Throughput,
}

const CONCLUSIONS: &[Conclusion] = &[
    below("tally below mps-priority", "tally", "mps-priority"),
    below("tally below time-slicing", "tally", "time-slicing"),
    below("gate below mps-priority", "gate", "mps-priority"),
    below("gate below time-slicing", "gate", "time-slicing"),
    below("mps-priority below mps", "mps-priority", "mps"),
    below("time-slicing below mps-priority", "time-slicing", "mps-priority"),
    Conclusion {
        id: "gate at most half of mps-priority",
        metric: Metric::Overhead,
        system: "gate",
        over: "mps-priority",
        band: (f64::NEG_INFINITY, 0.5),
    },
    Conclusion {
        id: "tally keeps 80 % of tgs-artifact's throughput",
        metric: Metric::Throughput,
        system: "tally",
        over: "tgs-artifact",
        band: (0.8, f64::INFINITY),
    },
];

/// The mean p99 overhead of a system is below another one's.
const fn below(id: &'static str, system: &'static str, over: &'static str) -> Conclusion {
    Conclusion { id, metric: Metric::Overhead, system, over, band: (f64::NEG_INFINITY, 1.0) }
}

/// A number of a variant, and the verdict if it decides a conclusion.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    pub name: String,
    pub number: Option<f64>,
    pub verdict: Option<bool>,
}

/// Mean p99 overhead of every system in the order of the table, then the conclusions.
pub fn quantities(rows: &[Row]) -> Vec<Quantity> {
    let mut systems: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.kind == "pair") {
        if !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    let overheads = systems.iter().map(|system| Quantity {
        name: format!("mean p99 overhead of {system}"),
        number: mean(rows, system, Metric::Overhead),
        verdict: None,
    });
    let conclusions = CONCLUSIONS.iter().map(|c| {
        let number =
            mean(rows, c.system, c.metric).zip(mean(rows, c.over, c.metric)).map(|(own, other)| own / other);
        let verdict = number.map(|number| c.band.0 <= number && number <= c.band.1);
        Quantity { name: c.id.to_owned(), number, verdict }
    });
    overheads.chain(conclusions).collect()
}

/// Of a system over all its pairs; `None` if one of them failed, as means of other pairs say nothing.
fn mean(rows: &[Row], system: &str, metric: Metric) -> Option<f64> {
    let own = rows.iter().filter(|row| row.kind == "pair" && row.system == system && row.status != "skipped");
    let values: Option<Vec<f64>> = own
        .map(|row| match metric {
            Metric::Overhead => row.p99_overhead,
            Metric::Throughput => row.system_throughput,
        })
        .collect();
    values.filter(|values| !values.is_empty()).map(|v| v.iter().sum::<f64>() / v.len() as f64)
}

/// The rules of a machine by name, in the order of the names. One that is 0 has neither a half nor a double.
///
/// # Errors
/// None that a caller can cause.
pub fn rules(machine: &Machine) -> Result<Vec<(String, Constant)>> {
    let rules = toml::Table::try_from(&machine.rules)?;
    let rules: Vec<(String, Constant)> =
        rules.into_iter().map(|(name, rule)| Ok((name, rule.try_into()?))).collect::<Result<_>>()?;
    Ok(rules.into_iter().filter(|(_, rule)| rule.value != 0.0).collect())
}

/// The machine with one rule multiplied; rules are whole numbers, and one that counts stays at 1 or above.
///
/// # Errors
/// There is no such rule.
pub fn varied(machine: &Machine, rule: &str, factor: f64) -> Result<Machine> {
    let mut table = toml::Table::try_from(machine)?;
    let value = table
        .get_mut("rules")
        .and_then(|rules| rules.get_mut(rule)?.get_mut("value"))
        .with_context(|| format!("machine `{}` has no rule `{rule}`", machine.name))?;
    let now = value.as_float().context("a rule's value is a number")?;
    *value = toml::Value::Float((now * factor).round().max(1.0));
    Ok(table.try_into()?)
}

/// `sensitivity.csv`: one number of one variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub machine: String,
    pub parameter: String,
    pub origin: String,
    pub factor: f64,
    pub value: f64,
    pub quantity: String,
    pub number: Option<f64>,
    /// With the rule as it is.
    pub base_number: Option<f64>,
    /// Of conclusions only.
    pub verdict: Option<bool>,
    pub base_verdict: Option<bool>,
    pub flips: Option<bool>,
}

impl Line {
    /// A conclusion that the cells of this variant, or those of the base, do not decide: a cell of them failed.
    pub fn undecided(&self) -> bool {
        self.flips.is_none() && CONCLUSIONS.iter().any(|conclusion| conclusion.id == self.quantity)
    }
}

/// The lines of one variant beside the base.
pub fn lines(
    machine: &str,
    rule: (&str, &Constant),
    factor: f64,
    value: f64,
    base: &[Quantity],
    variant: &[Quantity],
) -> Vec<Line> {
    let line = |(base, own): (&Quantity, &Quantity)| Line {
        machine: machine.to_owned(),
        parameter: rule.0.to_owned(),
        origin: format!("{:?}", rule.1.origin).to_lowercase(),
        factor,
        value,
        quantity: own.name.clone(),
        number: own.number,
        base_number: base.number,
        verdict: own.verdict,
        base_verdict: base.verdict,
        flips: own.verdict.zip(base.verdict).map(|(own, base)| own != base),
    };
    base.iter().zip(variant).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, overhead: f64, throughput: f64) -> Row {
        Row {
            kind: "pair".to_owned(),
            system: system.to_owned(),
            status: "ok".to_owned(),
            p99_overhead: Some(overhead),
            system_throughput: Some(throughput),
            ..Row::default()
        }
    }

    fn find<'a>(quantities: &'a [Quantity], name: &str) -> &'a Quantity {
        quantities.iter().find(|q| q.name == name).unwrap()
    }

    #[test]
    fn conclusions_by_hand() {
        let rows = |tally: f64| {
            [
                row("tally", tally, 1.2),
                row("tally", 0.1, 1.2),
                row("mps-priority", 0.5, 1.6),
                row("tgs-artifact", 0.5, 1.6),
            ]
        };
        let base = quantities(&rows(0.3));
        assert_eq!(find(&base, "mean p99 overhead of tally").number, Some(0.2));
        let below = find(&base, "tally below mps-priority");
        assert_eq!((below.number, below.verdict), (Some(0.4), Some(true)));
        // 1.2 / 1.6 is below 0.8; the gate was not run.
        assert_eq!(find(&base, "tally keeps 80 % of tgs-artifact's throughput").verdict, Some(false));
        assert_eq!(find(&base, "gate below mps-priority").verdict, None);
        let variant = quantities(&rows(1.3));
        let machine = Machine::parse(include_str!("../../../machines/h200.toml")).unwrap();
        let rule = &rules(&machine).unwrap()[0];
        let lines = lines("h200", (&rule.0, &rule.1), 2.0, 1.0, &base, &variant);
        let flips: Vec<&str> =
            lines.iter().filter(|l| l.flips == Some(true)).map(|l| l.quantity.as_str()).collect();
        assert_eq!(flips, ["tally below mps-priority"]);
    }

    #[test]
    fn one_rule_is_varied_and_nothing_else() {
        let machine = Machine::parse(include_str!("../../../machines/h200.toml")).unwrap();
        for (name, rule) in rules(&machine).unwrap() {
            let twice = varied(&machine, &name, 2.0).unwrap();
            let changed: Vec<String> = rules(&machine)
                .unwrap()
                .into_iter()
                .zip(rules(&twice).unwrap())
                .filter(|(a, b)| a.1.value.to_bits() != b.1.value.to_bits())
                .map(|(a, _)| a.0)
                .collect();
            assert_eq!(changed, std::slice::from_ref(&name));
            assert_eq!(varied(&twice, &name, 0.5).unwrap(), machine, "{name}: {rule:?}");
        }
        assert!(varied(&machine, "no_such", 2.0).unwrap_err().to_string().contains("`no_such`"));
    }
}
