//! Words that begin an expression or a clause where they are followed by what belongs to it, and are names elsewhere:
//!
//! ```text
//! SELECT interval, trim FROM t     SELECT "interval", "trim" FROM t
//! s.trim()                         s."trim"()
//! ```
//!
//! Such a word is put in quotes where what follows it can only follow a name.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words of the parser's own syntax that are names where nothing of this syntax follows.
const WORDS: [&str; 12] = [
    "interval",
    "trim",
    "struct",
    "exists",
    "explain",
    "exclude",
    "cluster",
    "view",
    "values",
    "cube",
    "rollup",
    "substring",
];
/// Units of time, in the singular.
const UNITS: [&str; 11] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "decade",
];
/// What a list of types stands behind.
const TYPES: [&str; 9] = [
    "map", "struct", "union", "row", "function", "macro", "prepare", "decimal", "list",
];

/// Puts these words in quotes where they are names.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token)) {
        return tokens;
    }
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let names: Vec<usize> = (0..solid.len())
        .filter(|&at| is_word(&tokens[solid[at]].token) && is_name(&tokens, &solid, at))
        .map(|at| solid[at])
        .collect();
    for place in names {
        if let Token::Word(word) = &mut tokens[place].token {
            word.quote_style = Some('"');
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

fn text(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}

fn is_word(token: &Token) -> bool {
    text(token).is_some_and(|text| WORDS.contains(&text))
}

fn is_name(tokens: &[TokenWithSpan], solid: &[usize], at: usize) -> bool {
    let token = |at: usize| solid.get(at).map(|&place| &tokens[place].token);
    let word = token(at).and_then(text).unwrap_or_default();
    let before = at.checked_sub(1).and_then(token);
    let after = token(at + 1);
    let is_if = |place: Option<usize>| {
        let word = place.and_then(token).and_then(text);
        word == Some("if")
    };
    let of_definition = word == "exists" && (is_if(at.checked_sub(1)) || is_if(at.checked_sub(2)));
    if of_definition || word == "exclude" && before == Some(&Token::Mul) {
        return false;
    }
    if before == Some(&Token::Period) {
        return after == Some(&Token::LParen);
    }
    // A statement's first word, a type, and what a word before it asks for.
    let begins = match before {
        None | Some(Token::SemiColon | Token::DoubleColon) => false,
        Some(before) => match text(before) {
            Some(before) => matches!(
                before,
                "select"
                    | "by"
                    | "where"
                    | "and"
                    | "or"
                    | "not"
                    | "on"
                    | "when"
                    | "then"
                    | "else"
                    | "set"
                    | "distinct"
                    | "having"
                    | "returning"
                    | "between"
                    | "case"
                    | "in"
                    | "like"
                    | "using"
                    | "qualify"
                    | "limit"
                    | "all"
            ),
            None => !matches!(before, Token::Word(_) | Token::RParen | Token::RBracket),
        },
    };
    if !begins {
        return false;
    }
    let ends = match after {
        None => true,
        Some(
            Token::Comma
            | Token::RParen
            | Token::RBracket
            | Token::SemiColon
            | Token::Eq
            | Token::DoubleEq
            | Token::Neq
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
            | Token::Mul
            | Token::Div
            | Token::Mod
            | Token::StringConcat
            | Token::DoubleColon
            | Token::Period,
        ) => true,
        Some(Token::Lt) => word != "struct",
        Some(Token::Plus) => true,
        Some(Token::Minus) => word != "interval" || !is_amount(&token(at + 2), &token(at + 3)),
        Some(other) => text(other).is_some_and(|next| {
            matches!(
                next,
                "from"
                    | "as"
                    | "is"
                    | "and"
                    | "or"
                    | "in"
                    | "not"
                    | "then"
                    | "else"
                    | "end"
                    | "when"
                    | "desc"
                    | "asc"
                    | "like"
                    | "ilike"
                    | "between"
                    | "limit"
                    | "order"
                    | "group"
                    | "where"
                    | "having"
                    | "nulls"
                    | "union"
                    | "returning"
                    | "offset"
            )
        }),
    };
    ends && !is_type_list(tokens, solid, at)
}

/// A number and a unit of time.
fn is_amount(number: &Option<&Token>, unit: &Option<&Token>) -> bool {
    let unit = unit.and_then(text).map(|unit| unit.trim_end_matches('s'));
    matches!(
        number,
        Some(Token::Number(_, _) | Token::SingleQuotedString(_))
    ) && unit.is_some_and(|unit| UNITS.contains(&unit))
}

/// Whether the innermost bracket around a place holds types.
fn is_type_list(tokens: &[TokenWithSpan], solid: &[usize], at: usize) -> bool {
    let mut depth = 0_usize;
    for before in (0..at).rev() {
        match &tokens[solid[before]].token {
            Token::RParen => depth += 1,
            Token::LParen if depth > 0 => depth -= 1,
            Token::LParen => {
                let named = |back: usize| {
                    let place = before.checked_sub(back)?;
                    text(&tokens[solid[place]].token)
                };
                return [1, 2]
                    .into_iter()
                    .filter_map(named)
                    .any(|name| TYPES.contains(&name));
            }
            Token::SemiColon => return false,
            _ => {}
        }
    }
    false
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
        rewrite(tokens)
            .iter()
            .map(|token| token.token.to_string())
            .collect()
    }

    #[test]
    fn names_are_quoted() {
        for (given, wanted) in [
            ("select interval from t", "select \"interval\" from t"),
            (
                "select a, trim, struct = 1",
                "select a, \"trim\", \"struct\" = 1",
            ),
            (
                "select s.trim(), s.substring(1, 2)",
                "select s.\"trim\"(), s.\"substring\"(1, 2)",
            ),
            (
                "select interval - 1 from t",
                "select \"interval\" - 1 from t",
            ),
        ] {
            assert_eq!(rewritten(given), wanted);
        }
    }

    #[test]
    fn syntax_stays() {
        for sql in [
            "select interval '1 day', interval -1 day, interval (x) day, trim(a), exists (select 1)",
            "select a::interval, cast(a as interval), map(interval, int)",
            "create table t (a interval, b interval)",
            "explain select 1; create view v as values (1)",
            "select a from t group by cube (a), rollup (b)",
            "select * exclude (a) from t where not exists (select 1)",
            "create function f(interval, interval) returns interval",
            "create table if not exists offset (a int)",
            "select * exclude nulls from t",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
