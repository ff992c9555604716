//! The engine through its sessions, by area.
#![allow(clippy::unwrap_used)]

mod cancellation;
mod ddl;
mod errors;
mod indexes;
mod misuse;
mod names;
mod nesting;
mod prepared;
mod queries;
mod settings;
mod single_rows;
mod support;
mod transactions;
mod views;
