//! Lambdas as the planner should see them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LambdaFunction,
    OneOrManyWithParens, Subscript, Value, VisitMut, VisitorMut,
};

/// Whether an expression is a function with a lambda.
pub(super) fn is_taken(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else {
        return false;
    };
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
