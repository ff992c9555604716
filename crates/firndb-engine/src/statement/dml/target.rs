//! The table that a statement writes to: its columns by name, its defaults and its constraints.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::ColumnarValue;
use datafusion::sql::sqlparser::ast;
use firndb_storage::{Form, Slot};
use parking_lot::Mutex;

use super::generated::Generated;
use super::query::identifier;
use super::reference::Noted;
use crate::catalog::{Constraint, Identity, TableEntry, fold};
use crate::statement::{StatementContext, unknown_column};
use crate::types::Refinement;
use crate::{Error, Result, SqlState, expr};

/// Characters of a value that an error's detail shows.
const SHOWN_CHARACTERS: usize = 64;

/// A table while one statement writes to it.
pub(super) struct Target<'a> {
    context: &'a StatementContext,
    entry: Arc<TableEntry>,
    name: ast::Ident,
    schema: SchemaRef,
    names: Vec<String>,
    checks: Vec<Check>,
    generated: Vec<Generated>,
    /// What an INSERT says of values given to identity columns.
    overriding: Option<Overriding>,
    /// What its writes mean for foreign keys.
    noted: Mutex<Noted>,
}

/// What OVERRIDING says of the values given to identity columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overriding {
    /// They are taken.
    System,
    /// The columns' own are taken instead.
    User,
}

/// A CHECK over the columns that it reads.
struct Check {
    name: String,
    condition: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

/// Columns of rows about to be written, by position in the table; the others keep their stored values.
pub(super) struct Proposed<'a> {
    /// Values in `Form::Compute`, or as a load gives them, where known.
    pub(super) columns: &'a [Option<ArrayRef>],
    /// Number of rows.
    pub(super) rows: usize,
    /// The stored rows that they replace; none for new rows.
    pub(super) slots: Option<&'a [Slot]>,
}

impl<'a> Target<'a> {
    /// Finds the table; `alias` is the name that the statement gives it.
    pub(super) fn new(
        context: &'a StatementContext,
        name: &ast::ObjectName,
        alias: Option<&ast::Ident>,
    ) -> Result<Self> {
        let entry = context.table(name)?;
        let last = name.0.last().and_then(|part| part.as_ident());
        let name = alias
            .or(last)
            .cloned()
            .unwrap_or_else(|| identifier(&fold(&entry.name)));
        Target::of(context, entry, name)
    }

    /// A table that is at hand.
    pub(super) fn of(
        context: &'a StatementContext,
        entry: Arc<TableEntry>,
        name: ast::Ident,
    ) -> Result<Self> {
        let schema = Form::Compute.schema(entry.stored_schema());
        let checks = entry
            .constraints
            .iter()
            .filter_map(|constraint| match constraint {
                Constraint::Check { name, condition } => {
                    Some(Check::new(context, &entry, &schema, name, condition))
                }
                _ => None,
            })
            .collect::<Result<_>>()?;
        let generated = Generated::of(context, &entry, &schema)?;
        Ok(Target {
            overriding: None,
            generated,
            context,
            names: entry.folded_names(),
            entry,
            name,
            schema,
            checks,
            noted: Mutex::default(),
        })
    }

