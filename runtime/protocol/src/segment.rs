//! The shared segment: one slot per client.
//!
//! The daemon makes it as a sealed memfd and hands it over the socket, so that it has no name, cannot shrink under a
//! reader, and goes away with its last user. A slot is written by its client, except for who owns it, which is the
//! daemon's. Clients of a segment run as one user and trust each other: the mapping is writable for all of them.
//!
//! All fields are atomics, so that there is no lock that a killed process could leave behind.

use crate::VERSION;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Clients at most: one bit each in [`Header::high_mask`].
pub const SLOTS: usize = 64;
/// Counters of calls in a slot, one per hooked symbol.
pub const CALLS: usize = 256;
/// The word of a high-priority client that has work on the device.
pub const ACTIVE: u64 = u64::MAX;

const MAGIC: u64 = u64::from_le_bytes(*b"tallyseg");

/// The beginning of a segment.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    slot_bytes: AtomicU32,
    segment_bytes: AtomicU64,
    /// Bit `i`: slot `i` belongs to a high-priority client. Set and cleared by the daemon.
    pub high_mask: AtomicU64,
}

/// One client.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Slot {
    /// [`ACTIVE`], or since when the client has had nothing on the device ([`crate::clock`], ns). High priority only.
    pub word: AtomicU64,
    /// When the word last became [`ACTIVE`], ns.
    pub active_since: AtomicU64,
    /// On a line of its own: read by others while the client writes its counters.
    pub sample: Sample,
    pub owner: Owner,
    pub counters: Counters,
}

/// The last sample of a high-priority client's launch rate, for policies that limit by it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Sample {
    /// Thread blocks per sampling period, as the bits of an `f64`; written before `number`.
    pub rate: AtomicU64,
    /// Counts the samples.
    pub number: AtomicU64,
}

/// Who has the slot. Written by the daemon while no client uses it; `pid` 0 means nobody.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Owner {
    pub pid: AtomicU32,
    /// 1 for high priority, 2 for best effort.
    pub priority: AtomicU32,
    /// As in [`crate::process::Process`].
    pub start: AtomicU64,
}

/// What a client did; written by it alone, read by whoever shows it.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Counters {
    /// Calls by hook, in the order of the interposer's table.
    pub calls: [AtomicU64; CALLS],
    /// Launches that waited for the gate.
    pub held: AtomicU64,
    /// How long they waited, ns.
    pub waited_ns: AtomicU64,
    /// Launches that the policy decided on.
    pub admitted: AtomicU64,
    /// Launches that no policy was asked about, by reason, in the order of [`PASSED`].
    pub passed: [AtomicU64; PASSED.len()],
    /// Times that the word became [`ACTIVE`].
    pub activations: AtomicU64,
    /// Launches that ran alone to be timed.
    pub profiled: AtomicU64,
    /// Graph launches that take longer than best effort may have in flight.
    pub unprotected: AtomicU64,
    /// Streams or events that found no room in a table; the helper thread makes up for it.
    pub overflows: AtomicU64,
    /// Times that the helper thread found the end of work that nobody waited for.
    pub found_idle: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            calls: std::array::from_fn(|_| AtomicU64::new(0)),
            held: AtomicU64::default(),
            waited_ns: AtomicU64::default(),
            admitted: AtomicU64::default(),
            passed: std::array::from_fn(|_| AtomicU64::new(0)),
            activations: AtomicU64::default(),
            profiled: AtomicU64::default(),
            unprotected: AtomicU64::default(),
            overflows: AtomicU64::default(),
            found_idle: AtomicU64::default(),
        }
    }
}

/// Why a launch went to the driver without a decision: key in reports, and what it means.
pub const PASSED: [(&str, &str); 6] = [
    ("capturing", "the stream is being captured, nothing runs yet"),
    ("unregistered", "there was no answer from the daemon, so nothing is scheduled"),
    ("forked", "a child of a program that had used the device, which it cannot use itself"),
    ("small", "a copy or fill below TALLY_LARGE_BYTES"),
    ("policy", "the policy does not ask for this kind of launch"),
    ("error", "an error of ours; the first one is on stderr"),
];

/// A mapped segment.
#[derive(Debug)]
pub struct Segment {
    map: MmapRaw,
}

/// Why a segment cannot be used.
#[derive(Debug)]
pub enum SegmentError {
    /// The system refused, while doing what is named.
    System(&'static str, std::io::Error),
    /// The bytes are not a segment of this version, with what was found.
    Foreign(String),
}

impl std::fmt::Display for SegmentError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SegmentError::System(doing, error) => write!(f, "cannot {doing} the shared segment: {error}"),
            SegmentError::Foreign(found) => write!(f, "the shared segment is not of this version: {found}"),
        }
    }
}

impl std::error::Error for SegmentError {}

#[repr(C)]
struct Layout {
    header: Header,
    slots: [Slot; SLOTS],
}

const BYTES: usize = size_of::<Layout>();

