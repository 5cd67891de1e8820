//! Both halves of the gate without a driver: high priority against its sequential specification and under many threads,
//! best effort over a device that completes work when the test says so.

mod activity;
mod best_effort;
mod device;
mod signals;
