//! `EXCLUDE CURRENT ROW`, `EXCLUDE GROUP` and `EXCLUDE TIES` of window frames, which the parser and the planner lack.
//!
//! ```text
//! sum(x) OVER (w ORDER BY y ROWS 2 PRECEDING EXCLUDE TIES)
//!     ─▶  sum(x) OVER ("__firndb_excluding ties w" ORDER BY y ROWS 2 PRECEDING)       in the tokens
//!     ─▶  "__firndb_excluding ties - - sum"(x) OVER (…)                               a window function of ours
//! ```
//!
//! The function's name says what is left out, whether the values are distinct, and whether the last argument is the
//! condition of FILTER; see `expr::exclusion`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Query, VisitMut, VisitorMut, WindowType,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::calls::number;
use crate::error::{Error, Result, SqlState};

/// What the name of such a function begins with.
pub(crate) const EXCLUDING: &str = "__firndb_excluding";
/// Window functions that take no notice of frames.
const FRAMELESS: [&str; 9] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "fill",
];

/// Moves the clauses to the front of their windows.
pub(super) fn mark(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.clone()),
        _ => None,
    };
    if !tokens
        .iter()
        .any(|token| word(token).is_some_and(|word| word == "exclude"))
    {
        return tokens;
    }
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].token {
            Token::LParen => open.push(at),
            Token::RParen => {
                open.pop();
            }
            _ => {}
        }
        let Some(&opening) = open.last() else {
            at += 1;
            continue;
        };
        // Behind a star it lists columns.
        let starred = tokens[..at]
            .iter()
            .rfind(|token| !matches!(token.token, Token::Whitespace(_)))
            .is_some_and(|token| token.token == Token::Mul);
        if starred || word(&tokens[at]).as_deref() != Some("exclude") {
            at += 1;
            continue;
        }
        let solid: Vec<usize> = (at + 1..tokens.len())
            .filter(|&place| !matches!(tokens[place].token, Token::Whitespace(_)))
            .take(3)
            .collect();
        let words: Vec<Option<String>> = solid.iter().map(|&place| word(&tokens[place])).collect();
        let closes = |ahead: usize| {
            solid
                .get(ahead)
                .is_some_and(|&place| tokens[place].token == Token::RParen)
        };
        let word_at = |ahead: usize| words.get(ahead).and_then(Option::as_deref);
        let (mode, length) = match (word_at(0), word_at(1)) {
            (Some("current"), Some("row")) if closes(2) => (Some("row"), 2),
            (Some("no"), Some("others")) if closes(2) => (None, 2),
            (Some("group"), _) if closes(1) => (Some("group"), 1),
            (Some("ties"), _) if closes(1) => (Some("ties"), 1),
            _ => {
                at += 1;
                continue;
            }
        };
        let end = solid[length - 1];
        let span = tokens[at].span;
        tokens.drain(at..=end);
        if let Some(mode) = mode {
            let base = (opening + 1..tokens.len())
                .find(|&place| !matches!(tokens[place].token, Token::Whitespace(_)));
            let named = base.and_then(|place| match &tokens[place].token {
                Token::Word(word)
                    if !matches!(
                        word.keyword,
                        Keyword::PARTITION
                            | Keyword::ORDER
                            | Keyword::ROWS
                            | Keyword::RANGE
                            | Keyword::GROUPS
                    ) =>
                {
                    Some((place, word.value.clone()))
                }
                _ => None,
            });
            let text = match &named {
                Some((_, name)) => format!("{EXCLUDING} {mode} {name}"),
                None => format!("{EXCLUDING} {mode}"),
            };
            let token = TokenWithSpan {
                token: Token::make_word(&text, Some('"')),
                span,
            };
            match named {
                Some((place, _)) => tokens[place] = token,
                None => {
                    tokens.insert(opening + 1, token);
                    let blank = datafusion::sql::sqlparser::tokenizer::Whitespace::Space;
                    let blank = TokenWithSpan {
                        token: Token::Whitespace(blank),
                        span,
                    };
                    tokens.insert(opening + 2, blank);
                    at += 2;
                }
            }
        }
    }
    tokens
}

/// The mark of a window's name, and the name of the window that it refines.
pub(super) fn split(name: &Ident) -> (Option<&str>, Option<Ident>) {
    let Some(rest) = name
        .value
        .strip_prefix(EXCLUDING)
        .and_then(|rest| rest.strip_prefix(' '))
    else {
        return (None, Some(name.clone()));
    };
    match rest.split_once(' ') {
        Some((mode, base)) => (Some(mode), Some(Ident::new(base))),
        None => (Some(rest), None),
    }
}

/// The name of a window that leaves rows out and refines no other.
pub(super) fn marked(mode: &str) -> Ident {
    Ident::with_quote('"', format!("{EXCLUDING} {mode}"))
}

/// Gives the functions over such windows their names, outside subqueries, which were seen to before.
pub(super) fn rename<T: VisitMut>(syntax: &mut T) -> Result<()> {
    match syntax.visit(&mut Functions { depth: 0 }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Functions {
    depth: usize,
}

impl VisitorMut for Functions {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth == 0
            && let Expr::Function(function) = expr
            && let Err(error) = of_function(function)
        {
            return ControlFlow::Break(Box::new(error));
        }
        ControlFlow::Continue(())
    }
}

fn of_function(function: &mut Function) -> Result<()> {
    let Some(WindowType::WindowSpec(spec)) = &mut function.over else {
        return Ok(());
    };
    let mode = match &spec.window_name {
        Some(name) => match split(name) {
            (Some(mode), None) => mode.to_owned(),
            _ => return Ok(()),
        },
        None => return Ok(()),
    };
    if spec.window_frame.is_none() {
        return Err(Error::new(
            SqlState::SyntaxError,
            "EXCLUDE is part of a frame: it needs ROWS, RANGE or GROUPS before it",
        ));
    }
    spec.window_name = None;
    let name = function.name.to_string();
    if FRAMELESS.contains(&name.as_str()) {
        return Ok(());
    }
    let FunctionArguments::List(list) = &mut function.args else {
        return Ok(());
    };
    if !list.clauses.is_empty() && !function.within_group.is_empty() {
        return Err(Error::unsupported(
            "ORDER BY within an aggregate over a frame with EXCLUDE is not supported",
        ));
    }
    for argument in &mut list.args {
        if matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Wildcard)) {
            *argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(number("1")));
        }
    }
    let distinct = match list.duplicate_treatment.take() {
        Some(DuplicateTreatment::Distinct) => "distinct",
        _ => "-",
    };
    let filtered = match function.filter.take() {
        Some(condition) => {
            list.args
                .push(FunctionArg::Unnamed(FunctionArgExpr::Expr(*condition)));
            "filtered"
        }
        None => "-",
    };
    let name = format!("{EXCLUDING} {mode} {distinct} {filtered} {name}");
    function.name = ObjectName::from(Ident::with_quote('"', name));
    Ok(())
}
