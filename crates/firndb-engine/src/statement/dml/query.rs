//! Generated queries: the reading half of every write.
//!
//! ```text
//! UPDATE t SET x = e FROM f WHERE c      SELECT t.__slot, e FROM __firndb_target AS t, f WHERE c
//!                                         └────────── expressions ┘ └────── scope ─────┘ └ condition
//! ```
//!
//! A statement's parts keep their places in the generated query, so names, subqueries and LATERAL mean what they mean in SQL.
//! Where a statement evaluates expressions over rows that it holds already (RETURNING, DO UPDATE, the branches of MERGE), the
//! query is planned as if it read the tables, and a [`Template`] then puts the rows in the place of its scope.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection};
use datafusion::sql::sqlparser::ast::{self, helpers::attached_token::AttachedToken};

use crate::statement::syntax::bare_query;
use crate::statement::{StatementContext, TARGET};
use crate::{Error, Result};

/// The last column of the target relation.
pub(super) const SLOT: &str = "__slot";

/// An identifier that means exactly `name`.
pub(super) fn identifier(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

/// `qualifier.name`.
pub(super) fn column(qualifier: &ast::Ident, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![qualifier.clone(), identifier(name)])
}

/// `expression AS __firndb_<number>`: a name that no other output has.
pub(super) fn output(expression: ast::Expr, number: usize) -> ast::SelectItem {
    ast::SelectItem::ExprWithAlias {
        expr: expression,
        alias: identifier(&format!("__firndb_{number}")),
    }
}

/// `NULL`.
pub(super) fn null() -> ast::Expr {
    ast::Expr::Value(ast::Value::Null.into())
}

/// `true`.
pub(super) fn always() -> ast::Expr {
    ast::Expr::Value(ast::Value::Boolean(true).into())
}

