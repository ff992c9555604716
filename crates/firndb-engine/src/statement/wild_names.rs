//! Conditions on the names of columns: `COLUMNS(lambda n: n LIKE 'a%')`, `* NOT LIKE 'a%'`.
//!
//! They are answered while names are looked up, so they are made of comparisons of the parameter with texts.

use arrow::array::StringArray;
use arrow::compute::kernels::comparison::{ilike, like, regexp_is_match_scalar};
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LambdaFunction,
    OneOrManyWithParens, UnaryOperator, Value,
};

use crate::Error;

/// Whether the names fulfil the condition of a lambda.
pub(super) fn fits(lambda: &LambdaFunction, names: &StringArray) -> Result<Vec<bool>> {
    let parameter = match &lambda.params {
        OneOrManyWithParens::One(one) => one.name.value.as_str(),
        OneOrManyWithParens::Many(several) => match several.as_slice() {
            [one] => one.name.value.as_str(),
            _ => return Err(refused().into()),
        },
    };
    holds(&lambda.body, parameter, names)
}

fn refused() -> Error {
    Error::unsupported(
        "the lambda of COLUMNS compares its parameter with texts: LIKE, ILIKE, SIMILAR TO, GLOB, =, <>, IN, starts_with, \
         ends_with, contains, regexp_matches, with AND, OR and NOT",
    )
}

fn holds(condition: &Expr, parameter: &str, names: &StringArray) -> Result<Vec<bool>> {
    let inverted =
        |found: Vec<bool>, negated: bool| found.into_iter().map(|fits| fits != negated).collect();
    let is_parameter =
        |expr: &Expr| matches!(expr, Expr::Identifier(name) if name.value == parameter);
    let each = |test: &dyn Fn(&str) -> bool| {
        names
            .iter()
            .map(|name| name.is_some_and(test))
            .collect::<Vec<bool>>()
    };
    Ok(match condition {
        Expr::Nested(inner) => holds(inner, parameter, names)?,
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => inverted(holds(expr, parameter, names)?, true),
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::And | BinaryOperator::Or),
            right,
        } => {
            let right = holds(right, parameter, names)?;
            holds(left, parameter, names)?
                .into_iter()
                .zip(right)
                .map(|(left, right)| match op {
                    BinaryOperator::And => left && right,
                    _ => left || right,
                })
                .collect()
        }
        Expr::Like {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        } if is_parameter(expr) => {
            let pattern = StringArray::new_scalar(text(pattern)?);
            let found = like(names, &pattern)?;
            inverted(
                found.iter().map(|fits| fits == Some(true)).collect(),
                *negated,
            )
        }
        Expr::ILike {
            negated,
            any: false,
            expr,
            pattern,
            escape_char: None,
        } if is_parameter(expr) => {
            let pattern = StringArray::new_scalar(text(pattern)?);
            let found = ilike(names, &pattern)?;
            inverted(
                found.iter().map(|fits| fits == Some(true)).collect(),
                *negated,
            )
        }
        Expr::BinaryOp { left, op, right } if is_parameter(left) => {
            let wanted = text(right)?;
            match op {
                BinaryOperator::Eq => each(&|name| name == wanted),
                BinaryOperator::NotEq => each(&|name| name != wanted),
                BinaryOperator::PGRegexMatch => matching(&wanted, names)?,
                BinaryOperator::PGRegexNotMatch => inverted(matching(&wanted, names)?, true),
                _ => return Err(refused().into()),
            }
        }
        Expr::InList {
            expr,
            list,
            negated,
        } if is_parameter(expr) => {
            let wanted = list.iter().map(text).collect::<Result<Vec<_>>>()?;
            inverted(
                each(&|name| wanted.iter().any(|text| text == name)),
                *negated,
            )
        }
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &function.args else {
                return Err(refused().into());
            };
            let [
                FunctionArg::Unnamed(FunctionArgExpr::Expr(first)),
                FunctionArg::Unnamed(FunctionArgExpr::Expr(second)),
            ] = list.args.as_slice()
            else {
                return Err(refused().into());
            };
            match function.name.to_string().as_str() {
                "glob" if is_parameter(second) => {
                    let pattern = glob(&text(first)?);
                    matching(&pattern, names)?
                }
                _ if !is_parameter(first) => return Err(refused().into()),
                "starts_with" | "prefix" => {
                    let wanted = text(second)?;
                    each(&|name| name.starts_with(&wanted))
                }
                "ends_with" | "suffix" => {
                    let wanted = text(second)?;
                    each(&|name| name.ends_with(&wanted))
                }
                "contains" => {
                    let wanted = text(second)?;
                    each(&|name| name.contains(&wanted))
                }
                "regexp_matches" | "regexp_like" => matching(&text(second)?, names)?,
                _ => return Err(refused().into()),
            }
        }
        _ => return Err(refused().into()),
    })
}

fn text(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Ok(text.clone()),
            _ => Err(refused().into()),
        },
        _ => Err(refused().into()),
    }
}

/// The names that a regular expression is found in.
pub(super) fn matching(pattern: &str, names: &StringArray) -> Result<Vec<bool>> {
    let found = regexp_is_match_scalar(names, pattern, None)?;
    Ok(found.iter().map(|fits| fits == Some(true)).collect())
}

/// A pattern of GLOB as a regular expression.
fn glob(pattern: &str) -> String {
    let mut expression = String::from("^");
    let mut in_set = false;
    for letter in pattern.chars() {
        match letter {
            '*' if !in_set => expression.push_str(".*"),
            '?' if !in_set => expression.push('.'),
            '[' | ']' => {
                in_set = letter == '[';
                expression.push(letter);
            }
            other if other.is_alphanumeric() || in_set => expression.push(other),
            other => {
                expression.push('\\');
                expression.push(other);
            }
        }
    }
    expression.push('$');
    expression
}
