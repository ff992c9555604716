//! List comprehensions, as in DuckDB and Python.
//!
//! ```text
//! [e FOR x IN l IF c]     ─▶  list_transform(list_filter(l, x -> c), x -> e)
//! ```

use datafusion::sql::sqlparser::ast::{
    Expr, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::pieces::call;

/// Parses one.
pub(super) fn parse(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LBracket)?;
    // The mark (`brackets`).
    parser.next_token();
    let value = parser.parse_expr()?;
    parser.expect_keyword_is(Keyword::FOR)?;
    let name = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::IN)?;
    let mut list = parser.parse_expr()?;
    let lambda = |body: Expr| {
        Expr::Lambda(LambdaFunction {
            params: OneOrManyWithParens::One(LambdaFunctionParameter {
                name: name.clone(),
                data_type: None,
            }),
            body: Box::new(body),
            syntax: LambdaSyntax::Arrow,
        })
    };
    if parser.parse_keyword(Keyword::IF) {
        let condition = parser.parse_expr()?;
        list = call("list_filter", vec![list, lambda(condition)]);
    }
    parser.expect_token(&Token::RBracket)?;
    Ok(call("list_transform", vec![list, lambda(value)]))
}
