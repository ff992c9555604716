//! Functions of JSON, as DuckDB has them, and those of SQLite and PostgreSQL under their names.
//!
//! A document is text, of type JSON or not; one that is no JSON is an error (22P02), but for `json_valid`. What a path does not
//! lead to is NULL. A path with wildcards yields a list, and only as a constant, because it makes the call's type
//! (`parse::json` names another function for it).

mod edit;
mod entries;
mod path;
mod run;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringViewBuilder, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::kernel::over_arrays;
use super::kernel::undefined;
use crate::expr::convert::json::{Json, parse, texts};
use crate::expr::convert::{Conversion, Rule};
use crate::types::{EXTENSION_KEY, JSON_EXTENSION, flat, retyped};
use crate::{Error, SqlState};
use edit::Put;
use entries::Entries;
use run::{
    Paths, each, extract, merged, object, object_of_lists, of_texts, plain, put, removed, text,
    writers, written,
};

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// What a path leads to, as JSON or as text; all of it as a list.
    Extract,
    ExtractText,
    ExtractAll,
    ExtractTextAll,
    /// As text, if it is neither an object nor an array.
    Value,
    Exists,
    Length,
    Type,
    Keys,
    Valid,
    Compact,
    Pretty,
    Structure,
    Contains,
    Merge,
    Put(Put),
    Remove,
    Convert,
    Array,
    Object,
    /// An object of a list of names and one of values.
    ObjectOfLists,
    Entries {
        deep: bool,
    },
}

const FUNCTIONS: &[(&str, &[&str], Kind)] = &[
    ("json_extract", &["json_extract_path"], Kind::Extract),
    (
        "json_extract_string",
        &["json_extract_path_text"],
        Kind::ExtractText,
    ),
    (crate::parse::JSON_EXTRACT_ALL, &[], Kind::ExtractAll),
    (
        crate::parse::JSON_EXTRACT_TEXT_ALL,
        &[],
        Kind::ExtractTextAll,
    ),
    ("json_value", &[], Kind::Value),
    ("json_exists", &[], Kind::Exists),
    ("json_array_length", &["jsonb_array_length"], Kind::Length),
    ("json_type", &["json_typeof", "jsonb_typeof"], Kind::Type),
    ("json_keys", &[], Kind::Keys),
    ("json_valid", &[], Kind::Valid),
    ("json", &[], Kind::Compact),
    ("json_pretty", &["jsonb_pretty"], Kind::Pretty),
    ("json_structure", &["json_group_structure"], Kind::Structure),
    ("json_contains", &[], Kind::Contains),
    ("json_merge_patch", &["json_patch"], Kind::Merge),
    ("json_insert", &[], Kind::Put(Put::Insert)),
    ("json_replace", &[], Kind::Put(Put::Replace)),
    ("json_set", &[], Kind::Put(Put::Set)),
    ("json_remove", &[], Kind::Remove),
    (
        "to_json",
        &["to_jsonb", "json_quote", "array_to_json", "row_to_json"],
        Kind::Convert,
    ),
    (
        "json_array",
        &["json_build_array", "jsonb_build_array"],
        Kind::Array,
    ),
    (
        "json_object",
        &["json_build_object", "jsonb_build_object"],
        Kind::Object,
    ),
    (crate::parse::JSON_OBJECT_OF_LISTS, &[], Kind::ObjectOfLists),
    (crate::parse::JSON_EACH, &[], Kind::Entries { deep: false }),
    (crate::parse::JSON_TREE, &[], Kind::Entries { deep: true }),
];

/// The functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS
        .iter()
        .map(|(name, aliases, kind)| {
            Arc::new(ScalarUDF::new_from_impl(JsonFunction {
                name,
                aliases: aliases.iter().map(ToString::to_string).collect(),
                kind: *kind,
                signature: Signature::user_defined(Volatility::Immutable),
            }))
        })
        .collect()
}

/// A column of JSON.
fn json_field(name: &str) -> Field {
    let metadata = [(EXTENSION_KEY.to_string(), JSON_EXTENSION.to_string())];
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata.into())
}

#[derive(Debug)]
struct JsonFunction {
    name: &'static str,
    aliases: Vec<String>,
    kind: Kind,
    signature: Signature,
}

impl PartialEq for JsonFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for JsonFunction {}

