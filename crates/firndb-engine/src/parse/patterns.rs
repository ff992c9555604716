//! Patterns of LIKE with an escape of their own, and those of SIMILAR TO, in the terms of the operators that run them.
//!
//! LIKE runs with `\` as escape, so a pattern of another escape is written anew; SIMILAR TO is a regular expression in which
//! `%` and `_` have LIKE's meaning and which must match the whole text.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::pieces::call;
use crate::error::{Error, Result, SqlState};

/// The function that rewrites patterns which are no literals.
pub(crate) const LIKE_PATTERN: &str = "__firndb_like_pattern";
/// The function that makes a regular expression of a pattern of SIMILAR TO which is no literal.
pub(crate) const SIMILAR_PATTERN: &str = "__firndb_similar_pattern";

/// Rewrites LIKE … ESCAPE and SIMILAR TO; every other expression stays as it is.
pub(super) fn rewrite(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Like {
            pattern,
            escape_char: given @ Some(_),
            ..
        }
        | Expr::ILike {
            pattern,
            escape_char: given @ Some(_),
            ..
        } => {
            let escape = match given.take().map(|given| given.value) {
                Some(escape) => escape_of(&escape)?,
                None => return Ok(()),
            };
            if escape == Some('\\') {
                return Ok(());
            }
            let inner = std::mem::replace(pattern.as_mut(), Expr::value(Value::Null));
            **pattern = match literal(&inner) {
                Some(text) => string(like_pattern(text, escape)?),
                None => call(
                    LIKE_PATTERN,
                    vec![inner, string(escape.into_iter().collect())],
                ),
            };
        }
        Expr::SimilarTo {
            negated,
            expr: value,
            pattern,
            escape_char,
        } => {
            let escape = match escape_char.take().map(|given| given.value) {
                Some(escape) => escape_of(&escape)?,
                None => Some('\\'),
            };
            let value = std::mem::replace(value.as_mut(), Expr::value(Value::Null));
            let pattern = std::mem::replace(pattern.as_mut(), Expr::value(Value::Null));
            let expression = match literal(&pattern) {
                Some(text) => string(similar_pattern(text, escape)?),
                None => call(
                    SIMILAR_PATTERN,
                    vec![pattern, string(escape.into_iter().collect())],
                ),
            };
            let matches = Expr::Nested(Box::new(Expr::BinaryOp {
                left: Box::new(value),
                op: BinaryOperator::PGRegexMatch,
                right: Box::new(expression),
            }));
            *expr = match negated {
                true => Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(matches),
                },
                false => matches,
            };
        }
        _ => {}
    }
    Ok(())
}

fn string(text: String) -> Expr {
    Expr::value(Value::SingleQuotedString(text))
}

fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// The escape character; none where the escape is the empty text.
fn escape_of(value: &Value) -> Result<Option<char>> {
    match value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => escape(text),
        _ => Err(invalid_escape()),
    }
}

/// The character of an escape written as text.
pub(crate) fn escape(text: &str) -> Result<Option<char>> {
    let mut characters = text.chars();
    let first = characters.next();
    match characters.next() {
        None => Ok(first),
        Some(_) => Err(invalid_escape()),
    }
}

fn invalid_escape() -> Error {
    Error::new(SqlState::InvalidEscapeSequence, "invalid escape string")
        .with_hint("Escape string must be empty or one character.")
}

fn ends_with_escape() -> Error {
    Error::new(
        SqlState::InvalidEscapeSequence,
        "LIKE pattern must not end with escape character",
    )
}

/// A pattern of LIKE with `\` as its escape.
pub(crate) fn like_pattern(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut rewritten = String::with_capacity(pattern.len() + 2);
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let escaped = characters.next().ok_or_else(ends_with_escape)?;
            if matches!(escaped, '%' | '_' | '\\') {
                rewritten.push('\\');
            }
            rewritten.push(escaped);
        } else if character == '\\' {
            rewritten.push_str("\\\\");
        } else {
            rewritten.push(character);
        }
    }
    Ok(rewritten)
}

/// The regular expression of a pattern of SIMILAR TO.
pub(crate) fn similar_pattern(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut expression = String::from("^(?:");
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let escaped = characters.next().ok_or_else(ends_with_escape)?;
            if !escaped.is_alphanumeric() {
                expression.push('\\');
            }
            expression.push(escaped);
            continue;
        }
        match character {
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        match character {
            '%' if !in_class => expression.push_str("(?s:.*)"),
            '_' if !in_class => expression.push_str("(?s:.)"),
            '.' | '^' | '$' | '\\' if !in_class => {
                expression.push('\\');
                expression.push(character);
            }
            other => expression.push(other),
        }
    }
    expression.push_str(")$");
    Ok(expression)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_like_get_the_usual_escape() {
        assert_eq!(like_pattern("a!%b%", Some('!')).unwrap(), "a\\%b%");
        assert_eq!(like_pattern("a\\b", Some('!')).unwrap(), "a\\\\b");
        assert_eq!(like_pattern("a\\_", None).unwrap(), "a\\\\_");
        assert!(like_pattern("a!", Some('!')).is_err());
    }

    #[test]
    fn patterns_of_similar_to_match_whole_texts() {
        assert_eq!(
            similar_pattern("%(b|d)_", Some('\\')).unwrap(),
            "^(?:(?s:.*)(b|d)(?s:.))$"
        );
        assert_eq!(similar_pattern("a.b", Some('\\')).unwrap(), "^(?:a\\.b)$");
    }
}
