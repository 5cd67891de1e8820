//! Physical lines of a text, one at a time.
//!
//! A CSV library counts records, and where it skips empty lines or meets CRLF, the line number that it reports is not
//! always the one an editor shows. The traces here have no quoted fields, so lines and commas are all there is to it.

use std::io::{self, BufRead, Read};

use crate::checksum::Fnv64;

/// Longest line accepted, in bytes. Rows of the traces have about 150; the bound keeps a file without line feeds (an
/// archive, a disk image) from filling the memory.
const MAX_LINE: u64 = 64 * 1024;

/// Streams the lines of `reader` that are not blank, and checksums all of its bytes.
pub struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
    bytes: u64,
    checksum: Fnv64,
}

impl<R: BufRead> Lines<R> {
    pub fn new(reader: R) -> Self {
        Lines { reader, buffer: Vec::new(), number: 0, bytes: 0, checksum: Fnv64::new() }
    }

    /// The next line that is not blank, with its physical number (from 1), without its line end (LF or CRLF), spaces
    /// around it or a byte order mark. `None` at the end.
    ///
    /// # Errors
    /// Those of the reader, and `InvalidData` for a line over 64 KiB.
    pub fn next_line(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        loop {
            self.buffer.clear();
            let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.buffer)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.bytes += read;
            self.checksum.update(&self.buffer);
            if read == MAX_LINE && !self.buffer.ends_with(b"\n") {
                let text =
                    format!("line {} has more than {MAX_LINE} bytes: this is not the CSV text", self.number);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            if !content(&self.buffer, self.number).is_empty() {
                break;
            }
        }
        Ok(Some((self.number, content(&self.buffer, self.number))))
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// FNV-1a checksum of the bytes read so far.
    pub fn checksum(&self) -> u64 {
        self.checksum.value()
    }
}

fn content(line: &[u8], number: u64) -> &[u8] {
    let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    line.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(text: &[u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Some((number, line)) = lines.next_line().unwrap() {
            all.push((number, String::from_utf8_lossy(line).into_owned()));
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        assert_eq!(lines.checksum(), crate::checksum::of_bytes(text));
        all
    }

    #[test]
    fn numbers_are_physical() {
        let expected = vec![(1, "a".to_owned()), (4, "b".to_owned()), (6, "c".to_owned())];
        assert_eq!(collect(b"\xef\xbb\xbfa\r\n\r\n\n b \r\n\t\nc"), expected);
        assert_eq!(collect(b""), vec![]);
        assert_eq!(collect(b"\n\n\r\n"), vec![]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let text = vec![b'x'; 70_000];
        let error = Lines::new(text.as_slice()).next_line().unwrap_err();
        assert!(error.to_string().contains("line 1 has more than 65536 bytes"), "{error}");
    }
}
