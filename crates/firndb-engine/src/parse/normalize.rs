//! The AST as the planner should see it.
//!
//! One walk over a fresh statement: parameters become `$1` …, expressions without a name get their text as name (so results
//! and views name them alike), equal names of one select list are told apart by a suffix that results take off again,
//! `^` is power, FETCH is LIMIT, named arguments of table functions become pairs, and what the planner would ignore
//! without a word is refused.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FromTable, Ident, LimitClause, ObjectName, ObjectNamePart, OutputClause,
    Query, Select, SelectFlavor, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor,
    Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::aggregates::double;
use super::names::Names;
use super::pieces::{call, pair_arguments};
use super::source::Source;
use super::{
    Command, MAX_DEPTH, MAX_JOINS, MAX_LAMBDAS, MAX_LITERALS, MAX_OPERATORS, MAX_QUERIES,
    MAX_RANGES, MAX_SUBQUERIES, MAX_TERMS, ParameterNames, Parsed, too_deep,
};
use super::{
    arrays, calls, chains::balanced, clauses, collations, exclusion, grouping, lambdas, laterals,
    methods, outer, patterns, relations, rows, sampling, ties, values, variables, windows,
};
use crate::error::{Error, Result, SqlState};

/// Words that the parser takes for columns where an operand is missing.
const RESERVED: [&str; 9] = [
    "from",
    "where",
    "group",
    "having",
    "order",
    "union",
    "except",
    "intersect",
    "select",
];
/// Functions in FROM of one column, which takes the name of their alias, as in PostgreSQL.
const SERIES: [&str; 2] = ["range", "generate_series"];
/// Levels from which a statement gets a larger stack.
const DEEP: usize = 64;
/// Grouping sets of one SELECT. Each is an aggregation of its own.
const MAX_GROUPING_SETS: usize = 65_535;

/// Normalizes one statement.
pub(super) fn normalize(
    mut command: Command,
    source: &Arc<Source>,
    parameters: &mut ParameterNames,
) -> Result<Parsed> {
    let mut inner = ParameterNames::default();
    let prepares = matches!(&command, Command::Sql(statement) if matches!(**statement, Statement::Prepare { .. }));
    let mut normalizer = Normalizer {
        source,
        parameters: if prepares { &mut inner } else { parameters },
        names: Names::new(source),
        relations: HashMap::new(),
        depth: 0,
        operators: 0,
        deepest: 0,
        queries: 0,
        deepest_query: 0,
        subqueries: 0,
        lambdas: 0,
        literals: 0,
        ranges: 0,
        fed: None,
        inputs: 0,
        variables: false,
        stays: false,
    };
    let flow = match &mut command {
        Command::Sql(statement) => statement.visit(&mut normalizer),
        Command::Summarize(query) => query.visit(&mut normalizer),
        Command::SetVariable(_, query) => query.visit(&mut normalizer),
        Command::Nothing(_)
        | Command::ResetVariable(_)
        | Command::AlterSequence(_)
        | Command::RenameView(_)
        | Command::SetConstraints(..) => ControlFlow::Continue(()),
    };
    if let ControlFlow::Break(error) = flow {
        return Err(*error);
    }
    let deep =
        normalizer.deepest > DEEP || normalizer.deepest_query > 8 || normalizer.inputs > DEEP;
    let variables = normalizer.variables;
    let (aliases, relations) = (normalizer.names.written, normalizer.relations);
    Ok(Parsed {
        deep,
        variables,
        command,
        aliases: Arc::new(aliases),
        relations: Arc::new(relations),
        inner: prepares.then_some(inner),
    })
}