impl Hash for JsonFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl JsonFunction {
    /// The least and the greatest number of arguments.
    fn arguments(&self) -> (usize, usize) {
        match self.kind {
            Kind::Extract | Kind::ExtractText | Kind::ExtractAll | Kind::ExtractTextAll => (2, 2),
            Kind::Value | Kind::Exists => (2, 2),
            Kind::Length | Kind::Type | Kind::Keys | Kind::Entries { .. } => (1, 2),
            Kind::Valid | Kind::Compact | Kind::Pretty | Kind::Structure | Kind::Convert => (1, 1),
            Kind::Contains | Kind::ObjectOfLists => (2, 2),
            Kind::Merge => (2, usize::MAX),
            Kind::Put(_) => (3, usize::MAX),
            Kind::Remove => (1, usize::MAX),
            Kind::Array | Kind::Object => (0, usize::MAX),
        }
    }

    /// Whether its paths lead to what it changes or lists, so that a number is none.
    fn writes(&self) -> bool {
        matches!(
            self.kind,
            Kind::Put(_) | Kind::Remove | Kind::Entries { .. }
        )
    }

    /// Whether a list of paths may stand for one.
    fn takes_paths(&self) -> bool {
        matches!(
            self.kind,
            Kind::Extract
                | Kind::ExtractText
                | Kind::ExtractAll
                | Kind::ExtractTextAll
                | Kind::Value
        )
    }

    /// Whether an argument is a document, a path, or any value.
    fn role(&self, place: usize) -> Role {
        match (self.kind, place) {
            (Kind::Convert | Kind::Array | Kind::Object | Kind::ObjectOfLists, _) => Role::Value,
            (Kind::Put(_), place) if place > 0 && place % 2 == 0 => Role::Value,
            (Kind::Contains | Kind::Merge, _) | (_, 0) => Role::Document,
            _ => Role::Path,
        }
    }
}