/// Whether an expression is the keyword DEFAULT, which the parser takes for a name.
pub(super) fn is_default(expression: &ast::Expr) -> bool {
    matches!(expression, ast::Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// An alias without columns.
pub(super) fn alias(name: &ast::Ident) -> ast::TableAlias {
    ast::TableAlias {
        explicit: true,
        name: name.clone(),
        columns: Vec::new(),
        at: None,
    }
}

/// `__firndb_target AS name`.
pub(super) fn target(name: &ast::Ident) -> ast::TableFactor {
    ast::TableFactor::Table {
        name: ast::ObjectName::from(vec![ast::Ident::new(TARGET)]),
        alias: Some(alias(name)),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

/// `(SELECT columns FROM __firndb_target) AS name`: the target without its slots.
pub(super) fn target_columns(columns: &[String], name: &ast::Ident) -> ast::TableFactor {
    let projection = columns
        .iter()
        .map(|column| ast::SelectItem::UnnamedExpr(ast::Expr::Identifier(identifier(column))))
        .collect();
    let inner = target(&identifier(TARGET));
    derived(select(None, projection, vec![alone(inner)], None), name)
}

/// `(query) AS name`.
pub(super) fn derived(query: ast::Query, name: &ast::Ident) -> ast::TableFactor {
    ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(alias(name)),
        sample: None,
    }
}

/// A relation that is joined with nothing.
pub(super) fn alone(relation: ast::TableFactor) -> ast::TableWithJoins {
    ast::TableWithJoins {
        relation,
        joins: Vec::new(),
    }
}

/// `WITH … SELECT projection FROM from WHERE condition`.
pub(super) fn select(
    with: Option<&ast::With>,
    projection: Vec<ast::SelectItem>,
    from: Vec<ast::TableWithJoins>,
    condition: Option<ast::Expr>,
) -> ast::Query {
    let select = ast::Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection: condition,
        connect_by: Vec::new(),
        group_by: ast::GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    };
    query(with, ast::SetExpr::Select(Box::new(select)))
}

/// `WITH … body`.
pub(super) fn query(with: Option<&ast::With>, body: ast::SetExpr) -> ast::Query {
    ast::Query {
        with: with.cloned(),
        ..bare_query(body)
    }
}

/// A planned `SELECT expressions FROM scope WHERE condition`, taken apart.
#[derive(Debug, Clone)]
pub(super) struct Template {
    expressions: Vec<Expr>,
    condition: Expr,
    scope: Arc<LogicalPlan>,
}

impl Template {
    /// Plans a query made by [`select`] with a condition. `place` names the clause for the error that aggregates, windows and
    /// set-returning functions get: they would put another operator between the expressions and their scope.
    pub(super) async fn plan(
        context: &StatementContext,
        query: &ast::Query,
        target: &super::Target<'_>,
        place: &str,
    ) -> Result<Template> {
        let plan = context.plan_query(query, Some(target.entry())).await?;
        let refusal = || {
            Error::new(
                crate::SqlState::GroupingError,
                format!("aggregate, window and set-returning functions are not allowed in {place}"),
            )
        };
        let LogicalPlan::Projection(projection) = plan else {
            return Err(refusal());
        };
        let LogicalPlan::Filter(filter) = projection.input.as_ref() else {
            return Err(refusal());
        };
        Ok(Template {
            expressions: projection.expr,
            condition: filter.predicate.clone(),
            scope: Arc::clone(&filter.input),
        })
    }

    /// The columns that the expressions range over.
    pub(super) fn scope(&self) -> &DFSchema {
        self.scope.schema()
    }

    /// The query itself, followed by the scope's columns from position `first` on.
    pub(super) fn with_scope(self, first: usize) -> Result<LogicalPlan> {
        let scope: Vec<Expr> = self.scope_columns().skip(first).collect();
        let expressions = self.expressions.into_iter().chain(
            scope
                .into_iter()
                .enumerate()
                .map(|(number, column)| column.alias(format!("__firndb_scope_{number}"))),
        );
        finish(expressions.collect(), self.condition, self.scope)
    }

    /// The expressions over `rows`, where the condition holds. The columns of `rows` are the scope's; `carried` columns go
    /// through to the front of the output.
    pub(super) fn over(
        &self,
        carried: &[ArrayRef],
        rows: &[ArrayRef],
        count: usize,
    ) -> Result<LogicalPlan> {
        let types: Vec<_> = carried
            .iter()
            .map(|array| array.data_type().clone())
            .collect();
        let schema = self.row_schema(&types)?;
        let columns = carried.iter().chain(rows).cloned().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
        self.over_batches(carried.len(), schema, vec![batch])
    }

    /// The schema of rows for [`Template::over_batches`]: carried columns of these types, then the scope's.
    pub(super) fn row_schema(&self, carried: &[arrow::datatypes::DataType]) -> Result<SchemaRef> {
        let carried = carried
            .iter()
            .enumerate()
            .map(|(number, kind)| Field::new(format!("carried_{number}"), kind.clone(), true));
        let scope = self.scope().fields().iter().enumerate();
        let scope = scope.map(|(number, field)| {
            field
                .as_ref()
                .clone()
                .with_name(format!("column_{number}"))
                .with_nullable(true)
        });
        Ok(Arc::new(Schema::new(
            carried.chain(scope).collect::<Vec<_>>(),
        )))
    }

    /// As [`Template::over`], for batches of [`Template::row_schema`].
    pub(super) fn over_batches(
        &self,
        carried: usize,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<LogicalPlan> {
        let table = MemTable::try_new(Arc::clone(&schema), vec![batches])?;
        let source = provider_as_source(Arc::new(table));
        let scan = LogicalPlanBuilder::scan("__firndb_rows", source, None)?.build()?;
        let names = scan.schema().columns();
        let (first, rest) = names.split_at(carried);
        let passed = first
            .iter()
            .enumerate()
            .map(|(number, column)| (column.clone(), format!("__firndb_carried_{number}")));
        let passed: Vec<(Column, String)> = passed.collect();
        let renamed = rest
            .iter()
            .zip(self.scope().iter())
            .map(|(column, (qualifier, field))| {
                Expr::Column(column.clone())
                    .alias_qualified(qualifier.cloned(), field.name().clone())
            });
        let inner = passed
            .iter()
            .map(|(column, name)| Expr::Column(column.clone()).alias(name.clone()))
            .chain(renamed)
            .collect();
        let scope = LogicalPlan::Projection(Projection::try_new(inner, Arc::new(scan))?);
        let outer = passed
            .iter()
            .map(|(_, name)| Expr::Column(Column::new_unqualified(name.clone())))
            .chain(self.expressions.iter().cloned())
            .collect();
        finish(outer, self.condition.clone(), Arc::new(scope))
    }

    fn scope_columns(&self) -> impl Iterator<Item = Expr> {
        self.scope
            .schema()
            .iter()
            .map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))))
    }
}

fn finish(expressions: Vec<Expr>, condition: Expr, scope: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let filter = LogicalPlan::Filter(Filter::try_new(condition, scope)?);
    let projection = Projection::try_new(expressions, Arc::new(filter))?;
    Ok(LogicalPlan::Projection(projection))
}