struct Normalizer<'a> {
    source: &'a Source,
    parameters: &'a mut ParameterNames,
    names: Names<'a>,
    relations: HashMap<String, String>,
    depth: usize,
    operators: usize,
    deepest: usize,
    queries: usize,
    /// Whether variables of the session are read.
    variables: bool,
    deepest_query: usize,
    /// Whether the statement's query stays as the body of a view or macro, whose columns others compare.
    stays: bool,
    /// Subqueries in expressions around the one at hand.
    subqueries: usize,
    /// Functions with lambdas around the one at hand.
    lambdas: usize,
    /// Lists, structs and maps around the expression at hand.
    literals: usize,
    /// BETWEENs around the expression at hand.
    ranges: usize,
    /// The rows of an INSERT: what each is to be, the table says.
    fed: Option<*const Query>,
    /// Selects and joins: set operations and joins may lie within one another.
    inputs: usize,
}

type Flow = ControlFlow<Box<Error>>;

fn refuse(what: &str) -> Flow {
    ControlFlow::Break(Box::new(Error::unsupported(format!(
        "{what} is not supported"
    ))))
}

impl Normalizer<'_> {
    fn parameter(&mut self, name: &str) -> std::result::Result<String, Error> {
        let bare = name.trim_start_matches(['$', ':', '@']);
        if let Ok(number) = bare.parse::<usize>() {
            if number == 0 || number > 65_535 {
                return Err(Error::new(
                    SqlState::UndefinedParameter,
                    format!("there is no parameter {name}"),
                ));
            }
            self.parameters.positional = self.parameters.positional.max(number);
            return Ok(format!("${number}"));
        }
        let named = &mut self.parameters.named;
        let place = named
            .iter()
            .position(|other| other == bare)
            .unwrap_or_else(|| {
                named.push(bare.to_owned());
                named.len() - 1
            });
        Ok(format!("${}", place + 1))
    }
}

/// Refuses a subquery that writes: only WITH takes one.
fn reads(subquery: &Query) -> Flow {
    let verb = match subquery.body.as_ref() {
        SetExpr::Insert(_) => "an INSERT",
        SetExpr::Update(_) => "an UPDATE",
        SetExpr::Delete(_) => "a DELETE",
        SetExpr::Merge(_) => "a MERGE",
        _ => return ControlFlow::Continue(()),
    };
    let error = Error::unsupported(format!("{verb} is no subquery"))
        .with_hint("Write WITH rows AS (… RETURNING …) SELECT … FROM rows.");
    ControlFlow::Break(Box::new(error))
}

/// Whether an expression holds a query.
fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. }
    )
}

