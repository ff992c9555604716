//! Selection: which rows of a group of blocks move where, so that as few blocks as possible hold them.
//!
//! After *Mainlining Databases*, section 4.3: with t tuples and s slots a block, the floor(t/s) fullest blocks are filled (F), one more keeps
//! t mod s tuples at its front (p), the rest give theirs. Every gap in F costs one move, and so does every gap in the front of p. F has the fewest gaps that
//! so many blocks can have; with it given, p is the best that there is. A choice of F and p together can save at most t mod s moves more.
//!
//! Blocks of other sizes (the first ones of a table, and the last before a bulk load) take part with the slots that they have.

use crate::block::slot;
use crate::slot::Slot;

/// A block of a group: its slots, and which of them hold tuples.
#[derive(Debug, Clone)]
pub(super) struct Occupancy {
    pub(super) number: u32,
    pub(super) slots: usize,
    pub(super) live: Vec<u64>,
}

impl Occupancy {
    fn is_live(&self, row: usize) -> bool {
        self.live[row / 64] >> (row % 64) & 1 != 0
    }

    pub(super) fn tuples(&self) -> usize {
        self.live
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether a tuple lies behind a gap.
    pub(super) fn has_inner_gaps(&self) -> bool {
        let tuples = self.tuples();
        self.tuples_in_front(tuples) < tuples
    }

    fn tuples_in_front(&self, rows: usize) -> usize {
        let whole: usize = self.live[..rows / 64]
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum();
        let rest = rows % 64;
        if rest == 0 {
            return whole;
        }
        whole + (self.live[rows / 64] & ((1 << rest) - 1)).count_ones() as usize
    }

    /// Slots of `rows` with, or without, a tuple.
    fn slots_of(
        &self,
        rows: std::ops::Range<usize>,
        live: bool,
    ) -> impl Iterator<Item = Slot> + '_ {
        rows.filter(move |&row| self.is_live(row) == live)
            .map(|row| slot(self.number, row))
    }
}

/// What to do with a group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// From where to where, each ascending.
    pub(super) moves: Vec<(Slot, Slot)>,
    /// Blocks that give all their tuples.
    pub(super) emptied: Vec<u32>,
    /// The block that is filled in part.
    pub(super) partial: Option<u32>,
}

