//! From the lock to the first wait, and the end.

use super::{Server, Signals};
use crate::mps::{self, Mps};
use crate::place::{self, Lock, Place};
use crate::policy::Runnable;
use crate::profiles::{self, Profiles};
use crate::slots::Slots;
use anyhow::{Context, Result};
use probe::nvidia::Device;
use protocol::process::Process;
use protocol::settings::Settings;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a daemon that ends by itself waits for its first connection.
const FIRST: Duration = Duration::from_secs(10);

/// What a daemon is started with.
#[derive(Debug)]
pub struct Options {
    pub policy: Runnable,
    /// The device; `None` for no check at all.
    pub device: Option<Device>,
    /// A private folder, see [`place::private`].
    pub dir: PathBuf,
    /// Ends when the last client and the last `tally run` have gone.
    pub until_idle: bool,
}

/// Another daemon serves the device.
#[derive(Debug)]
pub struct Occupied {
    holder: Option<u32>,
    dir: PathBuf,
}

impl Occupied {
    /// The exit code of `tallyd` then: it may be about to end, so trying again can help.
    pub const CODE: u8 = 3;
}

impl std::fmt::Display for Occupied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let holder = self.holder.map_or(String::new(), |pid| format!(" (process {pid})"));
        write!(
            f,
            "another tallyd{holder} serves this device in {}; `tally status` shows it",
            self.dir.display()
        )
    }
}

impl std::error::Error for Occupied {}

/// Runs a daemon until SIGTERM, SIGINT, SIGHUP (its terminal has gone), or it is idle; then nothing of it is left but its log and the profile cache.
///
/// # Errors
/// Another one runs for this device, or something that it needs cannot be had.
pub fn run(options: Options, settings: &Settings) -> Result<()> {
    let uuid = options.device.as_ref().map(|device| device.uuid.as_str());
    let place = Place::new(&options.dir, uuid);
    place::check_socket_path(&place.socket())?;
    if let Some(device) = &options.device {
        crate::gpu::check_mode(device, options.policy.needs_mps())?;
    }
    let Some(lock) = Lock::try_take(&place.lock())? else {
        return Err(Occupied { holder: Lock::holder(&place.lock()), dir: options.dir }.into());
    };
    // Before anything is started: from here on a signal ends the daemon cleanly.
    let (read, write) = UnixStream::pair()?;
    let signals = SignalDelivery::with_pipe(read, write, SignalOnly, [SIGHUP, SIGINT, SIGTERM])
        .context("cannot catch signals")?;
    // What a daemon that was killed has left behind.
    let mps = Mps::at(&place.mps());
    if let Err(error) = mps.clean_up() {
        lock.remove();
        return Err(error);
    }
    let _ = std::fs::remove_file(place.socket());
    let served = serve(options, settings, &place, &mps, signals);
    let _ = std::fs::remove_file(place.socket());
    mps.stop();
    lock.remove();
    served
}

fn serve(options: Options, settings: &Settings, place: &Place, mps: &Mps, signals: Signals) -> Result<()> {
    let uuid = options.device.as_ref().map(|device| device.uuid.clone());
    let mut environment = Vec::new();
    if let Some(uuid) = &uuid {
        environment.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
        environment.push(("CUDA_VISIBLE_DEVICES".to_owned(), uuid.clone()));
    }
    if options.policy.needs_mps() {
        mps.start(uuid.as_deref(), mps::START)?;
        environment.extend(mps.environment());
    }
    let profiles = match profiles::folder(settings) {
        Some(folder) => {
            let (profiles, warnings) = Profiles::open(&folder, options.device.as_ref())?;
            warnings.iter().for_each(|warning| say!("tallyd: {warning}"));
            Some(profiles)
        }
        None => {
            say!("tallyd: neither TALLY_PROFILES nor HOME is set, so durations are not kept");
            None
        }
    };
    let slots = Slots::new()?;
    let this = Process::this().context("cannot read /proc")?;
    let socket = listen(place)?;
    say!(
        "tallyd: {} over {} on {}, {}",
        options.policy.name(),
        options.policy.substrate(),
        uuid.as_deref().unwrap_or("no particular device"),
        place.socket().display()
    );
    let until_idle = options.until_idle.then(|| Instant::now() + FIRST);
    let mut server = Server {
        this,
        policy: options.policy,
        gpu: uuid,
        environment,
        profiles,
        slots,
        socket,
        signals,
        connections: BTreeMap::new(),
        clients: BTreeMap::new(),
        next: 0,
        until_idle,
        ending: false,
    };
    server.run()
}

fn listen(place: &Place) -> Result<OwnedFd> {
    let path = place.socket();
    let context = || format!("cannot listen on {}", path.display());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // Under a name that nobody looks for until it listens, so that whoever finds the socket gets an answer.
    let unready = path.with_extension("new");
    let _ = std::fs::remove_file(&unready);
    rustix::net::bind(&socket, &SocketAddrUnix::new(&unready).with_context(context)?)
        .with_context(context)?;
    rustix::fs::chmod(&unready, rustix::fs::Mode::from_raw_mode(0o600)).with_context(context)?;
    rustix::net::listen(&socket, 128).with_context(context)?;
    std::fs::rename(&unready, &path).with_context(context)?;
    Ok(socket)
}
