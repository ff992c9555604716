//! What happens to a row's chain after its records are written: restoring on abort, unlinking by the collector.
//!
//! Only the collector unlinks, one thread at a time; so each record is unlinked, and its values accounted for, once.
//! Which value of a chain is whose:
//!
//! - the value in place belongs to the row; it is released when the row is buried;
//! - the before-image of a committed update is released when that record is unlinked;
//! - the before-image of an aborted update is the value that was restored: the same one, not another.

use std::collections::HashSet;

use super::Relation;
use crate::block::hot::HotColumn;
use crate::block::{Block, place};
use crate::clock::{Horizon, Timestamp};
use crate::protocol::{
    self, Head, Heads, Linked, Observed, Outcome, Standard, Status, bypass, bypass_below, settle,
};
use crate::reclaim::Pin;
use crate::undo::{Change, Image, Own, UndoRecord};

type Link<'g> = Linked<'g, Standard>;

impl Relation {
    /// Restores in place what an own record changed. The caller marks it aborted afterwards.
    pub(crate) fn restore(&self, own: Own, record: &UndoRecord, pin: &Pin<'_>) {
        let Some((number, row)) = place(record.slot) else {
            return;
        };
        let Some(block) = self.block(number, pin) else {
            return;
        };
        match record.change {
            Change::Insert | Change::Refill => block.live.put(row, false),
            Change::Delete => block.live.put(row, true),
            Change::Update => {
                for (position, part) in record.parts().iter().enumerate() {
                    if let Some(column) = block.hot_column(part.column, pin) {
                        let dirty = column.load(row);
                        column.store(row, own.image().value(position, part));
                        column.release(dirty, pin);
                    }
                }
            }
        }
    }

    /// Restores the liveness that an own record changed, of a transaction that yields and was marked aborted. A row that it deleted is left to who has
    /// written it since.
    pub(crate) fn restore_yielded(&self, own: Own, record: &UndoRecord, pin: &Pin<'_>) {
        let found =
            place(record.slot).and_then(|(number, row)| Some((self.block(number, pin)?, row)));
        let Some((block, row)) = found else { return };
        if record.change != Change::Delete {
            block.live.put(row, false);
            return;
        }
        let restore = || block.live.put(row, true);
        while_newest(block, row, |newest| own.is(newest), restore, pin);
    }

    /// Clears the liveness of a row that a transaction deletes which yields; `false` if somebody preempted it and wrote the row since.
    pub(crate) fn clear_yielding(
        &self,
        block: &Block,
        row: usize,
        status: &Status<Standard>,
        pin: &Pin<'_>,
    ) -> bool {
        let clear = || block.live.put(row, false);
        while_newest(block, row, |newest| newest.stamp.is_of(status), clear, pin)
    }

    /// Unlinks an aborted record. Every operation from before its mark has ended.
    pub(crate) fn unlink_aborted(&self, own: Own, record: &UndoRecord, pin: &Pin<'_>) {
        self.with_chain(record, pin, |block, row, heads| {
            let found = chain(heads.head(row), pin).find(|&link| own.is(link));
            if let Some(link) = found {
                bypass(heads.head(row), link, link.older(pin), pin);
                self.account(block, row, link, pin);
            }
        });
    }

    /// Unlinks what no snapshot needs: the newest record that all see, and everything below. `record` is of a commit that all see.
    pub(crate) fn truncate(&self, record: &UndoRecord, oldest: Timestamp, pin: &Pin<'_>) {
        self.with_chain(record, pin, |block, row, heads| {
            let head = heads.head(row);
            let first = chain(head, pin).find(|link| {
                matches!(link.stamp.outcome(pin), Outcome::Committed(time) if time <= oldest)
            });
            let Some(first) = first else { return };
            bypass(head, first, None, pin);
            let mut at = Some(first);
            while let Some(link) = at {
                at = link.older(pin);
                self.account(block, row, link, pin);
            }
        });
    }

    /// Unlinks records between registered snapshots that other records make superfluous (see the protocol).
    pub(crate) fn prune(&self, record: &UndoRecord, horizon: &Horizon, pin: &Pin<'_>) {
        self.with_chain(record, pin, |block, row, heads| {
            let head = heads.head(row);
            let links: Vec<(Link<'_>, Outcome)> = chain(head, pin)
                .map(|link| (link, link.stamp.outcome(pin)))
                .collect();
            let removed = superfluous(&links, horizon, pin);
            if removed.is_empty() {
                return;
            }
            // One way down the chain: each record that stays leads to the next one that stays.
            let mut above: Option<Link<'_>> = None;
            let mut first_removed: Option<Link<'_>> = None;
            for &(link, _) in &links {
                if removed.contains(&link.pointer()) {
                    first_removed.get_or_insert(link);
                    continue;
                }
                if let Some(first) = first_removed.take() {
                    match above {
                        Some(above) => bypass_below(above, Some(link)),
                        None => bypass(head, first, Some(link), pin),
                    }
                }
                above = Some(link);
            }
            for &(link, _) in &links {
                if removed.contains(&link.pointer()) {
                    self.account(block, row, link, pin);
                }
            }
        });
    }

    fn with_chain<'g>(
        &self,
        record: &UndoRecord,
        pin: &'g Pin<'_>,
        act: impl FnOnce(&'g Block, usize, &'g Heads<Standard>),
    ) {
        if record.is_unlinked() {
            return;
        }
        let settled = settle::<Standard>();
        let found = place(record.slot).and_then(|(number, row)| {
            let block = self.block(number, pin)?;
            Some((block, row, block.versions.heads(&settled, pin)?))
        });
        match found {
            Some((block, row, heads)) => act(block, row, heads),
            // The block was removed, with all its chains.
            None => {
                record.set_unlinked();
            }
        }
    }

