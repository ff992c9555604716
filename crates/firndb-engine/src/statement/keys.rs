//! Keys of expressions and of some rows only: what storage asks for when it keeps such an index.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr as LogicalExpr, ExprSchemable, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::sql::sqlparser::ast;
use firndb_storage::{Form, IndexDefinition, KeyProgram};

use super::context::table_columns;
use super::{Scope, StatementContext};
use crate::catalog::{IndexEntry, IndexKey, TableEntry};
use crate::scan::index::{IndexPath, PathPart};
use crate::types::{self, Refinement};
use crate::{Error, Result, SqlState};

/// What storage is to keep for an index.
pub(crate) fn index_definition(
    context: &StatementContext,
    table: &TableEntry,
    index: &IndexEntry,
) -> Result<IndexDefinition> {
    let order = index.parts.iter().map(|part| SortOptions {
        descending: part.descending,
        nulls_first: part.nulls_first,
    });
    let mut definition = IndexDefinition {
        name: index.name.clone(),
        columns: Vec::new(),
        unique: index.unique,
        order: order.collect(),
        program: None,
    };
    if let Some(columns) = index.columns() {
        for &column in &columns {
            check_type(
                table.columns[column].field.name(),
                table.stored_schema().field(column).data_type(),
            )?;
        }
        definition.columns = columns;
        return Ok(definition);
    }
    let (columns, program) = Program::new(context, table, index)?;
    definition.columns = columns;
    definition.program = Some(Arc::new(program));
    Ok(definition)
}

/// The indexes of a table that a scan in a form may use. An index whose expressions do not plan is none.
pub(crate) fn index_paths(scope: &Scope, table: &TableEntry, form: Form) -> Vec<IndexPath> {
    let column = |position: usize| -> Option<PathPart> {
        let field = &table.columns.get(position)?.field;
        let stored = table.stored_schema().field(position);
        Some(PathPart {
            expression: LogicalExpr::Column(Column::from_name(stored.name())),
            data_type: form.data_type(stored.data_type()),
            ordered: !matches!(
                Refinement::of(field),
                Refinement::Enum(_) | Refinement::Json
            ),
            nullable: field.is_nullable(),
        })
    };
    let of_constraints = table.constraints.iter().filter_map(|constraint| {
        let parts = constraint.key()?.iter().map(|&position| column(position));
        Some(IndexPath {
            name: constraint.name().to_owned(),
            parts: parts.collect::<Option<Vec<_>>>()?,
            predicate: None,
            nulls: false,
        })
    });
    let made = table.indexes.iter().filter_map(|index| {
        let parts = index.parts.iter().map(|part| match &part.key {
            IndexKey::Column(position) => column(*position),
            IndexKey::Expression(expression) => {
                let planned = planned(scope, table, expression, form).ok()?;
                Some(PathPart {
                    data_type: planned.1,
                    expression: planned.0,
                    ordered: true,
                    nullable: true,
                })
            }
        });
        let predicate = match &index.predicate {
            Some(predicate) => Some(planned(scope, table, predicate, form).ok()?.0),
            None => None,
        };
        Some(IndexPath {
            name: index.name.clone(),
            parts: parts.collect::<Option<Vec<_>>>()?,
            predicate,
            nulls: !index.unique,
        })
    });
    of_constraints.chain(made).collect()
}

