//! `LIMIT 10%` and `LIMIT 10 PERCENT`, as in DuckDB: a call of [`PERCENT`], which the statement layer counts rows for.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The call that stands for a percentage of a query's rows.
pub(crate) const PERCENT: &str = "__firndb_percent";

/// Rewrites percentages of LIMIT.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
