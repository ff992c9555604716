//! Calls of macros: the body takes the call's place, arguments take the parameters' places.
//!
//! ```text
//! CREATE MACRO f(a, b := 5) AS a + b        SELECT f(x + 1)      ─▶  SELECT ((x + 1) + 5)
//! CREATE MACRO t(n) AS TABLE SELECT …       SELECT * FROM t(3)   ─▶  SELECT * FROM (SELECT …) AS t
//! ```
//!
//! A macro is written out whenever a query that calls it is planned, in bodies of other macros too.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MacroArg,
    ObjectName, Query, SelectItem, SetExpr, Subscript, TableAlias, TableFactor, Value, VisitMut,
    VisitorMut,
};

use crate::catalog::{CatalogState, MacroBody, MacroEntry};
use crate::error::{Error, Result, SqlState};
use crate::parse;

/// Macros within macros.
const MAX_DEPTH: usize = 50;

/// Writes out the macros of a catalog in a query or an expression.
pub(super) fn expand<T: VisitMut>(
    syntax: &mut T,
    catalog: &CatalogState,
    path: &[String],
) -> Result<()> {
    if !catalog.has_macros() {
        return Ok(());
    }
    let mut calls = Calls {
        catalog,
        path,
        depth: 0,
    };
    match syntax.visit(&mut calls) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Calls<'a> {
    catalog: &'a CatalogState,
    path: &'a [String],
    depth: usize,
}

impl Calls<'_> {
    fn find(&self, name: &ObjectName) -> Option<Arc<MacroEntry>> {
        let part = |place: usize| {
            name.0
                .get(place)?
                .as_ident()
                .map(|name| name.value.as_str())
        };
        match name.0.len() {
            1 => self.catalog.macro_named(self.path, part(0)?),
            2 => self
                .catalog
                .schema(part(0)?)?
                .macro_named(part(1)?)
                .cloned(),
            _ => None,
        }
    }

    /// Writes out the macros that a body calls.
    fn within<T: VisitMut>(&mut self, body: &mut T) -> ControlFlow<Box<Error>> {
        if self.depth >= MAX_DEPTH {
            return ControlFlow::Break(Box::new(Error::new(
                SqlState::StatementTooComplex,
                "macros are nested too deeply",
            )));
        }
        self.depth += 1;
        body.visit(self)?;
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn of_function(&mut self, function: &Function) -> ControlFlow<Box<Error>, Option<Expr>> {
        let Some(entry) = self.find(&function.name) else {
            return ControlFlow::Continue(None);
        };
        let body = match &entry.body {
            MacroBody::Expression(body) => body.clone(),
            MacroBody::Query(body) => match elements(body) {
                Some(elements) => Box::new(elements),
                None => {
                    return ControlFlow::Break(Box::new(
                        Error::new(
                            SqlState::WrongObjectType,
                            format!("{} yields rows of several columns", entry.name),
                        )
                        .with_hint("Call it in FROM."),
                    ));
                }
            },
        };
        let arguments = match &function.args {
            FunctionArguments::None => return ControlFlow::Continue(None),
            FunctionArguments::List(list)
                if list.clauses.is_empty() && list.duplicate_treatment.is_none() =>
            {
                assigned(&entry, &list.args)
            }
            _ => Err(unfit(&entry)),
        };
        let plain = function.over.is_none()
            && function.filter.is_none()
            && function.within_group.is_empty();
        let arguments = match arguments {
            Ok(arguments) if plain => arguments,
            Ok(_) => return ControlFlow::Break(Box::new(unfit(&entry))),
            Err(error) => return ControlFlow::Break(Box::new(error)),
        };
        let mut body = body;
        self.within(body.as_mut())?;
        put(body.as_mut(), &entry.parameters, &arguments)?;
        ControlFlow::Continue(Some(match &entry.body {
            MacroBody::Expression(_) => Expr::Nested(body),
            MacroBody::Query(_) => *body,
        }))
    }

    fn of_table(
        &mut self,
        name: &ObjectName,
        given: &[FunctionArg],
        alias: Option<TableAlias>,
        lateral: bool,
    ) -> ControlFlow<Box<Error>, Option<TableFactor>> {
        let Some(entry) = self.find(name) else {
            return ControlFlow::Continue(None);
        };
        let MacroBody::Query(body) = &entry.body else {
            return ControlFlow::Continue(None);
        };
        let arguments = match assigned(&entry, given) {
            Ok(arguments) => arguments,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        };
        let mut body = body.clone();
        self.within(body.as_mut())?;
        put(body.as_mut(), &entry.parameters, &arguments)?;
        let alias = alias.unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', crate::catalog::fold(&entry.name)),
            columns: Vec::new(),
            at: None,
        });
        ControlFlow::Continue(Some(TableFactor::Derived {
            lateral,
            subquery: body,
            alias: Some(alias),
            sample: None,
        }))
    }
}

