//! The entry points of the CUDA driver that the interposer wraps: one list, from which everything else about them is made.
//!
//! [`hooks!`] hands the list to a macro. Here it becomes the enum [`Hook`] and the table [`HOOKS`], which know nothing of
//! CUDA's types; in the crate `interpose` it becomes the wrappers. `docs/HOOKS.md` is printed from the table.

mod document;
mod list;

pub use document::document;

/// The newest CUDA version whose functions the list knows.
pub const NEWEST: u32 = 13050;

/// What an entry point is, and with it what its wrapper does and what the list's expression says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Gives the device work, in a stream. Expression: the stream and the work.
    Launch,
    /// A copy or memset in the default stream. Expression: its bytes, and whether it leaves or enters the host's memory.
    /// One that ends in the host's memory returns when it is complete, and with it all that came before.
    Copy,
    /// Returns when work is complete, or says whether it is. Expression: for what.
    Wait,
    /// Something that is noted before the call, and taken back if it fails. Expression: both notes.
    Begin,
    /// The end of a stream capture. Expression: the note.
    Ended,
    /// Makes or finds something, which is noted after success. Expression: the notes.
    Made,
    /// Ends something, which is noted before the call: afterwards another may have the same handle. Expression: the note.
    Gone,
    /// Finds functions of the driver. Expression: what it is asked, and where it writes the address.
    Lookup,
}

/// One wrapped entry point.
#[derive(Debug)]
pub struct Entry {
    /// The symbol, exactly as libcuda exports it.
    pub name: &'static str,
    pub kind: Kind,
    /// CUDA version with which the symbol came: 1000 * major + 10 * minor.
    pub since: u32,
    /// The null stream means the calling thread's default stream, not the legacy one.
    pub per_thread: bool,
}

impl Entry {
    /// The name that cuGetProcAddress is asked for: without the suffixes of version and default stream.
    pub fn base(&self) -> &'static str {
        let name =
            self.name.strip_suffix("_ptsz").or_else(|| self.name.strip_suffix("_ptds")).unwrap_or(self.name);
        match name.rsplit_once("_v") {
            Some((base, number)) if number.parse::<u32>().is_ok() => base,
            _ => name,
        }
    }
}

impl Hook {
    /// Number of wrapped entry points; every hook as a number is below it.
    pub const COUNT: usize = HOOKS.len();

    pub const fn entry(self) -> &'static Entry {
        &HOOKS[self as usize]
    }

    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The hook with this number.
    pub fn from_index(index: usize) -> Option<Hook> {
        ALL.get(index).copied()
    }

    /// The hook of exactly this symbol.
    pub fn from_name(name: &[u8]) -> Option<Hook> {
        ALL.iter().copied().find(|hook| hook.name().as_bytes() == name)
    }

    /// The form of a function that cuGetProcAddress means by this name, version and default stream: the newest that is not
    /// newer than the version, of the wanted default stream if there is one, among those that the driver `exports`.
    /// `None` also for versions that the list does not know: there may be newer forms.
    pub fn meant(
        name: &[u8],
        version: u32,
        per_thread: bool,
        exports: impl Fn(Hook) -> bool,
    ) -> Option<Hook> {
        if version > NEWEST {
            return None;
        }
        Hook::all()
            .filter(|hook| hook.entry().base().as_bytes() == name)
            .filter(|hook| hook.entry().since <= version && (per_thread || !hook.entry().per_thread))
            .filter(|&hook| exports(hook))
            .max_by_key(|hook| (hook.entry().since, hook.entry().per_thread))
    }

    /// Every hook, in the order of the list.
    pub fn all() -> impl Iterator<Item = Hook> {
        ALL.iter().copied()
    }
}

/// Whether a symbol is of the family whose null stream is the thread's own.
const fn per_thread(name: &str) -> bool {
    matches!(name.as_bytes(), [.., b'_', b'p', b't', b's', b'z'] | [.., b'_', b'p', b't', b'd', b's'])
}

macro_rules! kind {
    (launch) => {
        Kind::Launch
    };
    (copy) => {
        Kind::Copy
    };
    (wait) => {
        Kind::Wait
    };
    (begin) => {
        Kind::Begin
    };
    (ended) => {
        Kind::Ended
    };
    (made) => {
        Kind::Made
    };
    (gone) => {
        Kind::Gone
    };
    (lookup) => {
        Kind::Lookup
    };
}

macro_rules! table {
    ($($kind:ident [$($since:literal $name:ident),+] $arguments:tt => $what:expr;)+) => {
        /// A wrapped entry point, by its symbol. Numbered from 0 in the order of the list: an index of counters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(non_camel_case_types, reason = "the symbols of libcuda")]
        pub enum Hook { $($($name),+),+ }

        /// What is known of each hook, at its number.
        pub static HOOKS: &[Entry] = &[$($(Entry {
            name: stringify!($name),
            kind: kind!($kind),
            since: $since,
            per_thread: per_thread(stringify!($name)),
        }),+),+];
        const ALL: &[Hook] = &[$($(Hook::$name),+),+];
    };
}

