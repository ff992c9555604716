//! A table's definition: columns, defaults, constraints, as CREATE TABLE and ALTER TABLE state them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr as Planned;
use datafusion::sql::sqlparser::ast::{
    self, ColumnDef, ColumnOption, Expr, ForeignKeyConstraint, Ident, IndexColumn,
    NullsDistinctOption, ObjectName, SequenceOptions, TableConstraint,
};

use super::{reference, sequence};
use crate::catalog::{Column, Constraint, Identity, TableEntry, fold};
use crate::error::{Error, Result, SqlState};
use crate::statement::{Work, keys, unknown_column};
use crate::types::{self, NamedType};

/// What a column's definition says: the column, and the constraints that stand with it.
pub(super) struct DefinedColumn {
    pub(super) column: Column,
    pub(super) constraints: Vec<DefinedConstraint>,
    /// Of an identity column, what its sequence is to be.
    pub(super) identity: Option<Vec<SequenceOptions>>,
}

/// A constraint before it has a name and positions.
#[derive(Debug, Clone)]
pub(super) struct DefinedConstraint {
    pub(super) name: Option<String>,
    pub(super) kind: Kind,
}

/// What a constraint demands; columns by folded name.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    PrimaryKey(Vec<String>),
    Unique(Vec<String>),
    Check(Box<Expr>),
    ForeignKey(Box<ForeignKeyConstraint>),
}

/// Reads a column's definition.
pub(super) fn column(work: &Work<'_>, definition: &ColumnDef) -> Result<DefinedColumn> {
    let name = work.source.written(&definition.name);
    let mut constraints = Vec::new();
    let mut nullable = true;
    let mut default = None;
    let mut generated = None;
    let serial = sequence::serial_type(&definition.data_type);
    let mut identity = serial.as_ref().map(|_| Identity::ByDefault);
    let mut options = Vec::new();
    let mut comment = None;
    for option in &definition.options {
        let constraint = option.name.as_ref().map(|name| work.source.written(name));
        let own = || vec![definition.name.value.clone()];
        match &option.option {
            ColumnOption::Null => nullable = true,
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Default(expression) => {
                check_default(work, expression)?;
                default = Some(expression.clone());
            }
            ColumnOption::PrimaryKey(_) => {
                nullable = false;
                constraints.push(DefinedConstraint {
                    name: constraint,
                    kind: Kind::PrimaryKey(own()),
                });
            }
            ColumnOption::Unique(unique) => {
                check_nulls(&unique.nulls_distinct)?;
                constraints.push(DefinedConstraint {
                    name: constraint,
                    kind: Kind::Unique(own()),
                });
            }
            ColumnOption::Check(check) => constraints.push(DefinedConstraint {
                name: constraint,
                kind: Kind::Check(check.expr.clone()),
            }),
            ColumnOption::Comment(text) => comment = Some(text.clone()),
            ColumnOption::ForeignKey(key) => {
                let mut defined = reference::defined(work, key, Some(&definition.name.value))?;
                defined.name = constraint.or(defined.name);
                constraints.push(defined);
            }
            ColumnOption::Generated {
                generation_expr: Some(expression),
                ..
            } => generated = Some(expression.clone()),
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                ..
            } => {
                identity = Some(sequence::identity(generated_as));
                options = sequence_options.clone().unwrap_or_default();
            }
            ColumnOption::DialectSpecific(words) if matches!(words.as_slice(), [word] if fold(&word.to_string()).starts_with("auto")) =>
            {
                identity = Some(Identity::AutoIncrement);
            }
            ColumnOption::Collation(name) => check_collation(name)?,
            other => {
                return Err(Error::unsupported(format!(
                    "column option \"{other}\" is not supported"
                )));
            }
        }
    }
    if generated.is_some() && default.is_some() {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!("both default and generation expression specified for column \"{name}\""),
        ));
    }
    if identity.is_some() && (default.is_some() || generated.is_some()) {
        return Err(Error::new(
            SqlState::SyntaxError,
            format!("both identity and default specified for column \"{name}\""),
        ));
    }
    let nullable = nullable && identity.is_none();
    let data_type = serial.as_ref().unwrap_or(&definition.data_type);
    let field = field(work, &name, data_type, nullable)?;
    Ok(DefinedColumn {
        column: Column {
            field: Arc::new(field),
            default,
            generated,
            // A serial column is one with a default, no more.
            identity: identity.filter(|_| serial.is_none()),
            sequence: None,
            strings: None,
            comment,
        },
        constraints,
        identity: identity.map(|_| options),
    })
}

