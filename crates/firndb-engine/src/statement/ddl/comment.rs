//! COMMENT ON.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName, Statement};

use crate::catalog::Relation;
use crate::error::{Error, Result, SqlState};
use crate::session::Outcome;
use crate::statement::{Work, split_name, unknown_column};

/// COMMENT ON a table, view or column.
pub(super) fn comment(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Comment {
        object_type,
        object_name,
        comment,
        ..
    } = statement
    else {
        return Err(Error::internal("not a COMMENT"));
    };
    match object_type {
        CommentObject::Table => {
            let entry = work.context.table(object_name)?;
            let mut changed = entry.as_ref().clone();
            changed.comment.clone_from(comment);
            work.changes.put(Relation::Table(Arc::new(changed)));
        }
        CommentObject::View => {
            let (schema, name) = split_name(object_name)?;
            let scope = &work.context.scope;
            match scope.relation(schema.as_deref(), &name) {
                Some(Relation::View(view)) => {
                    let mut changed = view.as_ref().clone();
                    changed.comment.clone_from(comment);
                    work.changes.put(Relation::View(Arc::new(changed)));
                }
                Some(Relation::Table(entry)) => {
                    return Err(Error::new(
                        SqlState::WrongObjectType,
                        format!("\"{}\" is not a view", entry.name),
                    ));
                }
                None => return Err(scope.unknown_relation(schema.as_deref(), &name)),
            }
        }
        CommentObject::Column => {
            let Some((column, table)) = object_name.0.split_last() else {
                return Err(Error::internal("a name without parts"));
            };
            if table.is_empty() {
                return Err(Error::new(
                    SqlState::SyntaxError,
                    "column name must be qualified",
                ));
            }
            let entry = work.context.table(&ObjectName(table.to_vec()))?;
            let name = column
                .as_ident()
                .map(|ident| ident.value.clone())
                .unwrap_or_default();
            let position = entry
                .column(&name)
                .ok_or_else(|| unknown_column(&entry, &name))?;
            let mut changed = entry.as_ref().clone();
            changed.columns[position].comment.clone_from(comment);
            work.changes.put(Relation::Table(Arc::new(changed)));
        }
        other => {
            return Err(Error::unsupported(format!(
                "COMMENT ON {other} is not supported"
            )));
        }
    }
    Ok(Outcome::done("COMMENT"))
}
