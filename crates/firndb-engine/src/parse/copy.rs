//! COPY's syntax, with any option.
//!
//! sqlparser's COPY knows PostgreSQL's options alone. Options of any name travel in `CopyLegacyOption::Extension` nodes, name and value in one text,
//! and are taken out again by [`carried_option`].
//!
//! ```text
//! COPY { table [ ( column, … ) ] | ( query ) } { TO | FROM } 'file' [ [ WITH ] ( option [ = ] [ value ], … ) ]
//! COPY … [ WITH ] CSV [ HEADER ] [ DELIMITER [ AS ] 'c' ] …                             (PostgreSQL's older spelling)
//! ```

use datafusion::sql::sqlparser::ast::{CopyLegacyOption, CopySource, CopyTarget, Statement};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{IsOptional, Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The value of an option of COPY or of a file reader.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// A name alone.
    None,
    /// Text, a name, or a number as written.
    Text(String),
    /// TRUE or FALSE.
    Boolean(bool),
    /// Several.
    List(Vec<String>),
    /// Names with types or other texts.
    Pairs(Vec<(String, String)>),
}

/// Between the items of a list that is carried: U+001F, the unit separator.
const SEPARATOR: char = '\u{1f}';

/// Parses a COPY statement, if one begins here. For a dialect's `parse_statement`.
pub(super) fn parse_copy(parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
    parser
        .parse_keyword(Keyword::COPY)
        .then(|| copy_statement(parser))
}

fn copy_statement(parser: &mut Parser) -> Result<Statement, ParserError> {
    let source = if parser.consume_token(&Token::LParen) {
        let query = parser.parse_query()?;
        parser.expect_token(&Token::RParen)?;
        CopySource::Query(query)
    } else {
        CopySource::Table {
            table_name: parser.parse_object_name(false)?,
            columns: parser.parse_parenthesized_column_list(IsOptional::Optional, false)?,
        }
    };
    let to = if parser.parse_keyword(Keyword::TO) {
        true
    } else if parser.parse_keyword(Keyword::FROM) {
        false
    } else {
        return parser.expected("FROM or TO", parser.peek_token());
    };
    if !to && matches!(source, CopySource::Query(_)) {
        return Err(ParserError::ParserError(
            "COPY FROM requires a table".to_owned(),
        ));
    }
    let target = if parser.parse_keyword(Keyword::STDIN) {
        CopyTarget::Stdin
    } else if parser.parse_keyword(Keyword::STDOUT) {
        CopyTarget::Stdout
    } else if parser.parse_keyword(Keyword::PROGRAM) {
        CopyTarget::Program {
            command: parser.parse_literal_string()?,
        }
    } else {
        CopyTarget::File {
            filename: parser.parse_literal_string()?,
        }
    };
    let mut options = Vec::new();
    let with = parser.parse_keyword(Keyword::WITH);
    if parser.consume_token(&Token::LParen) {
        options = parser.parse_comma_separated(option)?;
        parser.expect_token(&Token::RParen)?;
    } else {
        while matches!(parser.peek_token().token, Token::Word(_)) {
            options.push(older_option(parser)?);
        }
        if with && options.is_empty() {
            return parser.expected("an option", parser.peek_token());
        }
    }
    Ok(Statement::Copy {
        source,
        to,
        target,
        options: Vec::new(),
        legacy_options: options,
        values: Vec::new(),
    })
}

/// `name [ = ] [ value ]` within parentheses.
fn option(parser: &mut Parser) -> Result<CopyLegacyOption, ParserError> {
    let name = parser.parse_identifier()?.value;
    let _ = parser.consume_token(&Token::Eq);
    let value = match parser.peek_token().token {
        Token::Comma | Token::RParen => OptionValue::None,
        Token::LParen => {
            parser.next_token();
            let items = parser.parse_comma_separated(scalar)?;
            parser.expect_token(&Token::RParen)?;
            OptionValue::List(items)
        }
        Token::LBracket => {
            parser.next_token();
            let items = parser.parse_comma_separated(scalar)?;
            parser.expect_token(&Token::RBracket)?;
            OptionValue::List(items)
        }
        Token::Word(word) if word.quote_style.is_none() => match word.keyword {
            Keyword::TRUE | Keyword::FALSE => {
                parser.next_token();
                OptionValue::Boolean(word.keyword == Keyword::TRUE)
            }
            _ => OptionValue::Text(scalar(parser)?),
        },
        _ => OptionValue::Text(scalar(parser)?),
    };
    Ok(carry(&name, &value))
}

/// One item: a text, a number, a name, or `*`.
fn scalar(parser: &mut Parser) -> Result<String, ParserError> {
    let token = parser.next_token();
    Ok(match token.token {
        Token::Word(word) => word.value,
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => text,
        Token::Number(digits, _) => digits,
        Token::Mul => "*".to_owned(),
        Token::Minus => match parser.next_token().token {
            Token::Number(digits, _) => format!("-{digits}"),
            _ => return parser.expected("a number", parser.peek_token()),
        },
        _ => return parser.expected("an option's value", token),
    })
}

/// `CSV`, `HEADER`, `DELIMITER [ AS ] 'c'` … without parentheses.
fn older_option(parser: &mut Parser) -> Result<CopyLegacyOption, ParserError> {
    let name = parser.parse_identifier()?.value.to_ascii_lowercase();
    let value = match name.as_str() {
        "csv" | "binary" | "text" => {
            return Ok(carry("format", &OptionValue::Text(name)));
        }
        "header" | "freeze" => OptionValue::None,
        "format" => OptionValue::Text(scalar(parser)?),
        "delimiter" | "null" | "quote" | "escape" | "encoding" => {
            let _ = parser.parse_keyword(Keyword::AS);
            OptionValue::Text(parser.parse_literal_string()?)
        }
        _ => return parser.expected("an option of COPY", parser.peek_token()),
    };
    Ok(carry(&name, &value))
}

/// Puts an option into a node: name, kind and value in one text.
fn carry(name: &str, value: &OptionValue) -> CopyLegacyOption {
    let (kind, text) = match value {
        OptionValue::None => ('-', String::new()),
        OptionValue::Text(text) => ('t', text.clone()),
        OptionValue::Boolean(on) => ('b', on.to_string()),
        OptionValue::List(items) => ('l', items.join(&SEPARATOR.to_string())),
        // COPY has no structs.
        OptionValue::Pairs(_) => ('-', String::new()),
    };
    CopyLegacyOption::Extension(format!("{}={kind}{text}", name.to_ascii_lowercase()))
}

/// Takes an option out of its node.
pub(crate) fn carried_option(option: &CopyLegacyOption) -> Option<(String, OptionValue)> {
    let CopyLegacyOption::Extension(text) = option else {
        return None;
    };
    let (name, value) = text.split_once('=')?;
    let mut rest = value.chars();
    let value = match rest.next()? {
        '-' => OptionValue::None,
        't' => OptionValue::Text(rest.as_str().to_owned()),
        'b' => OptionValue::Boolean(rest.as_str() == "true"),
        'l' => OptionValue::List(rest.as_str().split(SEPARATOR).map(str::to_owned).collect()),
        _ => return None,
    };
    Some((name.to_owned(), value))
}
