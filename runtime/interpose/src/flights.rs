//! What a best-effort process has in flight: launches that the policy admitted and that are not known to be complete.
//!
//! A launch is complete when an event that was recorded behind it on its stream is. Several launches of a stream may share
//! one event. This is bookkeeping only: whoever calls it makes the driver calls, with no lock held.

use crate::types::{CUcontext, CUevent, CUstream};
use std::collections::{HashMap, VecDeque};

/// How far a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Admitted; the driver call has not returned.
    Launching,
    /// The driver has it; no event is behind it yet.
    Handed,
    /// An event is being recorded behind it, by this number.
    Marking(u64),
    /// Complete when this event is.
    Marked(CUevent),
}

#[derive(Clone, Debug)]
struct Flight {
    number: u64,
    stream: CUstream,
    context: CUcontext,
    key: u64,
    estimate_ns: Option<u64>,
    state: State,
    /// Event before it, if it is timed; the one behind it is its mark.
    start: Option<CUevent>,
    /// Its mark can be timed.
    timing: bool,
    /// When high-priority work became active while this was the oldest, ns.
    stopped_at: Option<u64>,
}

/// A launch to be put in flight.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The policy's number.
    pub number: u64,
    pub stream: CUstream,
    pub context: CUcontext,
    pub key: u64,
    pub estimate_ns: Option<u64>,
}

/// An event that tells of the end of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    pub event: CUevent,
    pub stream: CUstream,
    pub context: CUcontext,
}

/// Launches that were found complete with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Landed {
    pub numbers: Vec<u64>,
    /// Key and both events of a launch that was timed with nothing else in flight.
    pub timed: Option<(u64, CUevent, CUevent)>,
    /// Key of a launch that high-priority work waited for, and since when, ns.
    pub stopped: Option<(u64, u64)>,
    /// Events that are free again: plain ones, and timed ones.
    pub plain: Vec<CUevent>,
    pub timing: Vec<CUevent>,
}

/// All of them, with the events that are free.
#[derive(Debug, Default)]
pub struct Flights {
    flights: VecDeque<Flight>,
    marking: u64,
    /// Free events by context and kind.
    pool: HashMap<(usize, bool), Vec<CUevent>>,
}

impl Flights {
    /// Puts an admitted launch in flight. `timed` asks for timing: whether it will be, which is only if nothing else is.
    pub fn admit(&mut self, launch: Launch, timed: Option<CUevent>) {
        // What is timed must be alone until its end; what comes behind it on its stream, after the second event, does no harm.
        for flight in &mut self.flights {
            let behind = flight.stream == launch.stream && matches!(flight.state, State::Marked(_));
            if !behind && let Some(start) = flight.start.take() {
                self.pool.entry((flight.context.0 as usize, true)).or_default().push(start);
            }
        }
        let Launch { number, stream, context, key, estimate_ns } = launch;
        self.flights.push_back(Flight {
            number,
            stream,
            context,
            key,
            estimate_ns,
            state: State::Launching,
            start: timed,
            timing: false,
            stopped_at: None,
        });
    }

