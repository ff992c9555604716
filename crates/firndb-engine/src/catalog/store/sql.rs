//! Expressions and queries as SQL text that is known to parse back to what it was.

use datafusion::sql::sqlparser::ast;
use serde_json::{Value, json};

use crate::error::{Error, Result, SqlState};
use crate::parse;

type ParseQuery = fn(&str) -> Result<ast::Query>;

/// How a text was parsed: as what the parser made of the user's text, or as the user's text itself, names folded once more.
const PARSERS: [(&str, ParseQuery); 2] = [("plain", parse::parse_query), ("whole", whole)];

/// A text that goes through everything that a user's text does.
fn whole(sql: &str) -> Result<ast::Query> {
    let parsed = parse::parse(sql, &|_| true)?;
    match parsed.statements.into_iter().next().map(|one| one.command) {
        Some(parse::Command::Sql(statement)) => match *statement {
            ast::Statement::Query(query) => Ok(*query),
            _ => Err(Error::internal("a stored query is none")),
        },
        _ => Err(Error::internal("a stored query is none")),
    }
}

pub(super) fn query(query: &ast::Query) -> Result<Value> {
    let text = query.to_string();
    for (how, parser) in PARSERS {
        if parser(&text).is_ok_and(|again| again == *query) {
            return Ok(json!({"sql": text, "parse": how}));
        }
    }
    Err(unstorable(&text))
}

pub(super) fn expression(expression: &ast::Expr) -> Result<Value> {
    let text = expression.to_string();
    for (how, parser) in PARSERS {
        if only_item(&text, parser).is_ok_and(|again| again == *expression) {
            return Ok(json!({"sql": text, "parse": how}));
        }
    }
    Err(unstorable(&text))
}

/// A type, as the one of a cast.
pub(super) fn data_type(data_type: &ast::DataType) -> Result<Value> {
    expression(&ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(ast::Expr::value(ast::Value::Null)),
        data_type: data_type.clone(),
        array: false,
        format: None,
    })
}

fn unstorable(text: &str) -> Error {
    Error::new(
        SqlState::FeatureNotSupported,
        format!(
            "\"{text}\" can't be kept in a database file: its text does not read back as it is"
        ),
    )
    .with_hint("Write it differently.")
}

fn only_item(text: &str, parser: ParseQuery) -> Result<ast::Expr> {
    let query = parser(&format!("SELECT {text}"))?;
    let wrong = || Error::internal("a stored expression is none");
    let ast::SetExpr::Select(select) = *query.body else {
        return Err(wrong());
    };
    match <[ast::SelectItem; 1]>::try_from(select.projection) {
        Ok([ast::SelectItem::UnnamedExpr(expression)]) => Ok(expression),
        _ => Err(wrong()),
    }
}

fn parts(value: &Value) -> Option<(&str, ParseQuery)> {
    let how = value.get("parse")?.as_str()?;
    let parser = PARSERS.iter().find(|(name, _)| *name == how)?.1;
    Some((value.get("sql")?.as_str()?, parser))
}

pub(super) fn read_query(value: &Value) -> Result<ast::Query> {
    let (text, parser) = parts(value).ok_or_else(super::decode::malformed)?;
    parser(text)
}

pub(super) fn read_expression(value: &Value) -> Result<ast::Expr> {
    let (text, parser) = parts(value).ok_or_else(super::decode::malformed)?;
    only_item(text, parser)
}

pub(super) fn read_data_type(value: &Value) -> Result<ast::DataType> {
    match read_expression(value)? {
        ast::Expr::Cast { data_type, .. } => Ok(data_type),
        _ => Err(super::decode::malformed()),
    }
}