/// The stored field of a column; named types are looked up along the path.
pub(super) fn field(
    work: &Work<'_>,
    name: &str,
    data_type: &datafusion::sql::sqlparser::ast::DataType,
    nullable: bool,
) -> Result<Field> {
    types::column_field(name, data_type, nullable, &|wanted| {
        named_type(work, wanted)
    })
}

/// What the name of a type stands for.
pub(super) fn named_type(work: &Work<'_>, wanted: &str) -> Option<NamedType> {
    let state = work.changes.state();
    let path = &work.context.scope.path;
    let (schema, name) = match wanted.split_once('.') {
        Some((schema, name)) => (Some(schema), name),
        None => (None, wanted),
    };
    let found = match schema {
        Some(schema) => state.schema(schema)?.named_type(name),
        None => state.named_type(path, name),
    };
    found.map(|entry| entry.definition.clone())
}

/// Puts what aliases of types stand for in their places, and checks that the type exists.
pub(super) fn expand_type(work: &Work<'_>, data_type: &mut ast::DataType) -> Result<()> {
    expand(work, data_type);
    field(work, "value", data_type, true).map(|_| ())
}

fn expand(work: &Work<'_>, data_type: &mut ast::DataType) {
    use ast::{ArrayElemTypeDef as Element, DataType as Sql};
    match data_type {
        Sql::Custom(name, modifiers) if modifiers.is_empty() => {
            let wanted = name.0.last().and_then(ast::ObjectNamePart::as_ident);
            let found = wanted.and_then(|wanted| named_type(work, &wanted.value));
            if let Some(NamedType::Alias(definition)) = found {
                *data_type = definition;
            }
        }
        Sql::Array(
            Element::SquareBracket(element, _)
            | Element::AngleBracket(element)
            | Element::Parenthesis(element),
        )
        | Sql::Nullable(element) => expand(work, element),
        Sql::Struct(members, _) | Sql::Tuple(members) => {
            for member in members {
                expand(work, &mut member.field_type);
            }
        }
        Sql::Map(key, value) => {
            expand(work, key);
            expand(work, value);
        }
        _ => {}
    }
}

/// Reads a constraint of the table.
pub(super) fn constraint(
    work: &Work<'_>,
    constraint: &TableConstraint,
) -> Result<DefinedConstraint> {
    let named = |name: &Option<Ident>| name.as_ref().map(|name| work.source.written(name));
    Ok(match constraint {
        TableConstraint::PrimaryKey(key) => DefinedConstraint {
            name: named(&key.name),
            kind: Kind::PrimaryKey(key_columns(&key.columns)?),
        },
        TableConstraint::Unique(key) => {
            check_nulls(&key.nulls_distinct)?;
            DefinedConstraint {
                name: named(&key.name),
                kind: Kind::Unique(key_columns(&key.columns)?),
            }
        }
        TableConstraint::Check(check) => DefinedConstraint {
            name: named(&check.name),
            kind: Kind::Check(check.expr.clone()),
        },
        TableConstraint::ForeignKey(key) => reference::defined(work, key, None)?,
        other => {
            return Err(Error::unsupported(format!(
                "constraint \"{other}\" is not supported"
            )));
        }
    })
}

/// The columns of a key: bare names.
pub(super) fn key_columns(columns: &[IndexColumn]) -> Result<Vec<String>> {
    columns
        .iter()
        .map(|column| match &column.column.expr {
            Expr::Identifier(name) => Ok(name.value.clone()),
            other => Err(Error::unsupported(format!(
                "a key over an expression is not supported: {other}"
            ))),
        })
        .collect()
}