    /// Nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    fn find(&mut self, number: u64) -> Option<&mut Flight> {
        self.flights.iter_mut().find(|flight| flight.number == number)
    }

    /// The driver has taken the launch. Whether it is still in flight.
    pub fn handed(&mut self, number: u64) -> bool {
        let found = self.find(number);
        found.map(|flight| flight.state = State::Handed).is_some()
    }

    /// The driver refused the launch, or it cannot be followed: it is in flight no more. Returns its event for timing.
    pub fn discard(&mut self, number: u64) -> Option<CUevent> {
        let at = self.flights.iter().position(|flight| flight.number == number)?;
        self.flights.remove(at)?.start
    }

    /// Whether the launch is still to be timed.
    pub fn is_timed(&mut self, number: u64) -> bool {
        self.find(number).is_some_and(|flight| flight.start.is_some())
    }

    /// Estimates of the launches of a stream that have no event behind them yet: their sum, ns, and their number; `None`
    /// for the sum if one is not known.
    pub fn unmarked(&self, stream: CUstream) -> (Option<u64>, usize) {
        let handed = self.flights.iter().filter(|f| f.stream == stream && f.state == State::Handed);
        handed.fold((Some(0), 0), |(sum, count), flight| {
            (sum.zip(flight.estimate_ns).map(|(sum, ns)| sum.saturating_add(ns)), count + 1)
        })
    }

    /// Streams that have launches with no event behind them, but this one.
    pub fn unmarked_streams(&self, but: Option<CUstream>) -> Vec<(CUstream, CUcontext)> {
        let mut streams = Vec::new();
        for flight in self.flights.iter().filter(|f| f.state == State::Handed && Some(f.stream) != but) {
            if !streams.contains(&(flight.stream, flight.context)) {
                streams.push((flight.stream, flight.context));
            }
        }
        streams
    }

    /// An event is about to be recorded behind what the driver has of this stream: the number of the mark, and a free event
    /// of the context, if there is one. `None` if nothing needs it.
    pub fn mark(
        &mut self,
        stream: CUstream,
        context: CUcontext,
        timed: bool,
    ) -> Option<(u64, Option<CUevent>)> {
        self.marking += 1;
        let marking = self.marking;
        let mut any = false;
        for flight in &mut self.flights {
            if flight.stream == stream && flight.context == context && flight.state == State::Handed {
                flight.state = State::Marking(marking);
                flight.timing = timed;
                any = true;
            }
        }
        any.then(|| (marking, self.event(context, timed)))
    }

    /// A free event.
    pub fn event(&mut self, context: CUcontext, timed: bool) -> Option<CUevent> {
        self.pool.get_mut(&(context.0 as usize, timed)).and_then(Vec::pop)
    }

    /// Gives an event back.
    pub fn free(&mut self, context: CUcontext, timed: bool, event: CUevent) {
        self.pool.entry((context.0 as usize, timed)).or_default().push(event);
    }

    /// The event was recorded.
    pub fn marked(&mut self, marking: u64, event: CUevent) {
        for flight in self.flights.iter_mut().filter(|flight| flight.state == State::Marking(marking)) {
            flight.state = State::Marked(event);
        }
    }

    /// No event can be recorded behind these launches: nothing will tell of their end.
    pub fn lost(&mut self, marking: u64) -> Landed {
        self.take(|flight| flight.state == State::Marking(marking))
    }

    /// The first event of each stream.
    pub fn watched(&self) -> Vec<Watched> {
        let mut watched: Vec<Watched> = Vec::new();
        for Flight { stream, context, state, .. } in &self.flights {
            if let State::Marked(event) = *state
                && !watched.iter().any(|seen| seen.stream == *stream && seen.context == *context)
            {
                watched.push(Watched { event, stream: *stream, context: *context });
            }
        }
        watched
    }

    /// An event is complete, or nothing will ever tell of it.
    pub fn completed(&mut self, event: CUevent) -> Landed {
        let mut landed = self.take(|flight| flight.state == State::Marked(event));
        if landed.timed.is_none() && !landed.numbers.is_empty() && !landed.timing.contains(&event) {
            landed.plain.push(event);
        }
        landed
    }

    /// A context has gone with all that ran in it: the launches, and the events that nobody is recording.
    pub fn context_gone(&mut self, context: CUcontext) -> (Vec<u64>, Vec<CUevent>) {
        let mut events = Vec::new();
        for timed in [false, true] {
            events.extend(self.pool.remove(&(context.0 as usize, timed)).unwrap_or_default());
        }
        for flight in self.flights.iter().filter(|flight| flight.context == context) {
            if let State::Marked(event) = flight.state {
                events.extend(flight.start);
                events.push(event);
            }
        }
        // Launches share events.
        events.sort_unstable();
        events.dedup();
        (self.take(|flight| flight.context == context).numbers, events)
    }

    /// The contexts of which anything is known.
    pub fn contexts(&self) -> Vec<CUcontext> {
        let pool = self.pool.keys().map(|key| CUcontext(std::ptr::with_exposed_provenance_mut(key.0)));
        let mut contexts: Vec<CUcontext> =
            self.flights.iter().map(|flight| flight.context).chain(pool).collect();
        contexts.sort_unstable();
        contexts.dedup();
        contexts
    }

    /// The launch that has been in flight longest counts as complete from now on.
    pub fn give_up(&mut self) -> Option<u64> {
        let flight = self.flights.pop_front()?;
        Some(flight.number)
    }

    /// High-priority work became active at this time, ns.
    pub fn stop(&mut self, at: u64) {
        if let Some(flight) = self.flights.front_mut() {
            flight.stopped_at.get_or_insert(at);
        }
    }

    fn take(&mut self, wanted: impl Fn(&Flight) -> bool) -> Landed {
        let mut landed = Landed::default();
        self.flights.retain(|flight| {
            if !wanted(flight) {
                return true;
            }
            landed.numbers.push(flight.number);
            match (flight.start, flight.state) {
                (Some(start), State::Marked(end)) if flight.timing => {
                    landed.timed = Some((flight.key, start, end));
                }
                (Some(start), _) => landed.timing.push(start),
                (None, State::Marked(end)) if flight.timing => landed.timing.push(end),
                (None, _) => {}
            }
            if let Some(at) = flight.stopped_at {
                landed.stopped = Some((flight.key, at));
            }
            false
        });
        landed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::without_provenance_mut as handle;

    fn launch(number: u64, stream: usize, estimate_ns: Option<u64>) -> Launch {
        let (stream, context) = (CUstream(handle(stream)), CUcontext(handle(8)));
        Launch { number, stream, context, key: number * 10, estimate_ns }
    }

    const CONTEXT: usize = 8;

    fn event(name: usize) -> CUevent {
        CUevent(handle(name))
    }

    fn marked(flights: &mut Flights, stream: usize, name: usize) {
        let timed = flights.flights.iter().any(|flight| flight.start.is_some());
        let (marking, _) = flights.mark(CUstream(handle(stream)), CUcontext(handle(CONTEXT)), timed).unwrap();
        flights.marked(marking, event(name));
    }

    #[test]
    fn launches_share_an_event() {
        let mut flights = Flights::default();
        for number in 0..3 {
            flights.admit(launch(number, 64, Some(5)), None);
        }
        assert!(flights.handed(0) && flights.handed(1));
        assert_eq!(flights.unmarked(CUstream(handle(64))), (Some(10), 2));
        marked(&mut flights, 64, 16);
        assert!(flights.handed(2));
        marked(&mut flights, 64, 32);
        assert_eq!(flights.watched().iter().map(|w| w.event).collect::<Vec<_>>(), [event(16)]);
        let landed = flights.completed(event(16));
        assert_eq!((landed.numbers, landed.plain), (vec![0, 1], vec![event(16)]));
        assert_eq!(flights.completed(event(16)), Landed::default(), "once");
        assert_eq!(flights.completed(event(32)).numbers, [2]);
        assert!(flights.is_empty());
    }

    #[test]
    fn streams_are_watched_one_by_one() {
        let mut flights = Flights::default();
        for (number, stream) in [(0, 64), (1, 128), (2, 64)] {
            flights.admit(launch(number, stream, None), None);
            flights.handed(number);
        }
        assert_eq!(flights.unmarked_streams(Some(CUstream(handle(64)))).len(), 1);
        marked(&mut flights, 64, 16);
        marked(&mut flights, 128, 32);
        assert_eq!(flights.watched().len(), 2);
        assert_eq!(flights.completed(event(32)).numbers, [1]);
        assert_eq!(flights.mark(CUstream(handle(64)), CUcontext(handle(CONTEXT)), false), None);
    }

    #[test]
    fn only_what_was_alone_is_timed() {
        let mut flights = Flights::default();
        flights.admit(launch(0, 64, None), Some(event(48)));
        flights.handed(0);
        marked(&mut flights, 64, 16);
        let landed = flights.completed(event(16));
        assert_eq!((landed.timed, landed.plain), (Some((0, event(48), event(16))), vec![]));
        flights.admit(launch(1, 64, None), Some(event(48)));
        flights.admit(launch(2, 64, None), None);
        assert!(!flights.is_timed(1));
        assert_eq!(flights.event(CUcontext(handle(CONTEXT)), true), Some(event(48)), "given back");
    }

    #[test]
    fn what_is_refused_lost_or_gone_is_not_in_flight() {
        let mut flights = Flights::default();
        for number in 0..4 {
            flights.admit(launch(number, 64, None), None);
        }
        assert_eq!(flights.discard(0), None);
        flights.handed(1);
        let (marking, none) = flights.mark(CUstream(handle(64)), CUcontext(handle(CONTEXT)), false).unwrap();
        assert_eq!(none, None, "the pool is empty");
        assert_eq!(flights.lost(marking).numbers, [1]);
        flights.stop(500);
        assert_eq!(flights.give_up(), Some(2));
        assert_eq!(flights.context_gone(CUcontext(handle(CONTEXT))), (vec![3], vec![]));
        assert!(flights.is_empty() && !flights.handed(3));
    }

    #[test]
    fn a_stop_is_the_oldest_launch_s() {
        let mut flights = Flights::default();
        for number in 0..2 {
            flights.admit(launch(number, 64, None), None);
            flights.handed(number);
            marked(&mut flights, 64, 16 + number as usize);
        }
        flights.stop(500);
        flights.stop(600);
        assert_eq!(flights.completed(event(16)).stopped, Some((0, 500)));
        assert_eq!(flights.completed(event(17)).stopped, None);
    }
}
