//! What all tables of a database share.

use std::sync::{Arc, OnceLock};

use crate::Result;
use crate::clock::Clock;
use crate::durable::Durable;
use crate::memory::{Arena, Budget};
use crate::reclaim::Reclaimer;
use crate::undo::SegmentPool;

/// The clock, the epochs and the memory of one database.
#[derive(Debug)]
pub(crate) struct Resources {
    pub(crate) clock: Arc<Clock>,
    pub(crate) reclaimer: Arc<Reclaimer>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) segments: Arc<SegmentPool>,
    /// Threads that a bulk load may use.
    pub(crate) threads: usize,
    /// Where commits are logged, once they are: in memory they never are.
    pub(crate) durable: OnceLock<Arc<Durable>>,
}

impl Resources {
    pub(crate) fn new(memory_limit: Option<usize>, threads: usize) -> Result<Arc<Self>> {
        let budget = Budget::new(memory_limit);
        Ok(Arc::new(Self {
            clock: Clock::new(),
            reclaimer: Arc::new(Reclaimer::new()),
            arena: Arena::new(&budget)?,
            segments: SegmentPool::new(&budget),
            budget,
            threads: threads.max(1),
            durable: OnceLock::new(),
        }))
    }
}
