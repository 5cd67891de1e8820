//! The rows of `corun.csv`, and what of them is compared.

use super::judge::Point;
use super::plan::{Cell, Kind, PROTOTYPE, Session};
use crate::program::launches;
use crate::worker::Loop;
use intervals::percentile;
use protocol::report::Report;
use serde::{Deserialize, Serialize};

/// One cell. Empty fields were not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its name, also in `samples.csv`.
    pub cell: String,
    /// As `--policy` was given; `none` for programs without the runtime.
    pub system: String,
    pub substrate: String,
    pub kind: String,
    pub best_effort: String,
    pub arrivals: String,
    pub repeat: u32,
    pub status: String,
    pub error: String,
    pub n: Option<u64>,
    pub span_ns: Option<u64>,
    pub service_mean_ns: Option<f64>,
    pub service_p50_ns: Option<f64>,
    pub service_p90_ns: Option<f64>,
    pub service_p99_ns: Option<f64>,
    pub service_max_ns: Option<u64>,
    pub e2e_p50_ns: Option<f64>,
    pub e2e_p99_ns: Option<f64>,
    /// Iterations per second while the server had requests.
    pub be_rate_hz: Option<f64>,
    /// Of its rate alone, without the runtime.
    pub be_norm: Option<f64>,
    /// What the runtime counted during the cell.
    pub hp_launches: Option<u64>,
    pub be_launches: Option<u64>,
    pub be_held: Option<u64>,
    pub be_waited_ns: Option<u64>,
}

/// One best-effort kernel that high-priority work met, of one session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    pub system: String,
    pub best_effort: String,
    pub repeat: u32,
    pub kernel: String,
    pub grid: String,
    pub block: String,
    pub duration_ns: Option<u64>,
    pub launches: u64,
    pub stops: u64,
    pub stop_ns: u64,
    pub stop_most_ns: u64,
}

impl Row {
    /// A row without numbers.
    pub fn of(session: &Session, cell: &Cell, substrate: &str) -> Row {
        let (kind, best_effort) = match cell.kind {
            Kind::Closed => ("closed", ""),
            Kind::Alone => ("alone", ""),
            Kind::TrainerAlone(trainer) => ("trainer-alone", trainer),
            Kind::Pair(trainer) => ("pair", trainer),
        };
        let repeat = session.repeat;
        let arrivals = match cell.kind {
            Kind::Alone | Kind::Pair(_) => cell.arrivals.name(),
            Kind::Closed | Kind::TrainerAlone(_) => "",
        };
        let parts = [session.system(), kind, best_effort, arrivals, &repeat.to_string()];
        Row {
            cell: parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "),
            system: session.system().to_owned(),
            substrate: substrate.to_owned(),
            kind: kind.to_owned(),
            best_effort: best_effort.to_owned(),
            arrivals: arrivals.to_owned(),
            repeat,
            ..Row::default()
        }
    }

    /// Whether it has its numbers.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    /// The server's numbers.
    pub fn take_server(&mut self, done: &Loop) {
        let sorted = |samples: &[u64]| {
            let mut sorted = samples.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let service = sorted(&done.samples_ns);
        self.n = Some(service.len() as u64);
        self.span_ns = Some(done.elapsed_ns);
        if let Some(most) = service.last() {
            self.service_mean_ns = Some(service.iter().sum::<u64>() as f64 / service.len() as f64);
            self.service_p50_ns = Some(percentile(&service, 0.50));
            self.service_p90_ns = Some(percentile(&service, 0.90));
            self.service_p99_ns = Some(percentile(&service, 0.99));
            self.service_max_ns = Some(*most);
        }
        let e2e = sorted(&done.end_to_end_ns);
        if !e2e.is_empty() {
            self.e2e_p50_ns = Some(percentile(&e2e, 0.50));
            self.e2e_p99_ns = Some(percentile(&e2e, 0.99));
        }
    }

    /// For people.
    pub fn summary(&self) -> String {
        let ms = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns / 1e6));
        let number = |x: Option<f64>, digits| x.map_or("-".to_owned(), |x| format!("{x:.digits$}"));
        match self.kind.as_str() {
            "trainer-alone" => format!("{} it/s", number(self.be_rate_hz, 2)),
            _ => format!(
                "service p50 {} p90 {} p99 {} ms, end to end p99 {} ms, n = {}, best effort {} it/s = {}",
                ms(self.service_p50_ns),
                ms(self.service_p90_ns),
                ms(self.service_p99_ns),
                ms(self.e2e_p99_ns),
                self.n.map_or("-".to_owned(), |n| n.to_string()),
                number(self.be_rate_hz, 2),
                number(self.be_norm, 3)
            ),
        }
    }
}

impl Stop {
    /// The kernels of a report that high-priority work met, those that cost it most first.
    pub fn of(session: &Session, best_effort: &str, report: &Report) -> Vec<Stop> {
        let shape = |dims: [u32; 3]| format!("{}x{}x{}", dims[0], dims[1], dims[2]);
        let of = |kernel: &protocol::report::Kernel| Stop {
            system: session.system().to_owned(),
            best_effort: best_effort.to_owned(),
            repeat: session.repeat,
            kernel: kernel.name.clone(),
            grid: shape(kernel.grid),
            block: shape(kernel.block),
            duration_ns: kernel.duration_ns,
            launches: kernel.launches,
            stops: kernel.stops,
            stop_ns: kernel.stop_ns,
            stop_most_ns: kernel.stop_most_ns,
        };
        report.kernels.iter().map(of).collect()
    }
}

