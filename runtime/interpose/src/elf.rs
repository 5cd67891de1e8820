//! Symbols of loaded objects, read from their own tables: a look-up that no exported `dlsym` can get into the way of.
//!
//! Format: the System V ABI (gABI, "Dynamic Linking") and, for DT_GNU_HASH and symbol versions, glibc's `dl-lookup.c`.

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

const DT_NULL: i64 = 0;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;

/// A version of a symbol that only a reference by that version finds.
const HIDDEN: u16 = 0x8000;
/// Type of a symbol whose address is that of a function which chooses the function.
const STT_GNU_IFUNC: u8 = 10;

/// One entry of the dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// The symbol tables of one loaded object. They stay valid as long as the object is loaded.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    base: usize,
    symbols: *const Elf64_Sym,
    strings: *const c_char,
    gnu_hash: *const u32,
    hash: *const u32,
    versions: *const u16,
}

impl Object {
    /// Reads the dynamic section of a loaded object.
    ///
    /// # Safety
    /// `info` must describe an object that is loaded.
    unsafe fn read(info: &dl_phdr_info) -> Option<Object> {
        let base = info.dlpi_addr as usize;
        // SAFETY: the loader's description: `dlpi_phnum` headers from `dlpi_phdr` on.
        let headers: &[Elf64_Phdr] =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut at = (base + dynamic.p_vaddr as usize) as *const Dynamic;
        let mut object = Object {
            base,
            symbols: ptr::null(),
            strings: ptr::null(),
            gnu_hash: ptr::null(),
            hash: ptr::null(),
            versions: ptr::null(),
        };
        loop {
            // SAFETY: the section ends with DT_NULL, where this loop ends.
            let &Dynamic { tag, value } = unsafe { &*at };
            // glibc relocates these values in place, other loaders leave them relative.
            let address = if value < base { base + value } else { value };
            match tag {
                DT_NULL => break,
                DT_HASH => object.hash = address as *const u32,
                DT_STRTAB => object.strings = address as *const c_char,
                DT_SYMTAB => object.symbols = address as *const Elf64_Sym,
                DT_GNU_HASH => object.gnu_hash = address as *const u32,
                DT_VERSYM => object.versions = address as *const u16,
                _ => {}
            }
            // SAFETY: not behind DT_NULL yet.
            at = unsafe { at.add(1) };
        }
        (!object.symbols.is_null() && !object.strings.is_null()).then_some(object)
    }

    /// The address of a defined function: of its default version, or of any other if there is no default.
    pub fn find(&self, name: &CStr) -> Option<NonNull<c_void>> {
        let mut other = None;
        let mut default = None;
        self.candidates(name, |index| {
            // SAFETY: the hash tables only hold indices of the symbol table.
            let symbol = unsafe { &*self.symbols.add(index) };
            if symbol.st_shndx == 0 || symbol.st_info & 0xf == STT_GNU_IFUNC {
                return;
            }
            // SAFETY: names are offsets into the string table, whose strings end with a zero.
            if unsafe { CStr::from_ptr(self.strings.add(symbol.st_name as usize)) } != name {
                return;
            }
            let address = NonNull::new((self.base + symbol.st_value as usize) as *mut c_void);
            // SAFETY: the version table, where there is one, has an entry per symbol.
            let hidden = !self.versions.is_null() && unsafe { *self.versions.add(index) } & HIDDEN != 0;
            if hidden {
                other = other.or(address);
            } else {
                default = default.or(address);
            }
        });
        default.or(other)
    }

    /// Calls `visit` with the index of each symbol that may have this name.
    fn candidates(&self, name: &CStr, visit: impl FnMut(usize)) {
        if !self.gnu_hash.is_null() {
            // SAFETY: the table of a loaded object.
            unsafe { gnu_chain(self.gnu_hash, name, visit) }
        } else if !self.hash.is_null() {
            // SAFETY: the table of a loaded object.
            unsafe { sysv_chain(self.hash, name, visit) }
        }
    }
}

/// # Safety
/// `table` must be a DT_GNU_HASH table.
unsafe fn gnu_chain(table: *const u32, name: &CStr, mut visit: impl FnMut(usize)) {
    let wanted =
        name.to_bytes().iter().fold(5381_u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
    // SAFETY: four words, a filter of 64-bit words, one word per bucket, then one word per symbol from the first hashed
    // one on, of which the last of each bucket is odd.
    unsafe {
        let (buckets, first, filter) = (*table, *table.add(1) as usize, *table.add(2) as usize);
        if buckets == 0 {
            return;
        }
        let bucket = table.add(4 + 2 * filter);
        let chain = bucket.add(buckets as usize);
        let mut index = *bucket.add((wanted % buckets) as usize) as usize;
        if index < first {
            return;
        }
        loop {
            let hash = *chain.add(index - first);
            if hash | 1 == wanted | 1 {
                visit(index);
            }
            if hash & 1 == 1 {
                return;
            }
            index += 1;
        }
    }
}

/// # Safety
/// `table` must be a DT_HASH table.
unsafe fn sysv_chain(table: *const u32, name: &CStr, mut visit: impl FnMut(usize)) {
    let wanted = name.to_bytes().iter().fold(0_u32, |hash, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    });
    // SAFETY: two words, one word per bucket, then for each symbol the next of its bucket; 0 ends a chain.
    unsafe {
        let buckets = *table;
        if buckets == 0 {
            return;
        }
        let chain = table.add(2 + buckets as usize);
        let mut index = *table.add(2 + (wanted % buckets) as usize);
        while index != 0 {
            visit(index as usize);
            index = *chain.add(index as usize);
        }
    }
}

