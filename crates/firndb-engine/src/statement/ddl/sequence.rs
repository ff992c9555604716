//! CREATE SEQUENCE, and the sequences of identity and serial columns.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, Expr, ObjectName};

use super::{duplicate, existing, index, new_name};
use crate::catalog::{
    Column, Identity, SequenceEntry, SequenceOptions, TEMPORARY_SCHEMA, TableEntry, fold, quoted,
};
use crate::error::{Error, Result, SqlState};
use crate::parse::{self, AlterSequence};
use crate::session::Outcome;
use crate::statement::{Work, split_name};

/// CREATE SEQUENCE.
pub(super) fn create_sequence(work: &mut Work<'_>, statement: &ast::Statement) -> Result<Outcome> {
    let ast::Statement::CreateSequence {
        temporary,
        if_not_exists,
        name,
        data_type,
        sequence_options,
        owned_by: _,
    } = statement
    else {
        return Err(Error::internal("not a CREATE SEQUENCE"));
    };
    let done = Outcome::done("CREATE SEQUENCE");
    let (schema, name) = new_name(work, name, *temporary)?;
    if is_taken(work, &schema, &name) {
        return match if_not_exists {
            true => Ok(done),
            false => Err(duplicate(&name)),
        };
    }
    let (least, greatest) = match data_type {
        None => (i64::MIN, i64::MAX),
        Some(data_type) => bounds(data_type)?,
    };
    let options = options(sequence_options, least, greatest)?;
    let storage = Arc::clone(&work.context.scope.storage);
    work.changes
        .put_sequence(SequenceEntry::new(&schema, &name, options, false, &storage));
    Ok(done)
}

