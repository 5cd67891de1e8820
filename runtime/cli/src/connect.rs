//! Finds the daemon of a device, or starts one.

use anyhow::{Context, Result, anyhow, bail};
use daemon::place::{self, Lock, Place};
use daemon::policy::{DEFAULT, Runnable};
use daemon::say;
use daemon::{Occupied, gpu, mps, processes};
use protocol::VERSION;
use protocol::message::{Channel, Reply, Request};
use protocol::settings::Settings;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest that a new one may take to be there: MPS, and the end of the one before it with its MPS.
const START: Duration = mps::START.saturating_add(Duration::from_secs(30));
const STEP: Duration = Duration::from_millis(20);

/// A daemon that lives at least until this is dropped.
pub struct Attached {
    pub channel: Channel,
    pub place: Place,
    pub policy: Runnable,
    pub gpu: Option<String>,
    /// What programs need in their environment.
    pub environment: Vec<(String, String)>,
}

/// Which daemon is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub policy: Option<&'a str>,
    pub gpu: Option<&'a str>,
    pub dir: Option<&'a Path>,
}

/// Attaches to the daemon of the device, which is started if there is none.
///
/// # Errors
/// There is no device, the daemon has another policy, or it does not start; with what it said.
pub fn attach(wanted: Wanted<'_>, settings: &Settings) -> Result<Attached> {
    // Before anything is started; the daemon checks it as well.
    wanted.policy.map(Runnable::parse).transpose()?;
    let dir = place::folder(wanted.dir, settings)?;
    let device = gpu::choose(wanted.gpu, settings.driver.is_some())?;
    let uuid = device.map(|device| device.uuid);
    let place = Place::new(&dir, uuid.as_deref());
    let end = Instant::now() + START;
    loop {
        if let Some(attached) = try_attach(&place, wanted.policy)? {
            return Ok(attached);
        }
        // Several that find nobody at once start one daemon.
        if let Some(lock) = Lock::try_take(&place.start_lock())? {
            let started = match try_attach(&place, wanted.policy)? {
                Some(attached) => Ok(Some(attached)),
                None => start(&place, wanted.policy, uuid.as_deref(), end),
            };
            lock.remove();
            if let Some(attached) = started? {
                return Ok(attached);
            }
        }
        if Instant::now() >= end {
            bail!(
                "tallyd did not answer within {} s; see {} and the process in {}",
                START.as_secs(),
                place.log().display(),
                place.lock().display()
            );
        }
        std::thread::sleep(STEP);
    }
}

/// `None` if nobody answers there.
fn try_attach(place: &Place, policy: Option<&str>) -> Result<Option<Attached>> {
    let socket = place.socket();
    let channel = match Channel::connect(&socket) {
        Ok(channel) => channel,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot connect to {}", socket.display())),
    };
    let request = Request::Attach { version: VERSION, policy: policy.map(str::to_owned) };
    match channel.ask(&request, &[], ANSWER) {
        Ok((Reply::Ready { policy, gpu, environment, .. }, _)) => {
            let policy = Runnable::parse(&policy)?;
            Ok(Some(Attached { channel, place: place.clone(), policy, gpu, environment }))
        }
        Ok((other, _)) => bail!("the daemon answered with {other:?}; use files of one build"),
        // It was about to end.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| socket.display().to_string()),
    }
}

/// Starts a daemon and attaches; `None` if one that still ends is in the way.
fn start(place: &Place, policy: Option<&str>, uuid: Option<&str>, end: Instant) -> Result<Option<Attached>> {
    let program = beside("tallyd")?;
    let old = processes::clients_of(&place.socket());
    if !old.is_empty() {
        say!(
            "tally: programs of a daemon that was killed still run; they and the new ones do not see each other. End them \
             first: {old:?}"
        );
    }
    let log = place.log();
    let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(&program);
    command
        .args([
            "--policy",
            policy.unwrap_or(DEFAULT),
            "--gpu",
            uuid.unwrap_or(gpu::NONE),
            "--until-idle",
            "--dir",
        ])
        .arg(&place.dir)
        .env_remove("TALLY_SOCKET")
        .env_remove("TALLY_PRIORITY")
        .env_remove("TALLY_REPORT")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file)
        // Not of the terminal's group: Ctrl-C is for the programs, and the daemon ends after them.
        .process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    loop {
        if let Some(attached) = try_attach(place, policy)? {
            return Ok(Some(attached));
        }
        if let Some(status) = child.try_wait()? {
            // Another one was faster, or one that ends has not yet let go of its lock.
            if status.code() == Some(i32::from(Occupied::CODE)) {
                return Ok(None);
            }
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            let said = said.trim().strip_prefix("tallyd: ").unwrap_or(said.trim());
            return Err(anyhow!("the daemon did not start: {said}"));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(STEP);
    }
}

/// A file that is installed beside this executable.
///
/// # Errors
/// It is not there.
pub fn beside(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("cannot tell where this executable is")?;
    let path = this.with_file_name(name);
    if !path.is_file() {
        bail!("there is no {name} beside {}; build the whole workspace into one folder", this.display());
    }
    Ok(path)
}
