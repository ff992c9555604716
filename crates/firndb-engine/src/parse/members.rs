//! Functions that name the members of structs: `struct_pack(a := 1)`, `struct_insert(s, a := 1)`, `struct_update(s, a := 1)`.

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// `struct_insert(s, name, value, …)`.
pub(crate) const STRUCT_INSERT: &str = "__firndb_struct_insert";
/// `struct_update(s, name, value, …)`.
pub(crate) const STRUCT_UPDATE: &str = "__firndb_struct_update";

/// `struct_pack(a := 1)` as `named_struct('a', 1)`.
pub(super) fn struct_pack(function: &Function) -> Result<Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Err(unnamed_member());
    };
    let mut members = Vec::with_capacity(list.args.len() * 2);
    for argument in &list.args {
        let (name, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value @ Expr::Identifier(name))) => {
                (name.value.clone(), value.clone())
            }
            named => named_member(named).ok_or_else(unnamed_member)?,
        };
        members.push(Expr::value(Value::SingleQuotedString(name)));
        members.push(value);
    }
    Ok(call("named_struct", members))
}

/// The name and value of `name := value`.
fn named_member(argument: &FunctionArg) -> Option<(String, Expr)> {
    match argument {
        FunctionArg::Named {
            name,
            arg: FunctionArgExpr::Expr(value),
            ..
        }
        | FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(value),
            ..
        } => Some((name.value.clone(), value.clone())),
        _ => None,
    }
}

/// `struct_insert(s, a := 1)` with the name as text.
pub(super) fn struct_with(name: &str, function: &Function) -> Result<Expr> {
    let misused = || {
        Error::new(
            SqlState::SyntaxError,
            format!("{name} takes a struct and named members"),
        )
        .with_hint(format!("Write {name}(s, name := value)."))
    };
    let FunctionArguments::List(list) = &function.args else {
        return Err(misused());
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(of)), rest @ ..] = list.args.as_slice() else {
        return Err(misused());
    };
    let mut arguments = vec![of.clone()];
    for argument in rest {
        let (name, value) = named_member(argument).ok_or_else(misused)?;
        arguments.extend([Expr::value(Value::SingleQuotedString(name)), value]);
    }
    let inner = match name {
        "struct_insert" => STRUCT_INSERT,
        _ => STRUCT_UPDATE,
    };
    Ok(call(inner, arguments))
}

fn unnamed_member() -> Error {
    Error::new(
        SqlState::SyntaxError,
        "struct_pack needs a name for each member",
    )
    .with_hint("Write struct_pack(name := value).")
}