    /// What the statement runs with.
    pub(super) fn context(&self) -> &'a StatementContext {
        self.context
    }

    /// What queries call a column.
    pub(super) fn folded_name(&self, column: usize) -> &str {
        &self.names[column]
    }

    /// The table's entry in the catalog.
    pub(super) fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// The table's storage.
    pub(super) fn table(&self) -> &firndb_storage::Table {
        &self.entry.table
    }

    /// The name that stands for the table's rows in the statement.
    pub(super) fn name(&self) -> &ast::Ident {
        &self.name
    }

    /// The table's columns in `Form::Compute`.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of columns.
    pub(super) fn width(&self) -> usize {
        self.schema.fields().len()
    }

    /// The names under which queries see the columns.
    pub(super) fn column_names(&self) -> &[String] {
        &self.names
    }

    /// The position of a column named in a column list or a SET clause: `column`, or `table.column`.
    pub(super) fn position(&self, name: &ast::ObjectName) -> Result<usize> {
        let parts: Option<Vec<&ast::Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let column = match parts.as_deref() {
            Some([column]) => column,
            Some([qualifier, column]) if self.is_called(qualifier) => column,
            _ => {
                return Err(Error::unsupported(format!(
                    "assignment to part of a column is not supported: {name}"
                )));
            }
        };
        self.find(column)
    }

    /// Whether a name is the table's, or the one that the statement gives it.
    pub(super) fn is_called(&self, name: &ast::Ident) -> bool {
        name.value.eq_ignore_ascii_case(&self.name.value)
            || name.value.eq_ignore_ascii_case(&self.entry.name)
    }

    /// The position of a column: exact case first, then without regard to case.
    pub(super) fn find(&self, column: &ast::Ident) -> Result<usize> {
        let fields = self.schema.fields();
        if let Some(exact) = fields
            .iter()
            .position(|field| *field.name() == column.value)
        {
            return Ok(exact);
        }
        let folded = fold(&column.value);
        let mut matches =
            (0..fields.len()).filter(|&position| fold(fields[position].name()) == folded);
        match (matches.next(), matches.next()) {
            (Some(position), None) => Ok(position),
            (Some(_), Some(_)) => Err(Error::new(
                SqlState::AmbiguousColumn,
                format!("column reference \"{}\" is ambiguous", column.value),
            )),
            (None, _) => Err(unknown_column(&self.entry, &column.value)),
        }
    }

    /// Converts values to a column's type, as assignment does.
    pub(super) fn assign(&self, values: &ArrayRef, column: usize) -> Result<ArrayRef> {
        let wanted = self.schema.field(column).data_type();
        if *values.data_type() == DataType::Null {
            return Ok(new_null_array(wanted, values.len()));
        }
        let zone = expr::session_zone(self.context.scope.state.config_options())?;
        let assigned = expr::assign_in(values, &self.entry.columns[column].field, zone)?;
        if assigned.data_type() == wanted {
            return Ok(assigned);
        }
        Ok(cast(&assigned, wanted)?)
    }

    /// As [`Target::assign`] for rows that go straight to storage: what storage takes as it is, is not converted first.
    pub(super) fn accept(&self, values: &ArrayRef, column: usize) -> Result<ArrayRef> {
        let field = &self.entry.columns[column].field;
        if Refinement::of(field) == Refinement::None
            && is_stored_as(values.data_type(), field.data_type())
        {
            return Ok(Arc::clone(values));
        }
        self.assign(values, column)
    }

    /// A column's default for each of `rows` new rows. Volatile defaults are evaluated row by row.
    pub(super) fn default(&self, column: usize, rows: usize) -> Result<ArrayRef> {
        let Some(default) = &self.entry.columns[column].default else {
            return Ok(new_null_array(self.schema.field(column).data_type(), rows));
        };
        if let Some(value) = super::values::constant(default) {
            return repeat(&self.assign(&value.to_array()?, column)?, rows);
        }
        let compiled = self.context.row_expression(&self.entry, default)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let empty =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        match compiled.evaluate(&empty)? {
            ColumnarValue::Array(values) => self.assign(&values, column),
            ColumnarValue::Scalar(value) => {
                let one = self.assign(&value.to_array_of_size(1)?, column)?;
                repeat(&one, rows)
            }
        }
    }

    /// A column's default as an expression.
    pub(super) fn default_expression(&self, column: usize) -> ast::Expr {
        let default = self.entry.columns[column].default.clone();
        default.map_or_else(super::query::null, |default| {
            ast::Expr::Nested(Box::new(default))
        })
    }

    /// The columns that must be at hand to check rows of which only `written` change.
    pub(super) fn columns_to_check(&self, written: &[usize]) -> Vec<usize> {
        let changed = self.with_generated(written);
        let mut needed: Vec<usize> = self
            .checks
            .iter()
            .filter(|check| check.reads_any(&changed))
            .flat_map(|check| check.columns.iter().copied())
            .filter(|column| !changed.contains(column))
            .collect();
        let made = self
            .generated
            .iter()
            .filter(|one| changed.contains(&one.column));
        needed.extend(
            made.flat_map(|one| one.read.iter().copied())
                .filter(|column| !written.contains(column)),
        );
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Whether a column is generated.
    pub(super) fn is_generated(&self, column: usize) -> bool {
        self.generated.iter().any(|one| one.column == column)
    }

    /// Whether a column takes no value but its own.
    pub(super) fn is_own(&self, column: usize) -> bool {
        self.is_generated(column)
            || self.overriding.is_none()
                && self.entry.columns[column].identity == Some(Identity::Always)
    }

    /// Takes what OVERRIDING says.
    pub(super) fn override_identities(&mut self, overriding: Option<Overriding>) {
        self.overriding = overriding;
    }

    /// Whether a column takes its own value in place of the one given: OVERRIDING USER VALUE.
    pub(super) fn takes_own(&self, column: usize) -> bool {
        self.overriding == Some(Overriding::User) && self.entry.columns[column].identity.is_some()
    }

    /// Gives new rows their numbers in AUTOINCREMENT columns where they have none, and goes on beyond those that they have.
    pub(super) fn number(&self, columns: &mut [Option<ArrayRef>], given: &[usize]) -> Result<()> {
        for &column in given {
            let entry = &self.entry.columns[column];
            let (Some(Identity::AutoIncrement), Some((schema, name)), Some(values)) =
                (entry.identity, &entry.sequence, &columns[column])
            else {
                continue;
            };
            let Some(sequence) = self.context.catalog.sequence(schema, name) else {
                continue;
            };
            let values = cast(values, &DataType::Int64)?;
            let values = values.as_primitive::<arrow::datatypes::Int64Type>();
            let mut numbered = Vec::with_capacity(values.len());
            for value in values {
                numbered.push(match value {
                    Some(value) => {
                        sequence.pass(value)?;
                        value
                    }
                    None => sequence.next()?,
                });
            }
            let numbered: ArrayRef = Arc::new(arrow::array::Int64Array::from(numbered));
            columns[column] = Some(self.assign(&numbered, column)?);
        }
        Ok(())
    }

    /// Columns that are written, and the generated ones that change with them.
    pub(super) fn with_generated(&self, written: &[usize]) -> Vec<usize> {
        let changed = self.generated.iter().filter(|one| one.reads_any(written));
        let changed = changed.map(|one| one.column);
        written.iter().copied().chain(changed).collect()
    }

    /// Computes the generated columns of new rows.
    pub(super) fn generate(&self, columns: &mut [Option<ArrayRef>], rows: usize) -> Result<()> {
        for generated in &self.generated {
            let values = generated.values(self, columns, rows)?;
            columns[generated.column] = Some(values);
        }
        Ok(())
    }

    /// Computes the generated columns of rows in which `written` change to `values`, and adds them there.
    pub(super) fn regenerate(
        &self,
        written: &[usize],
        values: &mut Vec<ArrayRef>,
        known: &mut [Option<ArrayRef>],
        rows: usize,
    ) -> Result<()> {
        for generated in self.generated.iter().filter(|one| one.reads_any(written)) {
            let made = generated.values(self, known, rows)?;
            known[generated.column] = Some(Arc::clone(&made));
            values.push(made);
        }
        Ok(())
    }

    /// NOT NULL and CHECK: the first row that breaks one is reported.
    ///
    /// For new rows all columns are given. For changed rows NOT NULL is checked where a column is given, and CHECK where all
    /// columns that it reads are given, which [`Target::columns_to_check`] sees to; the others hold since they held before.
    pub(super) fn enforce(&self, proposed: &Proposed) -> Result<()> {
        let mut first: Option<(usize, Broken)> = None;
        for (position, column) in proposed.columns.iter().enumerate() {
            // Storage's own field may be laxer: SET NOT NULL changes the catalog alone.
            let nullable = self.entry.columns[position].field.is_nullable();
            let (Some(column), false) = (column, nullable) else {
                continue;
            };
            let Some(nulls) = column
                .logical_nulls()
                .filter(|nulls| nulls.null_count() > 0)
            else {
                continue;
            };
            let row = (0..column.len()).find(|&row| nulls.is_null(row));
            keep_first(&mut first, row, Broken::NotNull(position));
        }
        for check in &self.checks {
            let columns: Option<Vec<ArrayRef>> = check
                .columns
                .iter()
                .map(|&column| proposed.columns[column].clone())
                .collect();
            if let Some(columns) = columns {
                let row = check.first_failure(columns, proposed.rows)?;
                keep_first(&mut first, row, Broken::Check(&check.name));
            }
        }
        match first {
            None => Ok(()),
            Some((row, broken)) => Err(self.violation(proposed, row, broken)),
        }
    }

    /// New rows to be inserted, as storage takes them; they have passed [`Target::enforce`].
    pub(super) fn inserted(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        if self.entry.has_references() && rows > 0 {
            self.noted.lock().insert(&self.entry, &columns);
        }
        self.batch(columns, rows)
    }

    /// Rows as storage takes them.
    pub(super) fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let fields = self.schema.fields().iter();
        let mut differ = fields.clone().zip(&columns);
        let schema = if differ.any(|(field, column)| field.data_type() != column.data_type()) {
            let fields = fields.zip(&columns).map(|(field, column)| {
                let kind = column.data_type().clone();
                field.as_ref().clone().with_data_type(kind)
            });
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        } else {
            Arc::clone(&self.schema)
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }

    /// The stored rows at `slots`, all columns.
    pub(super) fn read(&self, slots: &[Slot]) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.width()).collect();
        Ok(self
            .table()
            .read(&self.context.snapshot, slots, &all, Form::Compute)?)
    }

    /// Replaces the values of columns in stored rows.
    pub(super) fn update(
        &self,
        slots: &[Slot],
        columns: &[usize],
        values: Vec<ArrayRef>,
    ) -> Result<()> {
        if self.entry.has_references() {
            self.noted
                .lock()
                .update(&self.entry, columns, &values, |columns| {
                    self.read_columns(slots, columns)
                })?;
        }
        let fields: Vec<FieldRef> = columns
            .iter()
            .map(|&column| Arc::clone(&self.schema.fields()[column]))
            .collect();
        let values = RecordBatch::try_new(Arc::new(Schema::new(fields)), values)?;
        let transaction = &self.context.transaction;
        Ok(self.table().update(transaction, slots, columns, &values)?)
    }

    /// Deletes stored rows.
    pub(super) fn delete(&self, slots: &[Slot]) -> Result<()> {
        if self.entry.has_references() {
            self.noted
                .lock()
                .delete(&self.entry, |columns| self.read_columns(slots, columns))?;
        }
        Ok(self.table().delete(&self.context.transaction, slots)?)
    }

    fn read_columns(&self, slots: &[Slot], columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let snapshot = &self.context.snapshot;
        let rows = self.table().read(snapshot, slots, columns, Form::Compute)?;
        Ok(rows.columns().to_vec())
    }

    /// What its writes mean for foreign keys, up to now.
    pub(super) fn take_noted(&self) -> Noted {
        std::mem::take(&mut *self.noted.lock())
    }

    /// Unique and foreign keys, at the end of the statement.
    pub(super) fn complete(&self) -> Result<()> {
        self.table().check_unique(&self.context.transaction)?;
        if !self.entry.has_references() {
            return Ok(());
        }
        super::reference::settle(self.context, &self.entry, self.take_noted())
    }

    fn violation(&self, proposed: &Proposed, row: usize, broken: Broken) -> Error {
        let error = match broken {
            Broken::NotNull(column) => Error::new(
                SqlState::NotNullViolation,
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    self.schema.field(column).name(),
                    self.entry.name
                ),
            ),
            Broken::Check(name) => Error::new(
                SqlState::CheckViolation,
                format!(
                    "new row for relation \"{}\" violates check constraint \"{name}\"",
                    self.entry.name
                ),
            ),
        };
        match self.describe(proposed, row) {
            Ok(text) => error.with_detail(format!("Failing row contains ({text}).")),
            Err(_) => error,
        }
    }

    /// A row as text, its values separated by commas.
    fn describe(&self, proposed: &Proposed, row: usize) -> Result<String> {
        let stored = match proposed.slots {
            Some(slots) => Some(self.read(&slots[row..=row])?),
            None => None,
        };
        let mut values = Vec::with_capacity(self.width());
        for position in 0..self.width() {
            let (array, row) = match (&proposed.columns[position], &stored) {
                (Some(array), _) => (array, row),
                (None, Some(stored)) => (stored.column(position), 0),
                (None, None) => return Err(Error::internal("a new row lacks a column")),
            };
            values.push(show(array, row)?);
        }
        Ok(values.join(", "))
    }
}

