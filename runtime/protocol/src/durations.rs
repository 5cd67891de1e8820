//! Measured durations of kernels alone on the device: the format of the profile cache and of the descriptors that travel
//! between the daemon and best-effort clients.
//!
//! Lines of text, `key_hex,ns,samples,name,gx,gy,gz,bx,by,bz,shared`, below the line [`HEADER`]. The key is a hash of code
//! and launch shape that the interposer computes; the rest of a line after `samples` is for people.

use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// The first line of a table, with its version.
pub const HEADER: &str = "key_hex,ns,samples,name,gx,gy,gz,bx,by,bz,shared";

/// A table at most, bytes: some 100,000 kernels with long names.
pub const LIMIT: u64 = 64 << 20;

/// Characters of a name that are kept; names of C++ templates can have thousands.
const NAME: usize = 400;

/// One kernel of one launch shape, graph, or size of copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duration {
    /// The least of the samples, ns; at least 1.
    pub ns: u64,
    /// How often it was timed alone; at least 1.
    pub samples: u32,
    pub name: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u32,
}

/// Durations by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations(pub BTreeMap<u64, Duration>);

/// A line that is none, with its number (from 1) and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub line: usize,
    pub why: String,
}

impl Display for Damaged {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl Durations {
    /// Takes over what another table knows: the lesser time of both, the samples added.
    pub fn merge(&mut self, other: Durations) {
        for (key, new) in other.0 {
            self.0
                .entry(key)
                .and_modify(|known| {
                    known.ns = known.ns.min(new.ns);
                    known.samples = known.samples.saturating_add(new.samples);
                })
                .or_insert(new);
        }
    }

    /// The table of a text, and the lines of it that are damaged; they are skipped. Of a key that stands there twice both
    /// count, as in [`Durations::merge`]. Empty lines and the header are no lines of the table.
    pub fn read(text: &str) -> (Durations, Vec<Damaged>) {
        let mut table = Durations::default();
        let mut damaged = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.is_empty() || line == HEADER {
                continue;
            }
            match line.parse::<Line>() {
                Ok(Line(key, duration)) => table.merge(Durations(BTreeMap::from([(key, duration)]))),
                Err(why) => damaged.push(Damaged { line: at + 1, why }),
            }
        }
        (table, damaged)
    }

    /// A descriptor to send: a memfd that holds the table.
    ///
    /// # Errors
    /// The system has no memory or no memfd.
    pub fn to_memfd(&self) -> Result<OwnedFd> {
        let mut file = File::from(rustix::fs::memfd_create("durations", MemfdFlags::CLOEXEC)?);
        file.write_all(self.to_string().as_bytes())?;
        Ok(file.into())
    }

    /// What a received descriptor holds, from its beginning; see [`Durations::read`].
    ///
    /// # Errors
    /// It cannot be read, is longer than [`LIMIT`], or is no text.
    pub fn from_memfd(file: OwnedFd) -> Result<(Durations, Vec<Damaged>)> {
        let mut file = File::from(file);
        // The position is shared with the sender, who wrote up to the end.
        file.seek(SeekFrom::Start(0))?;
        let mut text = String::new();
        file.take(LIMIT + 1).read_to_string(&mut text)?;
        if text.len() as u64 > LIMIT {
            return Err(Error::new(ErrorKind::FileTooLarge, format!("durations of more than {LIMIT} bytes")));
        }
        Ok(Durations::read(&text))
    }
}

/// The text of a table, header included.
impl Display for Durations {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (key, Duration { ns, samples, name, grid: [gx, gy, gz], block: [bx, by, bz], shared }) in &self.0
        {
            // No quoting: what would need it is not part of a kernel's name, and the name decides nothing.
            let name: String = name
                .chars()
                .map(|c| if c == ',' || c == '"' || c.is_control() { '_' } else { c })
                .take(NAME)
                .collect();
            writeln!(f, "{key:016x},{ns},{samples},{name},{gx},{gy},{gz},{bx},{by},{bz},{shared}")?;
        }
        Ok(())
    }
}

