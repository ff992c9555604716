//! Appending rows that come from outside SQL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast;
use parking_lot::Mutex;

use super::execute::{Call, located};
use super::session::{Inner, Session};
use crate::catalog::TableEntry;
use crate::error::{Error, Result, SqlState};
use crate::scan::frame::check_foreign;
use crate::session::Frame;
use crate::statement::{Numbers, dml, unknown_column};
use crate::types::one_nan;

impl Session {
    pub(super) fn append_rows(
        &self,
        inner: &mut Inner,
        table: &str,
        rows: Box<dyn RecordBatchReader + Send>,
        by_name: Option<bool>,
    ) -> Result<u64> {
        // A name is parsed as SQL parses it, so that `"my table"` and `schema.table` work.
        let text = self
            .parse(inner, &format!("TABLE {table}"))
            .or_else(|_| self.parse(inner, &format!("TABLE \"{}\"", table.replace('"', "\"\""))))?;
        let [statement] = text.statements.as_slice() else {
            return Err(no_name(table));
        };
        let name = table_name(&statement.command).ok_or_else(|| no_name(table))?;
        let call = Call::new(statement, Arc::default(), None, self.running.begin());
        let schema = rows.schema();
        // The reader can be read once, so a conflict is the caller's to retry.
        let source = Mutex::new(Some(rows));
        self.run_in_transaction(
            inner,
            &call,
            async |work| {
                let context = work.context;
                context.check_writable("INSERT")?;
                let entry = context.table(&name)?;
                if let Some(refusal) = schema.fields().iter().find_map(|f| Frame::refusal(f)) {
                    return Err(refusal);
                }
                let positions = positions(&entry, &schema, by_name)?;
                let Some(rows) = source.lock().take() else {
                    return Err(Error::new(
                        SqlState::ObjectInUse,
                        format!(
                            "could not append to \"{}\": another transaction was first, and the rows can be read only once",
                            entry.name
                        ),
                    )
                    .with_hint("Append again."));
                };
                let cancellation = Arc::clone(&call.cancellation);
                // The threads that copy the rows make their NaNs one; what is computed with the rows sees that one too.
                let stored_as_given = entry.constraints.is_empty()
                    && entry.indexes.is_empty()
                    && entry.columns.iter().all(|column| column.generated.is_none());
                let mut whole = WholeNumbers::new(&entry, &positions, &schema);
                let batches = futures::stream::iter(
                    rows.map(move |batch| {
                        // A caller's stream may have no end, and nothing here waits.
                        cancellation.check().map_err(DataFusionError::from)?;
                        let batch = batch.map_err(DataFusionError::from)?;
                        batch.columns().iter().try_for_each(check_foreign)?;
                        let columns = batch.columns().iter().map(|column| {
                            match stored_as_given && column.data_type().is_floating() {
                                true => Ok(Arc::clone(column)),
                                false => one_nan(column),
                            }
                        });
                        let columns: Vec<ArrayRef> =
                            columns.collect::<std::result::Result<_, _>>()?;
                        whole.check(&columns)?;
                        Ok(batch_of(&batch, columns)?)
                    }),
                );
                let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(
                    Arc::clone(&schema),
                    batches,
                ));
                dml::load(context, &entry, &positions, stream, Numbers::Own).await
            },
            &text.source,
        )
        .map_err(|error| {
            let state = match error.state {
                SqlState::ObjectInUse => SqlState::SerializationFailure,
                state => state,
            };
            located(Error { state, ..error }, &text.source)
        })
    }
}

/// The columns of floating point numbers and decimals that go to columns of integers. An INSERT would round them; rows that are appended lose
/// nothing.
struct WholeNumbers {
    /// Of each such column, its place and the name of the table's column.
    columns: Vec<(usize, String)>,
    /// Rows that were there before.
    rows: usize,
}

impl WholeNumbers {
    fn new(
        entry: &TableEntry,
        positions: &[usize],
        schema: &arrow::datatypes::SchemaRef,
    ) -> WholeNumbers {
        let columns = schema.fields().iter().zip(positions).enumerate();
        let columns = columns.filter_map(|(place, (given, &position))| {
            let column = &entry.columns[position].field;
            let fractions = match given.data_type() {
                DataType::Decimal128(_, scale) => *scale > 0,
                other => other.is_floating(),
            };
            (fractions && column.data_type().is_integer()).then(|| (place, column.name().clone()))
        });
        WholeNumbers {
            columns: columns.collect(),
            rows: 0,
        }
    }