/// Plans the moves of a group.
pub(super) fn select(group: &[Occupancy]) -> Plan {
    let mut fullest: Vec<&Occupancy> = group.iter().collect();
    fullest.sort_by_key(|block| (block.slots - block.tuples(), block.number));
    let mut left: usize = group.iter().map(Occupancy::tuples).sum();
    let mut filled = Vec::new();
    let mut rest = Vec::new();
    for block in fullest {
        if rest.is_empty() && block.slots <= left {
            left -= block.slots;
            filled.push(block);
        } else {
            rest.push(block);
        }
    }
    let mut plan = Plan::default();
    let mut gaps: Vec<Slot> = Vec::new();
    let mut sources: Vec<Slot> = Vec::new();
    for block in &filled {
        gaps.extend(block.slots_of(0..block.slots, false));
    }
    if left > 0 {
        let roomy = (0..rest.len()).filter(|&at| rest[at].slots >= left);
        let Some(best) = roomy.max_by_key(|&at| {
            (
                rest[at].tuples_in_front(left),
                std::cmp::Reverse(rest[at].number),
            )
        }) else {
            return Plan::default();
        };
        let partial = rest.swap_remove(best);
        gaps.extend(partial.slots_of(0..left, false));
        sources.extend(partial.slots_of(left..partial.slots, true));
        plan.partial = Some(partial.number);
    }
    for block in rest {
        sources.extend(block.slots_of(0..block.slots, true));
        plan.emptied.push(block.number);
    }
    gaps.sort_unstable();
    sources.sort_unstable();
    plan.emptied.sort_unstable();
    debug_assert_eq!(
        gaps.len(),
        sources.len(),
        "as many gaps as tuples that move"
    );
    plan.moves = sources.into_iter().zip(gaps).collect();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::place;
    use std::collections::BTreeSet;

    fn block(number: u32, slots: usize, live: impl Fn(usize) -> bool) -> Occupancy {
        let mut words = vec![0_u64; slots.div_ceil(64)];
        for row in (0..slots).filter(|&row| live(row)) {
            words[row / 64] |= 1 << (row % 64);
        }
        Occupancy {
            number,
            slots,
            live: words,
        }
    }

    /// The fewest moves over every choice of blocks to fill and to fill in part.
    fn optimum(group: &[Occupancy], slots: usize) -> usize {
        let tuples: usize = group.iter().map(Occupancy::tuples).sum();
        let (full, left) = (tuples / slots, tuples % slots);
        let mut best = usize::MAX;
        for chosen in 0_u32..1 << group.len() {
            if chosen.count_ones() as usize != full {
                continue;
            }
            let is_chosen = |at: usize| chosen >> at & 1 != 0;
            let gaps: usize = (0..group.len())
                .filter(|&at| is_chosen(at))
                .map(|at| slots - group[at].tuples())
                .sum();
            if left == 0 {
                best = best.min(gaps);
                continue;
            }
            for at in (0..group.len()).filter(|&at| !is_chosen(at)) {
                best = best.min(gaps + left - group[at].tuples_in_front(left));
            }
        }
        best
    }

    fn check(group: &[Occupancy]) -> Plan {
        let plan = select(group);
        let mut live: BTreeSet<Slot> = group
            .iter()
            .flat_map(|block| block.slots_of(0..block.slots, true))
            .collect();
        let tuples = live.len();
        for &(from, to) in &plan.moves {
            assert!(live.remove(&from), "{from:?} holds no tuple");
            assert!(live.insert(to), "{to:?} is no gap");
        }
        assert_eq!(live.len(), tuples);
        for block in group {
            let rows: Vec<usize> = live
                .iter()
                .filter_map(|&slot| place(slot))
                .filter(|&(number, _)| number == block.number)
                .map(|(_, row)| row)
                .collect();
            if plan.emptied.contains(&block.number) {
                assert!(rows.is_empty());
            } else if plan.partial == Some(block.number) {
                assert_eq!(rows, (0..rows.len()).collect::<Vec<_>>());
            } else {
                assert_eq!(rows.len(), block.slots);
            }
        }
        plan
    }

    #[test]
    fn the_fullest_are_filled_and_the_emptiest_give() {
        let group = [
            block(0, 8, |row| row > 5),
            block(1, 8, |row| row != 3),
            block(2, 8, |row| row % 2 == 0),
            block(3, 8, |row| row < 7),
        ];
        let plan = check(&group);
        // 20 tuples: two full blocks, four in a third.
        assert_eq!(plan.emptied, [0]);
        assert_eq!(plan.partial, Some(2));
        assert_eq!(plan.moves.len(), 2 + 2);
    }

    #[test]
    fn a_full_group_does_not_move() {
        let group = [block(0, 8, |_| true), block(1, 8, |_| true)];
        assert_eq!(check(&group), Plan::default());
    }

    #[test]
    fn tuples_that_lie_at_the_front_stay() {
        let plan = check(&[block(4, 100, |row| row < 40)]);
        assert!(plan.moves.is_empty() && plan.emptied.is_empty());
    }

    #[test]
    fn gaps_in_one_block_are_filled_from_its_end() {
        let plan = check(&[block(4, 100, |row| row != 10)]);
        assert_eq!(plan.moves, [(slot(4, 99), slot(4, 10))]);
    }

    #[test]
    fn an_empty_group_is_emptied() {
        let plan = check(&[block(0, 8, |_| false), block(1, 8, |_| false)]);
        assert_eq!(plan.emptied, [0, 1]);
    }

    #[test]
    fn moves_are_within_one_block_of_the_optimum() {
        let mut seed = 88172645463325252_u64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 11) as usize % below
        };
        for _ in 0..2000 {
            let slots = 1 + random(70);
            let count = 1 + random(7);
            let group: Vec<Occupancy> = (0..count as u32)
                .map(|number| {
                    let share = random(101);
                    let bits: Vec<bool> = (0..slots).map(|_| random(100) < share).collect();
                    block(number, slots, |row| bits[row])
                })
                .collect();
            let plan = check(&group);
            let tuples: usize = group.iter().map(Occupancy::tuples).sum();
            let best = optimum(&group, slots);
            assert!(plan.moves.len() <= best + tuples % slots);
        }
    }

    #[test]
    fn blocks_of_other_sizes_take_part() {
        let group = [
            block(0, 256, |row| row % 3 == 0),
            block(1, 512, |row| row % 5 == 0),
            block(2, 1024, |row| row % 2 == 0),
            block(3, 1024, |row| row % 9 == 0),
        ];
        let plan = check(&group);
        assert!(!plan.emptied.is_empty());
    }
}