struct Line(u64, Duration);

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> std::result::Result<Line, String> {
        let fields: Vec<&str> = line.split(',').collect();
        let [key, ns, samples, name, shape @ ..] = &fields[..] else {
            return Err(format!("{} fields, expected 11", fields.len()));
        };
        let [gx, gy, gz, bx, by, bz, shared] = shape else {
            return Err(format!("{} fields, expected 11", fields.len()));
        };
        let number = |name: &str, text: &str| {
            text.parse::<u64>().map_err(|_| format!("`{text}` is no value of the column {name}"))
        };
        let small = |name: &str, text: &str| {
            text.parse::<u32>().map_err(|_| format!("`{text}` is no value of the column {name}"))
        };
        let key = match key.len() {
            16 => u64::from_str_radix(key, 16).ok(),
            _ => None,
        }
        .ok_or_else(|| format!("`{key}` is no value of the column key_hex"))?;
        let duration = Duration {
            ns: number("ns", ns)?,
            samples: small("samples", samples)?,
            name: (*name).to_owned(),
            grid: [small("gx", gx)?, small("gy", gy)?, small("gz", gz)?],
            block: [small("bx", bx)?, small("by", by)?, small("bz", bz)?],
            shared: small("shared", shared)?,
        };
        if duration.ns == 0 || duration.samples == 0 {
            return Err("a duration of 0, or of no samples".to_owned());
        }
        Ok(Line(key, duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn duration(ns: u64, samples: u32) -> Duration {
        Duration { ns, samples, name: "k".to_owned(), grid: [4, 1, 1], block: [256, 1, 1], shared: 0 }
    }

    #[test]
    fn two_tables_give_the_lesser_time_and_all_samples() {
        let mut table = Durations(BTreeMap::from([(1, duration(500, 3)), (2, duration(70, 1))]));
        table.merge(Durations(BTreeMap::from([(1, duration(400, 2)), (3, duration(9, 1))])));
        let expected = [(1, duration(400, 5)), (2, duration(70, 1)), (3, duration(9, 1))];
        assert_eq!(table, Durations(BTreeMap::from(expected)));
    }

    #[test]
    fn the_text_is_as_documented() {
        let name = "gemm<float, 4>\n".to_owned();
        let table = Durations(BTreeMap::from([(0xAB, Duration { name, ..duration(123, 3) })]));
        assert_eq!(
            table.to_string(),
            format!("{HEADER}\n00000000000000ab,123,3,gemm<float_ 4>_,4,1,1,256,1,1,0\n")
        );
    }

    #[test]
    fn damaged_lines_are_named_and_the_others_kept() {
        let good = "00000000000000ab,123,3,k,4,1,1,256,1,1,0";
        let text =
            format!("{HEADER}\n\n{good}\nab,1,1,k,1,1,1,1,1,1,0\n{good},7\n{}\n", good.replace("123", "0"));
        let (table, damaged) = Durations::read(&text);
        assert_eq!(table.0, BTreeMap::from([(0xAB, duration(123, 3))]));
        let lines: Vec<String> = damaged.iter().map(Damaged::to_string).collect();
        let expected = [
            "line 4: `ab` is no value of the column key_hex",
            "line 5: 12 fields, expected 11",
            "line 6: a duration of 0, or of no samples",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_table_travels_in_a_memfd() {
        let table = Durations(BTreeMap::from([(7, duration(1, 1))]));
        let (got, damaged) = Durations::from_memfd(table.to_memfd().unwrap()).unwrap();
        assert_eq!((got, damaged), (table, vec![]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            lines in prop::collection::btree_map(any::<u64>(), (1u64.., 1u32.., "[a-zA-Z_<>0-9]{0,30}", any::<[u32; 3]>()), 0..20)
        ) {
            let table = Durations(
                lines
                    .into_iter()
                    .map(|(key, (ns, samples, name, grid))| {
                        (key, Duration { ns, samples, name, grid, block: [32, 2, 1], shared: 48 })
                    })
                    .collect(),
            );
            prop_assert_eq!(Durations::read(&table.to_string()), (table, vec![]));
        }

        #[test]
        fn any_text_is_read_without_harm(text in ".{0,400}") {
            let (table, damaged) = Durations::read(&text);
            prop_assert!(table.0.len() + damaged.len() <= text.lines().count());
        }
    }
}
