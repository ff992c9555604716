//! From text to statements.
//!
//! ```text
//! text ─▶ tokens (names folded, ? numbered) ─▶ AST ─▶ normalized AST (see `normalize`)
//! ```
//!
//! Names are folded in the tokens, before the parser sees them, so every identifier of the AST is folded whatever kind of
//! node holds it; how a name was written is read from the text again, by its span, where a result or a catalog entry
//! wants its case back. Quoted names are folded too, except those that the catalog says differ by case alone.
//!
//! Stack safety: brackets, CASEs and NOTs are counted in the tokens, and the parser itself grows its stack. A chain such as
//! `1 + 1 + …` makes a deep tree without depth in the parser, so a statement's tree is measured once, on a stack sized by its
//! tokens, and one that is deeper than [`MAX_DEPTH`] is refused with 54001 and dropped on that stack.

mod aggregates;
mod alter_sequence;
mod alter_view;
mod arrays;
mod asof;
mod brackets;
mod calls;
mod chains;
mod clauses;
mod collations;
mod comprehension;
mod conflict;
pub mod copy;
mod descriptions;
mod dialect;
mod exclusion;
mod frames;
mod from_first;
mod grouping;
mod insert;
mod intervals;
mod json;
mod lambdas;
mod laterals;
mod limits;
mod literals;
mod macros;
mod members;
mod merge;
mod methods;
mod moments;
mod name_words;
mod names;
mod normalize;
mod outer;
mod outputs;
mod parameters;
mod patterns;
mod pieces;
mod pivots;
mod recursive_view;
mod relations;
mod rows;
mod sampling;
mod sequence;
mod source;
mod spellings;
mod stars;
mod structs;
mod synonyms;
mod templates;
mod ties;
mod to_number;
mod type_aliases;
mod values;
mod variables;
mod windows;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

pub(crate) use aggregates::QUANTILE_FROM_TOP;
pub use alter_sequence::AlterSequence;
pub use alter_view::RenameView;
pub(crate) use arrays::of_query as list_of_query;
pub(crate) use calls::{DATE_PART, FLAT, LAG, LEAD, MATCHES, SUBSTRING_MATCHING, TRUNC};
pub(crate) use collations::is_binary;
pub(crate) use conflict::{ConflictTarget, conflict_target};
pub(crate) use descriptions::{DESCRIBE, SHOW_TABLES, SUMMARIZE};
pub(crate) use exclusion::EXCLUDING;
pub(crate) use insert::BY_NAME;
pub(crate) use json::{
    JSON_EACH, JSON_EXTRACT_ALL, JSON_EXTRACT_TEXT_ALL, JSON_OBJECT_OF_LISTS, JSON_TREE,
};
pub(crate) use lambdas::TRY;
pub(crate) use limits::PERCENT;
pub use macros::macro_names;
pub(crate) use members::{STRUCT_INSERT, STRUCT_UPDATE};
pub(crate) use merge::{DEFAULT_VALUES, DO_NOTHING};
pub(crate) use methods::{of_columns as methods_of_columns, of_value as method_of_value};
pub(crate) use moments::MODIFIED_STRFTIME;
pub(crate) use names::UNIQUE;
pub(crate) use outputs::output;
pub(crate) use parameters::literal;
pub use parameters::{Arguments, bind};
pub(crate) use patterns::{LIKE_PATTERN, SIMILAR_PATTERN, escape, like_pattern, similar_pattern};
pub(crate) use pieces::call;
pub(crate) use pivots::GROUPS;
pub(crate) use relations::POSITIONAL;
pub(crate) use rows::LIST_OF;
pub use source::Source;
pub(crate) use spellings::{RENAMED_CONSTRAINT, ROWS};
pub(crate) use synonyms::{
    LIKE_COMMENTS, LIKE_CONSTRAINTS, LIKE_DEFAULTS, LIKE_GENERATED, LIKE_IDENTITY, LIKE_INDEXES,
    LIKE_TABLE, OVERRIDING_SYSTEM, OVERRIDING_USER,
};
pub(crate) use templates::{PLAIN_MOMENT_BY, ZONED_MOMENT_BY};
pub(crate) use to_number::{Part, TO_NUMBER, parts as template_parts};
pub(crate) use type_aliases::{TYPE_ALIAS, is_built_in_type};
pub(crate) use variables::{Read, Variables, with_variables};

