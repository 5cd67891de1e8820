//! The high-priority half.

use crate::device::{CONTEXT, Fake, event, stream};
use proptest::prelude::*;
use protocol::clock;
use protocol::segment::{ACTIVE, Slot};
use sched::gate::{Class, Mark as Expected, Stream, Streams};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tally_interpose::activity::{Activity, Mark};
use tally_interpose::device::Device;
use tally_interpose::types::LEGACY;

const BLOCKING: usize = 0x2000;
const FREE: usize = 0x3000;
const HANDLES: [usize; 3] = [1, BLOCKING, FREE];

fn fake() -> Fake {
    let device = Fake::default();
    device.world().non_blocking.insert(FREE);
    device
}

fn activity() -> (Activity, &'static Slot) {
    let slot: &'static Slot = Box::leak(Box::default());
    (Activity::new(slot), slot)
}

fn specified(handle: usize) -> Stream {
    let class = match handle {
        1 => Class::Legacy,
        FREE => Class::NonBlocking,
        _ => Class::Blocking,
    };
    Stream { context: CONTEXT as u64, handle: handle as u64, class }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Launch(usize),
    Refused(usize),
    EnterStream(usize),
    EnterContext,
    EnterEvent(u64),
    /// One of the calls that were entered returns.
    Return(usize),
    Record(u64, usize),
    Forget(u64),
    Destroy(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let handle = prop::sample::select(&HANDLES[..]);
    // An event of the default stream stands for its own launches only, see below.
    let other = prop::sample::select(&HANDLES[1..]);
    prop_oneof![
        6 => handle.clone().prop_map(Step::Launch),
        1 => handle.clone().prop_map(Step::Refused),
        2 => handle.prop_map(Step::EnterStream),
        1 => Just(Step::EnterContext),
        2 => (1_u64..4).prop_map(Step::EnterEvent),
        5 => (0_usize..4).prop_map(Step::Return),
        2 => ((1_u64..4), other.clone()).prop_map(|(event, handle)| Step::Record(event, handle)),
        1 => (1_u64..4).prop_map(Step::Forget),
        1 => other.prop_map(Step::Destroy),
    ]
}

fn name(number: u64) -> tally_interpose::types::CUevent {
    event(number as usize * 0x100)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// One call after the other, the word is what the specification says.
    #[test]
    fn the_word_is_the_specified_one(steps in prop::collection::vec(step(), 0..120)) {
        let device = fake();
        let ((activity, slot), mut streams) = (activity(), Streams::default());
        let mut open: Vec<(Mark, Expected)> = Vec::new();
        for (now, step) in steps.into_iter().enumerate() {
            let now = now as u64;
            match step {
                Step::Launch(handle) => {
                    let place = activity.launch(&device, stream(handle));
                    prop_assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE, "before the driver has it");
                    activity.handed(place, true);
                    streams.launch(specified(handle));
                }
                Step::Refused(handle) => {
                    let before = slot.word.load(Ordering::SeqCst);
                    let place = activity.launch(&device, stream(handle));
                    activity.handed(place, false);
                    let after = slot.word.load(Ordering::SeqCst);
                    prop_assert_eq!(before == ACTIVE, after == ACTIVE, "done at once");
                }
                Step::EnterStream(handle) => {
                    open.push((activity.enter_stream(&device, stream(handle), 0), streams.stream(specified(handle))));
                }
                Step::EnterContext => open.push((activity.enter_context(&device), streams.context(CONTEXT as u64))),
                Step::EnterEvent(number) => open.push((activity.enter_event(name(number)), streams.event(number))),
                Step::Return(late) => {
                    if let Some(at) = open.len().checked_sub(1 + late) {
                        let (mark, expected) = open.remove(at);
                        activity.done(&mark);
                        streams.done(&expected, now);
                    }
                }
                Step::Record(number, handle) => {
                    activity.record(&device, name(number), stream(handle));
                    activity.recorded(name(number));
                    streams.record(number, specified(handle));
                }
                Step::Forget(number) => {
                    activity.forget(name(number));
                    streams.destroy_event(number);
                }
                Step::Destroy(handle) => {
                    activity.destroying(stream(handle));
                    streams.destroy(specified(handle));
                }
            }
            let active = slot.word.load(Ordering::SeqCst) == ACTIVE;
            prop_assert_eq!(active, streams.pending() > 0, "after {:?}", step);
            prop_assert_eq!(active, activity.is_active());
        }
    }
}

