//! The interposer in real programs: C programs with the library preloaded, over a driver of the tests' own.

mod build;
mod preload;
mod programs;
mod symbols;
