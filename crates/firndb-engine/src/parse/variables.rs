//! Variables of the session, and its settings: `SET VARIABLE x = …`, `getvariable('x')`, `current_setting('threads')`.
//!
//! Such a call becomes a parameter of the statement when it runs, and so a constant of the value's type.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Query, SelectItem, SetExpr,
    Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::parser::ParserError;

use super::parameters::Arguments;
use super::{Command, parse_query};
use crate::catalog::fold;
use crate::error::{Error, Result};

/// Variables by their folded names.
pub(crate) type Variables = BTreeMap<String, ScalarValue>;

/// A query of a variable's value.
pub(super) fn value(expr: Expr) -> std::result::Result<Query, ParserError> {
    let mut query =
        parse_query("SELECT 1").map_err(|error| ParserError::ParserError(error.message))?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::ExprWithAlias {
            expr,
            alias: Ident::new("value"),
        }];
    }
    Ok(query)
}

/// What an expression reads of the session.
pub(crate) enum Read {
    Variable(String),
    Setting(String),
    /// Rows that the last write of the session changed, and all of its writes.
    Changes,
    AllChanges,
}

/// The variable or setting that an expression reads.
pub(super) fn read(expr: &Expr) -> Option<Read> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    match list.args.as_slice() {
        [] => match function.name.to_string().as_str() {
            "changes" => Some(Read::Changes),
            "total_changes" => Some(Read::AllChanges),
            _ => None,
        },
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))]
            if let Value::SingleQuotedString(name) = &value.value =>
        {
            match function.name.to_string().as_str() {
                "getvariable" => Some(Read::Variable(fold(name))),
                "current_setting" => Some(Read::Setting(fold(name))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A statement in which parameters stand for variables and settings, and the parameters' values, which `value` finds.
pub(crate) fn with_variables(
    command: &Command,
    arguments: &Arguments,
    value: &dyn Fn(&Read) -> Result<ScalarValue>,
) -> Result<(Command, Arguments)> {
    let mut command = command.clone();
    let mut replacement = Replacement {
        value,
        arguments: arguments.clone(),
    };
    let flow = match &mut command {
        Command::Sql(statement) => statement.visit(&mut replacement),
        Command::Summarize(query) | Command::SetVariable(_, query) => query.visit(&mut replacement),
        Command::Nothing(_)
        | Command::ResetVariable(_)
        | Command::AlterSequence(_)
        | Command::RenameView(_)
        | Command::SetConstraints(..) => ControlFlow::Continue(()),
    };
    match flow {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok((command, replacement.arguments)),
    }
}

struct Replacement<'a> {
    value: &'a dyn Fn(&Read) -> Result<ScalarValue>,
    arguments: Arguments,
}

impl VisitorMut for Replacement<'_> {
    type Break = Box<Error>;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Some(name) = read(expr) {
            let value = match (self.value)(&name) {
                Ok(value) => value,
                Err(error) => return ControlFlow::Break(Box::new(error)),
            };
            let parameter = self.arguments.push(value);
            *expr = Expr::value(Value::Placeholder(parameter));
        }
        ControlFlow::Continue(())
    }
}
