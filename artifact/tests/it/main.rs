//! The binary as its users meet it: in a small repository of its own, with an executor that costs nothing.

mod answers;
mod claimed;
mod compared;
mod costs;
mod faults;
mod fidelity;
mod interrupted;
mod kinds;
mod measured;
mod repository;
mod simulated;
mod storage;
mod stub_gpu;
