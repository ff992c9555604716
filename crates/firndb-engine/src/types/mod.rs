//! SQL types and the Arrow fields they are stored as.
//!
//! ```text
//! SQL text ──declare──▶ stored field ──compute_field──▶ what operators see
//!                          ▲
//! field of a query, file or frame ──stored_field──┘
//! ```
//!
//! A *stored* field is what a table keeps: strings as `Utf8`, decimals of up to 18 digits as `Decimal64`. A *compute*
//! field is what expressions see: `Utf8View`, `BinaryView` and `Decimal128` (`firndb_storage::Form::Compute`). Values
//! inside lists, structs and maps stay as they are stored, so decimals there are `Decimal128` from the start: no
//! expression ever meets a `Decimal64`.
//!
//! What an Arrow type alone does not tell travels as field metadata: UUID and JSON as Arrow's canonical extension types,
//! the length of VARCHAR(n) and CHAR(n) and the labels of an enum under [`TYPE_KEY`] and [`LABELS_KEY`]. Stored and compute
//! fields are flat: what the fields within lists, structs and maps are is told by the column's own ([`members`]).

mod declare;
mod floats;
mod members;
mod name;
mod store;

pub use declare::{NamedType, TypeNames, column_field};
pub(crate) use floats::{canonical, has_floats, one_nan, one_nan_of};
pub(crate) use members::{flat, full, full_schema, has_members, retyped, same_members, says_uuid};
pub use name::sql_name;
use store::kept_metadata;
pub use store::{compute_field, stored_field};

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field};

/// Metadata key of a SQL type's name that Arrow has no type for: `VARCHAR(10)`, `CHAR(3)`, `TIMESTAMP(3)`, the name of an enum.
pub const TYPE_KEY: &str = "firndb:type";
/// Metadata key of an enum's labels, a JSON array of strings in the order declared.
pub const LABELS_KEY: &str = "firndb:labels";

pub(crate) const EXTENSION_KEY: &str = "ARROW:extension:name";
pub(crate) const UUID_EXTENSION: &str = "arrow.uuid";
pub(crate) const JSON_EXTENSION: &str = "arrow.json";

/// The zone of every TIMESTAMP WITH TIME ZONE: values are instants; a session's zone only matters for text.
pub(crate) const UTC: &str = "UTC";

/// What the metadata of a field says beyond its Arrow type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refinement {
    /// Nothing: the Arrow type is the SQL type.
    None,
    /// Text of at most so many characters; true for CHAR(n), whose trailing blanks do not count.
    Length(usize, bool),
    /// A timestamp or time of so many digits of a second, less than the six that are stored.
    Digits(u8),
    /// A 16-byte UUID.
    Uuid,
    /// Text that is valid JSON.
    Json,
    /// Text that is one of these labels.
    Enum(Vec<String>),
}

impl Refinement {
    /// Reads a field's metadata.
    pub(crate) fn of(field: &Field) -> Refinement {
        let metadata = field.metadata();
        if *field.data_type() == DataType::FixedSizeBinary(16) {
            return Refinement::Uuid;
        }
        if metadata.is_empty() {
            return Refinement::None;
        }
        let extension = metadata.get(EXTENSION_KEY).map(String::as_str);
        if extension == Some(JSON_EXTENSION) && field.data_type().is_string() {
            return Refinement::Json;
        }
        if let Some(labels) = metadata.get(LABELS_KEY) {
            return serde_json::from_str(labels)
                .map(Refinement::Enum)
                .unwrap_or(Refinement::None);
        }
        let Some(name) = metadata.get(TYPE_KEY) else {
            return Refinement::None;
        };
        if let Some(digits) = digits(name)
            && matches!(
                field.data_type(),
                DataType::Timestamp(_, _) | DataType::Time64(_)
            )
        {
            return Refinement::Digits(digits);
        }
        let (kind, blank_padded) = match name.split_once('(') {
            Some(("VARCHAR", length)) => (length, false),
            Some(("CHAR", length)) => (length, true),
            _ => return Refinement::None,
        };
        kind.trim_end_matches(')')
            .parse()
            .map(|length| Refinement::Length(length, blank_padded))
            .unwrap_or(Refinement::None)
    }
}

/// The digits of `TIMESTAMP(3)` and `TIME(3)`.
fn digits(name: &str) -> Option<u8> {
    let (kind, digits) = name.split_once('(')?;
    matches!(kind, "TIMESTAMP" | "TIME")
        .then(|| digits.trim_end_matches(')').parse().ok())
        .flatten()
}

/// A field's metadata as a comparison needs it: what is compared is not rounded.
pub(crate) fn comparable_metadata(field: &Field) -> HashMap<String, String> {
    let mut metadata = field.metadata().clone();
    if let Refinement::Digits(_) = Refinement::of(field) {
        metadata.remove(TYPE_KEY);
    }
    metadata
}
