//! The multiprocessors, kept as classes of equals.
//!
//! Blocks are placed breadth first, so that most multiprocessors look alike at any time. A [`Class`] is a number of
//! multiprocessors with the same resident blocks; a [`Group`] is the blocks of one kernel that start and end together on
//! each of them.

use crate::domain::SLOTS;
use crate::kernel::Kernel;
use crate::occupancy::Resources;
use crate::prepared::clustered;
use arrayvec::ArrayVec;

/// Virtual time of a kernel, see [`crate::prepared::TICKS_PER_NS`].
pub type Ticks = u64;

/// Blocks of one kernel on each multiprocessor of a class, which end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Whose kernel.
    pub slot: u8,
    /// Blocks on each multiprocessor.
    pub per_sm: u16,
    /// When they end, in their kernel's virtual time.
    pub end: Ticks,
}

/// Above this many groups on one multiprocessor, the two of one kernel that are nearest in phase are taken together.
const MANY_GROUPS: usize = 5;

/// Groups of one multiprocessor at most. A list of more than [`MANY_GROUPS`] has one group of each of its kernels, but
/// for the one that was placed last.
const GROUPS: usize = SLOTS + 1;

/// Multiprocessors in the same state.
#[derive(Clone, Debug)]
pub struct Class {
    /// How many.
    pub count: u32,
    /// Blocks to be placed now that fit on each.
    room: u32,
    /// What is left on each.
    pub free: Resources,
    /// In order of slot and end, so that equal states compare equal.
    pub groups: ArrayVec<Group, GROUPS>,
}

/// Above this many classes, multiprocessors that differ only in the phase of their blocks are taken together. A long
/// kernel crossed by many short ones would otherwise end up with one class per multiprocessor.
const MANY_CLASSES: usize = 6;

/// Blocks that end within this time of each other end together: rounding keeps equal phases this far apart.
const NEAR: Ticks = crate::prepared::TICKS_PER_NS;

/// The multiprocessors that one order of precedence rules over.
#[derive(Clone, Debug)]
pub struct Sms {
    pub classes: Vec<Class>,
    whole: Resources,
    total: u32,
    gpcs: u32,
    order: Vec<usize>,
}

impl Sms {
    /// An empty device of `total` multiprocessors.
    pub fn new(total: u32, gpcs: u32, whole: Resources) -> Self {
        let empty = Class { count: total, room: 0, free: whole, groups: ArrayVec::new() };
        Sms { classes: vec![empty], whole, total, gpcs, order: Vec::new() }
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.classes.truncate(1);
        let class = &mut self.classes[0];
        class.count = self.total;
        class.free = self.whole;
        class.groups.clear();
    }

    /// Blocks of a kernel that an empty device holds.
    pub fn capacity(&self, kernel: &Kernel) -> u64 {
        kernel.capacity(self.total, self.gpcs)
    }

    /// Places up to `wanted` blocks that end at `end`, breadth first; returns how many found room.
    pub fn place(&mut self, slot: u8, kernel: &Kernel, wanted: u64, end: Ticks) -> u64 {
        if wanted == 0 {
            return 0;
        }
        let mut total = 0;
        for class in &mut self.classes {
            class.room = class.room_for(slot, kernel);
            total += u64::from(class.count) * u64::from(class.room);
        }
        if total == 0 {
            return 0;
        }
        let placed = wanted.min(clustered(total, kernel.cluster, self.gpcs));
        if placed == total {
            for class in self.classes.iter_mut().filter(|c| c.room > 0) {
                class.add(slot, &kernel.need, class.room, end);
            }
        } else if placed > 0 {
            self.place_breadth_first(slot, &kernel.need, placed, end);
        }
        placed
    }

    /// Fewer blocks than there is room for: level by level, and the last level on a part of a class.
    fn place_breadth_first(&mut self, slot: u8, need: &Resources, wanted: u64, end: Ticks) {
        let filled = |level: u32| -> u64 {
            self.classes.iter().map(|c| u64::from(c.count) * u64::from(c.room.min(level))).sum()
        };
        // Every multiprocessor with room takes one block a level.
        let with_room: u64 = self.classes.iter().filter(|c| c.room > 0).map(|c| u64::from(c.count)).sum();
        let mut level = if wanted < with_room { 0 } else { (wanted / with_room) as u32 };
        while filled(level + 1) <= wanted {
            level += 1;
        }
        let mut rest = (wanted - filled(level)) as u32;
        // The emptiest multiprocessors take the rest. Among equals any order would do; this one depends on their state
        // alone, so that it is the same for any way of keeping them.
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        if rest > 0 {
            let classes = &self.classes;
            order.extend((0..classes.len()).filter(|&i| classes[i].room > level));
            if order.len() > 1 {
                order.sort_unstable_by(|&i, &j| {
                    let (a, b) = (&classes[i], &classes[j]);
                    (b.room, b.free).cmp(&(a.room, a.free)).then_with(|| a.groups.cmp(&b.groups))
                });
            }
        }
        let known = self.classes.len();
        for &i in &order {
            let class = &mut self.classes[i];
            if class.count <= rest {
                rest -= class.count;
                class.add(slot, need, 1, end);
                continue;
            }
            if rest > 0 {
                let mut other = class.clone();
                other.count = rest;
                class.count -= rest;
                other.add(slot, need, 1 + level, end);
                self.classes.push(other);
            }
            break;
        }
        if level > 0 {
            // A class that was split off has its share already.
            for class in self.classes[..known].iter_mut().filter(|c| c.room > 0) {
                class.add(slot, need, class.room.min(level), end);
            }
        }
        self.order = order;
        if self.classes.len() > MANY_CLASSES {
            self.merge();
        }
    }