impl VisitorMut for Normalizer<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        self.queries += 1;
        self.deepest_query = self.deepest_query.max(self.queries);
        if self.queries > MAX_QUERIES {
            let error = too_deep(MAX_QUERIES, "levels of queries");
            return ControlFlow::Break(Box::new(error));
        }
        if let SetExpr::Table(table) = query.body.as_ref() {
            let mut select = match super::parse_query("SELECT * FROM x") {
                Ok(select) => select,
                Err(error) => return ControlFlow::Break(Box::new(error)),
            };
            if let SetExpr::Select(inner) = select.body.as_mut()
                && let Some(from) = inner.from.first_mut()
                && let TableFactor::Table { name, .. } = &mut from.relation
            {
                let parts = table.schema_name.iter().chain(&table.table_name);
                *name = ObjectName::from(
                    parts
                        .map(|part| Ident::with_quote('"', part.as_str()))
                        .collect::<Vec<_>>(),
                );
            }
            query.body = select.body;
        }
        if let Err(error) = clauses::order_by_names(query) {
            return ControlFlow::Break(Box::new(error));
        }
        if let Err(error) = windows::in_order(query) {
            return ControlFlow::Break(Box::new(error));
        }
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                self.names.remember_alias(&mut table.alias);
                if with.recursive
                    && let Err(error) = clauses::bound_recursion(table)
                {
                    return ControlFlow::Break(Box::new(error));
                }
            }
        }
        if let Some(fetch) = query.fetch.take() {
            if fetch.percent {
                return refuse("FETCH with PERCENT");
            }
            let quantity = fetch
                .quantity
                .unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false)));
            match &mut query.limit_clause {
                _ if fetch.with_ties => {
                    if let Err(error) = ties::keep(query, quantity) {
                        return ControlFlow::Break(Box::new(error));
                    }
                }
                None => {
                    query.limit_clause = Some(LimitClause::LimitOffset {
                        limit: Some(quantity),
                        offset: None,
                        limit_by: Vec::new(),
                    });
                }
                Some(LimitClause::LimitOffset { limit, .. }) if limit.is_none() => {
                    *limit = Some(quantity);
                }
                Some(_) => {
                    return ControlFlow::Break(Box::new(Error::new(
                        SqlState::SyntaxError,
                        "multiple LIMIT clauses not allowed",
                    )));
                }
            }
        }
        if !query.locks.is_empty() {
            return refuse("SELECT FOR UPDATE or SHARE");
        }
        if query.for_clause.is_some() {
            return refuse("the FOR clause");
        }
        if query.settings.is_some() || query.format_clause.is_some() {
            return refuse("the SETTINGS or FORMAT clause");
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Flow {
        collations::in_order(query);
        if self.fed != Some(std::ptr::from_ref(query)) {
            values::typed(query);
        }
        self.queries -= 1;
        if self.queries == 0 && !self.stays {
            collations::in_result(query);
        }
        if let Some(order) = &mut query.order_by
            && let Err(error) = exclusion::rename(order)
        {
            return ControlFlow::Break(Box::new(error));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> Flow {
        collations::in_groups(select);
        let renamed = exclusion::rename(&mut select.projection)
            .and_then(|()| exclusion::rename(&mut select.qualify));
        match renamed {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        if select.prewhere.is_some() || !select.connect_by.is_empty() {
            return refuse("PREWHERE or CONNECT BY");
        }
        if select.value_table_mode.is_some() {
            return refuse("SELECT AS STRUCT or VALUE");
        }
        if select.select_modifiers.is_some() {
            return refuse("a modifier of SELECT");
        }
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        self.inputs += 1 + joins.sum::<usize>();
        if select.from.len() > MAX_JOINS {
            let error = too_deep(MAX_JOINS, "tables in one FROM");
            return ControlFlow::Break(Box::new(error));
        }
        if grouping::count(select) > MAX_GROUPING_SETS {
            return ControlFlow::Break(Box::new(Error::new(
                SqlState::StatementTooComplex,
                format!("too many grouping sets present (maximum {MAX_GROUPING_SETS})"),
            )));
        }
        if let Some(condition) = &mut select.selection {
            let terms = balanced(condition);
            if terms > MAX_TERMS {
                let error = too_deep(MAX_TERMS, "terms of OR");
                return ControlFlow::Break(Box::new(error));
            }
            // What the optimizer makes of it is a chain again.
            self.deepest = self.deepest.max(terms);
        }
        select.flavor = SelectFlavor::Standard;
        for condition in select.selection.iter_mut() {
            if let Err(error) = rows::rewrite_conjuncts(condition) {
                return ControlFlow::Break(Box::new(error));
            }
        }
        if let Err(error) = sampling::of_tables(&mut select.from) {
            return ControlFlow::Break(Box::new(error));
        }
        if let Err(error) = relations::joins(&mut select.from) {
            return ControlFlow::Break(Box::new(error));
        }
        clauses::one_group(select);
        clauses::constant_keys(select);
        if let Err(error) = grouping::rewrite(select) {
            return ControlFlow::Break(Box::new(error));
        }
        self.names.name_items(&mut select.projection);
        if let Err(error) = laterals::rewrite(select) {
            return ControlFlow::Break(Box::new(error));
        }
        if let Err(error) = windows::in_select(select) {
            return ControlFlow::Break(Box::new(error));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> Flow {
        if let Statement::Delete(delete) = statement
            && matches!(delete.from, FromTable::WithoutKeyword(_))
        {
            let error = Error::new(SqlState::SyntaxError, "syntax error: DELETE needs FROM");
            return ControlFlow::Break(Box::new(error));
        }
        if let Statement::Insert(insert) = statement {
            self.fed = insert.source.as_deref().map(std::ptr::from_ref);
        }
        self.stays = matches!(
            statement,
            Statement::CreateView(_) | Statement::CreateMacro { .. }
        );
        if let Statement::CreateIndex(index) = statement {
            collations::in_index(&mut index.columns);
        }
        let returning = match statement {
            Statement::Insert(insert) => insert.returning.as_mut(),
            Statement::Update(update) => update.returning.as_mut(),
            Statement::Delete(delete) => delete.returning.as_mut(),
            Statement::Merge(merge) => match &mut merge.output {
                Some(OutputClause::Returning { select_items, .. }) => Some(select_items),
                _ => None,
            },
            _ => None,
        };
        if let Some(items) = returning {
            self.names.name_items(items);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        if let Err(error) = sampling::of_factor(factor) {
            return ControlFlow::Break(Box::new(error));
        }
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                version,
                with_ordinality,
                with_hints,
                partitions,
                json_path,
                index_hints,
                ..
            } => {
                if version.is_some() {
                    return refuse("a table's earlier version");
                }
                if *with_ordinality {
                    return refuse("WITH ORDINALITY");
                }
                if !with_hints.is_empty()
                    || !partitions.is_empty()
                    || json_path.is_some()
                    || !index_hints.is_empty()
                {
                    return refuse("a hint on a table");
                }
                if let Some(alias) = alias {
                    self.names.remember_alias(alias);
                }
                if let Some(args) = args {
                    if let Some(alias) = alias
                        && SERIES.contains(&name.to_string().as_str())
                    {
                        name_column(alias);
                    }
                    if name.0.len() != 1 {
                        return refuse("a table function in a schema");
                    }
                    pair_arguments(&mut args.args);
                }
            }
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => {
                if let Err(error) = relations::joins([table_with_joins.as_mut()]) {
                    return ControlFlow::Break(Box::new(error));
                }
            }
            TableFactor::Function {
                args,
                alias,
                with_ordinality,
                ..
            } => {
                if *with_ordinality {
                    return refuse("WITH ORDINALITY");
                }
                if let Some(alias) = alias {
                    self.names.remember_alias(alias);
                }
                pair_arguments(args);
            }
            TableFactor::Derived {
                subquery, alias, ..
            } => {
                if let Some(alias) = alias {
                    self.names.remember_alias(alias);
                }
                return reads(subquery);
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset,
                with_ordinality,
                ..
            } => {
                if *with_offset || *with_ordinality {
                    return refuse("UNNEST with an offset");
                }
                let alias = alias.get_or_insert_with(|| TableAlias {
                    explicit: true,
                    name: Ident::new("unnest"),
                    columns: Vec::new(),
                    at: None,
                });
                if array_exprs.len() == 1 {
                    name_column(alias);
                }
                let alias = Some(alias);
                if let Some(alias) = alias {
                    self.names.remember_alias(alias);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> Flow {
        if let Some(ident) = relation.0.last().and_then(ObjectNamePart::as_ident) {
            let written = self.source.written(ident);
            if written != ident.value {
                self.relations.entry(ident.value.clone()).or_insert(written);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        methods::rewrite(expr);
        arrays::ask_rows(expr);
        if let Expr::Subquery(subquery)
        | Expr::Exists { subquery, .. }
        | Expr::InSubquery { subquery, .. } = expr
        {
            reads(subquery)?;
        }
        self.subqueries += usize::from(is_subquery(expr));
        self.lambdas += usize::from(lambdas::is_taken(expr));
        self.ranges += usize::from(matches!(expr, Expr::Between { .. }));
        self.literals += usize::from(is_nested_literal(expr));
        for (found, most, what) in [
            (
                self.subqueries,
                MAX_SUBQUERIES,
                "levels of subqueries in expressions",
            ),
            (
                self.lambdas,
                MAX_LAMBDAS,
                "levels of functions with lambdas",
            ),
            (self.ranges, MAX_RANGES, "levels of BETWEEN"),
            (
                self.literals,
                MAX_LITERALS,
                "levels of lists, structs and maps",
            ),
        ] {
            if found > most {
                return ControlFlow::Break(Box::new(too_deep(most, what)));
            }
        }
        if let Expr::Identifier(name) = expr
            && name.quote_style.is_none()
            && RESERVED.contains(&name.value.as_str())
        {
            let written = self.source.written(name);
            let error = Error::new(
                SqlState::SyntaxError,
                format!("syntax error at or near \"{written}\""),
            );
            let position = self.source.position(name.span.start);
            return ControlFlow::Break(Box::new(error.at(position)));
        }
        self.depth += 1;
        self.operators += usize::from(is_operator(expr));
        self.deepest = self.deepest.max(self.depth);
        for (found, most, what) in [
            (self.depth, MAX_DEPTH, "levels of expressions"),
            (
                self.operators,
                MAX_OPERATORS,
                "levels of operators and functions",
            ),
        ] {
            if found > most {
                return ControlFlow::Break(Box::new(too_deep(most, what)));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        self.depth -= 1;
        self.operators -= usize::from(is_operator(expr));
        self.literals -= usize::from(is_nested_literal(expr));
        self.lambdas = self
            .lambdas
            .saturating_sub(usize::from(lambdas::is_taken(expr)));
        self.ranges -= usize::from(matches!(expr, Expr::Between { .. }));
        self.subqueries = self
            .subqueries
            .saturating_sub(usize::from(is_subquery(expr)));
        if let Expr::InSubquery { subquery, .. } = expr
            && let Err(error) = values::selected(subquery)
        {
            return ControlFlow::Break(Box::new(error));
        }
        self.variables |= variables::read(expr).is_some();
        outer::rewrite(expr);
        collations::rewrite(expr);
        let rewritten = rows::rewrite(expr)
            .and_then(|()| patterns::rewrite(expr))
            .and_then(|()| calls::rewrite(expr));
        if let Err(error) = rewritten {
            return ControlFlow::Break(Box::new(error));
        }
        let function = match expr {
            Expr::BinaryOp { op, .. } => match op {
                BinaryOperator::BitwiseXor => Some("power"),
                BinaryOperator::PGBitwiseShiftLeft => Some("shift_left"),
                BinaryOperator::PGBitwiseShiftRight => Some("shift_right"),
                _ => None,
            },
            _ => None,
        };
        if let Some(function) = function {
            let taken = std::mem::replace(expr, Expr::value(Value::Null));
            if let Expr::BinaryOp { left, right, .. } = taken {
                let operands = [*left, *right];
                *expr = call(function, operands.map(|one| numeric(function, one)).into());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> Flow {
        // Its escapes were read already.
        if let Value::UnicodeStringLiteral(text) = &mut value.value {
            value.value = Value::SingleQuotedString(std::mem::take(text));
        }
        if let Value::Placeholder(name) = &mut value.value {
            match self.parameter(name) {
                Ok(numbered) => *name = numbered,
                Err(error) => {
                    return ControlFlow::Break(Box::new(
                        error.at(self.source.position(value.span.start)),
                    ));
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// An operand of a power, where a string constant is the number that it says.
fn numeric(function: &str, operand: Expr) -> Expr {
    let text = matches!(&operand, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)));
    match function {
        "power" if text => double(&operand),
        _ => operand,
    }
}

/// Names the only column of a function after its alias, where that names none.
fn name_column(alias: &mut TableAlias) {
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        });
    }
}

/// Whether an expression writes a list, a struct or a map.
fn is_nested_literal(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Array(_) | Expr::Struct { .. } | Expr::Dictionary(_) | Expr::Map(_)
    )
}

/// Whether an expression is an operator or a function, which planning must type.
fn is_operator(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryOp { op, .. } => !matches!(op, BinaryOperator::And | BinaryOperator::Or),
        Expr::UnaryOp { .. }
        | Expr::Function(_)
        | Expr::Cast { .. }
        | Expr::Case { .. }
        | Expr::Interval(_) => true,
        _ => false,
    }
}
