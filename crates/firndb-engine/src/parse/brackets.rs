//! What brackets begin, told to the parser ahead: a list comprehension, or a list of IN whose first member is a subquery, which the
//! parser would take for the whole list.
//!
//! ```text
//! [ e FOR x IN l ]           ─▶  [ <mark> e FOR x IN l ]
//! x IN ((SELECT 1), 2)       ─▶  x IN (<mark> (SELECT 1), 2)
//! ```
//!
//! One pass over the tokens, however deep they are nested: the parser must not look for the end of each bracket itself.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Behind the bracket of a list comprehension.
const COMPREHENSION: &str = "__firndb_comprehension";
/// Before the first member of a list.
const LIST: &str = "__firndb_list";

/// An open bracket.
struct Open {
    place: usize,
    square: bool,
    /// Whether it is the parenthesis of IN.
    of_in: bool,
    /// Whether it is a subquery, the first thing in the parenthesis of IN.
    first_query: bool,
    /// Whether a comma came at its own level.
    comma: bool,
}

/// Puts the marks.
pub(super) fn mark(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is = |token: Option<&Token>, keyword: Keyword| matches!(token, Some(Token::Word(word)) if word.keyword == keyword && word.quote_style.is_none());
    let concerns = |token: &TokenWithSpan| {
        is(Some(&token.token), Keyword::FOR) || is(Some(&token.token), Keyword::IN)
    };
    if !tokens.iter().any(concerns) {
        return tokens;
    }
    let solid: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let at = |number: usize| solid.get(number).map(|&place| &tokens[place].token);
    let mut marks: Vec<(usize, &str)> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for (number, &place) in solid.iter().enumerate() {
        let before = number.checked_sub(1).and_then(at);
        match &tokens[place].token {
            Token::LBracket | Token::LBrace => open.push(Open {
                place,
                square: tokens[place].token == Token::LBracket,
                of_in: false,
                first_query: false,
                comma: false,
            }),
            Token::LParen => {
                let query = [Keyword::SELECT, Keyword::WITH, Keyword::VALUES]
                    .iter()
                    .any(|keyword| is(at(number + 1), *keyword));
                let first = open.last().is_some_and(|outer| {
                    outer.of_in
                        && Some(&outer.place)
                            == number.checked_sub(1).and_then(|before| solid.get(before))
                });
                open.push(Open {
                    place,
                    square: false,
                    of_in: is(before, Keyword::IN),
                    first_query: first && query,
                    comma: false,
                });
            }
            Token::RBracket | Token::RBrace | Token::RParen => {
                let closed = open.pop();
                if closed.is_some_and(|closed| closed.first_query)
                    && at(number + 1) == Some(&Token::Comma)
                    && let Some(outer) = open.last()
                {
                    marks.push((outer.place, LIST));
                }
            }
            Token::Comma => {
                if let Some(outer) = open.last_mut() {
                    outer.comma = true;
                }
            }
            Token::SemiColon => open.clear(),
            word if is(Some(word), Keyword::FOR) => {
                if let Some(outer) = open.last_mut()
                    && outer.square
                    && !outer.comma
                {
                    outer.comma = true;
                    marks.push((outer.place, COMPREHENSION));
                }
            }
            _ => {}
        }
    }
    if marks.is_empty() {
        return tokens;
    }
    marks.sort_unstable();
    let mut marks = marks.into_iter().peekable();
    let mut marked = Vec::with_capacity(tokens.len() + 8);
    for (place, token) in tokens.into_iter().enumerate() {
        marked.push(token);
        while let Some((_, mark)) = marks.next_if(|(wanted, _)| *wanted == place) {
            let word = Token::make_word(mark, None);
            marked.push(TokenWithSpan::new(word, Span::empty()));
        }
    }
    marked
}

fn is_mark(token: &Token, mark: &str) -> bool {
    matches!(token, Token::Word(word) if word.value == mark)
}

/// Whether a list comprehension comes next.
pub(super) fn begins_comprehension(parser: &Parser) -> bool {
    parser.peek_token_ref().token == Token::LBracket
        && is_mark(&parser.peek_nth_token_ref(1).token, COMPREHENSION)
}

/// Whether a list that begins with a subquery comes next.
pub(super) fn begins_list(parser: &Parser) -> bool {
    is_mark(&parser.peek_token_ref().token, LIST)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn marked(sql: &str) -> String {
        let tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .unwrap();
        mark(tokens)
            .iter()
            .map(|token| token.token.to_string())
            .collect()
    }

    #[test]
    fn comprehensions_and_lists_are_told_from_others() {
        assert_eq!(
            marked("[x FOR x IN [1, 2]]"),
            "[__firndb_comprehensionx FOR x IN [1, 2]]"
        );
        assert_eq!(
            marked("1 IN ((SELECT 1), 2)"),
            "1 IN (__firndb_list(SELECT 1), 2)"
        );
        for other in [
            "1 IN ((SELECT 1))",
            "1 IN (2, (SELECT 1))",
            "1 IN (SELECT 1)",
            "[1, 2]",
            "substring(x FOR 2)",
            "[substring(x FROM 1 FOR 2)]",
        ] {
            assert_eq!(marked(other), other);
        }
    }
}
