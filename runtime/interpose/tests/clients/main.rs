//! Real processes under a real daemon, over the stub driver: what is held back, what is counted, and what happens when
//! something dies.

mod counts;
mod deaths;
mod gating;
mod lives;
mod session;