/// DROP SEQUENCE of one name.
pub(super) fn drop_sequence(
    work: &mut Work<'_>,
    name: &ObjectName,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let (schema, folded) = split_name(name)?;
    let state = Arc::clone(work.changes.state());
    let path = std::iter::once(TEMPORARY_SCHEMA.to_owned());
    let path = path.chain(work.context.scope.path.iter().cloned());
    let schemas: Vec<String> = schema.map_or_else(|| path.collect(), |schema| vec![schema]);
    let found = schemas
        .iter()
        .find_map(|schema| state.sequence(schema, &folded));
    let Some(sequence) = found else {
        return match if_exists {
            true => Ok(()),
            false => Err(unknown(&folded)),
        };
    };
    let call = fold(&reference(&sequence.schema, &sequence.name));
    for schema in state.schemas() {
        for relation in state.relations(&schema) {
            let crate::catalog::Relation::Table(table) = relation else {
                continue;
            };
            let uses = |column: &Column| {
                column.default.as_ref().is_some_and(|default| {
                    let text = fold(&default.to_string());
                    let bare = format!("nextval('{}')", fold(&sequence.name));
                    text.contains(&call) || text.contains(&bare)
                })
            };
            let Some(position) = table.columns.iter().position(uses) else {
                continue;
            };
            if !cascade {
                return Err(Error::new(
                    SqlState::DependentObjectsStillExist,
                    format!(
                        "cannot drop sequence {} because other objects depend on it",
                        sequence.name
                    ),
                )
                .with_detail(format!(
                    "default value for column {} of table {} depends on sequence {}",
                    table.columns[position].field.name(),
                    table.name,
                    sequence.name
                ))
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            let mut changed = table.as_ref().clone();
            for column in changed.columns.iter_mut().filter(|column| uses(column)) {
                column.default = None;
                column.identity = None;
            }
            let changed = crate::catalog::Relation::Table(Arc::new(changed));
            work.changes.put(changed);
        }
    }
    work.changes
        .remove_sequence(&sequence.schema, &sequence.name);
    Ok(())
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::UndefinedTable,
        format!("sequence \"{name}\" does not exist"),
    )
}

/// ALTER SEQUENCE.
pub(crate) fn alter_sequence(work: &mut Work<'_>, alter: &AlterSequence) -> Result<Outcome> {
    let (schema, folded) = split_name(&alter.name)?;
    let state = Arc::clone(work.changes.state());
    let path = std::iter::once(TEMPORARY_SCHEMA.to_owned());
    let path = path.chain(work.context.scope.path.iter().cloned());
    let schemas: Vec<String> = schema.map_or_else(|| path.collect(), |schema| vec![schema]);
    let found = schemas
        .iter()
        .find_map(|schema| state.sequence(schema, &folded));
    let Some(sequence) = found else {
        return match alter.if_exists {
            true => Ok(Outcome::done("ALTER SEQUENCE")),
            false => Err(unknown(&folded)),
        };
    };
    let before = sequence.options;
    let (least, greatest) = match before.increment > 0 {
        true => (i64::MIN, before.greatest),
        false => (before.least, i64::MAX),
    };
    let options = altered(&alter.options, before, least, greatest)?;
    let restart = match &alter.restart {
        None => None,
        Some(None) => Some(options.start),
        Some(Some(value)) => Some(*value),
    };
    let name = match &alter.rename {
        Some(name) => {
            let written = work.source.written(name);
            if is_taken(work, &sequence.schema, &written) {
                return Err(duplicate(&written));
            }
            written
        }
        None => sequence.name.clone(),
    };
    let changed = sequence.altered(&name, options, restart)?;
    if alter.rename.is_some() {
        let call = fold(&reference(&sequence.schema, &sequence.name));
        let bare = format!("nextval('{}')", fold(&sequence.name));
        for schema in state.schemas() {
            for relation in state.relations(&schema) {
                if let crate::catalog::Relation::Table(table) = relation
                    && table.columns.iter().any(|column| {
                        column.default.as_ref().is_some_and(|default| {
                            let text = fold(&default.to_string());
                            text.contains(&call) || text.contains(&bare)
                        })
                    })
                {
                    return Err(Error::unsupported(
                        "renaming a sequence that a column's default calls is not supported",
                    )
                    .with_detail(format!("Table \"{}\" has such a column.", table.name)));
                }
            }
        }
        work.changes
            .remove_sequence(&sequence.schema, &sequence.name);
    }
    work.changes.put_sequence(changed);
    Ok(Outcome::done("ALTER SEQUENCE"))
}

/// Gives identity columns of a new table their sequences and defaults.
pub(super) fn own_sequences(
    work: &mut Work<'_>,
    schema: &str,
    table: &str,
    columns: &mut [Column],
    wanted: &[(usize, Vec<ast::SequenceOptions>)],
) -> Result<()> {
    for (position, given) in wanted {
        let column = &mut columns[*position];
        let (least, greatest) = match column.field.data_type() {
            arrow::datatypes::DataType::Int16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
            arrow::datatypes::DataType::Int32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
            arrow::datatypes::DataType::Int64 => (i64::MIN, i64::MAX),
            _ => {
                return Err(Error::new(
                    SqlState::InvalidParameterValue,
                    "identity column type must be smallint, integer, or bigint",
                ));
            }
        };
        let base = format!("{table}_{}_seq", column.field.name());
        let mut name = base.clone();
        let mut number = 1;
        while is_taken(work, schema, &name) {
            name = format!("{base}{number}");
            number += 1;
        }
        let options = options(given, least, greatest)?;
        let storage = Arc::clone(&work.context.scope.storage);
        work.changes
            .put_sequence(SequenceEntry::new(schema, &name, options, true, &storage));
        column.default = Some(call(schema, &name)?);
        column.sequence = Some((schema.to_owned(), name));
    }
    Ok(())
}

/// The numbers of a column's sequence, for one row after the other.
pub(super) fn numbered(work: &Work<'_>, column: &Column) -> Result<String> {
    let SequenceOptions {
        start, increment, ..
    } = owned_by(work, column)?.options;
    Ok(format!(
        "({start} + (row_number() OVER () - 1) * ({increment}))"
    ))
}

/// Lets a column's sequence go on behind so many numbers.
pub(super) fn passed(work: &Work<'_>, column: &Column, rows: i64) -> Result<()> {
    let sequence = owned_by(work, column)?;
    let SequenceOptions {
        start, increment, ..
    } = sequence.options;
    if rows == 0 {
        return Ok(());
    }
    let last = (rows - 1)
        .checked_mul(increment)
        .and_then(|passed| passed.checked_add(start))
        .ok_or_else(|| {
            Error::new(
                SqlState::SequenceGeneratorLimitExceeded,
                "a sequence has not as many numbers",
            )
        })?;
    sequence.set(last, true)
}

fn owned_by(work: &Work<'_>, column: &Column) -> Result<Arc<SequenceEntry>> {
    let owned = column.sequence.as_ref();
    owned
        .and_then(|(schema, name)| work.changes.state().sequence(schema, name))
        .ok_or_else(|| Error::internal("an identity column has a sequence"))
}

/// Takes the sequences away that belong to columns.
pub(super) fn drop_owned<'c>(work: &mut Work<'_>, columns: impl Iterator<Item = &'c Column>) {
    for (schema, name) in columns.filter_map(|column| column.sequence.as_ref()) {
        work.changes.remove_sequence(schema, name);
    }
}

/// TRUNCATE … RESTART IDENTITY.
pub(super) fn restart_owned(work: &Work<'_>, entry: &TableEntry) -> Result<()> {
    for (schema, name) in entry.columns.iter().filter_map(|one| one.sequence.as_ref()) {
        if let Some(sequence) = work.changes.state().sequence(schema, name) {
            sequence.restart()?;
        }
    }
    Ok(())
}

/// What a column's type or option asks for, if it is an identity or serial column.
pub(super) fn serial_type(data_type: &ast::DataType) -> Option<ast::DataType> {
    let ast::DataType::Custom(name, _) = data_type else {
        return None;
    };
    match fold(&name.to_string()).as_str() {
        "serial" | "serial4" => Some(ast::DataType::Integer(None)),
        "bigserial" | "serial8" => Some(ast::DataType::BigInt(None)),
        "smallserial" | "serial2" => Some(ast::DataType::SmallInt(None)),
        _ => None,
    }
}

