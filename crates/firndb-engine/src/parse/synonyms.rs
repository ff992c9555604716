//! Clauses and statements of other systems, in the tokens of the ones that say the same.
//!
//! ```text
//! ABORT                                  ROLLBACK
//! FORCE CHECKPOINT                       CHECKPOINT
//! VACUUM ANALYZE [t]                     VACUUM [t]                    statistics are kept as data changes
//! BEGIN DEFERRED | IMMEDIATE | EXCLUSIVE BEGIN                         writers never wait for readers, nor for one another
//! PRAGMA table_info(t)                   PRAGMA table_info('t')
//! SET SCHEMA 's'                         SET search_path = 's'
//! CALL f(x)                              SELECT * FROM f(x)
//! CREATE UNLOGGED TABLE                  CREATE TABLE                  a hint for speed
//! a ~~~ b                                a GLOB b
//! CREATE TABLE t (LIKE s INCLUDING …)    CREATE TABLE t ("__firndb_like 1 s" INTEGER)
//! INSERT INTO t (a) OVERRIDING … VALUE   INSERT INTO t (a, __firndb_overriding_…)
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::insert::closing;

/// Begins the name of a column that stands for LIKE: the parts to copy, as bits, and the table follow.
pub(crate) const LIKE_TABLE: &str = "__firndb_like ";
/// What LIKE may copy besides names, types and NOT NULL.
pub(crate) const LIKE_DEFAULTS: u8 = 1;
pub(crate) const LIKE_GENERATED: u8 = 2;
pub(crate) const LIKE_IDENTITY: u8 = 4;
pub(crate) const LIKE_CONSTRAINTS: u8 = 8;
pub(crate) const LIKE_INDEXES: u8 = 16;
pub(crate) const LIKE_COMMENTS: u8 = 32;
const LIKE_ALL: u8 = 63;

/// Stands behind the columns of an INSERT … OVERRIDING SYSTEM VALUE.
pub(crate) const OVERRIDING_SYSTEM: &str = "__firndb_overriding_system";
/// Stands behind the columns of an INSERT … OVERRIDING USER VALUE.
pub(crate) const OVERRIDING_USER: &str = "__firndb_overriding_user";

/// Rewrites these forms.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    glob(&mut tokens);
    statements(&mut tokens);
    overriding(&mut tokens);
    like(&mut tokens);
    tokens
}

fn word<'t>(tokens: &'t [TokenWithSpan], code: &[usize], number: usize) -> &'t str {
    match code.get(number).map(|&place| &tokens[place].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => &word.value,
        _ => "",
    }
}

fn code(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect()
}

fn made(token: Token) -> TokenWithSpan {
    TokenWithSpan::new(token, Span::empty())
}

fn glob(tokens: &mut Vec<TokenWithSpan>) {
    let mut place = 0;
    while place + 1 < tokens.len() {
        if tokens[place].token == Token::DoubleTilde && tokens[place + 1].token == Token::Tilde {
            tokens[place].token = Token::make_word("glob", None);
            tokens.remove(place + 1);
        }
        place += 1;
    }
}

/// What begins a statement.
fn statements(tokens: &mut Vec<TokenWithSpan>) {
    let solid = code(tokens);
    enum Edit {
        Drop(usize),
        EqualsBefore(usize),
        SelectAllFrom(usize),
    }
    let mut edits = Vec::new();
    for (number, &place) in solid.iter().enumerate() {
        if number > 0 && tokens[solid[number - 1]].token != Token::SemiColon {
            continue;
        }
        let next = word(tokens, &solid, number + 1).to_owned();
        match (word(tokens, &solid, number), next.as_str()) {
            ("abort", _) => tokens[place].token = Token::make_keyword("ROLLBACK"),
            ("force", "checkpoint") => edits.push(Edit::Drop(place)),
            ("call", name) if !name.is_empty() => edits.push(Edit::SelectAllFrom(place)),
            ("create", "unlogged") | ("analyze", "verbose") => {
                edits.push(Edit::Drop(solid[number + 1]));
            }
            // The name of a table, which the parser takes as a string.
            ("pragma", _) => {
                if let [_, _, open, name, close, ..] = solid[number..]
                    && tokens[open].token == Token::LParen
                    && tokens[close].token == Token::RParen
                    && let Token::Word(table) = &tokens[name].token
                {
                    tokens[name].token = Token::SingleQuotedString(table.value.clone());
                }
            }
            ("begin", "deferred" | "immediate" | "exclusive") => {
                edits.push(Edit::Drop(solid[number + 1]));
            }
            ("vacuum", "analyze") => edits.push(Edit::Drop(solid[number + 1])),
            ("set", "schema") => {
                let value = solid.get(number + 2);
                if let Some(&value) = value
                    && matches!(tokens[value].token, Token::SingleQuotedString(_))
                {
                    tokens[solid[number + 1]].token = Token::make_word("search_path", None);
                    edits.push(Edit::EqualsBefore(value));
                }
            }
            _ => {}
        }
    }
    // From the back, so that places stay what they are.
    for edit in edits.into_iter().rev() {
        match edit {
            Edit::Drop(place) => drop(tokens.remove(place)),
            Edit::EqualsBefore(place) => tokens.insert(place, made(Token::Eq)),
            Edit::SelectAllFrom(place) => {
                let span = tokens[place].span;
                let words = [
                    Token::make_keyword("SELECT"),
                    Token::Mul,
                    Token::make_keyword("FROM"),
                ];
                tokens.splice(
                    place..=place,
                    words.map(|token| TokenWithSpan::new(token, span)),
                );
            }
        }
    }
}

