//! CREATE MACRO and DROP MACRO: functions whose body is an expression or a query of their parameters.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    DropBehavior, DropFunction, MacroArg, MacroDefinition, ObjectName, Statement,
};

use super::depend::{self, Caller};
use super::{drop, new_name};
use crate::catalog::{MacroBody, MacroEntry, Relation, TEMPORARY_SCHEMA, fold};
use crate::error::{Error, Result, SqlState, nearest};
use crate::session::Outcome;
use crate::statement::{Work, split_name};

/// CREATE [OR REPLACE] [TEMP] MACRO.
pub(super) fn create_macro(work: &mut Work<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::CreateMacro {
        or_replace,
        temporary,
        name,
        args,
        definition,
    } = statement
    else {
        return Err(Error::internal("not a CREATE MACRO"));
    };
    let (schema, written) = new_name(work, name, *temporary)?;
    let state = work.changes.state();
    let taken = state
        .schema(&schema)
        .is_some_and(|schema| schema.macro_named(&written).is_some());
    if taken && !or_replace {
        return Err(Error::new(
            SqlState::DuplicateFunction,
            format!("macro \"{written}\" already exists"),
        )
        .with_hint("Write CREATE OR REPLACE MACRO to replace it."));
    }
    let parameters = parameters(args.as_deref().unwrap_or_default())?;
    let body = match definition {
        MacroDefinition::Expr(body) => MacroBody::Expression(Box::new(body.clone())),
        MacroDefinition::Table(body) => MacroBody::Query(body.clone()),
    };
    let entry = MacroEntry {
        name: written,
        parameters,
        body,
    };
    work.changes.put_macro(&schema, entry);
    Ok(Outcome::done("CREATE MACRO"))
}

fn parameters(args: &[MacroArg]) -> Result<Vec<MacroArg>> {
    for (place, arg) in args.iter().enumerate() {
        let before = &args[..place];
        if before
            .iter()
            .any(|other| other.name.value == arg.name.value)
        {
            return Err(Error::new(
                SqlState::InvalidFunctionDefinition,
                format!("parameter name \"{}\" used more than once", arg.name.value),
            ));
        }
        if arg.default_expr.is_none() && before.iter().any(|other| other.default_expr.is_some()) {
            return Err(Error::new(
                SqlState::InvalidFunctionDefinition,
                "parameters after one with a default value must also have defaults",
            ));
        }
    }
    Ok(args.to_vec())
}

/// DROP MACRO, which also drops what DROP FUNCTION names.
pub(super) fn drop_macro(work: &mut Work<'_>, drop: &DropFunction) -> Result<Outcome> {
    for function in &drop.func_desc {
        let cascade = matches!(drop.drop_behavior, Some(DropBehavior::Cascade));
        drop_one(work, &function.name, drop.if_exists, cascade)?;
    }
    Ok(Outcome::done("DROP MACRO"))
}

fn drop_one(work: &mut Work<'_>, name: &ObjectName, if_exists: bool, cascade: bool) -> Result<()> {
    let (schema, folded) = split_name(name)?;
    let state = Arc::clone(work.changes.state());
    let path: Vec<String> = match schema {
        Some(schema) => vec![schema],
        None => std::iter::once(TEMPORARY_SCHEMA.to_owned())
            .chain(work.context.scope.path.iter().cloned())
            .collect(),
    };
    let found = path.iter().find_map(|schema| {
        let schema = state.schema(schema)?;
        let entry = schema.macro_named(&folded)?;
        Some((schema.name.clone(), entry.name.clone()))
    });
    if let Some((schema, name)) = found {
        drop_callers(work, &schema, &name, cascade)?;
        work.changes.remove_macro(&schema, &name);
        return Ok(());
    }
    if if_exists {
        return Ok(());
    }
    let error = Error::new(
        SqlState::UndefinedFunction,
        format!("macro \"{folded}\" does not exist"),
    );
    let names: Vec<String> = path
        .iter()
        .filter_map(|schema| state.schema(schema))
        .flat_map(|schema| schema.macros())
        .map(|entry| fold(&entry.name))
        .collect();
    Err(match nearest(&folded, names.iter().map(String::as_str)) {
        Some(near) => error.with_hint(format!("Perhaps you meant the macro \"{near}\".")),
        None => error,
    })
}

/// Drops the views and conditions that call a function, or refuses.
fn drop_callers(work: &mut Work<'_>, schema: &str, name: &str, cascade: bool) -> Result<()> {
    let callers = depend::callers(work.changes.state(), schema, name);
    let what = format!("function {name}");
    if !cascade && !callers.is_empty() {
        let callers: Vec<_> = callers.iter().collect();
        let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
        return Err(depend::still_called(&what, &callers, hint));
    }
    let stays = |caller: &&Caller| matches!(caller, Caller::Part(_));
    let parts: Vec<_> = callers.iter().filter(stays).collect();
    if !parts.is_empty() {
        let hint = "Drop or alter these columns and indexes first.";
        return Err(depend::still_called(&what, &parts, hint));
    }
    for caller in callers {
        match caller {
            Caller::View(view) => {
                let still = work.changes.state().relation(&view.schema, &view.name);
                if let Some(Relation::View(view)) = still {
                    drop::drop_view(work, &view, true)?;
                }
            }
            Caller::Check(table, constraint) => {
                let still = work.changes.state().relation(&table.schema, &table.name);
                if let Some(Relation::Table(table)) = still {
                    let mut table = table.as_ref().clone();
                    table.constraints.retain(|other| other.name() != constraint);
                    work.changes.put(Relation::Table(Arc::new(table)));
                }
            }
            Caller::Part(_) => {}
        }
    }
    Ok(())
}
