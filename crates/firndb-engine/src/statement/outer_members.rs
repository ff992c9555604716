//! Members of an outer query's structs: `SELECT (SELECT s.a) FROM t`.
//!
//! The planner finds the column `s` of an outer query, but not a member of it in one name. A query is planned as it is first; where that
//! fails, the name becomes an access to a member of the column, whose name is looked up like any other.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, ObjectNamePart, Query, Select, Subscript, TableFactor, Value, VisitMut,
    VisitorMut,
};

use crate::error::Error;

/// What the planner says of such a name, before the column's.
const REFUSED: &str = "Nested identifiers are not yet supported for OuterReferenceColumn ";

/// Writes names of members of the column that `error` is about as accesses; whether there were any.
pub(super) fn resolve(query: &mut Query, error: &Error) -> bool {
    let Some((_, column)) = error.message.split_once(REFUSED) else {
        return false;
    };
    let column = column.trim().rsplit('.').next().unwrap_or_default();
    let mut members = Members {
        column: column.trim_matches('"'),
        relations: Vec::new(),
        replaced: false,
    };
    let ControlFlow::Continue(()) = query.visit(&mut members);
    members.replaced
}

struct Members<'a> {
    column: &'a str,
    /// By SELECT around, the relations of its FROM.
    relations: Vec<Vec<String>>,
    replaced: bool,
}

impl VisitorMut for Members<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let factors = select.from.iter().flat_map(|table| {
            let joined = table.joins.iter().map(|join| &join.relation);
            std::iter::once(&table.relation).chain(joined)
        });
        self.relations.push(factors.filter_map(name_of).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Self::Break> {
        self.relations.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::CompoundIdentifier(names) = expr else {
            return ControlFlow::Continue(());
        };
        let Some(place) = names
            .iter()
            .take(2)
            .position(|name| name.value == self.column)
            .filter(|place| place + 1 < names.len())
        else {
            return ControlFlow::Continue(());
        };
        let is_relation = |name: &str| {
            self.relations
                .last()
                .is_some_and(|all| all.iter().any(|one| one == name))
        };
        if place == 0 && is_relation(&names[0].value) {
            return ControlFlow::Continue(());
        }
        let members = names.split_off(place + 1);
        let root = match std::mem::take(names) {
            mut column if column.len() == 1 => Expr::Identifier(column.remove(0)),
            column => Expr::CompoundIdentifier(column),
        };
        let access = members.into_iter().map(|member| {
            AccessExpr::Subscript(Subscript::Index {
                index: Expr::value(Value::SingleQuotedString(member.value)),
            })
        });
        *expr = Expr::CompoundFieldAccess {
            root: Box::new(root),
            access_chain: access.collect(),
        };
        self.replaced = true;
        ControlFlow::Continue(())
    }
}

fn name_of(factor: &TableFactor) -> Option<String> {
    let name = match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        } => &alias.name,
        TableFactor::Table { name, .. } => {
            return name
                .0
                .last()
                .and_then(ObjectNamePart::as_ident)
                .map(|name| name.value.clone());
        }
        _ => return None,
    };
    Some(name.value.clone())
}
