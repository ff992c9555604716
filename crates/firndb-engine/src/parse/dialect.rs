//! The dialect: PostgreSQL's precedence and literals, DuckDB's conveniences.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Statement, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_IDENTIFIER};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::pieces::call;
use super::{brackets, comprehension, intervals};

/// FirnDB's SQL. It passes for the generic dialect where the parser asks for one by type, since that admits the most.
#[derive(Debug)]
pub(super) struct FirnDialect;

impl Dialect for FirnDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_' || !ch.is_ascii() && !ch.is_whitespace()
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.is_identifier_start(ch) || ch.is_ascii_digit() || ch == '$'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('"')
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PostgreSqlDialect {}.prec_value(precedence)
    }

    /// COPY takes options that the parser has no nodes for.
    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        super::copy::parse_copy(parser)
    }

    /// `x GLOB 'a*'` binds as LIKE does. Shifts, bits and `||` bind alike and less than `+`, as every operator that is not
    /// arithmetic does in PostgreSQL and DuckDB.
    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if globs(parser) {
            return Some(Ok(self.prec_value(Precedence::Like)));
        }
        if is_null(parser) {
            return Some(Ok(self.prec_value(Precedence::Is)));
        }
        matches!(
            parser.peek_token_ref().token,
            Token::ShiftLeft
                | Token::ShiftRight
                | Token::Ampersand
                | Token::Pipe
                | Token::Sharp
                | Token::StringConcat
        )
        .then(|| Ok(self.prec_value(Precedence::PgOther)))
    }

    /// A sign binds more than every operator but casts, subscripts and fields: `-2 ^ 2` is 4, `-7 >> 1` is -4. `~` is an
    /// operator like `&`, and binds less than `+`.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if brackets::begins_comprehension(parser) {
            return Some(comprehension::parse(parser));
        }
        if brackets::begins_list(parser) {
            parser.next_token();
            return Some(parser.parse_expr());
        }
        if intervals::begins_expression(parser) {
            parser.next_token();
            return Some(parser.parse_interval());
        }
        if begins_values(parser) {
            return Some(parser.parse_query().map(Expr::Subquery));
        }
        if let Some(name) = function_of_prefix(parser) {
            parser.next_token();
            let operand = parser.parse_subexpr(self.prec_value(Precedence::PgOther));
            return Some(operand.map(|operand| call(name, vec![operand])));
        }
        let op = match parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            Token::Tilde => UnaryOperator::BitwiseNot,
            _ => return None,
        };
        parser.next_token();
        let precedence = match op {
            UnaryOperator::BitwiseNot => self.prec_value(Precedence::PgOther),
            _ => self.prec_value(Precedence::DoubleColon) - 1,
        };
        let operand = parser.parse_subexpr(precedence);
        Some(operand.map(|operand| Expr::UnaryOp {
            op,
            expr: Box::new(operand),
        }))
    }

    /// GLOB, ISNULL, IS DISTINCT FROM, whose right side ends before AND, IN with a list, and BETWEEN SYMMETRIC, which takes its bounds in either order.
    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if globs(parser) {
            return Some(glob(parser, expr, precedence));
        }
        if is_null(parser) {
            parser.next_token();
            return Some(Ok(Expr::IsNull(Box::new(expr.clone()))));
        }
        if let Some(distinct) = is_distinct(parser, expr, precedence) {
            return Some(distinct);
        }
        if let Some(negated) = is_same(parser) {
            return Some(same(parser, expr, negated, precedence));
        }
        if let Some(negated) = in_list(parser) {
            return Some(contained(self, parser, expr, negated));
        }
        if parser.consume_token(&Token::ExclamationMark) {
            return Some(Ok(call("factorial", vec![expr.clone()])));
        }
        if parser.consume_token(&Token::Sharp) {
            let right = parser.parse_subexpr(precedence);
            return Some(right.map(|right| call("xor", vec![expr.clone(), right])));
        }
        use Keyword::{BETWEEN, NOT, SYMMETRIC};
        let negated = match parser.parse_keywords(&[BETWEEN, SYMMETRIC]) {
            true => false,
            false if parser.parse_keywords(&[NOT, BETWEEN, SYMMETRIC]) => true,
            false => return None,
        };
        Some(between_symmetric(self, parser, expr, negated))
    }

    /// What begins with such a word is no name if it can't be parsed. The parser would try it as one, at each level of nesting again.
    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        matches!(keyword, Keyword::NOT | Keyword::CASE | Keyword::CAST)
            || RESERVED_FOR_IDENTIFIER.contains(&keyword)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }
    fn supports_within_after_array_aggregation(&self) -> bool {
        true
    }
    fn supports_group_by_expr(&self) -> bool {
        true
    }
    fn supports_left_associative_joins_without_parens(&self) -> bool {
        true
    }
    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }
    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }
    fn supports_start_transaction_modifier(&self) -> bool {
        false
    }
    fn supports_dictionary_syntax(&self) -> bool {
        true
    }
    fn support_map_literal_syntax(&self) -> bool {
        true
    }
    fn supports_struct_literal(&self) -> bool {
        true
    }
    fn supports_named_fn_args_with_eq_operator(&self) -> bool {
        false
    }
    fn supports_named_fn_args_with_assignment_operator(&self) -> bool {
        true
    }
    fn supports_numeric_literal_underscores(&self) -> bool {
        true
    }
    fn supports_unicode_string_literal(&self) -> bool {
        true
    }
    fn supports_string_escape_constant(&self) -> bool {
        true
    }
    fn supports_string_literal_concatenation_with_newline(&self) -> bool {
        true
    }
    fn supports_nested_comments(&self) -> bool {
        true
    }
    fn allow_extract_custom(&self) -> bool {
        true
    }
    fn allow_extract_single_quotes(&self) -> bool {
        true
    }
    fn supports_create_index_with_clause(&self) -> bool {
        true
    }
    fn supports_explain_with_utility_options(&self) -> bool {
        true
    }
    fn supports_bitwise_shift_operators(&self) -> bool {
        true
    }
    fn supports_comment_on(&self) -> bool {
        true
    }
    fn supports_from_first_select(&self) -> bool {
        true
    }
    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }
    fn supports_select_wildcard_except(&self) -> bool {
        true
    }
    fn supports_select_wildcard_replace(&self) -> bool {
        true
    }
    fn supports_select_wildcard_rename(&self) -> bool {
        true
    }
    fn supports_order_by_all(&self) -> bool {
        true
    }
    fn supports_projection_trailing_commas(&self) -> bool {
        true
    }
    fn supports_column_definition_trailing_commas(&self) -> bool {
        true
    }
    fn supports_array_typedef_with_brackets(&self) -> bool {
        true
    }
    fn supports_array_typedef_without_element_type(&self) -> bool {
        false
    }
    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }
    fn supports_values_as_table_factor(&self) -> bool {
        true
    }
    fn supports_limit_comma(&self) -> bool {
        false
    }
    fn supports_notnull_operator(&self) -> bool {
        true
    }
    fn supports_try_convert(&self) -> bool {
        false
    }
    fn supports_insert_table_alias(&self) -> bool {
        true
    }
    fn supports_alter_column_type_using(&self) -> bool {
        true
    }
    fn supports_create_table_like_parenthesized(&self) -> bool {
        true
    }
    fn supports_comma_separated_trim(&self) -> bool {
        true
    }
    fn supports_interval_options(&self) -> bool {
        true
    }
    fn supports_set_names(&self) -> bool {
        true
    }
    fn supports_in_empty_list(&self) -> bool {
        true
    }
    fn supports_lambda_functions(&self) -> bool {
        true
    }
}