/// An event of the default stream proves less here than in the specification: the streams that it waited for are left to the
/// helper. That errs on the side of active.
#[test]
fn an_event_of_the_default_stream_is_its_own() {
    let (device, (activity, slot)) = (fake(), activity());
    for handle in [1, BLOCKING] {
        activity.handed(activity.launch(&device, stream(handle)), true);
    }
    activity.record(&device, event(16), LEGACY);
    activity.recorded(event(16));
    activity.done(&activity.enter_event(event(16)));
    assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE);
    activity.done(&activity.enter_stream(&device, stream(BLOCKING), 0));
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// A synchronous copy is a launch that its own return proves done.
#[test]
fn a_synchronous_copy_is_done_when_it_returns() {
    for (handle, legacy) in [(1, true), (FREE, false)] {
        let (device, (activity, slot)) = (fake(), activity());
        activity.handed(activity.launch(&device, stream(handle)), true);
        let place = activity.launch(&device, stream(handle));
        let mark = activity.enter_stream(&device, stream(handle), 1);
        activity.done(&mark);
        activity.handed(place, true);
        assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE, "legacy: {legacy}");
        assert!(!activity.is_active());
    }
}

/// A call that was entered while another thread was on its way to the driver proves nothing of that launch.
#[test]
fn a_launch_on_its_way_is_not_done() {
    let (device, (activity, slot)) = (fake(), activity());
    let place = activity.launch(&device, stream(FREE));
    let mark = activity.enter_stream(&device, stream(FREE), 0);
    activity.done(&mark);
    activity.handed(place, true);
    assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

#[test]
fn the_helper_finds_the_end_and_never_too_early() {
    let (device, (activity, slot)) = (fake(), activity());
    for handle in [BLOCKING, FREE] {
        activity.handed(activity.launch(&device, stream(handle)), true);
        device.world().launch(handle);
    }
    assert!(!activity.ask(&device));
    device.world().complete(BLOCKING);
    activity.ask(&device);
    assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE);
    device.world().complete(FREE);
    activity.capture_begins();
    assert!(!activity.ask(&device), "a capture is open");
    activity.capture_ended();
    assert!(activity.ask(&device));
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// The driver answers no question about the stream of a launch that it holds, its queue being full.
#[test]
fn the_helper_asks_nothing_while_a_launch_is_under_way() {
    let (device, (activity, slot)) = (fake(), activity());
    activity.handed(activity.launch(&device, stream(BLOCKING)), true);
    let place = activity.launch(&device, stream(FREE));
    assert!(!activity.ask(&device));
    assert_eq!((device.world().queries, slot.word.load(Ordering::SeqCst)), (0, ACTIVE));
    activity.handed(place, true);
    assert!(activity.ask(&device));
    assert_eq!(device.world().queries, 2);
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// Streams without a place end with their context, which the helper waits for.
#[test]
fn what_found_no_place_is_waited_for_in_its_context() {
    let (device, (activity, slot)) = (fake(), activity());
    for handle in 1..=600 {
        activity.handed(activity.launch(&device, stream(handle << 16)), true);
    }
    assert!(slot.counters.overflows.load(Ordering::SeqCst) >= 344);
    assert!(activity.ask(&device));
    assert_eq!(device.world().synchronized, [CONTEXT]);
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// The driver does not survive a question about a handle that has gone with its context.
#[test]
fn handles_of_a_context_that_has_gone_are_not_asked_about() {
    let (device, (activity, slot)) = (fake(), activity());
    for handle in HANDLES {
        activity.handed(activity.launch(&device, stream(handle)), true);
        device.world().launch(handle);
    }
    activity.context_gone(device.context());
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
    assert!(!activity.ask(&device));
    assert_eq!(device.world().asked(), (0, 0));
    // The handles come again.
    for handle in HANDLES {
        activity.handed(activity.launch(&device, stream(handle)), true);
    }
    assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE);
    activity.done(&activity.enter_context(&device));
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// Of a primary context it is not known whether it goes: only default streams are asked about, the others by their context.
#[test]
fn handles_of_a_primary_context_may_have_gone() {
    let (device, (activity, slot)) = (fake(), activity());
    for handle in HANDLES {
        activity.handed(activity.launch(&device, stream(handle)), true);
    }
    activity.any_context_gone();
    assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE);
    assert!(activity.ask(&device));
    assert_eq!(device.world().asked(), (1, 2));
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// Another thread asks about an event that is complete from before, while it is being recorded again.
#[test]
fn an_event_on_its_way_proves_nothing() {
    let (device, (activity, slot)) = (fake(), activity());
    activity.handed(activity.launch(&device, stream(FREE)), true);
    activity.record(&device, event(16), stream(FREE));
    activity.done(&activity.enter_event(event(16)));
    assert_eq!(slot.word.load(Ordering::SeqCst), ACTIVE);
    activity.recorded(event(16));
    activity.done(&activity.enter_event(event(16)));
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
}

/// Launches before registration count in the slot that registration gives.
#[test]
fn what_was_launched_before_is_published() {
    let (device, (activity, local)) = (fake(), activity());
    let own: &'static Slot = Box::leak(Box::default());
    let place = activity.launch(&device, stream(FREE));
    activity.publish_in(own);
    activity.handed(place, true);
    assert_eq!(
        (own.word.load(Ordering::SeqCst), own.counters.activations.load(Ordering::SeqCst)),
        (ACTIVE, 1)
    );
    activity.done(&activity.enter_context(&device));
    assert_ne!(own.word.load(Ordering::SeqCst), ACTIVE);
    assert_eq!(local.word.load(Ordering::SeqCst), ACTIVE, "nobody looks at it any more");
}

/// Threads launch and wait on streams of their own and a common one, while an observer looks at the word: it never says idle
/// since a time after the beginning of a launch that nobody has waited for. In the end the word is idle.
#[test]
fn many_threads_agree_in_the_end() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 3000;
    let (device, (activity, slot)) = (fake(), activity());
    (0..THREADS).for_each(|thread| {
        device.world().non_blocking.insert(0x10_000 + thread * 0x1000);
    });
    // When each thread's oldest launch that it has not waited for began; 0 if there is none.
    let oldest: [AtomicU64; THREADS] = std::array::from_fn(|_| AtomicU64::new(0));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                for began in &oldest {
                    let before = began.load(Ordering::SeqCst);
                    let word = slot.word.load(Ordering::SeqCst);
                    let still = before != 0 && began.load(Ordering::SeqCst) == before;
                    // The word is written a moment before the count is looked at again, so a late one is put right at once;
                    // one that stays is wrong.
                    if still && word != ACTIVE && word > before {
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        let stays = slot.word.load(Ordering::SeqCst) == word;
                        assert!(
                            !(stays && began.load(Ordering::SeqCst) == before),
                            "idle while a launch is undone"
                        );
                    }
                }
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (device, activity, oldest) = (&device, &activity, &oldest);
                scope.spawn(move || {
                    let own = stream(0x10_000 + thread * 0x1000);
                    for round in 0..ROUNDS {
                        let (which, common) =
                            if round % 7 == 0 { (stream(FREE), true) } else { (own, false) };
                        let place = activity.launch(device, which);
                        if !common {
                            oldest[thread].store(clock::now(), Ordering::SeqCst);
                        }
                        activity.handed(place, true);
                        let mark = match round % 3 {
                            0 => activity.enter_context(device),
                            _ => activity.enter_stream(device, which, 0),
                        };
                        oldest[thread].store(0, Ordering::SeqCst);
                        activity.done(&mark);
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no worker panics"));
        over.store(true, Ordering::SeqCst);
        observer.join().expect("the observer saw nothing wrong");
    });
    assert!(!activity.is_active());
    assert_ne!(slot.word.load(Ordering::SeqCst), ACTIVE);
    assert!(slot.counters.activations.load(Ordering::SeqCst) > 0);
    assert!(device.context().0.addr() == CONTEXT);
}
