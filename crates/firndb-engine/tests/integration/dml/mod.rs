//! INSERT, UPDATE, DELETE, MERGE and RETURNING over real storage: the answers that are easy to get wrong.
#![allow(clippy::unwrap_used)]

mod conflict;
mod delete;
mod harness;
mod insert;
mod merge;
mod returning;
mod statement;
mod update;
