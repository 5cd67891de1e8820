//! What the recorded kernels say: shares of duration classes, and turnaround by granularity. Nothing here is simulated.

use anyhow::{Result, bail};

use crate::axis::Scale;
use crate::canvas::{Anchor, Picture, Rgb, Text, text_width};
use crate::csv::Csv;
use crate::grid::Facts;
use crate::inputs::Inputs;
use crate::layout::Layout;
use crate::markdown::Table;
use crate::page::{self, Swatch};
use crate::plot::{Columns, Plot, group_names, text};
use crate::records::Backend;
use crate::sheet::{self, Row};
use crate::style::{BODY, INK, SMALL, job_rank, number, short_job};

/// Columns of the duration classes, in their order.
pub const DURATIONS: &str =
    "experiment gpu training lower_ns upper_ns launches launch_share time_ns time_share status error";
/// Columns of the turnaround, in their order.
pub const TURNAROUND: &str = "experiment gpu training granularity origin pieces piece_mean_ns turnaround_mean_ns \
    turnaround_p99_ns turnaround_max_ns idle_share status error";

const HEIGHT: i32 = 560;

/// From short to long: light to dark, so that it reads without colours too.
const SHADES: [Rgb; 6] = [
    Rgb(0xF3, 0xE9, 0xC9),
    Rgb(0xE9, 0xC4, 0x6A),
    Rgb(0xE0, 0x8E, 0x45),
    Rgb(0xB8, 0x4A, 0x39),
    Rgb(0x6B, 0x1F, 0x3A),
    Rgb(0x2A, 0x0C, 0x2B),
];

/// Shares of one class of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub lower_ns: u64,
    pub upper_ns: Option<u64>,
    pub launches: f64,
    pub launch_share: f64,
    pub time_ns: f64,
    pub time_share: f64,
}

/// The classes of every job.
#[derive(Clone, Debug)]
pub struct Durations {
    pub gpu: String,
    pub jobs: Vec<(String, Vec<Class>)>,
    /// Jobs without a readable profile, with the reason.
    pub failed: Vec<(String, String)>,
}

impl Class {
    /// As in the legend, ms.
    fn label(&self) -> String {
        let ms = |ns: u64| (ns as f64 / 1e6).to_string();
        match self.upper_ns {
            Some(upper) => format!("{} to {} ms", ms(self.lower_ns), ms(upper)),
            None => format!("over {} ms", ms(self.lower_ns)),
        }
    }
}

/// A record by job.
struct Content<T> {
    gpu: String,
    rows: Vec<(String, T)>,
    /// Jobs without a readable profile, with the reason.
    failed: Vec<(String, String)>,
}

fn rows<T>(
    inputs: &Inputs,
    record: &str,
    columns: &'static str,
    read: impl Fn(&Row) -> Result<T>,
) -> Result<Content<T>> {
    let path = inputs.path(record);
    let columns: Vec<&str> = columns.split_whitespace().collect();
    let (mut gpu, mut good, mut failed) = (String::new(), Vec::new(), Vec::new());
    for row in sheet::read(&path, &columns)? {
        let training = row.required("training")?;
        match row.required("status")?.as_str() {
            "ok" => {
                let recorded_on = row.required("gpu")?;
                if !gpu.is_empty() && gpu != recorded_on {
                    return Err(
                        row.bad("gpu", &format!("stands next to `{gpu}`; one picture shows one of them"))
                    );
                }
                gpu = recorded_on;
                good.push((training, read(&row)?));
            }
            "failed" => failed.push((training, row.text("error").unwrap_or_default())),
            _ => return Err(row.bad("status", "is not one of ok, failed")),
        }
    }
    if good.is_empty() {
        bail!("{} holds no readable profile; next: run the experiment again", path.display());
    }
    good.sort_by_key(|(training, _)| job_rank(training));
    Ok(Content { gpu, rows: good, failed })
}

fn needed(row: &Row, column: &str) -> Result<f64> {
    row.real(column, 0.0)?.ok_or_else(|| row.bad(column, "is missing"))
}

impl Durations {
    /// Reads the record.
    ///
    /// # Errors
    /// A record that is not as docs/FORMATS.md says, of several GPUs, or without any profile.
    pub fn of(inputs: &Inputs, record: &str) -> Result<Durations> {
        let read = |row: &Row| {
            Ok(Class {
                lower_ns: row.count("lower_ns")?.ok_or_else(|| row.bad("lower_ns", "is missing"))?,
                upper_ns: row.count("upper_ns")?,
                launches: needed(row, "launches")?,
                launch_share: needed(row, "launch_share")?,
                time_ns: needed(row, "time_ns")?,
                time_share: needed(row, "time_share")?,
            })
        };
        let Content { gpu, rows, failed } = rows(inputs, record, DURATIONS, read)?;
        let mut jobs: Vec<(String, Vec<Class>)> = Vec::new();
        for (training, class) in rows {
            match jobs.last_mut() {
                Some((last, classes)) if *last == training => classes.push(class),
                _ => jobs.push((training, vec![class])),
            }
        }
        let ends = |classes: &[Class]| classes.iter().map(|c| (c.lower_ns, c.upper_ns)).collect::<Vec<_>>();
        if jobs.iter().any(|(_, classes)| ends(classes) != ends(&jobs[0].1) || classes.len() > SHADES.len()) {
            bail!("{record}: the jobs have different classes, or more than {}", SHADES.len());
        }
        Ok(Durations { gpu, jobs, failed })
    }
}

