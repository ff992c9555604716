//! Forms of queries that the planner lacks or reads differently than SQL means them, marked for planners of our own.
//!
//! ```text
//! WITH a … (WITH a …)      ─▶  the inner name becomes one of its own
//! l INTERSECT ALL r        ─▶  SELECT * FROM (l INTERSECT ALL r) AS <mark>          planned by `multiset`
//! SELECT … ORDER BY ALL    ─▶  SELECT * FROM (SELECT … ORDER BY ALL) AS <mark>
//! SELECT … l JOIN r USING  ─▶  SELECT * FROM (SELECT … l JOIN r USING …) AS <mark>  planned by `merged`
//! (… UNION …), (SELECT CASE …) ─▶  SELECT * FROM (…) AS <mark>                      typed before what is above them
//! (… GROUP BY …)           ─▶  SELECT * FROM (… GROUP BY …) AS <mark>               whose columns determine nothing
//! SELECT x.a, y.a UNION …  ─▶  SELECT * FROM (SELECT x.a, y.a …) AS <mark> UNION …  planned by `apart`
//! SELECT … ORDER BY a + 1  ─▶  SELECT * FROM (SELECT … ORDER BY a + 1) AS <mark>    planned by `sorted`
//! ```
//!
//! A marked subquery reaches [`Relations`] with everything in sight that its place sees: common table expressions and
//! the columns of outer queries.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use datafusion::common::{Column, Result as PlanResult};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{self as logical, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::sql::planner::NullOrdering;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, FunctionArguments, Ident, OrderByKind, Query, Select,
    SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor, TimezoneInfo, Value, VisitMut,
    VisitorMut, visit_expressions,
};

use super::names::{
    Renames, decide_branches, name_columns, name_members, name_outer_columns, partly_named,
    tell_casts_apart,
};
use super::recursive_terms;
use super::syntax::{bare_query, derived, no_rows, select_from};
use super::{
    apart, conditions, dependencies, grouping_sets, merged, multiset, pivot, positional, sorted,
};
use crate::catalog::DATABASE;
use crate::parse::{POSITIONAL, UNIQUE, call};

/// The alias of a marked set operation; no user's name starts like this.
const MULTISET: &str = "__firndb_multiset";
/// The alias of a marked query over joins whose columns merge.
const MERGED: &str = "__firndb_merged";

/// The alias of a marked query whose ORDER BY may mean columns by the names of outputs.
const SORTED: &str = "__firndb_sorted";

/// The alias of a marked query whose columns have the types of several branches.
const SETTLED: &str = "__firndb_settled";

/// The alias of a marked query in FROM that groups.
const GROUPED: &str = "__firndb_grouped";

/// The alias of a marked query with ORDER BY ALL.
const ORDERED: &str = "__firndb_ordered";

/// The alias of a marked branch of a set operation whose columns may have equal names.
const BRANCH: &str = "__firndb_branch";

/// The planners of marked relations.
pub(super) fn relation_planners() -> &'static [Arc<dyn RelationPlanner>] {
    static PLANNERS: LazyLock<Vec<Arc<dyn RelationPlanner>>> =
        LazyLock::new(|| vec![Arc::new(Relations)]);
    &PLANNERS
}

/// Marks the forms of a query, or of an expression, that are planned by us; `schema` is what `current_schema` yields.
/// In a query that a write is `fed` by, operators around its select list would be in the way of the write.
pub(super) fn mark<T: VisitMut>(syntax: &mut T, schema: Option<&str>, fed: bool) {
    let mut marker = Marker {
        recursive: HashSet::new(),
        schema,
        fed,
        around: Vec::new(),
        renamed: 0,
    };
    let ControlFlow::Continue(()) = syntax.visit(&mut marker);
}

/// Plans marked subqueries.
#[derive(Debug)]
struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> PlanResult<RelationPlanning> {
        if let Some(plan) = partly_named(&relation, context)? {
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
                plan, None,
            ))));
        }
        if let Some(plan) = pivot::plan(&relation, context)? {
            return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
                plan, None,
            ))));
        }
        let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = &relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = match alias.name.value.as_str() {
            MULTISET => multiset::plan(subquery.as_ref().clone(), context)?,
            BRANCH => apart::branch(subquery.as_ref().clone(), context)?,
            MERGED => merged::plan(subquery.as_ref().clone(), context)?,
            SETTLED => {
                let plan = context.plan(derived(subquery.as_ref().clone(), None))?;
                dependencies::independent(crate::expr::settled(grouping_sets::rewrite(plan)?)?)?
            }
            GROUPED => {
                let plan = context.plan(derived(subquery.as_ref().clone(), None))?;
                dependencies::independent(plan)?
            }
            POSITIONAL => positional::plan(subquery.as_ref().clone(), context)?,
            SORTED => sorted::plan(subquery.as_ref().clone(), context)?,
            ORDERED => ordered(subquery.as_ref().clone(), context)?,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(
            plan, None,
        ))))
    }
}