/// An expression as a scan's filters have it, with its type.
fn planned(
    scope: &Scope,
    table: &TableEntry,
    expression: &ast::Expr,
    form: Form,
) -> Result<(LogicalExpr, DataType)> {
    let schema = table_columns(table)?;
    let planned = scope.expression(expression, &schema)?;
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(scope.state.config_options()))
        .with_query_execution_start_time(Some(scope.started))
        .build();
    let simplifier = ExprSimplifier::new(context);
    let simplified = simplifier.simplify(simplifier.coerce(planned, &schema)?)?;
    let data_type = simplified.get_type(&schema)?;
    // Scans see the columns under the names that they are stored with.
    let names = table.folded_names();
    let stored = form.schema(table.stored_schema());
    let renamed = simplified.transform(|node| {
        Ok(match node {
            LogicalExpr::Column(column) => {
                let position = names.iter().position(|name| *name == column.name);
                let name = position.map_or(column.name, |at| stored.field(at).name().clone());
                Transformed::yes(LogicalExpr::Column(Column::from_name(name)))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok((renamed.data, data_type))
}

/// Refuses types whose values make no keys.
fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    if data_type.is_nested() || matches!(data_type, DataType::Interval(_) | DataType::Null) {
        return Err(Error::unsupported(format!(
            "an index over \"{name}\" of type {} is not supported",
            types::sql_name(&Field::new(name, data_type.clone(), true))
        )));
    }
    Ok(())
}

/// The keys of an index that is not over columns alone.
#[derive(Debug)]
struct Program {
    types: Vec<DataType>,
    names: Vec<String>,
    parts: Vec<Arc<dyn PhysicalExpr>>,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
}

impl Program {
    /// The columns that are read, and what becomes of them.
    fn new(
        context: &StatementContext,
        table: &TableEntry,
        index: &IndexEntry,
    ) -> Result<(Vec<usize>, Self)> {
        for expression in index.expressions() {
            check_immutable(context, table, expression)?;
        }
        let compute = Form::Compute.schema(table.stored_schema());
        let names = table.folded_names();
        let mut parts = Vec::with_capacity(index.parts.len());
        for part in &index.parts {
            let expression = match &part.key {
                IndexKey::Expression(expression) => expression.clone(),
                IndexKey::Column(position) => {
                    ast::Expr::Identifier(ast::Ident::with_quote('"', names[*position].clone()))
                }
            };
            parts.push(context.row_expression(table, &expression)?);
        }
        let predicate = match &index.predicate {
            Some(predicate) => Some(context.row_expression(table, predicate)?),
            None => None,
        };
        let mut read: Vec<usize> = parts
            .iter()
            .chain(&predicate)
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        read.sort_unstable();
        read.dedup();
        if read.is_empty() {
            // Rows are counted by the columns that are read.
            read.push(0);
        }
        let fields: Vec<Field> = read
            .iter()
            .map(|&column| {
                let field = compute.field(column).clone();
                field.with_name(names[column].clone()).with_nullable(true)
            })
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let parts = parts
            .into_iter()
            .map(|part| Ok(reassign_expr_columns(part, &schema)?))
            .collect::<Result<Vec<_>>>()?;
        let predicate = predicate
            .map(|predicate| reassign_expr_columns(predicate, &schema))
            .transpose()?;
        let names = index.part_names(table);
        let mut types = Vec::with_capacity(parts.len());
        for (part, name) in parts.iter().zip(&names) {
            let data_type = match part.data_type(&schema)? {
                DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
                DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
                DataType::Dictionary(_, values) => values.as_ref().clone(),
                other => other,
            };
            check_type(name, &data_type)?;
            types.push(data_type);
        }
        if let Some(predicate) = &predicate {
            let data_type = predicate.data_type(&schema)?;
            if data_type != DataType::Boolean {
                return Err(Error::new(
                    SqlState::DatatypeMismatch,
                    format!(
                        "argument of WHERE must be type boolean, not type {}",
                        types::sql_name(&Field::new("predicate", data_type, true)).to_lowercase()
                    ),
                ));
            }
        }
        let program = Program {
            types,
            names,
            parts,
            predicate,
            schema,
        };
        Ok((read, program))
    }

    fn evaluate(
        &self,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.to_vec();
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let kept = match &self.predicate {
            Some(predicate) => {
                let kept = predicate.evaluate(&batch)?.into_array(rows)?;
                Some(kept.as_boolean().clone())
            }
            None => None,
        };
        // Rows outside of a partial index are not asked for their keys, which may not be there: 1 / x WHERE x <> 0.
        let outside = kept.as_ref().is_some_and(|kept| kept.true_count() < rows);
        let (batch, inside) = match &kept {
            Some(kept) if outside => {
                let inside = match kept.null_count() {
                    0 => kept.clone(),
                    _ => arrow::compute::prep_null_mask_filter(kept),
                };
                let batch = arrow::compute::filter_record_batch(&batch, &inside)?;
                (batch, Some(inside))
            }
            _ => (batch, None),
        };
        let mut parts = Vec::with_capacity(self.parts.len());
        for (part, data_type) in self.parts.iter().zip(&self.types) {
            let values = part.evaluate(&batch)?.into_array(batch.num_rows())?;
            let values = match values.data_type() == data_type {
                true => values,
                false => cast(&values, data_type)?,
            };
            parts.push(match &inside {
                Some(inside) => spread(&values, inside)?,
                None => values,
            });
        }
        Ok((parts, kept))
    }
}

/// Values at the places of a mask, NULLs at the others.
fn spread(values: &ArrayRef, mask: &BooleanArray) -> Result<ArrayRef> {
    let mut next = 0;
    let places: arrow::array::UInt64Array = mask
        .values()
        .iter()
        .map(|inside| {
            inside.then(|| {
                next += 1;
                next - 1
            })
        })
        .collect();
    Ok(arrow::compute::take(values, &places, None)?)
}

impl KeyProgram for Program {
    fn types(&self) -> &[DataType] {
        &self.types
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn keys(
        &self,
        columns: &[ArrayRef],
        rows: usize,
    ) -> firndb_storage::Result<(Vec<ArrayRef>, Option<BooleanArray>)> {
        let evaluated = catch_unwind(AssertUnwindSafe(|| self.evaluate(columns, rows)))
            .unwrap_or_else(|_| Err(Error::internal("an index's expression panicked")));
        evaluated.map_err(|error| firndb_storage::Error::Key(Box::new(error)))
    }
}

/// 42P17 for an expression whose value depends on more than the row: the time, the session's zone, chance, other rows.
pub(crate) fn check_immutable(
    context: &StatementContext,
    table: &TableEntry,
    expression: &ast::Expr,
) -> Result<()> {
    let schema = table_columns(table)?;
    let planned = context.scope.expression(expression, &schema)?;
    let mut refused = None;
    planned.apply(|node| {
        match node {
            LogicalExpr::ScalarFunction(function)
                if function.func.signature().volatility != Volatility::Immutable =>
            {
                refused = Some("functions in index expression must be marked IMMUTABLE");
            }
            LogicalExpr::ScalarSubquery(_)
            | LogicalExpr::InSubquery(_)
            | LogicalExpr::SetComparison(_)
            | LogicalExpr::Exists(_) => refused = Some("cannot use subquery in index expression"),
            LogicalExpr::AggregateFunction(_) => {
                refused = Some("aggregate functions are not allowed in index expressions");
            }
            LogicalExpr::WindowFunction(_) => {
                refused = Some("window functions are not allowed in index expressions");
            }
            LogicalExpr::Column(_) if matches!(&planned, LogicalExpr::Column(_)) => {}
            node => {
                // What such a time looks like depends on the session's zone.
                if let Ok(DataType::Timestamp(_, Some(_))) = node.get_type(&schema) {
                    refused = Some(
                        "expressions over timestamps with time zone depend on the session and cannot be indexed",
                    );
                }
            }
        }
        Ok(match refused {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    match refused {
        Some(message) => Err(Error::new(SqlState::InvalidObjectDefinition, message)),
        None => Ok(()),
    }
}