use crate::catalog::fold;
use crate::error::{Error, Result, SqlState};
use dialect::FirnDialect;
pub use literals::type_literals;

/// Levels that a statement's tree may have, so how long a chain of AND and OR may be.
pub const MAX_DEPTH: usize = 3_000;
/// Terms of OR in a WHERE.
pub const MAX_TERMS: usize = 20_000;
/// Levels of other operators and of functions: planning them costs more than their number.
pub const MAX_OPERATORS: usize = 500;
/// Levels of subqueries.
const MAX_QUERIES: usize = 200;
/// Levels of subqueries in expressions: DataFusion's planning doubles with each.
const MAX_SUBQUERIES: usize = 16;
/// Levels of functions with lambdas: DataFusion's typing doubles with each.
const MAX_LAMBDAS: usize = 12;
/// Levels of BETWEEN, which the planner writes as two comparisons: what is compared doubles with each.
const MAX_RANGES: usize = 10;
/// Brackets and CASEs that may be open at a time.
const MAX_NESTING: usize = 1_000;
/// Calls of its own that the parser goes down: more than [`MAX_NESTING`] levels take. It tries what fails in another way, at each
/// level again, so that it must not be its own limit that fails.
const MAX_RECURSION: usize = 16 * MAX_NESTING;
/// Levels of lists, structs and maps written in one another: their types are as deep.
const MAX_LITERALS: usize = 100;
/// Parentheses that may open one directly after the other.
const MAX_PARENTHESES: usize = 500;
/// Parentheses around joins, and pivots of pivots.
const MAX_FACTORS: usize = 50;
/// EXPLAIN, DESCRIBE and PREPARE before one statement.
const MAX_VERBS: usize = 16;
/// Set operations in one text.
const MAX_SET_OPERATIONS: usize = 2_000;
/// Joins, EXCEPTs and INTERSECTs in one statement: unlike UNIONs, each is a level of its plan.
const MAX_JOINS: usize = 500;
/// Levels of types within types.
const MAX_TYPES: usize = 64;
/// DuckDB's extensions whose functions are here without them.
const BUILT_IN: [&str; 6] = [
    "json",
    "parquet",
    "icu",
    "core_functions",
    "autocomplete",
    "arrow",
];
/// Bytes of a name.
const MAX_NAME: usize = 1_024;

/// What one statement asks for.
#[derive(Debug, Clone)]
pub enum Command {
    /// A statement of SQL.
    Sql(Box<ast::Statement>),
    /// SUMMARIZE.
    Summarize(Box<ast::Query>),
    /// Statements for other engines' upkeep that mean nothing here: CHECKPOINT, REINDEX.
    Nothing(&'static str),
    /// SET VARIABLE: the variable's name, and a query of its value.
    SetVariable(String, Box<ast::Query>),
    /// ALTER SEQUENCE.
    AlterSequence(Box<AlterSequence>),
    /// ALTER VIEW … RENAME TO.
    RenameView(Box<RenameView>),
    /// SET CONSTRAINTS: the constraints' names, or all, and whether they are checked at the end of the transaction.
    SetConstraints(Option<Vec<String>>, bool),
    /// RESET VARIABLE.
    ResetVariable(String),
}

/// One statement, ready to be planned again and again.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What it asks for, names folded, parameters numbered `$1` ….
    pub command: Command,
    /// How names were written, by folded name: aliases of columns.
    pub aliases: Arc<HashMap<String, String>>,
    /// How relations' names were written, by folded name.
    pub relations: Arc<HashMap<String, String>>,
    /// The parameters of the statement that a PREPARE holds.
    pub inner: Option<ParameterNames>,
    /// Whether it reads variables of the session.
    pub variables: bool,
    /// Whether its tree needs a larger stack than usual.
    pub deep: bool,
}

