//! Which code a module is: a hash of its image, as it is handed to the driver.
//!
//! How long an image is stands in its own headers, which the driver trusts as well; nothing behind that is read. Of a large
//! image only samples are hashed: libraries map gigabytes of code from disk and load little of it, and a hash of everything
//! would read all of it.

use crate::types::c_void;
use std::slice;
use xxhash_rust::xxh3::Xxh3;

/// Images up to this size are hashed whole, B.
const WHOLE: usize = 1 << 20;
/// Of larger ones so many pages, spread evenly, the first and the last included.
const PAGES: usize = 16;
const PAGE: usize = 4096;
/// No image is larger; a size beyond it means that this is none.
const LARGEST: u64 = 8 << 30;

const ELF: &[u8] = b"\x7fELF";
/// `__fatBinC_Wrapper_t`, which the runtime library hands over: magic, version, and the address of the container.
const WRAPPER: u32 = 0x4662_43B1;
/// The container: magic, version, size of this header (u16), size of what follows it (u64).
const CONTAINER: u32 = 0xBA55_ED50;

/// A hash of the image's size and bytes; `None` if its size cannot be told.
///
/// # Safety
/// As `cuModuleLoadData`, which has just taken the image.
pub unsafe fn hash(image: *const c_void) -> Option<u64> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { bytes(image.cast())? };
    let mut hash = Xxh3::new();
    hash.update(&(bytes.len() as u64).to_le_bytes());
    if bytes.len() <= WHOLE {
        hash.update(bytes);
    } else {
        for page in 0..PAGES {
            let from = (bytes.len() - PAGE) * page / (PAGES - 1);
            hash.update(&bytes[from..from + PAGE]);
        }
    }
    Some(hash.digest())
}

