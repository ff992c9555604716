//! Spellings that the parser does not know, brought to ones that it does, in the tokens.
//!
//! ```text
//! TABLE t                              FROM t
//! WITH t AS [NOT] MATERIALIZED (…)     WITH t AS (…)                                a hint that changes no result
//! trim(BOTH FROM x)                    trim(BOTH x)
//! f(x) FILTER (c)                      f(x) FILTER (WHERE c)
//! a ** b                               a ^ b
//! ALTER … RENAME CONSTRAINT a TO b     ALTER … RENAME COLUMN "__firndb_constraint a" TO b
//! a ASOF LEFT JOIN b ON …              a GLOBAL LEFT JOIN b ON …            a word that no other join has
//! a POSITIONAL JOIN b                  a GLOBAL CROSS JOIN b
//! DROP MACRO [TABLE] f                 DROP FUNCTION f
//! CREATE FUNCTION f(…) AS e            CREATE MACRO f(…) AS e
//! 0b101, 0o17                          5, 15
//! TIMESTAMP_S '…'                      '…'::TIMESTAMP_S
//! CREATE TABLE t (a, b) AS q           CREATE TABLE t AS SELECT * FROM (q) AS t (a, b)
//! CREATE TABLE t AS q WITH NO DATA     CREATE TABLE t AS SELECT * FROM (q) AS t LIMIT 0
//! CREATE TABLE t (key INT)             CREATE TABLE t ("key" INT)                   words that begin a definition elsewhere
//! '1 day'::interval PRECEDING          INTERVAL '1 day' PRECEDING
//! ```

use std::collections::HashSet;

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

use super::insert::closing;

/// Rewrites these spellings.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    radix_numbers(&mut tokens);
    typed_strings(&mut tokens);
    table_as_from(&mut tokens);
    drop_materialized(&mut tokens);
    drop_trim_from(&mut tokens);
    power(&mut tokens);
    rename_constraint(&mut tokens);
    macros(&mut tokens);
    asof(&mut tokens);
    positional(&mut tokens);
    named_like_indexes(&mut tokens);
    frame_bounds(&mut tokens);
    create_table_as(filter_where(tokens))
}

fn is(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// The places of what is not blank.
fn code(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect()
}

/// Binary and octal numbers, which the tokenizer takes for a zero and a name. What is none stays.
fn radix_numbers(tokens: &mut Vec<TokenWithSpan>) {
    let mut place = 0;
    while place + 1 < tokens.len() {
        if let (Token::Number(zero, false), Token::Word(word)) =
            (&tokens[place].token, &tokens[place + 1].token)
            && zero == "0"
            && word.quote_style.is_none()
            && let Some((kind, digits)) = word.value.split_at_checked(1)
            && let Some(radix) = match kind {
                "b" => Some(2),
                "o" => Some(8),
                _ => None,
            }
            && let Ok(number) = u128::from_str_radix(&digits.replace('_', ""), radix)
        {
            tokens[place].token = Token::Number(number.to_string(), false);
            tokens.remove(place + 1);
        }
        place += 1;
    }
}

/// `TIMESTAMP_S '…'`, whose type the parser knows in casts only.
fn typed_strings(tokens: &mut Vec<TokenWithSpan>) {
    const TYPES: [&str; 4] = [
        "timestamp_s",
        "timestamp_ms",
        "timestamp_us",
        "timestamp_ns",
    ];
    let named = |token: &TokenWithSpan| matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && TYPES.contains(&word.value.as_str()));
    if !tokens.iter().any(named) {
        return;
    }
    let solid = code(tokens);
    for pair in solid.windows(2).rev() {
        if named(&tokens[pair[0]]) && matches!(tokens[pair[1]].token, Token::SingleQuotedString(_))
        {
            tokens.swap(pair[0], pair[1]);
            tokens.insert(pair[1], made(Token::DoubleColon));
        }
    }
}

fn table_as_from(tokens: &mut [TokenWithSpan]) {
    let mut first = true;
    for token in tokens {
        match &mut token.token {
            Token::Whitespace(_) => {}
            Token::SemiColon => first = true,
            Token::Word(word) if first && word.keyword == Keyword::TABLE => {
                token.token = Token::make_keyword("FROM");
                first = false;
            }
            _ => first = false,
        }
    }
}

