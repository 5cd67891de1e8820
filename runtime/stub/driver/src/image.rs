//! Kernel names of a code image: PTX text, a cubin, or a fat binary of these. Compressed parts aren't opened; an image that
//! has one has every kernel that it is asked for.
//!
//! The layout of fat binaries is not documented by NVIDIA; these are the fields that were seen on driver 580.

use std::ffi::{CStr, c_void};

use crate::error::{Answer, Code};

const WRAPPER: u32 = 0x4662_43b1;
const CONTAINER: u32 = 0xba55_ed50;
const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
/// Kinds of a container's entries.
const PTX_ENTRY: u16 = 1;
const ELF_ENTRY: u16 = 2;

/// Kernels of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernels {
    Listed(Vec<String>),
    Any,
}

impl Kernels {
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Listed(names) => names.iter().any(|known| known == name),
            Self::Any => true,
        }
    }

    fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (Self::Listed(names), Self::Listed(more)) => {
                for name in more {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
            _ => *self = Self::Any,
        }
    }
}

/// Reads the kernels of what a caller wants to load.
pub fn kernels(image: *const c_void) -> Answer<Kernels> {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let image = image.cast::<u8>();
    // SAFETY: the caller of the driver's function promises a whole image of one of these kinds; each has four bytes.
    match unsafe { u32_at(image, 0) } {
        // SAFETY: a wrapper has 24 bytes, the third field is the address of a container.
        WRAPPER => unsafe { container(u64_at(image, 8) as *const u8) },
        // SAFETY: a container, by its first word.
        CONTAINER => unsafe { container(image) },
        // SAFETY: an ELF file, by its first word.
        ELF => unsafe { elf(image) },
        // SAFETY: what is none of these is text that ends with a zero.
        _ => ptx(&unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy()),
    }
}

/// Names behind `.entry`.
fn ptx(text: &str) -> Answer<Kernels> {
    if !text.contains(".version") {
        return Err(Code::INVALID_IMAGE);
    }
    let names = text.split(".entry").skip(1).filter_map(|rest| {
        let name = rest.trim_start().split(|c: char| c.is_whitespace() || c == '(' || c == '{').next()?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    Ok(Kernels::Listed(names.collect()))
}

/// # Safety
/// `image` is a whole container.
unsafe fn container(image: *const u8) -> Answer<Kernels> {
    // SAFETY: promised by the caller; the fields are within the sizes that the container states.
    unsafe {
        if image.is_null() || u32_at(image, 0) != CONTAINER {
            return Err(Code::INVALID_IMAGE);
        }
        let (header, size) = (u16_at(image, 6) as usize, u64_at(image, 8) as usize);
        let mut found = Kernels::Listed(Vec::new());
        let mut at = 0;
        while at + 64 <= size {
            let entry = image.add(header + at);
            let (kind, entry_header, bytes) =
                (u16_at(entry, 0), u32_at(entry, 4) as usize, u64_at(entry, 8) as usize);
            if entry_header < 64 || entry_header.checked_add(bytes).is_none_or(|end| end > size - at) {
                return Err(Code::INVALID_IMAGE);
            }
            let payload = entry.add(entry_header);
            let compressed = u64_at(entry, 56) != 0;
            found.add(match kind {
                _ if compressed => Kernels::Any,
                PTX_ENTRY => {
                    let bytes = std::slice::from_raw_parts(payload, bytes);
                    ptx(&String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)))?
                }
                ELF_ENTRY => elf(payload)?,
                _ => Kernels::Any,
            });
            at += entry_header + bytes;
        }
        Ok(found)
    }
}

