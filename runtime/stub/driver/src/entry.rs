//! The macro that makes the exported functions, and with them the table that look-ups read.

use std::ffi::c_void;

/// One exported symbol.
pub struct Entry {
    /// What callers of `cuGetProcAddress` ask for.
    pub name: &'static str,
    pub symbol: &'static str,
    /// The CUDA version (1000 * major + 10 * minor) from which on the symbol is what the name means.
    pub version: i32,
    pub address: Address,
}

pub struct Address(pub *const c_void);

// SAFETY: the address of a function, never written through.
unsafe impl Sync for Address {}

/// Is this the variant for programs compiled with a default stream per thread?
pub fn per_thread(symbol: &str) -> bool {
    symbol.ends_with("_ptsz") || symbol.ends_with("_ptds")
}

/// `name: [symbol version, ...] (argument: type, ...) |call| body;` exports each symbol with this body, which gives an
/// `Answer`. The versions are those of `cudaTypedefs.h` 13.0.
macro_rules! export {
    ($($name:ident: [$($symbol:ident $version:literal),+] $arguments:tt |$call:ident| $body:expr;)*) => {
        $($($crate::entry::export_one!($symbol $arguments $call $body);)+)*

        pub static ENTRIES: &[$crate::entry::Entry] = &[$($($crate::entry::Entry {
            name: stringify!($name),
            symbol: stringify!($symbol),
            version: $version,
            address: $crate::entry::Address($symbol as *const std::ffi::c_void),
        },)+)*];
    };
}

macro_rules! export_one {
    ($symbol:ident ($($argument:ident: $type:ty),* $(,)?) $call:ident $body:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C" fn $symbol($($argument: $type),*) -> $crate::types::Status {
            $crate::call::run(
                stringify!($symbol),
                |_line| { $(_line.argument(stringify!($argument), &$argument);)* },
                |$call| $body,
            )
        }
    };
}

pub(crate) use {export, export_one};
