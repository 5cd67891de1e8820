//! Markdown tables and the numbers in them.

use crate::grid::Facts;
use crate::records::Backend;

/// A Markdown table under construction.
pub struct Table {
    out: String,
    columns: usize,
}

impl Table {
    /// `header`: the column heads, separated by `|`. The first `names` of them hold text and go to the left,
    /// the others to the right.
    pub fn new(names: usize, header: &str) -> Table {
        let heads: Vec<&str> = header.split('|').map(str::trim).collect();
        let rule: Vec<&str> = (0..heads.len()).map(|i| if i < names { "---" } else { "---:" }).collect();
        let out = format!("| {} |\n| {} |\n", heads.join(" | "), rule.join(" | "));
        Table { out, columns: heads.len() }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.columns, "row and header differ in length");
        let cells = cells.map(|c| c.replace('|', "\\|").replace('\n', " "));
        self.out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    pub fn finish(self) -> String {
        self.out
    }
}

/// A ratio as percent with one decimal; empty if missing.
pub fn percent(value: Option<f64>) -> String {
    value.map(|v| format!("{:.1} %", v * 100.0)).unwrap_or_default()
}

/// Two ratios as a range in percent; empty if missing.
pub fn percent_range(range: Option<(f64, f64)>) -> String {
    range.map(|(a, b)| format!("{:.1}..{:.1} %", a * 100.0, b * 100.0)).unwrap_or_default()
}

/// A ratio with three decimals; empty if missing.
pub fn ratio(value: Option<f64>) -> String {
    value.map(|v| format!("{v:.3}")).unwrap_or_default()
}

/// Milliseconds with three decimals; empty if missing.
pub fn ms(value: Option<f64>) -> String {
    value.map(|v| format!("{v:.3}")).unwrap_or_default()
}

/// Where the numbers come from, in a sentence.
pub fn origin(backend: Backend, machine: &str) -> String {
    match backend {
        Backend::Sim => format!("**SIMULATED ({machine} model)**, not measured on a GPU."),
        Backend::Gpu => format!("Measured on {machine}."),
    }
}

/// A document whose first and last lines say where its numbers come from, so that a copied half still says
/// it.
pub fn wrapped(facts: &Facts, body: &str) -> String {
    let origin = origin(facts.backend, &facts.machine);
    let incomplete = if facts.incomplete { " INCOMPLETE RUN." } else { "" };
    let traces = facts.traces.join("; ");
    let seeds = facts.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "{origin}{incomplete} Load {}. Arrivals: {traces}. Seeds (arrival variance only): {seeds}.\n\n{}\n\n{origin}{incomplete}\n",
        facts.load,
        body.trim_end()
    )
}