    /// 22003 for a number with a fraction.
    fn check(&mut self, batch: &[ArrayRef]) -> Result<()> {
        for (place, name) in &self.columns {
            if let Some((row, value)) = first_fraction(&batch[*place])? {
                return Err(Error::new(
                    SqlState::NumericValueOutOfRange,
                    format!(
                        "{value} in row {} is no value of column \"{name}\", which holds integers",
                        self.rows + row + 1
                    ),
                )
                .with_hint("Round the values first, or append to a column of doubles."));
            }
        }
        self.rows += batch.first().map_or(0, |column| column.len());
        Ok(())
    }
}

/// The first number that is not whole, with its place.
fn first_fraction(values: &ArrayRef) -> Result<Option<(usize, String)>> {
    if let DataType::Decimal128(_, scale) = values.data_type() {
        let one = 10_i128.pow(u32::try_from(*scale).unwrap_or(0));
        let decimals = values.as_primitive::<Decimal128Type>();
        let mut rows = decimals.iter().enumerate();
        let found = rows.find(|(_, value)| value.is_some_and(|value| value % one != 0));
        return Ok(found.map(|(row, _)| (row, decimals.value_as_string(row))));
    }
    let doubles = arrow::compute::cast(values, &DataType::Float64)?;
    let mut rows = doubles.as_primitive::<Float64Type>().iter().enumerate();
    Ok(rows.find_map(|(row, value)| {
        let fraction = value.filter(|value| value.fract().abs() > 0.0)?;
        Some((row, fraction.to_string()))
    }))
}

/// A batch with other columns.
fn batch_of(
    batch: &RecordBatch,
    columns: Vec<ArrayRef>,
) -> std::result::Result<RecordBatch, ArrowError> {
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &rows)
}

/// The table's column for each column of the rows. `by_name` is as [`Session::append`] has it.
fn positions(
    entry: &TableEntry,
    schema: &arrow::datatypes::SchemaRef,
    by_name: Option<bool>,
) -> Result<Vec<usize>> {
    let given = schema.fields().len();
    if by_name != Some(true) {
        // Generated columns take no values: rows may leave them out.
        let taking = entry.given_columns();
        let places = match given == taking.len() {
            true => taking,
            false => (0..entry.columns.len()).collect(),
        };
        if given != places.len() {
            return Err(Error::new(
                SqlState::DatatypeMismatch,
                format!(
                    "table \"{}\" has {} columns, but the rows have {given}",
                    entry.name,
                    entry.columns.len()
                ),
            ));
        }
        if by_name.is_none() {
            check_order(entry, schema, &places)?;
        }
        return Ok(places);
    }
    let mut positions = Vec::with_capacity(given);
    for field in schema.fields() {
        let position = entry
            .column(field.name())
            .ok_or_else(|| unknown_column(entry, field.name()))?;
        if positions.contains(&position) {
            return Err(Error::new(
                SqlState::DuplicateColumn,
                format!("column \"{}\" specified more than once", field.name()),
            ));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// 42804 where a column of the rows has the name of another column of the table than the one that its place stands for.
fn check_order(
    entry: &TableEntry,
    schema: &arrow::datatypes::SchemaRef,
    places: &[usize],
) -> Result<()> {
    for (number, (field, &place)) in schema.fields().iter().zip(places).enumerate() {
        let own = entry.columns[place].field.name();
        if own.eq_ignore_ascii_case(field.name()) {
            continue;
        }
        if let Some(other) = entry.column(field.name())
            && other != place
        {
            return Err(Error::new(
                SqlState::DatatypeMismatch,
                format!(
                    "column {} of the rows is called \"{}\", but column {} of table \"{}\" is \"{own}\"",
                    number + 1,
                    field.name(),
                    place + 1,
                    entry.name
                ),
            )
            .with_hint(
                "Pass by_name=True to match columns by their names, by_name=False to match them by their order whatever they are called.",
            ));
        }
    }
    Ok(())
}

fn table_name(command: &crate::parse::Command) -> Option<ast::ObjectName> {
    let crate::parse::Command::Sql(statement) = command else {
        return None;
    };
    let ast::Statement::Query(query) = statement.as_ref() else {
        return None;
    };
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    match select.from.as_slice() {
        [from] if from.joins.is_empty() => match &from.relation {
            ast::TableFactor::Table {
                name, args: None, ..
            } => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn no_name(table: &str) -> Error {
    Error::new(
        SqlState::UndefinedTable,
        format!("\"{table}\" is no name of a table"),
    )
}
