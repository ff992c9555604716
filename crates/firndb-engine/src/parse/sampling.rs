//! Samples of relations.
//!
//! ```text
//! FROM t USING SAMPLE 10% WHERE …           FROM t TABLESAMPLE BERNOULLI (10 PERCENT) WHERE …      in the tokens
//! t AS x TABLESAMPLE BERNOULLI (10 PERCENT)  (SELECT * FROM t AS x WHERE random() < 0.1) AS x      in the AST
//! t AS x TABLESAMPLE RESERVOIR (5 ROWS)      (SELECT * EXCLUDE (d) FROM (SELECT *, random() AS d FROM t AS x) ORDER BY d LIMIT 5) AS x
//! ```
//!
//! A sample of blocks is one of rows here. A seed is refused: rows are read by several threads, so that it would not make a sample
//! repeatable.

use datafusion::sql::sqlparser::ast::{
    Expr, Query, SetExpr, TableAlias, TableFactor, TableSampleKind, TableSampleUnit,
    TableWithJoins, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace};

use super::parse_query;
use crate::error::{Error, Result, SqlState};

/// The column that rows are drawn by; no user's name starts like this.
const DRAWN: &str = "__firndb_drawn";

/// Brings the spellings of samples to the parser's, and the sample of a SELECT to the relation of its FROM.
pub(super) fn rewrite(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut from = 0;
    while let Some(start) = (from..tokens.len()).find(|&place| begins(&tokens, place)) {
        from = start + 1;
        let using = is(&tokens[start], "using");
        let keyword = match using {
            true => next(&tokens, start + 1),
            false => Some(start),
        };
        let Some((sample, end)) = keyword.and_then(|keyword| specification(&tokens, keyword + 1))
        else {
            continue;
        };
        let place = match using {
            true => match end_of_from(&tokens, start) {
                Some(place) => place,
                None => continue,
            },
            false => start,
        };
        let span = tokens[start].span;
        tokens.drain(start..end);
        let made = sample.tokens(span);
        from = start + made.len();
        tokens.splice(place..place, made);
    }
    tokens
}

struct Sample {
    /// Whether each row is drawn by itself.
    bernoulli: bool,
    amount: String,
    percent: bool,
    seed: Option<String>,
}

impl Sample {
    fn tokens(self, span: Span) -> Vec<TokenWithSpan> {
        let word = |text: &str| Token::make_keyword(text);
        let mut tokens = vec![
            word("TABLESAMPLE"),
            word(if self.bernoulli {
                "BERNOULLI"
            } else {
                "SYSTEM"
            }),
            Token::LParen,
            Token::Number(self.amount, false),
            word(if self.percent { "PERCENT" } else { "ROWS" }),
            Token::RParen,
        ];
        if let Some(seed) = self.seed {
            let seed = Token::Number(seed, false);
            tokens.extend([word("REPEATABLE"), Token::LParen, seed, Token::RParen]);
        }
        let blank = || Token::Whitespace(Whitespace::Space);
        tokens
            .into_iter()
            .flat_map(|token| [blank(), token])
            .chain([blank()])
            .map(|token| TokenWithSpan::new(token, span))
            .collect()
    }
}

