//! Wildcards that need the columns of FROM: `COLUMNS(…)`, `s.*` of a struct, `* RENAME`.
//!
//! ```text
//! SELECT min(COLUMNS(*))        ─▶  SELECT min(t.a) AS "min(a)", min(t.b) AS "min(b)"
//! SELECT COLUMNS('a|b') + 1     ─▶  the columns whose names the pattern is found in
//! SELECT COLUMNS(2)             ─▶  the second column
//! WHERE COLUMNS(*) > 0          ─▶  WHERE t.a > 0 AND t.b > 0
//! SELECT s.*                    ─▶  SELECT t.s['x'] AS x, t.s['y'] AS y
//! ```

use std::ops::ControlFlow;

use arrow::array::StringArray;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, Subscript,
    TableFactor, Value, Visit, VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use super::merged::{Output, columns_of, listed};
use super::wild_names;
use crate::{Error, SqlState};

/// The name of the call that stands for columns.
const COLUMNS: &str = "columns";

/// Whether a SELECT has wildcards that only its columns tell.
pub(super) fn concerns(select: &Select) -> bool {
    let renames = |options: &WildcardAdditionalOptions| {
        options.opt_rename.is_some() || options.opt_replace.is_some()
    };
    let item = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => renames(options),
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) => renames(options) || !names_relation(name, select),
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_columns(expr),
        _ => false,
    };
    !select.from.is_empty()
        && (select.projection.iter().any(item)
            || select.selection.as_ref().is_some_and(has_columns))
}

/// Whether the relation before `.*` is one of FROM by its text.
pub(super) fn names_relation(name: &ObjectName, select: &Select) -> bool {
    let Some(wanted) = name.0.last().and_then(|part| part.as_ident()) else {
        return true;
    };
    let mut factors: Vec<&TableFactor> = select
        .from
        .iter()
        .flat_map(|table| {
            std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
        })
        .collect();
    while let Some(factor) = factors.pop() {
        let named = match factor {
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => {
                factors.push(&table_with_joins.relation);
                factors.extend(table_with_joins.joins.iter().map(|join| &join.relation));
                continue;
            }
            TableFactor::Table {
                alias: None, name, ..
            } => name.0.last().and_then(|part| part.as_ident()),
            TableFactor::Table {
                alias: Some(alias), ..
            }
            | TableFactor::Derived {
                alias: Some(alias), ..
            }
            | TableFactor::NestedJoin {
                alias: Some(alias), ..
            }
            | TableFactor::UNNEST {
                alias: Some(alias), ..
            }
            | TableFactor::Function {
                alias: Some(alias), ..
            } => Some(&alias.name),
            TableFactor::Derived { alias: None, .. } => None,
            // Others have names that only the planner knows.
            _ => return true,
        };
        if named.is_some_and(|named| named.value == wanted.value) {
            return true;
        }
    }
    false
}

fn columns_call(expr: &Expr) -> Option<&Function> {
    match expr {
        Expr::Function(function) if function.name.to_string() == COLUMNS => Some(function),
        _ => None,
    }
}

struct Calls {
    depth: usize,
}

