//! CREATE VIEW.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    CreateView, Expr, Ident, ObjectName, ObjectNamePart, Query, Value, VisitMut, VisitorMut,
};

use super::{depend, drop, duplicate, existing, new_name, told_apart};
use crate::catalog::{Relation, TEMPORARY_SCHEMA, ViewEntry, fold};
use crate::error::{Error, Result, SqlState};
use crate::parse::{RenameView, UNIQUE};
use crate::session::Outcome;
use crate::statement::{Scope, Work, split_name};

/// CREATE VIEW.
pub(super) fn create_view(work: &mut Work<'_>, create: &CreateView) -> Result<Outcome> {
    if create.materialized {
        return Err(Error::unsupported(
            "materialized views are not supported yet",
        ));
    }
    let (schema, name) = new_name(work, &create.name, create.temporary)?;
    let replaced = match existing(work, &schema, &name) {
        None => None,
        Some(_) if create.if_not_exists => return Ok(Outcome::done("CREATE VIEW")),
        Some(Relation::View(view)) if create.or_replace => Some(view),
        Some(Relation::Table(_)) if create.or_replace => {
            return Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{name}\" is not a view"),
            ));
        }
        Some(_) => return Err(duplicate(&name)),
    };
    let scope = &work.context.scope;
    let query = qualified(scope, &create.query)?;
    let temporary = schema == TEMPORARY_SCHEMA;
    if !temporary {
        let own = depend::names(&query)
            .into_iter()
            .find(|(schema, _)| schema.as_deref() == Some(TEMPORARY_SCHEMA));
        if let Some((_, relation)) = own {
            return Err(Error::new(
                SqlState::InvalidTableDefinition,
                format!("view \"{name}\" depends on the temporary relation \"{relation}\""),
            )
            .with_hint("Create a temporary view."));
        }
    }
    let plan = scope.plan_view(&query)?;
    let outputs: Vec<String> = plan
        .schema()
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let columns = column_names(work, create, &outputs)?;
    let optimized = scope.optimize(&plan)?;
    let fields = optimized.schema().fields().iter().cloned().collect();
    let view = ViewEntry {
        schema,
        name,
        columns,
        outputs,
        fields,
        query: Arc::new(query),
        comment: create.comment.clone(),
        temporary,
    };
    if let Some(replaced) = replaced {
        if replaced.columns.iter().map(|name| fold(name)).ne(view
            .columns
            .iter()
            .map(|name| fold(name))
            .take(replaced.columns.len()))
        {
            drop::drop_views_on(work, &view.schema, &view.name, false, "view")?;
        }
        work.changes.remove(&replaced.schema, &replaced.name);
    }
    work.changes.put(Relation::View(Arc::new(view)));
    Ok(Outcome::done("CREATE VIEW"))
}

/// ALTER VIEW … RENAME TO.
pub(in crate::statement) fn rename_view(
    work: &mut Work<'_>,
    rename: &RenameView,
) -> Result<Outcome> {
    let (schema, name) = split_name(&rename.name)?;
    let scope = &work.context.scope;
    let view = match scope.relation(schema.as_deref(), &name) {
        Some(Relation::View(view)) => view,
        Some(Relation::Table(table)) => {
            return Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{}\" is not a view", table.name),
            )
            .with_hint("ALTER TABLE … RENAME TO renames a table."));
        }
        None if rename.if_exists => return Ok(Outcome::done("ALTER VIEW")),
        None => return Err(scope.unknown_relation(schema.as_deref(), &name)),
    };
    let to = work.source.written(&rename.to);
    super::rename::rename_view(work, &view, to)?;
    Ok(Outcome::done("ALTER VIEW"))
}

/// The view's columns with their case: those given, then the query's own.
fn column_names(work: &Work<'_>, create: &CreateView, outputs: &[String]) -> Result<Vec<String>> {
    if create.columns.len() > outputs.len() {
        return Err(Error::new(
            SqlState::SyntaxError,
            "CREATE VIEW specifies more column names than columns",
        ));
    }
    let scope = &work.context.scope;
    let given = create
        .columns
        .iter()
        .map(|column| work.source.written(&column.name));
    let mut names: Vec<String> = given
        .chain(
            outputs
                .iter()
                .skip(create.columns.len())
                .map(|output| scope.written(output)),
        )
        .collect();
    told_apart(&mut names, create.columns.len());
    let mut taken = HashSet::new();
    for name in &names {
        if !taken.insert(fold(name)) {
            return Err(Error::new(
                SqlState::DuplicateColumn,
                format!("column \"{name}\" specified more than once"),
            ));
        }
    }
    debug_assert!(names.iter().all(|name| !name.contains(UNIQUE)));
    Ok(names)
}

/// The query with schemas before the names of its relations, so that it means the same under any search path.
fn qualified(scope: &Scope, query: &Query) -> Result<Query> {
    let mut query = query.clone();
    let mut qualifier = Qualifier {
        scope,
        common: depend::common_names(&query),
    };
    match query.visit(&mut qualifier) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(query),
    }
}

struct Qualifier<'a> {
    scope: &'a Scope,
    common: HashSet<String>,
}

impl VisitorMut for Qualifier<'_> {
    type Break = Box<Error>;

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Box<Error>> {
        let [ObjectNamePart::Identifier(only)] = relation.0.as_slice() else {
            return ControlFlow::Continue(());
        };
        if self.common.contains(&only.value) {
            return ControlFlow::Continue(());
        }
        if let Some(found) = self.scope.relation(None, &only.value) {
            let schema = ObjectNamePart::Identifier(Ident::with_quote('"', found.schema()));
            relation.0.insert(0, schema);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Box<Error>> {
        if let Expr::Value(value) = expression
            && matches!(value.value, Value::Placeholder(_))
        {
            return ControlFlow::Break(Box::new(Error::new(
                SqlState::UndefinedParameter,
                "a view cannot have parameters",
            )));
        }
        ControlFlow::Continue(())
    }
}
