//! `CREATE RECURSIVE VIEW`, as in PostgreSQL and DuckDB:
//!
//! ```text
//! CREATE RECURSIVE VIEW v (n) AS q   ─▶   CREATE VIEW v (n) AS WITH RECURSIVE v (n) AS (q) SELECT * FROM v
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Rewrites the definitions of recursive views.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let recursive = |token: &TokenWithSpan| is(token, Keyword::RECURSIVE);
    if !tokens.iter().any(recursive) {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|token| token.token == Token::SemiColon)
            .unwrap_or(rest.len());
        let mut after = rest.split_off(end);
        rewritten.extend(match of_statement(&rest) {
            Some(statement) => statement,
            None => rest,
        });
        let next = after.split_off(after.len().min(1));
        rewritten.extend(after);
        rest = next;
    }
    rewritten
}

fn is(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.keyword == keyword)
}

/// A statement without its semicolon.
fn of_statement(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_) | Token::EOF))
        .collect();
    let word = |number: usize, keyword: Keyword| {
        solid
            .get(number)
            .is_some_and(|&place| is(&tokens[place], keyword))
    };
    if !word(0, Keyword::CREATE) {
        return None;
    }
    let recursive = (1..5).find(|&number| word(number, Keyword::RECURSIVE))?;
    if !word(recursive + 1, Keyword::VIEW) {
        return None;
    }
    let body = (recursive + 2..solid.len()).find(|&number| word(number, Keyword::AS))?;
    let mut name = recursive + 2;
    if word(name, Keyword::IF) {
        name += 3;
    }
    while name + 2 < body && tokens[solid[name + 1]].token == Token::Period {
        name += 2;
    }
    let columns = &tokens[*solid.get(name + 1)?..*solid.get(body)?];
    let last = *solid.last()?;
    let span = tokens[solid[body]].span;
    let made = |token: Token| TokenWithSpan::new(token, span);
    let word = |text: &str| made(Token::make_keyword(text));
    let mut rewritten: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 16);
    let dropped = solid[recursive];
    rewritten.extend_from_slice(&tokens[..dropped]);
    rewritten.extend_from_slice(&tokens[dropped + 1..=solid[body]]);
    rewritten.extend([word("WITH"), word("RECURSIVE"), tokens[solid[name]].clone()]);
    rewritten.extend_from_slice(columns);
    rewritten.extend([word("AS"), made(Token::LParen)]);
    rewritten.extend_from_slice(&tokens[solid[body] + 1..=last]);
    rewritten.extend([
        made(Token::RParen),
        word("SELECT"),
        made(Token::Mul),
        word("FROM"),
        tokens[solid[name]].clone(),
    ]);
    rewritten.extend_from_slice(&tokens[last + 1..]);
    Some(rewritten)
}