/// Finds the columns, makes a name, and checks what can be checked without rows.
pub(super) fn resolve(
    work: &Work<'_>,
    table: &TableEntry,
    defined: &DefinedConstraint,
) -> Result<Constraint> {
    let positions = |names: &[String]| -> Result<Vec<usize>> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let position = table.column(name).ok_or_else(|| {
                let error = unknown_column(table, name);
                Error {
                    message: format!("column \"{name}\" named in key does not exist"),
                    ..error
                }
            })?;
            if found.contains(&position) {
                return Err(Error::new(
                    SqlState::DuplicateColumn,
                    format!("column \"{name}\" appears twice in a key"),
                ));
            }
            if table.columns[position].field.data_type().is_nested() {
                return Err(Error::unsupported(format!(
                    "a key over the nested column \"{name}\" is not supported"
                )));
            }
            found.push(position);
        }
        Ok(found)
    };
    let constraint = match &defined.kind {
        Kind::PrimaryKey(columns) => {
            if table
                .constraints
                .iter()
                .any(|other| matches!(other, Constraint::PrimaryKey { .. }))
            {
                return Err(Error::new(
                    SqlState::InvalidTableDefinition,
                    format!(
                        "multiple primary keys for table \"{}\" are not allowed",
                        table.name
                    ),
                ));
            }
            Constraint::PrimaryKey {
                name: unique_name(table, defined, "pkey", &[]),
                columns: positions(columns)?,
            }
        }
        Kind::Unique(columns) => Constraint::Unique {
            name: unique_name(table, defined, "key", columns),
            columns: positions(columns)?,
        },
        Kind::Check(condition) => {
            let mentioned = mentioned_columns(table, condition);
            let own: Vec<String> = match mentioned.as_slice() {
                [one] => vec![table.columns[*one].field.name().clone()],
                _ => Vec::new(),
            };
            check_condition(work, table, condition)?;
            Constraint::Check {
                name: unique_name(table, defined, "check", &own),
                condition: condition.as_ref().clone(),
            }
        }
        Kind::ForeignKey(key) => {
            Constraint::ForeignKey(reference::resolve(work, table, defined, key)?)
        }
    };
    if table
        .constraints
        .iter()
        .any(|other| other.name() == constraint.name())
    {
        return Err(Error::new(
            SqlState::DuplicateObject,
            format!(
                "constraint \"{}\" for relation \"{}\" already exists",
                constraint.name(),
                table.name
            ),
        ));
    }
    Ok(constraint)
}

