//! Where arrivals come from.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

use crate::maf2::{self, Function, Trace};
use crate::shape::shape;
use crate::{Arrivals, Target, bootstrap, checksum, llm, poisson};

/// Header and first 998 rows of the MAF2 trace (`data/PROVENANCE.md`).
const MAF2_EXCERPT: &[u8] = include_bytes!("../data/maf2_first998_rows.csv");
const LLM_CODE: &[u8] = include_bytes!("../data/AzureLLMInferenceTrace_code.csv");
const LLM_CONV: &[u8] = include_bytes!("../data/AzureLLMInferenceTrace_conv.csv");

/// The day of the full MAF2 trace that tally-bench uses, from (inclusive) and to (exclusive).
const MAF2_DAYS: (u32, u32) = (3, 4);

/// Spellings for messages, in the order of [`Source`].
const SPELLINGS: &str =
    "maf2-excerpt, maf2-full:PATH, maf2-two-weeks:PATH, azure-llm-code, azure-llm-conv, poisson";

/// All days of the trace: tally-bench's long run squeezes them into its span.
const MAF2_TWO_WEEKS: (u32, u32) = (0, 14);

/// A kind of traffic. Text form: `maf2-excerpt`, `maf2-full:PATH`, `maf2-two-weeks:PATH`, `azure-llm-code`,
/// `azure-llm-conv`, `poisson`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Gaps of all functions together in the shipped excerpt of MAF2, resampled ([`bootstrap`], which also says why
    /// not of the most frequent function, as upstream's rule has it).
    Maf2Excerpt,
    /// Day 3 of the most frequent function in the full MAF2 text at this path, by upstream's rule
    /// ([`mod@crate::shape`]).
    Maf2Full(PathBuf),
    /// Days 0 to 14 of the same, by the same rule: upstream's long run squeezes them without thinning, which is the
    /// rule's second case.
    Maf2TwoWeeks(PathBuf),
    /// One hour of a code-completion service, by upstream's rule.
    AzureLlmCode,
    /// One hour of a chat service, by upstream's rule.
    AzureLlmConv,
    /// Poisson arrivals ([`poisson`]).
    Poisson,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Maf2Excerpt => f.write_str("maf2-excerpt"),
            Source::Maf2Full(path) => write!(f, "maf2-full:{}", path.display()),
            Source::Maf2TwoWeeks(path) => write!(f, "maf2-two-weeks:{}", path.display()),
            Source::AzureLlmCode => f.write_str("azure-llm-code"),
            Source::AzureLlmConv => f.write_str("azure-llm-conv"),
            Source::Poisson => f.write_str("poisson"),
        }
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Source> {
        if let Some(path) = text.strip_prefix("maf2-full:") {
            ensure!(!path.is_empty(), "maf2-full needs the path of the text: maf2-full:PATH");
            return Ok(Source::Maf2Full(path.into()));
        }
        if let Some(path) = text.strip_prefix("maf2-two-weeks:") {
            ensure!(!path.is_empty(), "maf2-two-weeks needs the path of the text: maf2-two-weeks:PATH");
            return Ok(Source::Maf2TwoWeeks(path.into()));
        }
        match text {
            "maf2-excerpt" => Ok(Source::Maf2Excerpt),
            "maf2-full" => bail!("maf2-full needs the path of the text: maf2-full:PATH"),
            "azure-llm-code" => Ok(Source::AzureLlmCode),
            "azure-llm-conv" => Ok(Source::AzureLlmConv),
            "poisson" => Ok(Source::Poisson),
            _ => bail!("unknown source of arrivals \"{text}\"; valid are {SPELLINGS}"),
        }
    }
}

/// A source whose data were read: makes any number of lists.
#[derive(Clone, Debug)]
pub struct Loaded {
    label: String,
    /// `key=value` lines that identify source, rule and data.
    identity: String,
    note: String,
    recorded: Recorded,
}

