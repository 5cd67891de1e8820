//! Figures and tables, drawn from the records of a run and from nothing else.
//!
//! [`registry`] lists what can be drawn; [`draw`] writes it into a run folder and [`check`] proves that what
//! lies there is what would be drawn again. Format of the records: docs/FORMATS.md. Drawing never runs an
//! experiment, never changes a record, needs no font or other file of the machine, and gives the same bytes
//! each time.

pub mod axis;
pub mod canvas;
pub mod chart;
pub mod crowd;
pub mod csv;
pub mod fidelity;
pub mod fig10;
pub mod fig4;
pub mod fig5;
pub mod fig6b;
pub mod fig7a;
pub mod fig9;
pub mod grid;
pub mod inputs;
pub mod layout;
pub mod markdown;
pub mod output;
pub mod overheads;
pub mod page;
pub mod pairs;
pub mod plot;
pub mod published;
pub mod recorded;
pub mod records;
pub mod registry;
pub mod report;
pub mod sheet;
pub mod stats;
pub mod style;
pub mod sweep;
pub mod table3;
pub mod table4;
pub mod timeline;
pub mod workloads;

pub use output::{Check, check, draw};
