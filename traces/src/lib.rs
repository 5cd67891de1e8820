//! Real traffic as seeded, deterministic lists of arrivals for an inference server.
//!
//! [`arrivals`] turns a [`Source`] (a recorded trace, or Poisson) and a [`Target`] (solo latency, load, span, seed) into
//! [`Arrivals`]. The same inputs give the same list on every platform: times are integer nanoseconds, random numbers
//! come from integer arithmetic, and floating point is confined to plain IEEE operations and the `libm` crate.
//!
//! **Architecture invariant:** this crate reads the files it is given and nothing else: no clock, no environment, no
//! network, no generator seeded by the system.

pub mod bootstrap;
pub mod checksum;
pub mod decimal;
pub mod lines;
pub mod llm;
pub mod maf2;
pub mod poisson;
pub mod rng;
pub mod rows;
pub mod shape;
pub mod spread;

mod source;
mod target;

pub use source::{Loaded, Source};
pub use target::{Arrivals, Target};

/// The arrivals of a source at a target load. To make several lists from one large file, use [`Source::load`] once.
///
/// # Errors
/// A target out of range, a file that can't be read or used, too few arrivals, or a list that fails
/// [`Arrivals::check`].
pub fn arrivals(source: &Source, target: &Target) -> anyhow::Result<Arrivals> {
    target.validate()?;
    source.load()?.arrivals(target)
}