impl Check {
    fn new(
        context: &StatementContext,
        entry: &TableEntry,
        schema: &Schema,
        name: &str,
        condition: &ast::Expr,
    ) -> Result<Self> {
        let condition = context.row_expression(entry, condition)?;
        let mut read: Vec<_> = collect_columns(&condition).into_iter().collect();
        read.sort_unstable_by_key(|column| column.index());
        let fields: Vec<Field> = read
            .iter()
            .map(|column| {
                let field = schema.field(column.index()).clone();
                field.with_name(column.name()).with_nullable(true)
            })
            .collect();
        let columns = read.iter().map(|column| column.index()).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Check {
            name: name.to_owned(),
            condition: reassign_expr_columns(condition, &schema)?,
            columns,
            schema,
        })
    }

    fn reads_any(&self, written: &[usize]) -> bool {
        self.columns.iter().any(|column| written.contains(column))
    }

    /// The first row for which the condition is false.
    fn first_failure(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<Option<usize>> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        // Text may come with offsets or as views.
        let columns = columns
            .iter()
            .zip(self.schema.fields())
            .map(|(column, field)| arrow::compute::cast(column, field.data_type()))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let holds = self.condition.evaluate(&batch)?.into_array(rows)?;
        if *holds.data_type() == DataType::Null {
            return Ok(None);
        }
        let holds: &BooleanArray = holds.as_boolean_opt().ok_or_else(|| {
            Error::new(
                SqlState::DatatypeMismatch,
                format!("check constraint \"{}\" is not boolean", self.name),
            )
        })?;
        if holds.false_count() == 0 {
            return Ok(None);
        }
        Ok((0..rows).find(|&row| holds.is_valid(row) && !holds.value(row)))
    }
}

