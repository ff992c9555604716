//! Objects as JSON texts.

use arrow::datatypes::{FieldRef, Schema};
use arrow::ipc::writer::StreamWriter;
use datafusion::sql::sqlparser::ast;
use serde_json::{Value, json};

use super::sql;
use crate::catalog::settings;
use crate::catalog::{
    Column, Constraint, ForeignKey, Identity, IndexEntry, IndexKey, MacroBody, MacroEntry,
    Relation, SequenceEntry, TableEntry, TypeEntry, ViewEntry,
};
use crate::error::Result;
use crate::types::NamedType;

pub(super) fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

pub(super) fn relations(relations: &[Relation]) -> Result<Vec<u8>> {
    let values = relations
        .iter()
        .map(|relation| match relation {
            Relation::Table(entry) => table(entry),
            Relation::View(entry) => view(entry),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(text(&Value::Array(values)))
}

fn table(entry: &TableEntry) -> Result<Value> {
    let fields = entry.columns.iter().map(|column| &column.field);
    Ok(json!({
        "kind": "table",
        "name": entry.name,
        "table": entry.table.durable_id(),
        "fields": schema(fields)?,
        "columns": all(&entry.columns, column)?,
        "constraints": all(&entry.constraints, constraint)?,
        "indexes": all(&entry.indexes, index)?,
        "referrers": entry.referrers.iter().map(|one| json!({
            "schema": one.schema,
            "table": one.table,
            "constraint": one.constraint,
        })).collect::<Vec<_>>(),
        "comment": entry.comment,
        "strings": settings::name(entry.settings.strings),
        "frozen_on_demand": entry.settings.frozen_on_demand,
        "freeze_after": entry.settings.freeze_after.map(|after| after.as_micros() as u64),
    }))
}

fn all<T>(items: &[T], encode: impl Fn(&T) -> Result<Value>) -> Result<Vec<Value>> {
    items.iter().map(encode).collect()
}

fn optional(expression: Option<&ast::Expr>) -> Result<Value> {
    expression.map_or(Ok(Value::Null), sql::expression)
}

fn column(column: &Column) -> Result<Value> {
    Ok(json!({
        "default": optional(column.default.as_ref())?,
        "generated": optional(column.generated.as_ref())?,
        "identity": column.identity.map(|identity| match identity {
            Identity::Always => "always",
            Identity::ByDefault => "by default",
            Identity::AutoIncrement => "autoincrement",
        }),
        "sequence": column.sequence,
        "comment": column.comment,
        "strings": column.strings.map(settings::name),
    }))
}

fn constraint(constraint: &Constraint) -> Result<Value> {
    Ok(match constraint {
        Constraint::PrimaryKey { name, columns } => {
            json!({"kind": "primary key", "name": name, "columns": columns})
        }
        Constraint::Unique { name, columns } => {
            json!({"kind": "unique", "name": name, "columns": columns})
        }
        Constraint::Check { name, condition } => {
            json!({"kind": "check", "name": name, "condition": sql::expression(condition)?})
        }
        Constraint::ForeignKey(key) => foreign_key(key),
    })
}

fn foreign_key(key: &ForeignKey) -> Value {
    json!({
        "kind": "foreign key",
        "name": key.name,
        "columns": key.columns,
        "schema": key.schema,
        "table": key.table,
        "referred": key.referred,
        "on_delete": key.on_delete.sql(),
        "on_update": key.on_update.sql(),
        "deferrable": key.deferrable,
        "deferred": key.deferred,
    })
}

fn index(index: &IndexEntry) -> Result<Value> {
    let parts = all(&index.parts, |part| {
        let key = match &part.key {
            IndexKey::Column(position) => json!(position),
            IndexKey::Expression(expression) => sql::expression(expression)?,
        };
        Ok(json!({
            "key": key,
            "descending": part.descending,
            "nulls_first": part.nulls_first,
        }))
    })?;
    Ok(json!({
        "name": index.name,
        "unique": index.unique,
        "parts": parts,
        "predicate": optional(index.predicate.as_ref())?,
    }))
}

fn view(entry: &ViewEntry) -> Result<Value> {
    Ok(json!({
        "kind": "view",
        "name": entry.name,
        "columns": entry.columns,
        "outputs": entry.outputs,
        "fields": schema(entry.fields.iter())?,
        "query": sql::query(&entry.query)?,
        "comment": entry.comment,
    }))
}

/// Fields as an Arrow IPC stream without rows, in hexadecimal digits.
fn schema<'a>(fields: impl Iterator<Item = &'a FieldRef>) -> Result<String> {
    let schema = Schema::new(fields.cloned().collect::<Vec<_>>());
    let bytes = StreamWriter::try_new(Vec::new(), &schema)?.into_inner()?;
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            digits.push(char::from_digit(u32::from(half), 16).unwrap_or('0'));
        }
    }
    Ok(digits)
}

pub(super) fn a_type(entry: &TypeEntry) -> Result<Vec<u8>> {
    let value = match &entry.definition {
        NamedType::Enum(labels) => json!({"name": entry.name, "labels": labels}),
        NamedType::Alias(data_type) => {
            json!({"name": entry.name, "type": sql::data_type(data_type)?})
        }
    };
    Ok(text(&value))
}

pub(super) fn a_macro(entry: &MacroEntry) -> Result<Vec<u8>> {
    let parameters = all(&entry.parameters, |parameter| {
        let quote = parameter.name.quote_style.map(String::from);
        Ok(json!({
            "name": parameter.name.value,
            "quote": quote,
            "default": optional(parameter.default_expr.as_ref())?,
        }))
    })?;
    let body = match &entry.body {
        MacroBody::Expression(body) => json!({"expression": sql::expression(body)?}),
        MacroBody::Query(body) => json!({"query": sql::query(body)?}),
    };
    Ok(text(
        &json!({"name": entry.name, "parameters": parameters, "body": body}),
    ))
}

pub(super) fn sequence(entry: &SequenceEntry) -> Vec<u8> {
    let options = &entry.options;
    text(&json!({
        "name": entry.name,
        "id": entry.id,
        "owned": entry.owned,
        "start": options.start,
        "increment": options.increment,
        "least": options.least,
        "greatest": options.greatest,
        "cycle": options.cycle,
    }))
}

/// How far a sequence is.
pub(in crate::catalog) fn sequence_number(value: i64, given: bool) -> Vec<u8> {
    text(&json!({"value": value, "given": given}))
}
