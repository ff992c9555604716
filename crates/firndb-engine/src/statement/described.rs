//! DESCRIBE and SUMMARIZE as relations of a query: the marks that `parse::descriptions` left, brought to queries of what they say.
//!
//! ```text
//! SELECT __firndb_describe FROM t     ─▶  SELECT * FROM (VALUES ('a', 'INTEGER', …), …) AS described(column_name, column_type, …)
//! SELECT __firndb_summarize FROM t    ─▶  SELECT * FROM (WITH summarized AS (SELECT * FROM t) SELECT 'a' AS column_name, …)
//! ```
//!
//! It happens whenever names are bound, so a view shows what its relation is when the view is read.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Query, SelectItem, SetExpr, TableFactor, Visit, VisitMut, Visitor, VisitorMut, With,
};

use crate::error::{Error, Result};
use crate::parse::{self, DESCRIBE, SUMMARIZE};

/// A row of DESCRIBE: name, type, whether NULL may be in it, key, default, extra.
pub(super) type Described = [Option<String>; 6];

/// What is asked about relations here.
pub(super) trait Describer {
    /// DESCRIBE of a relation in FROM.
    fn describe(&self, factor: &TableFactor, query: &Query) -> Result<Vec<Described>>;
    /// SUMMARIZE of a query, which the result calls `summarized`.
    fn summarize(&self, query: &Query) -> Result<String>;
}

/// Puts queries in place of the marks.
pub(super) fn resolve(query: &mut Query, describer: &dyn Describer) -> Result<()> {
    if !is_marked(query) {
        return Ok(());
    }
    let mut marks = Marks {
        describer,
        around: Vec::new(),
    };
    match query.visit(&mut marks) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The mark of a query, if it has one.
fn mark(query: &Query) -> Option<&'static str> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [SelectItem::UnnamedExpr(Expr::Identifier(name))] = select.projection.as_slice() else {
        return None;
    };
    [DESCRIBE, SUMMARIZE]
        .into_iter()
        .find(|mark| name.value == *mark)
}

fn is_marked(query: &Query) -> bool {
    struct Marked;
    impl Visitor for Marked {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match mark(query) {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        }
    }
    query.visit(&mut Marked).is_break()
}

struct Marks<'a> {
    describer: &'a dyn Describer,
    /// The common table expressions of the queries around.
    around: Vec<Option<With>>,
}

impl VisitorMut for Marks<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.around.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Some(mark) = mark(query)
            && let Err(error) = self.replace(query, mark)
        {
            return ControlFlow::Break(Box::new(error));
        }
        self.around.pop();
        ControlFlow::Continue(())
    }
}

impl Marks<'_> {
    fn replace(&self, query: &mut Query, mark: &str) -> Result<()> {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return Ok(());
        };
        let [from] = select.from.as_slice() else {
            return Err(Error::unsupported("this form of DESCRIBE or SUMMARIZE"));
        };
        let mut rows = parse::parse_query("SELECT * FROM x")?;
        if let SetExpr::Select(all) = rows.body.as_mut() {
            all.from = vec![from.clone()];
        }
        // What the relation is may depend on the common table expressions around; where it stands they are seen anyway.
        let mut seen = rows.clone();
        seen.with = self.with();
        let text = match mark {
            DESCRIBE => described(&self.describer.describe(&from.relation, &seen)?),
            _ => self.describer.summarize(&seen)?,
        };
        let mut shown = parse::parse_query(&text)?;
        if mark == SUMMARIZE
            && let Some(table) = shown
                .with
                .as_mut()
                .and_then(|with| with.cte_tables.first_mut())
        {
            *table.query = rows;
        }
        query.with = shown.with;
        query.body = shown.body;
        Ok(())
    }

    /// The common table expressions that are seen here, the outermost first.
    fn with(&self) -> Option<With> {
        let mut all: Option<With> = None;
        for with in self.around.iter().flatten() {
            match &mut all {
                None => all = Some(with.clone()),
                Some(all) => {
                    // An inner one hides an outer one of its name.
                    let inner = &with.cte_tables;
                    all.cte_tables.retain(|outer| {
                        inner
                            .iter()
                            .all(|one| one.alias.name.value != outer.alias.name.value)
                    });
                    all.cte_tables.extend(inner.iter().cloned());
                    all.recursive |= with.recursive;
                }
            }
        }
        all
    }
}

/// The query of DESCRIBE's rows.
fn described(rows: &[Described]) -> String {
    let value = |value: &Option<String>| match value {
        Some(text) => format!("'{}'", text.replace('\'', "''")),
        None => "CAST(NULL AS VARCHAR)".to_owned(),
    };
    let rows: Vec<String> = rows
        .iter()
        .map(|row| format!("({})", row.iter().map(value).collect::<Vec<_>>().join(", ")))
        .collect();
    format!(
        "SELECT * FROM (VALUES {}) AS described(column_name, column_type, \"null\", \"key\", \"default\", extra)",
        rows.join(", ")
    )
}
