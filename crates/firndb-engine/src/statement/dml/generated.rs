//! Generated columns: computed whenever a row is written, stored like any other.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::sql::sqlparser::ast;

use super::Target;
use crate::catalog::TableEntry;
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState};

/// A generated column and the columns that it is computed from.
pub(super) struct Generated {
    pub(super) column: usize,
    expression: Arc<dyn PhysicalExpr>,
    pub(super) read: Vec<usize>,
    schema: SchemaRef,
}

impl Generated {
    /// Compiles the generated columns of a table, whose scans have this schema.
    pub(super) fn of(
        context: &StatementContext,
        entry: &TableEntry,
        schema: &Schema,
    ) -> Result<Vec<Self>> {
        let columns = entry.columns.iter().enumerate();
        columns
            .filter_map(|(position, column)| Some((position, column.generated.as_ref()?)))
            .map(|(position, expression)| {
                Generated::new(context, entry, schema, position, expression)
            })
            .collect()
    }

    fn new(
        context: &StatementContext,
        entry: &TableEntry,
        schema: &Schema,
        column: usize,
        expression: &ast::Expr,
    ) -> Result<Self> {
        let expression = context.row_expression(entry, expression)?;
        let mut read: Vec<_> = collect_columns(&expression).into_iter().collect();
        read.sort_unstable_by_key(|column| column.index());
        let fields: Vec<Field> = read
            .iter()
            .map(|column| {
                let field = schema.field(column.index()).clone();
                field.with_name(column.name()).with_nullable(true)
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Generated {
            column,
            expression: reassign_expr_columns(expression, &schema)?,
            read: read.iter().map(|column| column.index()).collect(),
            schema,
        })
    }

    /// Whether it changes with any of these columns.
    pub(super) fn reads_any(&self, written: &[usize]) -> bool {
        self.read.iter().any(|column| written.contains(column))
    }

    /// Its values in rows of which `columns` are known.
    pub(super) fn values(
        &self,
        target: &Target,
        columns: &[Option<ArrayRef>],
        rows: usize,
    ) -> Result<ArrayRef> {
        let known = self
            .read
            .iter()
            .zip(self.schema.fields())
            .map(|(&column, field)| {
                let values = columns[column].as_ref().ok_or_else(|| {
                    Error::internal("a generated column lacks what it is made of")
                })?;
                // Text may come with offsets or as views.
                Ok(arrow::compute::cast(values, field.data_type())?)
            });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let known = known.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), known, &options)?;
        let values = self.expression.evaluate(&batch)?.into_array(rows)?;
        target.assign(&values, self.column)
    }
}

fn kind(target: &Target, column: usize) -> String {
    let name = target.schema().field(column).name();
    match target.is_generated(column) {
        true => format!("Column \"{name}\" is a generated column."),
        false => format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."),
    }
}

/// 428C9 for a value given to a generated column by INSERT.
pub(super) fn refuse_insert(target: &Target, column: usize) -> Error {
    let name = target.schema().field(column).name();
    Error::new(
        SqlState::GeneratedAlways,
        format!("cannot insert a non-DEFAULT value into column \"{name}\""),
    )
    .with_detail(kind(target, column))
}

/// 428C9 for a value given to a generated column by UPDATE.
pub(super) fn refuse_update(target: &Target, column: usize) -> Error {
    let name = target.schema().field(column).name();
    Error::new(
        SqlState::GeneratedAlways,
        format!("column \"{name}\" can only be updated to DEFAULT"),
    )
    .with_detail(kind(target, column))
}
