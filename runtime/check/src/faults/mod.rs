//! Kills and device errors: what the other side sees, for how long, and what is left over.

mod kills;
mod leftovers;
mod table;
mod victim;

use crate::machine::{self, MPS, NO_MPS};
use crate::program::until;
use crate::rows::{Outcome, Rows, write};
use crate::setup::Setup;
use anyhow::Result;
use doctor::gpu::on_path;
use flags::Part;
use kills::Bench;
use protocol::Priority;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use table::{Fault, summary};
use victim::Work;

const SEED: u64 = 1;
/// Daemons die in so many folders at a time.
const LANES: u32 = 3;
/// How long the last daemon may take to end by itself.
const QUIET: Duration = Duration::from_secs(20);

/// The time for one kind of fault; 200 of them cost about 40 s.
const SHARE: Duration = Duration::from_secs(75);

/// How many of each.
struct Counts {
    clients: u32,
    daemons: u32,
    servers: u32,
}

/// Runs the part.
///
/// # Errors
/// Results cannot be written. A kind that cannot be tried is a row.
pub fn run(setup: &Setup, rows: &mut Rows) -> Result<()> {
    let binary = match victim::compile(setup) {
        Ok(binary) => binary,
        Err(error) => return rows.add(Part::Faults, "all", Outcome::Skipped, format!("{error:#}")),
    };
    let counts = if setup.dry {
        Counts { clients: 6, daemons: 3, servers: 0 }
    } else {
        Counts { clients: 200, daemons: 50, servers: 20 }
    };
    let memory = leftovers::shared_memory();
    let mut all: Vec<Fault> = Vec::new();
    let bench =
        |policy| Bench { setup, binary: &binary, policy, seed: SEED, end: Instant::now() + share(setup) };
    let mut keep =
        |rows: &mut Rows, kind: &str, planned: u32, judged: bool, found: Result<Vec<Fault>>| match found {
            Ok(faults) => {
                let sum = summary(&faults, planned);
                all.extend(faults);
                write(&setup.out.join("faults.csv"), &all)?;
                let outcome = match (judged, sum.held) {
                    (false, _) => Outcome::Measured,
                    (true, true) => Outcome::Passed,
                    (true, false) => Outcome::Failed,
                };
                rows.add(Part::Faults, kind, outcome, sum.text)
            }
            Err(error) => rows.judge(Part::Faults, kind, false, format!("{error:#}")),
        };
    for (kind, dir, who) in [
        ("a high-priority client is killed", "fh", Priority::High),
        ("a best-effort client is killed", "fb", Priority::BestEffort),
    ] {
        let found = kills::clients(bench("gate"), kind, dir, who, counts.clients);
        keep(rows, kind, counts.clients, true, found)?;
    }
    let kind = "the daemon is killed";
    keep(rows, kind, counts.daemons, true, daemons(bench("gate"), kind, counts.daemons))?;
    for (kind, work) in [
        ("best effort stores to a bad address", Work::Illegal),
        ("best effort runs out of memory", Work::Memory),
    ] {
        if setup.dry {
            continue;
        }
        let dir = if work == Work::Illegal { "fi" } else { "fm" };
        let found = kills::device_error(bench("gate"), kind, dir, work);
        keep(rows, kind, 1, true, found.map(|fault| vec![fault]))?;
        // Clients of one MPS server share its fate; how far is the driver's affair and only told.
        let kind = format!("{kind}, under MPS");
        if !on_path(MPS) {
            rows.add(Part::Faults, &kind, Outcome::Skipped, NO_MPS)?;
            continue;
        }
        let found = kills::device_error(bench("gate-mps"), &kind, &format!("{dir}m"), work);
        keep(rows, &kind, 1, false, found.map(|fault| vec![fault]))?;
    }
    let kind = "the MPS server is killed";
    if !on_path(MPS) {
        rows.add(Part::Faults, kind, Outcome::Skipped, NO_MPS)?;
    } else if counts.servers > 0 {
        let found = kills::mps_servers(bench("gate-mps"), kind, "fs", counts.servers);
        keep(rows, kind, counts.servers, true, found)?;
    }
    let left = left_over(setup, &memory);
    let text = if left.is_empty() { "nothing".to_owned() } else { left.join("; ") };
    rows.judge(Part::Faults, "left over", left.is_empty(), text)
}

/// In several folders at a time, since each daemon needs two new clients.
fn daemons(bench: Bench<'_>, kind: &str, count: u32) -> Result<Vec<Fault>> {
    let each = count.div_ceil(LANES);
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let first = lane * each;
                let mine = each.min(count.saturating_sub(first));
                scope.spawn(move || kills::daemons(bench, kind, &format!("fd{lane}"), first, mine))
            })
            .collect();
        let mut all = Vec::new();
        for lane in lanes {
            all.extend(lane.join().map_err(|_| anyhow::anyhow!("a lane panicked"))??);
        }
        Ok(all)
    })
}

fn share(setup: &Setup) -> Duration {
    SHARE.min(setup.left() / 3)
}

/// What should not be there any more.
fn left_over(setup: &Setup, memory: &BTreeSet<String>) -> Vec<String> {
    let scratch = setup.scratch().to_string_lossy().into_owned();
    until(QUIET, || leftovers::processes_with(&scratch).is_empty().then_some(()));
    let processes = leftovers::processes_with(&scratch).into_iter();
    let mut left: Vec<String> = processes.map(|(pid, name)| format!("process {pid} ({name})")).collect();
    left.extend(leftovers::sockets(Path::new(&scratch)).into_iter().map(|path| format!("socket {path}")));
    let new = leftovers::shared_memory();
    left.extend(
        new.difference(memory).filter(|name| name.contains("tally")).map(|name| format!("/dev/shm/{name}")),
    );
    if let Some(before) = &setup.gpu {
        match machine::gpu(Some(&before.uuid)) {
            Ok(now) if now.compute_mode == before.compute_mode => {}
            Ok(now) => {
                left.push(format!("compute mode {}, it was {}", now.compute_mode, before.compute_mode))
            }
            Err(error) => left.push(format!("the device is gone: {error:#}")),
        }
    }
    left
}
