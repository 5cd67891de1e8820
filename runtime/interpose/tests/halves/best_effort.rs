//! The best-effort half.

use crate::device::{Fake, stream};
use protocol::durations::Durations;
use protocol::segment::{ACTIVE, Segment, Slot};
use sched::System;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tally_interpose::best_effort::{Asked, BestEffort, Marking};
use tally_interpose::profile::{Plan, Profile, Shape};
use tally_interpose::turn::Turn;
use tally_interpose::types::*;

const STREAM: usize = 0x2000;
const OTHER: usize = 0x3000;

struct Bench {
    device: Fake,
    segment: &'static Segment,
    slot: &'static Slot,
    half: BestEffort<Fake>,
}

fn bench(policy: &str, depth: u64, budget_ns: u64) -> Bench {
    let (segment, _file) = Segment::create().expect("memory");
    let segment: &'static Segment = Box::leak(Box::new(segment));
    segment.header().high_mask.store(1, Ordering::SeqCst);
    let slot = &segment.slots()[1];
    let client = System::parse(policy).expect("a system").client(0, 0.0).expect("a client");
    let device = Fake::default();
    let half = BestEffort::new(
        device.clone(),
        (segment, slot),
        Turn::new(client, 0, None),
        Marking::of(depth, budget_ns, policy.starts_with("gate")),
        Duration::from_micros(100),
        Profile::new(Durations::default()),
    );
    Bench { device, segment, slot, half }
}

impl Bench {
    fn launch(&self, on: usize, plan: Plan) -> CUresult {
        self.call(on, plan, || {
            self.device.world().launch(on);
            CUresult::SUCCESS
        })
    }

    fn call(&self, on: usize, plan: Plan, real: impl FnOnce() -> CUresult) -> CUresult {
        self.half.launch(Asked { stream: stream(on), key: 7, plan, blocks: 1 }, false, &|| {}, real)
    }

    fn held(&self) -> u64 {
        self.slot.counters.held.load(Ordering::SeqCst)
    }
}

fn known(ns: u64) -> Plan {
    Plan { duration_ns: Some(ns), timed: false }
}

/// Runs `body` in another thread and lets it wait for a while, then does `then`, after which it must end.
fn waits_until(bench: &Bench, body: impl FnOnce() + Send, then: impl FnOnce()) {
    let held = bench.held();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(body);
        let end = Instant::now() + Duration::from_secs(20);
        while bench.held() == held {
            assert!(Instant::now() < end && !waiting.is_finished(), "it does not wait");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "it does not wait");
        then();
        waiting.join().expect("it ends");
    });
}

#[test]
fn one_in_flight_and_the_next_waits_for_its_end() {
    let bench = bench("gate-1", 1, 0);
    bench.launch(STREAM, known(10));
    let again = || assert!(bench.launch(STREAM, known(10)).is_success());
    waits_until(&bench, again, || bench.device.world().complete(STREAM));
    assert_eq!(bench.slot.counters.admitted.load(Ordering::SeqCst), 2);
    assert!(bench.slot.counters.waited_ns.load(Ordering::SeqCst) > 10_000_000);
}

#[test]
fn high_priority_holds_it_back() {
    let bench = bench("gate-1", 1, 0);
    let word = &bench.segment.slots()[0].word;
    word.store(ACTIVE, Ordering::SeqCst);
    let idle = || word.store(protocol::clock::now(), Ordering::SeqCst);
    waits_until(&bench, || assert!(bench.launch(STREAM, known(10)).is_success()), idle);
}

#[test]
fn small_launches_share_an_event() {
    let bench = bench("gate:depth=64,budget_us=80", 64, 80_000);
    for _ in 0..7 {
        bench.launch(STREAM, known(2_000));
    }
    assert_eq!(bench.device.world().records, 1, "after 10 us, an eighth of the budget");
    bench.launch(OTHER, known(2_000));
    assert_eq!(bench.device.world().records, 2, "the stream changed");
}

/// Whatever has completed unseen is no reason to wait.
#[test]
fn what_has_ended_is_found_before_waiting() {
    let bench = bench("gate:depth=64,budget_us=80", 64, 80_000);
    for _ in 0..100 {
        bench.launch(STREAM, known(8_000));
        bench.device.world().complete(STREAM);
    }
    assert_eq!(bench.held(), 0);
}

#[test]
fn a_launch_that_the_driver_refuses_is_over() {
    let bench = bench("gate-1", 1, 0);
    for _ in 0..10 {
        assert_eq!(bench.call(STREAM, known(1), || CUresult::INVALID_VALUE), CUresult::INVALID_VALUE);
    }
    assert_eq!((bench.held(), bench.device.world().records), (0, 0));
}

