//! `rowid`: the place of a row, as a column that a table has where nothing else has the name.
//!
//! ```text
//! SELECT rowid, * FROM t    ─▶  SELECT rowid, * EXCLUDE (rowid) FROM (SELECT * EXCLUDE (__slot), CAST(__slot AS BIGINT) AS rowid FROM <t>) AS t
//! UPDATE t … WHERE rowid=1  ─▶  … WHERE __slot = 1
//! ```
//!
//! It is the row's slot, and so the same for the length of a transaction; afterwards rows may move. A query is planned as it is first;
//! where that finds no column `rowid`, the tables of those SELECTs which ask for it yield it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr,
    TableAlias, TableFactor, Visit, VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use super::TARGET;
use crate::error::{Error, Result, SqlState};
use crate::parse;

/// The column's name, and that of the column of slots.
const ROWID: &str = "rowid";
const SLOT: &str = "__slot";
/// What the name of a table with its slots begins with.
const SLOTS: &str = "__firndb_slots ";

/// The table's name, if it is to yield its slots.
pub(super) fn with_slots(name: &str) -> Option<&str> {
    name.strip_prefix(SLOTS)
}

/// Makes tables yield what `error` misses; whether there was something to do. `is_table` tells tables from other relations.
pub(super) fn resolve(
    query: &mut Query,
    error: &Error,
    is_table: &dyn Fn(&ObjectName) -> bool,
) -> Result<bool> {
    let missing = error.state == SqlState::UndefinedColumn
        && (error.message == format!("column \"{ROWID}\" does not exist")
            || error
                .message
                .ends_with(&format!(".{ROWID}\" does not exist")));
    if !missing {
        return Ok(false);
    }
    let mut selects = Selects {
        is_table,
        changed: false,
    };
    match query.visit(&mut selects) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(selects.changed),
    }
}

struct Selects<'a> {
    is_table: &'a dyn Fn(&ObjectName) -> bool,
    changed: bool,
}

impl VisitorMut for Selects<'_> {
    type Break = Box<Error>;

    /// A key of ORDER BY may be the only place that names it.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let SetExpr::Select(select) = query.body.as_mut()
            && query.order_by.as_ref().is_some_and(asks)
        {
            match self.extended(select) {
                Ok(extended) => self.changed |= extended,
                Err(error) => return ControlFlow::Break(Box::new(error)),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if !asks(select) {
            return ControlFlow::Continue(());
        }
        match self.extended(select) {
            Ok(extended) => {
                self.changed |= extended;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// Whether a SELECT, or a subquery of its own, names the column.
fn asks<T: Visit>(syntax: &T) -> bool {
    struct Names;
    impl Visitor for Names {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match is_rowid(expr) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    syntax.visit(&mut Names).is_break()
}

fn is_rowid(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(name) => name.value == ROWID,
        Expr::CompoundIdentifier(names) => names.last().is_some_and(|name| name.value == ROWID),
        _ => false,
    }
}

impl Selects<'_> {
    fn extended(&self, select: &mut Select) -> Result<bool> {
        let mut tables = false;
        let mut target = false;
        for from in &mut select.from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for factor in std::iter::once(&mut from.relation).chain(joined) {
                match self.factor(factor)? {
                    Kind::Table => tables = true,
                    Kind::Target => target = true,
                    Kind::Other => {}
                }
            }
        }
        if target {
            let ControlFlow::Continue(()) = VisitMut::visit(select, &mut Slots { depth: 0 });
        }
        if tables {
            select.projection.iter_mut().for_each(without_rowid);
        }
        Ok(tables || target)
    }

    fn factor(&self, factor: &mut TableFactor) -> Result<Kind> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        else {
            return Ok(Kind::Other);
        };
        let Some(last) = name.0.last().and_then(ObjectNamePart::as_ident).cloned() else {
            return Ok(Kind::Other);
        };
        if last.value == TARGET {
            return Ok(Kind::Target);
        }
        if last.value.starts_with(SLOTS) || !(self.is_table)(name) {
            return Ok(Kind::Other);
        }
        let mut query = parse::parse_query(&format!(
            "SELECT * EXCLUDE ({SLOT}), CAST({SLOT} AS BIGINT) AS {ROWID} FROM x"
        ))?;
        let mut source = name.clone();
        if let Some(part) = source.0.last_mut() {
            *part = ObjectNamePart::Identifier(Ident::with_quote(
                '"',
                format!("{SLOTS}{}", last.value),
            ));
        }
        let ControlFlow::Continue(()) = VisitMut::visit(&mut query, &mut Renamed { name: &source });
        let alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: last,
            columns: Vec::new(),
            at: None,
        });
        *factor = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(alias),
            sample: None,
        };
        Ok(Kind::Table)
    }
}

enum Kind {
    Table,
    Target,
    Other,
}

struct Renamed<'a> {
    name: &'a ObjectName,
}

impl VisitorMut for Renamed<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Self::Break> {
        *relation = self.name.clone();
        ControlFlow::Continue(())
    }
}

/// The target of a write has its slots already. Subqueries ask their own tables.
struct Slots {
    depth: usize,
}

impl VisitorMut for Slots {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Identifier(name) if name.value == ROWID => name.value = SLOT.to_owned(),
            Expr::CompoundIdentifier(names) => {
                if let Some(last) = names.last_mut().filter(|last| last.value == ROWID) {
                    last.value = SLOT.to_owned();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A wildcard does not list the column.
fn without_rowid(item: &mut SelectItem) {
    let exclude = |options: &mut WildcardAdditionalOptions| {
        let name = || ObjectName::from(Ident::new(ROWID));
        options.opt_exclude = Some(match options.opt_exclude.take() {
            None => ExcludeSelectItem::Multiple(vec![name()]),
            Some(ExcludeSelectItem::Single(one)) => ExcludeSelectItem::Multiple(vec![one, name()]),
            Some(ExcludeSelectItem::Multiple(mut several)) => {
                several.push(name());
                ExcludeSelectItem::Multiple(several)
            }
        });
    };
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            exclude(options);
        }
        _ => {}
    }
}
