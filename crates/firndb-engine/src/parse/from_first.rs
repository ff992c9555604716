//! `FROM t`, `FROM t WHERE …` and `FROM a, b SELECT x WHERE …`: queries whose FROM comes first, put in the usual order.
//!
//! The parser knows a part of these forms. Tokens are reordered before it sees them and keep their places in the text, so
//! that errors and names still point there.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

/// Puts SELECT before FROM in every query of the tokens.
pub(super) fn reorder(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut tokens = tokens;
    let mut start = 0;
    // Each pass puts one query in order; the next one goes on behind its SELECT.
    while let Some(from) = first_from(&tokens, start) {
        tokens = reorder_at(tokens, from);
        start = from + 1;
    }
    tokens
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// What is known about the tokens since a parenthesis opened or a statement began.
#[derive(Default)]
struct Level {
    /// The last two tokens that mean something.
    last: Option<Token>,
    before_last: Option<Token>,
    /// Whether a WITH or INSERT waits for its query.
    waits: bool,
}

/// The next FROM at or behind `start` with which a query begins.
fn first_from(tokens: &[TokenWithSpan], start: usize) -> Option<usize> {
    let mut levels = vec![Level::default()];
    for (index, token) in tokens.iter().enumerate() {
        let token = &token.token;
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let known = keyword(token);
        let level = levels.last_mut()?;
        if known == Some(Keyword::FROM) && index >= start && begins_query(level) {
            return Some(index);
        }
        match known {
            Some(Keyword::WITH | Keyword::INSERT) if level.last.is_none() => level.waits = true,
            Some(
                Keyword::SELECT
                | Keyword::FROM
                | Keyword::VALUES
                | Keyword::UPDATE
                | Keyword::DELETE
                | Keyword::SET,
            ) => {
                level.waits = false;
            }
            _ => {}
        }
        level.before_last = level.last.replace(token.clone());
        match token {
            Token::LParen => levels.push(Level::default()),
            Token::RParen if levels.len() > 1 => {
                levels.pop();
                // The closing parenthesis is the outer level's last token.
                let level = levels.last_mut()?;
                level.before_last = level.last.replace(Token::RParen);
            }
            Token::SemiColon => levels = vec![Level::default()],
            _ => {}
        }
    }
    None
}

fn begins_query(level: &Level) -> bool {
    let Some(last) = &level.last else {
        return true;
    };
    let before = level.before_last.as_ref().and_then(keyword);
    match keyword(last) {
        Some(
            Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::AS
            | Keyword::EXPLAIN
            | Keyword::ANALYZE
            | Keyword::DESCRIBE,
        ) => true,
        Some(Keyword::ALL | Keyword::DISTINCT) => matches!(
            before,
            Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT)
        ),
        Some(Keyword::NAME) => before == Some(Keyword::BY),
        _ => {
            matches!(last, Token::Word(word) if word.value == "summarize")
                || level.waits && matches!(last, Token::RParen | Token::Word(_))
        }
    }
}

/// Whether a token ends a query at its level.
fn ends_query(token: &Token) -> bool {
    matches!(token, Token::SemiColon | Token::EOF)
        || matches!(
            keyword(token),
            Some(
                Keyword::UNION
                    | Keyword::EXCEPT
                    | Keyword::INTERSECT
                    | Keyword::ON
                    | Keyword::RETURNING
            )
        )
}

/// The first token from `start` on, at its level, for which `wanted` holds; the end of the query if there is none.
fn find(tokens: &[TokenWithSpan], start: usize, wanted: impl Fn(&Token) -> bool) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return index,
            Token::RParen => depth -= 1,
            Token::SemiColon | Token::EOF => return index,
            other if depth == 0 && wanted(other) => return index,
            _ => {}
        }
    }
    tokens.len()
}

/// A token that is nowhere in the text.
fn placed(token: Token) -> TokenWithSpan {
    TokenWithSpan::new(token, Span::empty())
}

