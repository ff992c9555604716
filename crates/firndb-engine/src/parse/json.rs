//! JSON's operators, aggregates and table functions, as calls of functions.
//!
//! ```text
//! d -> 'a', d ->> 'a'                json_extract(d, 'a'), json_extract_string(d, 'a')
//! d #> '{a,0}'                       json_extract(d, '/a/0')
//! json_group_array(x)                to_json(array_agg(x))
//! from_json(d, '{"a": "INTEGER"}')   TRY_CAST(json(d) AS STRUCT(a INTEGER))
//! FROM json_each(d)                  FROM (SELECT e['key'] AS key, … FROM (SELECT unnest(<entries>(d)) AS e))
//! ```
//!
//! `->` is also the arrow of lambdas: it is one behind a parameter that is an argument of a function of lists, and an
//! operator everywhere else. The tokens of operators are marked ahead, because the parser would take all for lambdas.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg,
    FunctionArgExpr, Ident, ObjectName, Query, Select, SelectItem, StructBracketKind, StructField,
    Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::calls::{rename, set_arguments};
use super::dialect::FirnDialect;
use super::parse_query;
use super::pieces::call;
use crate::document::{Json, parse};
use crate::error::{Error, Result, SqlState};

/// An object of a list of names and a list of values.
pub(crate) const JSON_OBJECT_OF_LISTS: &str = "__firndb_json_object_of_lists";
/// All values that a path with wildcards leads to.
pub(crate) const JSON_EXTRACT_ALL: &str = "__firndb_json_extract_all";
/// The same, as texts.
pub(crate) const JSON_EXTRACT_TEXT_ALL: &str = "__firndb_json_extract_text_all";
/// The rows of `json_each`, as a list.
pub(crate) const JSON_EACH: &str = "__firndb_json_each";
/// The rows of `json_tree`, as a list.
pub(crate) const JSON_TREE: &str = "__firndb_json_tree";

const ARROW: &str = "->";

/// Tells the arrows that are operators from those of lambdas.
pub(super) fn mark(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| token.token == Token::Arrow) {
        return tokens;
    }
    let mut open = vec![Frame::default()];
    let mut word: Option<String> = None;
    for token in &mut tokens {
        let name = word.take();
        match &token.token {
            Token::Whitespace(_) => word = name,
            Token::Word(found) => word = Some(found.value.clone()),
            Token::LParen => open.push(Frame {
                first: match name.as_deref() {
                    Some("columns") => Some(0),
                    Some(name) if takes_lambdas(name) => Some(1),
                    _ => None,
                },
                ..Frame::default()
            }),
            Token::LBracket | Token::LBrace => open.push(Frame::default()),
            Token::RParen | Token::RBracket | Token::RBrace if open.len() > 1 => {
                open.pop();
            }
            Token::Comma => {
                if let Some(frame) = open.last_mut() {
                    frame.argument += 1;
                    frame.lambda = false;
                }
            }
            Token::Arrow => {
                let Some(frame) = open.last_mut() else {
                    continue;
                };
                let lambda =
                    !frame.lambda && frame.first.is_some_and(|first| frame.argument >= first);
                match lambda {
                    true => frame.lambda = true,
                    false => token.token = Token::CustomBinaryOperator(ARROW.to_owned()),
                }
            }
            _ => {}
        }
    }
    tokens
}

/// An open bracket.
#[derive(Default)]
struct Frame {
    /// The first argument that may be a lambda.
    first: Option<usize>,
    argument: usize,
    /// Whether the argument is a lambda already.
    lambda: bool,
}

fn takes_lambdas(name: &str) -> bool {
    name.starts_with("list_")
        || name.starts_with("array_")
        || matches!(
            name,
            "apply" | "filter" | "reduce" | "transform" | "any_match"
        )
}

/// What an operator on JSON stands for.
pub(super) fn of_operator(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let (function, right) = match op {
        BinaryOperator::Arrow => ("json_extract", right.clone()),
        BinaryOperator::Custom(name) if name == ARROW => ("json_extract", right.clone()),
        BinaryOperator::LongArrow => ("json_extract_string", right.clone()),
        BinaryOperator::HashArrow => ("json_extract", pointer(right)),
        BinaryOperator::HashLongArrow => ("json_extract_string", pointer(right)),
        _ => return None,
    };
    let function = wild(function, &right).unwrap_or(function);
    Some(call(function, vec![left.clone(), right]))
}

/// The function for a path with wildcards.
fn wild(function: &str, path: &Expr) -> Option<&'static str> {
    let Expr::Value(value) = path else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else {
        return None;
    };
    let wild = text.starts_with('$') && (text.contains('*') || text.contains(".."));
    match function {
        _ if !wild => None,
        "json_extract" | "json_extract_path" => Some(JSON_EXTRACT_ALL),
        "json_extract_string" | "json_extract_path_text" => Some(JSON_EXTRACT_TEXT_ALL),
        _ => None,
    }
}

