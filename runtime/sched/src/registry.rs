//! The systems of all policies.

use crate::POLICIES;
use crate::system::Entry;

/// Every system, in the order of tables and figures.
pub fn entries() -> impl Iterator<Item = &'static Entry> {
    POLICIES.iter().copied().flatten()
}

/// The system of this name, without parameters.
pub fn find(name: &str) -> Option<&'static Entry> {
    entries().find(|e| e.name == name)
}