fn drop_materialized(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is(token, Keyword::MATERIALIZED)) {
        return;
    }
    let solid = code(tokens);
    let mut dropped = HashSet::new();
    for window in 1..solid.len().saturating_sub(1) {
        let (before, here, after) = (solid[window - 1], solid[window], solid[window + 1]);
        if is(&tokens[here], Keyword::MATERIALIZED) && tokens[after].token == Token::LParen {
            if is(&tokens[before], Keyword::AS) {
                dropped.insert(here);
            } else if is(&tokens[before], Keyword::NOT)
                && window >= 2
                && is(&tokens[solid[window - 2]], Keyword::AS)
            {
                dropped.insert(before);
                dropped.insert(here);
            }
        }
    }
    let mut index = 0;
    tokens.retain(|_| {
        index += 1;
        !dropped.contains(&(index - 1))
    });
}

fn drop_trim_from(tokens: &mut Vec<TokenWithSpan>) {
    let (mut opened, mut sided) = (false, false);
    tokens.retain(|token| {
        let keyword = match &token.token {
            Token::Whitespace(_) => return true,
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let dropped = sided && keyword == Keyword::FROM;
        sided = opened
            && matches!(
                keyword,
                Keyword::BOTH | Keyword::LEADING | Keyword::TRAILING
            );
        opened = token.token == Token::LParen;
        !dropped
    });
}

/// Columns of a table that are called KEY, INDEX, FULLTEXT or SPATIAL, which the parser takes for MySQL's definitions of indexes.
fn named_like_indexes(tokens: &mut [TokenWithSpan]) {
    let mut creates = false;
    let solid = code(tokens);
    for at in 0..solid.len().saturating_sub(1) {
        let here = &tokens[solid[at]];
        if at == 0 || tokens[solid[at - 1]].token == Token::SemiColon {
            creates = is(here, Keyword::CREATE);
        }
        let named = [
            Keyword::KEY,
            Keyword::INDEX,
            Keyword::FULLTEXT,
            Keyword::SPATIAL,
        ];
        if creates
            && at > 0
            && named.iter().any(|&keyword| is(here, keyword))
            && matches!(tokens[solid[at - 1]].token, Token::LParen | Token::Comma)
            && matches!(tokens[solid[at + 1]].token, Token::Word(_))
            && let Token::Word(word) = &mut tokens[solid[at]].token
        {
            word.quote_style = Some('"');
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// Bounds of a window's frame as PostgreSQL's casts, where the parser takes intervals alone.
fn frame_bounds(tokens: &mut [TokenWithSpan]) {
    let solid = code(tokens);
    for at in 3..solid.len() {
        let [text, colons, name, bound] = [solid[at - 3], solid[at - 2], solid[at - 1], solid[at]];
        let is_bound =
            is(&tokens[bound], Keyword::PRECEDING) || is(&tokens[bound], Keyword::FOLLOWING);
        if is_bound
            && is(&tokens[name], Keyword::INTERVAL)
            && tokens[colons].token == Token::DoubleColon
            && matches!(tokens[text].token, Token::SingleQuotedString(_))
        {
            tokens.swap(text, name);
            tokens[colons].token = Token::Whitespace(Whitespace::Space);
        }
    }
}

/// Two stars side by side, between operands.
fn power(tokens: &mut Vec<TokenWithSpan>) {
    let mut place = 0;
    while place + 1 < tokens.len() {
        if tokens[place].token == Token::Mul && tokens[place + 1].token == Token::Mul {
            tokens[place].token = Token::Caret;
            tokens.remove(place + 1);
        }
        place += 1;
    }
}

/// Begins what RENAME COLUMN is told where a constraint is meant.
pub(crate) const RENAMED_CONSTRAINT: &str = "__firndb_constraint ";

fn rename_constraint(tokens: &mut [TokenWithSpan]) {
    let solid = code(tokens);
    for three in solid.windows(3) {
        if is(&tokens[three[0]], Keyword::RENAME)
            && is(&tokens[three[1]], Keyword::CONSTRAINT)
            && let Token::Word(name) = &tokens[three[2]].token
        {
            let name = format!("{RENAMED_CONSTRAINT}{}", name.value);
            tokens[three[1]].token = Token::make_keyword("COLUMN");
            tokens[three[2]].token = Token::make_word(&name, Some('"'));
        }
    }
}

/// ASOF before a join, which the parser knows with other conditions only.
fn asof(tokens: &mut [TokenWithSpan]) {
    let solid = code(tokens);
    for pair in solid.windows(2) {
        let joins = [Keyword::JOIN, Keyword::LEFT, Keyword::INNER]
            .iter()
            .any(|keyword| is(&tokens[pair[1]], *keyword));
        if joins && is(&tokens[pair[0]], Keyword::ASOF) {
            tokens[pair[0]].token = Token::make_keyword("GLOBAL");
        }
    }
}

fn positional(tokens: &mut Vec<TokenWithSpan>) {
    let solid = code(tokens);
    for pair in solid.windows(2).rev() {
        let named = matches!(&tokens[pair[0]].token, Token::Word(word) if word.quote_style.is_none() && word.value == "positional");
        if named && is(&tokens[pair[1]], Keyword::JOIN) {
            tokens[pair[0]].token = Token::make_keyword("GLOBAL");
            let cross = made(Token::make_keyword("CROSS"));
            tokens.insert(pair[1], cross);
        }
    }
}

/// DROP MACRO, and CREATE FUNCTION in DuckDB's manner: the body comes right behind the parameters.
fn macros(tokens: &mut Vec<TokenWithSpan>) {
    let concerns =
        |token: &TokenWithSpan| is(token, Keyword::MACRO) || is(token, Keyword::FUNCTION);
    if !tokens.iter().any(concerns) {
        return;
    }
    let solid = code(tokens);
    let mut dropped = None;
    for (number, &place) in solid.iter().enumerate() {
        let before = |back: usize| {
            let place = number.checked_sub(back)?;
            Some(&tokens[solid[place]])
        };
        let follows = |keyword: Keyword| before(1).is_some_and(|token| is(token, keyword));
        let begins = |back: usize, keyword: Keyword| {
            before(back).is_some_and(|token| is(token, keyword))
                && before(back + 1).is_none_or(|token| token.token == Token::SemiColon)
        };
        if is(&tokens[place], Keyword::MACRO) && begins(1, Keyword::DROP) {
            tokens[place].token = Token::make_keyword("FUNCTION");
            if let Some(&next) = solid.get(number + 1)
                && is(&tokens[next], Keyword::TABLE)
            {
                dropped = Some(next);
            }
            break;
        }
        let created = begins(1, Keyword::CREATE)
            || (follows(Keyword::REPLACE) && begins(3, Keyword::CREATE))
            || (follows(Keyword::TEMP) || follows(Keyword::TEMPORARY));
        if is(&tokens[place], Keyword::FUNCTION) && created {
            let open =
                (number + 1..solid.len()).find(|&next| tokens[solid[next]].token == Token::LParen);
            let body = open
                .and_then(|open| closing(tokens, &solid, open))
                .and_then(|close| Some((solid.get(close + 1)?, solid.get(close + 2)?)));
            if let Some((&word, &next)) = body
                && is(&tokens[word], Keyword::AS)
                && !matches!(
                    tokens[next].token,
                    Token::SingleQuotedString(_) | Token::DollarQuotedString(_)
                )
            {
                tokens[place].token = Token::make_keyword("MACRO");
            }
            break;
        }
    }
    if let Some(dropped) = dropped {
        tokens.remove(dropped);
    }
}

fn filter_where(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is(token, Keyword::FILTER)) {
        return tokens;
    }
    let solid = code(&tokens);
    let mut opened = HashSet::new();
    for window in 1..solid.len().saturating_sub(2) {
        let [before, here, open, after] =
            [window - 1, window, window + 1, window + 2].map(|number| solid[number]);
        if tokens[before].token == Token::RParen
            && is(&tokens[here], Keyword::FILTER)
            && tokens[open].token == Token::LParen
            && !is(&tokens[after], Keyword::WHERE)
        {
            opened.insert(open);
        }
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + opened.len());
    for (place, token) in tokens.into_iter().enumerate() {
        rewritten.push(token);
        if opened.contains(&place) {
            rewritten.push(made(Token::make_keyword("WHERE")));
        }
    }
    rewritten
}

fn made(token: Token) -> TokenWithSpan {
    TokenWithSpan::new(token, Span::empty())
}

/// The alias of a query whose columns are named, or left empty, by CREATE TABLE AS.
pub(crate) const ROWS: &str = "__firndb_rows_of";

fn create_table_as(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is(token, Keyword::CREATE)) {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len());
    let mut rest = tokens;
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|token| token.token == Token::SemiColon)
            .map_or(rest.len(), |place| place + 1);
        let after = rest.split_off(end);
        rewritten.extend(one_create(rest));
        rest = after;
    }
    rewritten
}

