//! Functions in FROM of columns to their left: `FROM t, unnest(t.l) AS u(x)`, `FROM t, generate_series(1, t.n) AS g`.
//!
//! The planner knows their arguments as constants only. So they become subqueries, which may be LATERAL, and in which UNNEST
//! takes a column:
//!
//! ```text
//! FROM t, unnest(t.l) AS u(x)   ─▶  FROM t, LATERAL (SELECT unnest(m.a1) AS x FROM (SELECT t.l AS a1) AS m) AS u
//! LATERAL (SELECT unnest(t.l))  ─▶  LATERAL (SELECT unnest(m.a1) FROM (SELECT t.l AS a1) AS m)
//! unnest(l) WITH ORDINALITY     ─▶  (SELECT unnest(m.a1) AS unnest, unnest(range(1, len(m.a1) + 1)) AS ordinality FROM …)
//! repeat(x, n)                  ─▶  (SELECT x AS repeat FROM range(n))
//! repeat_row(x, y, num_rows=n)  ─▶  (SELECT x AS column0, y AS column1 FROM range(n))
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
    UnaryOperator, Value, VisitMut, VisitorMut, visit_expressions,
};

use super::calls::number;
use super::pieces::{call, pair_arguments};
use super::{json, parse_query};
use crate::error::{Error, Result};

/// The subquery that holds the arguments; no user's name starts like this.
const MEMBERS: &str = "__firndb_lateral";
/// Functions that yield a list as an expression, and its members in FROM.
const SERIES: [&str; 2] = ["range", "generate_series"];

/// Rewrites the functions of a SELECT that name columns.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    for table in &mut select.from {
        of_table(table)?;
    }
    if select.from.is_empty() {
        unnested_alone(select)?;
    }
    Ok(())
}

fn of_table(table: &mut TableWithJoins) -> Result<()> {
    let joined = table.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut table.relation).chain(joined) {
        of_factor(factor)?;
    }
    Ok(())
}

fn of_factor(factor: &mut TableFactor) -> Result<()> {
    if of_documents(factor)? || repeated(factor)? {
        return of_table_of(factor);
    }
    compute_bounds(factor);
    let (list, given, default, numbered) = match factor {
        TableFactor::UNNEST {
            array_exprs,
            alias,
            with_offset: false,
            with_ordinality,
            ..
        } => match array_exprs.as_slice() {
            [list] => (list.clone(), alias, "unnest", *with_ordinality),
            _ => return Ok(()),
        },
        TableFactor::Table {
            name,
            alias,
            args: Some(args),
            with_ordinality,
            ..
        } => match list_of(name, &args.args) {
            Some((list, default)) => (list, alias, default, *with_ordinality),
            None => return Ok(()),
        },
        TableFactor::Function {
            name,
            args,
            alias,
            with_ordinality,
            ..
        } => match list_of(name, args) {
            Some((list, default)) => (list, alias, default, *with_ordinality),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let lateral = has_columns(&list);
    if !lateral && !numbered && !is_of_moments(&list) {
        return Ok(());
    }
    let mut alias = given.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(default),
        columns: Vec::new(),
        at: None,
    });
    let named = |place: usize| alias.columns.get(place).map(|column| column.name.clone());
    let unnested = |list: Expr, name: Ident| SelectItem::ExprWithAlias {
        expr: call("unnest", vec![list]),
        alias: name,
    };
    let first = named(0).unwrap_or_else(|| alias.name.clone());
    let mut projection = vec![unnested(member(0), first)];
    if numbered {
        let numbers = call(
            "generate_series",
            vec![number("1"), call("len", vec![member(0)])],
        );
        let second = named(1).unwrap_or_else(|| Ident::new("ordinality"));
        projection.push(unnested(numbers, second));
    }
    alias.columns.clear();
    let mut query = members(vec![list])?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = projection;
    }
    *factor = TableFactor::Derived {
        lateral,
        subquery: Box::new(query),
        alias: Some(alias),
        sample: None,
    };
    Ok(())
}

/// Whether a factor was `json_each` or `json_tree`, which are queries.
fn of_documents(factor: &mut TableFactor) -> Result<bool> {
    let (name, args, given) = match factor {
        TableFactor::Table {
            name,
            args: Some(args),
            alias,
            ..
        } => (name, &args.args, alias),
        TableFactor::Function {
            name, args, alias, ..
        } => (name, &*args, alias),
        _ => return Ok(false),
    };
    let Some((mut query, list)) = json::of_table(name, args)? else {
        return Ok(false);
    };
    let lateral = has_columns(&list);
    let alias = given.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name.to_string()),
        columns: Vec::new(),
        at: None,
    });
    json::put_list(&mut query, list);
    *factor = TableFactor::Derived {
        lateral,
        subquery: Box::new(query),
        alias: Some(alias),
        sample: None,
    };
    Ok(true)
}

/// The planner knows the bounds of a series as numbers only: `range(2 * 3)`.
fn compute_bounds(factor: &mut TableFactor) {
    let (name, args) = match factor {
        TableFactor::Table {
            name,
            args: Some(args),
            ..
        } => (name, &mut args.args),
        TableFactor::Function { name, args, .. } => (name, args),
        _ => return,
    };
    if !SERIES.contains(&name.to_string().as_str()) {
        return;
    }
    for arg in args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg
            && !matches!(expr, Expr::Value(_))
            && let Some(bound) = integer(expr)
        {
            let digits = number(&bound.unsigned_abs().to_string());
            *expr = match bound < 0 {
                true => Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(digits),
                },
                false => digits,
            };
        }
    }
}