/// Names of the sections `.text.NAME`.
///
/// # Safety
/// `image` is a whole ELF file of 64 bits.
unsafe fn elf(image: *const u8) -> Answer<Kernels> {
    // SAFETY: promised by the caller.
    unsafe {
        if u32_at(image, 0) != ELF {
            return Err(Code::INVALID_IMAGE);
        }
        let table = u64_at(image, 40) as usize;
        let (step, count, names) =
            (u16_at(image, 58) as usize, u16_at(image, 60), u16_at(image, 62) as usize);
        let section = |index: usize| image.add(table + index * step);
        let strings = image.add(u64_at(section(names), 24) as usize);
        let found = (0..count as usize).filter_map(|index| {
            let name = CStr::from_ptr(strings.add(u32_at(section(index), 0) as usize).cast());
            Some(name.to_string_lossy().strip_prefix(".text.")?.to_owned())
        });
        Ok(Kernels::Listed(found.collect()))
    }
}

macro_rules! readers {
    ($($name:ident: $type:ty),*) => {$(
        /// # Safety
        /// The bytes at `offset` can be read.
        unsafe fn $name(image: *const u8, offset: usize) -> $type {
            // SAFETY: promised by the caller.
            unsafe { image.add(offset).cast::<$type>().read_unaligned() }
        }
    )*};
}
readers!(u16_at: u16, u32_at: u32, u64_at: u64);

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.0\n.visible .entry one(.param .u64 a) {}\n.entry two () {}\n\0";

    fn listed(names: &[&str]) -> Answer<Kernels> {
        Ok(Kernels::Listed(names.iter().map(|name| (*name).to_owned()).collect()))
    }

    /// A container with one entry.
    fn fat(kind: u16, payload: &[u8], uncompressed: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(CONTAINER.to_le_bytes());
        bytes.extend([1, 0, 16, 0]);
        bytes.extend((64 + payload.len() as u64).to_le_bytes());
        let mut entry = [0; 64];
        entry[..2].copy_from_slice(&kind.to_le_bytes());
        entry[4..8].copy_from_slice(&64_u32.to_le_bytes());
        entry[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        entry[56..].copy_from_slice(&uncompressed.to_le_bytes());
        bytes.extend(entry);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn names_of_ptx() {
        assert_eq!(kernels(PTX.as_ptr().cast()), listed(&["one", "two"]));
        assert_eq!(kernels(c"nonsense".as_ptr().cast()), Err(Code::INVALID_IMAGE));
        assert_eq!(kernels(std::ptr::null()), Err(Code::INVALID_VALUE));
    }

    #[test]
    fn names_of_a_fat_binary() {
        let image = fat(PTX_ENTRY, PTX.as_bytes(), 0);
        assert_eq!(kernels(image.as_ptr().cast()), listed(&["one", "two"]));
        let mut wrapper = [0; 24];
        wrapper[..4].copy_from_slice(&WRAPPER.to_le_bytes());
        wrapper[8..16].copy_from_slice(&(image.as_ptr() as u64).to_le_bytes());
        assert_eq!(kernels(wrapper.as_ptr().cast()), listed(&["one", "two"]));
        assert_eq!(kernels(fat(ELF_ENTRY, b"(zstd)", 100).as_ptr().cast()), Ok(Kernels::Any));
    }

    #[test]
    fn names_of_an_elf_file() {
        let strings = b"\0.shstrtab\0.text.gemm\0";
        let mut image = vec![0; 64];
        image[..4].copy_from_slice(&ELF.to_le_bytes());
        image[40..48].copy_from_slice(&64_u64.to_le_bytes());
        image[58..64].copy_from_slice(&[64, 0, 2, 0, 0, 0]);
        for (name, offset) in [(1_u32, 64 + 128_u64), (11, 0)] {
            let mut section = [0; 64];
            section[..4].copy_from_slice(&name.to_le_bytes());
            section[24..32].copy_from_slice(&offset.to_le_bytes());
            image.extend(section);
        }
        image.extend(strings);
        assert_eq!(kernels(image.as_ptr().cast()), listed(&["gemm"]));
    }

    #[test]
    fn an_entry_that_goes_past_the_end_is_refused() {
        let mut image = fat(PTX_ENTRY, PTX.as_bytes(), 0);
        image[16 + 8..16 + 16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(kernels(image.as_ptr().cast()), Err(Code::INVALID_IMAGE));
    }
}