#[test]
fn unknown_kernels_are_timed_alone() {
    let bench = bench("gate:depth=64,budget_us=80", 64, 80_000);
    let shape = || Shape { name: "k".to_owned(), ..Shape::default() };
    for _ in 0..3 {
        let plan = bench.half.profile.launch(7, true, None, shape);
        assert_eq!(plan, Plan { duration_ns: None, timed: true });
        bench.launch(STREAM, plan);
        bench.device.world().complete(STREAM);
    }
    // The end of the last one is seen with the next launch.
    bench.launch(STREAM, Plan { duration_ns: None, timed: false });
    assert_eq!(
        bench.half.profile.launch(7, true, None, shape),
        Plan { duration_ns: Some(700), timed: false }
    );
    assert_eq!(bench.slot.counters.profiled.load(Ordering::SeqCst), 3);
}

/// The driver records no events any more, as in a broken context: nothing waits for what nobody can tell.
#[test]
fn a_broken_context_holds_nobody() {
    let bench = bench("gate-1", 1, 0);
    bench.device.world().broken = true;
    for _ in 0..10 {
        bench.launch(STREAM, known(1));
    }
    assert_eq!((bench.held(), bench.half.seen.unmarked.load(Ordering::SeqCst)), (0, 10));
    bench.device.world().broken = false;
    bench.launch(STREAM, known(1));
    bench.half.context_gone(CUcontext(std::ptr::without_provenance_mut(crate::device::CONTEXT)));
    bench.launch(STREAM, known(1));
    assert_eq!(bench.held(), 0);
}

/// A primary context is reset: what was in flight there is over, and none of its events is used again.
#[test]
fn a_device_that_is_reset_leaves_no_events() {
    let bench = bench("gate:depth=4", 4, 0);
    let timed = Plan { duration_ns: None, timed: true };
    bench.launch(STREAM, timed);
    bench.device.world().complete(STREAM);
    bench.launch(STREAM, known(1));
    bench.launch(OTHER, known(1));
    let records = bench.device.world().records;
    bench.half.any_context_gone();
    let destroyed = bench.device.world().destroyed_events;
    assert_eq!((records, destroyed), (4, 4), "two of the timed launch, one of each other");
    for _ in 0..10 {
        bench.launch(STREAM, known(1));
        bench.device.world().complete(STREAM);
    }
    assert_eq!(bench.held(), 0);
    assert!(bench.device.world().events_made() > destroyed);
}

/// What is in flight may wait for the launch that is held: after a while it is let go.
#[test]
fn a_launch_that_waits_for_the_next_one_is_no_deadlock() {
    let bench = bench("gate-1", 1, 0);
    bench.launch(STREAM, known(1));
    bench.launch(OTHER, known(1));
    assert_eq!(bench.half.seen.stalled.load(Ordering::SeqCst), 1);
}

/// A panic of ours between the admission and the driver leaves nothing behind that holds others for ever.
#[test]
fn a_launch_that_was_lost_holds_nobody_for_ever() {
    let bench = bench("gate-1", 1, 0);
    let lost = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        bench.half.context_gone(CUcontext(std::ptr::without_provenance_mut(crate::device::CONTEXT)));
        bench.call(STREAM, known(1), || panic!("as if it were ours"));
    }));
    assert!(lost.is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| bench.launch(STREAM, known(1))).join().expect("it goes on");
    });
    assert_eq!(bench.half.seen.stalled.load(Ordering::SeqCst), 1);
}

/// A call of ours inside a call of the driver belongs to it.
#[test]
fn a_launch_within_a_launch_does_not_wait_for_itself() {
    let bench = bench("gate-1", 1, 0);
    let inner = AtomicUsize::new(0);
    bench.call(STREAM, known(1), || {
        bench.call(STREAM, known(1), || {
            inner.fetch_add(1, Ordering::SeqCst);
            CUresult::SUCCESS
        })
    });
    assert_eq!((inner.load(Ordering::SeqCst), bench.held()), (1, 0));
}

#[test]
fn threads_take_turns() {
    let bench = bench("gate:depth=2", 2, 0);
    let launched = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (bench, launched) = (&bench, &launched);
            scope.spawn(move || {
                for _ in 0..200 {
                    bench.launch(STREAM + thread * 0x100, known(1));
                    launched.fetch_add(1, Ordering::SeqCst);
                    bench.device.world().complete(STREAM + thread * 0x100);
                }
            });
        }
    });
    assert_eq!(launched.load(Ordering::SeqCst), 800);
    assert_eq!(bench.slot.counters.admitted.load(Ordering::SeqCst), 800);
}

/// The policy that limits by rate wants no completions: no event is ever recorded.
#[test]
fn a_rate_limit_records_no_events() {
    let bench = bench("tgs", 0, 0);
    bench.launch(STREAM, known(1));
    assert_eq!(bench.device.world().records, 0);
}
