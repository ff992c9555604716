//! The memory protocol: how many threads change and read rows in place without locks.
//!
//! After *Mainlining Databases*, sections 3.1 and 3.3. Everything here is generic over its
//! [`Atomics`] and knows nothing outside this folder, so that loom checks the code that runs (`crates/firndb-storage/loom`). The data cells themselves belong to the block;
//! the protocol says in which order they and the chains are touched.
//!
//! ```text
//!   block                                     undo records of transactions
//!   row  cells  live   Versions
//!    0   ┌──┐   [1]    ┌──────┐
//!    1   │42│   [1]    │ head ┼──► Link(newest) ──► Link ──► Link(oldest)
//!    2   └──┘   [0]    └──────┘     │ stamp: the status word of its transaction, or what became of it
//!                                   └ before-image of the columns it changed
//! ```
//!
//! **Writer.** (1) Loads the head and asks [`may_write`]; (2) copies the before-image into its record;
//! (3) [`Head::install`]s it by compare-and-swap, which ends in a release fence; (4) stores the data, relaxed.
//!
//! **Reader.** (1) Loads data and liveness, relaxed; (2) [`settle`]s, an acquire fence; (3) loads the head and
//! [`walk`]s, patching value, validity and liveness from the before-images, up to the first record that its
//! [`View`] sees; (4) only then follows variable-length views into the heap.
//!
//! The types carry the order: no chain can be had without the [`Settled`] that [`settle`] gives, and nothing can be had
//! from the protocol's memory without a [`Pin`].
//!
//! # Why each race is safe
//!
//! *Dirty and torn data.* A reader that loads even one word that a writer stored synchronises with that writer through the
//! two fences, hence it sees the writer's record, or a later state of the chain. Words of bits are changed by
//! read-modify-write operations only, so the release sequence reaches through the bits of other rows. As long as the record
//! is not seen by the reader's view, the reader patches every column that the record changed, so whatever mixture of old and
//! new words it loaded is overwritten; a *later state* without the record exists only after unlinking, below.
//!
//! *Commit.* One store to the status word, before the timestamp is published. A view that starts at or
//! after the timestamp loaded the published clock after that store, so it sees the commit on every record and all data
//! before it; an older view compares timestamps and goes on patching. Nobody sees half a transaction.
//!
//! *Lost updates.* The before-image is copied before the compare-and-swap. If that succeeds, the head did not change in
//! between: a record cannot be freed and its address used again while the writer is pinned, a record of a commit that
//! the writer does not see cannot be unlinked while the writer's snapshot is registered, an aborted record not before the
//! writer's pin is gone, and a move (below) leaves its count in the head's tag. So nobody wrote the row meanwhile, and the image is the
//! row's last version.
//!
//! *Abort.* The row is restored in place first; the record is marked afterwards, by the status word or, for a partial rollback,
//! in its stamp, with the current epoch. A reader that copied dirty data before the restore was pinned before the mark and meets
//! the record: it is never visible, so the reader patches. A reader that copied restored data patches the same
//! values once more. The record is unlinked when every pin from before the mark is gone, of
//! several records of a row the newest first: its image is itself dirty, and hidden by the older record's; flipping a sign bit and unlinking at
//! once, as the paper has it, leaves the first reader with dirty data. Writers pass over marked records: what is in place below them is
//! the row's version, and they acquired it with the mark.
//!
//! *Yielding* ([`Status::yielding`]; compaction). Such a transaction deletes rows and writes them elsewhere, and whoever wants to write one of them
//! [`preempt`](Stamp::preempt)s it: one compare-and-swap, nobody waits. So here the mark comes before the rows are restored. Readers meet the record and patch,
//! whether what they copied was restored or not. A writer that finds an aborted deletion as the newest record knows that the row is there, whatever its liveness bit
//! says, and sets the bit himself after installing his own record. The transaction clears and restores a bit only under a mark of the head and only while its own
//! record is the newest, so it undoes nothing of who came after it. It unlinks its records, as ever, when the pins from before the end of restoring are gone. What it writes elsewhere nobody else may write, since nobody
//! sees it.
//!
//! *Unlinking.* A committed record that every registered snapshot sees, and all records below it, are patched by nobody. A
//! snapshot registered later starts at the published clock or after, so it sees them too. A reader on its way
//! through them is pinned; their memory is freed after the epoch.
//!
//! *Pruning between snapshots.* Of the records whose timestamps lie between two neighbouring registered snapshots, each reader passes
//! all or none, except a snapshot of the very transaction, whose records are left alone. So a record may go when the records below it in
//! the same group patch all of its columns: they would overwrite it anyway. Not the one right above an aborted record, though: it is where
//! readers stop who must not be patched by that.
//!
//! *The version array.* [`Versions::attach`] and [`Versions::detach`] come from compare-and-swap on the block's pointer. Detaching seals each
//! empty head first, so no record can go into an array that is leaving; a writer that meets a seal attaches anew. A reader
//! loads the pointer after it settled, so the argument of *dirty data* holds for the pointer as for the head: the writer stored it, or loaded it,
//! before its release fence.
//!
//! *Moving a value* (when a heap is rewritten). The mover marks the head ([`Head::mark`]) only when the newest record is not in progress, so
//! no writer is between its steps 3 and 4, and the mark keeps others from step 3. Only the word with buffer number and offset changes, so a
//! reader sees the old place or the new one, both holding the same bytes; the old buffer is freed after every pin from before
//! the last reference went. The count in the tag keeps a before-image copied across a move from being installed; it has two bits because one
//! row moves at most once between two epochs.
//!
//! *Freezing and thawing* change where a column is: see [`Place`].

mod array;
mod atomics;
mod epoch;
mod place;
mod version;

pub use array::{Detached, Heads, Versions};
pub use atomics::{Atomics, Pointer, Standard, Word};
pub use epoch::{Epochs, Pin};
pub use place::{Phase, Place};
pub use version::{
    Head, Link, Linked, Observed, Outcome, Settled, Stamp, Status, Timestamp, View, bypass,
    bypass_below, may_write, settle, walk,
};
