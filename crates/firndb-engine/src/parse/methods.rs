//! Calls written behind a value, as in DuckDB: `'a'.upper()`, `[1, 2].list_sum()`, `name.upper().left(1)`.
//!
//! ```text
//! 'a'.upper().left(1)  ─▶  left(upper('a'), 1)
//! name.upper()         ─▶  upper(name)             where there is no function `name.upper`
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, VisitMut, VisitorMut,
};

use super::calls;
use crate::error::Result;

/// Writes the calls behind a value around it.
pub(super) fn rewrite(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else {
        return;
    };
    let is_call = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Function(_)));
    if !access_chain.iter().any(is_call) {
        return;
    }
    let mut value = root.as_ref().clone();
    let mut pending = Vec::new();
    for access in access_chain.drain(..) {
        match access {
            AccessExpr::Dot(Expr::Function(mut function)) => {
                // `(s).member.upper()`: the parser takes all of it for the function's name.
                let members = function.name.0.len().saturating_sub(1);
                let members = function.name.0.drain(..members);
                pending.extend(members.filter_map(|part| {
                    let name = part.as_ident()?.clone();
                    Some(AccessExpr::Dot(Expr::Identifier(name)))
                }));
                value = behind(member(value, std::mem::take(&mut pending)), function);
            }
            other => pending.push(other),
        }
    }
    *expr = member(value, pending);
}

fn member(value: Expr, access_chain: Vec<AccessExpr>) -> Expr {
    match access_chain.is_empty() {
        true => value,
        false => Expr::CompoundFieldAccess {
            root: Box::new(value),
            access_chain,
        },
    }
}

fn behind(value: Expr, mut function: Function) -> Expr {
    if let FunctionArguments::List(list) = &mut function.args {
        let value = FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
        list.args.insert(0, value);
    }
    Expr::Function(function)
}

/// The call of a function, under another name, behind a value.
pub(crate) fn of_value(value: Expr, function: &Function, name: Ident) -> Result<Expr> {
    let function = Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name.value))]),
        ..function.clone()
    };
    let mut call = behind(value, function);
    calls::rewrite(&mut call)?;
    Ok(call)
}

/// Takes the calls of a function `column.name` that there is not for calls of `name` behind the column; whether there were any.
pub(crate) fn of_columns<T: VisitMut>(syntax: &mut T, missing: &str) -> bool {
    let mut columns = Columns {
        missing,
        replaced: false,
    };
    let flow = syntax.visit(&mut columns);
    flow.is_continue() && columns.replaced
}

struct Columns<'a> {
    missing: &'a str,
    replaced: bool,
}

impl VisitorMut for Columns<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        if function.name.0.len() < 2 || function.name.to_string() != self.missing {
            return ControlFlow::Continue(());
        }
        let parts: Option<Vec<Ident>> = function
            .name
            .0
            .iter()
            .map(|part| part.as_ident().cloned())
            .collect();
        let Some((name, column)) = parts.as_deref().and_then(|parts| parts.split_last()) else {
            return ControlFlow::Continue(());
        };
        let column = match column {
            [one] => Expr::Identifier(one.clone()),
            several => Expr::CompoundIdentifier(several.to_vec()),
        };
        match of_value(column, function, name.clone()) {
            Ok(call) => *expr = call,
            Err(_) => return ControlFlow::Break(()),
        }
        self.replaced = true;
        ControlFlow::Continue(())
    }
}
