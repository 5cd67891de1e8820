//! FNV-1a, 64 bits: says whether two inputs differ. It is no protection against intent; where a file's origin matters,
//! its SHA-256 is checked by whoever fetched it.

/// Running FNV-1a checksum (offset basis and prime as published by Fowler, Noll and Vo).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv64(u64);

impl Fnv64 {
    pub fn new() -> Fnv64 {
        Fnv64(0xcbf2_9ce4_8422_2325)
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    }

    pub fn value(self) -> u64 {
        self.0
    }
}

impl Default for Fnv64 {
    fn default() -> Self {
        Fnv64::new()
    }
}

/// Checksum of a byte string.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    let mut fnv = Fnv64::new();
    fnv.update(bytes);
    fnv.value()
}

/// Checksum of a list of times, as little-endian 64-bit words.
pub fn of_times(times_ns: &[u64]) -> u64 {
    let mut fnv = Fnv64::new();
    times_ns.iter().for_each(|t| fnv.update(&t.to_le_bytes()));
    fnv.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        assert_eq!(of_bytes(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of_bytes(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of_bytes(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