fn overriding(tokens: &mut Vec<TokenWithSpan>) {
    let solid = code(tokens);
    for number in 2..solid.len().saturating_sub(2) {
        let marker = match word(tokens, &solid, number + 1) {
            "system" => OVERRIDING_SYSTEM,
            "user" => OVERRIDING_USER,
            _ => continue,
        };
        if word(tokens, &solid, number) != "overriding"
            || word(tokens, &solid, number + 2) != "value"
        {
            continue;
        }
        let before = solid[number - 1];
        let listed = tokens[before].token == Token::RParen;
        tokens.drain(solid[number]..=solid[number + 2]);
        let column = made(Token::make_word(marker, None));
        if listed {
            tokens.splice(before..before, [made(Token::Comma), column]);
        } else {
            let list = [made(Token::LParen), column, made(Token::RParen)];
            tokens.splice(before + 1..before + 1, list);
        }
        return;
    }
}

/// LIKE among the columns of CREATE TABLE.
fn like(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens
        .iter()
        .any(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::LIKE))
    {
        return;
    }
    let solid = code(tokens);
    for number in (0..solid.len()).rev() {
        let creates = word(tokens, &solid, number) == "create"
            && (number == 0 || tokens[solid[number - 1]].token == Token::SemiColon);
        if !creates {
            continue;
        }
        let Some(table) = (number + 1..number + 5).find(|&at| word(tokens, &solid, at) == "table")
        else {
            continue;
        };
        let end = (table..solid.len())
            .find(|&at| tokens[solid[at]].token == Token::SemiColon)
            .unwrap_or(solid.len());
        let Some(open) = (table..end).find(|&at| tokens[solid[at]].token == Token::LParen) else {
            continue;
        };
        if (table..open).any(|at| matches!(word(tokens, &solid, at), "as" | "like")) {
            continue;
        }
        if let Some(close) = closing(tokens, &solid, open) {
            likes_between(tokens, &solid, open, close);
        }
    }
}

fn likes_between(tokens: &mut Vec<TokenWithSpan>, solid: &[usize], open: usize, close: usize) {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for at in open..close {
        match tokens[solid[at]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let begins = at == open || depth == 1 && tokens[solid[at]].token == Token::Comma;
        if begins && word(tokens, solid, at + 1) == "like" {
            found.extend(one_like(tokens, solid, at + 1, close));
        }
    }
    for (places, column) in found.into_iter().rev() {
        tokens.splice(places, column);
    }
}

/// The places of one LIKE, and the column that stands for it.
fn one_like(
    tokens: &[TokenWithSpan],
    solid: &[usize],
    start: usize,
    close: usize,
) -> Option<(std::ops::RangeInclusive<usize>, Vec<TokenWithSpan>)> {
    let mut name = String::new();
    let mut at = start + 1;
    loop {
        let Token::Word(part) = &tokens[solid[at]].token else {
            return None;
        };
        name.push_str(&format!("\"{}\"", part.value.replace('"', "\"\"")));
        at += 1;
        if at >= close || tokens[solid[at]].token != Token::Period {
            break;
        }
        name.push('.');
        at += 1;
    }
    let mut parts = 0_u8;
    while at + 1 < close {
        let including = match word(tokens, solid, at) {
            "including" => true,
            "excluding" => false,
            _ => break,
        };
        let part = match word(tokens, solid, at + 1) {
            "all" => LIKE_ALL,
            "defaults" => LIKE_DEFAULTS,
            "generated" => LIKE_GENERATED,
            "identity" => LIKE_IDENTITY,
            "constraints" => LIKE_CONSTRAINTS,
            "indexes" => LIKE_INDEXES,
            "comments" => LIKE_COMMENTS,
            "storage" | "statistics" | "compression" => 0,
            _ => return None,
        };
        parts = if including {
            parts | part
        } else {
            parts & !part
        };
        at += 2;
    }
    let column = format!("{LIKE_TABLE}{parts} {name}");
    let made_of = vec![
        made(Token::make_word(&column, Some('"'))),
        made(Token::Whitespace(
            datafusion::sql::sqlparser::tokenizer::Whitespace::Space,
        )),
        made(Token::make_keyword("INTEGER")),
    ];
    Some((solid[start]..=solid[at - 1], made_of))
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
        let text: String = rewrite(tokens)
            .iter()
            .map(|token| token.token.to_string())
            .collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn statements_of_other_systems() {
        assert_eq!(
            rewritten("abort; force checkpoint; vacuum analyze t; set schema 'x'"),
            "ROLLBACK; checkpoint; vacuum t; set search_path ='x'"
        );
        assert_eq!(
            rewritten("begin immediate; begin exclusive transaction"),
            "begin ; begin transaction"
        );
        assert_eq!(
            rewritten("select a ~~~ b, a ~~ ~b"),
            "select a glob b, a ~~ ~b"
        );
    }

    #[test]
    fn like_is_a_column() {
        assert_eq!(
            rewritten("create table t (like s.u including all excluding indexes, b int)"),
            "create table t (\"__firndb_like 47 \"s\".\"u\"\" INTEGER, b int)"
        );
        let check = "create table t (a text check (a like 'x%'))";
        assert_eq!(rewritten(check), check);
    }

    #[test]
    fn overriding_goes_behind_the_columns() {
        assert_eq!(
            rewritten("insert into t (a) overriding system value values (1)"),
            "insert into t (a,__firndb_overriding_system) values (1)"
        );
        assert_eq!(
            rewritten("insert into t overriding user value values (1)"),
            "insert into t(__firndb_overriding_user) values (1)"
        );
    }
}
