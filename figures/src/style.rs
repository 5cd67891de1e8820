//! How systems, jobs and sizes look: one table, the same in every figure.
//!
//! Hues are those of Okabe and Ito, which stay apart for colour-blind readers; variants of one system share a
//! hue and differ in lightness. Position in a group is fixed too, so no reader depends on colour alone.

use anyhow::{Context, Result, ensure};
use sched::System;

use crate::canvas::Rgb;
use crate::chart::Form;

/// Text sizes, em in px at 300 dpi: 8.9, 7.2 and 6.5 pt in print.
pub const TITLE: i32 = 37;
pub const BODY: i32 = 30;
pub const SMALL: i32 = 27;

pub const INK: Rgb = Rgb(0x22, 0x22, 0x22);
pub const GREY: Rgb = Rgb(0x66, 0x66, 0x66);
pub const RULE: Rgb = Rgb(0xD8, 0xD8, 0xD8);
/// Behind every second group of bars.
pub const BAND: Rgb = Rgb(0xF4, 0xF4, 0xF4);
/// Banner of simulated results: amber, so that nobody takes them for measurements.
pub const BANNER_SIM: Rgb = Rgb(0xFF, 0xE3, 0x9E);
/// Banner of measured results.
pub const BANNER_GPU: Rgb = Rgb(0xDD, 0xEB, 0xE4);
/// Share of white in the best-effort part of a stacked bar.
pub const BEST_EFFORT_TINT: f64 = 0.62;

/// A system under comparison, as figures show it.
#[derive(Clone, Debug)]
pub struct SystemStyle {
    /// Name in the records.
    pub id: String,
    pub label: String,
    pub color: Rgb,
    /// What a reader must know about this variant; empty where the name says it.
    pub note: &'static str,
}

/// The shades that variants of a system may have: so many steps up to this share of white.
const SHADES: u32 = 64;
const PALEST: f64 = 0.7;
/// A variant differs from every other system of its figure by at least this in red, green or blue, of 255.
const LEAST_DIFFERENCE: u8 = 8;

/// Drawing order of the training jobs that the paper uses; others follow in the order of the records.
const TRAININGS: &[&str] = &["resnet50", "pointnet", "bert", "gpt2-large", "pegasus-x-base", "whisper"];
/// Drawing order of the inference jobs.
const INFERENCES: &[&str] =
    &["bert", "llama-2-7b", "resnet50", "yolov6m", "gpt-neo-2.7b", "stable-diffusion"];

/// How the systems of one figure look.
#[derive(Clone, Debug)]
pub struct Styles(Vec<SystemStyle>);

impl Styles {
    /// The styles of these systems, from the registry. One with parameters has its system's hue, lighter, and the
    /// parameters in its label. Shades are dealt out per figure, so that none of its systems look alike: variants of a
    /// system are lighter in the order given, and as far from each other and from all others as there is room for.
    ///
    /// # Errors
    /// A system that is not known: a fall-back colour would let two systems look alike. More variants than shades.
    pub fn of<'a>(systems: impl IntoIterator<Item = &'a str>) -> Result<Styles> {
        let mut styles: Vec<SystemStyle> = Vec::new();
        for system in systems {
            if styles.iter().all(|style| style.id != system) {
                styles.push(unshaded(system)?);
            }
        }
        let baseline = unshaded("no-sharing")?.color;
        let mut taken: Vec<Rgb> = styles.iter().map(|style| style.color).chain([baseline]).collect();
        for name in System::names() {
            let is_variant =
                |style: &&mut SystemStyle| style.id.split_once(':').is_some_and(|(system, _)| system == name);
            let mut variants: Vec<&mut SystemStyle> = styles.iter_mut().filter(is_variant).collect();
            let Some(hue) = variants.first().map(|style| style.color) else { continue };
            let shade = |step: u32| hue.tint(PALEST * f64::from(step) / f64::from(SHADES));
            let mut steps = Vec::new();
            for style in &variants {
                let room = |step: u32| taken.iter().map(|&other| difference(shade(step), other)).min();
                let step = (1..=SHADES).rev().max_by_key(|&step| room(step)).expect("there are shades");
                ensure!(
                    room(step) >= Some(LEAST_DIFFERENCE),
                    "no shade is left for `{}` that would differ from the figure's other systems; next: fewer variants \
                     in one experiment",
                    style.id
                );
                taken.push(shade(step));
                steps.push(step);
            }
            steps.sort_unstable();
            for (style, step) in variants.iter_mut().zip(steps) {
                style.color = shade(step);
            }
        }
        Ok(Styles(styles))
    }

    /// The style of one of them.
    ///
    /// # Errors
    /// It isn't one of them.
    pub fn get(&self, system: &str) -> Result<&SystemStyle> {
        let style = self.0.iter().find(|style| style.id == system);
        style.with_context(|| format!("system `{system}` is not one of the figure's"))
    }
}

