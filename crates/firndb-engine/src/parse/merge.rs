//! Actions of MERGE that the parser does not know: DO NOTHING and INSERT DEFAULT VALUES.
//!
//! Before parsing they are written as actions that it knows, with a column that no table has:
//!
//! ```text
//! WHEN MATCHED THEN DO NOTHING                    UPDATE SET __firndb_do_nothing = NULL
//! WHEN NOT MATCHED THEN DO NOTHING                INSERT (__firndb_do_nothing) VALUES (NULL)
//! WHEN NOT MATCHED THEN INSERT DEFAULT VALUES     INSERT (__firndb_default_values) VALUES (NULL)
//! ```

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Stands for DO NOTHING in the parser's MERGE.
pub(crate) const DO_NOTHING: &str = "__firndb_do_nothing";
/// Stands for INSERT DEFAULT VALUES in the parser's MERGE.
pub(crate) const DEFAULT_VALUES: &str = "__firndb_default_values";

/// Rewrites the two actions wherever they stand after THEN; neither can stand there outside MERGE.
pub(super) fn rewrite(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let code: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    let is = |number: usize, keyword: Keyword| {
        code.get(number).is_some_and(
            |&place| matches!(&tokens[place].token, Token::Word(word) if word.keyword == keyword),
        )
    };
    let mut replacements: Vec<(usize, usize, Vec<Token>)> = Vec::new();
    let mut inserts = false;
    for number in 0..code.len() {
        if is(number, Keyword::WHEN) {
            inserts = is(number + 1, Keyword::NOT)
                && is(number + 2, Keyword::MATCHED)
                && !(is(number + 3, Keyword::BY) && is(number + 4, Keyword::SOURCE));
        }
        if !is(number, Keyword::THEN) {
            continue;
        }
        if is(number + 1, Keyword::DO) && is(number + 2, Keyword::NOTHING) {
            let action = match inserts {
                true => insert_marker(DO_NOTHING),
                false => vec![
                    keyword("UPDATE"),
                    keyword("SET"),
                    Token::make_word(DO_NOTHING, None),
                    Token::Eq,
                    keyword("NULL"),
                ],
            };
            replacements.push((code[number + 1], code[number + 2], action));
        } else if is(number + 1, Keyword::INSERT)
            && is(number + 2, Keyword::DEFAULT)
            && is(number + 3, Keyword::VALUES)
        {
            let action = insert_marker(DEFAULT_VALUES);
            replacements.push((code[number + 1], code[number + 3], action));
        }
    }
    if replacements.is_empty() {
        return tokens;
    }
    let mut rewritten = Vec::with_capacity(tokens.len() + 8 * replacements.len());
    let mut replacements = replacements.into_iter().peekable();
    for (place, token) in tokens.into_iter().enumerate() {
        match replacements.peek() {
            Some((first, last, _)) if (*first..=*last).contains(&place) => {
                if place == *last
                    && let Some((.., action)) = replacements.next()
                {
                    let span = token.span;
                    let action = action.into_iter();
                    rewritten.extend(action.map(|token| TokenWithSpan { token, span }));
                }
            }
            _ => rewritten.push(token),
        }
    }
    rewritten
}

fn insert_marker(name: &str) -> Vec<Token> {
    vec![
        keyword("INSERT"),
        Token::LParen,
        Token::make_word(name, None),
        Token::RParen,
        keyword("VALUES"),
        Token::LParen,
        keyword("NULL"),
        Token::RParen,
    ]
}

fn keyword(text: &str) -> Token {
    Token::make_keyword(text)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn rewritten(sql: &str) -> String {
        let dialect = PostgreSqlDialect {};
        let tokens = Tokenizer::new(&dialect, sql)
            .tokenize_with_location()
            .unwrap();
        let tokens = super::rewrite(tokens);
        let statements = Parser::new(&dialect)
            .with_tokens_with_locations(tokens)
            .parse_statements()
            .unwrap();
        statements[0].to_string()
    }

    #[test]
    fn do_nothing_parses_in_every_kind_of_clause() {
        let text = rewritten(
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DO NOTHING \
             WHEN NOT MATCHED BY SOURCE THEN DO NOTHING WHEN NOT MATCHED THEN DO NOTHING",
        );
        assert_eq!(text.matches("UPDATE SET __firndb_do_nothing").count(), 2);
        assert_eq!(text.matches("INSERT (__firndb_do_nothing)").count(), 1);
    }

    #[test]
    fn insert_default_values_parses() {
        let text = rewritten(
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT DEFAULT VALUES",
        );
        assert!(text.contains("INSERT (__firndb_default_values)"));
    }

    #[test]
    fn on_conflict_do_nothing_is_left_alone() {
        let sql = "INSERT INTO t SELECT CASE WHEN a THEN b END FROM s ON CONFLICT DO NOTHING";
        assert!(!rewritten(sql).contains("__firndb"));
    }
}
