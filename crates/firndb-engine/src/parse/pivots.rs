//! PIVOT and UNPIVOT as statements and subqueries, as in DuckDB, brought to those of a relation.
//!
//! ```text
//! PIVOT s ON q IN ('a', 'b') USING sum(v) GROUP BY y     SELECT * FROM s PIVOT (sum(v), __firndb_pivot_groups(y) FOR q IN ('a', 'b'))
//! UNPIVOT w ON a, b INTO NAME n VALUE v                  SELECT * FROM w UNPIVOT (v FOR n IN (a, b))
//! ```
//!
//! Without a list of values it is `FOR (q) IN (ANY)`, and the statement layer finds the values (`statement::limits`).
//! `UNPIVOT w ON *` becomes `IN (COLUMNS(*))`.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

/// Stands beside the aggregates of a PIVOT for the columns to group by.
pub(crate) const GROUPS: &str = "__firndb_pivot_groups";

/// Rewrites these forms, inner ones first.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for place in (0..tokens.len()).rev() {
        let unpivots = is(&tokens[place], "unpivot");
        if is(&tokens[place], "pivot") {
            groups_inside(&mut tokens, place);
        }
        if !(unpivots || is(&tokens[place], "pivot")) || !begins(&tokens, place) {
            continue;
        }
        let made = match unpivots {
            true => unpivot(&tokens, place),
            false => pivot(&tokens, place),
        };
        if let Some((made, end)) = made {
            tokens.splice(place..end, made);
        }
    }
    tokens
}

fn is(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// Whether a statement or a subquery begins here.
fn begins(tokens: &[TokenWithSpan], place: usize) -> bool {
    let before =
        (tokens[..place].iter().rev()).find(|token| !matches!(token.token, Token::Whitespace(_)));
    match before {
        None => true,
        Some(token) if is(token, "as") => creates(&tokens[..place]),
        Some(token) => {
            matches!(token.token, Token::SemiColon | Token::LParen)
                || ["describe", "explain", "summarize"]
                    .iter()
                    .any(|word| is(token, word))
        }
    }
}

/// Whether the statement at the end of the tokens begins with CREATE.
fn creates(tokens: &[TokenWithSpan]) -> bool {
    let start = tokens
        .iter()
        .rposition(|token| token.token == Token::SemiColon)
        .map_or(0, |place| place + 1);
    tokens[start..]
        .iter()
        .find(|token| !matches!(token.token, Token::Whitespace(_)))
        .is_some_and(|token| is(token, "create"))
}

/// `GROUP BY` within the parentheses of a relation's PIVOT, put beside its aggregates.
fn groups_inside(tokens: &mut Vec<TokenWithSpan>, place: usize) {
    let Some(open) = (place + 1..tokens.len())
        .find(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .filter(|&place| tokens[place].token == Token::LParen)
    else {
        return;
    };
    let group = until(tokens, open + 1, &["group"]);
    let by_for = until(tokens, open + 1, &["for"]);
    if by_for >= group || !tokens.get(group).is_some_and(|token| is(token, "group")) {
        return;
    }
    let first = until(tokens, group + 1, &["by"]) + 1;
    let end = until(tokens, first, &[]);
    if end >= tokens.len() {
        return;
    }
    let mut made = Made::default();
    made.token(Token::Comma)
        .words(&[GROUPS])
        .token(Token::LParen);
    made.given(&tokens[first..end]).token(Token::RParen);
    tokens.drain(group..end);
    made.token(Token::Whitespace(Whitespace::Space));
    tokens.splice(by_for..by_for, made.0);
}

/// The first place from `from` on, outside parentheses, of one of some words, or where the query ends.
fn until(tokens: &[TokenWithSpan], from: usize, words: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return place,
            Token::RParen => depth -= 1,
            Token::SemiColon | Token::EOF => return place,
            _ if depth == 0 && words.iter().any(|word| is(token, word)) => return place,
            _ => {}
        }
    }
    tokens.len()
}

/// The next comma outside parentheses, or the end.
fn comma(tokens: &[TokenWithSpan], from: usize, end: usize) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().take(end).skip(from) {
        match token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => return place,
            _ => {}
        }
    }
    end
}

