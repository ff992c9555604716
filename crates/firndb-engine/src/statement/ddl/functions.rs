//! `CREATE FUNCTION … LANGUAGE SQL`: a function of one query or expression, kept as a macro.
//!
//! ```text
//! f(a INTEGER, b INTEGER DEFAULT 3) RETURNS INTEGER … 'SELECT a + b'
//!     ─▶  CREATE MACRO f(a, b := 3) AS CAST(CAST(a AS INTEGER) + CAST(b AS INTEGER) AS INTEGER)
//! f(k INTEGER) RETURNS TEXT … 'SELECT name FROM t WHERE id = k'
//!     ─▶  (SELECT (SELECT name FROM t WHERE id = args.k LIMIT 1) FROM (SELECT CAST(k AS INTEGER) AS k) AS args)
//! ```
//!
//! The second form lets no table of the body capture a column of the caller's. A column of a table that the body reads goes before a
//! parameter of the same name, as in PostgreSQL; `$1` is the parameter in any case. STRICT functions are NULL where an argument is.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    ArgMode, BinaryOperator, CaseWhen, CastKind, CreateFunction, CreateFunctionBody, DataType,
    Expr, FunctionCalledOnNull, FunctionReturnType, Ident, LimitClause, MacroArg, MacroDefinition,
    OperateFunctionArg, Query, SelectItem, SetExpr, Statement, TableFactor, Value, VisitMut,
    VisitorMut,
};

use super::{depend, macros};
use crate::catalog::{Relation, fold};
use crate::error::{Error, Result, SqlState};
use crate::parse::{self, Command};
use crate::session::Outcome;
use crate::statement::Work;

/// The relation of a call's arguments.
const ARGUMENTS: &str = "__firndb_args";

/// CREATE [OR REPLACE] FUNCTION.
pub(super) fn create_function(work: &mut Work<'_>, create: &CreateFunction) -> Result<Outcome> {
    let body = body(create)?;
    let parameters = parameters(work, create.args.as_deref().unwrap_or_default(), &body)?;
    let mut body = body;
    qualified(&mut body, create, &parameters);
    let definition = match returned(create)? {
        Returned::Value(data_type) => {
            let value = value(body, &parameters, &data_type)?;
            let strict = matches!(
                create.called_on_null,
                Some(FunctionCalledOnNull::Strict | FunctionCalledOnNull::ReturnsNullOnNullInput)
            );
            MacroDefinition::Expr(match strict && !parameters.is_empty() {
                true => strictly(value, &parameters),
                false => value,
            })
        }
        Returned::Rows(columns) => {
            MacroDefinition::Table(Box::new(rows(body, &parameters, columns)?))
        }
    };
    let args = parameters.into_iter().map(|parameter| MacroArg {
        name: parameter.name,
        default_expr: parameter.default,
    });
    let statement = Statement::CreateMacro {
        or_replace: create.or_replace,
        temporary: create.temporary,
        name: create.name.clone(),
        args: Some(args.collect()),
        definition,
    };
    macros::create_macro(work, &statement)?;
    Ok(Outcome::done("CREATE FUNCTION"))
}

/// A parameter: the name that the body knows it by, the one behind the function's, its type and default.
struct Parameter {
    name: Ident,
    written: Option<String>,
    data_type: DataType,
    default: Option<Expr>,
}

/// What a function yields: a value of a type, or rows of columns.
enum Returned {
    Value(DataType),
    Rows(Vec<(Ident, DataType)>),
}

fn refused(what: &str) -> Error {
    Error::unsupported(format!("{what} is not supported in CREATE FUNCTION"))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::InvalidFunctionDefinition, message)
}