/// The style of a system that has a figure to itself.
///
/// # Errors
/// See [`Styles::of`].
pub fn style_of(system: &str) -> Result<SystemStyle> {
    Styles::of([system])?.get(system).cloned()
}

/// A variant has the colour of its system.
fn unshaded(system: &str) -> Result<SystemStyle> {
    let parsed = System::parse(system)
        .context("it has no colour; systems and their colours are in runtime/sched/src")?;
    let entry = parsed.entry();
    let label = match system.split_once(':') {
        Some((_, parameters)) => {
            format!("{} ({})", entry.title, parameters.replace(',', ", ").replace('=', " "))
        }
        None => entry.title.to_owned(),
    };
    let (red, green, blue) = entry.color;
    Ok(SystemStyle { id: system.to_owned(), label, color: Rgb(red, green, blue), note: entry.note })
}

/// The largest difference in red, green or blue.
fn difference(a: Rgb, b: Rgb) -> u8 {
    a.0.abs_diff(b.0).max(a.1.abs_diff(b.1)).max(a.2.abs_diff(b.2))
}

/// Colour and form of a training job's line, `index` being its position among those drawn. Hues of Okabe and Ito again:
/// figures with lines per training show one system.
pub fn training_look(training: &str, index: usize) -> (Rgb, Form) {
    const LOOKS: [(u8, u8, u8); 6] = [
        (0x00, 0x72, 0xB2),
        (0xE6, 0x9F, 0x00),
        (0x00, 0x9E, 0x73),
        (0xCC, 0x79, 0xA7),
        (0xD5, 0x5E, 0x00),
        (0x56, 0xB4, 0xE9),
    ];
    let rank = job_rank(training);
    let at = if rank < LOOKS.len() { rank } else { index % LOOKS.len() };
    let (r, g, b) = LOOKS[at];
    let known = rank < LOOKS.len();
    (Rgb(r, g, b), if known == at.is_multiple_of(2) { Form::Disc } else { Form::Square })
}

/// Position of a system in drawing order, its parameters apart; unknown ones come last.
pub fn system_rank(system: &str) -> usize {
    let name = system.split_once(':').map_or(system, |(name, _)| name);
    System::names().position(|known| known == name).unwrap_or(usize::MAX)
}

/// Position of a job in drawing order; unknown ones come last.
pub fn job_rank(job: &str) -> usize {
    let list = if job.ends_with("-infer") { INFERENCES } else { TRAININGS };
    list.iter().position(|j| *j == short_job(job)).unwrap_or(list.len())
}

/// A workload id without its role: `gpt2-large-train` is `gpt2-large`.
pub fn short_job(job: &str) -> &str {
    job.strip_suffix("-train").or_else(|| job.strip_suffix("-infer")).unwrap_or(job)
}

/// The name of an inference job in a heading.
pub fn inference_label(job: &str) -> String {
    let name = match short_job(job) {
        "bert" => "BERT",
        "llama-2-7b" => "Llama-2-7B",
        "resnet50" => "ResNet-50",
        "yolov6m" => "YOLOv6-m",
        "gpt-neo-2.7b" => "GPT-Neo-2.7B",
        "stable-diffusion" => "Stable Diffusion",
        other => other,
    };
    format!("{name} inference")
}