// Zero bytes are a valid value of every field, which is how a memfd begins.
impl Segment {
    /// A new, empty segment and the descriptor to hand over.
    ///
    /// # Errors
    /// The system has no memory or no memfd.
    pub fn create() -> Result<(Segment, OwnedFd), SegmentError> {
        let system = |doing| move |error: rustix::io::Errno| SegmentError::System(doing, error.into());
        let file = rustix::fs::memfd_create("tally", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(system("make"))?;
        rustix::fs::ftruncate(&file, BYTES as u64).map_err(system("size"))?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(system("seal"))?;
        let segment = Segment::map(&file)?;
        let header = segment.header();
        header.version.store(VERSION, Ordering::Relaxed);
        header.slot_bytes.store(size_of::<Slot>() as u32, Ordering::Relaxed);
        header.segment_bytes.store(BYTES as u64, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok((segment, file))
    }

    /// The segment behind a descriptor that was received.
    ///
    /// # Errors
    /// It cannot be mapped, or is of another version or size, or could still be cut.
    pub fn attach(file: impl AsFd) -> Result<Segment, SegmentError> {
        let file = file.as_fd();
        let status =
            rustix::fs::fstat(file).map_err(|error| SegmentError::System("examine", error.into()))?;
        if status.st_size != BYTES as i64 {
            return Err(SegmentError::Foreign(format!("{} bytes, expected {BYTES}", status.st_size)));
        }
        let seals = rustix::fs::fcntl_get_seals(file)
            .map_err(|error| SegmentError::System("examine", error.into()))?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(SegmentError::Foreign("its size is not sealed".to_owned()));
        }
        let segment = Segment::map(file)?;
        let header = segment.header();
        let magic = header.magic.load(Ordering::Acquire);
        let version = header.version.load(Ordering::Relaxed);
        let slot_bytes = header.slot_bytes.load(Ordering::Relaxed);
        if magic != MAGIC {
            return Err(SegmentError::Foreign(format!("it begins with {magic:#018x}")));
        }
        if version != VERSION || slot_bytes != size_of::<Slot>() as u32 {
            let expected = size_of::<Slot>();
            return Err(SegmentError::Foreign(format!(
                "version {version} with slots of {slot_bytes} bytes, expected version {VERSION} with {expected}"
            )));
        }
        Ok(segment)
    }

    fn map(file: impl AsFd) -> Result<Segment, SegmentError> {
        use std::os::fd::AsRawFd;
        let raw = file.as_fd().as_raw_fd();
        let map =
            MmapOptions::new().len(BYTES).map_raw(raw).map_err(|error| SegmentError::System("map", error))?;
        Ok(Segment { map })
    }

    /// The beginning.
    pub fn header(&self) -> &Header {
        &self.layout().header
    }

    /// All slots.
    pub fn slots(&self) -> &[Slot; SLOTS] {
        &self.layout().slots
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is page-aligned, `BYTES` long, cannot shrink (the size is sealed) and lives as long as
        // `self`. Every field is an atomic, for which any bytes are a value, so that writes of other processes are
        // no data race.
        unsafe { &*self.map.as_ptr().cast::<Layout>() }
    }

    /// What best effort has to know of the high-priority clients: [`ACTIVE`], or since when all of them have been idle; 0
    /// if there is none.
    pub fn activity(&self) -> u64 {
        let mut mask = self.header().high_mask.load(Ordering::Acquire);
        let mut latest = 0;
        while mask != 0 {
            let slot = mask.trailing_zeros() as usize;
            latest = latest.max(self.slots()[slot].word.load(Ordering::SeqCst));
            mask &= mask - 1;
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_one_segment() {
        let (daemon, file) = Segment::create().unwrap();
        let client = Segment::attach(&file).unwrap();
        assert_eq!(client.activity(), 0);
        client.slots()[3].word.store(ACTIVE, Ordering::SeqCst);
        assert_eq!(daemon.activity(), 0, "nobody of high priority is registered");
        daemon.header().high_mask.store(0b1010, Ordering::SeqCst);
        assert_eq!(client.activity(), ACTIVE);
        client.slots()[3].word.store(700, Ordering::SeqCst);
        client.slots()[1].word.store(900, Ordering::SeqCst);
        assert_eq!(daemon.activity(), 900, "idle since the last of them");
    }

    #[test]
    fn words_and_counters_share_no_cache_line() {
        assert_eq!(std::mem::offset_of!(Slot, sample) % 128, 0);
        assert_eq!(std::mem::offset_of!(Slot, counters) % 128, 0);
        assert_eq!(size_of::<Slot>() % 128, 0);
    }

    #[test]
    fn a_foreign_segment_is_refused_with_what_was_found() {
        let (segment, file) = Segment::create().unwrap();
        segment.header().version.store(99, Ordering::Relaxed);
        let error = Segment::attach(&file).unwrap_err().to_string();
        assert!(error.contains("version 99"), "{error}");
        segment.header().magic.store(0, Ordering::Relaxed);
        assert!(Segment::attach(&file).unwrap_err().to_string().contains("begins with"));
        let short = rustix::fs::memfd_create("short", MemfdFlags::CLOEXEC).unwrap();
        assert!(Segment::attach(&short).unwrap_err().to_string().contains("0 bytes"));
        let open = rustix::fs::memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, BYTES as u64).unwrap();
        assert!(Segment::attach(&open).unwrap_err().to_string().contains("not sealed"));
    }
}
