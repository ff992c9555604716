//! Places: where a column of a block is, and how far it is on its way from hot to frozen.
//!
//! After *Mainlining Databases*, section 4.3. The paper keeps the state in a flag of the block and lets the freezer lock writers out while it works; here
//! **the state is in the pointer itself** that leads to the column, so that one compare-and-swap publishes and nobody ever waits:
//!
//! ```text
//!               cool                  freeze                  publish
//!     hot ─────────────► cooling ─────────────► freezing ─────────────► frozen
//!   (pointer)          (pointer + 1)          (pointer + 2)          (another pointer)
//!      ▲                    │                      │                      │
//!      └──────── warm ──────┴──────── warm ────────┘                      │
//!      └────────────────────────── thaw: replace ─────────────────────────┘
//! ```
//!
//! **Writer**, pinned: [`warm`](Place::warm)s the place and stores only to what that gave.
//!
//! **Freezer**: (1) [`cool`](Place::cool)s; (2) begins a new epoch and waits until it [has passed](super::Epochs::passed); (3) looks whether the block has
//! versions, and if it has none, [`freeze`](Place::freeze)s; (4) copies what is in place somewhere else; (5) [`publish`](Place::publish)es the copy;
//! (6) retires the hot column.
//!
//! # Why each race is safe
//!
//! *A writer that looked before (1).* It was pinned before (2), so it has ended before (3): its records are installed, hence counted, until no snapshot needs
//! them; the freezer finds them and gives up. If they are gone already, what is in place is what every snapshot sees. **This is what the epoch
//! wait is for**: a full block that compaction never touched has no versions of a compaction that would keep such a writer's in sight (the paper's argument).
//!
//! *A writer that looks after (1).* It takes the tag away before it stores, so (5) fails, whatever was copied. No tag comes back meanwhile: one thread at a time
//! freezes a relation. **This is what cooling is for**: without the tag, a writer that comes between the look at the versions and the publication
//! would store into memory that is about to be replaced.
//!
//! *A reader* loads the pointer once and reads what it leads to, pinned. Hot and frozen column hold the same values from (3) to (5), and no reader has to
//! patch them. Whoever loaded the hot column before (5) keeps it until its pin is gone, by (6).
//!
//! *A freezer that dies* between (1) and (5) leaves a tag that the next writer takes away, or the next freezer finds.

use std::sync::atomic::Ordering;

use super::atomics::{Atomics, Pointer};

const COOLING: usize = 1;
const FREEZING: usize = 2;
const TAGS: usize = 3;

/// How far a column is on its way from hot to frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not on the way: hot or frozen.
    Settled,
    /// Nobody may have begun to write it unseen.
    Cooling,
    /// It is being copied.
    Freezing,
}

/// A pointer to a column, with its phase.
pub struct Place<A: Atomics, T>(A::Pointer<T>);

impl<A: Atomics, T> Place<A, T> {
    const HAS_ROOM_FOR_TAGS: () = assert!(align_of::<T>() > TAGS);

    /// A settled place.
    pub fn new(value: *mut T) -> Self {
        const { Self::HAS_ROOM_FOR_TAGS };
        Self(A::Pointer::new(value))
    }

    fn tagged(value: *mut T, tag: usize) -> *mut T {
        value.map_addr(|address| (address & !TAGS) | tag)
    }

    /// What it leads to.
    #[inline]
    pub fn load(&self) -> *mut T {
        Self::tagged(self.0.load(Ordering::Acquire), 0)
    }

    /// Its phase.
    pub fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire).addr() & TAGS {
            0 => Phase::Settled,
            COOLING => Phase::Cooling,
            _ => Phase::Freezing,
        }
    }

    fn swap(&self, from: *mut T, to: *mut T) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The writer's entrance: what it leads to, and whoever was about to freeze it will not.
    #[inline]
    pub fn warm(&self) -> *mut T {
        loop {
            let value = self.0.load(Ordering::Acquire);
            if value.addr() & TAGS == 0 {
                return value;
            }
            let settled = Self::tagged(value, 0);
            if self.swap(value, settled) {
                return settled;
            }
        }
    }

    /// Announces to writers that `value` is to be frozen; `false` if it leads elsewhere.
    pub fn cool(&self, value: *mut T) -> bool {
        let found = self.0.load(Ordering::Acquire);
        Self::tagged(found, 0) == value && self.swap(found, Self::tagged(value, COOLING))
    }

    /// Goes on from cooling, unless a writer came.
    pub fn freeze(&self, value: *mut T) -> bool {
        self.swap(Self::tagged(value, COOLING), Self::tagged(value, FREEZING))
    }

    /// Whether no writer has come since.
    pub fn is_freezing(&self, value: *mut T) -> bool {
        self.0.load(Ordering::Acquire) == Self::tagged(value, FREEZING)
    }

    /// Puts the frozen copy in the place of `value`, unless a writer came. After `true` the caller retires `value`.
    pub fn publish(&self, value: *mut T, frozen: *mut T) -> bool {
        self.swap(Self::tagged(value, FREEZING), frozen)
    }

    /// Puts a thawed copy in the place of `value`, which is not on the way to frozen. After `true` the caller retires `value`.
    pub fn replace(&self, value: *mut T, thawed: *mut T) -> bool {
        self.swap(value, thawed)
    }
}
