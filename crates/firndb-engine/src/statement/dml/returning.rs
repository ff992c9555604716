//! RETURNING: the rows that a statement wrote or deleted, through a select list.
//!
//! The rows are gathered while they are written, in the order of the statement's query, and the select list is evaluated over
//! them after the writes. Its subqueries still read the statement's snapshot. A list of bare columns needs no plan.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast;
use futures::TryStreamExt;

use super::Target;
use super::query::{Template, alone, always, select, target_columns};
use crate::Result;
use crate::session::Rows;

/// The rows of a RETURNING clause.
pub(super) struct Returning {
    list: List,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

enum List {
    /// Columns of the target: position and output.
    Columns(Vec<usize>, SchemaRef),
    /// Anything else.
    Expressions(Template),
}

impl Returning {
    /// Prepares a RETURNING clause over the target's columns alone.
    pub(super) async fn over_target(
        target: &Target<'_>,
        items: &[ast::SelectItem],
        with: Option<&ast::With>,
    ) -> Result<Self> {
        if let Some((columns, output)) = bare_columns(target, items) {
            return Ok(Returning {
                list: List::Columns(columns, output),
                schema: nullable(target.schema()),
                batches: Vec::new(),
            });
        }
        let from = target_columns(target.column_names(), target.name());
        Returning::over(target, items, vec![alone(from)], with).await
    }

    /// Prepares a RETURNING clause over relations, of which one is the target without its slots.
    pub(super) async fn over(
        target: &Target<'_>,
        items: &[ast::SelectItem],
        from: Vec<ast::TableWithJoins>,
        with: Option<&ast::With>,
    ) -> Result<Self> {
        let query = select(with, items.to_vec(), from, Some(always()));
        let template = Template::plan(target.context(), &query, target, "RETURNING").await?;
        Ok(Returning {
            schema: template.row_schema(&[])?,
            list: List::Expressions(template),
            batches: Vec::new(),
        })
    }

    /// Adds rows: the columns of the relations in their order.
    pub(super) fn add(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<()> {
        if rows > 0 {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let schema = Arc::clone(&self.schema);
            self.batches.push(RecordBatch::try_new_with_options(
                schema, columns, &options,
            )?);
        }
        Ok(())
    }

    /// Evaluates the select list.
    pub(super) async fn finish(self, target: &Target<'_>) -> Result<Rows> {
        match self.list {
            List::Columns(columns, output) => {
                let batches = self
                    .batches
                    .iter()
                    .map(|batch| {
                        let columns = columns
                            .iter()
                            .map(|&column| Arc::clone(batch.column(column)))
                            .collect();
                        RecordBatch::try_new(Arc::clone(&output), columns)
                    })
                    .collect::<std::result::Result<Vec<_>, _>>()?;
                Ok(Rows::from_batches(output, batches))
            }
            List::Expressions(template) => {
                let plan = template.over_batches(0, self.schema, self.batches)?;
                let context = target.context();
                let stream = context.run(plan).await?;
                let fields = stream.schema();
                let fields = fields.fields().iter().map(|field| {
                    let name = context.written_name(field.name());
                    field.as_ref().clone().with_name(name)
                });
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                let batches: Vec<RecordBatch> = stream.try_collect().await?;
                let batches = batches
                    .into_iter()
                    .map(|batch| {
                        let rows = Some(batch.num_rows());
                        let options = RecordBatchOptions::new().with_row_count(rows);
                        let columns = batch.columns().to_vec();
                        RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)
                    })
                    .collect::<std::result::Result<_, _>>()?;
                Ok(Rows::from_batches(schema, batches))
            }
        }
    }
}

/// The columns that a select list names, if it holds nothing but columns of the target.
fn bare_columns(target: &Target, items: &[ast::SelectItem]) -> Option<(Vec<usize>, SchemaRef)> {
    let mut columns = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    let stored = target.schema();
    for item in items {
        let (expression, name) = match item {
            ast::SelectItem::UnnamedExpr(expression) => (expression, None),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            ast::SelectItem::Wildcard(options)
                if *options == ast::WildcardAdditionalOptions::default() =>
            {
                for column in 0..target.width() {
                    columns.push(column);
                    fields.push(stored.field(column).clone());
                }
                continue;
            }
            _ => return None,
        };
        let column = match expression {
            ast::Expr::Identifier(column) => column,
            ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, column]
                    if qualifier.value.eq_ignore_ascii_case(&target.name().value) =>
                {
                    column
                }
                _ => return None,
            },
            _ => return None,
        };
        let column = target.find(column).ok()?;
        let field = stored.field(column).clone();
        columns.push(column);
        fields.push(match name {
            Some(name) => field.with_name(target.context().written_name(&name.value)),
            None => field,
        });
    }
    Some((columns, Arc::new(Schema::new(fields))))
}

fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
