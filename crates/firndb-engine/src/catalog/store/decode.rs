//! Objects from their JSON texts.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::FieldRef;
use arrow::ipc::reader::StreamReader;
use datafusion::sql::sqlparser::ast;
use firndb_storage::{Storage, Table};
use serde_json::Value;

use super::sql;
use crate::catalog::settings;
use crate::catalog::state::CatalogState;
use crate::catalog::{
    Column, Constraint, ForeignKey, Identity, IndexEntry, IndexKey, IndexPart, MacroBody,
    MacroEntry, ReferenceAction, Referrer, Relation, SchemaEntry, SequenceEntry, SequenceOptions,
    TableEntry, TableSettings, TypeEntry, ViewEntry,
};
use crate::error::{Error, Result, SqlState};
use crate::types::{NamedType, flat};

pub(super) fn malformed() -> Error {
    Error::new(
        SqlState::DataCorrupted,
        "the catalog in the database file is malformed",
    )
}

/// The catalog that these objects are, over these tables.
pub fn restore(
    objects: &BTreeMap<String, Vec<u8>>,
    tables: &BTreeMap<u64, Table>,
    storage: &Arc<Storage>,
) -> Result<CatalogState> {
    let mut schemas: BTreeMap<String, SchemaEntry> = CatalogState::default()
        .schemas
        .iter()
        .map(|(key, schema)| (key.clone(), schema.as_ref().clone()))
        .collect();
    let mut values = Vec::new();
    for (key, text) in objects {
        let key: Vec<String> = serde_json::from_str(key).map_err(|_| malformed())?;
        let value: Value = serde_json::from_slice(text).map_err(|_| malformed())?;
        values.push((key, value));
    }
    let numbers: BTreeMap<&str, &Value> = values
        .iter()
        .filter_map(|(key, value)| match key.as_slice() {
            [kind, id] if kind == "number" => Some((id.as_str(), value)),
            _ => None,
        })
        .collect();
    for (key, value) in &values {
        if let [kind, schema] = key.as_slice()
            && kind == "schema"
        {
            let name = string(value, "name")?;
            let entry = schemas.entry(schema.clone()).or_default();
            entry.name = name;
        }
    }
    for (key, value) in &values {
        let [kind, schema, name] = key.as_slice() else {
            continue;
        };
        let schema = schemas.get_mut(schema).ok_or_else(malformed)?;
        match kind.as_str() {
            "relation" => {
                let relations = array(value)?
                    .iter()
                    .map(|one| relation(one, &schema.name, tables))
                    .collect::<Result<Vec<_>>>()?;
                schema.relations.insert(name.clone(), relations);
            }
            "type" => {
                let definition = match value.get("type") {
                    Some(data_type) => NamedType::Alias(sql::read_data_type(data_type)?),
                    None => NamedType::Enum(strings(get(value, "labels")?)?),
                };
                let entry = TypeEntry {
                    name: string(value, "name")?,
                    definition,
                };
                schema.types.insert(name.clone(), Arc::new(entry));
            }
            "macro" => {
                schema
                    .macros
                    .insert(name.clone(), Arc::new(a_macro(value)?));
            }
            "sequence" => {
                let entry = sequence(value, &schema.name, &numbers, storage)?;
                schema.sequences.insert(name.clone(), Arc::new(entry));
            }
            _ => return Err(malformed()),
        }
    }
    Ok(CatalogState {
        schemas: Arc::new(
            schemas
                .into_iter()
                .map(|(key, schema)| (key, Arc::new(schema)))
                .collect(),
        ),
        ..CatalogState::default()
    })
}

fn get<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    value.get(name).ok_or_else(malformed)
}

fn array(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().ok_or_else(malformed)
}

fn string(value: &Value, name: &str) -> Result<String> {
    get(value, name)?
        .as_str()
        .map(str::to_owned)
        .ok_or_else(malformed)
}

fn optional_string(value: &Value, name: &str) -> Result<Option<String>> {
    match get(value, name)? {
        Value::Null => Ok(None),
        other => other
            .as_str()
            .map(|text| Some(text.to_owned()))
            .ok_or_else(malformed),
    }
}

fn flag(value: &Value, name: &str) -> Result<bool> {
    get(value, name)?.as_bool().ok_or_else(malformed)
}

fn integer(value: &Value, name: &str) -> Result<i64> {
    get(value, name)?.as_i64().ok_or_else(malformed)
}