/// The query that a function is.
fn body(create: &CreateFunction) -> Result<Query> {
    if let Some(language) = &create.language
        && !language.value.eq_ignore_ascii_case("sql")
    {
        return Err(
            Error::unsupported("functions in other languages are not supported")
                .with_hint("LANGUAGE SQL and CREATE MACRO make functions of expressions."),
        );
    }
    if !create.set_params.is_empty() {
        return Err(refused("SET"));
    }
    let text = match &create.function_body {
        Some(CreateFunctionBody::Return(expr)) => {
            let mut query = parse::parse_query("SELECT 1")?;
            if let SetExpr::Select(select) = query.body.as_mut() {
                select.projection = vec![SelectItem::UnnamedExpr(expr.clone())];
            }
            return Ok(query);
        }
        Some(
            CreateFunctionBody::AsBeforeOptions {
                body: Expr::Value(value),
                link_symbol: None,
            }
            | CreateFunctionBody::AsAfterOptions(Expr::Value(value)),
        ) => match &value.value {
            Value::SingleQuotedString(text) => text,
            Value::DollarQuotedString(text) => &text.value,
            _ => return Err(refused("this form of a body")),
        },
        Some(_) => return Err(refused("this form of a body")),
        None => return Err(invalid("no function body specified")),
    };
    if create.language.is_none() {
        return Err(invalid("no language specified").with_hint("Add LANGUAGE SQL."));
    }
    let parsed = parse::parse(text, &|_| false)?;
    let known = create.args.as_ref().map_or(0, Vec::len);
    if !parsed.parameters.named.is_empty() || parsed.parameters.positional > known {
        return Err(Error::new(
            SqlState::UndefinedParameter,
            format!(
                "there is no parameter ${}",
                parsed.parameters.positional.max(known + 1)
            ),
        ));
    }
    match parsed.statements.as_slice() {
        [only] => match &only.command {
            Command::Sql(statement) => match statement.as_ref() {
                Statement::Query(query) => Ok(query.as_ref().clone()),
                _ => Err(refused("a body that is no query")),
            },
            _ => Err(refused("a body that is no query")),
        },
        [] => Err(invalid("the function has an empty body")),
        _ => Err(refused("a body of several statements")),
    }
}

fn parameters(
    work: &Work<'_>,
    given: &[OperateFunctionArg],
    body: &Query,
) -> Result<Vec<Parameter>> {
    let columns = columns_read(work, body);
    given
        .iter()
        .enumerate()
        .map(|(place, arg)| {
            let arg_name = arg.name.as_ref().map(name_of);
            if !matches!(arg.mode, None | Some(ArgMode::In)) {
                return Err(refused("an OUT parameter"));
            }
            let name = match &arg_name {
                Some(name) if !columns.contains(&name.value) => name.clone(),
                _ => Ident::new(format!("__firndb_parameter_{}", place + 1)),
            };
            Ok(Parameter {
                name,
                written: arg_name.map(|name| name.value),
                data_type: arg.data_type.clone(),
                default: arg.default_expr.clone(),
            })
        })
        .collect()
}

/// A parameter's name, folded: the parser gives it with its quotes.
fn name_of(name: &Ident) -> Ident {
    match name
        .value
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
    {
        Some(quoted) => Ident::with_quote('"', fold(&quoted.replace("\"\"", "\""))),
        None => Ident {
            value: fold(&name.value),
            ..name.clone()
        },
    }
}

/// Writes parameters behind the function's name, `f.a`, as `$1`.
fn qualified(body: &mut Query, create: &CreateFunction, parameters: &[Parameter]) {
    let name = create.name.0.last().and_then(|part| part.as_ident());
    if let Some(name) = name {
        let function = fold(&name.value);
        let ControlFlow::Continue(()) = body.visit(&mut Qualified {
            function,
            parameters,
        });
    }
}

struct Qualified<'a> {
    function: String,
    parameters: &'a [Parameter],
}

impl VisitorMut for Qualified<'_> {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [function, name] = parts.as_slice()
            && fold(&function.value) == self.function
        {
            let name = fold(&name.value);
            let named = |parameter: &Parameter| parameter.written.as_ref() == Some(&name);
            if let Some(place) = self.parameters.iter().position(named) {
                *expr = Expr::value(Value::Placeholder(format!("${}", place + 1)));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names of the columns of the relations that a body names.
fn columns_read(work: &Work<'_>, body: &Query) -> HashSet<String> {
    let scope = &work.context.scope;
    depend::names(body)
        .into_iter()
        .filter_map(|(schema, name)| scope.relation(schema.as_deref(), &name))
        .flat_map(|relation| -> Vec<String> {
            match relation {
                Relation::Table(table) => table
                    .columns
                    .iter()
                    .map(|column| fold(column.field.name()))
                    .collect(),
                Relation::View(view) => view.columns.iter().map(|name| fold(name)).collect(),
            }
        })
        .collect()
}

fn returned(create: &CreateFunction) -> Result<Returned> {
    match &create.return_type {
        Some(FunctionReturnType::DataType(DataType::Table(Some(columns)))) => Ok(Returned::Rows(
            columns
                .iter()
                .map(|column| (column.name.clone(), column.data_type.clone()))
                .collect(),
        )),
        Some(FunctionReturnType::SetOf(data_type)) => {
            let name = create
                .name
                .0
                .last()
                .and_then(|part| part.as_ident())
                .cloned();
            let name = name.unwrap_or_else(|| Ident::new("value"));
            Ok(Returned::Rows(vec![(name, data_type.clone())]))
        }
        Some(FunctionReturnType::DataType(data_type)) => Ok(Returned::Value(data_type.clone())),
        None => Err(invalid("function result type must be specified")),
    }
}

/// The expression of a call.
fn value(mut body: Query, parameters: &[Parameter], data_type: &DataType) -> Result<Expr> {
    let expression = alone(&body).cloned();
    if let Some(mut expression) = expression {
        put(&mut expression, parameters, None);
        return Ok(cast(expression, data_type.clone()));
    }
    if body.limit_clause.is_none() {
        body.limit_clause = Some(LimitClause::LimitOffset {
            limit: Some(Expr::value(Value::Number("1".to_owned(), false))),
            offset: None,
            limit_by: Vec::new(),
        });
    }
    if parameters.is_empty() {
        return Ok(cast(Expr::Subquery(Box::new(body)), data_type.clone()));
    }
    put(&mut body, parameters, Some(ARGUMENTS));
    let mut outer = parse::parse_query(&format!("SELECT 1 FROM (SELECT 1) AS {ARGUMENTS}"))?;
    if let SetExpr::Select(select) = outer.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(Expr::Subquery(Box::new(body)))];
        if let Some(from) = select.from.first_mut()
            && let TableFactor::Derived { subquery, .. } = &mut from.relation
            && let SetExpr::Select(arguments) = subquery.body.as_mut()
        {
            let item = |parameter: &Parameter| SelectItem::ExprWithAlias {
                expr: parameter.typed(),
                alias: parameter.column(),
            };
            arguments.projection = parameters.iter().map(item).collect();
        }
    }
    Ok(cast(Expr::Subquery(Box::new(outer)), data_type.clone()))
}

