//! Carries a domain below the operators of a subquery, to where its columns are named.
//!
//! `push(P)` yields the rows of `P` for every row of the domain, with that row's columns, the keys, beside them. Where `P` names no outer
//! column, that is the cross product. Every operator above keeps the rows of different keys apart: it groups, partitions, ranks
//! and joins by the keys too.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, NullEquality, Result as PlanResult, TableReference};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Expr, ExprFunctionExt, Filter, GroupingSet,
    Join, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr,
    SubqueryAlias, Union, Unnest, Values, Window, cast, lit, when,
};

use super::domain::Domain;
use super::{Names, shape};
use crate::Error;

/// A plan for every row of the domain, and the columns that say which.
#[derive(Debug)]
pub(super) struct Pushed {
    pub(super) plan: LogicalPlan,
    pub(super) keys: Vec<Column>,
}

impl Pushed {
    /// Under a table's name.
    pub(super) fn aliased(self, alias: TableReference) -> PlanResult<Pushed> {
        let keys = self
            .keys
            .into_iter()
            .map(|key| Column::new(Some(alias.clone()), key.name))
            .collect();
        let plan = SubqueryAlias::try_new(Arc::new(self.plan), alias)?;
        Ok(Pushed {
            plan: LogicalPlan::SubqueryAlias(plan),
            keys,
        })
    }

    fn key_expressions(&self) -> impl Iterator<Item = Expr> + '_ {
        self.keys.iter().cloned().map(Expr::Column)
    }
}

/// The rows of `plan` for every row of the domain.
pub(super) fn push(plan: LogicalPlan, domain: &Domain, names: &mut Names) -> PlanResult<Pushed> {
    if !names_domain(&plan, domain)? {
        return product(plan, domain, names);
    }
    Pushing { domain, names }.node(plan)
}

fn names_domain(plan: &LogicalPlan, domain: &Domain) -> PlanResult<bool> {
    let mut named = false;
    shape::each_outer(plan, &mut |column| {
        named |= domain.position(column).is_some();
    })?;
    Ok(named)
}

fn product(plan: LogicalPlan, domain: &Domain, names: &mut Names) -> PlanResult<Pushed> {
    if domain.columns().is_empty() {
        return Ok(Pushed {
            plan,
            keys: Vec::new(),
        });
    }
    let (rows, keys) = domain.rows(names)?;
    if let LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema,
    }) = &plan
        && schema.fields().is_empty()
    {
        return Ok(Pushed { plan: rows, keys });
    }
    let plan = LogicalPlanBuilder::from(rows).cross_join(plan)?.build()?;
    Ok(Pushed { plan, keys })
}

struct Pushing<'a> {
    domain: &'a Domain,
    names: &'a mut Names,
}

