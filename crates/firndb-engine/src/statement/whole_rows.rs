//! A relation's name as a value: `SELECT t FROM t`, `row_to_json(t)`, `(t).a`, as in PostgreSQL and DuckDB.
//!
//! It is the struct of the relation's columns. A column of the name goes before it, so a query is planned as it is first; where that
//! finds no column of a name that a relation of FROM has, the struct is put in its place.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, TableFactor, Value, VisitMut,
    VisitorMut, With,
};

use super::aliases::Names;
use crate::error::{Error, SqlState};
use crate::parse::call;

/// The columns of a relation, as they are named and as they are written.
pub(super) type Columns = Vec<(String, String)>;

/// Replaces the name that `error` misses in those SELECTs that have a relation of it; whether there was one.
pub(super) fn resolve(
    query: &mut Query,
    error: &Error,
    columns: &dyn Fn(Option<&With>, &TableFactor) -> Option<Columns>,
) -> bool {
    let missing = error
        .message
        .strip_prefix("column \"")
        .and_then(|rest| rest.strip_suffix("\" does not exist"))
        .filter(|_| error.state == SqlState::UndefinedColumn);
    let Some(missing) = missing else {
        return false;
    };
    let with = query.with.clone();
    let mut selects = Selects {
        missing,
        with: with.as_ref(),
        columns,
        replaced: false,
    };
    let ControlFlow::Continue(()) = query.visit(&mut selects);
    selects.replaced
}

struct Selects<'a> {
    missing: &'a str,
    with: Option<&'a With>,
    columns: &'a dyn Fn(Option<&With>, &TableFactor) -> Option<Columns>,
    replaced: bool,
}

impl VisitorMut for Selects<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let factors = select.from.iter().flat_map(|table| {
            let joined = table.joins.iter().map(|join| &join.relation);
            std::iter::once(&table.relation).chain(joined)
        });
        let found = factors
            .filter(|factor| name_of(factor).is_some_and(|name| name.value == self.missing))
            .find_map(|factor| (self.columns)(self.with, factor));
        let Some(columns) = found else {
            return ControlFlow::Continue(());
        };
        let members = columns.into_iter().flat_map(|(name, written)| {
            [
                Expr::value(Value::SingleQuotedString(written)),
                Expr::CompoundIdentifier(vec![
                    Ident::with_quote('"', self.missing),
                    Ident::with_quote('"', name),
                ]),
            ]
        });
        let row = call("named_struct", members.collect());
        let mut names = Names::new(self.missing, row.clone());
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
                && name.value == self.missing
            {
                let alias = name.clone();
                let expr = row.clone();
                *item = SelectItem::ExprWithAlias { expr, alias };
                names.replaced = true;
                continue;
            }
            let ControlFlow::Continue(()) = item.visit(&mut names);
        }
        let ControlFlow::Continue(()) = select.selection.visit(&mut names);
        let ControlFlow::Continue(()) = select.group_by.visit(&mut names);
        let ControlFlow::Continue(()) = select.having.visit(&mut names);
        self.replaced |= names.replaced;
        ControlFlow::Continue(())
    }
}

/// The name under which a relation's columns are known.
fn name_of(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias),
            lateral: false,
            ..
        } => Some(&alias.name),
        TableFactor::Table {
            name, alias: None, ..
        } => name.0.last().and_then(ObjectNamePart::as_ident),
        _ => None,
    }
}