/// The banner of pictures that hold no simulated number.
fn facts(gpu: &str) -> Facts {
    Facts {
        backend: Backend::Gpu,
        machine: gpu.to_owned(),
        load: 0.0,
        traces: Vec::new(),
        seeds: Vec::new(),
        incomplete: false,
    }
}

fn origin(gpu: &str, failed: &[(String, String)]) -> String {
    let incomplete = if failed.is_empty() { "" } else { " · INCOMPLETE" };
    format!("Recorded on {gpu}, not simulated{incomplete}")
}

/// Lays out the shares of the duration classes.
///
/// # Errors
/// The bundled font cannot be used.
pub fn picture(d: &Durations) -> Result<Picture> {
    let mut picture = Picture::default();
    let title = "Kernel durations of the training jobs";
    let banner = format!("{} · kernels of one iteration alone on the device", origin(&d.gpu, &d.failed));
    let y = page::begin(&mut picture, title, &facts(&d.gpu), &banner)?;
    let classes = &d.jobs[0].1;
    let entries = classes.iter().zip(SHADES);
    let entries: Vec<_> =
        entries.map(|(class, fill)| (Swatch::Outlined { fill, edge: INK }, class.label())).collect();
    let y = page::legend(&mut picture, y, &entries)?;
    let mut below = y;
    for (i, x, w) in Layout::new(2, 2).row(0) {
        let name = if i == 0 { "share of launches" } else { "share of device time" };
        picture.text(Text { bold: true, ..text(name, x, y + 58, BODY + 3, Anchor::Start) });
        let columns = Columns::new(x, w, d.jobs.len(), 1);
        let plot = Plot { columns, y: y + 82, h: HEIGHT, scale: Scale::Linear { max: 100.0, step: 20.0 } };
        plot.frame(&mut picture, "%", plot.tick_width()?);
        for (g, (_, classes)) in d.jobs.iter().enumerate() {
            let mut from = 0.0;
            for (class, fill) in classes.iter().zip(SHADES) {
                let share = if i == 0 { class.launch_share } else { class.time_share } * 100.0;
                plot.piece(&mut picture, (g, 0), from, from + share, fill, INK);
                label(&mut picture, &plot, g, (from, from + share), fill)?;
                from += share;
            }
        }
        plot.axes(&mut picture);
        let names: Vec<&str> = d.jobs.iter().map(|job| short_job(&job.0)).collect();
        let foot = plot.y + plot.h + 8;
        below = below.max(foot + group_names(&mut picture, &columns, foot, &names)?);
    }
    let mut notes = vec![
        "A kernel counts in the class that its duration lies in; between the recorded quantiles of a launch its duration is \
         taken as uniform. Copies are left out. Upstream's pies leave out kernels above 10 ms and contain launch overhead."
            .to_owned(),
    ];
    if d.failed.is_empty() && classes.last().is_some_and(|last| last.upper_ns.is_none()) {
        let last = classes.len() - 1;
        if d.jobs.iter().all(|(_, classes)| classes[last].launches == 0.0) {
            notes.push(format!("No kernel of these jobs takes {}.", classes[last].label()));
        }
    }
    for (job, error) in &d.failed {
        notes.push(format!("{job}: {error}"));
    }
    page::footnotes(&mut picture, below + 8, &notes)?;
    Ok(picture)
}

/// The share inside its piece, where there is room.
fn label(picture: &mut Picture, plot: &Plot, group: usize, (from, to): (f64, f64), fill: Rgb) -> Result<()> {
    let (x, w) = plot.columns.bar(group, 0);
    let (bottom, top) = (plot.at(from), plot.at(to));
    let share = number(to - from, if to - from < 9.95 { 1 } else { 0 });
    if bottom - top < SMALL + 6 || text_width(&share, SMALL, false)? > w - 6 {
        return Ok(());
    }
    let dark = u32::from(fill.0) + u32::from(fill.1) + u32::from(fill.2) < 360;
    let color = if dark { Rgb(0xFF, 0xFF, 0xFF) } else { INK };
    let at = (x + w / 2, (bottom + top) / 2 + SMALL * 36 / 100);
    picture.text(Text { color, ..text(share, at.0, at.1, SMALL, Anchor::Middle) });
    Ok(())
}

/// Exactly the numbers drawn, one row per piece.
pub fn csv(d: &Durations) -> String {
    let mut out =
        Csv::new("gpu simulated training lower_ms upper_ms launches launch_share_pct time_ms time_share_pct");
    for (job, classes) in &d.jobs {
        for c in classes {
            let ms = |ns: u64| ns as f64 / 1e6;
            out.text(&d.gpu).text("false").text(job).real(Some(ms(c.lower_ns))).real(c.upper_ns.map(ms));
            out.real(Some(c.launches)).real(Some(c.launch_share * 100.0));
            out.real(Some(c.time_ns / 1e6)).real(Some(c.time_share * 100.0)).end();
        }
    }
    out.finish()
}