/// One process of a session, at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    pub system: String,
    pub repeat: u32,
    pub program: String,
    pub mode: String,
    pub launches: u64,
    pub admitted: u64,
    pub held: u64,
    pub waited_ns: u64,
    pub passed: String,
    pub activations: u64,
    pub profiled: u64,
    pub unprotected: u64,
    pub overflows: u64,
    pub found_idle: u64,
    pub daemon_lost: bool,
    pub notes: String,
}

impl Process {
    /// What a report says of the process.
    pub fn of(session: &Session, program: &str, report: &Report) -> Process {
        let passed = report.passed.iter().map(|(reason, count)| format!("{reason}={count}"));
        Process {
            system: session.system().to_owned(),
            repeat: session.repeat,
            program: program.to_owned(),
            mode: format!("{:?}", report.mode),
            launches: launches(report),
            admitted: report.admitted,
            held: report.held,
            waited_ns: report.waited_ns,
            passed: passed.collect::<Vec<_>>().join(" "),
            activations: report.activations,
            profiled: report.profiled,
            unprotected: report.unprotected,
            overflows: report.overflows,
            found_idle: report.found_idle,
            daemon_lost: report.daemon_lost,
            notes: report.notes.join("; "),
        }
    }
}

/// The settings beside one best-effort job, repeats averaged: those of the prototype (no limit in time), and ours.
pub fn points(rows: &[Row], best_effort: &str) -> (Vec<Point>, Vec<Point>) {
    let measured = |row: &&Row| {
        row.is_ok() && row.kind == "pair" && row.arrivals == "poisson" && row.best_effort == best_effort
    };
    let mut systems: Vec<&str> = Vec::new();
    for row in rows.iter().filter(measured) {
        if row.system.starts_with("gate") && !systems.contains(&row.system.as_str()) {
            systems.push(&row.system);
        }
    }
    let point = |system: &str| {
        let of: Vec<&Row> = rows.iter().filter(measured).filter(|row| row.system == system).collect();
        let mean = |field: fn(&Row) -> Option<f64>| {
            let values: Vec<f64> = of.iter().filter_map(|row| field(row)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let (p99_ns, throughput) = (mean(|row| row.service_p99_ns)?, mean(|row| row.be_norm)?);
        Some(Point { system: system.to_owned(), p99_ns, throughput })
    };
    let is_prototype = |system: &&str| system.ends_with(&PROTOTYPE[PROTOTYPE.find(",idle").unwrap_or(0)..]);
    let (theirs, ours): (Vec<&str>, Vec<&str>) = systems.into_iter().partition(is_prototype);
    (theirs.into_iter().filter_map(point).collect(), ours.into_iter().filter_map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corun::plan::{Arrivals, TRAINERS};

    fn row(spec: &str, repeat: u32, p99_ms: f64, norm: f64) -> Row {
        let session = Session { spec: Some(spec.to_owned()), repeat, cells: Vec::new() };
        let cell = Cell { kind: Kind::Pair(TRAINERS[0]), arrivals: Arrivals::Poisson };
        let mut row = Row::of(&session, &cell, "contexts");
        row.status = "ok".to_owned();
        row.service_p99_ns = Some(p99_ms * 1e6);
        row.be_norm = Some(norm);
        row
    }

    #[test]
    fn numbers_by_hand() {
        let mut row = Row::default();
        let done = Loop {
            elapsed_ns: 9,
            samples_ns: vec![50, 10, 30, 20, 40],
            end_to_end_ns: vec![7],
            ..Loop::default()
        };
        row.take_server(&done);
        assert_eq!((row.n, row.service_mean_ns, row.service_max_ns), (Some(5), Some(30.0), Some(50)));
        assert_eq!((row.service_p50_ns, row.service_p90_ns), (Some(30.0), Some(46.0)));
        assert!((row.service_p99_ns.unwrap() - 49.6).abs() < 1e-9);
        assert_eq!((row.e2e_p50_ns, row.e2e_p99_ns), (Some(7.0), Some(7.0)));
        let mut empty = Row::default();
        empty.take_server(&Loop::default());
        assert_eq!((empty.n, empty.service_p99_ns, empty.e2e_p99_ns), (Some(0), None, None));
    }

    #[test]
    fn repeats_are_averaged_and_the_prototype_is_told_apart() {
        let prototype = format!("gate:{PROTOTYPE}");
        let mut rows = vec![
            row(&prototype, 1, 2.0, 0.4),
            row("gate", 1, 1.0, 0.5),
            row(&prototype, 2, 3.0, 0.6),
            row("gate-mps:depth=8,idle_wait_us=100,budget_us=0", 1, 4.0, 0.6),
            row("time-slicing", 1, 4.0, 0.6),
            row("gate:idle_wait_us=20,budget_us=100", 1, 4.0, 0.6),
        ];
        rows.push(Row { status: "failed".to_owned(), ..row("gate", 2, 100.0, 0.0) });
        let (theirs, ours) = points(&rows, TRAINERS[0]);
        assert_eq!(theirs.len(), 2);
        assert!((theirs[0].p99_ns - 2.5e6).abs() < 1e-6 && (theirs[0].throughput - 0.5).abs() < 1e-12);
        let names: Vec<&str> = ours.iter().map(|point| point.system.as_str()).collect();
        assert_eq!(names, ["gate", "gate:idle_wait_us=20,budget_us=100"]);
        assert_eq!(ours[0].p99_ns, 1e6);
        assert_eq!(points(&rows, TRAINERS[1]), (Vec::new(), Vec::new()));
    }
}