enum Broken<'a> {
    NotNull(usize),
    Check(&'a str),
}

fn keep_first<'a>(first: &mut Option<(usize, Broken<'a>)>, row: Option<usize>, broken: Broken<'a>) {
    if let Some(row) = row
        && first.as_ref().is_none_or(|(earlier, _)| row < *earlier)
    {
        *first = Some((row, broken));
    }
}

/// Whether storage takes `given` for a column of type `stored`, value by value the same.
fn is_stored_as(given: &DataType, stored: &DataType) -> bool {
    match (stored, given) {
        (DataType::Utf8, DataType::LargeUtf8 | DataType::Utf8View) => true,
        (DataType::Binary, DataType::LargeBinary | DataType::BinaryView) => true,
        (
            DataType::Decimal64(precision, scale) | DataType::Decimal128(precision, scale),
            DataType::Decimal64(given_precision, given_scale)
            | DataType::Decimal128(given_precision, given_scale),
        ) => precision == given_precision && scale == given_scale,
        _ => stored == given,
    }
}

/// One value as many times as there are rows.
pub(super) fn repeat(one: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    if rows == 1 {
        return Ok(Arc::clone(one));
    }
    let first = arrow::array::UInt64Array::from_value(0, rows);
    Ok(take(one, &first, None)?)
}

fn show(array: &ArrayRef, row: usize) -> Result<String> {
    let options = FormatOptions::default().with_null("null");
    let text = ArrayFormatter::try_new(array.as_ref(), &options)?
        .value(row)
        .try_to_string()?;
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => Ok(format!("{}...", &text[..end])),
        None => Ok(text),
    }
}