/// The rows of a query of one column as values of a select list: `unnest(ARRAY(query))`.
fn elements(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }] => {}
        _ => return None,
    }
    let list = parse::list_of_query(query).ok()?;
    Some(parse::call("unnest", vec![list]))
}

fn unfit(entry: &MacroEntry) -> Error {
    let names: Vec<&str> = entry
        .parameters
        .iter()
        .map(|parameter| parameter.name.value.as_str())
        .collect();
    Error::new(
        SqlState::UndefinedFunction,
        format!("macro {} does not fit this call", entry.name),
    )
    .with_hint(format!("It is {}({}).", entry.name, names.join(", ")))
}

/// The value of each parameter.
fn assigned(entry: &MacroEntry, given: &[FunctionArg]) -> Result<Vec<Expr>> {
    let mut values: Vec<Option<Expr>> = vec![None; entry.parameters.len()];
    let mut next = 0;
    for argument in given {
        let (place, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => {
                next += 1;
                (Some(next - 1), value)
            }
            FunctionArg::Named {
                name,
                arg: FunctionArgExpr::Expr(value),
                ..
            } => {
                let named = |parameter: &MacroArg| parameter.name.value == name.value;
                (entry.parameters.iter().position(named), value)
            }
            _ => return Err(unfit(entry)),
        };
        match place.and_then(|place| values.get_mut(place)) {
            Some(slot @ None) => *slot = Some(value.clone()),
            _ => return Err(unfit(entry)),
        }
    }
    values
        .into_iter()
        .zip(&entry.parameters)
        .map(|(value, parameter)| {
            value
                .or_else(|| parameter.default_expr.clone())
                .ok_or_else(|| unfit(entry))
        })
        .collect()
}

/// Puts arguments in the place of parameters.
fn put<T: VisitMut>(
    body: &mut T,
    parameters: &[MacroArg],
    arguments: &[Expr],
) -> ControlFlow<Box<Error>> {
    let mut names = Parameters {
        parameters,
        arguments,
    };
    body.visit(&mut names)
}

struct Parameters<'a> {
    parameters: &'a [MacroArg],
    arguments: &'a [Expr],
}

impl Parameters<'_> {
    fn value(&self, name: &Ident) -> Option<Expr> {
        let named = |parameter: &MacroArg| parameter.name.value == name.value;
        let place = self.parameters.iter().position(named)?;
        let value = self.arguments.get(place)?;
        Some(match value {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => value.clone(),
            other => Expr::Nested(Box::new(other.clone())),
        })
    }
}

impl VisitorMut for Parameters<'_> {
    type Break = Box<Error>;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Identifier(name) => {
                if let Some(value) = self.value(name) {
                    *expr = value;
                }
            }
            // A member of a parameter that is a struct.
            Expr::CompoundIdentifier(parts) => {
                if let [first, members @ ..] = parts.as_slice()
                    && let Some(value) = self.value(first)
                {
                    let access_chain = members
                        .iter()
                        .map(|member| {
                            AccessExpr::Subscript(Subscript::Index {
                                index: Expr::value(Value::SingleQuotedString(member.value.clone())),
                            })
                        })
                        .collect();
                    *expr = Expr::CompoundFieldAccess {
                        root: Box::new(value),
                        access_chain,
                    };
                }
            }
            // A call behind a parameter.
            Expr::Function(function) if function.name.0.len() == 2 => {
                let mut parts = function.name.0.iter().filter_map(|part| part.as_ident());
                if let (Some(first), Some(name)) = (parts.next(), parts.next())
                    && let Some(value) = self.value(first)
                {
                    match parse::method_of_value(value, function, name.clone()) {
                        Ok(call) => *expr = call,
                        Err(error) => return ControlFlow::Break(Box::new(error)),
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Calls<'_> {
    type Break = Box<Error>;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Function(function) = expr {
            let function = function.clone();
            if let Some(body) = self.of_function(&function)? {
                *expr = body;
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let written = match factor {
            TableFactor::Table {
                name,
                alias,
                args: Some(args),
                ..
            } => self.of_table(name, &args.args, alias.clone(), false)?,
            TableFactor::Function {
                lateral,
                name,
                args,
                alias,
                ..
            } => self.of_table(name, args, alias.clone(), *lateral)?,
            _ => None,
        };
        if let Some(written) = written {
            *factor = written;
        }
        ControlFlow::Continue(())
    }
}
