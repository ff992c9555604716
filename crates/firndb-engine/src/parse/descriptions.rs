//! DESCRIBE, SUMMARIZE and SHOW as relations of a query, as in DuckDB.
//!
//! ```text
//! FROM (DESCRIBE t)             FROM (SELECT __firndb_describe FROM t)
//! FROM (DESCRIBE SELECT …)      FROM (SELECT __firndb_describe FROM (SELECT …))
//! FROM (SUMMARIZE t)            FROM (SELECT __firndb_summarize FROM t)
//! FROM (SHOW TABLES)            FROM (SELECT * FROM __firndb_show_tables())
//! ```
//!
//! What the marks stand for is known once names are bound (`statement::described`).

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

use super::insert::closing;

/// Alone in a select list: the columns of what is in FROM.
pub(crate) const DESCRIBE: &str = "__firndb_describe";
/// Alone in a select list: a summary of what is in FROM.
pub(crate) const SUMMARIZE: &str = "__firndb_summarize";
/// The function of the names of tables.
pub(crate) const SHOW_TABLES: &str = "__firndb_show_tables";

/// Rewrites these relations.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let names = ["describe", "desc", "summarize", "show"];
    let is_one = |token: &TokenWithSpan| names.iter().any(|name| is(&token.token, name));
    if !tokens.iter().any(is_one) {
        return tokens;
    }
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    for number in (2..solid.len().saturating_sub(1)).rev() {
        if !is_one(&tokens[solid[number]])
            || tokens[solid[number - 1]].token != Token::LParen
            || !before_relation(&tokens[solid[number - 2]].token)
        {
            continue;
        }
        if let Some(close) = closing(&tokens, &solid, number - 1) {
            one(&mut tokens, &solid, number, close);
        }
    }
    tokens
}

fn is(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// Whether a relation in parentheses may follow.
fn before_relation(token: &Token) -> bool {
    ["from", "join", "as"].iter().any(|word| is(token, word)) || *token == Token::Comma
}

fn one(tokens: &mut Vec<TokenWithSpan>, solid: &[usize], number: usize, close: usize) {
    let (place, end) = (solid[number], solid[close]);
    let next = &tokens[solid[number + 1]].token;
    let shows = is(&tokens[place].token, "show");
    if shows && is(next, "tables") && close == number + 2 {
        let call = [
            word("SELECT"),
            blank(),
            made(Token::Mul),
            blank(),
            word("FROM"),
            blank(),
            word(SHOW_TABLES),
            made(Token::LParen),
            made(Token::RParen),
        ];
        tokens.splice(place..end, call);
        return;
    }
    let query = matches!(next, Token::Word(word) if word.quote_style.is_none() && matches!(
        word.keyword,
        Keyword::SELECT | Keyword::WITH | Keyword::FROM | Keyword::VALUES | Keyword::TABLE
    )) || *next == Token::LParen;
    // A column's name and type, as in `CREATE TABLE t (a INTEGER, (describe + 1))`, is none of these.
    if !query && !matches!(next, Token::Word(_) | Token::SingleQuotedString(_)) {
        return;
    }
    let mark = match is(&tokens[place].token, "summarize") {
        true => SUMMARIZE,
        false => DESCRIBE,
    };
    if query {
        tokens.insert(end, made(Token::RParen));
    }
    let mut head = vec![word("SELECT"), blank(), word(mark), blank(), word("FROM")];
    if query {
        head.extend([blank(), made(Token::LParen)]);
    }
    tokens.splice(place..=place, head);
}

fn made(token: Token) -> TokenWithSpan {
    TokenWithSpan::new(token, Span::empty())
}

fn word(text: &str) -> TokenWithSpan {
    made(Token::make_word(text, None))
}

fn blank() -> TokenWithSpan {
    made(Token::Whitespace(Whitespace::Space))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn rewritten(sql: &str) -> String {
        let tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .unwrap();
        let texts = rewrite(tokens);
        texts.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn relations_about_relations() {
        assert_eq!(
            rewritten("from (describe t) d, (show tables)"),
            "from (SELECT __firndb_describe FROM t) d, (SELECT * FROM __firndb_show_tables())"
        );
        assert_eq!(
            rewritten("with d as (summarize select 1) from d"),
            "with d as (SELECT __firndb_summarize FROM ( select 1)) from d"
        );
    }

    #[test]
    fn columns_of_these_names_are_columns() {
        for sql in [
            "create table t (describe int, show text)",
            "select (describe), f(summarize) from t",
            "select a, (describe + 1) from t",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
