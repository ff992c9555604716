//! `STRUCT(a INTEGER, b VARCHAR)` and `ROW(a INTEGER)` as types, which the parser knows as `STRUCT<a INTEGER, b VARCHAR>`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::insert::closing;

/// Rewrites the types; calls of the functions of these names stay.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &Token| match token {
        Token::Word(word) => Some(word.clone()),
        _ => None,
    };
    let names = |word: &Word| {
        word.quote_style.is_none() && matches!(word.keyword, Keyword::STRUCT | Keyword::ROW)
    };
    if !tokens
        .iter()
        .any(|token| word(&token.token).is_some_and(|word| names(&word)))
    {
        return tokens;
    }
    let code: Vec<usize> = (0..tokens.len())
        .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
        .collect();
    for number in 0..code.len().saturating_sub(3) {
        let [kind, open, name, type_name] = [0, 1, 2, 3].map(|next| code[number + next]);
        // A member's name and type are two words; what could follow a value is none.
        let typed = word(&tokens[kind].token).is_some_and(|word| names(&word))
            && tokens[open].token == Token::LParen
            && word(&tokens[name].token).is_some()
            && word(&tokens[type_name].token)
                .is_some_and(|word| word.quote_style.is_none() && !follows_value(word.keyword));
        if !typed {
            continue;
        }
        let Some(close) = closing(&tokens, &code, number + 1) else {
            continue;
        };
        tokens[kind].token = Token::make_keyword("STRUCT");
        tokens[open].token = Token::Lt;
        tokens[code[close]].token = Token::Gt;
    }
    tokens
}

fn follows_value(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AS
            | Keyword::IS
            | Keyword::IN
            | Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::END
            | Keyword::NOTNULL
            | Keyword::SIMILAR
            | Keyword::OVER
            | Keyword::FILTER
    )
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
    fn types_get_the_parsers_brackets() {
        assert_eq!(
            rewritten("CREATE TABLE t (s STRUCT(a INTEGER, b STRUCT(c DECIMAL(3, 1))[]))"),
            "CREATE TABLE t (s STRUCT<a INTEGER, b STRUCT<c DECIMAL(3, 1)>[]>)"
        );
    }

    #[test]
    fn values_stay() {
        for sql in [
            "SELECT STRUCT(a AS b), ROW(1, 2), ROW(a, b)",
            "SELECT row(a IS NULL)",
        ] {
            assert_eq!(rewritten(sql), sql);
        }
    }
}
