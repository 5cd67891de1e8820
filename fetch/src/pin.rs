//! Size and SHA-256 that a file must have.

use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What a file must be, to the last bit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub size: u64,
    /// 64 lower-case hex digits.
    pub sha256: String,
}

/// How a file differs from its pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    Size { found: u64, expected: u64 },
    Digest { found: String, expected: String },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Size { found, expected } => {
                write!(f, "wrong size: {found} bytes instead of {expected}")
            }
            Mismatch::Digest { found, expected } => {
                write!(f, "wrong digest: right size, but sha256 {found} instead of {expected}")
            }
        }
    }
}

impl Pin {
    /// The pin of these bytes.
    pub fn of(bytes: &[u8]) -> Pin {
        Pin { size: bytes.len() as u64, sha256: hex(&Sha256::digest(bytes)) }
    }

    /// Reads the file and compares; the size first, which costs nothing.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn check(&self, path: &Path) -> io::Result<Result<(), Mismatch>> {
        let found = std::fs::metadata(path)?.len();
        if found != self.size {
            return Ok(Err(Mismatch::Size { found, expected: self.size }));
        }
        let (_, found) = digest(path)?;
        if found != self.sha256 {
            return Ok(Err(Mismatch::Digest { found, expected: self.sha256.clone() }));
        }
        Ok(Ok(()))
    }
}

/// Size and SHA-256 of a file.
pub fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 18];
    let mut size = 0;
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok((size, hex(&hash.finalize()))),
            Ok(n) => {
                hash.update(&block[..n]);
                size += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vector() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Pin::of(b"abc"), Pin { size: 3, sha256: expected.to_owned() });
    }
}
