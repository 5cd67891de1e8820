//! The high-priority client's half where it has several streams and contexts: what is undone on which, and when the
//! shared word changes.
//!
//! This is the sequential meaning of what an intercepted process does without locks; [`super::High`] is its case of one
//! stream, whose every synchronising call waits for all. Rules:
//!
//! - Each stream counts what was launched on it and how much of that is known to be done. It is pending while the two
//!   differ. The client is active while any stream is pending, and idle since the call by which the last one ended.
//! - A call that waits or asks for work (in the driver: `cuStreamSynchronize`, `cuCtxSynchronize`, `cuEventSynchronize`, a
//!   synchronous copy to the host, and `cuStreamQuery` or `cuEventQuery` that answer "done") takes a [`Mark`] when it is
//!   entered and hands it to [`Streams::done`] when it has returned. What other threads launched in between stays undone.
//! - The mark of a stream is all launched on it. The mark of a context's legacy default stream is also all launched on its
//!   blocking streams, for which that stream waits. The mark of a context is all launched on its streams. An event has the
//!   mark of its stream at the time when it was recorded last, and none before it was recorded.
//! - A launch counts when it is about to be handed to the driver; one that the driver refuses is done at once. Launches
//!   and records of events into a stream that is being captured are neither: a graph counts when it is launched.
//!
//! It errs on the side of active: that work of one stream waited for another's (`cuStreamWaitEvent`, or a launch on a
//! blocking stream after one on the default stream) is not followed, and such work counts as undone until some call or the
//! helper that queries pending streams has seen its end.

use super::Activity;
use crate::Ns;
use std::collections::BTreeMap;

/// How a stream relates to its context's legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It is that stream.
    Legacy,
    /// The two wait for each other: the driver's default, and every per-thread default stream.
    Blocking,
    /// They do not (`CU_STREAM_NON_BLOCKING`).
    NonBlocking,
}

/// A stream by the driver's names; of a context's default streams, one per thread or one for all, the caller makes one up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    pub context: u64,
    pub handle: u64,
    pub class: Class,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    context: u64,
    class: Class,
    launched: u64,
    done: u64,
}

/// How much of some streams was launched at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark(
    /// Position in [`Streams::counts`], launches.
    Vec<(usize, u64)>,
);

/// All streams of a client.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Of every stream ever seen. A destroyed stream keeps its place, since a later one may have its handle.
    counts: Vec<Count>,
    places: BTreeMap<Stream, usize>,
    /// By handle.
    events: BTreeMap<u64, Mark>,
    active: bool,
}

impl Streams {
    /// Streams with undone work.
    pub fn pending(&self) -> usize {
        self.counts.iter().filter(|count| count.done < count.launched).count()
    }

    /// A launch on this stream is about to be handed to the driver: the new value of the shared word, if it changes.
    pub fn launch(&mut self, stream: Stream) -> Option<Activity> {
        let counts = &mut self.counts;
        let place = *self.places.entry(stream).or_insert_with(|| {
            counts.push(Count { context: stream.context, class: stream.class, launched: 0, done: 0 });
            counts.len() - 1
        });
        counts[place].launched += 1;
        (!std::mem::replace(&mut self.active, true)).then_some(Activity::Active)
    }

    /// A call that waits or asks for this stream is entered.
    pub fn stream(&self, stream: Stream) -> Mark {
        let own = self.places.get(&stream).copied();
        let legacy = stream.class == Class::Legacy;
        self.mark(|place, count| {
            let waits = legacy && count.context == stream.context && count.class == Class::Blocking;
            own == Some(place) || waits
        })
    }

    /// A call that waits for all of a context is entered.
    pub fn context(&self, context: u64) -> Mark {
        self.mark(|_, count| count.context == context)
    }

    /// A call that waits or asks for this event is entered.
    pub fn event(&self, event: u64) -> Mark {
        self.events.get(&event).cloned().unwrap_or_default()
    }