impl Pushing<'_> {
    fn push(&mut self, plan: Arc<LogicalPlan>) -> PlanResult<Pushed> {
        push(Arc::unwrap_or_clone(plan), self.domain, self.names)
    }

    /// An expression over pushed rows: the outer columns are keys.
    fn over(&self, expression: Expr, keys: &[Column]) -> PlanResult<Expr> {
        let replaced = expression.transform_up(|part| match part {
            Expr::OuterReferenceColumn(_, ref column) => Ok(match self.domain.position(column) {
                Some(index) => Transformed::yes(Expr::Column(keys[index].clone())),
                None => Transformed::no(part),
            }),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(replaced.data)
    }

    fn sort_over(&self, keys: &[Column], sort: Vec<SortExpr>) -> PlanResult<Vec<SortExpr>> {
        sort.into_iter()
            .map(|mut key| {
                key.expr = self.over(key.expr, keys)?;
                Ok(key)
            })
            .collect()
    }

    fn node(&mut self, plan: LogicalPlan) -> PlanResult<Pushed> {
        match plan {
            LogicalPlan::Projection(node) => self.projection(node),
            LogicalPlan::Filter(node) => {
                let input = self.push(node.input)?;
                let predicate = self.over(node.predicate, &input.keys)?;
                let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input.plan))?);
                Ok(Pushed {
                    plan,
                    keys: input.keys,
                })
            }
            LogicalPlan::SubqueryAlias(node) => self.push(node.input)?.aliased(node.alias),
            LogicalPlan::Subquery(node) => self.push(node.subquery),
            LogicalPlan::Aggregate(node) => self.aggregate(node),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = self.push(input)?;
                Ok(Pushed {
                    plan: LogicalPlan::Distinct(Distinct::All(Arc::new(input.plan))),
                    keys: input.keys,
                })
            }
            LogicalPlan::Distinct(Distinct::On(node)) => self.distinct_on(node),
            LogicalPlan::Sort(node) if node.fetch.is_none() => {
                let input = self.push(node.input)?;
                let expr = self.sort_over(&input.keys, node.expr)?;
                let plan = LogicalPlan::Sort(Sort {
                    expr,
                    input: Arc::new(input.plan),
                    fetch: None,
                });
                Ok(Pushed {
                    plan,
                    keys: input.keys,
                })
            }
            LogicalPlan::Limit(node) => self.limit(node),
            LogicalPlan::Join(node) => self.join(node),
            LogicalPlan::Union(node) => self.union(node),
            LogicalPlan::Window(node) => self.window(node),
            LogicalPlan::Values(node) => self.values(node),
            LogicalPlan::Unnest(node) => {
                let input = self.push(node.input)?;
                let plan = Unnest::try_new(Arc::new(input.plan), node.exec_columns, node.options)?;
                Ok(Pushed {
                    plan: LogicalPlan::Unnest(plan),
                    keys: input.keys,
                })
            }
            other => Err(Error::unsupported(format!(
                "a correlated subquery with {} is not supported",
                other.display()
            ))
            .into()),
        }
    }

    fn projection(&mut self, node: Projection) -> PlanResult<Pushed> {
        let names = NamePreserver::new_for_projection();
        let input = self.push(node.input)?;
        let mut outputs = Vec::with_capacity(node.expr.len() + input.keys.len());
        for expression in node.expr {
            let name = names.save(&expression);
            outputs.push(name.restore(self.over(expression, &input.keys)?));
        }
        outputs.extend(input.key_expressions());
        let plan = Projection::try_new(outputs, Arc::new(input.plan))?;
        Ok(Pushed {
            plan: LogicalPlan::Projection(plan),
            keys: input.keys,
        })
    }

    fn aggregate(&mut self, node: Aggregate) -> PlanResult<Pushed> {
        let outputs = node.schema.columns();
        let input = self.push(node.input)?;
        let names = NamePreserver::new_for_projection();
        let restored = |this: &Self, expression: Expr| -> PlanResult<Expr> {
            let name = names.save(&expression);
            Ok(name.restore(this.over(expression, &input.keys)?))
        };
        let mut groups = Vec::with_capacity(node.group_expr.len() + input.keys.len());
        for group in &node.group_expr {
            if let Expr::GroupingSet(set) = group {
                let keys: Vec<Expr> = input.key_expressions().collect();
                if keys.is_empty() {
                    groups.push(group.clone());
                    continue;
                }
                return Err(Error::unsupported(format!(
                    "{} in a correlated subquery is not supported",
                    match set {
                        GroupingSet::Rollup(_) => "ROLLUP",
                        GroupingSet::Cube(_) => "CUBE",
                        GroupingSet::GroupingSets(_) => "GROUPING SETS",
                    }
                ))
                .into());
            }
            groups.push(restored(self, group.clone())?);
        }
        groups.extend(input.key_expressions());
        let aggregates = node
            .aggr_expr
            .iter()
            .map(|aggregate| restored(self, aggregate.clone()))
            .collect::<PlanResult<Vec<_>>>()?;
        let keys = input.keys;
        let schema = Arc::clone(input.plan.schema());
        let plan = Aggregate::try_new(Arc::new(input.plan), groups, aggregates.clone())?;
        let grouped = Pushed {
            plan: LogicalPlan::Aggregate(plan),
            keys,
        };
        if !node.group_expr.is_empty() || grouped.keys.is_empty() {
            return Ok(grouped);
        }
        // Without groups there is one row for no rows, too: with the keys as groups it went missing.
        let mut values = Vec::with_capacity(outputs.len());
        for (output, aggregate) in outputs.iter().zip(&aggregates) {
            values.push((output.clone(), of_no_rows(aggregate, &schema)?));
        }
        self.with_empty_groups(grouped, values)
    }

    /// Adds a row for every row of the domain that has none; `values` are its columns.
    fn with_empty_groups(
        &mut self,
        grouped: Pushed,
        values: Vec<(Column, Expr)>,
    ) -> PlanResult<Pushed> {
        let found = self.names.next();
        let present = grouped
            .plan
            .schema()
            .columns()
            .into_iter()
            .map(Expr::Column)
            .chain([lit(true).alias(found.as_str())]);
        let present = LogicalPlanBuilder::from(grouped.plan)
            .project(present)?
            .build()?;
        let (rows, keys) = self.domain.rows(self.names)?;
        let matched = self.domain.matches(&keys, &grouped.keys)?;
        let mut outputs = Vec::with_capacity(values.len() + keys.len());
        for (column, value) in values {
            let name = column.name.clone();
            let relation = column.relation.clone();
            let missing = Expr::Column(Column::new_unqualified(found.as_str())).is_null();
            let output = when(missing, value).otherwise(Expr::Column(column))?;
            outputs.push(output.alias_qualified(relation, name));
        }
        outputs.extend(keys.iter().cloned().map(Expr::Column));
        let plan = LogicalPlanBuilder::from(rows)
            .join_on(present, JoinType::Left, matched)?
            .project(outputs)?
            .build()?;
        Ok(Pushed { plan, keys })
    }

    fn distinct_on(&mut self, node: DistinctOn) -> PlanResult<Pushed> {
        let names = NamePreserver::new_for_projection();
        let input = self.push(node.input)?;
        let mut on: Vec<Expr> = input.key_expressions().collect();
        for expression in node.on_expr {
            on.push(self.over(expression, &input.keys)?);
        }
        let mut select = Vec::new();
        for expression in node.select_expr {
            let name = names.save(&expression);
            select.push(name.restore(self.over(expression, &input.keys)?));
        }
        select.extend(input.key_expressions());
        let sort = match node.sort_expr {
            Some(sort) => {
                let mut by: Vec<SortExpr> = input
                    .key_expressions()
                    .map(|key| key.sort(true, true))
                    .collect();
                by.extend(self.sort_over(&input.keys, sort)?);
                Some(by)
            }
            None => None,
        };
        let plan = DistinctOn::try_new(on, select, sort, Arc::new(input.plan))?;
        Ok(Pushed {
            plan: LogicalPlan::Distinct(Distinct::On(plan)),
            keys: input.keys,
        })
    }

    /// A limit holds for each row of the domain: the rows of each are numbered.
    fn limit(&mut self, node: Limit) -> PlanResult<Pushed> {
        let (skip, fetch) = (node.skip, node.fetch);
        let (input, order, outputs) = match Arc::unwrap_or_clone(node.input) {
            LogicalPlan::Sort(sort) => {
                let outputs = sort.input.schema().columns();
                (self.push(sort.input)?, sort.expr, outputs)
            }
            LogicalPlan::Projection(projection)
                if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) =>
            {
                // The order's columns end at the projection: number the rows below it.
                let limited = LogicalPlan::Limit(Limit {
                    skip,
                    fetch,
                    input: projection.input,
                });
                let projection = Projection::try_new_with_schema(
                    projection.expr,
                    Arc::new(limited),
                    projection.schema,
                )?;
                return self.projection(projection);
            }
            other => {
                let outputs = other.schema().columns();
                (self.push(Arc::new(other))?, Vec::new(), outputs)
            }
        };
        let order = self.sort_over(&input.keys, order)?;
        let mut number = row_number();
        let mut window = None;
        if !input.keys.is_empty() {
            window = Some(
                number
                    .clone()
                    .partition_by(input.key_expressions().collect()),
            );
        }
        if !order.is_empty() {
            window = Some(match window {
                Some(window) => window.order_by(order),
                None => number.clone().order_by(order),
            });
        }
        if let Some(window) = window {
            number = window.build()?;
        }
        let column = cast(
            Expr::Column(Column::new_unqualified(number.schema_name().to_string())),
            arrow::datatypes::DataType::Int64,
        );
        let mut kept = Vec::new();
        let skipped = skip.map_or_else(|| lit(0_i64), |skip| *skip);
        if let Some(fetch) = fetch {
            kept.push(column.clone().lt_eq(skipped.clone() + *fetch));
        }
        kept.push(column.gt(skipped));
        let predicate = kept
            .into_iter()
            .reduce(Expr::and)
            .unwrap_or_else(|| lit(true));
        let outputs = outputs
            .into_iter()
            .chain(input.keys.iter().cloned())
            .map(Expr::Column);
        let plan = LogicalPlanBuilder::from(input.plan)
            .window([number])?
            .filter(predicate)?
            .project(outputs)?
            .build()?;
        Ok(Pushed {
            plan,
            keys: input.keys,
        })
    }

    fn join(&mut self, node: Join) -> PlanResult<Pushed> {
        let left_names = names_domain(&node.left, self.domain)?;
        let right_names = names_domain(&node.right, self.domain)?;
        // A side may go without the domain where its rows are not kept for themselves.
        let (left_pushed, right_pushed) = match node.join_type {
            JoinType::Inner => (left_names || !right_names, right_names),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (true, right_names)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (left_names, true)
            }
            JoinType::Full => (true, true),
        };
        let side = |this: &mut Self, plan: Arc<LogicalPlan>, pushed: bool| {
            if pushed {
                this.push(plan)
                    .map(|pushed| (pushed.plan, Some(pushed.keys)))
            } else {
                Ok((Arc::unwrap_or_clone(plan), None))
            }
        };
        let outputs = node.schema.columns();
        let (left, left_keys) = side(self, node.left, left_pushed)?;
        let (right, right_keys) = side(self, node.right, right_pushed)?;
        let named = match node.join_type {
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                right_keys.clone()
            }
            _ => left_keys.clone().or_else(|| right_keys.clone()),
        };
        let named = named.ok_or_else(|| Error::internal("a correlated join has keys"))?;
        let mut conditions = Vec::new();
        // The rows of INTERSECT and EXCEPT are alike where both are NULL. The domain's columns are compared as what is never NULL.
        let alike = match node.null_equality {
            NullEquality::NullEqualsNull => node.on.clone(),
            NullEquality::NullEqualsNothing => {
                let equal = node.on.into_iter();
                conditions.extend(equal.map(|(left, right)| left.eq(right)));
                Vec::new()
            }
        };
        if let Some(filter) = node.filter {
            conditions.push(self.over(filter, &named)?);
        }
        if let (Some(left), Some(right)) = (&left_keys, &right_keys) {
            conditions.extend(self.domain.matches(left, right)?);
        }
        if conditions.is_empty() {
            conditions.push(lit(true));
        }
        let joined = match alike.is_empty() {
            true => LogicalPlanBuilder::from(left).join_on(right, node.join_type, conditions)?,
            false => LogicalPlanBuilder::from(LogicalPlan::Join(Join::try_new(
                Arc::new(left),
                Arc::new(right),
                alike,
                conjunction(conditions),
                node.join_type,
                node.join_constraint,
                node.null_equality,
                node.null_aware,
            )?)),
        };
        if node.join_type != JoinType::Full {
            return Ok(Pushed {
                plan: joined.build()?,
                keys: named,
            });
        }
        // The key is the side's that has a row; a NULL of both stands for NULL.
        let right_keys = right_keys.unwrap_or_default();
        let mut keys = Vec::with_capacity(named.len());
        let mut projected: Vec<Expr> = outputs.into_iter().map(Expr::Column).collect();
        for (left, right) in named.iter().zip(&right_keys) {
            let key = self.names.next();
            let both = vec![Expr::Column(left.clone()), Expr::Column(right.clone())];
            projected
                .push(datafusion::functions::core::expr_fn::coalesce(both).alias(key.as_str()));
            keys.push(Column::new_unqualified(key));
        }
        let plan = joined.project(projected)?.build()?;
        Ok(Pushed { plan, keys })
    }

    fn union(&mut self, node: Union) -> PlanResult<Pushed> {
        let keys: Vec<String> = self
            .domain
            .columns()
            .iter()
            .map(|_| self.names.next())
            .collect();
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in node.inputs {
            let outputs = input.schema().columns();
            let pushed = self.push(input)?;
            let columns = outputs.into_iter().map(Expr::Column).chain(
                pushed
                    .key_expressions()
                    .zip(&keys)
                    .map(|(key, name)| key.alias(name.as_str())),
            );
            let columns: Vec<Expr> = columns.collect();
            let plan = LogicalPlanBuilder::from(pushed.plan)
                .project(columns)?
                .build()?;
            inputs.push(Arc::new(plan));
        }
        let union = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let columns = union.schema().columns();
        let keys = columns[columns.len() - keys.len()..].to_vec();
        Ok(Pushed { plan: union, keys })
    }

    fn window(&mut self, node: Window) -> PlanResult<Pushed> {
        let outputs = node.schema.columns();
        let input = self.push(node.input)?;
        let kept = outputs.len() - node.window_expr.len();
        let mut windows = Vec::with_capacity(node.window_expr.len());
        for expression in node.window_expr {
            let over = self.over(expression, &input.keys)?;
            let partitioned = over.transform_up(|part| match part {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(input.key_expressions());
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            windows.push(partitioned.data);
        }
        let renamed = outputs[kept..]
            .iter()
            .zip(&windows)
            .map(|(output, window)| {
                let column = Column::new_unqualified(window.schema_name().to_string());
                Expr::Column(column).alias_qualified(output.relation.clone(), output.name.as_str())
            });
        let projected: Vec<Expr> = outputs[..kept]
            .iter()
            .cloned()
            .map(Expr::Column)
            .chain(renamed)
            .chain(input.key_expressions())
            .collect();
        let plan = LogicalPlanBuilder::window_plan(input.plan, windows.iter().cloned())?;
        let plan = LogicalPlanBuilder::from(plan).project(projected)?.build()?;
        Ok(Pushed {
            plan,
            keys: input.keys,
        })
    }

    /// Rows of expressions, each a projection of its own.
    fn values(&mut self, node: Values) -> PlanResult<Pushed> {
        let fields: Vec<_> = node.schema.fields().iter().cloned().collect();
        let mut inputs = Vec::with_capacity(node.values.len());
        for row in node.values {
            let outputs: Vec<Expr> = row
                .into_iter()
                .zip(&fields)
                .map(|(value, field)| cast(value, field.data_type().clone()).alias(field.name()))
                .collect();
            let plan = LogicalPlanBuilder::empty(true).project(outputs)?.build()?;
            inputs.push(Arc::new(plan));
        }
        match inputs.len() {
            1 => self.push(inputs.swap_remove(0)),
            _ => self.union(Union::try_new_with_loose_types(inputs)?),
        }
    }
}

/// What an aggregate yields for no rows.
fn of_no_rows(aggregate: &Expr, schema: &datafusion::common::DFSchema) -> PlanResult<Expr> {
    use datafusion::logical_expr::ExprSchemable;
    let value = aggregate.clone().unalias().transform_up(|part| {
        if let Expr::AggregateFunction(function) = &part {
            let value = function.func.default_value(&part.get_type(schema)?)?;
            return Ok(Transformed::yes(lit(value)));
        }
        Ok(Transformed::no(part))
    })?;
    Ok(value.data)
}
