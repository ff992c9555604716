//! Lambdas as the planner should see them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens, Subscript, Value, VisitMut,
    VisitorMut,
};

use super::pieces::call;

/// `try(x)`: a function of a constant and a lambda whose body is `x`.
pub(crate) const TRY: &str = "__firndb_try";

/// `try(x)`, whose argument is computed by itself.
pub(super) fn attempted(value: &Expr) -> Expr {
    let row = Ident::new("__firndb_row");
    let lambda = Expr::Lambda(LambdaFunction {
        params: OneOrManyWithParens::One(LambdaFunctionParameter {
            name: row,
            data_type: None,
        }),
        body: Box::new(value.clone()),
        syntax: LambdaSyntax::Arrow,
    });
    call(TRY, vec![Expr::value(Value::Boolean(true)), lambda])
}

/// Whether an expression is a function with a lambda, or will be one.
pub(super) fn is_taken(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else {
        return false;
    };
    if function.name.to_string() == "try" {
        return true;
    }
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    list.args.iter().any(|argument| {
        matches!(
            argument,
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(_)))
        )
    })
}

/// `x -> x.a`: a member of the parameter, which the planner would take for a relation.
pub(super) fn members_of_parameters(lambda: &mut LambdaFunction) {
    let parameters: Vec<String> = match &lambda.params {
        OneOrManyWithParens::One(parameter) => vec![parameter.name.value.clone()],
        OneOrManyWithParens::Many(several) => several
            .iter()
            .map(|parameter| parameter.name.value.clone())
            .collect(),
    };
    let ControlFlow::Continue(()) = lambda.body.visit(&mut Members { parameters });
}

struct Members {
    parameters: Vec<String>,
}

impl VisitorMut for Members {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [first, members @ ..] = parts.as_slice()
            && self.parameters.contains(&first.value)
        {
            let access_chain = members
                .iter()
                .map(|member| {
                    AccessExpr::Subscript(Subscript::Index {
                        index: Expr::value(Value::SingleQuotedString(member.value.clone())),
                    })
                })
                .collect();
            *expr = Expr::CompoundFieldAccess {
                root: Box::new(Expr::Identifier(first.clone())),
                access_chain,
            };
        }
        ControlFlow::Continue(())
    }
}
