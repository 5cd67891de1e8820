//! Tests of the crate from outside, in one binary to link once.

mod excerpt;
mod malformed;
mod properties;
mod shape;
mod sources;