/// A text of statements.
#[derive(Debug)]
pub struct ParsedText {
    /// The text.
    pub source: Arc<Source>,
    /// Its statements.
    pub statements: Vec<Parsed>,
    /// Its parameters.
    pub parameters: ParameterNames,
}

/// The parameters of a text: `$k` stands for the k-th.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParameterNames {
    /// Names, if they are named.
    pub named: Vec<String>,
    /// How many positional ones there are.
    pub positional: usize,
}

impl ParameterNames {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.named.len().max(self.positional)
    }
}

/// Parses a text of statements. `exact` tells the names that are not to be folded when quoted.
pub fn parse(sql: &str, exact: &dyn Fn(&str) -> bool) -> Result<ParsedText> {
    let source = Arc::new(Source::new(sql));
    let tokens = tokenize(&source, exact)?;
    let room = STACK_BASE + tokens.len().saturating_mul(STACK_PER_TOKEN);
    let run = || parse_tokens(&source, tokens);
    if room > STACK_SMALL {
        stacker::grow(room.min(STACK_MOST), run)
    } else {
        stacker::maybe_grow(STACK_BASE, STACK_SMALL, run)
    }
}

/// Parses a query of ours.
pub fn parse_query(sql: &str) -> Result<ast::Query> {
    let mut parser = Parser::new(&FirnDialect)
        .try_with_sql(sql)
        .map_err(|error| Error::internal(error.to_string()))?;
    parser
        .parse_query()
        .map(|query| *query)
        .map_err(|error| Error::internal(error.to_string()))
}

const STACK_BASE: usize = 512 << 10;
const STACK_SMALL: usize = 4 << 20;
const STACK_MOST: usize = 1 << 30;
const STACK_PER_TOKEN: usize = 2 << 10;

fn tokenize(source: &Source, exact: &dyn Fn(&str) -> bool) -> Result<Vec<TokenWithSpan>> {
    let mut tokens = Vec::new();
    let mut questions = 0_usize;
    let mut failure = None;
    Tokenizer::new(&FirnDialect, source.text())
        .tokenize_with_location_into_buf_with_mapper(&mut tokens, |mut token| {
            match &mut token.token {
                Token::Word(word) => {
                    if word.value.len() > MAX_NAME && failure.is_none() {
                        failure = Some(
                            Error::new(
                                SqlState::NameTooLong,
                                format!("identifier is longer than {MAX_NAME} bytes"),
                            )
                            .at(source.position(token.span.start)),
                        );
                    }
                    let folded = fold(&word.value);
                    if folded != word.value && (word.quote_style.is_none() || !exact(&word.value)) {
                        word.value = folded;
                    }
                }
                Token::HexStringLiteral(digits) if source.is_at('0', token.span.start) => {
                    match u128::from_str_radix(digits, 16) {
                        Ok(number) => token.token = Token::Number(number.to_string(), false),
                        Err(_) if failure.is_none() => {
                            failure = Some(
                                Error::new(
                                    SqlState::NumericValueOutOfRange,
                                    format!("the number 0x{} is out of range", shorten(digits)),
                                )
                                .at(source.position(token.span.start)),
                            );
                        }
                        Err(_) => {}
                    }
                }
                Token::Placeholder(name) if name == "?" => {
                    questions += 1;
                    *name = format!("${questions}");
                }
                Token::Placeholder(name) if name.starts_with('?') => {
                    name.replace_range(..1, "$");
                }
                _ => {}
            }
            token
        })
        .map_err(|error| {
            Error::new(SqlState::SyntaxError, lexical(&error.message))
                .at(source.position(error.location))
        })?;
    if let Some(error) = failure {
        return Err(error);
    }
    check_shape(&tokens)?;
    let tokens = sequence::rewrite(json::mark(brackets::mark(exclusion::mark(tokens))));
    let tokens = spellings::rewrite(conflict::rewrite(synonyms::rewrite(name_words::rewrite(
        tokens,
    ))));
    let tokens = limits::rewrite(sampling::rewrite(pivots::rewrite(tokens)));
    let tokens = stars::rewrite(structs::rewrite(insert::rewrite(tokens)));
    let tokens = recursive_view::rewrite(descriptions::rewrite(tokens));
    Ok(merge::rewrite(from_first::reorder(tokens)))
}

