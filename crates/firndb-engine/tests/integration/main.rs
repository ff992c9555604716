//! The engine's integration tests, in one program: each of several would compile DataFusion's generic code again.
// What `clippy.toml` allows in tests, for their helpers too: an unwrap that fails is the test that fails.
#![allow(clippy::unwrap_used)]

mod dml;
mod engine;
mod expr_duckdb;
mod expr_semantics;
mod files_copy;
mod files_read;
mod scan_frames;
mod scan_tables;
mod support;
