//! Recursive common table expressions whose recursive term may read its rows anywhere and as often as it likes.
//!
//! ```text
//! RecursionExec ── static term      the first rows
//!               └─ recursive term   ── … ── WorkingRows   the rows of the round before
//! ```
//!
//! DataFusion's own operator hands the rows of a round to one reader. Here each round runs a copy of the recursive term in which every
//! [`WorkingRows`] holds them: nothing is shared between rounds, nor between two executions of one plan.
//!
//! DataFusion plans its `RecursiveQueryExec` over [`RecursionTable`]; [`OwnRecursion`] puts [`RecursionExec`] in its place. Which reader belongs to which
//! query is settled then, from the inside out: a reader belongs to the innermost query of its name around it.

mod exec;
mod table;

pub(crate) use exec::OwnRecursion;
pub(crate) use table::RecursionTable;