/// A query sorted by all of its columns.
fn ordered(mut query: Query, context: &mut dyn RelationPlannerContext) -> PlanResult<LogicalPlan> {
    let order = query.order_by.take().map(|order| order.kind);
    let plan = context.plan(derived(query, None))?;
    let Some(OrderByKind::All(options)) = order else {
        return Ok(plan);
    };
    let ascending = options.asc.unwrap_or(true);
    let nulls = &context
        .context_provider()
        .options()
        .sql_parser
        .default_null_ordering;
    let nulls: NullOrdering = nulls.parse()?;
    let nulls_first = options.nulls_first.unwrap_or(nulls.nulls_first(ascending));
    let keys: Vec<SortExpr> = plan
        .schema()
        .iter()
        .map(|column| logical::Expr::Column(Column::from(column)).sort(ascending, nulls_first))
        .collect();
    LogicalPlanBuilder::from(plan).sort(keys)?.build()
}

struct Marker<'a> {
    /// The queries of recursive common table expressions, whose unions are the planner's own.
    recursive: HashSet<*const Query>,
    schema: Option<&'a str>,
    fed: bool,
    /// Names of the common table expressions of the queries around.
    around: Vec<HashSet<String>>,
    renamed: usize,
}

impl VisitorMut for Marker<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Some(with) = query.with.as_mut().filter(|with| with.recursive) {
            for table in &mut with.cte_tables {
                recursive_terms::read_in_from(table);
            }
            let tables = with.cte_tables.iter();
            self.recursive
                .extend(tables.map(|table| std::ptr::from_ref(table.query.as_ref())));
        }
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        self.around
            .push(names.map(|table| table.alias.name.value.clone()).collect());
        ControlFlow::Continue(())
    }

    /// What the session is: functions that PostgreSQL also has without parentheses.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        conditions::of_expression(expr);
        if let Expr::Function(function) = expr {
            tell_casts_apart(function);
            decide_branches(function);
        }
        let called = matches!(expr, Expr::Function(_));
        let name = match expr {
            Expr::Identifier(name) if name.quote_style.is_none() => name.value.as_str(),
            Expr::Function(function) => match (function.name.0.as_slice(), &function.args) {
                ([name], FunctionArguments::None) => name.as_ident().map_or("", |n| &n.value),
                ([name], FunctionArguments::List(list)) if list.args.is_empty() => {
                    name.as_ident().map_or("", |name| name.value.as_str())
                }
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        let value = match name {
            "current_schema" => self.schema,
            "current_catalog" => Some(DATABASE),
            "current_database" if called => Some(DATABASE),
            "current_user" | "session_user" | "current_role" => Some(DATABASE),
            "user" if called => Some(DATABASE),
            "localtime" => {
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(call("now", Vec::new())),
                    data_type: SqlType::Time(None, TimezoneInfo::None),
                    array: false,
                    format: None,
                };
                return ControlFlow::Continue(());
            }
            "localtimestamp" => {
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(call("now", Vec::new())),
                    data_type: SqlType::Timestamp(None, TimezoneInfo::None),
                    array: false,
                    format: None,
                };
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        *expr = Expr::value(match value {
            Some(value) => Value::SingleQuotedString(value.to_owned()),
            None => Value::Null,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        conditions::of_select(select);
        // Deeper down, such a name may be a column of an outer query; ORDER BY after DISTINCT knows the expression only.
        if self.around.len() == 1 && select.distinct.is_none() {
            name_members(select);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Derived {
            lateral: true,
            subquery,
            ..
        } = factor
        {
            name_outer_columns(&mut subquery.body);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        if let TableFactor::Derived { subquery, .. } = factor
            && dependencies::groups(subquery)
        {
            wrap(subquery, GROUPED);
        }
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            conditions::of_joins([table_with_joins.as_mut()]);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.around.pop();
        let tables = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        for table in tables.filter(|table| dependencies::groups(&table.query)) {
            wrap(&mut table.query, GROUPED);
        }
        let settles = !self.around.is_empty()
            && !self.recursive.contains(&std::ptr::from_ref(query))
            && has_branches(&query.body);
        name_columns(query);
        apart::tell_keys_apart(query);
        apart::tell_predicates_apart(query);
        self.rename_hiding(query);
        if let Some(order) = query
            .order_by
            .take_if(|order| matches!(order.kind, OrderByKind::All(_)))
        {
            let mut body = std::mem::replace(query.body.as_mut(), SetExpr::Values(no_rows()));
            mark_body(&mut body, self.fed);
            let inner = Query {
                order_by: Some(order),
                ..bare_query(body)
            };
            *query.body = select_from(inner, ORDERED);
        } else if let SetExpr::Select(select) = query.body.as_ref()
            && let merges = (merged::concerns(select) || (!self.fed && merged::repeats(select)))
            && (merges || sorted::concerns(query))
        {
            let inner = Query {
                with: None,
                body: std::mem::replace(&mut query.body, Box::new(SetExpr::Values(no_rows()))),
                order_by: query.order_by.take(),
                limit_clause: query.limit_clause.take(),
                ..bare_query(SetExpr::Values(no_rows()))
            };
            *query.body = select_from(inner, if merges { MERGED } else { SORTED });
        } else {
            mark_body(&mut query.body, self.fed);
        }
        if settles {
            wrap(query, SETTLED);
        }
        ControlFlow::Continue(())
    }
}

/// Marks a query as a whole, but for its common table expressions.
fn wrap(query: &mut Query, mark: &str) {
    let inner = Query {
        order_by: query.order_by.take(),
        limit_clause: query.limit_clause.take(),
        ..bare_query(std::mem::replace(
            query.body.as_mut(),
            SetExpr::Values(no_rows()),
        ))
    };
    *query.body = select_from(inner, mark);
}

/// Whether a query's columns may have the types of several branches: of a set operation, or of a CASE.
fn has_branches(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { .. } => true,
        SetExpr::Query(inner) => has_branches(&inner.body),
        SetExpr::Select(select) => select.projection.iter().any(|item| {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
            else {
                return false;
            };
            visit_expressions(expr, |part| match part {
                Expr::Case { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .is_break()
        }),
        _ => false,
    }
}

impl Marker<'_> {
    /// Renames common table expressions that hide others: the planner wants each name once.
    fn rename_hiding(&mut self, query: &mut Query) {
        let Some(with) = &mut query.with else {
            return;
        };
        let hides = |name: &str| self.around.iter().any(|names| names.contains(name));
        let recursive = with.recursive;
        let mut renames = Renames::default();
        for table in &mut with.cte_tables {
            let old = table.alias.name.value.clone();
            let hiding = hides(&old);
            if hiding {
                self.renamed += 1;
            }
            let new = format!("{old}{UNIQUE}{}", self.renamed);
            if hiding && recursive {
                renames.names.insert(old.clone(), new.clone());
            }
            let ControlFlow::Continue(()) = table.query.visit(&mut renames);
            if hiding {
                renames.names.insert(old, new.clone());
                table.alias.name.value = new;
            }
        }
        if renames.names.is_empty() {
            return;
        }
        let ControlFlow::Continue(()) = query.body.visit(&mut renames);
        if let Some(order) = &mut query.order_by {
            let ControlFlow::Continue(()) = order.visit(&mut renames);
        }
    }
}

/// Rows with subqueries, which VALUES of DataFusion's cannot hold, as a UNION ALL of SELECTs.
fn rows_with_subqueries(body: &mut SetExpr) {
    let SetExpr::Values(values) = body else {
        return;
    };
    let subquery = |expr: &Expr| {
        visit_expressions(expr, |part| match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    if !values
        .rows
        .iter()
        .any(|row| row.content.iter().any(subquery))
    {
        return;
    }
    let selects = std::mem::take(&mut values.rows).into_iter().map(|row| {
        let mut select = select_from(bare_query(SetExpr::Values(no_rows())), MULTISET);
        if let SetExpr::Select(select) = &mut select {
            select.from.clear();
            let items = row.content.into_iter().zip(1..);
            select.projection = items
                .map(|(expr, number)| SelectItem::ExprWithAlias {
                    expr,
                    alias: Ident::with_quote('"', format!("column{number}")),
                })
                .collect();
        }
        select
    });
    let union = selects.reduce(|left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    });
    if let Some(union) = union {
        *body = union;
    }
}

/// Marks the parts of a query's body. A chain of set operations is as deep as it is long: no recursion.
fn mark_body(body: &mut SetExpr, fed: bool) {
    let mut open = vec![(body, false)];
    while let Some((part, branch)) = open.pop() {
        rows_with_subqueries(part);
        let multiset = matches!(part, SetExpr::SetOperation { op, set_quantifier: SetQuantifier::All, .. } if *op != SetOperator::Union);
        if let SetExpr::Select(select) = part {
            let merges = merged::concerns(select) || (!fed && merged::repeats(select));
            let repeats = branch && apart::repeats(select);
            for mark in [merges.then_some(MERGED), repeats.then_some(BRANCH)]
                .into_iter()
                .flatten()
            {
                let taken = std::mem::replace(part, SetExpr::Values(no_rows()));
                *part = select_from(bare_query(taken), mark);
            }
            continue;
        }
        let mut part = part;
        if multiset {
            let taken = std::mem::replace(part, SetExpr::Values(no_rows()));
            *part = select_from(bare_query(taken), MULTISET);
            let Some(inner) = inner_body(part) else {
                continue;
            };
            part = inner;
        }
        if let SetExpr::SetOperation { left, right, .. } = part {
            open.push((left, true));
            open.push((right, true));
        }
    }
}

/// The body of the marked subquery that `select_from` made.
fn inner_body(part: &mut SetExpr) -> Option<&mut SetExpr> {
    let SetExpr::Select(select) = part else {
        return None;
    };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery.body.as_mut()),
        _ => None,
    }
}