fn strings(value: &Value) -> Result<Vec<String>> {
    all(value, |one| {
        one.as_str().map(str::to_owned).ok_or_else(malformed)
    })
}

fn position(value: &Value, columns: usize) -> Result<usize> {
    value
        .as_u64()
        .map(|position| position as usize)
        .filter(|&position| position < columns)
        .ok_or_else(malformed)
}

fn all<T>(value: &Value, decode: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    array(value)?.iter().map(decode).collect()
}

fn optional(value: &Value, name: &str) -> Result<Option<ast::Expr>> {
    match get(value, name)? {
        Value::Null => Ok(None),
        other => sql::read_expression(other).map(Some),
    }
}

fn relation(value: &Value, schema: &str, tables: &BTreeMap<u64, Table>) -> Result<Relation> {
    match string(value, "kind")?.as_str() {
        "table" => Ok(Relation::Table(Arc::new(table(value, schema, tables)?))),
        "view" => Ok(Relation::View(Arc::new(view(value, schema)?))),
        _ => Err(malformed()),
    }
}

fn table(value: &Value, schema: &str, tables: &BTreeMap<u64, Table>) -> Result<TableEntry> {
    let number = get(value, "table")?.as_u64().ok_or_else(malformed)?;
    let table = tables.get(&number).ok_or_else(malformed)?.clone();
    let fields = fields(&string(value, "fields")?)?;
    let described = array(get(value, "columns")?)?;
    if fields.len() != described.len() || fields.len() != table.schema().fields().len() {
        return Err(malformed());
    }
    let columns = fields
        .into_iter()
        .zip(described)
        .map(|(field, value)| column(field, value))
        .collect::<Result<Vec<_>>>()?;
    let count = columns.len();
    let freeze_after = match get(value, "freeze_after")? {
        Value::Null => None,
        micros => Some(Duration::from_micros(
            micros.as_u64().ok_or_else(malformed)?,
        )),
    };
    let mut entry = TableEntry {
        schema: schema.to_owned(),
        name: string(value, "name")?,
        columns,
        constraints: all(get(value, "constraints")?, |one| constraint(one, count))?,
        indexes: all(get(value, "indexes")?, |one| index(one, count))?,
        referrers: all(get(value, "referrers")?, |one| {
            Ok(Referrer {
                schema: string(one, "schema")?,
                table: string(one, "table")?,
                constraint: string(one, "constraint")?,
            })
        })?,
        table,
        comment: optional_string(value, "comment")?,
        temporary: false,
        settings: TableSettings {
            strings: settings::named(&string(value, "strings")?).ok_or_else(malformed)?,
            frozen_on_demand: flag(value, "frozen_on_demand")?,
            freeze_after,
        },
    };
    entry.follow_settings();
    entry.adopt_settings();
    Ok(entry)
}

fn column(field: FieldRef, value: &Value) -> Result<Column> {
    let identity = match optional_string(value, "identity")?.as_deref() {
        None => None,
        Some("always") => Some(Identity::Always),
        Some("by default") => Some(Identity::ByDefault),
        Some("autoincrement") => Some(Identity::AutoIncrement),
        Some(_) => return Err(malformed()),
    };
    let sequence = match get(value, "sequence")? {
        Value::Null => None,
        other => match strings(other)?.as_slice() {
            [schema, name] => Some((schema.clone(), name.clone())),
            _ => return Err(malformed()),
        },
    };
    Ok(Column {
        field,
        default: optional(value, "default")?,
        generated: optional(value, "generated")?,
        identity,
        sequence,
        comment: optional_string(value, "comment")?,
        strings: match optional_string(value, "strings")? {
            Some(name) => Some(settings::named(&name).ok_or_else(malformed)?),
            None => None,
        },
    })
}

fn constraint(value: &Value, count: usize) -> Result<Constraint> {
    let name = string(value, "name")?;
    let columns = || all(get(value, "columns")?, |one| position(one, count));
    Ok(match string(value, "kind")?.as_str() {
        "primary key" => Constraint::PrimaryKey {
            name,
            columns: columns()?,
        },
        "unique" => Constraint::Unique {
            name,
            columns: columns()?,
        },
        "check" => Constraint::Check {
            name,
            condition: sql::read_expression(get(value, "condition")?)?,
        },
        "foreign key" => Constraint::ForeignKey(ForeignKey {
            name,
            columns: columns()?,
            schema: string(value, "schema")?,
            table: string(value, "table")?,
            referred: strings(get(value, "referred")?)?,
            on_delete: action(&string(value, "on_delete")?)?,
            on_update: action(&string(value, "on_update")?)?,
            deferrable: flag(value, "deferrable")?,
            deferred: flag(value, "deferred")?,
        }),
        _ => return Err(malformed()),
    })
}

