//! Targets of ON CONFLICT that the parser does not know: expressions, and conditions of partial indexes.
//!
//! ```text
//! ON CONFLICT (lower(a), b) WHERE c > 0 DO …     ON CONFLICT ("__firndb_target lower(a), b ␁ c > 0") DO …
//! ```

use datafusion::sql::sqlparser::ast::{Expr, Ident};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::FirnDialect;
use super::insert::closing;
use crate::error::{Error, Result, SqlState};

/// Begins the name that stands for a target.
const TARGET: &str = "__firndb_target ";
/// Stands before the condition.
const WHERE: char = '\u{1}';

/// What a target names.
pub(crate) struct ConflictTarget {
    /// Columns and expressions.
    pub(crate) parts: Vec<Expr>,
    /// The condition of a partial index.
    pub(crate) condition: Option<Expr>,
}

/// Rewrites these targets.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan, keyword: Keyword| matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none());
    if !tokens.iter().any(|token| word(token, Keyword::CONFLICT)) {
        return tokens;
    }
    let code: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let is = |number: usize, keyword: Keyword| {
        code.get(number)
            .is_some_and(|&place| word(&tokens[place], keyword))
    };
    let mut replaced: Vec<(usize, usize, Token)> = Vec::new();
    for number in 0..code.len() {
        if !is(number, Keyword::ON)
            || !is(number + 1, Keyword::CONFLICT)
            || code.get(number + 2).map(|&place| &tokens[place].token) != Some(&Token::LParen)
        {
            continue;
        }
        let Some(close) = closing(&tokens, &code, number + 2) else {
            continue;
        };
        let plain = (number + 3..close)
            .all(|number| matches!(tokens[code[number]].token, Token::Word(_) | Token::Comma))
            && (number + 3..close).all(|inner| {
                matches!(tokens[code[inner]].token, Token::Word(_)) == ((inner - number) % 2 == 1)
            });
        let mut end = close;
        if is(close + 1, Keyword::WHERE) {
            let mut depth = 0_usize;
            end = close + 2;
            while let Some(&place) = code.get(end) {
                match &tokens[place].token {
                    Token::LParen => depth += 1,
                    Token::RParen => depth = depth.saturating_sub(1),
                    Token::SemiColon => break,
                    _ if depth == 0 && word(&tokens[place], Keyword::DO) => break,
                    _ => {}
                }
                end += 1;
            }
            end -= 1;
        }
        if plain && end == close {
            continue;
        }
        let text = |from: usize, to: usize| -> String {
            let words: Vec<String> = code[from..to]
                .iter()
                .map(|&place| tokens[place].token.to_string())
                .collect();
            words.join(" ")
        };
        let mut target = format!("{TARGET}{}", text(number + 3, close));
        if end > close {
            target.push(WHERE);
            target.push_str(&text(close + 2, end + 1));
        }
        let name = Token::make_word(&target, Some('"'));
        replaced.push((code[number + 2], code[end], name));
    }
    if replaced.is_empty() {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len());
    let mut replaced = replaced.into_iter().peekable();
    let mut rest = tokens.into_iter().enumerate();
    while let Some((place, token)) = rest.next() {
        let Some((_, end, name)) = replaced.next_if(|(start, _, _)| *start == place) else {
            rewritten.push(token);
            continue;
        };
        let span = token.span;
        for token in [Token::LParen, name, Token::RParen] {
            rewritten.push(TokenWithSpan::new(token, span));
        }
        for (place, _) in rest.by_ref() {
            if place == end {
                break;
            }
        }
    }
    rewritten
}

/// What the columns of an ON CONFLICT name.
pub(crate) fn conflict_target(columns: &[Ident]) -> Result<ConflictTarget> {
    let rewritten = match columns {
        [only] => only.value.strip_prefix(TARGET),
        _ => None,
    };
    let Some(text) = rewritten else {
        return Ok(ConflictTarget {
            parts: columns.iter().cloned().map(Expr::Identifier).collect(),
            condition: None,
        });
    };
    let (parts, condition) = match text.split_once(WHERE) {
        Some((parts, condition)) => (parts, Some(condition)),
        None => (text, None),
    };
    let wrong = |error: datafusion::sql::sqlparser::parser::ParserError| {
        Error::new(
            SqlState::SyntaxError,
            format!("syntax error in the target of ON CONFLICT: {error}"),
        )
    };
    let parts = Parser::new(&FirnDialect)
        .try_with_sql(parts)
        .and_then(|mut parser| parser.parse_comma_separated(Parser::parse_expr))
        .map_err(wrong)?;
    let condition = condition
        .map(|condition| {
            Parser::new(&FirnDialect)
                .try_with_sql(condition)
                .and_then(|mut parser| parser.parse_expr())
        })
        .transpose()
        .map_err(wrong)?;
    Ok(ConflictTarget { parts, condition })
}
