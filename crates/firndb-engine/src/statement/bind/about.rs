//! What is asked of relations while names are bound: DESCRIBE and SUMMARIZE in FROM, `query('SELECT …')`, `query_table('t')`.

use std::sync::Arc;

use datafusion::catalog::TableFunctionArgs;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource};
use datafusion::sql::sqlparser::ast;

use super::Binder;
use crate::catalog::Relation;
use crate::error::{Error, Result, SqlState};
use crate::files;
use crate::parse;
use crate::statement::described::{Described, Describer};
use crate::statement::scope::{Found, split_name};
use crate::statement::{describe, limits};

impl Describer for Binder<'_> {
    fn describe(&self, factor: &ast::TableFactor, query: &ast::Query) -> Result<Vec<Described>> {
        if let ast::TableFactor::Table {
            name, args: None, ..
        } = factor
            && query.with.as_ref().is_none_or(|with| {
                let named = |table: &ast::Cte| name.to_string() == table.alias.name.to_string();
                !with.cte_tables.iter().any(named)
            })
        {
            let (schema, table) = split_name(name)?;
            let found = self.scope.find(schema.as_deref(), &table, self.in_view());
            if let Ok(Some(Found::Relation(Relation::Table(entry)))) = found {
                return Ok(describe::table_rows(&entry));
            }
        }
        let plan = self.settled(query)?;
        let columns = plan.schema().fields().iter();
        Ok(columns
            .map(|field| {
                let written = self.scope.written(field.name());
                describe::column_row(&field.as_ref().clone().with_name(written))
            })
            .collect())
    }

    fn summarize(&self, query: &ast::Query) -> Result<String> {
        let plan = self.settled(query)?;
        let columns = plan.schema().fields().iter();
        let shown: Vec<_> = columns
            .map(|field| {
                let written = self.scope.written(field.name());
                let shown = field.as_ref().clone().with_name(written);
                (field.name().clone(), Arc::new(shown))
            })
            .collect();
        describe::summary_query(shown.iter().map(|(name, field)| (name.as_str(), field)))
    }
}

impl Binder<'_> {
    /// A query's plan with its types.
    fn settled(&self, query: &ast::Query) -> Result<LogicalPlan> {
        let plan = self.planned(query, &self.context())?;
        let plan = self.scope.arguments.apply(plan)?;
        let plan = crate::statement::grouping_sets::rewrite(plan)?;
        crate::statement::sound(crate::expr::settled(plan)?)
    }

    /// `query('SELECT …')`: the rows of the query in a text.
    pub(super) fn query_of_text(&self, arguments: &[Expr]) -> Result<Arc<dyn TableSource>> {
        let [Expr::Literal(value, _)] = arguments else {
            return Err(misused("query takes the text of a query"));
        };
        let Some(Some(text)) = value.try_as_str() else {
            return Err(misused("query takes the text of a query"));
        };
        self.relation_of(text)
    }

    /// `query_table('t')`, `query_table(['a', 'b'])`: the rows of a table, or of several.
    pub(super) fn tables_named(&self, arguments: &[Expr]) -> Result<Arc<dyn TableSource>> {
        let state = self.scope.state.as_ref();
        let names = match arguments {
            [argument] => {
                let given = TableFunctionArgs::new(arguments, state);
                files::arguments::texts(&files::arguments::constant(argument, &given)?)
            }
            _ => None,
        };
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            return Err(misused(
                "query_table takes the name of a table or a list of them",
            ));
        };
        let selects: Vec<String> = names
            .iter()
            .map(|name| {
                let parts: Vec<String> = name
                    .split('.')
                    .map(|part| format!("\"{}\"", part.replace('"', "\"\"")))
                    .collect();
                format!("SELECT * FROM {}", parts.join("."))
            })
            .collect();
        self.relation_of(&selects.join(" UNION ALL "))
    }

    fn relation_of(&self, text: &str) -> Result<Arc<dyn TableSource>> {
        let names = self.scope.catalog.case_sensitive_names();
        let parsed = parse::parse(text, &|name| names.contains(name))?;
        let query = match parsed.statements.as_slice() {
            [statement] => match &statement.command {
                parse::Command::Sql(statement) => match statement.as_ref() {
                    ast::Statement::Query(query) => Some(query),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        let Some(query) = query else {
            return Err(misused("the text is not one query"));
        };
        if parsed.parameters.count() > 0 || parsed.statements.iter().any(|one| one.variables) {
            return Err(Error::unsupported(
                "parameters and variables in the text of a query",
            ));
        }
        if parsed.statements.iter().any(|one| one.deep) {
            return Err(Error::new(
                SqlState::StatementTooComplex,
                "the text of a query is nested too deeply",
            ));
        }
        limits::refuse(query)?;
        Ok(provider_as_source(Arc::new(ViewTable::new(
            self.settled(query)?,
            None,
        ))))
    }
}

fn misused(message: &str) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}
