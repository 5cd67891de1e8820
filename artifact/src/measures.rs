//! What one finished cell says by itself, before it is compared with others.

use crate::compare::interval;
use crate::gpu::Runtime;
use crate::stats::{self, Summary};
use sim::{Progress, Request};

/// Everything that is stored of a finished cell beside its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Label of the arrivals.
    pub trace: Option<String>,
    /// Planned length of the cell.
    pub span_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Planned arrivals; 0 for a closed loop or without a server.
    pub arrivals: u64,
    pub requests: Vec<Request>,
    /// Of the training.
    pub best_effort: Option<Progress>,
    /// Requests of the best-effort servers, one list each.
    pub peers: Vec<Vec<Request>>,
    /// When iterations of the training ended, ns; only of a timeline.
    pub iteration_ends: Vec<u64>,
    /// What the runtime counted in a measured cell.
    pub runtime: Option<Box<Runtime>>,
}

/// The numbers of one cell that tables are made of. Times are integer nanoseconds or ratios of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Measures {
    pub key: String,
    pub trace: Option<String>,
    pub requests: u64,
    pub span_ns: u64,
    pub upstream_ms: Option<Summary>,
    pub service_ns: Option<Summary>,
    /// 95 % interval of its p99, from a moving-block bootstrap of the requests.
    pub service_p99_interval_ns: Option<(f64, f64)>,
    /// Only with planned arrivals.
    pub end_to_end_ns: Option<Summary>,
    pub utilisation: Option<f64>,
    pub overloaded: Option<bool>,
    pub hp_rate_hz: Option<f64>,
    /// Iterations of the training, or requests of all best-effort servers.
    pub be_rate_hz: Option<f64>,
    /// Mean of the truncated service times, ns: upstream shapes traffic from it.
    pub truncated_mean_ns: Option<u64>,
    /// As [`Record::runtime`].
    pub runtime: Option<Box<Runtime>>,
}

impl Measures {
    /// Computes them; `paced` tells planned arrivals from a closed loop.
    pub fn of(key: String, record: &Record, paced: bool) -> Measures {
        let service: Vec<u64> = record.requests.iter().map(|r| r.end_ns - r.start_ns).collect();
        let service_ns = Summary::of(&service);
        // A rate needs the whole time: a server that is done with its arrivals early still had the span for them.
        let elapsed_ns = if paced { record.end_ns.max(record.span_ns) } else { record.end_ns };
        let rate = |count: f64| (elapsed_ns > 0).then(|| count * 1e9 / elapsed_ns as f64);
        let (mut end_to_end_ns, mut utilisation, mut overloaded) = (None, None, None);
        if paced && let Some(summary) = &service_ns {
            let end_to_end: Vec<u64> = record.requests.iter().map(|r| r.end_ns - r.arrival_ns).collect();
            end_to_end_ns = Summary::of(&end_to_end);
            let offered = record.arrivals as f64 / record.span_ns as f64 * summary.mean;
            let waits: Vec<u64> = record.requests.iter().map(|r| r.start_ns - r.arrival_ns).collect();
            utilisation = Some(offered);
            overloaded = Some(stats::overloaded(offered, &waits, summary.mean));
        }
        let truncated = stats::upstream_truncation(&service);
        Measures {
            key,
            trace: record.trace.clone(),
            requests: service.len() as u64,
            span_ns: record.span_ns,
            upstream_ms: Summary::upstream_ms(&service),
            hp_rate_hz: if service.is_empty() { None } else { rate(service.len() as f64) },
            be_rate_hz: record.best_effort.and_then(|progress| progress.rate_hz()).or(peers_rate(record)),
            truncated_mean_ns: (!truncated.is_empty()).then(|| stats::mean(truncated).round() as u64),
            service_ns,
            service_p99_interval_ns: interval::of_p99(&service),
            end_to_end_ns,
            utilisation,
            overloaded,
            runtime: record.runtime.clone(),
        }
    }
}

