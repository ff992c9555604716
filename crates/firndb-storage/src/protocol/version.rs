//! Status words, stamps, chains of versions, and who sees what.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering;

use super::atomics::{Atomics, Pointer, Word};
use super::epoch::Pin;

/// A point in the order of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

const TAG: usize = 3;
const COMMITTED: usize = 1;
const ABORTED: usize = 2;
/// In progress, and gives way to whoever needs it to.
const YIELDING: usize = 3;

/// What became of a transaction, or of one of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It may still commit or abort.
    InProgress,
    /// Committed.
    Committed(Timestamp),
    /// Restored in place, and marked in this epoch.
    Aborted(u64),
}

impl Outcome {
    fn encode(self) -> u64 {
        match self {
            Outcome::InProgress => 0,
            Outcome::Committed(time) => (time.0 << 2) | COMMITTED as u64,
            Outcome::Aborted(epoch) => (epoch << 2) | ABORTED as u64,
        }
    }

    fn decode(word: u64) -> Self {
        match word as usize & TAG {
            COMMITTED => Outcome::Committed(Timestamp(word >> 2)),
            ABORTED => Outcome::Aborted(word >> 2),
            _ => Outcome::InProgress,
        }
    }
}

/// The status word of a transaction: one store commits it, however many records refer to it.
///
/// It also counts the snapshots of the transaction that are held: while there are any, its records are not pruned between snapshots.
#[repr(align(8))]
pub struct Status<A: Atomics> {
    outcome: A::Word,
    snapshots: A::Word,
}

impl<A: Atomics> Status<A> {
    /// In progress.
    pub fn new() -> Self {
        Self {
            outcome: A::Word::new(0),
            snapshots: A::Word::new(0),
        }
    }
    /// In progress, and aborted by the first who [needs it to be](Self::preempt).
    pub fn yielding() -> Self {
        Self {
            outcome: A::Word::new(YIELDING as u64),
            snapshots: A::Word::new(0),
        }
    }
    /// Aborts a transaction that yields; `false` if it does not, or has ended. Unlike other aborts this comes before the rows are restored: see the protocol.
    pub fn preempt(&self) -> bool {
        self.settle(Outcome::Aborted(0))
    }
    /// Ends a transaction that yields, unless it was preempted.
    pub fn settle(&self, outcome: Outcome) -> bool {
        let (from, to) = (YIELDING as u64, outcome.encode());
        self.outcome
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
    fn is_yielding(&self) -> bool {
        self.outcome.load(Ordering::Acquire) == YIELDING as u64
    }
    /// Counts a snapshot of the transaction.
    pub fn hold(&self) {
        self.snapshots.fetch_add(1, Ordering::AcqRel);
    }
    /// Takes that back.
    pub fn release(&self) {
        self.snapshots.fetch_sub(1, Ordering::AcqRel);
    }
    /// What became of the transaction. Acquires what happened before it was set.
    #[inline]
    pub fn outcome(&self) -> Outcome {
        Outcome::decode(self.outcome.load(Ordering::Acquire))
    }
    /// Ends the transaction; before this, an abort has restored everything in place.
    pub fn set(&self, outcome: Outcome) {
        self.outcome.store(outcome.encode(), Ordering::Release);
    }
}

impl<A: Atomics> Default for Status<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// When something was written: the writing transaction's status word, or, once known, the outcome itself.
pub struct Stamp<A: Atomics>(A::Pointer<Status<A>>);

impl<A: Atomics> Stamp<A> {
    /// The stamp of a transaction. `status` has to outlive, by an epoch, every stamp that refers to it.
    pub fn of(status: &Status<A>) -> Self {
        Self(A::Pointer::new(ptr::from_ref(status).cast_mut()))
    }

    /// Replaces the reference by what became of the transaction (the collector), or marks this one record aborted.
    pub fn set(&self, outcome: Outcome) {
        let address = outcome.encode() as usize;
        self.0
            .store(ptr::without_provenance_mut(address), Ordering::Release);
    }

    /// What became of it.
    pub fn outcome(&self, pin: &Pin<'_, A>) -> Outcome {
        self.resolve(pin).1
    }

