//! Options of CREATE SEQUENCE and IDENTITY in any order: the parser knows one.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::insert::closing;

/// Brings the options of each CREATE SEQUENCE into the parser's order.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |wanted: Keyword| tokens.iter().any(|token| keyword(token) == wanted);
    let (identity, sequence) = (has(Keyword::IDENTITY), has(Keyword::SEQUENCE));
    let tokens = if identity { identities(tokens) } else { tokens };
    if !sequence {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len());
    for statement in tokens.split_inclusive(|token| token.token == Token::SemiColon) {
        rewritten.extend(one(statement));
    }
    rewritten
}

fn keyword(token: &TokenWithSpan) -> Keyword {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// Where an option stands in the parser's order; `None` if a token begins none.
fn place(token: Keyword, next: Keyword) -> Option<usize> {
    Some(match token {
        Keyword::AS => 0,
        Keyword::INCREMENT => 1,
        Keyword::MINVALUE => 2,
        Keyword::MAXVALUE => 3,
        Keyword::START => 4,
        Keyword::CACHE => 5,
        Keyword::CYCLE => 6,
        Keyword::OWNED => 7,
        Keyword::NO => place(next, Keyword::NoKeyword)?,
        _ => return None,
    })
}

fn one(statement: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let (end, body) = match statement.split_last() {
        Some((last, body)) if last.token == Token::SemiColon => (Some(last), body),
        _ => (None, statement),
    };
    let solid: Vec<&TokenWithSpan> = body
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect();
    let is = |number: usize, wanted: Keyword| {
        solid
            .get(number)
            .is_some_and(|token| keyword(token) == wanted)
    };
    let word = (1..3).find(|&number| is(number, Keyword::SEQUENCE));
    let Some(word) = word.filter(|_| is(0, Keyword::CREATE)) else {
        return statement.to_vec();
    };
    let mut name = word + 1;
    if is(name, Keyword::IF) {
        name += 3;
    }
    let mut next = name + 1;
    while solid
        .get(next)
        .is_some_and(|token| token.token == Token::Period)
    {
        next += 2;
    }
    let Some(ordered) = ordered(&solid[next..]) else {
        return statement.to_vec();
    };
    let head = solid.iter().take(next).copied();
    let mut made = Vec::with_capacity(2 * solid.len() + 1);
    spaced(head.chain(ordered), &mut made);
    made.extend(end.cloned());
    made
}

/// Options in the parser's order; `None` if they are none.
fn ordered<'t>(tokens: &[&'t TokenWithSpan]) -> Option<Vec<&'t TokenWithSpan>> {
    let mut options: Vec<(usize, Vec<&TokenWithSpan>)> = Vec::new();
    let mut number = 0;
    while let Some(&token) = tokens.get(number) {
        let after = tokens
            .get(number + 1)
            .map_or(Keyword::NoKeyword, |next| keyword(next));
        match place(keyword(token), after) {
            Some(place) => {
                options.push((place, vec![token]));
                if keyword(token) == Keyword::NO
                    && let Some(&what) = tokens.get(number + 1)
                {
                    number += 1;
                    if let Some((_, option)) = options.last_mut() {
                        option.push(what);
                    }
                }
            }
            None => options.last_mut()?.1.push(token),
        }
        number += 1;
    }
    options.sort_by_key(|(place, _)| *place);
    Some(options.into_iter().flat_map(|(_, option)| option).collect())
}

/// Tokens with blanks between them, except behind signs and points.
fn spaced<'t>(tokens: impl Iterator<Item = &'t TokenWithSpan>, made: &mut Vec<TokenWithSpan>) {
    for token in tokens {
        made.push(token.clone());
        if token.token != Token::Minus && token.token != Token::Period {
            let blank = Token::Whitespace(Whitespace::Space);
            made.push(TokenWithSpan::new(blank, token.span));
        }
    }
}

/// The options of IDENTITY (…).
fn identities(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let code: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let mut made = Vec::with_capacity(tokens.len());
    let mut done = 0;
    for (number, pair) in code.windows(2).enumerate() {
        if keyword(&tokens[pair[0]]) != Keyword::IDENTITY
            || tokens[pair[1]].token != Token::LParen
            || pair[0] < done
        {
            continue;
        }
        let Some(close) = closing(&tokens, &code, number + 1) else {
            continue;
        };
        let inside: Vec<&TokenWithSpan> = code[number + 2..close]
            .iter()
            .map(|&place| &tokens[place])
            .collect();
        if let Some(ordered) = ordered(&inside) {
            made.extend(tokens[done..=pair[1]].iter().cloned());
            spaced(ordered.into_iter(), &mut made);
            done = code[close];
        }
    }
    made.extend(tokens[done..].iter().cloned());
    made
}