/// PostgreSQL's list of names as a pointer.
fn pointer(path: &Expr) -> Expr {
    if let Expr::Value(value) = path
        && let Value::SingleQuotedString(text) = &value.value
        && let Some(names) = text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
    {
        let names = names.split(',').map(|name| name.trim().trim_matches('"'));
        let pointer: String = names
            .filter(|name| !name.is_empty())
            .map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")))
            .collect();
        return Expr::value(Value::SingleQuotedString(pointer));
    }
    path.clone()
}

/// What a call stands for.
pub(super) fn of_function(name: &str, function: &Function, given: &[Expr]) -> Result<Option<Expr>> {
    let gathered = |value: &Expr| {
        let mut list = function.clone();
        rename(&mut list, "array_agg");
        set_arguments(&mut list, vec![value.clone()]);
        Expr::Function(list)
    };
    if let [document, path] = given
        && let Some(all) = wild(name, path)
    {
        return Ok(Some(call(all, vec![document.clone(), path.clone()])));
    }
    Ok(match (name, given) {
        ("json_group_array" | "json_agg" | "jsonb_agg", [value]) => {
            Some(call("to_json", vec![gathered(value)]))
        }
        ("json_group_object" | "json_object_agg" | "jsonb_object_agg", [name, value]) => Some(
            call(JSON_OBJECT_OF_LISTS, vec![gathered(name), gathered(value)]),
        ),
        (
            "from_json" | "json_transform" | "from_json_strict" | "json_transform_strict",
            [document, Expr::Value(structure)],
        ) => {
            let Value::SingleQuotedString(structure) = &structure.value else {
                return Ok(None);
            };
            Some(Expr::Cast {
                kind: match name.ends_with("strict") {
                    true => CastKind::Cast,
                    false => CastKind::TryCast,
                },
                expr: Box::new(call("json", vec![document.clone()])),
                data_type: type_of(&parse(structure)?)?,
                array: false,
                format: None,
            })
        }
        _ => None,
    })
}

/// The type that a structure describes: a name, an object of them, an array of one.
fn type_of(structure: &Json<'_>) -> Result<DataType> {
    let refused = |what: &str| {
        Error::new(
            SqlState::InvalidParameterValue,
            format!("invalid structure of JSON: {what}"),
        )
        .with_hint("A structure is like {\"a\": \"INTEGER\", \"b\": [\"VARCHAR\"]}.")
    };
    match structure {
        Json::String(name) if name == "NULL" => Ok(DataType::JSON),
        Json::String(name) => Parser::new(&FirnDialect)
            .try_with_sql(name)
            .and_then(|mut parser| parser.parse_data_type())
            .map_err(|_| refused(name)),
        Json::Array(items) => match items.as_slice() {
            [item] => Ok(DataType::Array(ArrayElemTypeDef::SquareBracket(
                Box::new(type_of(item)?),
                None,
            ))),
            _ => Err(refused("an array has one type")),
        },
        Json::Object(members) => {
            let fields = members
                .iter()
                .map(|(name, member)| {
                    Ok(StructField {
                        field_name: Some(Ident::with_quote('"', name.clone())),
                        field_type: type_of(member)?,
                        options: None,
                    })
                })
                .collect::<Result<Vec<_>>>()?;
            Ok(DataType::Struct(fields, StructBracketKind::Parentheses))
        }
        other => Err(refused(&other.to_text())),
    }
}

/// The query that `json_each` or `json_tree` in FROM stands for.
pub(super) fn of_table(name: &ObjectName, args: &[FunctionArg]) -> Result<Option<(Query, Expr)>> {
    let function = match name.to_string().as_str() {
        "json_each" | "jsonb_each" => JSON_EACH,
        "json_tree" => JSON_TREE,
        _ => return Ok(None),
    };
    let given = args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        })
        .collect::<Option<Vec<_>>>();
    let Some(given) = given else {
        return Ok(None);
    };
    let query = parse_query(
        "SELECT e['key'] AS key, e['value'] AS value, e['type'] AS type, e['atom'] AS atom, e['id'] AS id, \
         e['parent'] AS parent, e['fullkey'] AS fullkey, e['path'] AS path \
         FROM (SELECT unnest(m.a1) AS e FROM (SELECT 1 AS a1) AS m) AS n",
    )?;
    Ok(Some((query, call(function, given))))
}

/// Puts the list of entries into the innermost SELECT of such a query.
pub(super) fn put_list(query: &mut Query, list: Expr) {
    let std::ops::ControlFlow::Continue(()) = query.visit(&mut Innermost { list: Some(list) });
}

struct Innermost {
    list: Option<Expr>,
}

impl VisitorMut for Innermost {
    type Break = std::convert::Infallible;

    fn post_visit_select(&mut self, select: &mut Select) -> std::ops::ControlFlow<Self::Break> {
        if let Some(SelectItem::ExprWithAlias { expr, .. }) = select.projection.first_mut()
            && let Some(list) = self.list.take()
        {
            *expr = list;
        }
        std::ops::ControlFlow::Continue(())
    }
}