    /// Whether snapshots of its transaction are held.
    pub fn is_held(&self, pin: &Pin<'_, A>) -> bool {
        let (status, _) = self.resolve(pin);
        // SAFETY: as in `resolve`.
        unsafe { status.as_ref() }
            .is_some_and(|status| status.snapshots.load(Ordering::Acquire) > 0)
    }

    /// Whether it refers to this status word.
    pub fn is_of(&self, status: &Status<A>) -> bool {
        ptr::eq(self.0.load(Ordering::Acquire).cast_const(), status)
    }

    /// Whether its transaction is in progress and yields.
    pub fn is_yielding(&self, pin: &Pin<'_, A>) -> bool {
        let (status, _) = self.resolve(pin);
        // SAFETY: as in `resolve`.
        unsafe { status.as_ref() }.is_some_and(Status::is_yielding)
    }

    /// Aborts its transaction if that is in progress and yields.
    pub fn preempt(&self, pin: &Pin<'_, A>) -> bool {
        let (status, _) = self.resolve(pin);
        // SAFETY: as in `resolve`.
        unsafe { status.as_ref() }.is_some_and(Status::preempt)
    }

    /// The status word that it refers to (null once stamped), and the outcome.
    #[inline]
    fn resolve(&self, _pin: &Pin<'_, A>) -> (*const Status<A>, Outcome) {
        let status = self.0.load(Ordering::Acquire);
        if status.addr() & TAG != 0 {
            return (ptr::null(), Outcome::decode(status.addr() as u64));
        }
        // SAFETY: an untagged stamp is a reference to a status word, which is freed an epoch after the last stamp
        // that refers to it was replaced or unlinked; the caller is pinned.
        (status, unsafe { &*status }.outcome())
    }
}

/// What one statement sees: commits up to `start`, and its own transaction's earlier statements.
pub struct View<'a, A: Atomics> {
    /// The snapshot.
    pub start: Timestamp,
    /// Its own transaction.
    pub own: Option<&'a Status<A>>,
    /// Records of `own` are seen when an earlier statement wrote them.
    pub statement: u32,
}

impl<A: Atomics> View<'_, A> {
    fn is_own(&self, status: *const Status<A>, outcome: Outcome) -> bool {
        self.own.is_some_and(|own| {
            ptr::eq(own, status)
                || matches!(outcome, Outcome::Committed(time)
                    if time > self.start && own.outcome() == Outcome::Committed(time))
        })
    }

    /// Whether its own transaction wrote what has this stamp, and is still open.
    pub fn owns(&self, stamp: &Stamp<A>, pin: &Pin<'_, A>) -> bool {
        let (status, outcome) = stamp.resolve(pin);
        outcome == Outcome::InProgress && self.is_own(status, outcome)
    }

    /// Whether what `statement` of a transaction wrote is visible.
    #[inline]
    pub fn sees(&self, stamp: &Stamp<A>, statement: u32, pin: &Pin<'_, A>) -> bool {
        let (status, outcome) = stamp.resolve(pin);
        match outcome {
            Outcome::Committed(time) if time <= self.start => true,
            Outcome::Aborted(_) => false,
            outcome => self.is_own(status, outcome) && statement < self.statement,
        }
    }
}

/// The part of an undo record that the protocol knows.
#[repr(C, align(16))]
pub struct Link<A: Atomics> {
    next: A::Pointer<Link<A>>,
    /// When it was written.
    pub stamp: Stamp<A>,
    /// The statement of its transaction that wrote it.
    pub statement: u32,
}

impl<A: Atomics> Link<A> {
    /// A record that is in no chain yet.
    pub fn new(status: &Status<A>, statement: u32) -> Self {
        Self {
            next: A::Pointer::new(ptr::null_mut()),
            stamp: Stamp::of(status),
            statement,
        }
    }

    /// The next older record.
    #[inline]
    pub fn older<'g>(&self, _pin: &'g Pin<'_, A>) -> Option<Linked<'g, A>> {
        Linked::at(self.next.load(Ordering::Acquire))
    }
}

/// A record in a chain, for as long as a pin.
///
/// A pointer and not a reference: the record is larger than its link, and who knows its type may ask for the whole.
pub struct Linked<'g, A: Atomics> {
    link: *mut Link<A>,
    pinned: PhantomData<&'g Link<A>>,
}

