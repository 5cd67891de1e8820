//! All settings of the runtime, in one table: environment variables that begin with `TALLY_`.
//!
//! A name that is not in the table, or a value that its type or range forbids, is an error that names it: a setting with
//! a typing mistake would otherwise be a run under other rules than it says.

use crate::Priority;
use std::path::PathBuf;
use std::time::Duration;

/// What a setting may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Path,
    /// A whole number of the unit named, within the range, both ends included.
    Number {
        unit: &'static str,
        least: u64,
        most: u64,
    },
    /// One of these.
    Word(&'static [&'static str]),
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// As it would be written; empty if there is none.
    pub default: &'static str,
    pub text: &'static str,
}

macro_rules! settings {
    ($($field:ident: $type:ty = $name:literal, $kind:expr, $default:literal, $text:literal;)+) => {
        /// The table, in the order of docs/ENV.md.
        pub static SETTINGS: &[Setting] =
            &[$(Setting { name: $name, kind: $kind, default: $default, text: $text }),+];

        /// All settings with their values.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Settings {
            $(#[doc = $text] pub $field: $type,)+
        }

        impl Settings {
            fn from_texts(text: impl Fn(&str) -> String) -> Settings {
                Settings { $($field: <$type as Value>::value(&text($name))),+ }
            }
        }
    };
}

settings! {
    socket: Option<PathBuf> = "TALLY_SOCKET", Kind::Path, "",
        "The daemon's socket; set by `tally run`. Without it a preloaded library does nothing.";
    priority: Option<Priority> = "TALLY_PRIORITY", Kind::Word(&["high", "best-effort"]), "",
        "How the program is treated; set by `tally run`.";
    report: Option<PathBuf> = "TALLY_REPORT", Kind::Path, "",
        "Folder for each process's report (JSON), written when it ends.";
    driver: Option<PathBuf> = "TALLY_DRIVER", Kind::Path, "",
        "The real libcuda.so.1, where the loader would not find it by that name.";
    library: Option<PathBuf> = "TALLY_LIBRARY", Kind::Path, "",
        "The library that `tally run` preloads; by default the one beside the executable.";
    dir: Option<PathBuf> = "TALLY_DIR", Kind::Path, "",
        "The daemon's private folder; by default `$XDG_RUNTIME_DIR/tally`, else `/tmp/tally-UID`.";
    profiles: Option<PathBuf> = "TALLY_PROFILES", Kind::Path, "",
        "Folder of the measured kernel durations; by default `$XDG_CACHE_HOME/tally`, else `~/.cache/tally`.";
    event_log: Option<PathBuf> = "TALLY_EVENT_LOG", Kind::Path, "",
        "File for a best-effort client's events and decisions, to replay them; slow.";
    spin: Micros = "TALLY_SPIN_US", Kind::Number { unit: "µs", least: 0, most: 1_000_000 }, "5000",
        "How long a launch that waits keeps its core before it sleeps in short steps.";
    helper: Micros = "TALLY_HELPER_US", Kind::Number { unit: "µs", least: 100, most: 1_000_000 }, "2000",
        "How often the helper thread looks for the end of work that nobody waits for.";
    start_limit: Millis = "TALLY_START_LIMIT_MS", Kind::Number { unit: "ms", least: 1, most: 600_000 }, "10000",
        "How long the first launch waits for the daemon; after that nothing is scheduled, and it says so.";
    large_bytes: u64 = "TALLY_LARGE_BYTES", Kind::Number { unit: "B", least: 1, most: 1_099_511_627_776 }, "1048576",
        "From which size copies and fills of best effort wait like kernels.";
}

/// A duration, written in µs.
pub type Micros = Unit<1_000>;
/// A duration, written in ms.
pub type Millis = Unit<1_000_000>;

/// A duration, written in units of so many nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit<const NS: u64>(u64);

impl<const NS: u64> Unit<NS> {
    /// In ns.
    pub fn ns(self) -> u64 {
        self.0 * NS
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_nanos(self.ns())
    }
}

/// A field of [`Settings`], made from a text that the table accepts; empty means not set.
trait Value {
    fn value(text: &str) -> Self;
}

impl Value for Option<PathBuf> {
    fn value(text: &str) -> Self {
        (!text.is_empty()).then(|| PathBuf::from(text))
    }
}

impl Value for Option<Priority> {
    fn value(text: &str) -> Self {
        text.parse().ok()
    }
}

impl Value for u64 {
    fn value(text: &str) -> Self {
        text.parse().expect("checked against the table")
    }
}

impl<const NS: u64> Value for Unit<NS> {
    fn value(text: &str) -> Self {
        Unit(u64::value(text))
    }
}