fn between_symmetric(
    dialect: &FirnDialect,
    parser: &mut Parser,
    expr: &Expr,
    negated: bool,
) -> Result<Expr, ParserError> {
    let precedence = dialect.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let between = |low: &Expr, high: &Expr| {
        Box::new(Expr::Between {
            expr: Box::new(expr.clone()),
            negated,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        })
    };
    Ok(Expr::Nested(Box::new(Expr::BinaryOp {
        left: between(&low, &high),
        op: match negated {
            true => BinaryOperator::And,
            false => BinaryOperator::Or,
        },
        right: between(&high, &low),
    })))
}

/// Whether `VALUES (` comes next: a query, where `ANY (` or the like stands before it.
/// PostgreSQL's `|/ 25`, `||/ 27` and `@ -5`.
fn function_of_prefix(parser: &Parser) -> Option<&'static str> {
    match parser.peek_token_ref().token {
        Token::PGSquareRoot => Some("sqrt"),
        Token::PGCubeRoot => Some("cbrt"),
        Token::AtSign => Some("abs"),
        _ => None,
    }
}

fn begins_values(parser: &Parser) -> bool {
    matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none() && word.keyword == Keyword::VALUES)
        && parser.peek_nth_token_ref(1).token == Token::LParen
}

/// Whether ISNULL comes next, as an operator.
fn is_null(parser: &Parser) -> bool {
    matches!(&parser.peek_token_ref().token, Token::Word(word) if word.quote_style.is_none() && word.value == "isnull")
}