fn action(name: &str) -> Result<ReferenceAction> {
    [
        ReferenceAction::NoAction,
        ReferenceAction::Restrict,
        ReferenceAction::Cascade,
        ReferenceAction::SetNull,
        ReferenceAction::SetDefault,
    ]
    .into_iter()
    .find(|action| action.sql() == name)
    .ok_or_else(malformed)
}

fn index(value: &Value, count: usize) -> Result<IndexEntry> {
    let parts = all(get(value, "parts")?, |part| {
        let key = get(part, "key")?;
        Ok(IndexPart {
            key: match key.is_number() {
                true => IndexKey::Column(position(key, count)?),
                false => IndexKey::Expression(sql::read_expression(key)?),
            },
            descending: flag(part, "descending")?,
            nulls_first: flag(part, "nulls_first")?,
        })
    })?;
    Ok(IndexEntry {
        name: string(value, "name")?,
        unique: flag(value, "unique")?,
        parts,
        predicate: optional(value, "predicate")?,
    })
}

fn view(value: &Value, schema: &str) -> Result<ViewEntry> {
    Ok(ViewEntry {
        schema: schema.to_owned(),
        name: string(value, "name")?,
        columns: strings(get(value, "columns")?)?,
        outputs: strings(get(value, "outputs")?)?,
        fields: fields(&string(value, "fields")?)?,
        query: Arc::new(sql::read_query(get(value, "query")?)?),
        comment: optional_string(value, "comment")?,
        temporary: false,
    })
}

fn fields(digits: &str) -> Result<Vec<FieldRef>> {
    let digit = |at: usize| {
        let digit = digits.as_bytes().get(at).copied()?;
        char::from(digit).to_digit(16).map(|digit| digit as u8)
    };
    let bytes: Option<Vec<u8>> = (0..digits.len() / 2)
        .map(|at| Some(digit(2 * at)? << 4 | digit(2 * at + 1)?))
        .collect();
    let reader = StreamReader::try_new(Cursor::new(bytes.ok_or_else(malformed)?), None);
    let schema = reader.map_err(|_| malformed())?.schema();
    Ok(schema
        .fields()
        .iter()
        .map(|field| Arc::new(flat(field)))
        .collect())
}

fn a_macro(value: &Value) -> Result<MacroEntry> {
    let parameters = all(get(value, "parameters")?, |one| {
        let quote = optional_string(one, "quote")?.and_then(|quote| quote.chars().next());
        let name = string(one, "name")?;
        Ok(ast::MacroArg {
            name: match quote {
                Some(quote) => ast::Ident::with_quote(quote, name),
                None => ast::Ident::new(name),
            },
            default_expr: optional(one, "default")?,
        })
    })?;
    let body = get(value, "body")?;
    let body = match (body.get("expression"), body.get("query")) {
        (Some(expression), _) => MacroBody::Expression(Box::new(sql::read_expression(expression)?)),
        (None, Some(query)) => MacroBody::Query(Box::new(sql::read_query(query)?)),
        (None, None) => return Err(malformed()),
    };
    Ok(MacroEntry {
        name: string(value, "name")?,
        parameters,
        body,
    })
}

fn sequence(
    value: &Value,
    schema: &str,
    numbers: &BTreeMap<&str, &Value>,
    storage: &Arc<Storage>,
) -> Result<SequenceEntry> {
    let options = SequenceOptions {
        start: integer(value, "start")?,
        increment: integer(value, "increment")?,
        least: integer(value, "least")?,
        greatest: integer(value, "greatest")?,
        cycle: flag(value, "cycle")?,
    };
    let id = string(value, "id")?;
    let number = match numbers.get(id.as_str()) {
        Some(number) => Some((integer(number, "value")?, flag(number, "given")?)),
        None => None,
    };
    Ok(SequenceEntry::restored(
        (schema, &string(value, "name")?),
        id,
        options,
        flag(value, "owned")?,
        number,
        storage,
    ))
}