fn is(token: &TokenWithSpan, text: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

/// The first place from `from` on that is not blank.
fn next(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    (from..tokens.len()).find(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
}

fn begins(tokens: &[TokenWithSpan], place: usize) -> bool {
    is(&tokens[place], "tablesample")
        || is(&tokens[place], "using")
            && next(tokens, place + 1).is_some_and(|place| is(&tokens[place], "sample"))
}

/// A sample's specification from `from` on, and where it ends.
fn specification(tokens: &[TokenWithSpan], from: usize) -> Option<(Sample, usize)> {
    let at = |place: usize| next(tokens, place);
    let method = |place: usize| {
        ["reservoir", "bernoulli", "system"]
            .into_iter()
            .find(|name| is(&tokens[place], name))
    };
    let mut place = at(from)?;
    let mut named = method(place);
    if named.is_some() {
        place = at(place + 1)?;
    }
    let enclosed = tokens[place].token == Token::LParen;
    if enclosed {
        place = at(place + 1)?;
    }
    let Token::Number(amount, _) = &tokens[place].token else {
        return None;
    };
    let mut end = place + 1;
    let mut percent = None;
    if let Some(unit) = at(end) {
        if tokens[unit].token == Token::Mod || is(&tokens[unit], "percent") {
            (percent, end) = (Some(true), unit + 1);
        } else if is(&tokens[unit], "rows") {
            (percent, end) = (Some(false), unit + 1);
        }
    }
    let mut seed = None;
    if enclosed {
        let close = at(end)?;
        if tokens[close].token != Token::RParen {
            return None;
        }
        end = close + 1;
    } else if named.is_none()
        && let Some(open) = at(end).filter(|&open| tokens[open].token == Token::LParen)
    {
        let place = at(open + 1)?;
        named = Some(method(place)?);
        let mut close = at(place + 1)?;
        if tokens[close].token == Token::Comma {
            let place = at(close + 1)?;
            let Token::Number(number, _) = &tokens[place].token else {
                return None;
            };
            seed = Some(number.clone());
            close = at(place + 1)?;
        }
        if tokens[close].token != Token::RParen {
            return None;
        }
        end = close + 1;
    }
    let by_rows = matches!(named, Some("bernoulli" | "system"));
    let sample = Sample {
        bernoulli: named == Some("bernoulli"),
        amount: amount.clone(),
        percent: percent.unwrap_or(by_rows),
        seed,
    };
    Some((sample, end))
}

/// Where the FROM ends of the SELECT that a sample at `place` belongs to, if it names one relation.
fn end_of_from(tokens: &[TokenWithSpan], place: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut end = place;
    for before in (0..place).rev() {
        match &tokens[before].token {
            Token::RParen => depth += 1,
            Token::LParen => depth = depth.checked_sub(1)?,
            Token::Comma if depth == 0 => {
                // It is in a list of another clause, unless FROM comes before it.
                let clause = (0..before).rev().scan(0_usize, |depth, place| {
                    match &tokens[place].token {
                        Token::RParen => *depth += 1,
                        Token::LParen if *depth == 0 => return None,
                        Token::LParen => *depth -= 1,
                        Token::Word(word) if *depth == 0 => return Some(Some(word.keyword)),
                        _ => {}
                    }
                    Some(None)
                });
                let clause = clause.flatten().find(|keyword| {
                    matches!(keyword, Keyword::FROM | Keyword::BY | Keyword::SELECT)
                });
                if clause == Some(Keyword::FROM) {
                    return None;
                }
            }
            Token::Word(word) if depth == 0 && word.quote_style.is_none() => match word.keyword {
                Keyword::FROM => return Some(end),
                Keyword::JOIN | Keyword::SELECT => return None,
                Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::WINDOW
                | Keyword::QUALIFY => end = before,
                _ => {}
            },
            _ => {}
        }
    }
    None
}

/// Puts subqueries in the places of samples.
pub(super) fn of_tables(from: &mut [TableWithJoins]) -> Result<()> {
    for table in from {
        of_factor(&mut table.relation)?;
        for join in &mut table.joins {
            of_factor(&mut join.relation)?;
        }
    }
    Ok(())
}

/// Puts a subquery in the place of a sample.
pub(super) fn of_factor(factor: &mut TableFactor) -> Result<()> {
    let (sample, alias) = match factor {
        TableFactor::Table {
            sample,
            alias,
            name,
            ..
        } => {
            let named = name.0.last().and_then(|part| part.as_ident());
            let named = alias.as_ref().map(|alias| &alias.name).or(named);
            (sample.take(), named.cloned())
        }
        TableFactor::Derived { sample, alias, .. } => (
            sample.take(),
            alias.as_ref().map(|alias| alias.name.clone()),
        ),
        _ => return Ok(()),
    };
    let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        sample
    else {
        return Ok(());
    };
    if sample.seed.is_some() {
        return Err(Error::unsupported(
            "a sample with a seed (REPEATABLE) is not supported",
        ));
    }
    let quantity = match (&sample.quantity, &sample.bucket, sample.offset.is_some()) {
        (Some(quantity), None, false) => quantity,
        _ => return Err(Error::unsupported("this TABLESAMPLE is not supported")),
    };
    let amount = amount(&quantity.value)?;
    let percent = match quantity.unit {
        Some(TableSampleUnit::Rows) => false,
        Some(TableSampleUnit::Percent) => true,
        None => sample.name.is_some(),
    };
    if percent && !(0.0..=100.0).contains(&amount) {
        return Err(Error::new(
            SqlState::InvalidParameterValue,
            "sample percentage must be between 0 and 100",
        ));
    }
    let placeholder = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(parse_query("SELECT 1")?),
        alias: None,
        sample: None,
    };
    let table = TableWithJoins {
        relation: std::mem::replace(factor, placeholder),
        joins: Vec::new(),
    };
    let text = match percent {
        true => format!("SELECT * FROM x WHERE random() < {amount} / 100.0"),
        false => format!(
            "SELECT * EXCLUDE ({DRAWN}) FROM (SELECT *, random() AS {DRAWN} FROM x) AS x ORDER BY {DRAWN} LIMIT {amount:.0}"
        ),
    };
    let mut query = parse_query(&text)?;
    *sampled(&mut query)? = vec![table];
    *factor = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: alias.map(|name| TableAlias {
            explicit: true,
            name,
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    };
    Ok(())
}

/// The FROM of the innermost SELECT.
fn sampled(query: &mut Query) -> Result<&mut Vec<TableWithJoins>> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("no SELECT"));
    };
    let nested = matches!(select.from.as_slice(), [table] if matches!(table.relation, TableFactor::Derived { .. }));
    if !nested {
        return Ok(&mut select.from);
    }
    match select.from.first_mut().map(|table| &mut table.relation) {
        Some(TableFactor::Derived { subquery, .. }) => sampled(subquery),
        _ => Err(Error::internal("no subquery")),
    }
}

fn amount(value: &Expr) -> Result<f64> {
    let amount = match value {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<f64>().ok(),
            _ => None,
        },
        _ => None,
    };
    amount
        .filter(|amount| amount.is_finite())
        .ok_or_else(|| Error::new(SqlState::SyntaxError, "a sample's size is a number"))
}