/// One granularity of one job; times in ms.
#[derive(Clone, Debug, PartialEq)]
struct Turnaround {
    granularity: String,
    origin: String,
    pieces: f64,
    piece_mean_ms: f64,
    mean_ms: f64,
    p99_ms: f64,
    max_ms: Option<f64>,
    idle_share: f64,
}

/// The table of turnaround by granularity: Markdown and CSV.
///
/// # Errors
/// A record that is not as docs/FORMATS.md says, of several GPUs, or without any profile.
pub fn turnaround(title: &str, inputs: &Inputs, record: &str) -> Result<(String, String)> {
    let read = |row: &Row| {
        let ms = |column: &str| Ok::<f64, anyhow::Error>(needed(row, column)? / 1e6);
        Ok(Turnaround {
            granularity: row.required("granularity")?,
            origin: row.required("origin")?,
            pieces: needed(row, "pieces")?,
            piece_mean_ms: ms("piece_mean_ns")?,
            mean_ms: ms("turnaround_mean_ns")?,
            p99_ms: ms("turnaround_p99_ns")?,
            max_ms: row.real("turnaround_max_ns", 0.0)?.map(|ns| ns / 1e6),
            idle_share: needed(row, "idle_share")?,
        })
    };
    let Content { gpu, rows, failed } = rows(inputs, record, TURNAROUND, read)?;
    let mut jobs: Vec<&str> = Vec::new();
    for (job, _) in &rows {
        if !jobs.contains(&job.as_str()) {
            jobs.push(job);
        }
    }
    let head =
        "training | iteration mean | p99 | kernel mean | p99 | max | block mean | p99 | max | device idle";
    let mut table = Table::new(1, head);
    for job in &jobs {
        let find = |granularity: &str| {
            rows.iter().find(|(name, row)| name == job && row.granularity == granularity).map(|(_, row)| row)
        };
        let (iteration, kernel, block) = (find("iteration"), find("kernel"), find("block"));
        let ms = |row: Option<&Turnaround>, of: fn(&Turnaround) -> Option<f64>| {
            row.and_then(of).map(significant).unwrap_or_default()
        };
        table.row([
            short_job(job).to_owned(),
            ms(iteration, |r| Some(r.mean_ms)),
            ms(iteration, |r| Some(r.p99_ms)),
            ms(kernel, |r| Some(r.mean_ms)),
            ms(kernel, |r| Some(r.p99_ms)),
            ms(kernel, |r| r.max_ms),
            ms(block, |r| Some(r.mean_ms)),
            ms(block, |r| Some(r.p99_ms)),
            ms(block, |r| r.max_ms),
            crate::markdown::percent(iteration.or(kernel).map(|r| r.idle_share)),
        ]);
    }
    let mut out = Csv::new(
        "gpu simulated training granularity origin pieces piece_mean_ms turnaround_mean_ms turnaround_p99_ms \
         turnaround_max_ms idle_share",
    );
    for (job, r) in &rows {
        out.text(&gpu).text("false").text(job).text(&r.granularity).text(&r.origin).real(Some(r.pieces));
        out.real(Some(r.piece_mean_ms)).real(Some(r.mean_ms)).real(Some(r.p99_ms)).real(r.max_ms);
        out.real(Some(r.idle_share)).end();
    }
    let origin = format!("**{}.**", origin(&gpu, &failed));
    let mut body = format!(
        "# {title}\n\n{origin} Milliseconds from the arrival of a request at a uniformly random time of the training alone until \
         the device is free, when the training stops after its iteration, after its kernel, or after its round of thread blocks. \
         For kernels and blocks: given that a kernel is on the device; the last column is the share of the time in which none \
         is. Rounds are derived (duration over the number of rounds that the occupancy rules give); iterations were timed \
         without a profiler, and their longest was not kept.\n\n{}\n\n{origin}\n",
        table.finish().trim_end()
    );
    for (job, error) in &failed {
        body += &format!("\n{job}: {error}\n");
    }
    Ok((body, out.finish()))
}

/// Three significant digits: the values span five orders of magnitude.
fn significant(ms: f64) -> String {
    let decimals = if ms > 0.0 { (2.0 - libm::floor(libm::log10(ms))).clamp(0.0, 6.0) as usize } else { 0 };
    number(ms, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (ms, text) in [(667.71, "668"), (72.686, "72.7"), (1.1505, "1.15"), (0.035977, "0.0360")] {
            assert_eq!(significant(ms), text);
        }
    }

    #[test]
    fn classes_are_named_in_ms() {
        let class = |lower_ns, upper_ns| Class {
            lower_ns,
            upper_ns,
            launches: 0.0,
            launch_share: 0.0,
            time_ns: 0.0,
            time_share: 0.0,
        };
        assert_eq!(class(0, Some(100_000)).label(), "0 to 0.1 ms");
        assert_eq!(class(10_000_000, None).label(), "over 10 ms");
    }
}
