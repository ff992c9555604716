//! `nextval`, `currval`, `lastval`, `setval`: functions that are made for one statement, whose catalog they look sequences up in.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use parking_lot::Mutex;

use crate::catalog::{CatalogState, SequenceEntry, TEMPORARY_SCHEMA, fold};
use crate::error::{Error, Result, SqlState};

/// What a session was given: by schema and name of the sequence, and at last.
#[derive(Debug, Default)]
pub(crate) struct GivenNumbers(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    of_sequence: HashMap<(String, String), i64>,
    last: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

/// One of the functions, over the sequences of a catalog.
struct SequenceFunction {
    kind: Kind,
    catalog: Arc<CatalogState>,
    path: Arc<[String]>,
    given: Arc<GivenNumbers>,
    signature: Signature,
}

/// The function of a name, if it is one of sequences.
pub(crate) fn sequence_function(
    name: &str,
    catalog: &Arc<CatalogState>,
    path: &Arc<[String]>,
    given: &Arc<GivenNumbers>,
) -> Option<Arc<ScalarUDF>> {
    let name_only = TypeSignature::Exact(vec![DataType::Utf8]);
    let (kind, arguments) = match name {
        "nextval" => (Kind::Next, name_only),
        "currval" => (Kind::Current, name_only),
        "lastval" => (Kind::Last, TypeSignature::Nullary),
        "setval" => (
            Kind::Set,
            TypeSignature::OneOf(vec![
                TypeSignature::Exact(vec![DataType::Utf8, DataType::Int64]),
                TypeSignature::Exact(vec![DataType::Utf8, DataType::Int64, DataType::Boolean]),
            ]),
        ),
        _ => return None,
    };
    Some(Arc::new(ScalarUDF::from(SequenceFunction {
        kind,
        catalog: Arc::clone(catalog),
        path: Arc::clone(path),
        given: Arc::clone(given),
        signature: Signature::new(arguments, Volatility::Volatile),
    })))
}

impl std::fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SequenceFunction").field(&self.kind).finish()
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.catalog, &other.catalog)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl SequenceFunction {
    fn find(&self, name: &str) -> Result<Arc<SequenceEntry>> {
        let parts = name_parts(name);
        let found = match parts.as_slice() {
            [name] => self.catalog.sequence(TEMPORARY_SCHEMA, name).or_else(|| {
                self.path
                    .iter()
                    .find_map(|schema| self.catalog.sequence(schema, name))
            }),
            [.., schema, name] => self.catalog.sequence(schema, name),
            [] => None,
        };
        found.ok_or_else(|| {
            Error::new(
                SqlState::UndefinedTable,
                format!("relation \"{name}\" does not exist"),
            )
        })
    }

    fn value(&self, name: Option<&str>, set: Option<(i64, bool)>) -> Result<Option<i64>> {
        if self.kind == Kind::Last {
            let last = self.given.0.lock().last;
            return last.map(Some).ok_or_else(|| {
                Error::new(
                    SqlState::ObjectNotInPrerequisiteState,
                    "lastval is not yet defined in this session",
                )
            });
        }
        let Some(name) = name else { return Ok(None) };
        let sequence = self.find(name)?;
        let key = (sequence.schema.clone(), sequence.name.clone());
        match (self.kind, set) {
            (Kind::Set, Some((value, given))) => {
                sequence.set(value, given)?;
                if given {
                    self.given.0.lock().of_sequence.insert(key, value);
                }
                Ok(Some(value))
            }
            (Kind::Set, None) => Ok(None),
            (Kind::Current, _) => {
                let given = self.given.0.lock().of_sequence.get(&key).copied();
                given.map(Some).ok_or_else(|| {
                    Error::new(
                        SqlState::ObjectNotInPrerequisiteState,
                        format!(
                            "currval of sequence \"{}\" is not yet defined in this session",
                            sequence.name
                        ),
                    )
                })
            }
            _ => {
                let value = sequence.next()?;
                let mut given = self.given.0.lock();
                given.of_sequence.insert(key, value);
                given.last = Some(value);
                Ok(Some(value))
            }
        }
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Next => "nextval",
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args
            .args
            .iter()
            .map(|argument| argument.to_array(rows))
            .collect::<PlanResult<Vec<ArrayRef>>>()?;
        let names = match arrays.first() {
            Some(names) => Some(cast(names, &DataType::Utf8)?),
            None => None,
        };
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let name = names.as_ref().and_then(|names| {
                let names = names.as_string::<i32>();
                names.is_valid(row).then(|| names.value(row))
            });
            let set = arrays.get(1).and_then(|numbers| {
                let numbers = numbers.as_primitive::<Int64Type>();
                let given = arrays.get(2).map(|given| given.as_boolean());
                let known = numbers.is_valid(row) && given.is_none_or(|given| given.is_valid(row));
                known.then(|| {
                    (
                        numbers.value(row),
                        given.is_none_or(|given| given.value(row)),
                    )
                })
            });
            values.push(self.value(name, set).map_err(Error::into_datafusion)?);
        }
        Ok(ColumnarValue::Array(Arc::new(Int64Array::from(values))))
    }
}

/// The parts of a name as SQL reads it: quoted ones as they are, others folded.
fn name_parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut quoted = false;
    let mut was_quoted = false;
    let mut characters = text.trim().chars().peekable();
    let finish = |part: &mut String, was_quoted: bool, parts: &mut Vec<String>| {
        let text = std::mem::take(part);
        parts.push(if was_quoted { text } else { fold(&text) });
    };
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                part.push('"');
            }
            '"' => {
                quoted = !quoted;
                was_quoted = true;
            }
            '.' if !quoted => {
                finish(&mut part, was_quoted, &mut parts);
                was_quoted = false;
            }
            other => part.push(other),
        }
    }
    finish(&mut part, was_quoted, &mut parts);
    parts
}