fn lexical(message: &str) -> String {
    match message {
        "Unterminated string literal" | "Unterminated encoded string literal" => {
            "unterminated quoted string".to_owned()
        }
        "Unterminated dollar-quoted string" => "unterminated dollar-quoted string".to_owned(),
        "Unexpected EOF while in a multi-line comment" => "unterminated /* comment".to_owned(),
        other if other.starts_with("Expected close delimiter") => {
            "unterminated quoted identifier".to_owned()
        }
        other => other.to_owned(),
    }
}

/// Refuses what would keep the parser busy without end, and types nested so deeply that it would run out of stack.
fn check_shape(tokens: &[TokenWithSpan]) -> Result<()> {
    let (mut open, mut operations, mut joins, mut dimensions) =
        (0_usize, 0_usize, 0_usize, 0_usize);
    let (mut signs, mut cases, mut nots, mut nested) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut types = TypeNesting::default();
    let (mut before, mut opened_behind) = (&Token::EOF, &Token::EOF);
    let (mut pivots, mut verbs) = (0_usize, 0_usize);
    for token in tokens {
        let token = &token.token;
        match token {
            Token::Whitespace(_) => continue,
            Token::LParen if open == 0 => (open, opened_behind) = (1, before),
            Token::LParen => open += 1,
            _ => open = 0,
        }
        match token {
            Token::Minus | Token::Plus | Token::Tilde => signs += 1,
            Token::Word(word) if word.keyword == Keyword::NOT => signs += 1,
            Token::Word(word) if word.keyword == Keyword::CASE => (signs, cases) = (0, cases + 1),
            Token::Word(word) if word.keyword == Keyword::END => {
                (signs, cases) = (0, cases.saturating_sub(1));
            }
            _ => signs = 0,
        }
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => nested += 1,
            Token::RParen | Token::RBracket | Token::RBrace => nested = nested.saturating_sub(1),
            Token::SemiColon => (nested, cases, nots) = (0, 0, 0),
            Token::Comma => nots = 0,
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::NOT => nots += 1,
                Keyword::AND | Keyword::OR | Keyword::WHEN | Keyword::THEN => nots = 0,
                _ => {}
            },
            _ => {}
        }
        match (before, token) {
            (_, Token::LBracket) => {}
            (Token::LBracket, Token::RBracket) => dimensions += 1,
            _ => dimensions = 0,
        }
        if let Token::Word(word) = token
            && matches!(
                word.keyword,
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::JOIN
            )
        {
            operations += 1;
            joins += usize::from(word.keyword != Keyword::UNION);
        }
        // EXPLAIN EXPLAIN …, PREPARE a AS PREPARE b AS …
        use Keyword::{ANALYZE, AS, DESC, DESCRIBE, EXPLAIN, PREPARE, VERBOSE};
        let begins = match before {
            Token::EOF | Token::SemiColon => true,
            Token::Word(word) => {
                [ANALYZE, AS, DESC, DESCRIBE, EXPLAIN, VERBOSE].contains(&word.keyword)
            }
            _ => false,
        };
        if begins
            && matches!(token, Token::Word(word) if [DESC, DESCRIBE, EXPLAIN, PREPARE].contains(&word.keyword))
        {
            verbs += 1;
        }
        if matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::PIVOT | Keyword::UNPIVOT))
        {
            pivots += 1;
        }
        if *token == Token::SemiColon {
            (joins, pivots, verbs) = (0, 0, 0);
        }
        let joined = matches!(opened_behind, Token::Word(word) if matches!(word.keyword, Keyword::FROM | Keyword::JOIN));
        types.step(before, token);
        for (found, most, what) in [
            (
                open,
                MAX_PARENTHESES,
                "parentheses that open one after the other",
            ),
            (operations, MAX_SET_OPERATIONS, "set operations and joins"),
            (joins, MAX_JOINS, "joins, EXCEPTs and INTERSECTs"),
            (dimensions.max(types.depth), MAX_TYPES, "levels of types"),
            (
                signs.max(nots),
                MAX_OPERATORS,
                "signs and NOTs before one value",
            ),
            (nested + cases, MAX_NESTING, "levels of syntax"),
            (cases, MAX_OPERATORS, "levels of CASE"),
            (
                if joined { open } else { 0 },
                MAX_FACTORS,
                "levels of joins",
            ),
            (pivots, MAX_FACTORS, "pivots"),
            (verbs, MAX_VERBS, "statements within statements"),
        ] {
            if found > most {
                return Err(too_deep(most, what));
            }
        }
        before = token;
    }
    Ok(())
}

