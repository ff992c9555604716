//! `LIMIT 10%` and `LIMIT 10 PERCENT`, as in DuckDB: a call of [`PERCENT`], which the statement layer counts rows for; and
//! `FETCH FIRST (1 + 1) ROWS ONLY`, whose quantity the parser takes in a LIMIT only.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The call that stands for a percentage of a query's rows.
pub(crate) const PERCENT: &str = "__firndb_percent";

/// Rewrites percentages of LIMIT and computed quantities of FETCH.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    percentages(fetched(tokens))
}

/// `FETCH FIRST (…) ROWS ONLY` as `LIMIT (…)`.
fn fetched(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: &TokenWithSpan, keywords: &[Keyword]| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_none() && keywords.contains(&word.keyword))
    };
    let mut start = 0;
    while let Some(fetch) = tokens[start..]
        .iter()
        .position(|token| is(token, &[Keyword::FETCH]))
    {
        let fetch = start + fetch;
        start = fetch + 1;
        let solid: Vec<usize> = (start..tokens.len())
            .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
            .collect();
        let [first, open, ..] = solid[..] else {
            continue;
        };
        if !is(&tokens[first], &[Keyword::FIRST, Keyword::NEXT])
            || tokens[open].token != Token::LParen
        {
            continue;
        }
        let mut depth = 0_usize;
        let closed = solid.iter().skip(1).position(|&place| {
            match tokens[place].token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let after = closed.and_then(|closed| solid.get(closed + 2..closed + 4));
        let Some(&[rows, only]) = after else {
            continue;
        };
        if !is(&tokens[rows], &[Keyword::ROW, Keyword::ROWS])
            || !is(&tokens[only], &[Keyword::ONLY])
        {
            continue;
        }
        tokens.drain(rows..=only);
        tokens[fetch].token = Token::make_keyword("LIMIT");
        tokens.remove(first);
    }
    tokens
}

fn percentages(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut place = 0;
    while place < tokens.len() {
        let here = place;
        place += 1;
        if !matches!(&tokens[here].token, Token::Word(word) if word.keyword == Keyword::LIMIT && word.quote_style.is_none())
        {
            continue;
        }
        let solid: Vec<usize> = (place..tokens.len())
            .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
            .take(3)
            .collect();
        let [amount, unit, rest @ ..] = solid.as_slice() else {
            continue;
        };
        let (amount, unit) = (*amount, *unit);
        let percent = match &tokens[unit].token {
            Token::Word(word) => word.quote_style.is_none() && word.value == "percent",
            // What follows tells the sign from the operator.
            Token::Mod => rest
                .first()
                .is_none_or(|&after| match &tokens[after].token {
                    Token::RParen | Token::SemiColon | Token::EOF => true,
                    Token::Word(word) => word.keyword == Keyword::OFFSET,
                    _ => false,
                }),
            _ => false,
        };
        if !percent
            || !matches!(
                tokens[amount].token,
                Token::Number(_, _) | Token::Placeholder(_)
            )
        {
            continue;
        }
        let span = tokens[amount].span;
        let made = |token| TokenWithSpan::new(token, span);
        tokens[unit].token = Token::RParen;
        tokens.splice(
            amount..amount,
            [made(Token::make_word(PERCENT, None)), made(Token::LParen)],
        );
    }
    tokens
}

/// A text with percentages as they were written.
pub(super) fn written(text: String) -> String {
    let call = format!("{PERCENT}(");
    let Some(start) = text.find(&call) else {
        return text;
    };
    let (before, rest) = (&text[..start], &text[start + call.len()..]);
    let (share, after) = rest.split_once(')').unwrap_or((rest, ""));
    format!("{before}{share}%{}", written(after.to_owned()))
}
