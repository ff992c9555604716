//! `CREATE TABLE t (LIKE s INCLUDING …)`: columns, and what else is asked for, of another relation, as in PostgreSQL.
//!
//! Names, types and NOT NULL always come along. What comes from a view has no more than that.

use std::sync::Arc;

use datafusion::sql::sqlparser::parser::Parser;

use super::definition::{DefinedConstraint, Kind};
use crate::catalog::{Column, Constraint, Relation, TableEntry, fold};
use crate::error::{Error, Result, SqlState};
use crate::parse::{
    LIKE_COMMENTS, LIKE_CONSTRAINTS, LIKE_DEFAULTS, LIKE_GENERATED, LIKE_IDENTITY, LIKE_INDEXES,
};
use crate::statement::{Work, split_name};

/// The columns and constraints that `parts table` asks for (`parse::synonyms`).
pub(super) fn copied(work: &Work<'_>, text: &str) -> Result<(Vec<Column>, Vec<DefinedConstraint>)> {
    let malformed = || Error::internal(format!("LIKE {text}"));
    let (parts, name) = text.split_once(' ').ok_or_else(malformed)?;
    let parts: u8 = parts.parse().map_err(|_| malformed())?;
    let name = Parser::new(&datafusion::sql::sqlparser::dialect::GenericDialect {})
        .try_with_sql(name)
        .and_then(|mut parser| parser.parse_object_name(false))
        .map_err(|_| malformed())?;
    let (schema, relation) = split_name(&name)?;
    let found = work
        .context
        .scope
        .relation(schema.as_deref(), &relation)
        .ok_or_else(|| {
            Error::new(
                SqlState::UndefinedTable,
                format!("relation \"{relation}\" does not exist"),
            )
        })?;
    match found {
        Relation::Table(table) => of_table(&table, parts),
        Relation::View(view) => {
            let named = view.columns.iter().zip(&view.fields);
            let columns = named.map(|(name, field)| {
                let stored = crate::types::stored_field(field)?;
                Ok(bare(stored.with_name(name).with_nullable(true)))
            });
            Ok((columns.collect::<Result<_>>()?, Vec::new()))
        }
    }
}

fn bare(field: arrow::datatypes::Field) -> Column {
    Column {
        field: Arc::new(field),
        default: None,
        generated: None,
        identity: None,
        sequence: None,
        comment: None,
        strings: None,
    }
}

fn of_table(table: &TableEntry, parts: u8) -> Result<(Vec<Column>, Vec<DefinedConstraint>)> {
    let asks = |part: u8| parts & part != 0;
    let mut columns = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        if asks(LIKE_IDENTITY) && column.identity.is_some() {
            return Err(Error::unsupported(format!(
                "LIKE … INCLUDING IDENTITY of the identity column \"{}\" is not supported",
                column.field.name()
            ))
            .with_hint("Add EXCLUDING IDENTITY."));
        }
        let own = column.identity.is_none();
        columns.push(Column {
            default: column
                .default
                .clone()
                .filter(|_| own && asks(LIKE_DEFAULTS)),
            generated: column.generated.clone().filter(|_| asks(LIKE_GENERATED)),
            comment: column.comment.clone().filter(|_| asks(LIKE_COMMENTS)),
            ..bare(column.field.as_ref().clone())
        });
    }
    let names = |positions: &[usize]| -> Vec<String> {
        let name = |position: &usize| fold(table.columns[*position].field.name());
        positions.iter().map(name).collect()
    };
    let mut constraints = Vec::new();
    for constraint in &table.constraints {
        let (name, kind) = match constraint {
            Constraint::PrimaryKey { columns, .. } if asks(LIKE_INDEXES) => {
                (None, Kind::PrimaryKey(names(columns)))
            }
            Constraint::Unique { columns, .. } if asks(LIKE_INDEXES) => {
                (None, Kind::Unique(names(columns)))
            }
            Constraint::Check { name, condition } if asks(LIKE_CONSTRAINTS) => {
                (Some(name.clone()), Kind::Check(Box::new(condition.clone())))
            }
            _ => continue,
        };
        constraints.push(DefinedConstraint { name, kind });
    }
    if asks(LIKE_INDEXES) && !table.indexes.is_empty() {
        return Err(Error::unsupported(
            "LIKE … INCLUDING INDEXES of a table with indexes of CREATE INDEX is not supported",
        )
        .with_hint("Add EXCLUDING INDEXES, and create the indexes."));
    }
    Ok((columns, constraints))
}