/// How many brackets of types are open: `STRUCT(a STRUCT(…`, `ARRAY<ARRAY<…`.
#[derive(Default)]
struct TypeNesting {
    /// Open brackets, and whether each belongs to a type.
    open: Vec<(Bracket, bool)>,
    depth: usize,
}

#[derive(PartialEq, Eq)]
enum Bracket {
    Parenthesis,
    Angle,
}

impl TypeNesting {
    fn step(&mut self, before: &Token, token: &Token) {
        let of_type = matches!(before, Token::Word(word) if word.quote_style.is_none() && is_constructor(word));
        match token {
            Token::LParen => self.push(Bracket::Parenthesis, of_type),
            Token::Lt if of_type => self.push(Bracket::Angle, true),
            Token::RParen => self.pop(&Bracket::Parenthesis),
            Token::Gt => self.pop(&Bracket::Angle),
            Token::ShiftRight => {
                self.pop(&Bracket::Angle);
                self.pop(&Bracket::Angle);
            }
            _ => {}
        }
    }

    fn push(&mut self, bracket: Bracket, of_type: bool) {
        self.open.push((bracket, of_type));
        self.depth += usize::from(of_type);
    }

    fn pop(&mut self, bracket: &Bracket) {
        if self.open.last().is_some_and(|(open, _)| open == bracket)
            && let Some((_, of_type)) = self.open.pop()
        {
            self.depth -= usize::from(of_type);
        }
    }
}

/// Whether a word makes types of types.
fn is_constructor(word: &Word) -> bool {
    matches!(
        word.value.as_str(),
        "struct" | "row" | "map" | "union" | "list" | "array" | "tuple" | "nested" | "nullable"
    )
}

fn parse_tokens(source: &Arc<Source>, tokens: Vec<TokenWithSpan>) -> Result<ParsedText> {
    let mut parser = Parser::new(&FirnDialect)
        .with_recursion_limit(MAX_RECURSION)
        .with_tokens_with_locations(tokens);
    let mut statements = Vec::new();
    let mut parameters = ParameterNames::default();
    loop {
        while parser.consume_token(&Token::SemiColon) {}
        if parser.peek_token().token == Token::EOF {
            break;
        }
        let start = parser.peek_token().span.start;
        let mut command =
            parse_command(&mut parser).map_err(|error| syntax(source, start, error))?;
        match &mut command {
            Command::Sql(statement) => type_literals(statement.as_mut())?,
            Command::Summarize(query) => type_literals(query.as_mut())?,
            Command::SetVariable(_, query) => type_literals(query.as_mut())?,
            _ => {}
        }
        let next = parser.peek_token();
        if !matches!(next.token, Token::SemiColon | Token::EOF) {
            return Err(near(source, &next.token.to_string(), next.span.start, None));
        }
        statements.push(normalize::normalize(command, source, &mut parameters)?);
    }
    if !parameters.named.is_empty() && parameters.positional > 0 {
        return Err(Error::new(
            SqlState::UndefinedParameter,
            "a statement's parameters are either all positional or all named",
        ));
    }
    Ok(ParsedText {
        source: Arc::clone(source),
        statements,
        parameters,
    })
}

