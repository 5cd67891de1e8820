//! Clients, the daemon and the MPS server are killed at random moments, one after another, beside a partner that lives.

use super::leftovers::processes_with;
use super::table::{BOUND_NS, Fault};
use super::victim::{Victim, Work};
use crate::program::{Tally, Way, pid, status};
use crate::setup::Setup;
use anyhow::{Context, Result};
use protocol::Priority;
use protocol::clock::now;
use rand_pcg::Pcg64;
use rustix::process::{Signal, kill_process};
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a partner is waited for; more than is accepted, so that a late one has its number.
const PATIENCE: Duration = Duration::from_secs(10);
/// Victims that are being started while another one is killed.
const AHEAD: usize = 4;
/// A victim runs for less than this before its end, ns. A context that others wait for costs a few ms, so this meets
/// registration, waiting, launching and synchronising.
const MOST_DELAY_NS: u64 = 60_000_000;
/// Two rounds: the first may have been all but done at the fault.
const ROUNDS: u64 = 2;

/// What all kinds of faults share.
#[derive(Clone, Copy)]
pub struct Bench<'a> {
    pub setup: &'a Setup,
    pub binary: &'a Path,
    pub policy: &'a str,
    pub seed: u64,
    /// None begins after this.
    pub end: Instant,
}

impl Bench<'_> {
    /// How `tally run` starts clients that share a daemon.
    pub fn tally(&self, dir: &str, priority: Priority) -> Result<Tally> {
        Ok(Tally {
            priority,
            policy: self.policy.to_owned(),
            dir: self.setup.folder(dir)?,
            report: self.setup.folder("reports/faults")?,
            way: Way::Preload,
        })
    }

    fn client(&self, dir: &str, name: &str, work: Work, priority: Priority) -> Result<Victim> {
        let name = format!("{dir}-{name}");
        Victim::start(self.setup, self.binary, &name, work, &self.tally(dir, priority)?)
    }

    /// One that has the device and works.
    pub fn partner(&self, dir: &str, name: &str, work: Work, priority: Priority) -> Result<Victim> {
        let mut partner = self.client(dir, name, work, priority)?;
        partner.ready()?;
        partner.go()?;
        partner.time_to_rounds(now(), ROUNDS, PATIENCE).context("the partner does not get going")?;
        Ok(partner)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    fn generator(&self) -> Pcg64 {
        Pcg64::new(u128::from(self.seed), 0)
    }
}

/// High-priority clients that are active die beside one best-effort client, or best-effort clients beside a server.
pub fn clients(bench: Bench<'_>, kind: &str, dir: &str, victims: Priority, count: u32) -> Result<Vec<Fault>> {
    let (work, others, partner) = match victims {
        Priority::High => (Work::Busy, Work::Train, Priority::BestEffort),
        Priority::BestEffort => (Work::Train, Work::Server, Priority::High),
    };
    let mut random = bench.generator();
    let mut partner = bench.partner(dir, "partner", others, partner)?;
    let mut waiting = VecDeque::new();
    let mut started = 0;
    let mut faults = Vec::new();
    for number in 0..count {
        while started < count && waiting.len() < AHEAD {
            waiting.push_back(bench.client(dir, &format!("v{started}"), work, victims)?);
            started += 1;
        }
        if bench.is_over() {
            break;
        }
        let mut victim = waiting.pop_front().context("no victim was started")?;
        victim.ready()?;
        let delay_ns = traces::rng::below(&mut random, MOST_DELAY_NS);
        partner.longest()?;
        victim.go()?;
        std::thread::sleep(Duration::from_nanos(delay_ns));
        let rounds = victim.rounds();
        let time = victim.sigkill()?;
        let mut fault = survived(kind, bench.policy, number, &partner, time)?;
        fault.delay_ns = Some(delay_ns);
        let ended = victim.program.wait(PATIENCE)?;
        if ended.code != 137 {
            fault.held = false;
            fault.note +=
                &format!("; `tally run` gave {} for its program that was killed, not 137", ended.code);
        }
        fault.note += &format!("; the victim had done {rounds} rounds");
        faults.push(fault);
    }
    // What was started ahead ends as a client that never launched.
    for mut victim in waiting {
        victim.ready()?;
        victim.stop()?;
    }
    partner.stop()?;
    Ok(faults)
}

/// Whether the other side went on.
fn survived(kind: &str, policy: &str, number: u32, other: &Victim, time: u64) -> Result<Fault> {
    let recovery_ns = other.time_to_rounds(time, ROUNDS, PATIENCE);
    let note = match (recovery_ns, other.refused()) {
        (_, Some(error)) => format!("the other side got CUDA error {error}"),
        (Some(ns), None) => format!("went on after {:.1} ms", ns as f64 / 1e6),
        (None, None) => format!("the other side stood still for {} s", PATIENCE.as_secs()),
    };
    Ok(Fault {
        kind: kind.to_owned(),
        policy: policy.to_owned(),
        number,
        delay_ns: None,
        recovery_ns,
        longest_ns: Some(other.longest()?),
        held: recovery_ns.is_some_and(|ns| ns <= BOUND_NS),
        note,
    })
}