impl<A: Atomics> Linked<'_, A> {
    /// Private: linked records are freed an epoch after they were unlinked, and the callers are pinned for the lifetime.
    #[inline]
    fn at(link: *mut Link<A>) -> Option<Self> {
        (!link.is_null()).then_some(Self {
            link,
            pinned: PhantomData,
        })
    }

    /// Where the record is.
    pub fn pointer(self) -> *mut Link<A> {
        self.link
    }
}

impl<A: Atomics> Clone for Linked<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Atomics> Copy for Linked<'_, A> {}

impl<A: Atomics> PartialEq for Linked<'_, A> {
    fn eq(&self, other: &Self) -> bool {
        ptr::eq(self.link, other.link)
    }
}

impl<A: Atomics> Deref for Linked<'_, A> {
    type Target = Link<A>;
    #[inline]
    fn deref(&self) -> &Link<A> {
        // SAFETY: not null, installed as `Head::install` demands, and not freed while the pin lasts.
        unsafe { &*self.link }
    }
}

const MARK: usize = 1;
const MOVES: usize = 6;
const MOVE: usize = 2;
const SEAL: usize = 8;
const HEAD_TAGS: usize = MARK | MOVES | SEAL;

/// The head of a row's chain: a pointer to the newest record, with tags in its four low bits.
///
/// ```text
///   bit 3: sealed, the array is being detached     bits 2..1: number of moves, modulo 4     bit 0: marked by a mover
/// ```
pub struct Head<A: Atomics>(A::Pointer<Link<A>>);

/// A state of a head, as seen by who wants to change it.
pub enum Observed<A: Atomics> {
    /// Open to a compare-and-swap from this value.
    Open(*mut Link<A>),
    /// Marked: a value is being moved, for microseconds.
    Marked,
    /// The array is being detached: attach again.
    Sealed,
}

fn untagged<A: Atomics>(link: *mut Link<A>) -> *mut Link<A> {
    link.map_addr(|address| address & !HEAD_TAGS)
}

impl<A: Atomics> Head<A> {
    /// An empty chain.
    pub fn new() -> Self {
        Self(A::Pointer::new(ptr::null_mut()))
    }

    /// The newest record.
    #[inline]
    pub fn newest<'g>(&self, _settled: &Settled, _pin: &'g Pin<'_, A>) -> Option<Linked<'g, A>> {
        Linked::at(untagged(self.0.load(Ordering::Acquire)))
    }

    /// Whether there is no record. Only a hint: for the collector and for assertions.
    pub fn is_empty(&self) -> bool {
        untagged(self.0.load(Ordering::Acquire)).is_null()
    }

    /// Its state, before changing it.
    #[inline]
    pub fn observe(&self) -> Observed<A> {
        let link = self.0.load(Ordering::Acquire);
        match link.addr() & (MARK | SEAL) {
            0 => Observed::Open(link),
            MARK => Observed::Marked,
            _ => Observed::Sealed,
        }
    }

    /// The newest record in an observed state.
    #[inline]
    pub fn observed<'g>(state: *mut Link<A>, _pin: &'g Pin<'_, A>) -> Option<Linked<'g, A>> {
        Linked::at(untagged(state))
    }