#[derive(Clone, Debug)]
enum Recorded {
    /// Gaps to resample.
    Gaps(Vec<u64>),
    /// Starts to shape.
    Starts(Vec<u64>),
    /// Nothing: drawn from a distribution.
    Nothing,
}

impl Source {
    /// Reads the source's data.
    ///
    /// # Errors
    /// A file that can't be read, bad rows ([`crate::rows::BadRows`]), or no arrivals where they are needed.
    pub fn load(&self) -> Result<Loaded> {
        match self {
            Source::Maf2Excerpt => maf2_excerpt(),
            Source::Maf2Full(path) => maf2_full("maf2-full", maf2::read_path(path)?, MAF2_DAYS),
            Source::Maf2TwoWeeks(path) => maf2_full("maf2-two-weeks", maf2::read_path(path)?, MAF2_TWO_WEEKS),
            Source::AzureLlmCode => azure_llm("azure-llm-code", "Azure LLM 2023, code", LLM_CODE),
            Source::AzureLlmConv => azure_llm("azure-llm-conv", "Azure LLM 2023, conversation", LLM_CONV),
            Source::Poisson => Ok(Loaded {
                label: "Poisson".to_owned(),
                identity: "source=poisson\nrule=exponential gaps\n".to_owned(),
                note: "Poisson".to_owned(),
                recorded: Recorded::Nothing,
            }),
        }
    }
}

fn maf2_excerpt() -> Result<Loaded> {
    let trace = maf2::read("maf2_first998_rows.csv", MAF2_EXCERPT)?;
    let function = trace.most_frequent().context("the excerpt has no rows")?;
    let starts = trace.all_starts_ns();
    let gaps = bootstrap::gaps(&starts);
    let rule = format!(
        "moving-block bootstrap, gaps of all functions together, {} gaps in blocks of {}",
        gaps.len(),
        bootstrap::BLOCK
    );
    Ok(Loaded {
        label: "MAF2 excerpt, bootstrapped".to_owned(),
        identity: format!(
            "source=maf2-excerpt\nrule={rule}\n{}",
            data_lines(trace.report.bytes, trace.report.fnv1a64)
        ),
        note: format!(
            "MAF2 excerpt: {}; {rule}; recorded gaps vary by {:.2} of their mean, those of the most frequent function \
             ({}, {} rows) by {:.2}: nearly a timer, which would understate queueing",
            trace.report,
            variation(&starts),
            short_name(function),
            function.rows,
            variation(&function.starts_ns)
        ),
        recorded: Recorded::Gaps(gaps),
    })
}

fn maf2_full(name: &str, trace: Trace, (from, to): (u32, u32)) -> Result<Loaded> {
    let report = &trace.report;
    let function = trace.most_frequent().with_context(|| format!("{} has no rows", report.file))?;
    let starts = function.window(from, to);
    if starts.is_empty() {
        let days = |ns: Option<&u64>| ns.map_or(0.0, |&ns| ns as f64 / maf2::DAY_NS as f64);
        bail!(
            "{}: the most frequent function has no arrivals in days [{from}, {to}); it has {} from day {:.3} to {:.3}",
            report.file,
            function.starts_ns.len(),
            days(function.starts_ns.first()),
            days(function.starts_ns.last())
        );
    }
    Ok(Loaded {
        label: format!("MAF2 days {from}-{to}"),
        identity: format!(
            "source={name}\nrule=upstream, days [{from}, {to})\n{}",
            data_lines(report.bytes, report.fnv1a64)
        ),
        note: format!(
            "MAF2: {report}; {}; {} of them in days [{from}, {to})",
            function_note(function),
            starts.len()
        ),
        recorded: Recorded::Starts(starts.to_vec()),
    })
}

fn azure_llm(name: &str, label: &str, text: &[u8]) -> Result<Loaded> {
    let starts = llm::read(name, text)?;
    let data = data_lines(text.len() as u64, checksum::of_bytes(text));
    Ok(Loaded {
        label: label.to_owned(),
        identity: format!("source={name}\nrule=upstream\n{data}"),
        note: format!("{label}: {} rows", starts.len()),
        recorded: Recorded::Starts(starts),
    })
}