/// A setting that cannot be used, with its name, its value and what would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError(String);

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SettingError {}

impl Settings {
    /// The settings of this process's environment.
    ///
    /// # Errors
    /// See [`Settings::read`].
    pub fn of_environment() -> Result<Settings, SettingError> {
        let texts = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            // A value that is no UTF-8 can only be a path; its name is what the message needs.
            name.starts_with(PREFIX).then(|| (name, value.to_string_lossy().into_owned()))
        });
        Settings::read(texts)
    }

    /// The settings among these variables; others than `TALLY_*` are ignored, empty ones count as not set.
    ///
    /// # Errors
    /// A `TALLY_*` name that is unknown, or a value that is not of the setting's kind.
    pub fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Settings, SettingError> {
        let mut found = Vec::new();
        for (name, value) in variables {
            if !name.starts_with(PREFIX) {
                continue;
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
                let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
                return Err(SettingError(format!("unknown setting {name}; known are {}", known.join(", "))));
            };
            if !value.is_empty() {
                setting.check(&value)?;
                found.push((setting.name, value));
            }
        }
        let text = |name: &str| {
            let written = found.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            let default = || SETTINGS.iter().find(|setting| setting.name == name).map_or("", |s| s.default);
            written.unwrap_or_else(|| default().to_owned())
        };
        Ok(Settings::from_texts(text))
    }
}

const PREFIX: &str = "TALLY_";

impl Setting {
    fn check(&self, value: &str) -> Result<(), SettingError> {
        let fits = match self.kind {
            Kind::Path => true,
            Kind::Number { least, most, .. } => {
                value.parse::<u64>().is_ok_and(|number| (least..=most).contains(&number))
            }
            Kind::Word(words) => words.contains(&value),
        };
        if fits {
            return Ok(());
        }
        Err(SettingError(format!("{}={value}: must be {}", self.name, self.kind)))
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Path => f.write_str("a path"),
            Kind::Number { unit, least, most } => write!(f, "a whole number of {unit}, {least} to {most}"),
            Kind::Word(words) => f.write_str(&words.join(" or ")),
        }
    }
}

/// The text of docs/ENV.md.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Settings of the runtime\n\n\
         <!-- `cargo run --package protocol --example env > docs/ENV.md` writes this file; a test compares. -->\n\n\
         Environment variables of `tally`, `tallyd` and of the programs that `tally run` starts. An unknown `TALLY_*`\n\
         name or a bad value is an error for `tally` and `tallyd`; a program that is already running says so once and\n\
         goes on unscheduled. What a policy can be told goes into its name, see SYSTEMS.md.\n\n\
         | name | value | default | meaning |\n| --- | --- | --- | --- |\n",
    );
    for setting in SETTINGS {
        let Setting { name, kind, default, text: meaning } = setting;
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        text += &format!("| `{name}` | {kind} | {default} | {meaning} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::read(variables).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_written_has_its_default() {
        let settings = read(&[("PATH", "/bin"), ("TALLY_REPORT", "")]).unwrap();
        assert_eq!((settings.spin.ns(), settings.large_bytes), (5_000_000, 1 << 20));
        assert_eq!((settings.socket, settings.priority, settings.report), (None, None, None));
    }

    #[test]
    fn what_is_written_is_taken() {
        let settings = read(&[("TALLY_PRIORITY", "best-effort"), ("TALLY_START_LIMIT_MS", "250")]).unwrap();
        assert_eq!(settings.priority, Some(Priority::BestEffort));
        assert_eq!(settings.start_limit.duration(), Duration::from_millis(250));
    }

    #[test]
    fn a_mistake_is_named() {
        let cases = [
            ("TALLY_PRIORTY", "high", "unknown setting TALLY_PRIORTY; known are TALLY_SOCKET,"),
            ("TALLY_PRIORITY", "hi", "TALLY_PRIORITY=hi: must be high or best-effort"),
            ("TALLY_SPIN_US", "-1", "TALLY_SPIN_US=-1: must be a whole number of µs, 0 to 1000000"),
            ("TALLY_SPIN_US", "1000001", "0 to 1000000"),
            ("TALLY_LARGE_BYTES", "1e6", "a whole number of B"),
        ];
        for (name, value, message) in cases {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn every_default_is_a_value() {
        for setting in SETTINGS {
            assert!(setting.default.is_empty() || setting.check(setting.default).is_ok(), "{}", setting.name);
        }
    }

    #[test]
    fn the_document_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ENV.md");
        let text = std::fs::read_to_string(path).expect("docs/ENV.md is there");
        assert_eq!(text, markdown(), "renew it: cargo run --package protocol --example env > docs/ENV.md");
    }
}
