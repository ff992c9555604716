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
    if !is_alias(parser) {
        return Ok(None);
    }
    parser.next_token();
    parser.next_token();
    let name = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::AS)?;
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

/// Whether `CREATE TYPE name AS` and a word follow that is neither ENUM nor RANGE.
fn is_alias(parser: &Parser<'_>) -> bool {
    let mut ahead = 3;
    while parser.peek_nth_token(ahead).token == Token::Period {
        ahead += 2;
    }
    let is_as = matches!(parser.peek_nth_token(ahead).token, Token::Word(word) if word.keyword == Keyword::AS);
    is_as
        && match parser.peek_nth_token(ahead + 1).token {
            Token::Word(word) if word.quote_style.is_none() => {
                !matches!(word.keyword, Keyword::ENUM | Keyword::RANGE)
            }
            Token::Word(_) => true,
            _ => false,
        }
}

/// Whether the parser reads a word as a type of its own.
pub(crate) fn is_built_in_type(name: &str) -> bool {
    let parsed = Parser::new(&FirnDialect)
        .try_with_sql(name)
        .and_then(|mut parser| parser.parse_data_type());
    !matches!(parsed, Ok(DataType::Custom(..)) | Err(_))
}