impl Visitor for Calls {
    // A box, because every level of an expression holds what may break off.
    type Break = Box<Expr>;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Box<Expr>> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Box<Expr>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Box<Expr>> {
        match columns_call(expr) {
            Some(_) if self.depth == 0 => ControlFlow::Break(Box::new(expr.clone())),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The first call of COLUMNS in an expression, outside subqueries.
fn first_call(expr: &Expr) -> Option<Expr> {
    match expr.visit(&mut Calls { depth: 0 }) {
        ControlFlow::Break(call) => Some(*call),
        ControlFlow::Continue(()) => None,
    }
}

fn has_columns(expr: &Expr) -> bool {
    first_call(expr).is_some()
}

/// Writes out COLUMNS and the wildcards of structs in a select list and a WHERE clause.
pub(super) fn expand(select: &mut Select, outputs: &[Output]) -> Result<()> {
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match &item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                match members(name, outputs) {
                    Some(members) => items.extend(members),
                    None => items.push(item),
                }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                match first_call(expr) {
                    Some(call) => items.extend(repeated(&item, expr, &call, outputs)?),
                    None => items.push(item),
                }
            }
            _ => items.push(item),
        }
    }
    select.projection = items;
    if let Some(condition) = &select.selection
        && let Some(call) = first_call(condition)
    {
        let all = meant(&call, outputs)?
            .iter()
            .map(|column| {
                let mut one = condition.clone();
                put(&mut one, &call, &column.value);
                Expr::Nested(Box::new(one))
            })
            .reduce(|all, next| Expr::BinaryOp {
                left: Box::new(all),
                op: BinaryOperator::And,
                right: Box::new(next),
            });
        select.selection = all;
    }
    Ok(())
}

/// The members of the struct before `.*`, if it is a column and no relation.
fn members(name: &ObjectName, outputs: &[Output]) -> Option<Vec<SelectItem>> {
    if !columns_of(name, outputs).is_empty() {
        return None;
    }
    let parts: Vec<&str> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(|ident| ident.value.as_str()))
        .collect::<Option<_>>()?;
    let (last, before) = parts.split_last()?;
    let mut found = outputs.iter().filter(|output| {
        let qualified = match (&output.value, before) {
            (_, []) => true,
            (Expr::CompoundIdentifier(full), [.., table]) => {
                full.len() > 1 && full[full.len() - 2].value == *table
            }
            _ => false,
        };
        output.name == *last && qualified
    });
    let output = found.next().filter(|_| found.next().is_none())?;
    let DataType::Struct(fields) = &output.data_type else {
        return None;
    };
    let member = |field: &arrow::datatypes::FieldRef| SelectItem::ExprWithAlias {
        expr: Expr::CompoundFieldAccess {
            root: Box::new(output.value.clone()),
            access_chain: vec![AccessExpr::Subscript(Subscript::Index {
                index: Expr::value(Value::SingleQuotedString(field.name().clone())),
            })],
        },
        alias: Ident::with_quote('"', crate::catalog::fold(field.name())),
    };
    Some(fields.iter().map(member).collect())
}

/// An item once for each column that its COLUMNS means.
fn repeated(
    item: &SelectItem,
    expr: &Expr,
    call: &Expr,
    outputs: &[Output],
) -> Result<Vec<SelectItem>> {
    let bare = expr == call || matches!(expr, Expr::Cast { expr, .. } if expr.as_ref() == call);
    let columns = meant(call, outputs)?;
    let one = |column: &Output| {
        let mut value = expr.clone();
        put(&mut value, call, &column.value);
        let alias = match item {
            SelectItem::ExprWithAlias { alias, .. } if !alias.value.contains("columns(") => {
                alias.clone()
            }
            _ if bare => Ident::with_quote('"', column.name.as_str()),
            _ => {
                let mut text = expr.clone();
                let name = Expr::Identifier(Ident::new(column.name.as_str()));
                put(&mut text, call, &name);
                Ident::with_quote('"', text.to_string())
            }
        };
        SelectItem::ExprWithAlias { expr: value, alias }
    };
    Ok(columns.iter().map(one).collect())
}

/// The columns that an expression means, if it is a call of COLUMNS.
pub(super) fn columns_meant(expr: &Expr, outputs: &[Output]) -> Result<Option<Vec<Expr>>> {
    match columns_call(expr) {
        Some(_) => {
            let meant = meant(expr, outputs)?;
            Ok(Some(meant.into_iter().map(|column| column.value).collect()))
        }
        None => Ok(None),
    }
}

