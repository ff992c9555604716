//! JSON: its documents, SQL's values written as JSON, and JSON read as SQL's values.
//!
//! ```text
//! SQL value ──write──▶ JSON text ──document──▶ tree that borrows from the text ──read──▶ SQL value
//! ```
//!
//! Members of objects keep their order, and doubled ones stay; integers keep their digits, however many.

mod read;
mod write;

pub(crate) use crate::document::{Json, parse, quote};
pub(crate) use read::read;
pub(crate) use write::{Writer, texts, writer};