/// The daemon dies while a server and a best-effort client run; both must go on, end well, and the next daemon must take
/// the folder over.
pub fn daemons(bench: Bench<'_>, kind: &str, dir: &str, first: u32, count: u32) -> Result<Vec<Fault>> {
    let mut random = Bench { seed: bench.seed + u64::from(first), ..bench }.generator();
    let mut faults = Vec::new();
    for number in first..first + count {
        if bench.is_over() {
            break;
        }
        let high = bench.client(dir, &format!("high{number}"), Work::Server, Priority::High)?;
        let low = bench.client(dir, &format!("low{number}"), Work::Train, Priority::BestEffort)?;
        let mut both = [high, low];
        for client in &mut both {
            client.ready()?;
        }
        let daemon = status(bench.setup, &bench.tally(dir, Priority::High)?.dir)?.daemon;
        both.iter().try_for_each(Victim::go)?;
        let delay_ns = traces::rng::below(&mut random, MOST_DELAY_NS);
        std::thread::sleep(Duration::from_nanos(delay_ns));
        let time = now();
        kill_process(pid(daemon.pid).context("the daemon has no number")?, Signal::KILL)
            .context("cannot kill the daemon")?;
        let [high, low] = &mut both;
        let of_high = survived(kind, bench.policy, number, high, time)?;
        let mut fault = survived(kind, bench.policy, number, low, time)?;
        fault.delay_ns = Some(delay_ns);
        fault.held &= of_high.held;
        fault.note = format!("best effort: {}; high priority: {}", fault.note, of_high.note);
        for client in [high, low] {
            if let Err(error) = client.stop() {
                fault.held = false;
                fault.note += &format!("; {error:#}");
            }
        }
        faults.push(fault);
    }
    // One more, which ends well, cleans up after the last that did not.
    bench.partner(dir, "last", Work::Train, Priority::BestEffort)?.stop()?;
    Ok(faults)
}

/// The MPS server dies with both clients in it: they are refused by the driver, which is what MPS is; told is for how long
/// nobody gets the device.
pub fn mps_servers(bench: Bench<'_>, kind: &str, dir: &str, count: u32) -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    for number in 0..count {
        if bench.is_over() {
            break;
        }
        let high = bench.partner(dir, &format!("high{number}"), Work::Server, Priority::High)?;
        let low = bench.partner(dir, &format!("low{number}"), Work::Train, Priority::BestEffort)?;
        let folder = bench.setup.folder(dir)?;
        let servers: Vec<u32> = processes_with(&folder.to_string_lossy())
            .into_iter()
            .filter(|(_, name)| name.contains("nvidia-cuda-mps-server"))
            .map(|(pid, _)| pid)
            .collect();
        let server =
            servers.first().copied().and_then(pid).context("no MPS server of this daemon was found")?;
        let time = now();
        kill_process(server, Signal::KILL).context("cannot kill the MPS server")?;
        let mut seen = Vec::new();
        for (name, mut client) in [("high priority", high), ("best effort", low)] {
            let ended = client.program.wait(PATIENCE);
            let error =
                client.refused().map_or("no CUDA error".to_owned(), |error| format!("CUDA error {error}"));
            seen.push(match ended {
                Ok(ended) => format!("{name}: {error}, code {}", ended.code),
                Err(error) => format!("{name}: {error:#}"),
            });
        }
        let next = bench.partner(dir, &format!("next{number}"), Work::Train, Priority::BestEffort);
        let recovery_ns = next.is_ok().then(|| now() - time);
        match next {
            Ok(mut next) => next.stop()?,
            Err(error) => seen.push(format!("a new client afterwards: {error:#}")),
        }
        faults.push(Fault {
            kind: kind.to_owned(),
            policy: bench.policy.to_owned(),
            number,
            recovery_ns,
            held: recovery_ns.is_some(),
            note: seen.join("; "),
            ..Fault::default()
        });
    }
    Ok(faults)
}

/// A best-effort client makes an error of its own beside a server.
pub fn device_error(bench: Bench<'_>, kind: &str, dir: &str, work: Work) -> Result<Fault> {
    let mut partner = bench.partner(dir, "partner", Work::Server, Priority::High)?;
    let mut victim = bench.client(dir, "victim", work, Priority::BestEffort)?;
    victim.ready()?;
    partner.longest()?;
    victim.go()?;
    let ended = victim.program.wait(Duration::from_secs(60))?;
    let mut fault = survived(kind, bench.policy, 0, &partner, now())?;
    let error = victim.refused();
    // Without its error the client has shown nothing.
    fault.held &= error.is_some();
    let error = error.map_or("no CUDA error".to_owned(), |error| format!("CUDA error {error}"));
    fault.note =
        format!("the client got {error} and ended with code {}; beside it: {}", ended.code, fault.note);
    if partner.refused().is_none() {
        partner.stop()?;
    }
    Ok(fault)
}
