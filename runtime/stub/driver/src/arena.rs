//! Handles. A freed handle is the next to be given out, as often happens with the driver's addresses: a caller that
//! remembers what it knew of a handle for too long is found out.

use crate::error::{Answer, Code};
use crate::types::Handle;

/// Handles of one kind lie in a range of their own.
const RANGE: usize = 1 << 40;
const STEP: usize = 16;

pub struct Arena<T> {
    base: usize,
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Arena<T> {
    pub const fn new(kind: usize) -> Self {
        Self { base: kind * RANGE, items: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, item: T) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        self.items[index] = Some(item);
        self.base + (index + 1) * STEP
    }

    fn index(&self, handle: Handle) -> Option<usize> {
        let offset = handle.checked_sub(self.base)?;
        (offset < RANGE && offset.is_multiple_of(STEP)).then_some(())?;
        (offset / STEP).checked_sub(1)
    }

    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.items.get(self.index(handle)?)?.as_ref()
    }

    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let index = self.index(handle)?;
        self.items.get_mut(index)?.as_mut()
    }

    /// The item, or INVALID_HANDLE.
    pub fn find(&self, handle: Handle) -> Answer<&T> {
        self.get(handle).ok_or(Code::INVALID_HANDLE)
    }

    pub fn find_mut(&mut self, handle: Handle) -> Answer<&mut T> {
        self.get_mut(handle).ok_or(Code::INVALID_HANDLE)
    }

    pub fn remove(&mut self, handle: Handle) -> Answer<T> {
        let index = self.index(handle).ok_or(Code::INVALID_HANDLE)?;
        let item = self.items.get_mut(index).and_then(Option::take).ok_or(Code::INVALID_HANDLE)?;
        self.free.push(index);
        Ok(item)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| Some((self.base + (index + 1) * STEP, item.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_handle_is_given_out_again() {
        let mut arena = Arena::new(3);
        let (a, b) = (arena.insert("a"), arena.insert("b"));
        assert_eq!(arena.remove(a), Ok("a"));
        assert_eq!(arena.remove(a), Err(Code::INVALID_HANDLE));
        assert_eq!(arena.insert("c"), a);
        assert_eq!(arena.find(b), Ok(&"b"));
        assert_eq!(arena.iter().map(|(_, item)| *item).collect::<Vec<_>>(), ["c", "b"]);
    }

    #[test]
    fn other_numbers_are_no_handles() {
        let mut arena = Arena::new(3);
        let handle = arena.insert(());
        for wrong in [0, 1, 2, handle + 1, handle - STEP, handle + RANGE, usize::MAX] {
            assert_eq!(arena.find(wrong), Err(Code::INVALID_HANDLE), "{wrong:#x}");
        }
    }
}
