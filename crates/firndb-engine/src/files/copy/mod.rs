//! COPY: tables and queries to files, files to tables.
//!
//! `parse::copy` parses the statement; its options come here as they were written.

mod from;
mod to;

use std::path::Path;

use datafusion::sql::sqlparser::ast::{self, CopyOption, CopyTarget, Statement};

use super::options::{FileOptions, Format, OptionValue};
use crate::parse::copy::carried_option;
use crate::session::Outcome;
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState};

/// COPY table or query TO file, COPY table FROM file (csv, parquet, json, arrow).
pub async fn copy(context: &StatementContext, copy: &ast::Statement) -> Result<Outcome> {
    let Statement::Copy {
        source, to, target, ..
    } = copy
    else {
        return Err(Error::internal("COPY expected"));
    };
    let CopyTarget::File { filename } = target else {
        return Err(Error::unsupported(
            "COPY from STDIN, to STDOUT and with PROGRAM are not supported",
        )
        .with_hint("Name a file."));
    };
    let options = options(Path::new(filename), copy)?;
    let rows = if *to {
        to::copy_to(context, source, Path::new(filename), &options).await?
    } else {
        from::copy_from(context, source, filename, options).await?
    };
    Ok(Outcome {
        tag: "COPY",
        affected: Some(rows),
        rows: None,
    })
}

/// The options of a COPY statement: the format first, since it says what the others mean.
fn options(path: &Path, copy: &Statement) -> Result<FileOptions> {
    let given = given_options(copy)?;
    let format = given.iter().rev().find(|(name, _)| name == "format");
    let format = match format {
        Some((_, OptionValue::Text(name))) => Format::of_name(name)?,
        Some(_) => {
            return Err(Error::new(
                SqlState::SyntaxError,
                "option \"format\" requires a name",
            ));
        }
        None => Format::of_path(path).unwrap_or(Format::Csv),
    };
    let mut options = FileOptions::new(format);
    for (name, value) in &given {
        if name != "format" {
            options.set(name, value)?;
        }
    }
    Ok(options)
}

fn given_options(copy: &Statement) -> Result<Vec<(String, OptionValue)>> {
    let Statement::Copy {
        options,
        legacy_options,
        ..
    } = copy
    else {
        return Err(Error::internal("COPY expected"));
    };
    let mut given: Vec<(String, OptionValue)> = options.iter().map(standard_option).collect();
    for option in legacy_options {
        given.push(carried_option(option).ok_or_else(|| {
            Error::new(
                SqlState::SyntaxError,
                format!("option \"{option}\" not recognized"),
            )
        })?);
    }
    Ok(given)
}

/// PostgreSQL's options, as sqlparser has them.
fn standard_option(option: &CopyOption) -> (String, OptionValue) {
    let text = |c: &char| OptionValue::Text(c.to_string());
    let list =
        |names: &[ast::Ident]| OptionValue::List(names.iter().map(|n| n.value.clone()).collect());
    let (name, value) = match option {
        CopyOption::Format(name) => ("format", OptionValue::Text(name.value.clone())),
        CopyOption::Freeze(on) => ("freeze", OptionValue::Boolean(*on)),
        CopyOption::Delimiter(c) => ("delimiter", text(c)),
        CopyOption::Null(null) => ("null", OptionValue::Text(null.clone())),
        CopyOption::Header(on) => ("header", OptionValue::Boolean(*on)),
        CopyOption::Quote(c) => ("quote", text(c)),
        CopyOption::Escape(c) => ("escape", text(c)),
        CopyOption::ForceQuote(names) => ("force_quote", list(names)),
        CopyOption::ForceNotNull(names) => ("force_not_null", list(names)),
        CopyOption::ForceNull(names) => ("force_null", list(names)),
        CopyOption::Encoding(name) => ("encoding", OptionValue::Text(name.clone())),
    };
    (name.to_owned(), value)
}
