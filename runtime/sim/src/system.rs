//! The systems under comparison, by name: those of [`sched::registry`].

pub use sched::{Form, Hook, Substrate, System, Wiring};