/// The kind of an identity column.
pub(super) fn identity(generated: &ast::GeneratedAs) -> Identity {
    match generated {
        ast::GeneratedAs::ByDefault => Identity::ByDefault,
        ast::GeneratedAs::Always | ast::GeneratedAs::ExpStored => Identity::Always,
    }
}

/// `'schema.name'` in a call.
fn reference(schema: &str, name: &str) -> String {
    let text = format!("{}.{}", quoted(schema), quoted(name));
    format!("nextval('{}')", text.replace('\'', "''"))
}

fn call(schema: &str, name: &str) -> Result<Expr> {
    let query = parse::parse_query(&format!("SELECT {}", reference(schema, name)))?;
    let ast::SetExpr::Select(select) = *query.body else {
        return Err(Error::internal("a call is no query"));
    };
    match select.projection.into_iter().next() {
        Some(ast::SelectItem::UnnamedExpr(expression)) => Ok(expression),
        _ => Err(Error::internal("a call is no expression")),
    }
}

/// Whether a relation, an index or a sequence has a name.
fn is_taken(work: &Work<'_>, schema: &str, name: &str) -> bool {
    existing(work, schema, name).is_some()
        || index::is_taken(work, schema, name)
        || work.changes.state().sequence(schema, name).is_some()
}

fn bounds(data_type: &ast::DataType) -> Result<(i64, i64)> {
    match data_type {
        ast::DataType::SmallInt(_) | ast::DataType::Int2(_) => {
            Ok((i64::from(i16::MIN), i64::from(i16::MAX)))
        }
        ast::DataType::Int(_) | ast::DataType::Integer(_) | ast::DataType::Int4(_) => {
            Ok((i64::from(i32::MIN), i64::from(i32::MAX)))
        }
        ast::DataType::BigInt(_) | ast::DataType::Int8(_) => Ok((i64::MIN, i64::MAX)),
        _ => Err(Error::new(
            SqlState::InvalidParameterValue,
            "sequence type must be smallint, integer, or bigint",
        )),
    }
}

fn options(
    given: &[ast::SequenceOptions],
    type_least: i64,
    type_greatest: i64,
) -> Result<SequenceOptions> {
    decided(
        given,
        (1, None, None, None, false),
        type_least,
        type_greatest,
    )
}

/// Options over those that were.
fn altered(
    given: &[ast::SequenceOptions],
    before: SequenceOptions,
    type_least: i64,
    type_greatest: i64,
) -> Result<SequenceOptions> {
    let known = (
        before.increment,
        Some(before.start),
        Some(before.least),
        Some(before.greatest),
        before.cycle,
    );
    decided(given, known, type_least, type_greatest)
}

type Options = (i64, Option<i64>, Option<i64>, Option<i64>, bool);

fn decided(
    given: &[ast::SequenceOptions],
    (mut increment, mut start, mut least, mut greatest, mut cycle): Options,
    type_least: i64,
    type_greatest: i64,
) -> Result<SequenceOptions> {
    for option in given {
        match option {
            ast::SequenceOptions::IncrementBy(value, _) => increment = number(value)?,
            ast::SequenceOptions::MinValue(value) => {
                least = value.as_ref().map(number).transpose()?;
            }
            ast::SequenceOptions::MaxValue(value) => {
                greatest = value.as_ref().map(number).transpose()?;
            }
            ast::SequenceOptions::StartWith(value, _) => start = Some(number(value)?),
            ast::SequenceOptions::Cache(_) => {}
            // The parser's flag says NO CYCLE.
            ast::SequenceOptions::Cycle(no) => cycle = !no,
        }
    }
    let wrong = |message: String| Err(Error::new(SqlState::InvalidParameterValue, message));
    if increment == 0 {
        return wrong("INCREMENT must not be zero".to_owned());
    }
    let ascending = increment > 0;
    let least = least.unwrap_or(if ascending { 1 } else { type_least });
    let greatest = greatest.unwrap_or(if ascending { type_greatest } else { -1 });
    if least >= greatest {
        return wrong(format!(
            "MINVALUE ({least}) must be less than MAXVALUE ({greatest})"
        ));
    }
    let start = start.unwrap_or(if ascending { least } else { greatest });
    if start < least {
        return wrong(format!(
            "START value ({start}) cannot be less than MINVALUE ({least})"
        ));
    }
    if start > greatest {
        return wrong(format!(
            "START value ({start}) cannot be greater than MAXVALUE ({greatest})"
        ));
    }
    Ok(SequenceOptions {
        start,
        increment,
        least,
        greatest,
        cycle,
    })
}

fn number(expression: &Expr) -> Result<i64> {
    let text = expression.to_string().replace(' ', "");
    text.parse().map_err(|_| {
        Error::new(
            SqlState::SyntaxError,
            format!("\"{expression}\" is no number of a sequence"),
        )
    })
}
