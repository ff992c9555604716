//! Statements on single rows, compiled once and run without a plan.
//!
//! ```text
//! text ─▶ cache ─▶ program ─▶ storage: index ─▶ slot ─▶ cells ─▶ row
//!            │        │
//!            └────────┴──▶ the general way, whenever anything is not certain
//! ```
//!
//! | statement | with |
//! | --- | --- |
//! | SELECT columns FROM table WHERE key | bare columns, `*` |
//! | UPDATE table SET column = value WHERE key | values, columns plus or minus values; RETURNING |
//! | DELETE FROM table WHERE key | RETURNING |
//! | INSERT INTO table VALUES (one row) | columns at constant defaults; RETURNING; ON CONFLICT DO NOTHING |
//!
//! A key is `column = value` for each column of one unique constraint and nothing else; a value is a parameter or a literal.
//!
//! Invariants:
//!
//! - A program never reports an error. Whatever it meets that is not plain (a value that has to be converted, a key that is taken, a sum that
//!   overflows, a conflict) makes it undo what it wrote and give up, and the statement takes the general way, which gives the
//!   result or the error. So errors need no second wording, and a program has to be right only where it succeeds.
//! - A program is of one catalog: it runs in a transaction (or at a moment) whose snapshot was taken before the catalog's version was
//!   found to be the program's. A commit that changes the catalog changes its version before what it commits can be seen.
//! - What rows look like is taken from the general way: a program that yields rows runs from the second time on.

mod cache;
mod compile;
mod program;
mod row;
mod value;

pub use cache::{Cache, Stamp};
pub use compile::{Names, compile, is_candidate};
pub use program::{Operation, Program};
pub use row::{Columns, Done, OneRow};
pub use value::{Datum, Kind};