/// Requests per second that the best-effort servers finished within the span, all together.
fn peers_rate(record: &Record) -> Option<f64> {
    let in_span = |request: &&Request| request.end_ns <= record.span_ns;
    let served = record.peers.iter().flatten().filter(in_span).count();
    (!record.peers.is_empty() && record.span_ns > 0).then(|| served as f64 * 1e9 / record.span_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cell_by_hand() {
        let request = |arrival_ns, start_ns, end_ns| Request { arrival_ns, start_ns, end_ns };
        let record = Record {
            trace: Some("by hand".to_owned()),
            span_ns: 1000,
            end_ns: 900,
            arrivals: 4,
            requests: vec![
                request(0, 0, 100),
                request(50, 100, 200),
                request(500, 500, 700),
                request(800, 800, 900),
            ],
            best_effort: Some(Progress { iterations: 3, partial: 0.5, elapsed_ns: 500_000_000 }),
            peers: Vec::new(),
            iteration_ends: Vec::new(),
            runtime: None,
        };
        let m = Measures::of("k".to_owned(), &record, true);
        assert_eq!(m.service_ns.unwrap().mean, 125.0);
        assert_eq!(m.end_to_end_ns.unwrap().mean, 137.5);
        assert_eq!(m.utilisation, Some(0.5));
        assert_eq!(m.overloaded, Some(false));
        // Over the span, not until the last request.
        assert_eq!(m.hp_rate_hz, Some(4e6));
        assert_eq!(m.be_rate_hz, Some(7.0));
        let closed = Measures::of("k".to_owned(), &record, false);
        assert_eq!((closed.end_to_end_ns, closed.utilisation), (None, None));
        assert_eq!(closed.hp_rate_hz, Some(4e9 / 900.0));
        // Of the peers' three requests one ends after the span of 1 us.
        let peers = vec![vec![request(0, 0, 10), request(900, 900, 1001)], vec![request(5, 10, 20)]];
        let crowd = Record { best_effort: None, peers, ..record };
        assert_eq!(Measures::of("k".to_owned(), &crowd, true).be_rate_hz, Some(2e6));
    }

    /// The client's answer to a server that stalls must be to wait, not to forget what it would have sent.
    #[test]
    fn a_stall_shows_in_end_to_end_times() {
        // Arrivals each 10 ms for 1 s, service 1 ms; the server stalls for 500 ms at 0.2 s.
        let ms = 1_000_000u64;
        let (mut requests, mut free) = (Vec::new(), 0);
        for arrival_ns in (0..100u64).map(|k| k * 10 * ms) {
            let start_ns = arrival_ns.max(free);
            let stall = if arrival_ns == 200 * ms { 500 * ms } else { 0 };
            free = start_ns + stall + ms;
            requests.push(Request { arrival_ns, start_ns, end_ns: free });
        }
        let record = Record {
            trace: None,
            span_ns: 1000 * ms,
            end_ns: free,
            arrivals: 100,
            requests,
            best_effort: None,
            iteration_ends: Vec::new(),
            runtime: None,
            peers: Vec::new(),
        };
        let m = Measures::of("k".to_owned(), &record, true);
        let (service, end_to_end) = (m.service_ns.unwrap(), m.end_to_end_ns.unwrap());
        // By hand: the waits fall by 9 ms per request from 501 ms; p99 lies between 492 and 501 ms, at 0.01.
        assert!((end_to_end.p99 / 1e6 - 492.09).abs() < 1e-6, "{end_to_end:?}");
        // From the start of service one request alone was slow: 501 ms among 99 of 1 ms, again at 0.01.
        assert!((service.p99 / 1e6 - 6.0).abs() < 1e-6 && service.p95 / 1e6 == 1.0, "{service:?}");
        assert_eq!(m.overloaded, Some(false));
    }
}
