//! The binary as its users meet it: in a small repository of its own, with an executor that costs nothing.

mod answers;
mod compared;
mod costs;
mod faults;
mod fidelity;
mod interrupted;
mod repository;
mod simulated;
mod storage;
