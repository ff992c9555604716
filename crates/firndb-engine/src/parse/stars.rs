//! Wildcards by a pattern and columns by their number, as in DuckDB, in the tokens.
//!
//! ```text
//! SELECT * LIKE 'a%'        SELECT COLUMNS(lambda n: n LIKE 'a%')        NOT LIKE, ILIKE, SIMILAR TO and GLOB too
//! SELECT #2                 SELECT COLUMNS(2)                            the second column of FROM
//! ORDER BY #2               ORDER BY 2                                   the second one of the select list
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The parameter of a lambda over names of columns.
const NAME: &str = "__firndb_name";

/// Rewrites these forms.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let concerned = |token: &TokenWithSpan| matches!(token.token, Token::Sharp | Token::Mul);
    if !tokens.iter().any(concerned) {
        return tokens;
    }
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let mut result: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut taken = 0;
    let mut clause = Keyword::NoKeyword;
    let mut at = 0;
    while at < solid.len() {
        let place = solid[at];
        let token = &tokens[place];
        if let Token::Word(word) = &token.token
            && word.quote_style.is_none()
            && matches!(
                word.keyword,
                Keyword::SELECT
                    | Keyword::FROM
                    | Keyword::WHERE
                    | Keyword::HAVING
                    | Keyword::QUALIFY
                    | Keyword::BY
            )
        {
            clause = word.keyword;
        }
        let begins = match at.checked_sub(1).map(|before| &tokens[solid[before]].token) {
            None => true,
            Some(before) => begins_operand(before),
        };
        let replaced = match token.token {
            Token::Sharp if begins => number(&tokens, &solid, at, clause),
            Token::Mul if begins && clause == Keyword::SELECT => pattern(&tokens, &solid, at),
            _ => None,
        };
        match replaced {
            Some((written, used)) => {
                result.extend_from_slice(&tokens[taken..place]);
                result.extend(
                    written
                        .into_iter()
                        .map(|token| spanned(token, tokens[place].span)),
                );
                taken = solid[at + used - 1] + 1;
                at += used;
            }
            None => at += 1,
        }
    }
    result.extend_from_slice(&tokens[taken..]);
    result
}

fn spanned(token: Token, span: Span) -> TokenWithSpan {
    TokenWithSpan { token, span }
}

/// Whether an operand begins behind a token, rather than an operator.
fn begins_operand(before: &Token) -> bool {
    match before {
        Token::Word(word) => {
            word.quote_style.is_none()
                && matches!(
                    word.keyword,
                    Keyword::SELECT
                        | Keyword::DISTINCT
                        | Keyword::ALL
                        | Keyword::BY
                        | Keyword::WHERE
                        | Keyword::HAVING
                        | Keyword::QUALIFY
                        | Keyword::AND
                        | Keyword::OR
                        | Keyword::NOT
                )
        }
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::RParen
        | Token::RBracket
        | Token::RBrace
        | Token::Placeholder(_)
        | Token::Period => false,
        _ => true,
    }
}

/// `#2`: the tokens for it, and how many it takes.
fn number(
    tokens: &[TokenWithSpan],
    solid: &[usize],
    at: usize,
    clause: Keyword,
) -> Option<(Vec<Token>, usize)> {
    let digits = &tokens[*solid.get(at + 1)?].token;
    if solid[at + 1] != solid[at] + 1 || !matches!(digits, Token::Number(_, false)) {
        return None;
    }
    let written = match clause {
        Keyword::BY => vec![digits.clone()],
        _ => columns(vec![digits.clone()]),
    };
    Some((written, 2))
}

/// `* LIKE 'a%'`.
fn pattern(tokens: &[TokenWithSpan], solid: &[usize], at: usize) -> Option<(Vec<Token>, usize)> {
    let token = |ahead: usize| solid.get(at + ahead).map(|place| &tokens[*place].token);
    let keyword = |ahead: usize| match token(ahead) {
        Some(Token::Word(word)) if word.quote_style.is_none() => Some(word),
        _ => None,
    };
    let negated = usize::from(keyword(1)?.keyword == Keyword::NOT);
    let operator = keyword(1 + negated)?;
    let words = match operator.keyword {
        Keyword::LIKE | Keyword::ILIKE => 1,
        Keyword::SIMILAR if keyword(2 + negated)?.keyword == Keyword::TO => 2,
        _ if operator.value == "glob" => 1,
        _ => return None,
    };
    let text = 1 + negated + words;
    if !matches!(token(text)?, Token::SingleQuotedString(_)) {
        return None;
    }
    let mut used = text + 1;
    if let Some(escape) = keyword(used)
        && escape.keyword == Keyword::ESCAPE
    {
        used += 2;
    }
    let mut condition = vec![
        Token::make_keyword("LAMBDA"),
        Token::make_word(NAME, Some('"')),
        Token::Colon,
        Token::make_word(NAME, Some('"')),
    ];
    for ahead in 1..used {
        condition.push(token(ahead)?.clone());
    }
    Some((columns(condition), used))
}

fn columns(argument: Vec<Token>) -> Vec<Token> {
    let mut call = vec![Token::make_word("columns", None), Token::LParen];
    call.extend(argument);
    call.push(Token::RParen);
    call
}
