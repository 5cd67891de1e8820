//! A server: one request at a time, no queue but the planned arrivals.

use crate::scenario::{Ns, Request, Traffic};

/// What the server has done and will do.
#[derive(Debug)]
pub struct Server<'a> {
    traffic: Traffic<'a>,
    span_ns: Ns,
    current: Option<(Ns, Ns)>,
    requests: Vec<Request>,
}

impl<'a> Server<'a> {
    /// A server that begins no request after `span_ns`.
    pub fn new(traffic: Traffic<'a>, span_ns: Ns) -> Self {
        Server { traffic, span_ns, current: None, requests: Vec::new() }
    }

    /// When the first request begins.
    pub fn first(&self) -> Option<Ns> {
        self.next(0)
    }

    /// When the next request begins, if the server is free at `free`.
    fn next(&self, free: Ns) -> Option<Ns> {
        let k = self.requests.len();
        let start = match self.traffic {
            Traffic::ClosedLoop { requests } => ((k as u64) < requests).then_some(free),
            Traffic::Paced(arrivals) => arrivals.get(k).map(|&a| a.max(free)),
        };
        start.filter(|&s| s < self.span_ns)
    }

    /// A request is being served.
    pub fn serving(&self) -> bool {
        self.current.is_some()
    }

    /// A request begins.
    pub fn begin(&mut self, now: Ns) {
        let arrival = match self.traffic {
            Traffic::ClosedLoop { .. } => now,
            Traffic::Paced(arrivals) => arrivals[self.requests.len()],
        };
        self.current = Some((arrival, now));
    }

    /// The request ends at `end`; returns when the next one begins.
    pub fn end(&mut self, end: Ns) -> Option<Ns> {
        let (arrival_ns, start_ns) = self.current.take().expect("a request was begun");
        self.requests.push(Request { arrival_ns, start_ns, end_ns: end });
        self.next(end)
    }

    /// How many requests ended by `now`.
    pub fn served(&self, now: Ns) -> u64 {
        self.requests.partition_point(|request| request.end_ns <= now) as u64
    }

    /// The served requests, in order.
    pub fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}