    /// An event is recorded on this stream.
    pub fn record(&mut self, event: u64, stream: Stream) {
        let mark = self.stream(stream);
        self.events.insert(event, mark);
    }

    /// An event is destroyed; its handle may come again.
    pub fn destroy_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// A stream is destroyed; its handle may come again. The driver finishes its work first, of which no call on the handle
    /// tells any more: whoever destroys it has to observe the mark by other means, such as an event of its own.
    pub fn destroy(&mut self, stream: Stream) -> Mark {
        let place = self.places.remove(&stream);
        self.mark(|at, _| place == Some(at))
    }

    /// The call that took this mark has returned at `now` and the work is done: the new value of the shared word, if it
    /// changes.
    pub fn done(&mut self, mark: &Mark, now: Ns) -> Option<Activity> {
        for &(place, launched) in &mark.0 {
            let count = &mut self.counts[place];
            // Calls of several threads return in any order.
            count.done = count.done.max(launched);
        }
        let idle = self.active && self.pending() == 0;
        self.active &= !idle;
        idle.then_some(Activity::IdleSince(now))
    }

    /// All launched on some streams.
    fn mark(&self, wanted: impl Fn(usize, &Count) -> bool) -> Mark {
        let counts = self.counts.iter().enumerate();
        Mark(
            counts.filter(|(at, count)| wanted(*at, count)).map(|(at, count)| (at, count.launched)).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{High, HighEvent};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LEGACY: Stream = Stream { context: 1, handle: 0, class: Class::Legacy };
    const BLOCKING: Stream = Stream { context: 1, handle: 10, class: Class::Blocking };
    const FREE: Stream = Stream { context: 1, handle: 11, class: Class::NonBlocking };
    const ELSEWHERE: Stream = Stream { context: 2, handle: 10, class: Class::Blocking };

    fn launched(streams: &[Stream]) -> Streams {
        let mut all = Streams::default();
        for (at, stream) in streams.iter().enumerate() {
            assert_eq!(all.launch(*stream), (at == 0).then_some(Activity::Active));
        }
        all
    }

    #[test]
    fn idle_when_the_last_stream_is_done() {
        let mut all = launched(&[BLOCKING, FREE, BLOCKING]);
        assert_eq!(all.pending(), 2);
        assert_eq!(all.done(&all.stream(BLOCKING), 5), None);
        assert_eq!(all.done(&all.stream(FREE), 7), Some(Activity::IdleSince(7)));
        assert_eq!(all.done(&all.stream(FREE), 8), None, "it was idle before");
        assert_eq!(all.launch(FREE), Some(Activity::Active));
    }

    #[test]
    fn what_was_launched_after_the_call_was_entered_is_undone() {
        let mut all = launched(&[FREE]);
        let mark = all.stream(FREE);
        all.launch(FREE);
        assert_eq!(all.done(&mark, 5), None);
        let later = all.stream(FREE);
        assert_eq!(all.done(&later, 6), Some(Activity::IdleSince(6)));
        assert_eq!((all.done(&mark, 7), all.pending()), (None, 0), "an older call takes nothing back");
    }

    #[test]
    fn the_default_stream_waits_for_the_blocking_ones_of_its_context() {
        let mut all = launched(&[LEGACY, BLOCKING, FREE, ELSEWHERE]);
        assert_eq!(all.done(&all.stream(BLOCKING), 4), None);
        assert_eq!(all.pending(), 3, "nothing is concluded of the default stream");
        all.launch(BLOCKING);
        assert_eq!(all.done(&all.stream(LEGACY), 5), None);
        assert_eq!(all.pending(), 2, "FREE and ELSEWHERE");
        assert_eq!(all.done(&all.context(1), 6), None);
        assert_eq!(all.done(&all.context(2), 7), Some(Activity::IdleSince(7)));
    }

    #[test]
    fn a_default_stream_without_launches_waits_too() {
        let mut all = launched(&[BLOCKING]);
        assert_eq!(all.done(&all.stream(LEGACY), 5), Some(Activity::IdleSince(5)));
    }

    #[test]
    fn an_event_stands_for_what_was_launched_before_it_was_recorded_last() {
        let mut all = launched(&[FREE]);
        assert_eq!(all.done(&all.event(3), 1), None, "never recorded");
        all.record(3, FREE);
        all.launch(FREE);
        let first = all.event(3);
        all.record(3, FREE);
        assert_eq!(all.done(&first, 2), None);
        all.launch(BLOCKING);
        assert_eq!(all.done(&all.event(3), 3), None);
        all.record(3, LEGACY);
        assert_eq!(all.done(&all.event(3), 4), Some(Activity::IdleSince(4)), "through the blocking stream");
        all.launch(FREE);
        all.destroy_event(3);
        assert_eq!((all.done(&all.event(3), 5), all.pending()), (None, 1));
    }

    #[test]
    fn a_new_stream_under_an_old_handle_has_counts_of_its_own() {
        let mut all = launched(&[FREE, FREE]);
        let mark = all.destroy(FREE);
        all.launch(FREE);
        assert_eq!(
            (all.done(&all.stream(FREE), 5), all.pending()),
            (None, 1),
            "the old one's work is undone"
        );
        assert_eq!(all.done(&mark, 6), Some(Activity::IdleSince(6)));
        assert_eq!(all.destroy(BLOCKING), Mark::default(), "never seen");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// On one stream the word changes as the simpler half changes it. A call is entered and returns some steps later.
        #[test]
        fn one_stream_is_the_simple_case(steps in proptest::collection::vec((any::<bool>(), 0_usize..4), 0..200)) {
            let (mut all, mut high) = (Streams::default(), High::default());
            let mut open: Vec<(Mark, u64)> = Vec::new();
            for (now, (launches, late)) in steps.into_iter().enumerate() {
                let now = now as Ns;
                if launches {
                    prop_assert_eq!(all.launch(FREE), high.step(HighEvent::Launch, now));
                    continue;
                }
                open.push((all.stream(FREE), high.launches()));
                if let Some(at) = open.len().checked_sub(1 + late) {
                    let (mark, launches_at_entry) = open.remove(at);
                    let word = high.step(HighEvent::SyncReturned { launches_at_entry }, now);
                    prop_assert_eq!(all.done(&mark, now), word);
                }
            }
        }

        /// Active exactly while some launch is undone, by a list of all launches.
        #[test]
        fn the_word_says_whether_any_launch_is_undone(
            steps in proptest::collection::vec((0_usize..4, 0_u32..4), 0..200),
        ) {
            let streams = [LEGACY, BLOCKING, FREE, ELSEWHERE];
            let covers = |of: Stream, launch: Stream| {
                let waits = of.class == Class::Legacy && launch.class == Class::Blocking;
                of == launch || (waits && of.context == launch.context)
            };
            let mut all = Streams::default();
            let mut undone: Vec<(Ns, Stream)> = Vec::new();
            let mut recorded: Vec<(Ns, Stream)> = Vec::new();
            let mut word = Activity::IdleSince(0);
            for (now, (which, what)) in steps.into_iter().enumerate() {
                let (stream, now) = (streams[which], now as Ns);
                let change = match what {
                    0 => {
                        undone.push((now, stream));
                        all.launch(stream)
                    }
                    1 => {
                        undone.retain(|launch| !covers(stream, launch.1));
                        all.done(&all.stream(stream), now)
                    }
                    2 => {
                        all.record(1, stream);
                        recorded = undone.iter().copied().filter(|launch| covers(stream, launch.1)).collect();
                        None
                    }
                    _ => {
                        undone.retain(|launch| !recorded.contains(launch));
                        all.done(&all.event(1), now)
                    }
                };
                word = change.unwrap_or(word);
                prop_assert_eq!(word == Activity::Active, !undone.is_empty());
                let distinct: BTreeSet<Stream> = undone.iter().map(|launch| launch.1).collect();
                prop_assert_eq!(all.pending(), distinct.len());
            }
        }
    }
}