/// One statement, perhaps with a semicolon at its end.
fn one_create(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let solid = code(&tokens);
    let at = |number: usize| solid.get(number).map(|&place| &tokens[place]);
    let word = |number: usize, keyword: Keyword| at(number).is_some_and(|token| is(token, keyword));
    if !word(0, Keyword::CREATE) {
        return tokens;
    }
    let Some(table) = (1..5).find(|&number| word(number, Keyword::TABLE)) else {
        return tokens;
    };
    let mut name = table + 1;
    if word(name, Keyword::IF) {
        name += 3;
    }
    let mut next = name + 1;
    while at(next).is_some_and(|token| token.token == Token::Period) {
        next += 2;
    }
    // The list of names, if each stands alone.
    let mut names = Vec::new();
    let mut list = None;
    if at(next).is_some_and(|token| token.token == Token::LParen) {
        let Some(close) = closing(&tokens, &solid, next) else {
            return tokens;
        };
        for number in next + 1..close {
            match at(number).map(|token| &token.token) {
                Some(Token::Word(_)) if (number - next) % 2 == 1 => {}
                Some(Token::Comma) if (number - next) % 2 == 0 => {}
                _ => return tokens,
            }
        }
        names.extend(tokens[solid[next]..=solid[close]].iter().cloned());
        list = Some((solid[next], solid[close]));
        next = close + 1;
    }
    if !word(next, Keyword::AS) {
        return tokens;
    }
    let last = match solid.last() {
        Some(&place) if tokens[place].token == Token::SemiColon => solid.len() - 1,
        _ => solid.len(),
    };
    let ends = |back: usize, keyword: Keyword| last >= back && word(last - back, keyword);
    let (mut empty, mut until) = (false, last);
    if ends(1, Keyword::DATA) && ends(2, Keyword::WITH) {
        until = last - 2;
    } else if ends(1, Keyword::DATA) && ends(2, Keyword::NO) && ends(3, Keyword::WITH) {
        (empty, until) = (true, last - 3);
    }
    if until <= next + 1 || names.is_empty() && until == last {
        return tokens;
    }
    let query = solid[next + 1]..solid[until - 1] + 1;
    let tail = last < solid.len();
    let mut made_of: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 12);
    let head_end = list.map_or(query.start, |(open, _)| open);
    let query_tokens: Vec<TokenWithSpan> = tokens[query].to_vec();
    made_of.extend(tokens.drain(..head_end));
    if list.is_some() {
        made_of.push(made(Token::make_keyword("AS")));
    }
    let blank = || {
        made(Token::Whitespace(
            datafusion::sql::sqlparser::tokenizer::Whitespace::Space,
        ))
    };
    for token in [
        Token::make_keyword("SELECT"),
        Token::Mul,
        Token::make_keyword("FROM"),
        Token::LParen,
    ] {
        made_of.extend([blank(), made(token)]);
    }
    made_of.extend(query_tokens);
    for token in [
        Token::RParen,
        Token::make_keyword("AS"),
        Token::make_word(ROWS, None),
    ] {
        made_of.extend([made(token), blank()]);
    }
    made_of.extend(names);
    if empty {
        for token in [
            Token::make_keyword("LIMIT"),
            Token::Number("0".to_owned(), false),
        ] {
            made_of.extend([blank(), made(token)]);
        }
    }
    if tail {
        made_of.push(made(Token::SemiColon));
    }
    made_of
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
    fn names_and_data_of_a_table_made_of_a_query() {
        assert_eq!(
            rewritten("CREATE TEMP TABLE IF NOT EXISTS s.t (a, b) AS SELECT 1, 2; SELECT 3"),
            "CREATE TEMP TABLE IF NOT EXISTS s.t AS SELECT * FROM (SELECT 1, 2) AS __firndb_rows_of (a, b); SELECT 3"
        );
        assert_eq!(
            rewritten("CREATE TABLE t AS SELECT 1 WITH NO DATA"),
            "CREATE TABLE t AS SELECT * FROM (SELECT 1) AS __firndb_rows_of LIMIT 0"
        );
        let plain = "CREATE TABLE t (a INT, b INT)";
        assert_eq!(rewritten(plain), plain);
        let query = "CREATE TABLE t AS SELECT 1";
        assert_eq!(rewritten(query), query);
    }

    #[test]
    fn small_spellings() {
        assert_eq!(rewritten("SELECT 2**3"), "SELECT 2^3");
        assert_eq!(
            rewritten("SELECT sum(a) FILTER (b > 1)"),
            "SELECT sum(a) FILTER (WHEREb > 1)"
        );
        assert_eq!(
            rewritten("SELECT trim(BOTH FROM a) FROM t"),
            "SELECT trim(BOTH a) FROM t"
        );
        assert_eq!(rewritten("TABLE t"), "FROM t");
        assert_eq!(
            rewritten("SELECT sum(a) OVER (ORDER BY d RANGE '1 day'::INTERVAL PRECEDING)"),
            "SELECT sum(a) OVER (ORDER BY d RANGE INTERVAL '1 day' PRECEDING)"
        );
        assert_eq!(
            rewritten("CREATE TABLE t (key INT, index TEXT, PRIMARY KEY (key))"),
            "CREATE TABLE t (\"key\" INT, \"index\" TEXT, PRIMARY KEY (key))"
        );
    }
}