    /// Joins classes in the same state, to be called when blocks have ended.
    pub fn join_equal(&mut self) {
        let mut j = self.classes.len();
        while j > 1 {
            j -= 1;
            let (before, rest) = self.classes.split_at_mut(j);
            let class = &rest[0];
            if let Some(equal) =
                before.iter_mut().find(|c| c.free == class.free && c.groups[..] == class.groups[..])
            {
                equal.count += class.count;
                self.classes.swap_remove(j);
            }
        }
    }

    /// Joins classes in nearly the same state and, while there are many, those that differ least in phase. Classes become
    /// more only by a partial placement, so this is called there and not at every event.
    fn merge(&mut self) {
        let mut i = 0;
        while i < self.classes.len() {
            let mut j = i + 1;
            while j < self.classes.len() {
                if distance(&self.classes[i], &self.classes[j]).is_some_and(|d| d <= NEAR) {
                    self.join(i, j);
                } else {
                    j += 1;
                }
            }
            i += 1;
        }
        while self.classes.len() > MANY_CLASSES && self.merge_nearest_phase() {}
    }

    /// Joins the two classes of equal composition whose blocks end closest to each other.
    fn merge_nearest_phase(&mut self) -> bool {
        let mut best: Option<(Ticks, usize, usize)> = None;
        for i in 0..self.classes.len() {
            for j in i + 1..self.classes.len() {
                let (a, b) = (&self.classes[i], &self.classes[j]);
                let Some(distance) = distance(a, b) else { continue };
                // What joining moves: a few multiprocessors by much are as good as many by little (Ward's criterion).
                let cost = distance * u64::from(a.count) * u64::from(b.count) / u64::from(a.count + b.count);
                if best.is_none_or(|(c, ..)| cost < c) {
                    best = Some((cost, i, j));
                }
            }
        }
        let Some((_, i, j)) = best else { return false };
        self.join(i, j);
        true
    }

    /// Joins class `j` to class `i` at the mean of their phases.
    fn join(&mut self, i: usize, j: usize) {
        let other = self.classes.swap_remove(j);
        let class = &mut self.classes[i];
        let (m, n) = (u64::from(class.count), u64::from(other.count));
        for (a, b) in class.groups.iter_mut().zip(&other.groups) {
            a.end = mean(a.end, m, b.end, n);
        }
        class.count += other.count;
    }
}

impl Class {
    /// Blocks of a kernel that fit now.
    fn room_for(&self, slot: u8, kernel: &Kernel) -> u32 {
        if !self.free.holds(&kernel.need) {
            return 0;
        }
        let left = kernel.most_per_sm.saturating_sub(self.blocks_of(slot));
        // As many as the kernel may have there fit more often than not: no division.
        if self.free.holds_all(&kernel.need, left) { left } else { self.free.fit(&kernel.need).min(left) }
    }

    /// A slot's blocks on each multiprocessor.
    pub fn blocks_of(&self, slot: u8) -> u32 {
        self.groups.iter().filter(|g| g.slot == slot).map(|g| u32::from(g.per_sm)).sum()
    }

    fn add(&mut self, slot: u8, need: &Resources, n: u32, end: Ticks) {
        self.free.take(need, n);
        let per_sm = n as u16;
        if let Some(group) = self.groups.iter_mut().find(|g| g.slot == slot && g.end == end) {
            group.per_sm += per_sm;
            return;
        }
        if self.groups.len() >= MANY_GROUPS {
            self.join_nearest_groups();
        }
        let at = self.groups.iter().position(|g| (g.slot, g.end) > (slot, end));
        self.groups.insert(at.unwrap_or(self.groups.len()), Group { slot, per_sm, end });
    }

    /// Makes one of the two groups of one kernel that end closest to each other, if a kernel has two.
    fn join_nearest_groups(&mut self) {
        let groups = &self.groups;
        let pairs = (1..groups.len()).filter(|&i| groups[i].slot == groups[i - 1].slot);
        let Some(i) = pairs.min_by_key(|&i| groups[i].end - groups[i - 1].end) else { return };
        let (a, b) = (groups[i - 1], groups[i]);
        let end = mean(a.end, u64::from(a.per_sm), b.end, u64::from(b.per_sm));
        self.groups[i - 1] = Group { slot: a.slot, per_sm: a.per_sm + b.per_sm, end };
        self.groups.remove(i);
    }
}

/// Distance in phase of two classes with the same blocks; `None` if their blocks differ.
fn distance(a: &Class, b: &Class) -> Option<Ticks> {
    let alike = |(x, y): (&Group, &Group)| x.slot == y.slot && x.per_sm == y.per_sm;
    if a.groups.len() != b.groups.len() || !a.groups.iter().zip(&b.groups).all(alike) {
        return None;
    }
    Some(a.groups.iter().zip(&b.groups).map(|(x, y)| x.end.abs_diff(y.end)).sum())
}

/// The mean of two times that weigh `m` and `n`.
fn mean(a: Ticks, m: u64, b: Ticks, n: u64) -> Ticks {
    let (low, high, weight) = if a < b { (a, b, n) } else { (b, a, m) };
    low + (high - low) * weight / (m + n)
}