/// The integer that sums, differences and products of integers are, where it needs no more than 64 bits.
fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Nested(inner) => integer(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => integer(expr)?.checked_neg(),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (integer(left)?, integer(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The functions in the FROM of a query that was put in place of a function.
fn of_table_of(factor: &mut TableFactor) -> Result<()> {
    if let TableFactor::Derived { subquery, .. } = factor
        && let SetExpr::Select(select) = subquery.body.as_mut()
    {
        for table in &mut select.from {
            of_table(table)?;
        }
    }
    Ok(())
}

/// DuckDB's `repeat` and `repeat_row`: whether a factor was one of them.
fn repeated(factor: &mut TableFactor) -> Result<bool> {
    let TableFactor::Table {
        name,
        args: Some(args),
        alias,
        ..
    } = factor
    else {
        return Ok(false);
    };
    let function = name.to_string();
    if !["repeat", "repeat_row"].contains(&function.as_str()) {
        return Ok(false);
    }
    let mut values = Vec::with_capacity(args.args.len());
    let mut given = args.args.clone();
    pair_arguments(&mut given);
    for arg in given {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => values.push(expr),
            _ => return Ok(false),
        }
    }
    // Names come as strings before their values.
    let names_rows = |expr: &Expr| matches!(expr, Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(name) if name == "num_rows"));
    let count = values.len();
    let rows = match function.as_str() {
        "repeat" if count == 2 => values.pop(),
        "repeat_row" if count > 2 && names_rows(&values[count - 2]) => {
            let rows = values.pop();
            values.pop();
            rows
        }
        _ => None,
    };
    let Some(rows) = rows else {
        return Ok(false);
    };
    let mut query = parse_query("SELECT 1 FROM range(1)")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        if let Some(TableFactor::Table {
            args: Some(args), ..
        }) = select.from.first_mut().map(|table| &mut table.relation)
        {
            args.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(rows))];
        }
        let column = |place| match function.as_str() {
            "repeat" => function.clone(),
            _ => format!("column{place}"),
        };
        let items = values.into_iter().enumerate();
        select.projection = items
            .map(|(place, expr)| SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', column(place)),
            })
            .collect();
    }
    *factor = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new(function),
            columns: Vec::new(),
            at: None,
        })),
        sample: None,
    };
    Ok(true)
}

/// The list whose members a function in FROM yields, and what its column is called.
fn list_of(name: &ObjectName, args: &[FunctionArg]) -> Option<(Expr, &'static str)> {
    let name = name.to_string();
    let args = args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    if name == "unnest" {
        return match args.as_slice() {
            [list] => Some((list.clone(), "unnest")),
            _ => None,
        };
    }
    let series = SERIES.iter().find(|series| **series == name)?;
    Some((call(series, args), series))
}

/// Whether a series steps by an interval: the planner's own counts nanoseconds, which reach from 1677 to 2262.
fn is_of_moments(series: &Expr) -> bool {
    visit_expressions(series, |part| match part {
        Expr::Interval(_) => ControlFlow::Break(()),
        Expr::Cast {
            data_type: DataType::Interval { .. },
            ..
        } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn has_columns(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// `SELECT 1 FROM (SELECT <list> AS a1, …) AS members`.
fn members(lists: Vec<Expr>) -> Result<Query> {
    let mut query = parse_query(&format!("SELECT 1 FROM (SELECT 1) AS {MEMBERS}"))?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a query of ours"));
    };
    if let Some(TableFactor::Derived { subquery, .. }) =
        select.from.first_mut().map(|table| &mut table.relation)
        && let SetExpr::Select(inner) = subquery.body.as_mut()
    {
        inner.projection = lists
            .into_iter()
            .enumerate()
            .map(|(place, expr)| SelectItem::ExprWithAlias {
                expr,
                alias: Ident::with_quote('"', format!("a{}", place + 1)),
            })
            .collect();
    }
    Ok(query)
}

fn member(place: usize) -> Expr {
    Expr::CompoundIdentifier(vec![
        Ident::with_quote('"', MEMBERS),
        Ident::with_quote('"', format!("a{}", place + 1)),
    ])
}

/// `SELECT unnest(<columns of an outer query>)` without FROM.
fn unnested_alone(select: &mut Select) -> Result<()> {
    let mut lists = Lists { found: Vec::new() };
    let ControlFlow::Continue(()) = select.projection.visit(&mut lists);
    if lists.found.is_empty() {
        return Ok(());
    }
    if let SetExpr::Select(of_members) = *members(lists.found)?.body {
        select.from = of_members.from;
    }
    Ok(())
}

/// Takes the lists that name columns out of calls of UNNEST.
struct Lists {
    found: Vec<Expr>,
}

impl VisitorMut for Lists {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Function(function) = expr
            && function.name.to_string() == "unnest"
            && let FunctionArguments::List(list) = &mut function.args
            && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(list))] = list.args.as_mut_slice()
            && has_columns(list)
        {
            let taken = std::mem::replace(list, member(self.found.len()));
            self.found.push(taken);
        }
        ControlFlow::Continue(())
    }
}
