//! `CREATE TYPE name AS DECIMAL(10, 2)`, `CREATE TYPE name AS STRUCT(a INTEGER)`: a name for another type, as in DuckDB.
//!
//! The parser knows enums and PostgreSQL's composite types. An alias is a composite type of one member that is called
//! [`TYPE_ALIAS`].

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::ast::{
    DataType, Statement, UserDefinedTypeCompositeAttributeDef, UserDefinedTypeRepresentation,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::dialect::FirnDialect;

/// The member that holds what an alias stands for.
pub(crate) const TYPE_ALIAS: &str = "__firndb_alias";

/// Parses such a statement; nothing of another form of CREATE TYPE, which the parser reads.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Statement>, ParserError> {
    let start = parser.index();
    parser.next_token();
    parser.next_token();
    let named = parser.parse_object_name(false);
    let (Ok(name), true) = (named, parser.parse_keyword(Keyword::AS)) else {
        return Ok(back(parser, start));
    };
    let known = match parser.peek_token().token {
        Token::Word(word) if word.quote_style.is_none() => {
            matches!(word.keyword, Keyword::ENUM | Keyword::RANGE)
        }
        Token::Word(_) => false,
        _ => true,
    };
    if known {
        return Ok(back(parser, start));
    }
    let data_type = parser.parse_data_type()?;
    let attributes = vec![UserDefinedTypeCompositeAttributeDef {
        name: Ident::new(TYPE_ALIAS),
        data_type,
        collation: None,
    }];
    Ok(Some(Statement::CreateType {
        name,
        representation: Some(UserDefinedTypeRepresentation::Composite { attributes }),
    }))
}

/// Goes back to a token.
fn back(parser: &mut Parser<'_>, start: usize) -> Option<Statement> {
    while parser.index() > start {
        parser.prev_token();
    }
    None
}

/// Whether the parser reads a word as a type of its own.
pub(crate) fn is_built_in_type(name: &str) -> bool {
    let parsed = Parser::new(&FirnDialect)
        .try_with_sql(name)
        .and_then(|mut parser| parser.parse_data_type());
    !matches!(parsed, Ok(DataType::Custom(..)) | Err(_))
}