fn parse_command(parser: &mut Parser<'_>) -> std::result::Result<Command, ParserError> {
    let first = match parser.peek_token().token {
        Token::Word(word) if word.quote_style.is_none() => word.value,
        _ => String::new(),
    };
    match first.as_str() {
        "summarize" => {
            parser.next_token();
            let query = match parser.peek_token().token {
                Token::Word(word)
                    if matches!(
                        word.keyword,
                        Keyword::SELECT | Keyword::WITH | Keyword::FROM | Keyword::VALUES
                    ) =>
                {
                    parser.parse_query()?
                }
                Token::LParen => parser.parse_query()?,
                _ => {
                    let name = parser.parse_object_name(false)?;
                    Parser::new(&FirnDialect)
                        .try_with_sql(&format!("SELECT * FROM {name}"))?
                        .parse_query()?
                }
            };
            Ok(Command::Summarize(query))
        }
        "checkpoint" => {
            parser.next_token();
            Ok(Command::Nothing("CHECKPOINT"))
        }
        // Extensions of other systems that are part of this one.
        "load" | "install"
            if matches!(parser.peek_nth_token(1).token, Token::Word(word) if BUILT_IN.contains(&word.value.as_str()))
                || matches!(parser.peek_nth_token(1).token, Token::SingleQuotedString(name) if BUILT_IN.contains(&name.as_str())) =>
        {
            parser.next_token();
            parser.next_token();
            Ok(Command::Nothing("LOAD"))
        }
        // Indexes need no upkeep.
        "reindex" => {
            while !matches!(parser.peek_token().token, Token::SemiColon | Token::EOF) {
                parser.next_token();
            }
            Ok(Command::Nothing("REINDEX"))
        }
        "pragma" if is_foreign_keys(parser) => {
            parser.next_token();
            parser.next_token();
            if parser.consume_token(&Token::Eq) {
                let value = parser.next_token().token.to_string().to_lowercase();
                if !matches!(value.as_str(), "on" | "1" | "true" | "yes") {
                    return Err(ParserError::ParserError(
                        "foreign keys are always enforced".to_owned(),
                    ));
                }
            }
            Ok(Command::Nothing("PRAGMA"))
        }
        "create" if matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.value == "type") => {
            match type_aliases::parse(parser)? {
                Some(alias) => Ok(Command::Sql(Box::new(alias))),
                None => parser
                    .parse_statement()
                    .map(|statement| Command::Sql(Box::new(statement))),
            }
        }
        "set" if is_variable(parser) => {
            parser.next_token();
            parser.next_token();
            let name = parser.parse_identifier()?.value;
            if !parser.parse_keyword(Keyword::TO) {
                parser.expect_token(&Token::Eq)?;
            }
            let value = parser.parse_expr()?;
            Ok(Command::SetVariable(
                name,
                Box::new(variables::value(value)?),
            ))
        }
        "alter" if matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.value == "sequence") => {
            Ok(Command::AlterSequence(Box::new(alter_sequence::parse(
                parser,
            )?)))
        }
        "alter" if matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.value == "view") => {
            match alter_view::parse(parser)? {
                Some(rename) => Ok(Command::RenameView(Box::new(rename))),
                None => parser
                    .parse_statement()
                    .map(|statement| Command::Sql(Box::new(statement))),
            }
        }
        "set"
            if matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.value == "constraints")
                && matches!(parser.peek_nth_token(2).token, Token::Word(_)) =>
        {
            parser.next_token();
            parser.next_token();
            let names = match parser.parse_keyword(Keyword::ALL) {
                true => None,
                false => Some(parser.parse_comma_separated(|parser| {
                    let name = parser.parse_object_name(false)?;
                    let last = name.0.last().and_then(ast::ObjectNamePart::as_ident);
                    Ok(last.map_or_else(String::new, |last| last.value.clone()))
                })?),
            };
            let deferred = parser.parse_keyword(Keyword::DEFERRED);
            if !deferred {
                parser.expect_keyword_is(Keyword::IMMEDIATE)?;
            }
            Ok(Command::SetConstraints(names, deferred))
        }
        "reset" if is_variable(parser) => {
            parser.next_token();
            parser.next_token();
            Ok(Command::ResetVariable(parser.parse_identifier()?.value))
        }
        _ => parser
            .parse_statement()
            .map(|statement| Command::Sql(Box::new(statement))),
    }
}