/// The loaded object whose file has this name, without its folders.
pub fn loaded(file: &CStr) -> Option<Object> {
    struct Search<'a> {
        file: &'a CStr,
        found: Option<Object>,
    }

    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader's description, and the search that `loaded` passed.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search<'_>>()) };
        if info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the loader's name of the object.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        let base = name.rsplit(|&byte| byte == b'/').next();
        if base != Some(search.file.to_bytes()) {
            return 0;
        }
        // SAFETY: the loader describes loaded objects only.
        search.found = unsafe { Object::read(info) };
        c_int::from(search.found.is_some())
    }

    let mut search = Search { file, found: None };
    // SAFETY: `visit` gets the search for the time of this call only, and doesn't unwind.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loader's own answer is the oracle.
    fn by_loader(file: &CStr, name: &CStr) -> *mut c_void {
        // SAFETY: names end with a zero.
        unsafe {
            let handle = libc::dlopen(file.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            assert!(!handle.is_null(), "{file:?} is loaded");
            libc::dlsym(handle, name.as_ptr())
        }
    }

    #[test]
    fn finds_what_the_loader_finds() {
        let object = loaded(c"libc.so.6").expect("a program of glibc");
        for name in [
            c"malloc",
            c"free",
            c"getenv",
            c"dlopen",
            c"dlsym",
            c"dlvsym",
            c"pthread_create",
            c"write",
            c"fork",
        ] {
            let expected = by_loader(c"libc.so.6", name);
            assert_eq!(
                object.find(name).map(NonNull::as_ptr),
                NonNull::new(expected).map(NonNull::as_ptr),
                "{name:?}"
            );
        }
    }

    /// Two versions since glibc 2.14: the default one counts.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_default_version_counts() {
        let object = loaded(c"libc.so.6").expect("a program of glibc");
        let name = c"pthread_cond_wait";
        // SAFETY: names end with a zero.
        let old = unsafe {
            let handle = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            libc::dlvsym(handle, name.as_ptr(), c"GLIBC_2.2.5".as_ptr())
        };
        let found = object.find(name).expect("glibc has it").as_ptr();
        assert_eq!(found, by_loader(c"libc.so.6", name));
        assert_ne!(found, old, "there are two versions");
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let object = loaded(c"libc.so.6").expect("a program of glibc");
        assert_eq!(object.find(c"cuLaunchKernel"), None);
        assert_eq!(object.find(c""), None);
        assert!(loaded(c"libc.so").is_none());
        assert!(loaded(c"ibc.so.6").is_none());
    }

    /// The symbol of a function that is chosen by processor is that of the function which chooses.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_choosing_function_is_not_found() {
        assert_eq!(loaded(c"libc.so.6").expect("a program of glibc").find(c"strlen"), None);
    }

    /// Libraries may be linked with the older hash table only.
    #[test]
    fn the_older_hash_table_is_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("old.c");
        std::fs::write(
            &source,
            "int tally_old_one(void) { return 1; }\nint tally_old_two(void) { return 2; }\n",
        )
        .expect("the source is written");
        let library = folder.path().join("libtally_old_hash.so");
        let status = std::process::Command::new("cc")
            .args(["-shared", "-fPIC", "-Wl,--hash-style=sysv", "-o"])
            .arg(&library)
            .arg(&source)
            .status()
            .expect("cc is installed");
        assert!(status.success());
        let path = std::ffi::CString::new(library.to_str().expect("UTF-8")).expect("no zero");
        // SAFETY: the path ends with a zero.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        let object = loaded(c"libtally_old_hash.so").expect("it is loaded");
        assert!(object.gnu_hash.is_null());
        for name in [c"tally_old_one", c"tally_old_two"] {
            // SAFETY: names end with a zero.
            let expected = unsafe { libc::dlsym(handle, name.as_ptr()) };
            assert_eq!(object.find(name).map(NonNull::as_ptr), Some(expected), "{name:?}");
        }
        assert_eq!(object.find(c"tally_old_three"), None);
    }
}