hooks!(table);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_dense_and_names_unique() {
        let names: BTreeSet<_> = HOOKS.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), Hook::COUNT);
        for (index, hook) in Hook::all().enumerate() {
            assert_eq!(hook as usize, index);
            assert_eq!(Hook::from_index(index), Some(hook));
            assert_eq!(Hook::from_name(hook.name().as_bytes()), Some(hook));
        }
        assert_eq!(Hook::from_index(Hook::COUNT), None);
    }

    #[test]
    fn only_exact_names_are_hooks() {
        for name in ["cuLaunchKernel_v2", "cuLaunchKerne", "cudaLaunchKernel", "cudnnCreate", "cuInit", ""] {
            assert_eq!(Hook::from_name(name.as_bytes()), None, "{name}");
        }
    }

    /// The suffixes are what cuda.h appends for the per-thread default stream.
    #[test]
    fn per_thread_forms_are_told_by_their_suffix() {
        for entry in HOOKS {
            let expected = entry.name.ends_with("_ptsz") || entry.name.ends_with("_ptds");
            assert_eq!(entry.per_thread, expected, "{}", entry.name);
        }
    }

    #[test]
    fn bases_are_what_programs_ask_for() {
        let base = |name: &str| Hook::from_name(name.as_bytes()).expect("it is a hook").entry().base();
        assert_eq!(base("cuLaunchKernel_ptsz"), "cuLaunchKernel");
        assert_eq!(base("cuMemcpyHtoD_v2_ptds"), "cuMemcpyHtoD");
        assert_eq!(base("cuCtxSynchronize_v2"), "cuCtxSynchronize");
        assert_eq!(base("cuMemsetD2D8Async"), "cuMemsetD2D8Async");
        assert_eq!(base("cuGetProcAddress"), "cuGetProcAddress");
    }

    /// Versions and symbols from cudaTypedefs.h.
    #[test]
    fn names_mean_the_newest_form_that_the_program_knows() {
        let meant =
            |name: &str, version, per_thread| Hook::meant(name.as_bytes(), version, per_thread, |_| true);
        assert_eq!(meant("cuLaunchKernel", 4000, false), Some(Hook::cuLaunchKernel));
        assert_eq!(meant("cuLaunchKernel", 4000, true), Some(Hook::cuLaunchKernel));
        assert_eq!(meant("cuLaunchKernel", 7000, false), Some(Hook::cuLaunchKernel));
        assert_eq!(meant("cuLaunchKernel", 7000, true), Some(Hook::cuLaunchKernel_ptsz));
        assert_eq!(meant("cuCtxSynchronize", 12090, false), Some(Hook::cuCtxSynchronize));
        assert_eq!(meant("cuCtxSynchronize", 13000, false), Some(Hook::cuCtxSynchronize_v2));
        assert_eq!(meant("cuMemcpyHtoD", 12000, true), Some(Hook::cuMemcpyHtoD_v2_ptds));
        assert_eq!(meant("cuGraphInstantiate", 11000, false), Some(Hook::cuGraphInstantiate_v2));
        assert_eq!(meant("cuLaunchKernelEx", 11000, false), None);
        assert_eq!(meant("cuLaunchKernel_ptsz", 12000, false), None);
        assert_eq!(meant("cuLaunchKernel", NEWEST + 10, false), None);
        let old = |hook: Hook| hook.entry().since < 13000;
        assert_eq!(Hook::meant(b"cuCtxSynchronize", 13000, false, old), Some(Hook::cuCtxSynchronize));
    }

    /// What a driver of CUDA 13.0 answered, by the exported symbol at the address that it gave.
    #[test]
    fn names_mean_what_a_real_driver_answered() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/evidence/driver/lookups.csv");
        let text = std::fs::read_to_string(path).expect("the recorded look-ups");
        let mut compared = 0;
        for (number, line) in text.lines().enumerate().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [how, name, version, flags, exported, _who] = fields[..] else {
                panic!("{path}:{}: {line}", number + 1)
            };
            let is_wrapped = HOOKS.iter().any(|entry| entry.base() == name);
            if !how.starts_with("cuGetProcAddress") || !is_wrapped {
                continue;
            }
            let (version, flags): (u32, u32) =
                (version.parse().expect("a version"), flags.parse().expect("flags"));
            let meant = Hook::meant(name.as_bytes(), version, flags & 2 != 0, |_| true);
            assert_eq!(meant.map(Hook::name), Some(exported), "{path}:{}: {line}", number + 1);
            compared += 1;
        }
        assert!(compared > 100, "{compared}");
    }

    #[test]
    fn nothing_in_the_list_is_newer_than_the_newest() {
        assert!(HOOKS.iter().all(|entry| entry.since <= NEWEST));
    }

    /// A launch whose sibling of the other default stream has no wrapper would slip by.
    #[test]
    fn both_default_streams_are_wrapped() {
        let named = |name: &str| Hook::from_name(name.as_bytes()).is_some();
        for entry in HOOKS.iter().filter(|entry| entry.per_thread) {
            let plain = &entry.name[..entry.name.len() - "_ptsz".len()];
            assert!(named(plain), "{plain}");
        }
    }
}
