//! The environment variables STUB_*, read at the first call.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Code;

pub struct Settings {
    pub log: Option<File>,
    pub durations: Durations,
    /// The file that stands for a device shared by processes.
    pub device: Option<PathBuf>,
    pub strict_capture: bool,
    failures: Vec<Failure>,
}

/// The settings, or nothing if one is wrong; that is said once on stderr.
pub fn get() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    SETTINGS
        .get_or_init(|| {
            Settings::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
                .inspect_err(|error| eprintln!("cuda-stub: {error}; every call fails with 999"))
                .ok()
        })
        .as_ref()
}

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let log = match set("STUB_LOG") {
            None => None,
            Some(path) => {
                let path = path.replace("%p", &std::process::id().to_string());
                let file = OpenOptions::new().create(true).append(true).open(&path);
                Some(file.map_err(|error| format!("STUB_LOG: cannot write {path}: {error}"))?)
            }
        };
        let failures = match set("STUB_FAIL") {
            None => Vec::new(),
            Some(text) => text
                .split([',', ';'])
                .map(|item| Failure::parse(item).ok_or(format!("STUB_FAIL: `{item}` is not name=code[:nth]")))
                .collect::<Result<_, _>>()?,
        };
        let strict_capture = match set("STUB_CAPTURE_STRICT").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(value) => return Err(format!("STUB_CAPTURE_STRICT: `{value}` is neither 0 nor 1")),
        };
        Ok(Self {
            log,
            durations: Durations::parse(&set("STUB_DURATION_US").unwrap_or_default())?,
            device: set("STUB_DEVICE").map(PathBuf::from),
            strict_capture,
            failures,
        })
    }

    /// Must this call fail? Each call counts, failed or not.
    pub fn failure(&self, symbol: &str) -> Option<Code> {
        let failure = self.failures.iter().find(|failure| failure.name == symbol)?;
        let count = failure.seen.fetch_add(1, Ordering::Relaxed) + 1;
        failure.nth.is_none_or(|nth| nth == count).then_some(failure.code)
    }
}

/// `symbol=code[:nth]`: the nth call of the symbol, or each, fails with the code.
struct Failure {
    name: String,
    code: Code,
    nth: Option<u64>,
    seen: AtomicU64,
}

impl Failure {
    fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.trim().split_once('=')?;
        let (code, nth) = match rest.split_once(':') {
            None => (rest, None),
            Some((code, nth)) => (code, Some(nth.parse().ok().filter(|&nth| nth > 0)?)),
        };
        let code = Code(code.parse().ok().filter(|&code| code != 0)?);
        Some(Self { name: name.to_owned(), code, nth, seen: AtomicU64::new(0) })
    }
}

/// How long work takes on the device, in nanoseconds.
#[derive(Debug, Default)]
pub struct Durations {
    default: u64,
    named: BTreeMap<String, u64>,
}

impl Durations {
    /// `name=us;...;default=us`, microseconds with up to three decimals.
    fn parse(text: &str) -> Result<Self, String> {
        let mut durations = Self::default();
        for item in text.split([';', ',']).filter(|item| !item.trim().is_empty()) {
            let wrong = || format!("STUB_DURATION_US: `{item}` is not name=microseconds");
            let (name, value) = item.trim().split_once('=').ok_or_else(wrong)?;
            let micros: f64 = value.parse().map_err(|_| wrong())?;
            if !(0.0..1e12).contains(&micros) {
                return Err(wrong());
            }
            let nanos = (micros * 1e3).round() as u64;
            match name {
                "default" => durations.default = nanos,
                _ => drop(durations.named.insert(name.to_owned(), nanos)),
            }
        }
        Ok(durations)
    }

    /// Of a kernel.
    pub fn kernel(&self, name: &str) -> u64 {
        self.named.get(name).copied().unwrap_or(self.default)
    }

    /// Of a `memcpy` or a `memset`: zero unless named.
    pub fn transfer(&self, name: &str) -> u64 {
        self.named.get(name).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn durations() {
        let settings = read(&[("STUB_DURATION_US", "gemm=1500;memcpy=2.5;default=10")]).unwrap();
        let durations = &settings.durations;
        assert_eq!([durations.kernel("gemm"), durations.kernel("other")], [1_500_000, 10_000]);
        assert_eq!([durations.transfer("memcpy"), durations.transfer("memset")], [2_500, 0]);
    }

    #[test]
    fn failures_count_calls() {
        let settings = read(&[("STUB_FAIL", "cuLaunchKernel=700:2,cuMemAlloc_v2=2")]).unwrap();
        let launches: Vec<_> = (0..3).map(|_| settings.failure("cuLaunchKernel")).collect();
        assert_eq!(launches, [None, Some(Code(700)), None]);
        assert_eq!(settings.failure("cuMemAlloc_v2"), Some(Code(2)));
        assert_eq!(settings.failure("cuLaunchKernel_ptsz"), None);
    }

    #[test]
    fn wrong_values_are_named() {
        for (name, value) in [
            ("STUB_DURATION_US", "gemm"),
            ("STUB_DURATION_US", "gemm=-1"),
            ("STUB_FAIL", "cuInit"),
            ("STUB_FAIL", "cuInit=1:0"),
            ("STUB_CAPTURE_STRICT", "yes"),
            ("STUB_LOG", "/nowhere/at/all"),
        ] {
            let error = read(&[(name, value)]).err().unwrap();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