/// Whether the next words are SET VARIABLE or RESET VARIABLE and a name.
fn is_variable(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.value == "variable")
        && matches!(parser.peek_nth_token(2).token, Token::Word(_))
}

/// Whether the word after PRAGMA is SQLite's `foreign_keys`.
fn is_foreign_keys(parser: &Parser<'_>) -> bool {
    matches!(parser.peek_nth_token(1).token, Token::Word(word) if word.value == "foreign_keys")
}

/// The parser's error in PostgreSQL's words, with the position that the parser writes into its text.
fn syntax(source: &Source, start: Location, error: ParserError) -> Error {
    let message = match error {
        ParserError::RecursionLimitExceeded => return too_deep(MAX_RECURSION, "levels of syntax"),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let (text, location) = match message.rsplit_once(" at Line: ") {
        Some((text, place)) => {
            let mut numbers = place.split(", Column: ").map(str::trim);
            let line = numbers.next().and_then(|number| number.parse().ok());
            let column = numbers.next().and_then(|number| number.parse().ok());
            match (line, column) {
                (Some(line), Some(column)) => (text.to_owned(), Location { line, column }),
                _ => (message.clone(), start),
            }
        }
        None => (message.clone(), start),
    };
    if let Some(rest) = text.strip_prefix("Expected: ")
        && let Some((expected, found)) = rest.rsplit_once(", found: ")
    {
        return near(source, found, location, Some(expected));
    }
    // An operator's word that the parser knows and has no rule for; it shows the token as itself sees it.
    if text.starts_with("No infix parser for token ")
        && let Some(word) = source.word_at(location)
    {
        return near(source, &word, location, None);
    }
    Error::new(SqlState::SyntaxError, format!("syntax error: {text}")).at(source.position(location))
}

fn near(source: &Source, found: &str, location: Location, expected: Option<&str>) -> Error {
    let error = if found == "EOF" || found.is_empty() {
        Error::new(SqlState::SyntaxError, "syntax error at end of input")
            .at(Some(source.characters()))
    } else {
        let written = source.written_at(found, location);
        Error::new(
            SqlState::SyntaxError,
            format!("syntax error at or near \"{}\"", shorten(&written)),
        )
        .at(source.position(location))
    };
    match expected {
        Some(expected) => error.with_detail(format!("Expected {expected}.")),
        None => error,
    }
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    text.chars().take(57).chain("...".chars()).collect()
}

fn too_deep(most: usize, what: &str) -> Error {
    Error::new(
        SqlState::StatementTooComplex,
        "the statement is nested too deeply",
    )
    .with_detail(format!("A statement has at most {most} {what}."))
    .with_hint("Split it into several statements.")
}
