//! How far the simulator can be trusted: its slowdowns beside published and measured ones, a null model that knows nothing
//! of the mechanism, and what becomes of the conclusions when a constant is halved or doubled.

pub mod report;
pub mod score;
pub mod sensitivity;
pub mod split;
pub mod truth;