fn data_lines(bytes: u64, fnv1a64: u64) -> String {
    format!("data_bytes={bytes}\ndata_fnv1a64={fnv1a64:016x}\n")
}

fn function_note(function: &Function) -> String {
    format!("most frequent function {} with {} rows", short_name(function), function.rows)
}

fn short_name(Function { app, func, .. }: &Function) -> String {
    let short = |id: &str| id.chars().take(8).collect::<String>();
    format!("{}/{}", short(app), short(func))
}

impl Loaded {
    /// The arrivals at a target load; see [`crate::arrivals`].
    pub fn arrivals(&self, target: &Target) -> Result<Arrivals> {
        target.validate()?;
        let Target { solo_mean_ns, load, span_ns: target_ns, seed } = *target;
        let wanted = target.requests();
        let per_load = || format!("{} at load {load}, solo mean {solo_mean_ns} ns", self.label);
        ensure!(wanted > 0, "{}: the span of {target_ns} ns is too short for one request", per_load());
        let (times_ns, span_ns, how) = match &self.recorded {
            Recorded::Gaps(gaps) => {
                (bootstrap::arrivals(gaps, wanted, target_ns, seed)?, target_ns, "drawn".to_owned())
            }
            Recorded::Nothing => (poisson::arrivals(wanted, target_ns, seed)?, target_ns, "drawn".to_owned()),
            Recorded::Starts(starts) => {
                let shaped = shape(starts, wanted, target_ns, seed).with_context(per_load)?;
                (shaped.times_ns, shaped.covered_ns, format!("{}, the first dropped", shaped.branch))
            }
        };
        Arrivals::check(&times_ns, span_ns).with_context(per_load)?;
        let digest_input = format!(
            "{}solo_mean_ns={solo_mean_ns}\nload={load}\ntarget_span_ns={target_ns}\nseed={seed}\nspan_ns={span_ns}\n\
             arrivals={}\narrivals_fnv1a64={:016x}\n",
            self.identity,
            times_ns.len(),
            checksum::of_times(&times_ns)
        );
        let note = format!(
            "{}; {how}; {} arrivals over {span_ns} ns, gaps vary by {:.2} of their mean (Poisson: 1)",
            self.note,
            times_ns.len(),
            variation(&times_ns)
        );
        Ok(Arrivals { times_ns, span_ns, label: self.label.clone(), digest_input, note })
    }
}

/// Standard deviation of the gaps over their mean; 0 with fewer than two gaps.
fn variation(times_ns: &[u64]) -> f64 {
    let gaps = bootstrap::gaps(times_ns);
    let count = gaps.len() as f64;
    let mean = gaps.iter().map(|&gap| gap as f64).sum::<f64>() / count;
    let square = gaps.iter().map(|&gap| (gap as f64 - mean) * (gap as f64 - mean)).sum::<f64>() / count;
    if gaps.len() < 2 || mean == 0.0 { 0.0 } else { square.sqrt() / mean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips() {
        for name in SPELLINGS.split(", ") {
            let source: Source = name.parse().unwrap();
            assert_eq!(source.to_string(), name);
        }
        assert_eq!(
            "maf2-full:a b/c:d.txt".parse::<Source>().unwrap(),
            Source::Maf2Full("a b/c:d.txt".into())
        );
    }

    #[test]
    fn unknown_source_lists_the_valid_ones() {
        let error = |text: &str| text.parse::<Source>().unwrap_err().to_string();
        assert_eq!(error("maf3"), format!("unknown source of arrivals \"maf3\"; valid are {SPELLINGS}"));
        assert!(error("maf2-full").contains("maf2-full:PATH"));
        assert!(error("maf2-full:").contains("maf2-full:PATH"));
    }
}
