//! Looks at the machine before anything is built or run: what is fit for the simulator, what for a GPU, what to do about
//! the rest, and what the experiments cost here. Also packs what a bug report needs.
//!
//! **Architecture invariant:** nothing here changes the machine, links the Parquet library or takes longer than the slowest
//! of its probes, each of which is stopped after [`probe::PATIENCE`].

pub mod bundle;
pub mod check;
pub mod cmd;
pub mod costs;
pub mod gpu;
pub mod host;
pub mod report;
pub mod scrub;

pub use probe;
