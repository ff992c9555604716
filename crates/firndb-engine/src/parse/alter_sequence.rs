//! ALTER SEQUENCE, which the parser lacks.
//!
//! ```text
//! ALTER SEQUENCE [IF EXISTS] s [options] [RESTART [[WITH] n]] | RENAME TO t | OWNED BY NONE
//! ```
//!
//! The options are those of CREATE SEQUENCE, and read as such.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, SequenceOptions, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::dialect::FirnDialect;
use super::sequence;

/// What an ALTER SEQUENCE asks for.
#[derive(Debug, Clone)]
pub struct AlterSequence {
    /// The sequence.
    pub name: ObjectName,
    /// Whether nothing happens where there is none.
    pub if_exists: bool,
    /// Options that change.
    pub options: Vec<SequenceOptions>,
    /// Whether it begins anew, and at which number.
    pub restart: Option<Option<i64>>,
    /// Its new name.
    pub rename: Option<Ident>,
}

/// Parses one.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<AlterSequence, ParserError> {
    parser.next_token();
    parser.next_token();
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let mut alter = AlterSequence {
        name,
        if_exists,
        options: Vec::new(),
        restart: None,
        rename: None,
    };
    if parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
        alter.rename = Some(parser.parse_identifier()?);
        return Ok(alter);
    }
    let mut options: Vec<TokenWithSpan> = Vec::new();
    while !matches!(parser.peek_token().token, Token::SemiColon | Token::EOF) {
        if parser.parse_keyword(Keyword::RESTART) {
            let with = parser.parse_keyword(Keyword::WITH);
            let negative = parser.consume_token(&Token::Minus);
            let number = match parser.peek_token().token {
                Token::Number(digits, _) => {
                    parser.next_token();
                    let sign = if negative { "-" } else { "" };
                    Some(format!("{sign}{digits}").parse().map_err(|_| {
                        ParserError::ParserError(format!("{digits} is out of range"))
                    })?)
                }
                _ if with || negative => {
                    return parser.expected("a number", parser.peek_token());
                }
                _ => None,
            };
            alter.restart = Some(number);
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            if !parser.parse_keyword(Keyword::NONE) {
                return parser.expected("NONE", parser.peek_token());
            }
        } else {
            options.push(parser.next_token());
        }
    }
    if options.is_empty() {
        return Ok(alter);
    }
    let word = |token| TokenWithSpan::new(token, Span::empty());
    let mut tokens = vec![
        word(Token::make_keyword("CREATE")),
        word(Token::make_keyword("SEQUENCE")),
        word(Token::make_word("s", None)),
    ];
    tokens.extend(options);
    let mut inner = Parser::new(&FirnDialect).with_tokens_with_locations(sequence::rewrite(tokens));
    match inner.parse_statement()? {
        Statement::CreateSequence {
            sequence_options, ..
        } if inner.peek_token().token == Token::EOF => alter.options = sequence_options,
        _ => return inner.expected("an option of a sequence", inner.peek_token()),
    }
    Ok(alter)
}