/// A number with thousands separators and `decimals` decimals: `2,000`, `4.098`.
pub fn number(value: f64, decimals: usize) -> String {
    let plain = format!("{value:.decimals$}");
    let (sign, rest) = plain.strip_prefix('-').map_or(("", plain.as_str()), |r| ("-", r));
    let (whole, fraction) = rest.split_once('.').map_or((rest, ""), |(w, f)| (w, f));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_read_well() {
        assert_eq!(short_job("gpt2-large-train"), "gpt2-large");
        assert_eq!(inference_label("llama-2-7b-infer"), "Llama-2-7B inference");
        assert_eq!(number(1982.652, 3), "1,982.652");
        assert_eq!(number(999.0, 0), "999");
        assert_eq!(number(-1_234_567.0, 0), "-1,234,567");
    }

    #[test]
    fn every_system_has_its_own_colour() {
        let styles: Vec<SystemStyle> = System::names().map(|name| style_of(name).unwrap()).collect();
        for (i, a) in styles.iter().enumerate() {
            for b in &styles[i + 1..] {
                assert!(a.color != b.color && a.label != b.label, "{} and {}", a.id, b.id);
            }
        }
    }

    #[test]
    fn a_variant_is_told_by_label_and_shade_and_stands_with_its_system() {
        let (plain, variant) = (style_of("tally").unwrap(), style_of("tally:threshold_ms=0.1").unwrap());
        assert_eq!(variant.label, "Tally (threshold_ms 0.1)");
        assert_ne!(variant.color, plain.color);
        assert_eq!(system_rank("tally:threshold_ms=0.1"), system_rank("tally"));
    }

    #[test]
    fn variants_of_one_figure_do_not_look_alike() {
        let thresholds = ["0.01", "0.0316", "0.1", "0.316", "1", "3.16", "10", "31.6"];
        let tallys: Vec<String> = thresholds.iter().map(|ms| format!("tally:threshold_ms={ms}")).collect();
        let systems: Vec<&str> = System::names().collect();
        let crowded: Vec<&str> = systems
            .into_iter()
            .chain(tallys.iter().map(String::as_str))
            .chain(["partition:high_percent=60", "partition:high_percent=75"])
            .chain(["gate:depth=1", "gate:level=ptx", "gate:depth=2", "gate-mps:depth=4"])
            .collect();
        let few = ["gate:depth=1", "gate:level=ptx"];
        for (systems, least) in [(&crowded[..], LEAST_DIFFERENCE), (&few, 40)] {
            let styles = Styles::of(systems.iter().copied()).unwrap().0;
            assert_eq!(styles.len(), systems.len());
            for (i, a) in styles.iter().enumerate() {
                for b in styles[i + 1..].iter().filter(|b| a.id.contains(':') || b.id.contains(':')) {
                    assert!(difference(a.color, b.color) >= least, "{} and {}: {a:?} {b:?}", a.id, b.id);
                }
            }
        }
        // Lighter in the order given, whatever else there is in the figure.
        let styles = Styles::of(crowded.iter().copied()).unwrap();
        let red: Vec<u8> = tallys.iter().map(|id| styles.get(id).unwrap().color.0).collect();
        assert!(red.is_sorted_by(|a, b| a < b), "{red:?}");
        assert!(styles.get("tally:threshold_ms=0.2").is_err());
    }

    #[test]
    fn more_variants_than_shades_are_refused() {
        let many: Vec<String> = (1..=60).map(|k| format!("gate:depth={k}")).collect();
        let error = Styles::of(many.iter().map(String::as_str)).unwrap_err().to_string();
        assert!(error.contains("`gate:depth=") && error.contains("fewer variants"), "{error}");
    }

    #[test]
    fn an_unknown_system_is_refused() {
        let error = format!("{:#}", style_of("magic").unwrap_err());
        assert!(error.contains("magic") && error.contains("tgs-artifact"), "{error}");
    }
}