enum Role {
    Document,
    Path,
    Value,
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.arguments();
        if !(least..=most).contains(&types.len()) {
            return Err(undefined(self.name, types).into());
        }
        let pairs = match self.kind {
            Kind::Object => types.len().is_multiple_of(2),
            Kind::Put(_) => !types.len().is_multiple_of(2),
            _ => true,
        };
        if !pairs {
            return Err(Error::new(
                SqlState::InvalidParameterValue,
                format!("{} takes values in pairs", self.name),
            )
            .into());
        }
        let coerced = types.iter().enumerate().map(|(place, given)| {
            let text = given.is_string() || *given == DataType::Null;
            match self.role(place) {
                Role::Value => Some(given.clone()),
                Role::Document | Role::Path if text => Some(DataType::Utf8View),
                Role::Path if given.is_integer() && !self.writes() => Some(DataType::Int64),
                Role::Path if given.is_list() && self.takes_paths() => {
                    Some(DataType::new_list(DataType::Utf8View, true))
                }
                _ => None,
            }
        });
        coerced
            .collect::<Option<_>>()
            .ok_or_else(|| undefined(self.name, types).into())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        exec_err!("{} has a field", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = self.name;
        let field = match self.kind {
            Kind::Extract
            | Kind::ExtractText
            | Kind::ExtractAll
            | Kind::ExtractTextAll
            | Kind::Value => {
                let item = match self.kind {
                    Kind::Extract | Kind::ExtractAll => json_field(Field::LIST_FIELD_DEFAULT_NAME),
                    _ => Field::new_list_field(DataType::Utf8View, true),
                };
                let all = matches!(self.kind, Kind::ExtractAll | Kind::ExtractTextAll);
                match all || args.arg_fields[1].data_type().is_list() {
                    true => Field::new(name, DataType::List(Arc::new(item)), true),
                    false => item.with_name(name),
                }
            }
            Kind::Exists | Kind::Valid | Kind::Contains => {
                Field::new(name, DataType::Boolean, true)
            }
            Kind::Length => Field::new(name, DataType::UInt64, true),
            Kind::Type | Kind::Pretty => Field::new(name, DataType::Utf8View, true),
            Kind::Keys => {
                let list = DataType::new_list(DataType::Utf8View, true);
                Field::new(name, list, true)
            }
            Kind::Entries { .. } => {
                let list = DataType::new_list(DataType::Struct(entries::fields()), true);
                Field::new(name, list, true)
            }
            _ => json_field(name),
        };
        Ok(Arc::new(flat(&field)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        over_arrays(&args, |arrays, rows| {
            let result = self.run(arrays, &args.arg_fields, &args.return_field, rows)?;
            Ok(retyped(&result, args.return_field.data_type())?)
        })
    }
}

impl JsonFunction {
    fn run(
        &self,
        args: &[ArrayRef],
        fields: &[FieldRef],
        result: &Field,
        rows: usize,
    ) -> Result<ArrayRef> {
        match self.kind {
            Kind::Extract | Kind::ExtractAll => {
                extract(args, result, rows, |value| Some(value.to_text()))
            }
            Kind::ExtractText | Kind::ExtractTextAll => extract(args, result, rows, plain),
            Kind::Value => extract(args, result, rows, |value| match value {
                Json::Array(_) | Json::Object(_) => None,
                other => plain(other),
            }),
            Kind::Exists => {
                let mut paths = Paths::new(args.get(1));
                let found = (0..rows).map(|row| {
                    let (Some(text), Some(path)) = (text(&args[0], row), paths.at(row)?) else {
                        return Ok(None);
                    };
                    Ok(Some(path.first(&parse(text)?).is_some()))
                });
                Ok(Arc::new(found.collect::<Result<BooleanArray>>()?))
            }
            Kind::Length => {
                let lengths = each(args, rows, |value| match value {
                    Json::Array(items) => items.len() as u64,
                    _ => 0,
                })?;
                Ok(Arc::new(lengths.into_iter().collect::<UInt64Array>()))
            }
            Kind::Type => Ok(of_texts(each(args, rows, |value| {
                edit::type_of(value).to_owned()
            })?)),
            Kind::Keys => {
                let keys = each(args, rows, |value| match value {
                    Json::Object(members) => members
                        .iter()
                        .map(|(name, _)| name.to_string())
                        .collect::<Vec<_>>(),
                    _ => Vec::new(),
                })?;
                let mut builder = ListBuilder::new(StringViewBuilder::new());
                for keys in keys {
                    builder.append_option(keys.map(|keys| keys.into_iter().map(Some)));
                }
                Ok(Arc::new(builder.finish()))
            }
            Kind::Valid => {
                let valid =
                    (0..rows).map(|row| text(&args[0], row).map(|text| parse(text).is_ok()));
                Ok(Arc::new(valid.collect::<BooleanArray>()))
            }
            Kind::Compact => Ok(of_texts(each(args, rows, |value| value.to_text())?)),
            Kind::Pretty => Ok(of_texts(each(args, rows, |value| {
                let mut out = String::new();
                edit::pretty(value, 0, &mut out);
                out
            })?)),
            Kind::Structure => Ok(of_texts(each(args, rows, |value| {
                edit::structure(value).to_text()
            })?)),
            Kind::Contains => {
                let contained = (0..rows).map(|row| {
                    let (Some(document), Some(part)) = (text(&args[0], row), text(&args[1], row))
                    else {
                        return Ok(None);
                    };
                    Ok(Some(edit::contains(&parse(document)?, &parse(part)?)))
                });
                Ok(Arc::new(contained.collect::<Result<BooleanArray>>()?))
            }
            Kind::Merge => merged(args, rows),
            Kind::Put(how) => put(args, fields, rows, how),
            Kind::Remove => removed(args, rows),
            Kind::Convert => {
                let how = Conversion::new(Rule::Explicit);
                Ok(Arc::new(texts(&args[0], &fields[0], how)?))
            }
            Kind::Array => {
                let items = writers(args, fields)?;
                Ok(written(rows, |row, out| {
                    out.push('[');
                    for (place, item) in items.iter().enumerate() {
                        if place > 0 {
                            out.push(',');
                        }
                        item(out, row);
                    }
                    out.push(']');
                }))
            }
            Kind::Object => object(args, fields, rows),
            Kind::ObjectOfLists => object_of_lists(args, fields, rows),
            Kind::Entries { deep } => {
                let mut paths = Paths::new(args.get(1));
                let mut entries = Entries::new(deep);
                for row in 0..rows {
                    let from = match args.get(1) {
                        Some(paths) => text(paths, row).map(str::to_owned),
                        None => Some("$".to_owned()),
                    };
                    let (Some(document), Some(path), Some(from)) =
                        (text(&args[0], row), paths.at(row)?, from)
                    else {
                        entries.document(None, 0, "$");
                        continue;
                    };
                    let document = parse(document)?;
                    let value = path.first(&document);
                    let id = value.and_then(|value| entries::number_of(&document, value));
                    entries.document(value, id.unwrap_or(0), &from);
                }
                entries.finish()
            }
        }
    }
}
