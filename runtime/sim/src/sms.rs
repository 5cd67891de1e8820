//! The multiprocessors, kept as classes of equals.
//!
//! Blocks are placed breadth first, so that most multiprocessors look alike at any time. A [`Class`] is a number of
//! multiprocessors with the same resident blocks; a [`Group`] is the blocks of one kernel that start and end together on
//! each of them.

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

/// Groups that one multiprocessor keeps apart; beyond that, the two nearest in phase are taken together. More than there are
/// clients, so that two of a full list are always of the same one; enough for the parts of a wave, which the first kernel
/// of a placing client keeps apart, beside the blocks of every other client.
pub const GROUPS: usize = crate::domain::SLOTS + 5;

/// Multiprocessors in the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// How many.
    pub count: u32,
    /// What is left on each.
    pub free: Resources,
    pub groups: ArrayVec<Group, GROUPS>,
}

/// Above this many classes, multiprocessors that differ only in the phase of their blocks are taken together. A long
/// kernel crossed by many short ones would otherwise end up with one class per multiprocessor.
const MANY_CLASSES: usize = 12;

/// Blocks that end within this time of each other end together: rounding keeps equal phases this far apart.
const NEAR: Ticks = crate::prepared::TICKS_PER_NS;

/// All multiprocessors of the device.
#[derive(Clone, Debug)]
pub struct Sms {
    pub classes: Vec<Class>,
    whole: Resources,
    total: u32,
    gpcs: u32,
    rooms: Vec<u32>,
    order: Vec<usize>,
}

impl Sms {
    /// An empty device of `total` multiprocessors.
    pub fn new(total: u32, gpcs: u32, whole: Resources) -> Self {
        let empty = Class { count: total, free: whole, groups: ArrayVec::new() };
        Sms { classes: vec![empty], whole, total, gpcs, rooms: Vec::new(), order: Vec::new() }
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.classes.truncate(1);
        let class = &mut self.classes[0];
        class.count = self.total;
        class.free = self.whole;
        class.groups.clear();
    }

    /// Blocks of the given need that fit now, at most `most` of this slot's on one multiprocessor.
    fn room(class: &Class, slot: u8, need: &Resources, most: u32) -> u32 {
        let fit = class.free.fit(need);
        if fit == 0 {
            return 0;
        }
        let have: u32 = class.groups.iter().filter(|g| g.slot == slot).map(|g| u32::from(g.per_sm)).sum();
        fit.min(most.saturating_sub(have))
    }

    /// Places up to `wanted` blocks that end at `end`, breadth first; returns how many found room.
    pub fn place(&mut self, slot: u8, kernel: &Kernel, wanted: u64, end: Ticks) -> u64 {
        let (need, most) = (&kernel.need, kernel.most_per_sm);
        if wanted == 0 {
            return 0;
        }
        let mut rooms = std::mem::take(&mut self.rooms);
        rooms.clear();
        let mut total = 0;
        for class in &self.classes {
            let room = Self::room(class, slot, need, most);
            total += u64::from(class.count) * u64::from(room);
            rooms.push(room);
        }
        let placed = wanted.min(clustered(total, kernel.cluster, self.gpcs));
        if placed == 0 {
            self.rooms = rooms;
            return 0;
        }
        if placed == total {
            for (class, &n) in self.classes.iter_mut().zip(&rooms) {
                add(class, slot, need, n, end);
            }
        } else {
            self.place_breadth_first(slot, need, &rooms, placed, end);
        }
        self.rooms = rooms;
        placed
    }

    /// Fewer blocks than there is room for: level by level, and the last level on a part of a class.
    fn place_breadth_first(&mut self, slot: u8, need: &Resources, rooms: &[u32], wanted: u64, end: Ticks) {
        let filled = |level: u32| -> u64 {
            let each = |(c, &r): (&Class, &u32)| u64::from(c.count) * u64::from(r.min(level));
            self.classes.iter().zip(rooms).map(each).sum()
        };
        let mut level = 0;
        while filled(level + 1) <= wanted {
            level += 1;
        }
        let mut rest = (wanted - filled(level)) as u32;
        // The emptiest multiprocessors take the rest. Among equals any order would do; this one depends on their state
        // alone, so that it is the same for any way of keeping them.
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        if rest > 0 {
            order.extend((0..rooms.len()).filter(|&i| rooms[i] > level));
            order.sort_unstable_by(|&i, &j| {
                let (a, b) = (&self.classes[i], &self.classes[j]);
                rooms[j]
                    .cmp(&rooms[i])
                    .then_with(|| b.free.cmp(&a.free))
                    .then_with(|| a.groups.cmp(&b.groups))
            });
        }
        for &i in &order {
            let class = &mut self.classes[i];
            if class.count <= rest {
                rest -= class.count;
                add(class, slot, need, 1, end);
                continue;
            }
            if rest > 0 {
                let mut other = class.clone();
                other.count = rest;
                class.count -= rest;
                add(&mut other, slot, need, 1 + level, end);
                self.classes.push(other);
            }
            break;
        }
        if level > 0 {
            // A class that was split off has its share already; it stands behind those that `rooms` knows.
            for (class, &room) in self.classes.iter_mut().zip(rooms) {
                add(class, slot, need, room.min(level), end);
            }
        }
        self.order = order;
        if self.classes.len() > MANY_CLASSES {
            self.merge();
        }
    }

    /// Joins classes in the same state and, while there are many, those that differ least in phase. Classes become more
    /// only by a partial placement, so this is called there and not at every event.
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
            let (low, high) = (a.end.min(b.end), a.end.max(b.end));
            let weight = if a.end < b.end { n } else { m };
            a.end = low + (high - low) * weight / (m + n);
        }
        class.count += other.count;
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

fn add(class: &mut Class, slot: u8, need: &Resources, n: u32, end: Ticks) {
    if n == 0 {
        return;
    }
    class.free.take(need, n);
    let per_sm = n as u16;
    if let Some(group) = class.groups.iter_mut().find(|g| g.slot == slot && g.end == end) {
        group.per_sm += per_sm;
        return;
    }
    if class.groups.is_full() {
        join_nearest_groups(class);
    }
    // Kept in order of slot and end, so that equal states compare equal.
    let at = class.groups.iter().position(|g| (g.slot, g.end) > (slot, end));
    class.groups.insert(at.unwrap_or(class.groups.len()), Group { slot, per_sm, end });
}

/// Makes room for another group: the two of one kernel that end closest to each other become one.
fn join_nearest_groups(class: &mut Class) {
    let groups = &class.groups;
    let pairs = (1..groups.len()).filter(|&i| groups[i].slot == groups[i - 1].slot);
    let nearest = pairs.min_by_key(|&i| groups[i].end - groups[i - 1].end);
    let i = nearest.expect("more groups than clients, in order of the clients");
    let (a, b) = (groups[i - 1], groups[i]);
    let (m, n) = (u64::from(a.per_sm), u64::from(b.per_sm));
    class.groups[i - 1].end = a.end + (b.end - a.end) * n / (m + n);
    class.groups[i - 1].per_sm += b.per_sm;
    class.groups.remove(i);
}