/// The columns that a call of COLUMNS means.
fn meant(call: &Expr, outputs: &[Output]) -> Result<Vec<Output>> {
    let usage = || {
        Error::new(
            SqlState::SyntaxError,
            "COLUMNS takes *, a regular expression or a list of names",
        )
    };
    let Some(function) = columns_call(call) else {
        return Err(usage().into());
    };
    let FunctionArguments::List(list) = &function.args else {
        return Err(usage().into());
    };
    let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else {
        return Err(usage().into());
    };
    let found = match argument {
        FunctionArgExpr::Wildcard => outputs.to_vec(),
        FunctionArgExpr::QualifiedWildcard(name) => columns_of(name, outputs),
        FunctionArgExpr::WildcardWithOptions(options) => {
            let kept = listed(options.clone(), outputs)?;
            kept.into_iter()
                .filter_map(|item| match item {
                    SelectItem::UnnamedExpr(value) => {
                        outputs.iter().find(|output| output.value == value).cloned()
                    }
                    SelectItem::ExprWithAlias { expr, alias } => Some(Output {
                        name: alias.value,
                        value: expr,
                        merged: false,
                        data_type: DataType::Null,
                    }),
                    _ => None,
                })
                .collect()
        }
        FunctionArgExpr::Expr(Expr::Value(value)) => match &value.value {
            Value::SingleQuotedString(pattern) => {
                kept(outputs, &wild_names::matching(pattern, &named(outputs))?)
            }
            Value::Number(digits, _) => vec![numbered(digits, outputs)?],
            _ => return Err(usage().into()),
        },
        FunctionArgExpr::Expr(Expr::Lambda(lambda)) => {
            kept(outputs, &wild_names::fits(lambda, &named(outputs))?)
        }
        FunctionArgExpr::Expr(expr) => {
            let names = names(expr).ok_or_else(usage)?;
            let column = |name: &String| {
                let known = outputs.iter().find(|output| output.name == *name);
                known.cloned().ok_or_else(|| {
                    Error::new(
                        SqlState::UndefinedColumn,
                        format!("column \"{name}\" does not exist"),
                    )
                })
            };
            names.iter().map(column).collect::<crate::Result<_>>()?
        }
    };
    if found.is_empty() {
        return Err(Error::new(SqlState::UndefinedColumn, "no column is meant by COLUMNS").into());
    }
    Ok(found)
}

/// The texts of a list literal.
fn names(expr: &Expr) -> Option<Vec<String>> {
    let text = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(crate::catalog::fold(text)),
            _ => None,
        },
        _ => None,
    };
    match expr {
        Expr::Array(list) => list.elem.iter().map(text).collect(),
        Expr::Function(function) if function.name.to_string() == "make_array" => {
            let FunctionArguments::List(list) = &function.args else {
                return None;
            };
            list.args
                .iter()
                .map(|argument| match argument {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => text(expr),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

fn named(outputs: &[Output]) -> StringArray {
    outputs
        .iter()
        .map(|output| Some(output.name.as_str()))
        .collect()
}

fn kept(outputs: &[Output], fits: &[bool]) -> Vec<Output> {
    outputs
        .iter()
        .zip(fits)
        .filter(|(_, fits)| **fits)
        .map(|(output, _)| output.clone())
        .collect()
}

/// The column of a number, from 1.
fn numbered(digits: &str, outputs: &[Output]) -> crate::Result<Output> {
    let place = digits.parse::<usize>().ok();
    place
        .and_then(|place| outputs.get(place.checked_sub(1)?).cloned())
        .ok_or_else(|| {
            Error::new(
                SqlState::InvalidColumnReference,
                format!(
                    "column #{digits} is out of range: FROM has {} columns",
                    outputs.len()
                ),
            )
        })
}

/// Puts a value in the place of a call.
fn put(expr: &mut Expr, call: &Expr, value: &Expr) {
    struct Put<'a> {
        call: &'a Expr,
        value: &'a Expr,
    }
    impl VisitorMut for Put<'_> {
        type Break = std::convert::Infallible;

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
            if expr == self.call {
                *expr = self.value.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let ControlFlow::Continue(()) = expr.visit(&mut Put { call, value });
}