fn pivot(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let at = |place: usize, word: &str| tokens.get(place).is_some_and(|token| is(token, word));
    let on = until(tokens, place + 1, &["on"]);
    let tail = ["using", "group", "order", "limit"];
    let using = until(tokens, on + 1, &tail);
    let listed = until(tokens, on + 1, &["in"]);
    if !at(on, "on") {
        return None;
    }
    let by = (using, until(tokens, using + 1, &tail[1..]));
    let (aggregates, grouped) = match at(using, "using") {
        true => (Some(using + 1..by.1), by.1),
        false => (None, using),
    };
    let mut end = grouped;
    let mut groups = None;
    if at(grouped, "group") {
        let first = until(tokens, grouped + 1, &["by"]) + 1;
        end = until(tokens, first, &tail[2..]);
        groups = Some(first..end);
    }
    let mut made = Made::default();
    made.words(&["SELECT"]).token(Token::Mul).words(&["FROM"]);
    made.given(&tokens[place + 1..on])
        .words(&["PIVOT"])
        .token(Token::LParen);
    match aggregates {
        Some(aggregates) => made.given(&tokens[aggregates]),
        None => made
            .words(&["count"])
            .token(Token::LParen)
            .token(Token::Mul)
            .token(Token::RParen),
    };
    if let Some(groups) = groups {
        made.token(Token::Comma)
            .words(&[GROUPS])
            .token(Token::LParen);
        made.given(&tokens[groups]).token(Token::RParen);
    }
    made.words(&["FOR"]);
    if listed < using {
        made.given(&tokens[on + 1..using]);
    } else {
        // Each in parentheses of its own: the parser takes no comparison there.
        made.token(Token::LParen);
        let mut from = on + 1;
        while from < using {
            let end = comma(tokens, from, using);
            if from > on + 1 {
                made.token(Token::Comma);
            }
            made.token(Token::LParen)
                .given(&tokens[from..end])
                .token(Token::RParen);
            from = end + 1;
        }
        made.token(Token::RParen);
        made.words(&["IN"])
            .token(Token::LParen)
            .words(&["ANY"])
            .token(Token::RParen);
    }
    made.token(Token::RParen);
    Some((made.0, end))
}

fn unpivot(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    let at = |place: usize, word: &str| tokens.get(place).is_some_and(|token| is(token, word));
    let on = until(tokens, place + 1, &["on"]);
    if !at(on, "on") {
        return None;
    }
    let mut end = until(tokens, on + 1, &["into", "order", "limit"]);
    let columns = on + 1..end;
    let starred = tokens[columns.clone()]
        .iter()
        .find(|token| !matches!(token.token, Token::Whitespace(_)))
        .is_some_and(|token| token.token == Token::Mul);
    let mut name = Token::make_word("name", None);
    let mut values = vec![Token::make_word("value", None)];
    if at(end, "into") {
        let solid: Vec<usize> = (end + 1..tokens.len())
            .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
            .collect();
        let [into, named, value, first, rest @ ..] = solid.as_slice() else {
            return None;
        };
        if !at(*into, "name") || !at(*value, "value") {
            return None;
        }
        name = tokens[*named].token.clone();
        values = vec![tokens[*first].token.clone()];
        end = first + 1;
        for further in rest.chunks_exact(2) {
            if tokens[further[0]].token != Token::Comma {
                break;
            }
            values.push(tokens[further[1]].token.clone());
            end = further[1] + 1;
        }
    }
    let mut made = Made::default();
    made.words(&["SELECT"]).token(Token::Mul).words(&["FROM"]);
    made.given(&tokens[place + 1..on])
        .words(&["UNPIVOT"])
        .token(Token::LParen);
    match values.as_slice() {
        [value] => made.token(value.clone()),
        values => {
            made.token(Token::LParen);
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    made.token(Token::Comma);
                }
                made.token(value.clone());
            }
            made.token(Token::RParen)
        }
    };
    made.words(&["FOR"]).token(name).words(&["IN"]);
    made.token(Token::LParen);
    if starred {
        made.words(&["columns"]).token(Token::LParen);
        made.given(&tokens[columns]).token(Token::RParen);
    } else {
        made.given(&tokens[columns]);
    }
    made.token(Token::RParen).token(Token::RParen);
    Some((made.0, end))
}

/// Tokens, blanks between them.
#[derive(Default)]
struct Made(Vec<TokenWithSpan>);

impl Made {
    fn token(&mut self, token: Token) -> &mut Self {
        let blank = Token::Whitespace(Whitespace::Space);
        let placed = |token| TokenWithSpan::new(token, Span::empty());
        self.0.extend([placed(blank), placed(token)]);
        self
    }

    fn words(&mut self, words: &[&str]) -> &mut Self {
        for word in words {
            self.token(Token::make_word(word, None));
        }
        self
    }

    fn given(&mut self, tokens: &[TokenWithSpan]) -> &mut Self {
        self.0.extend_from_slice(tokens);
        self
    }
}
