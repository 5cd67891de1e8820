//! The clock of the device: CLOCK_MONOTONIC, so that logs of several processes can be put in order.

use std::time::Duration;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until `at`, at most `limit` nanoseconds.
pub fn sleep_towards(at: u64, limit: u64) {
    let left = at.saturating_sub(now()).min(limit);
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left));
    }
}
