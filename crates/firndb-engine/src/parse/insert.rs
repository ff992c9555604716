//! Forms of INSERT that the parser does not know.
//!
//! ```text
//! INSERT INTO t BY NAME SELECT …     INSERT INTO t (__firndb_by_name) SELECT …
//! INSERT INTO t BY POSITION SELECT … INSERT INTO t SELECT …
//! INSERT INTO t (VALUES …)           INSERT INTO t VALUES …
//! ```

use std::collections::HashSet;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Stands for BY NAME in the parser's INSERT: the query's columns go to the table's columns of the same names.
pub(crate) const BY_NAME: &str = "__firndb_by_name";

/// Rewrites these forms.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let code: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let token = |number: usize| code.get(number).map(|&place| &tokens[place].token);
    let is = |number: usize, wanted: Keyword| matches!(token(number), Some(Token::Word(word)) if word.keyword == wanted && word.quote_style.is_none());
    let mut dropped = HashSet::new();
    let mut by_name = HashSet::new();
    for number in 0..code.len() {
        if !is(number, Keyword::INTO)
            || !(1..=3).any(|back| number >= back && is(number - back, Keyword::INSERT))
        {
            continue;
        }
        let mut next = number + 2;
        while token(next) == Some(&Token::Period) {
            next += 2;
        }
        if is(next, Keyword::BY)
            && (is(next + 1, Keyword::NAME)
                || matches!(token(next + 1), Some(Token::Word(word)) if word.value == "position"))
        {
            if is(next + 1, Keyword::NAME) {
                by_name.insert(code[next]);
            }
            dropped.insert(code[next]);
            dropped.insert(code[next + 1]);
        } else if token(next) == Some(&Token::LParen)
            && (is(next + 1, Keyword::VALUES) || is(next + 1, Keyword::WITH))
            && let Some(close) = closing(&tokens, &code, next)
        {
            dropped.insert(code[next]);
            dropped.insert(code[close]);
        }
    }
    if dropped.is_empty() {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + 2);
    for (place, token) in tokens.into_iter().enumerate() {
        if by_name.contains(&place) {
            rewritten.extend(
                [
                    Token::LParen,
                    Token::make_word(BY_NAME, None),
                    Token::RParen,
                ]
                .map(|token| TokenWithSpan::new(token, Span::empty())),
            );
        }
        if !dropped.contains(&place) {
            rewritten.push(token);
        }
    }
    rewritten
}

/// The number of the parenthesis that closes the one with this number.
pub(super) fn closing(tokens: &[TokenWithSpan], code: &[usize], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (number, &place) in code.iter().enumerate().skip(open) {
        match tokens[place].token {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(number);
                }
            }
            _ => {}
        }
    }
    None
}