/// The rows of a call, of the types that are promised.
fn rows(
    mut body: Query,
    parameters: &[Parameter],
    columns: Vec<(Ident, DataType)>,
) -> Result<Query> {
    put(&mut body, parameters, None);
    let name = |column: &Ident| Ident::with_quote('"', column.value.as_str());
    let list: Vec<String> = columns
        .iter()
        .map(|(column, _)| name(column).to_string())
        .collect();
    let mut query = parse::parse_query(&format!(
        "SELECT 1 FROM (SELECT 1) AS __firndb_rows ({})",
        list.join(", ")
    ))?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = columns
            .iter()
            .map(|(column, data_type)| SelectItem::ExprWithAlias {
                expr: cast(Expr::Identifier(name(column)), data_type.clone()),
                alias: name(column),
            })
            .collect();
        if let Some(from) = select.from.first_mut()
            && let TableFactor::Derived { subquery, .. } = &mut from.relation
        {
            **subquery = body;
        }
    }
    Ok(query)
}

/// NULL where an argument is.
fn strictly(value: Expr, parameters: &[Parameter]) -> Expr {
    let known = parameters
        .iter()
        .map(|parameter| Expr::IsNotNull(Box::new(Expr::Identifier(parameter.name.clone()))))
        .reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
    match known {
        Some(condition) => Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen {
                condition,
                result: value,
            }],
            else_result: None,
        },
        None => value,
    }
}

fn cast(value: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type,
        array: false,
        format: None,
    }
}

/// The expression that a query without relations is.
fn alone(query: &Query) -> Option<&Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && select.from.is_empty()
        && select.selection.is_none()
        && select.having.is_none()
        && select.distinct.is_none()
        && select.qualify.is_none();
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if plain => {
            Some(expr)
        }
        _ => None,
    }
}

impl Parameter {
    fn column(&self) -> Ident {
        Ident::with_quote('"', self.name.value.as_str())
    }

    /// The argument, as a value of the parameter's type.
    fn typed(&self) -> Expr {
        cast(Expr::Identifier(self.name.clone()), self.data_type.clone())
    }
}

/// Writes parameters, by their names and as `$1`, as values of their types, or as columns of a relation.
fn put<T: VisitMut>(body: &mut T, parameters: &[Parameter], relation: Option<&str>) {
    let ControlFlow::Continue(()) = body.visit(&mut Parameters {
        parameters,
        relation,
    });
}

struct Parameters<'a> {
    parameters: &'a [Parameter],
    relation: Option<&'a str>,
}

impl VisitorMut for Parameters<'_> {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let parameter = match expr {
            Expr::Identifier(name) => self
                .parameters
                .iter()
                .find(|parameter| parameter.name.value == name.value),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => {
                    let place = name.trim_start_matches('$').parse::<usize>().ok();
                    place.and_then(|place| self.parameters.get(place.checked_sub(1)?))
                }
                _ => None,
            },
            _ => None,
        };
        if let Some(parameter) = parameter {
            *expr = match self.relation {
                Some(relation) => {
                    Expr::CompoundIdentifier(vec![Ident::new(relation), parameter.column()])
                }
                None => parameter.typed(),
            };
        }
        ControlFlow::Continue(())
    }
}