fn is_distinct(
    parser: &mut Parser,
    expr: &Expr,
    precedence: u8,
) -> Option<Result<Expr, ParserError>> {
    use Keyword::{DISTINCT, FROM, IS, NOT};
    let equal = match parser.parse_keywords(&[IS, DISTINCT, FROM]) {
        true => false,
        false if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) => true,
        false => return None,
    };
    let left = Box::new(expr.clone());
    Some(parser.parse_subexpr(precedence).map(|right| match equal {
        true => Expr::IsNotDistinctFrom(left, Box::new(right)),
        false => Expr::IsDistinctFrom(left, Box::new(right)),
    }))
}

/// Whether IS or IS NOT comes next with a value behind it, as in SQLite, and which: nothing that the parser knows to follow IS.
fn is_same(parser: &Parser) -> Option<bool> {
    let keyword = |place: usize| match &parser.peek_nth_token_ref(place).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    if keyword(0) != Some(Keyword::IS) {
        return None;
    }
    let negated = keyword(1) == Some(Keyword::NOT);
    let place = 1 + usize::from(negated);
    let known = match keyword(place) {
        Some(keyword) => matches!(
            keyword,
            Keyword::NULL
                | Keyword::TRUE
                | Keyword::FALSE
                | Keyword::UNKNOWN
                | Keyword::DISTINCT
                | Keyword::NORMALIZED
                | Keyword::NFC
                | Keyword::NFD
                | Keyword::NFKC
                | Keyword::NFKD
                | Keyword::JSON
        ),
        None => matches!(
            parser.peek_nth_token_ref(place).token,
            Token::EOF | Token::SemiColon | Token::RParen | Token::Comma
        ),
    };
    (!known).then_some(negated)
}

/// `a IS b` and `a IS NOT b`: whether they are not distinct.
fn same(
    parser: &mut Parser,
    expr: &Expr,
    negated: bool,
    precedence: u8,
) -> Result<Expr, ParserError> {
    parser.expect_keyword_is(Keyword::IS)?;
    if negated {
        parser.expect_keyword_is(Keyword::NOT)?;
    }
    let left = Box::new(expr.clone());
    let right = Box::new(parser.parse_subexpr(precedence)?);
    Ok(match negated {
        true => Expr::IsDistinctFrom(left, right),
        false => Expr::IsNotDistinctFrom(left, right),
    })
}

/// Whether `IN` or `NOT IN` comes next, before a list or a name instead of a parenthesis, and which.
fn in_list(parser: &Parser) -> Option<bool> {
    let is = |place: usize, keyword: Keyword| matches!(&parser.peek_nth_token_ref(place).token, Token::Word(word) if word.keyword == keyword);
    let negated = is(0, Keyword::NOT);
    let place = usize::from(negated);
    let begins_list = match &parser.peek_nth_token_ref(place + 1).token {
        Token::LBracket => true,
        Token::Word(word) => matches!(word.keyword, Keyword::NoKeyword | Keyword::RANGE),
        _ => false,
    };
    (is(place, Keyword::IN) && begins_list).then_some(negated)
}

/// `x IN [a, b]`, `x IN list`: whether the list contains it.
fn contained(
    dialect: &FirnDialect,
    parser: &mut Parser,
    expr: &Expr,
    negated: bool,
) -> Result<Expr, ParserError> {
    if negated {
        parser.expect_keyword_is(Keyword::NOT)?;
    }
    parser.expect_keyword_is(Keyword::IN)?;
    let list = parser.parse_subexpr(dialect.prec_value(Precedence::Between))?;
    let contains = call("list_contains", vec![list, expr.clone()]);
    Ok(match negated {
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(contains),
        },
        false => contains,
    })
}

/// Whether `GLOB pattern` or `NOT GLOB pattern` comes next; without a pattern the word is an alias.
fn globs(parser: &Parser) -> bool {
    let negated = matches!(&parser.peek_nth_token_ref(0).token, Token::Word(word) if word.keyword == Keyword::NOT);
    let place = usize::from(negated);
    let named = matches!(&parser.peek_nth_token_ref(place).token, Token::Word(word) if word.quote_style.is_none() && word.value == "glob");
    named
        && match &parser.peek_nth_token_ref(place + 1).token {
            Token::SingleQuotedString(_) | Token::Placeholder(_) => true,
            Token::Word(word) => word.keyword == Keyword::NoKeyword,
            _ => false,
        }
}

fn glob(parser: &mut Parser, expr: &Expr, precedence: u8) -> Result<Expr, ParserError> {
    let negated = parser.parse_keyword(Keyword::NOT);
    parser.next_token();
    let pattern = parser.parse_subexpr(precedence)?;
    let matches = call("glob", vec![pattern, expr.clone()]);
    Ok(match negated {
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(matches),
        },
        false => matches,
    })
}