/// The positions of the columns that an expression names.
pub(super) fn mentioned_columns(table: &TableEntry, expression: &Expr) -> Vec<usize> {
    let mut found = Vec::new();
    let _ = datafusion::sql::sqlparser::ast::visit_expressions(expression, |part| {
        let name = match part {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(position) = name.and_then(|name| table.column(&name.value))
            && !found.contains(&position)
        {
            found.push(position);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    found
}

/// Refuses generation expressions that depend on more than the row's own columns, or on generated ones.
pub(super) fn check_generated(work: &Work<'_>, table: &TableEntry) -> Result<()> {
    for column in &table.columns {
        let Some(expression) = &column.generated else {
            continue;
        };
        let mentioned = mentioned_columns(table, expression);
        if let Some(&other) = mentioned
            .iter()
            .find(|&&position| table.columns[position].generated.is_some())
        {
            return Err(Error::new(
                SqlState::InvalidObjectDefinition,
                format!(
                    "cannot use generated column \"{}\" in column generation expression",
                    table.columns[other].field.name()
                ),
            ));
        }
        keys::check_immutable(work.context, table, expression).map_err(|error| Error {
            message: error
                .message
                .replace("index expression", "column generation expression"),
            ..error
        })?;
        work.context.row_expression(table, expression)?;
    }
    Ok(())
}

/// Refuses collations other than the bytes' own.
pub(super) fn check_collation(name: &ObjectName) -> Result<()> {
    match fold(&name.to_string()).as_str() {
        "\"c\"" | "c" | "\"posix\"" | "posix" | "\"binary\"" | "binary" => Ok(()),
        _ => Err(Error::unsupported(format!(
            "collation {name} is not supported: text is compared by its bytes"
        ))
        .with_hint(
            "Write COLLATE NOCASE where text is compared, sorted or grouped, or use lower(column).",
        )),
    }
}

/// A DEFAULT names no column and holds no subquery.
pub(super) fn check_default(work: &Work<'_>, expression: &Expr) -> Result<()> {
    let planned = work
        .context
        .scope
        .expression(expression, &DFSchema::empty());
    match planned {
        Ok(planned) => only_values(&planned, "DEFAULT"),
        Err(error) if error.state == SqlState::UndefinedColumn => Err(Error::new(
            SqlState::FeatureNotSupported,
            "cannot use column reference in DEFAULT expression",
        )),
        Err(error) => Err(error),
    }
}

/// What replaces a column's values is computed row by row: `ALTER COLUMN … USING`.
pub(super) fn check_transform(
    work: &Work<'_>,
    table: &TableEntry,
    expression: &Expr,
) -> Result<()> {
    let schema = crate::statement::compute_schema(table)?;
    let planned = work.context.scope.expression(expression, &schema)?;
    only_values(&planned, "transform")
}

/// An expression of values alone: of no rows.
fn only_values(planned: &Planned, place: &str) -> Result<()> {
    let mut found = None;
    let refused = |state, what: &str| {
        let message = format!("{what} functions are not allowed in {place} expressions");
        Some(Error::new(state, message))
    };
    planned.apply(|expr| {
        found = match expr {
            Planned::ScalarSubquery(_)
            | Planned::Exists(_)
            | Planned::InSubquery(_)
            | Planned::SetComparison(_) => Some(Error::unsupported(format!(
                "cannot use subquery in {place} expression"
            ))),
            Planned::AggregateFunction(_) => refused(SqlState::GroupingError, "aggregate"),
            Planned::WindowFunction(_) => refused(SqlState::WindowingError, "window"),
            Planned::Unnest(_) => refused(SqlState::FeatureNotSupported, "set-returning"),
            _ => None,
        };
        Ok(match found {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    found.map_or(Ok(()), Err)
}

fn check_condition(work: &Work<'_>, table: &TableEntry, condition: &Expr) -> Result<()> {
    let compiled = work.context.row_expression(table, condition)?;
    let schema = crate::statement::compute_schema(table)?;
    let kind = compiled.data_type(schema.as_arrow())?;
    if matches!(kind, DataType::Boolean | DataType::Null) {
        return Ok(());
    }
    Err(Error::new(
        SqlState::DatatypeMismatch,
        format!(
            "argument of CHECK must be type boolean, not type {}",
            types::sql_name(&Field::new("check", kind, true)).to_lowercase()
        ),
    ))
}

fn check_nulls(option: &NullsDistinctOption) -> Result<()> {
    match option {
        NullsDistinctOption::NotDistinct => Err(Error::unsupported(
            "UNIQUE NULLS NOT DISTINCT is not supported",
        )),
        _ => Ok(()),
    }
}

/// The given name, or PostgreSQL's: `table_column_suffix`, with a number where that is taken.
pub(super) fn unique_name(
    table: &TableEntry,
    defined: &DefinedConstraint,
    suffix: &str,
    columns: &[String],
) -> String {
    if let Some(name) = &defined.name {
        return name.clone();
    }
    let mut parts = vec![table.name.as_str()];
    parts.extend(columns.iter().map(String::as_str));
    parts.push(suffix);
    let base = parts.join("_");
    let taken = |name: &str| {
        table
            .constraints
            .iter()
            .any(|constraint| constraint.name() == name)
    };
    let mut name = base.clone();
    let mut number = 1;
    while taken(&name) {
        name = format!("{base}{number}");
        number += 1;
    }
    name
}