    /// Puts `link` before what was observed, unless the head has changed. After `true` the caller may store data.
    ///
    /// # Safety
    /// `link` is initialised, in no chain, aligned to 16, and stays until it has been unlinked and an epoch has passed.
    #[inline]
    pub unsafe fn install(&self, observed: *mut Link<A>, link: *mut Link<A>) -> bool {
        // SAFETY: given by the caller.
        unsafe { &*link }
            .next
            .store(untagged(observed), Ordering::Relaxed);
        let new = link.map_addr(|address| address | (observed.addr() & MOVES));
        let done = self
            .0
            .compare_exchange(observed, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        A::fence(Ordering::Release);
        done
    }

    /// Keeps writers away while a value is moved or an index entry is judged. The caller looked at the chain before, and
    /// unmarks soon.
    pub fn mark(&self, observed: *mut Link<A>) -> bool {
        let new = observed.map_addr(|address| address | MARK);
        self.0
            .compare_exchange(observed, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends a mark; with `moved`, writers that copied the old value have to copy it again.
    pub fn unmark(&self, observed: *mut Link<A>, moved: bool) {
        let new = observed.map_addr(|address| {
            let moves = address.wrapping_add(if moved { MOVE } else { 0 }) & MOVES;
            (address & !HEAD_TAGS) | moves
        });
        self.0.store(new, Ordering::Release);
    }

    /// Seals an empty, unmarked head; `false` if it is not.
    pub(super) fn seal(&self) -> bool {
        let link = self.0.load(Ordering::Relaxed);
        link.addr() & !MOVES == 0
            && self
                .0
                .compare_exchange(
                    link,
                    link.map_addr(|address| address | SEAL),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    /// Takes the seal away.
    pub(super) fn unseal(&self) {
        let link = self.0.load(Ordering::Relaxed);
        self.0
            .store(link.map_addr(|address| address & !SEAL), Ordering::Release);
    }
}

impl<A: Atomics> Default for Head<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// Proof that data was loaded before, and chains are loaded after.
pub struct Settled(());

/// Ends the loading of data: what is loaded from chains afterwards is not older than the data.
#[inline]
pub fn settle<A: Atomics>() -> Settled {
    A::fence(Ordering::Acquire);
    Settled(())
}

/// Calls `patch` on each record from `newest` on that `view` does not see, newest first.
#[inline]
pub fn walk<'g, A: Atomics>(
    newest: Option<Linked<'g, A>>,
    view: &View<'_, A>,
    pin: &'g Pin<'_, A>,
    mut patch: impl FnMut(Linked<'g, A>),
) {
    let mut at = newest;
    while let Some(link) = at {
        if view.sees(&link.stamp, link.statement, pin) {
            return;
        }
        patch(link);
        at = link.older(pin);
    }
}

/// Whether the transaction of `view` may write a row with this newest record: the first one that is not aborted is its own, or a
/// commit that it sees. First writer wins.
#[inline]
pub fn may_write<A: Atomics>(
    newest: Option<Linked<'_, A>>,
    view: &View<'_, A>,
    pin: &Pin<'_, A>,
) -> bool {
    let mut at = newest;
    while let Some(link) = at {
        let (status, outcome) = link.stamp.resolve(pin);
        match outcome {
            Outcome::Aborted(_) => at = link.older(pin),
            Outcome::Committed(time) => return time <= view.start,
            Outcome::InProgress => return view.is_own(status, outcome),
        }
    }
    true
}

/// Makes the chain lead past `link` to `rest`, which is `link`'s next older record (unlinking `link` alone) or nothing (unlinking `link` and
/// everything below). Only the collector calls this, one thread at a time, and on heads that it has not marked itself; a mark of
/// another thread is waited for, since unmarking writes the head back.
pub fn bypass<A: Atomics>(
    head: &Head<A>,
    link: Linked<'_, A>,
    rest: Option<Linked<'_, A>>,
    pin: &Pin<'_, A>,
) {
    let rest = rest.map_or(ptr::null_mut(), Linked::pointer);
    loop {
        let newest = head.0.load(Ordering::Acquire);
        if newest.addr() & MARK != 0 {
            A::pause();
            continue;
        }
        if ptr::eq(untagged(newest), link.pointer()) {
            let new = rest.map_addr(|address| address | (newest.addr() & HEAD_TAGS));
            if head
                .0
                .compare_exchange(newest, new, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            continue;
        }
        let mut at = Head::observed(newest, pin);
        while let Some(above) = at {
            let older = above.older(pin);
            if older == Some(link) {
                above.next.store(rest, Ordering::Release);
                return;
            }
            at = older;
        }
        return;
    }
}

/// Makes the chain lead from `above`, which is in it, to `rest`, which is further down. Only the collector calls this.
pub fn bypass_below<A: Atomics>(above: Linked<'_, A>, rest: Option<Linked<'_, A>>) {
    let rest = rest.map_or(ptr::null_mut(), Linked::pointer);
    above.next.store(rest, Ordering::Release);
}
