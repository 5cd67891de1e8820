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

/// Time since the start of the cell, or the duration of a block, in [`crate::prepared::TICKS_PER_NS`].
pub type Ticks = u64;

/// Blocks of one kernel on each multiprocessor of a class, which end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Whose kernel.
    pub slot: u8,
    /// Blocks on each multiprocessor.
    pub per_sm: u16,
    /// When they end, if nothing slows them down from now on.
    pub end: Ticks,
    /// What they take of each multiprocessor.
    pub taken: Resources,
}

/// Above this many groups on one multiprocessor, the two of one kernel that are nearest in phase are taken together.
const MANY_GROUPS: usize = 9;

/// Groups of one multiprocessor at most. A list of more than [`MANY_GROUPS`] has one group of each of its kernels, but
/// for the one that was placed last.
pub const GROUPS: usize = SLOTS + 1;

/// Multiprocessors in the same state.
#[derive(Clone, Debug)]
pub struct Class {
    /// How many.
    pub count: u32,
    /// Blocks to be placed now that fit on each.
    room: u32,
    /// What is left on each.
    pub free: Resources,
    /// When the first of the groups ends; [`Ticks::MAX`] without any.
    pub first: Ticks,
    /// When blocks that end make room for the kernel that waits for it. Kept by [`crate::pool`].
    pub room_at: Ticks,
    /// For which groups and which kernel that was found; 0 for none.
    pub found_for: u32,
    /// Blocks have ended since the waiting kernel last found no room here.
    pub freed: bool,
    /// No other class has the same blocks: it was looked for since they last changed.
    unlike: bool,
    /// The groups have changed since equal classes were last looked for.
    changed: bool,
    /// In order of slot and end, so that equal states compare equal.
    pub groups: ArrayVec<Group, GROUPS>,
}

/// Above this many classes, multiprocessors that differ only in the phase of their blocks are taken together. A long
/// kernel crossed by many short ones would otherwise end up with one class per multiprocessor.
const MANY_CLASSES: usize = 12;

/// The multiprocessors that one order of precedence rules over.
#[derive(Clone, Debug)]
pub struct Sms {
    /// The first `live` of them count; the others are kept so that classes come and go without being moved as a whole.
    classes: Vec<Class>,
    live: usize,
    whole: Resources,
    total: u32,
    gpcs: u32,
    /// Groups were taken together with others that end at another time.
    pub blurred: bool,
}

impl Sms {
    /// An empty device of `total` multiprocessors.
    pub fn new(total: u32, gpcs: u32, whole: Resources) -> Self {
        let empty = Class {
            count: total,
            room: 0,
            free: whole,
            first: Ticks::MAX,
            room_at: Ticks::MAX,
            found_for: 0,
            freed: true,
            unlike: false,
            changed: true,
            groups: ArrayVec::new(),
        };
        Sms { classes: vec![empty], live: 1, whole, total, gpcs, blurred: false }
    }

    /// The classes, in no particular order.
    pub fn classes(&self) -> &[Class] {
        &self.classes[..self.live]
    }

