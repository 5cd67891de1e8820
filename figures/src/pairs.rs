//! Table `pairs`: every cell with both jobs, percentiles with the number of requests behind them.

use anyhow::Result;

use crate::csv::{self, Csv};
use crate::grid::Facts;
use crate::markdown::{Table, ms, percent, ratio, wrapped};
use crate::records::{Record, Records, Status};
use crate::style::{job_rank, short_job, system_rank};

/// Whether a p99 over `n` requests needs a mark: ten of them should lie above it, or it is close to the maximum.
pub fn few(n: Option<u64>) -> bool {
    n.is_none_or(|n| !intervals::enough_for(n, 0.99))
}

/// The table as Markdown and as CSV, in drawing order.
///
/// # Errors
/// The rows cannot be shown together (see [`Facts::of`]).
pub fn render(title: &str, records: &Records) -> Result<(String, String)> {
    let facts = Facts::of(records)?;
    let mut rows: Vec<&Record> = records.pairs().collect();
    let job = |j: &Option<String>| j.clone().unwrap_or_default();
    rows.sort_by_key(|r| {
        let (inference, training) = (job(&r.inference), job(&r.training));
        (
            job_rank(&inference),
            inference,
            job_rank(&training),
            training,
            system_rank(&r.system),
            r.seed,
            r.line,
        )
    });
    let mut table = Table::new(
        3,
        "inference | training | system | seed | n | p50 ms | p99 ms | p99 overhead | n, all | \
         service p99 ms, all | its 95 % interval | end-to-end p99 ms | HP | BE | overloaded | status",
    );
    let mut out = Csv::new(
        "backend machine inference training system load seed status upstream_n upstream_p50_ms \
         upstream_p99_ms upstream_p99_few baseline_p99_ms p99_overhead service_n service_p99_ms \
         service_p99_few service_p99_low_ms service_p99_high_ms e2e_n e2e_p99_ms e2e_p99_few hp_norm be_norm system_throughput overloaded span_s error",
    );
    let mut reasons: Vec<String> = Vec::new();
    for r in rows {
        let (inference, training) = (job(&r.inference), job(&r.training));
        let count = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        let marked = |v: Option<f64>, n: Option<u64>| match ms(v) {
            text if text.is_empty() || !few(n) => text,
            text => format!("{text} *"),
        };
        let service = r.service_p99_ns.map(|v| v / 1e6);
        let e2e = r.e2e_p99_ns.map(|v| v / 1e6);
        let status = match (&r.status, &r.error) {
            (Status::Ok, _) => String::new(),
            (status, error) => {
                let name = status_name(*status);
                let reason = format!("{name}: {}", error.as_deref().unwrap_or("no reason given"));
                // The reason goes below the table, once: a stack of text in a cell hides the numbers of its
                // row.
                let at = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                });
                format!("{name} ({})", at + 1)
            }
        };
        let interval = r.service_p99_interval_ns.map(|(low, high)| (low / 1e6, high / 1e6));
        let span_s = r.span_ns.map(|ns| ns as f64 / 1e9);
        // How long the queue had to grow belongs to the end-to-end time beside it.
        let overloaded = match (r.overloaded, span_s) {
            (Some(true), Some(span)) => format!("over {span} s"),
            (Some(true), None) => "yes".to_owned(),
            _ => String::new(),
        };
        table.row([
            short_job(&inference).to_owned(),
            short_job(&training).to_owned(),
            r.system.clone(),
            count(r.seed),
            count(r.upstream_n),
            ms(r.upstream_p50_ms),
            marked(r.upstream_p99_ms, r.upstream_n),
            percent(r.p99_overhead()),
            count(r.service_n),
            marked(service, r.service_n),
            interval.map(|(low, high)| format!("{low:.3}..{high:.3}")).unwrap_or_default(),
            marked(e2e, r.e2e_n),
            ratio(r.hp_norm),
            ratio(r.be_norm),
            overloaded,
            status,
        ]);
        let flag = |v: Option<f64>, n: Option<u64>| v.map_or("", |_| if few(n) { "true" } else { "false" });
        out.text(csv::backend(r.backend)).text(&r.machine).text(&inference).text(&training).text(&r.system);
        out.real(r.load)
            .count(r.seed)
            .text(status_name(r.status))
            .count(r.upstream_n)
            .real(r.upstream_p50_ms);
        out.real(r.upstream_p99_ms).text(flag(r.upstream_p99_ms, r.upstream_n)).real(r.baseline_p99_ms);
        out.real(r.p99_overhead()).count(r.service_n).real(service).text(flag(service, r.service_n));
        out.real(interval.map(|i| i.0)).real(interval.map(|i| i.1));
        out.count(r.e2e_n).real(e2e).text(flag(e2e, r.e2e_n)).real(r.hp_norm).real(r.be_norm);
        out.real(r.system_throughput).text(r.overloaded.map_or("", |o| if o { "true" } else { "false" }));
        out.real(span_s).text(r.error.as_deref().unwrap_or_default()).end();
    }
    let mut notes = String::from(NOTES);
    for (i, reason) in reasons.iter().enumerate() {
        notes.push_str(&format!("- ({}) {}\n", i + 1, reason.replace('\n', " ")));
    }
    Ok((wrapped(&facts, &format!("# {title}\n\n{}\n{notes}", table.finish())), out.finish()))
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
}

const NOTES: &str = "\
- n, p50, p99: service time by upstream's rule (second half of the run, at most the last 5,000 requests).
- n, all; service p99, all: service time of all requests. Its 95 % interval: moving-block bootstrap within the run,
  so it knows nothing of other seeds, models or machines. End-to-end: planned arrival to end, all requests; in an
  overloaded cell it grows with the length of the run, which is given.
- Seeds differ in their arrivals (and, simulated, in the durations that are drawn), in nothing else.
- `*`: fewer than 1,000 requests, so the p99 is close to the maximum.
- HP, BE: normalised throughput of the high-priority and the best-effort job. An empty cell is a missing number.
";
