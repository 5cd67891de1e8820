//! Runs the parts that were asked for, one after another.

use crate::corun::plan;
use crate::record::{self, Record};
use crate::rows::{Outcome, Rows};
use crate::setup::Setup;
use crate::{answers, correctness, corun, faults, interrupt, machine, selftest};
use anyhow::Result;
use flags::{GpuCheck, Part};

/// Something did not hold.
pub const FAILED: u8 = 3;
/// There is no GPU to check on.
pub const NO_GPU: u8 = 4;

/// Without `--only`, in the order of what is lost least when the time is over. The self-test is a part of the others.
const PARTS: [Part; 4] = [Part::Answers, Part::Correctness, Part::Corun, Part::Faults];

/// Runs the command line.
///
/// # Errors
/// A tool or folder is missing, or results cannot be written; what does not hold is a row and an exit code.
pub fn run(flags: &GpuCheck) -> Result<u8> {
    if flags.age {
        print!("{}", record::age(&flags.repo)?);
        return Ok(0);
    }
    if flags.record {
        for path in record::make(&flags.out, &flags.repo)? {
            println!("wrote {}", path.display());
        }
        return Ok(0);
    }
    let parts: &[Part] = if flags.only.is_empty() { &PARTS } else { &flags.only };
    if flags.list {
        parts.iter().for_each(|part| list(*part));
        return Ok(0);
    }
    let needs_gpu = !flags.dry && parts.iter().any(|part| *part != Part::Answers);
    let gpu = match machine::gpu(flags.gpu.as_deref()) {
        Ok(gpu) => Some(gpu),
        Err(error) if needs_gpu => {
            eprintln!("{error:#}; this check needs one (`gpu-check --only answers` does not)");
            return Ok(NO_GPU);
        }
        Err(_) => None,
    };
    let gpu = gpu.filter(|_| !flags.dry);
    let setup = Setup::new(flags, gpu)?;
    if let Some(gpu) = &setup.gpu {
        Record::begin(&setup.out, gpu)?;
    }
    interrupt::answer(setup.scratch())?;
    match &setup.gpu {
        Some(gpu) => eprintln!("checking on {}, driver {}", gpu.name, gpu.driver),
        None if setup.dry => {
            eprintln!("DRY RUN: small models on the CPU; the numbers say nothing of any device")
        }
        None => eprintln!("no GPU is used"),
    }
    let mut rows = Rows::open(&setup.out.join("rows.csv"))?;
    for part in parts {
        rows.forget(*part);
        let result = match part {
            Part::Selftest => selftest::run(&setup, &mut rows),
            Part::Correctness => correctness::run(&setup, &mut rows),
            Part::Corun => corun::run(&setup, &mut rows),
            Part::Faults => faults::run(&setup, &mut rows),
            Part::Answers => answers::run(&setup, &mut rows),
        };
        if let Err(error) = result {
            rows.judge(*part, "the part itself", false, format!("{error:#}"))?;
        }
        if let Some(gpu) = &setup.gpu {
            Record::note(&setup, gpu, *part)?;
        }
    }
    Ok(sum(&rows, parts))
}

/// Prints how many rows came out how; the exit code.
fn sum(rows: &Rows, parts: &[Part]) -> u8 {
    let of = |outcome| {
        let mine = rows.all().iter().filter(|row| parts.iter().any(|part| part.name() == row.part));
        mine.filter(|row| row.outcome == outcome).count()
    };
    let failed = of(Outcome::Failed);
    eprintln!(
        "{} held, {failed} failed, {} measured, {} skipped",
        of(Outcome::Passed),
        of(Outcome::Measured),
        of(Outcome::Skipped)
    );
    if failed == 0 { 0 } else { FAILED }
}

fn list(part: Part) {
    match part {
        Part::Selftest => println!("selftest: about 1 minute"),
        Part::Correctness => println!("correctness: about 3 minutes"),
        Part::Corun => {
            let sessions = plan::sessions();
            let seconds: f64 = sessions.iter().map(plan::Session::seconds).sum();
            println!("corun: {} sessions, about {:.0} minutes", sessions.len(), seconds / 60.0);
            for session in &sessions {
                let (system, repeat, cells) = (session.system(), session.repeat, session.cells.len());
                println!("  {system}, repeat {repeat}: {cells} cells, {:.0} s", session.seconds());
            }
        }
        Part::Faults => println!("faults: 3 to 6 minutes"),
        Part::Answers => println!("answers: some seconds, no GPU needed"),
    }
}