    /// The classes, to take ended blocks off them.
    pub fn classes_mut(&mut self) -> &mut [Class] {
        &mut self.classes[..self.live]
    }

    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.live = 1;
        let class = &mut self.classes[0];
        class.count = self.total;
        class.free = self.whole;
        class.groups.clear();
        class.freed = true;
        class.regroup();
    }

    /// Multiprocessors and GPCs.
    pub fn counts(&self) -> (u32, u32) {
        (self.total, self.gpcs)
    }

    /// Blocks of a kernel that an empty device holds.
    pub fn capacity(&self, kernel: &Kernel) -> u64 {
        kernel.capacity(self.total, self.gpcs)
    }

    /// Places up to `wanted` blocks that end at `end`, breadth first, on all multiprocessors or on those only where blocks
    /// have ended. Returns how many were placed, and how many there was room for.
    pub fn place(
        &mut self,
        slot: u8,
        kernel: &Kernel,
        wanted: u64,
        end: Ticks,
        anywhere: bool,
    ) -> (u64, u64) {
        if wanted == 0 {
            // Room was not looked for, so there may be some next time.
            return (0, 1);
        }
        let mut total = 0;
        // How many classes have room, and the last of them.
        let (mut with_room, mut last) = (0, 0);
        for (i, class) in self.classes[..self.live].iter_mut().enumerate() {
            class.room = 0;
            if (anywhere || class.freed) && class.free.holds(&kernel.need) {
                class.room = class.room_for(slot, kernel);
                total += u64::from(class.count) * u64::from(class.room);
                if class.room > 0 {
                    with_room += 1;
                    last = i;
                }
            }
            class.freed = false;
        }
        if total == 0 {
            return (0, 0);
        }
        let placed = wanted.min(clustered(total, kernel.cluster, self.gpcs));
        if placed == 0 {
            return (0, total);
        }
        if placed == total {
            // No class becomes more by this.
            for class in self.classes[..self.live].iter_mut().filter(|c| c.room > 0) {
                self.blurred |= class.add(slot, &kernel.need, class.room, end);
            }
            return (placed, total);
        }
        if with_room == 1 {
            self.place_on_one(last, slot, &kernel.need, placed as u32, end);
        } else {
            self.place_breadth_first(slot, &kernel.need, placed, end);
        }
        if self.live > MANY_CLASSES {
            self.merge();
        }
        (placed, total)
    }

    /// Fewer blocks than there is room for, and that on one class.
    fn place_on_one(&mut self, i: usize, slot: u8, need: &Resources, wanted: u32, end: Ticks) {
        let count = self.classes[i].count;
        let level = if wanted < count { 0 } else { wanted / count };
        let rest = wanted - level * count;
        if rest > 0 {
            let other = self.split(i, rest);
            self.blurred |= self.classes[other].add(slot, need, 1 + level, end);
        }
        if level > 0 {
            self.blurred |= self.classes[i].add(slot, need, level, end);
        }
    }

    /// Fewer blocks than there is room for: level by level, and the last level on a part of a class.
    fn place_breadth_first(&mut self, slot: u8, need: &Resources, wanted: u64, end: Ticks) {
        let known = self.live;
        let classes = &self.classes[..known];
        let filled = |level: u32| -> u64 {
            classes.iter().map(|c| u64::from(c.count) * u64::from(c.room.min(level))).sum()
        };
        let mut level = 0;
        while filled(level + 1) <= wanted {
            level += 1;
        }
        let mut rest = (wanted - filled(level)) as u32;
        while rest > 0 {
            // The emptiest multiprocessors take the rest. Among equals any order would do; this one depends on their
            // state alone, so that it is the same for any way of keeping them.
            let candidates = self.classes[..known].iter().enumerate().filter(|(_, c)| c.room > level);
            let first = candidates.min_by(|(_, a), (_, b)| {
                (b.room, b.free).cmp(&(a.room, a.free)).then_with(|| a.groups.cmp(&b.groups))
            });
            let i = first.expect("room for another round").0;
            let class = &mut self.classes[i];
            // Of what it has room for, the level is left.
            class.room = level;
            if class.count <= rest {
                rest -= class.count;
                self.blurred |= class.add(slot, need, 1, end);
            } else {
                let other = self.split(i, rest);
                self.blurred |= self.classes[other].add(slot, need, 1 + level, end);
                rest = 0;
            }
        }
        if level > 0 {
            // A class that was split off has its share already.
            for class in self.classes[..known].iter_mut().filter(|c| c.room > 0) {
                self.blurred |= class.add(slot, need, class.room.min(level), end);
            }
        }
    }

    /// Takes `count` multiprocessors out of class `i` as a class of their own; returns where that is.
    fn split(&mut self, i: usize, count: u32) -> usize {
        self.classes[i].count -= count;
        if self.live == self.classes.len() {
            self.classes.push(self.classes[i].clone());
        } else {
            let (before, rest) = self.classes.split_at_mut(self.live);
            rest[0].become_like(&before[i]);
        }
        self.classes[self.live].count = count;
        self.live += 1;
        self.live - 1
    }

    /// Class `j` is no more; the last one takes its place.
    fn remove(&mut self, j: usize) {
        self.live -= 1;
        if j < self.live {
            let (before, rest) = self.classes.split_at_mut(self.live);
            before[j].become_like(&rest[0]);
        }
    }

    /// For which of the first 64 classes something holds. Which ones cannot be predicted, so there is no branch for each.
    fn bits(&mut self, mut holds: impl FnMut(&mut Class) -> bool) -> u64 {
        let classes = self.classes_mut().iter_mut().take(u64::BITS as usize).enumerate();
        classes.fold(0, |bits, (i, class)| bits | u64::from(holds(class)) << i)
    }

    /// Joins classes that are in the same state by now. Of classes that have not changed it is known that they differ.
    pub fn join_equal(&mut self) {
        if self.live == 1 {
            return;
        }
        let mut left = self.bits(|class| std::mem::take(&mut class.changed));
        while left > 0 {
            let j = left.ilog2() as usize;
            left &= !(1 << j);
            let Class { first, free, .. } = self.classes[j];
            let mut alike = self.bits(|c| (c.first == first) & (c.free == free)) & !(1 << j);
            while alike > 0 {
                let i = alike.trailing_zeros() as usize;
                alike &= alike - 1;
                let (kept, other) = (i.min(j), i.max(j));
                if self.classes[kept].groups[..] == self.classes[other].groups[..] {
                    let Class { count, freed, .. } = self.classes[other];
                    self.classes[kept].count += count;
                    self.classes[kept].freed |= freed;
                    self.remove(other);
                    break;
                }
            }
        }
    }

    /// Joins classes that differ least in phase while there are many. Classes become more only by a partial placement, so
    /// this is called there and not at every event.
    fn merge(&mut self) {
        while self.live > MANY_CLASSES {
            if !self.merge_nearest_phase() {
                self.classes_mut().iter_mut().for_each(|c| c.unlike = true);
                return;
            }
        }
    }

    /// Joins the two classes of equal composition whose blocks end closest to each other.
    fn merge_nearest_phase(&mut self) -> bool {
        let mut best: Option<(Ticks, usize, usize)> = None;
        for i in 0..self.live {
            for j in i + 1..self.live {
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
        let (before, rest) = self.classes.split_at_mut(j);
        let (class, other) = (&mut before[i], &rest[0]);
        let (m, n) = (u64::from(class.count), u64::from(other.count));
        for (a, b) in class.groups.iter_mut().zip(&other.groups) {
            a.end = mean(a.end, m, b.end, n);
        }
        class.count += other.count;
        class.regroup();
        self.blurred = true;
        self.remove(j);
    }
}

impl Class {
    /// Blocks of a kernel that fit now, where there is room for one.
    fn room_for(&self, slot: u8, kernel: &Kernel) -> u32 {
        let left = kernel.most_per_sm.saturating_sub(self.blocks_of(slot));
        // As many as the kernel may have there fit more often than not: no division.
        if self.free.holds(&kernel.need.times(left)) { left } else { self.free.fit(&kernel.need).min(left) }
    }

    /// A slot's blocks on each multiprocessor.
    pub fn blocks_of(&self, slot: u8) -> u32 {
        let mut blocks = 0;
        for group in &self.groups {
            if group.slot > slot {
                break;
            }
            blocks += if group.slot == slot { u32::from(group.per_sm) } else { 0 };
        }
        blocks
    }

    /// A group ends at another time, which is later.
    pub fn put_off(&mut self, mut group: usize, end: Ticks) {
        self.groups[group].end = end;
        let after = |groups: &[Group], i: usize| {
            groups.get(i + 1).is_some_and(|next| next.slot == groups[i].slot && next.end < groups[i].end)
        };
        while after(&self.groups, group) {
            self.groups.swap(group, group + 1);
            group += 1;
        }
    }

    /// Takes the blocks of a group off.
    pub fn end(&mut self, group: usize) {
        self.free = self.free.with(&self.groups[group].taken);
        if group + 1 == self.groups.len() {
            self.groups.pop();
        } else {
            self.groups.remove(group);
        }
        self.freed = true;
    }

    /// The groups have changed.
    pub fn regroup(&mut self) {
        self.first = match &self.groups[..] {
            [] => Ticks::MAX,
            [one] => one.end,
            [one, two] => one.end.min(two.end),
            [one, rest @ ..] => rest.iter().fold(one.end, |first, g| first.min(g.end)),
        };
        (self.found_for, self.unlike, self.changed) = (0, false, true);
    }

    fn become_like(&mut self, other: &Class) {
        let Class { count, room, free, first, room_at, found_for, freed, unlike, changed, .. } = *other;
        self.groups.clear();
        self.groups.extend(other.groups.iter().copied());
        (self.count, self.room, self.free) = (count, room, free);
        (self.first, self.room_at, self.found_for) = (first, room_at, found_for);
        (self.freed, self.unlike, self.changed) = (freed, unlike, changed);
    }

    /// Adds `n` blocks that end at `end`; says whether groups had to be taken together.
    fn add(&mut self, slot: u8, need: &Resources, n: u32, end: Ticks) -> bool {
        (self.found_for, self.unlike, self.changed) = (0, false, true);
        let (per_sm, taken) = (n as u16, need.times(n));
        self.free = self.free.without(&taken);
        let mut at = self.groups.iter().position(|g| (g.slot, g.end) >= (slot, end));
        if let Some(group) = at.map(|i| &mut self.groups[i])
            && (group.slot, group.end) == (slot, end)
        {
            group.per_sm += per_sm;
            group.taken = group.taken.with(&taken);
            return false;
        }
        let blurred = self.groups.len() >= MANY_GROUPS && self.join_nearest_groups();
        if blurred {
            at = self.groups.iter().position(|g| (g.slot, g.end) >= (slot, end));
            self.regroup();
        }
        match at {
            Some(at) => self.groups.insert(at, Group { slot, per_sm, end, taken }),
            None => self.groups.push(Group { slot, per_sm, end, taken }),
        }
        self.first = self.first.min(end);
        blurred
    }

    /// Makes one of the two groups of one kernel that end closest to each other, if a kernel has two.
    fn join_nearest_groups(&mut self) -> bool {
        let groups = &self.groups;
        let pairs = (1..groups.len()).filter(|&i| groups[i].slot == groups[i - 1].slot);
        let Some(i) = pairs.min_by_key(|&i| groups[i].end - groups[i - 1].end) else { return false };
        let (a, b) = (groups[i - 1], groups[i]);
        let end = mean(a.end, u64::from(a.per_sm), b.end, u64::from(b.per_sm));
        let taken = a.taken.with(&b.taken);
        self.groups[i - 1] = Group { slot: a.slot, per_sm: a.per_sm + b.per_sm, end, taken };
        self.groups.remove(i);
        true
    }
}

/// Distance in phase of two classes with the same blocks; `None` if their blocks differ.
fn distance(a: &Class, b: &Class) -> Option<Ticks> {
    let alike = |(x, y): (&Group, &Group)| x.slot == y.slot && x.per_sm == y.per_sm;
    if (a.unlike && b.unlike)
        || a.free != b.free
        || a.groups.len() != b.groups.len()
        || !a.groups.iter().zip(&b.groups).all(alike)
    {
        return None;
    }
    Some(a.groups.iter().zip(&b.groups).map(|(x, y)| x.end.abs_diff(y.end)).sum())
}

/// The mean of two times that weigh `m` and `n`.
fn mean(a: Ticks, m: u64, b: Ticks, n: u64) -> Ticks {
    let (low, high, weight) = if a < b { (a, b, n) } else { (b, a, m) };
    low + (high - low) * weight / (m + n)
}