    /// Accounts for a record that was unlinked.
    fn account(&self, block: &Block, row: usize, link: Link<'_>, pin: &Pin<'_>) {
        let record = UndoRecord::of(link);
        if record.set_unlinked() {
            return;
        }
        let aborted = matches!(link.stamp.outcome(pin), Outcome::Aborted(_));
        match (record.change, aborted) {
            (Change::Insert, true) => {
                block.count_gone(1);
                self.bury(block, row, pin);
            }
            (Change::Refill, true) | (Change::Delete, false) => self.bury(block, row, pin),
            (Change::Refill, false) | (Change::Delete, true) => block.uncount_gone(1),
            (Change::Update, false) => {
                let image = Image::of(link);
                for (position, part) in record.parts().iter().enumerate() {
                    if let Some(column) = block.hot_column(part.column, pin) {
                        column.release(image.value(position, part), pin);
                    }
                }
            }
            (Change::Insert, false) | (Change::Update, true) => {}
        }
        block.versions.uncount(1);
    }

    /// Gives up a row that nobody sees, now or later.
    pub(crate) fn bury(&self, block: &Block, row: usize, pin: &Pin<'_>) {
        for column in self.columns.read().iter() {
            if let Some(hot) = block.hot_column(column.number, pin)
                && hot.heap().is_some()
            {
                let value = hot.load(row);
                // The place is given away: who moves values must not find the view here and release it once more. Its words stay: whoever is copying
                // them must not see half of a view.
                hot.invalidate(row);
                hot.release(value, pin);
            }
        }
        if block.bury(1) {
            self.remove_block(block.number);
        }
    }

    /// The variable-length columns of a block whose heaps may hold garbage.
    pub(crate) fn heap_columns<'g>(
        &self,
        block: &'g Block,
        pin: &'g Pin<'_>,
    ) -> Vec<&'g HotColumn> {
        self.columns()
            .iter()
            .filter_map(|column| block.hot_column(column.number, pin))
            .filter(|hot| hot.heap().is_some())
            .collect()
    }
}

/// Acts under a mark of the head if the row's newest record is the caller's; `false` if it is not.
fn while_newest(
    block: &Block,
    row: usize,
    is_own: impl Fn(Link<'_>) -> bool,
    act: impl FnOnce(),
    pin: &Pin<'_>,
) -> bool {
    let settled = settle::<Standard>();
    let Some(heads) = block.versions.heads(&settled, pin) else {
        return false;
    };
    let head = heads.head(row);
    loop {
        match head.observe() {
            Observed::Open(state) => {
                if !Head::observed(state, pin).is_some_and(&is_own) {
                    return false;
                }
                if head.mark(state) {
                    act();
                    head.unmark(state, false);
                    return true;
                }
            }
            Observed::Marked => std::thread::yield_now(),
            // Not while a record is linked.
            Observed::Sealed => return false,
        }
    }
}

/// The records of a chain, newest first, that others below them make superfluous. The oldest of a chain never is.
fn superfluous(
    links: &[(Link<'_>, Outcome)],
    horizon: &Horizon,
    pin: &Pin<'_>,
) -> HashSet<*mut protocol::Link<Standard>> {
    let mut removed = HashSet::new();
    // From the oldest to the newest; `covered` has the columns that the older records of the group patch.
    let mut covered: Vec<usize> = Vec::new();
    let mut group = None;
    let mut above_aborted = false;
    for &(link, outcome) in links.iter().rev() {
        let after_aborted =
            std::mem::replace(&mut above_aborted, matches!(outcome, Outcome::Aborted(_)));
        let Outcome::Committed(time) = outcome else {
            continue;
        };
        let record = UndoRecord::of(link);
        let (Some(shape), Change::Update) = (record.shape(), record.change) else {
            continue;
        };
        if time > horizon.published {
            continue;
        }
        let starts_below = horizon.starts.partition_point(|&start| start < time);
        if group != Some(starts_below) {
            group = Some(starts_below);
            covered.clear();
        }
        if shape.is_within(&covered) && !after_aborted && !link.stamp.is_held(pin) {
            removed.insert(link.pointer());
        } else {
            covered.extend(shape.parts().iter().map(|part| part.column));
        }
    }
    removed
}

/// The records of a row, newest first, marks notwithstanding.
pub(crate) fn chain<'g, 'e>(
    head: &Head<Standard>,
    pin: &'g Pin<'e>,
) -> impl Iterator<Item = Link<'g>> + use<'g, 'e> {
    let newest = head.newest(&settle::<Standard>(), pin);
    std::iter::successors(newest, move |link| link.older(pin))
}
