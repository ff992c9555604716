//! Pieces of syntax that rewrites make.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value,
};

/// A call of a scalar function.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(Ident::new(name)),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments
                .into_iter()
                .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
                .collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `f(x, name = value)` as `f(x, 'name', value)`: the planner passes expressions without names to table functions.
pub(super) fn pair_arguments(arguments: &mut Vec<FunctionArg>) {
    let named = |argument: &FunctionArg| {
        matches!(
            argument,
            FunctionArg::Named { .. } | FunctionArg::ExprNamed { .. }
        ) || matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, .. })) if matches!(**left, Expr::Identifier(_)))
    };
    if !arguments.iter().any(named) {
        return;
    }
    let string = |text: String| {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::value(
            Value::SingleQuotedString(text),
        )))
    };
    let mut flat = Vec::with_capacity(arguments.len() * 2);
    for argument in arguments.drain(..) {
        match argument {
            FunctionArg::Named { name, arg, .. } => {
                flat.push(string(name.value));
                flat.push(FunctionArg::Unnamed(arg));
            }
            FunctionArg::ExprNamed { name, arg, .. } => {
                flat.push(string(name.to_string()));
                flat.push(FunctionArg::Unnamed(arg));
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
                left,
                op: BinaryOperator::Eq,
                right,
            })) => {
                flat.push(string(left.to_string()));
                flat.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(*right)));
            }
            other => flat.push(other),
        }
    }
    *arguments = flat;
}