fn reorder_at(tokens: Vec<TokenWithSpan>, from: usize) -> Vec<TokenWithSpan> {
    let is_select = |token: &Token| keyword(token) == Some(Keyword::SELECT);
    let clause = |token: &Token| {
        matches!(
            keyword(token),
            Some(
                Keyword::WHERE
                    | Keyword::GROUP
                    | Keyword::HAVING
                    | Keyword::WINDOW
                    | Keyword::QUALIFY
                    | Keyword::ORDER
                    | Keyword::LIMIT
                    | Keyword::OFFSET
                    | Keyword::FETCH
            )
        )
    };
    // ON ends a query only where INSERT has its ON CONFLICT: inside FROM it is a join's.
    let select = find(&tokens, from + 1, |token| {
        is_select(token)
            || clause(token)
            || ends_query(token) && keyword(token) != Some(Keyword::ON)
    });
    let space = || placed(Token::Whitespace(Whitespace::Space));
    if tokens
        .get(select)
        .is_some_and(|token| is_select(&token.token))
    {
        let end = find(&tokens, select + 1, |token| {
            clause(token) || ends_query(token)
        });
        let mut reordered = tokens[..from].to_vec();
        reordered.extend_from_slice(&tokens[select..end]);
        reordered.push(space());
        reordered.extend_from_slice(&tokens[from..select]);
        reordered.push(space());
        reordered.extend_from_slice(&tokens[end..]);
        return reordered;
    }
    let mut reordered = tokens[..from].to_vec();
    reordered.push(placed(Token::make_keyword("SELECT")));
    reordered.push(space());
    reordered.push(placed(Token::Mul));
    reordered.push(space());
    reordered.extend_from_slice(&tokens[from..]);
    reordered
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn reordered(sql: &str) -> String {
        let tokens = Tokenizer::new(&GenericDialect {}, sql)
            .tokenize_with_location()
            .unwrap();
        let text: String = reorder(tokens)
            .iter()
            .map(|token| token.token.to_string())
            .collect();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn from_alone_selects_everything() {
        assert_eq!(reordered("FROM t"), "SELECT * FROM t");
        assert_eq!(
            reordered("FROM t WHERE a = 1"),
            "SELECT * FROM t WHERE a = 1"
        );
        assert_eq!(
            reordered("SELECT * FROM (FROM t LIMIT 1) x"),
            "SELECT * FROM (SELECT * FROM t LIMIT 1) x"
        );
        assert_eq!(
            reordered("WITH c AS (FROM t) FROM c UNION ALL FROM d"),
            "WITH c AS (SELECT * FROM t) SELECT * FROM c UNION ALL SELECT * FROM d"
        );
        assert_eq!(
            reordered("INSERT INTO t (a) FROM s"),
            "INSERT INTO t (a) SELECT * FROM s"
        );
    }

    #[test]
    fn select_moves_before_from() {
        assert_eq!(
            reordered("FROM a JOIN b ON a.x = b.x SELECT y WHERE z ORDER BY y"),
            "SELECT y FROM a JOIN b ON a.x = b.x WHERE z ORDER BY y"
        );
        assert_eq!(
            reordered("FROM t SELECT DISTINCT a"),
            "SELECT DISTINCT a FROM t"
        );
    }

    #[test]
    fn other_uses_of_from_stay() {
        for sql in [
            "SELECT count(*) FROM t",
            "DELETE FROM t",
            "SELECT extract(year FROM d), trim(BOTH 'x' FROM s) FROM t",
            "SELECT a IS DISTINCT FROM b FROM t",
            "UPDATE t SET a = (1) FROM s",
            "COPY t (a) FROM 'x.csv'",
            "SHOW COLUMNS FROM t",
            "INSERT INTO t (a) SELECT (1) FROM s",
            "WITH c AS (SELECT 1) SELECT (2) FROM c",
        ] {
            assert_eq!(reordered(sql), sql);
        }
    }
}