/// All of an image.
///
/// # Safety
/// As [`hash`].
unsafe fn bytes<'a>(image: *const u8) -> Option<&'a [u8]> {
    if image.is_null() {
        return None;
    }
    // SAFETY: any image has at least a word: a text its end, the others their magic.
    let first = unsafe { *image };
    if first == 0 {
        return None;
    }
    if first.is_ascii_graphic() || first.is_ascii_whitespace() {
        // 0x50 and 0xB1 begin containers; 0x50 is also `P`, and a text may begin with it.
        // SAFETY: a text of one character has a second byte, its end.
        if first != 0x50 || unsafe { *image.add(1) } != 0xED {
            // SAFETY: PTX text ends with a zero, as the driver expects of what is no ELF file and no container.
            return Some(unsafe { std::ffi::CStr::from_ptr(image.cast()) }.to_bytes());
        }
    }
    // SAFETY: whatever is no text has headers of at least 24 bytes.
    let head = unsafe { slice::from_raw_parts(image, 24) };
    let size = match u32::from_le_bytes(head[..4].try_into().ok()?) {
        CONTAINER => u64::from(short(head, 6)?).checked_add(long(head, 8)?)?,
        WRAPPER => {
            let container = std::ptr::with_exposed_provenance::<u8>(long(head, 8)? as usize);
            let foreign = container.is_null() || !container.addr().is_multiple_of(4);
            // SAFETY: the wrapper's container, which the driver reads as well.
            let inner = (!foreign).then(|| unsafe { slice::from_raw_parts(container, 24) })?;
            let is_container = inner[..4] == CONTAINER.to_le_bytes();
            // SAFETY: as above; it is no wrapper, so this ends here.
            return if is_container { unsafe { bytes(container) } } else { None };
        }
        _ if head.starts_with(ELF) => {
            // SAFETY: a 64-bit ELF header has 64 bytes.
            let head = unsafe { slice::from_raw_parts(image, 64) };
            // SAFETY: the tables stand where the header says, which the driver reads as well.
            unsafe { elf_size(image, head)? }
        }
        _ => return None,
    };
    // SAFETY: as large as its headers say.
    (size <= LARGEST).then(|| unsafe { slice::from_raw_parts(image, size as usize) })
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Up to the end of the section table, the program table, and every section that has bytes.
///
/// # Safety
/// `image` is an ELF file whose first 64 bytes are `head`.
unsafe fn elf_size(image: *const u8, head: &[u8]) -> Option<u64> {
    const CLASS_64: u8 = 2;
    const NOBITS: u32 = 8;
    if head[4] != CLASS_64 {
        return None;
    }
    let table = |offset: u64, size: u16, count: u16| {
        let bytes = u64::from(size) * u64::from(count);
        offset.checked_add(bytes).filter(|&end| end <= LARGEST)
    };
    let (sections, section_size, section_count) = (long(head, 40)?, short(head, 58)?, short(head, 60)?);
    let mut end = table(sections, section_size, section_count)?;
    end = end.max(table(long(head, 32)?, short(head, 54)?, short(head, 56)?)?).max(64);
    if section_size < 64 {
        return Some(end);
    }
    for section in 0..u64::from(section_count) {
        let at = (sections + section * u64::from(section_size)) as usize;
        // SAFETY: within the section table.
        let header = unsafe { slice::from_raw_parts(image.add(at), 64) };
        let kind = u32::from_le_bytes(header[4..8].try_into().ok()?);
        if kind != NOBITS && kind != 0 {
            let last = long(header, 24)?.checked_add(long(header, 32)?)?;
            end = end.max(last);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(bytes: &[u8]) -> Option<u64> {
        // SAFETY: the images of these tests are whole.
        unsafe { hash(bytes.as_ptr().cast()) }
    }

    fn container(payload: &[u8]) -> Vec<u8> {
        let mut bytes = CONTAINER.to_le_bytes().to_vec();
        bytes.extend(1u16.to_le_bytes());
        bytes.extend(16u16.to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// One section of four bytes after its header table.
    fn elf(payload: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 128];
        bytes[..4].copy_from_slice(ELF);
        bytes[4] = 2;
        bytes[40..48].copy_from_slice(&64u64.to_le_bytes());
        bytes[58..60].copy_from_slice(&64u16.to_le_bytes());
        bytes[60..62].copy_from_slice(&2u16.to_le_bytes());
        let section = &mut bytes[128..];
        section[4] = 1;
        section[24..32].copy_from_slice(&192u64.to_le_bytes());
        section[32..40].copy_from_slice(&4u64.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn what_follows_an_image_does_not_count() {
        for (image, other) in [
            (container(b"abcdefgh"), container(b"abcdefgx")),
            (elf(*b"code"), elf(*b"cope")),
            (b"//ptx a\0".to_vec(), b"//ptx b\0".to_vec()),
        ] {
            let mut longer = image.clone();
            longer.extend([7; 40]);
            let hash = hash_of(&image);
            assert!(hash.is_some());
            assert_eq!(hash, hash_of(&longer));
            assert_ne!(hash, hash_of(&other));
        }
    }

    #[test]
    fn a_wrapper_is_its_container() {
        #[repr(C, align(8))]
        struct Aligned([u8; 64]);
        let mut aligned = Aligned([0; 64]);
        let inner = container(b"abcdefgh");
        aligned.0[..inner.len()].copy_from_slice(&inner);
        let mut wrapper = WRAPPER.to_le_bytes().to_vec();
        wrapper.extend(1u32.to_le_bytes());
        wrapper.extend((aligned.0.as_ptr().expose_provenance() as u64).to_le_bytes());
        wrapper.extend([0; 8]);
        assert_eq!(hash_of(&wrapper), hash_of(&inner));
    }

    #[test]
    fn a_size_that_cannot_be_is_no_identity() {
        let mut image = container(b"");
        image[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        image.extend([0; 8]);
        assert_eq!(hash_of(&image), None);
        assert_eq!(hash_of(&[1; 32]), None);
        assert_eq!(hash_of(&[0; 32]), None);
        let mut narrow = elf(*b"code");
        narrow[4] = 1;
        assert_eq!(hash_of(&narrow), None);
        // SAFETY: null is answered before anything is read.
        assert_eq!(unsafe { hash(std::ptr::null()) }, None);
    }

    #[test]
    fn of_a_large_image_the_ends_count_and_its_size() {
        let payload = vec![5; 3 << 20];
        let image = container(&payload);
        let mut changed = image.clone();
        *changed.last_mut().unwrap() = 6;
        assert_ne!(hash_of(&image), hash_of(&changed));
        assert_ne!(hash_of(&image), hash_of(&container(&payload[1..])));
        assert_eq!(hash_of(&image), hash_of(&image.clone()));
    }
}
