//! Names in a query bound to one transaction: the planner's view of the catalog.

mod about;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, IntervalUnit, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Column, DFSchema, DataFusionError, TableReference};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource,
    WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use firndb_storage::Form;

use super::keys;
use super::scope::{Found, Scope, check_database};
use super::sequences;
use super::{
    TARGET, aliases, calls, describe, described, forms, implicit_laterals, macros, outer_members,
    rowids, whole_rows,
};
use crate::catalog::{Relation, TEMPORARY_SCHEMA, TableEntry, ViewEntry, fold};
use crate::error::{Error, Result, SqlState, nearest};
use crate::expr::excluding_function;
use crate::parse::{self, SHOW_TABLES};
use crate::scan;
use crate::session::Frame;
use crate::types::{NamedType, TypeNames};

/// Names of a select list that are resolved beside it, one after the other.
const MAX_ALIASES: usize = 16;
/// Views within views.
const MAX_VIEWS: usize = 50;
/// Files that can be named in FROM, and the function that reads them.
const FILE_READERS: [(&str, &str); 9] = [
    (".parquet", "read_parquet"),
    (".csv", "read_csv"),
    (".tsv", "read_csv"),
    (".csv.gz", "read_csv"),
    (".json", "read_json"),
    (".ndjson", "read_json"),
    (".jsonl", "read_json"),
    (".arrow", "read_arrow"),
    (".feather", "read_arrow"),
];

/// The name of the function that an error misses.
fn missing_function(error: &Error) -> Option<&str> {
    let message = error.message.strip_prefix("function ")?;
    message.strip_suffix(" does not exist")
}

/// Binds one query's names.
pub(super) struct Binder<'a> {
    scope: &'a Scope,
    target: Option<&'a Arc<TableEntry>>,
    views: RefCell<Vec<(String, String)>>,
}

impl<'a> Binder<'a> {
    pub(super) fn new(scope: &'a Scope, target: Option<&'a Arc<TableEntry>>) -> Self {
        Binder {
            scope,
            target,
            views: RefCell::new(Vec::new()),
        }
    }

    /// Plans a query, parameters in their places.
    pub(super) fn query(&self, query: &ast::Query) -> Result<LogicalPlan> {
        let plan = self.planned(query, &self.context())?;
        let plan = self.scope.arguments.apply(plan)?;
        super::sound(plan)
    }

    fn planned(&self, query: &ast::Query, context: &PlannerContext) -> Result<LogicalPlan> {
        let mut planned = self.planned_as_is(query, &mut context.clone());
        let mut resolved: Option<ast::Query> = None;
        let mut without_laterals = None;
        for _ in 0..MAX_ALIASES {
            let Err(error) = planned else {
                return planned;
            };
            let query = resolved.get_or_insert_with(|| query.clone());
            let is_table = |name: &ast::ObjectName| self.is_table(name);
            let columns = |with: Option<&ast::With>, factor: &ast::TableFactor| {
                self.columns_of(with, factor, context)
            };
            if !aliases::resolve(query, &error)
                && !rowids::resolve(query, &error, &is_table)?
                && !whole_rows::resolve(query, &error, &columns)
                && !outer_members::resolve(query, &error)
                && !self.methods(query, &error)
            {
                if without_laterals.is_some() || !implicit_laterals::resolve(query, &error) {
                    return Err(without_laterals.unwrap_or(error));
                }
                without_laterals = Some(error);
            }
            planned = self.planned_as_is(query, &mut context.clone());
        }
        planned
    }

    /// Takes the function that `error` misses for a method of a column, if a function has the method's name.
    fn methods<T: ast::VisitMut>(&self, syntax: &mut T, error: &Error) -> bool {
        let Some(missing) = missing_function(error) else {
            return false;
        };
        let Some((_, name)) = missing.rsplit_once('.') else {
            return false;
        };
        let name = name.trim_matches('"');
        let state = &self.scope.state;
        let known = state.scalar_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
            || state.higher_order_functions().contains_key(name);
        known && parse::methods_of_columns(syntax, missing)
    }

    /// The columns of a relation in FROM that stands for itself.
    fn columns_of(
        &self,
        with: Option<&ast::With>,
        factor: &ast::TableFactor,
        context: &PlannerContext,
    ) -> Option<whole_rows::Columns> {
        let mut query = parse::parse_query("SELECT * FROM x").ok()?;
        query.with = with.cloned();
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.from.first_mut()?.relation = factor.clone();
        }
        let plan = self.planned_as_is(&query, &mut context.clone()).ok()?;
        let fields = plan.schema().fields().iter();
        let named = fields.map(|field| {
            let written = self.scope.written(field.name());
            (field.name().clone(), written)
        });
        Some(named.collect())
    }

    /// Whether a name is a stored table's.
    fn is_table(&self, name: &ast::ObjectName) -> bool {
        let found = super::split_name(name)
            .and_then(|(schema, table)| self.scope.find(schema.as_deref(), &table, self.in_view()));
        matches!(found, Ok(Some(Found::Relation(Relation::Table(_)))))
    }

    fn planned_as_is(
        &self,
        query: &ast::Query,
        context: &mut PlannerContext,
    ) -> Result<LogicalPlan> {
        let mut query = query.clone();
        macros::expand(&mut query, &self.scope.catalog, &self.scope.path)?;
        described::resolve(&mut query, self)?;
        forms::mark(&mut query, self.schema(), self.target.is_some());
        calls::check(&query, &|name| {
            let state = &self.scope.state;
            state.scalar_functions().contains_key(name)
                && !state.aggregate_functions().contains_key(name)
                && !state.window_functions().contains_key(name)
        })?;
        let statement = ast::Statement::Query(Box::new(query));
        SqlToRel::new(self)
            .sql_statement_to_plan_with_context(statement, context)
            .map_err(|error| self.name_function(error.into()))
    }

    /// What `current_schema` yields.
    fn schema(&self) -> Option<&str> {
        self.scope.path.first().map(String::as_str)
    }

    /// Adds the nearest function's name to the error about one that does not exist. DataFusion's own suggestion comes from all
    /// names by another distance and may be far off.
    fn name_function(&self, error: Error) -> Error {
        let (Some(unknown), None) = (missing_function(&error), &error.hint) else {
            return error;
        };
        let mut names = self.udf_names();
        names.extend(self.udaf_names());
        names.extend(self.udwf_names());
        names.sort_unstable();
        match nearest(unknown, names.iter().map(String::as_str)) {
            Some(near) => {
                let hint = format!("Perhaps you meant the function \"{near}\".");
                error.with_hint(hint)
            }
            None => error,
        }
    }

    /// Plans an expression over columns.
    pub(super) fn expression(&self, expression: &ast::Expr, schema: &DFSchema) -> Result<Expr> {
        let mut expression = expression.clone();
        macros::expand(&mut expression, &self.scope.catalog, &self.scope.path)?;
        forms::mark(&mut expression, self.schema(), false);
        for _ in 0..MAX_ALIASES {
            let mut context = self.context();
            let planned = SqlToRel::new(self).sql_to_expr(expression.clone(), schema, &mut context);
            match planned.map_err(Error::from) {
                Ok(planned) => return Ok(crate::expr::expression(planned, schema)?),
                Err(error) if self.methods(&mut expression, &error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(
            SqlState::StatementTooComplex,
            "too many calls stand behind columns",
        ))
    }

    /// Plans a view's definition, which sees no frames and has no parameters.
    pub(super) fn definition(&self, query: &ast::Query) -> Result<LogicalPlan> {
        self.views.borrow_mut().push((String::new(), String::new()));
        let planned = self.planned(query, &PlannerContext::new());
        self.views.borrow_mut().pop();
        super::sound(crate::expr::settled(super::grouping_sets::rewrite(
            planned?,
        )?)?)
    }

    /// Plans a view as queries see it.
    pub(super) fn check_view(&self, view: &ViewEntry) -> Result<()> {
        self.view(view).map(|_| ())
    }

    fn context(&self) -> PlannerContext {
        PlannerContext::new().with_prepare_param_data_types(self.scope.arguments.types())
    }

    fn in_view(&self) -> bool {
        !self.views.borrow().is_empty()
    }

    fn table(&self, entry: &TableEntry, slots: bool) -> Result<Arc<dyn TableSource>> {
        let form = if slots {
            Form::Compute
        } else {
            self.scope.form
        };
        let shape = scan::Shape {
            form,
            slots,
            whole: self.scope.whole && !slots,
        };
        let provider = scan::table_provider(
            &entry.table,
            &self.scope.snapshot,
            shape,
            Arc::clone(&self.scope.progress),
            keys::index_paths(self.scope, entry, form),
        )?;
        let mut names = entry.folded_names();
        for (name, column) in names.iter().zip(&entry.columns) {
            self.scope.remember(name, column.field.name());
        }
        if slots {
            names.push("__slot".to_owned());
        }
        renamed(provider, &names)
    }

    fn view(&self, view: &ViewEntry) -> Result<Arc<dyn TableSource>> {
        let key = (fold(&view.schema), view.name.clone());
        {
            let mut views = self.views.borrow_mut();
            if views.contains(&key) {
                return Err(Error::new(
                    SqlState::InvalidTableDefinition,
                    format!("infinite recursion detected in view \"{}\"", view.name),
                ));
            }
            if views.len() >= MAX_VIEWS {
                return Err(Error::new(
                    SqlState::StatementTooComplex,
                    "views are nested too deeply",
                ));
            }
            views.push(key);
        }
        let planned = self.planned(&view.query, &PlannerContext::new());
        self.views.borrow_mut().pop();
        let plan = planned?;
        let plan = super::sound(plan)?;
        let plan = select_outputs(
            crate::expr::settled(super::grouping_sets::rewrite(plan)?)?,
            view,
        )?;
        let names: Vec<String> = view.columns.iter().map(|name| fold(name)).collect();
        for (folded, written) in names.iter().zip(&view.columns) {
            self.scope.remember(folded, written);
        }
        let plan = super::dependencies::independent(rename_plan(plan, &names)?)?;
        Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
    }

    fn frame(&self, frame: &Frame) -> Result<Arc<dyn TableSource>> {
        let names = unique_names(&frame.schema);
        for (name, field) in names.iter().zip(frame.schema.fields()) {
            self.scope.remember(name, field.name());
        }
        if frame
            .schema
            .fields()
            .iter()
            .zip(&names)
            .all(|(field, name)| field.name() == name)
        {
            return Ok(provider_as_source(scan::frame_provider(frame)?));
        }
        let fields: Vec<_> = frame
            .schema
            .fields()
            .iter()
            .zip(&names)
            .map(|(field, name)| field.as_ref().clone().with_name(name))
            .collect();
        let schema: SchemaRef = Arc::new(Schema::new_with_metadata(
            fields,
            frame.schema.metadata().clone(),
        ));
        let batches = frame
            .batches
            .iter()
            .map(|batch| {
                let options =
                    arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                RecordBatch::try_new_with_options(
                    Arc::clone(&schema),
                    batch.columns().to_vec(),
                    &options,
                )
            })
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let frame = Frame { schema, batches };
        Ok(provider_as_source(scan::frame_provider(&frame)?))
    }

    fn source(&self, name: &TableReference) -> Result<Arc<dyn TableSource>> {
        if let Some(database) = name.catalog() {
            check_database(database)?;
        }
        if let Some(entry) = self.target
            && name.table() == TARGET
            && !self.in_view()
        {
            return self.table(entry, true);
        }
        if let Some(table) = rowids::with_slots(name.table())
            && let Some(Found::Relation(Relation::Table(entry))) =
                self.scope.find(name.schema(), table, self.in_view())?
        {
            return self.table(&entry, true);
        }
        match self
            .scope
            .find(name.schema(), name.table(), self.in_view())?
        {
            Some(Found::Relation(Relation::Table(entry))) => self.table(&entry, false),
            Some(Found::Relation(Relation::View(view))) => self.view(&view),
            Some(Found::Frame(frame)) => self.frame(&frame),
            Some(Found::System(provider)) => Ok(provider_as_source(provider)),
            None => {
                if name.schema().is_none()
                    && let Some(function) = reader(name.table())
                {
                    let path = datafusion::logical_expr::lit(name.table());
                    return self.function(function, vec![path]);
                }
                // SQLite's tables of what there is, and DuckDB's views of what its functions list.
                let listed = |name: &str| {
                    matches!(
                        name,
                        "sqlite_master" | "sqlite_schema" | "pragma_database_list"
                    ) || name.starts_with("duckdb_")
                };
                if name.schema().is_none()
                    && listed(name.table())
                    && let Some(provider) = self.scope.listing(name.table())?
                {
                    return Ok(provider_as_source(provider));
                }
                Err(self.scope.unknown_relation(name.schema(), name.table()))
            }
        }
    }

    /// `firndb_blocks('schema.table')`, `pragma_table_info('schema.table')`.
    fn about_table(&self, function: &str, arguments: &[Expr]) -> Result<Arc<dyn TableSource>> {
        let [Expr::Literal(value, _)] = arguments else {
            return Err(name_wanted(function));
        };
        let Some(Some(text)) = value.try_as_str() else {
            return Err(name_wanted(function));
        };
        let (schema, name) = match text.rsplit_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, text),
        };
        match self.scope.find(schema, name, true)? {
            Some(Found::Relation(Relation::Table(entry))) => {
                Ok(provider_as_source(match function {
                    "firndb_blocks" => crate::metadata::blocks(&entry)?,
                    "pragma_index_list" => crate::metadata::index_list(&entry)?,
                    "pragma_foreign_key_list" => crate::metadata::foreign_key_list(&entry)?,
                    _ => crate::metadata::table_info(&entry)?,
                }))
            }
            Some(_) => Err(Error::new(
                SqlState::WrongObjectType,
                format!("\"{text}\" is not a table"),
            )),
            None => Err(self.scope.unknown_relation(schema, name)),
        }
    }

    fn function(&self, name: &str, arguments: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        if arguments.is_empty()
            && let Some(provider) = crate::metadata::function(&self.scope.catalog, name)?
        {
            return Ok(provider_as_source(provider));
        }
        if arguments.is_empty()
            && let Some(provider) = self.scope.about_session(name)?
        {
            return Ok(provider_as_source(provider));
        }
        match name {
            SHOW_TABLES if arguments.is_empty() => {
                let names = describe::table_names(self.scope);
                return Ok(provider_as_source(crate::metadata::table_names(names)?));
            }
            "query" => return self.query_of_text(&self.constants(arguments)?),
            "query_table" => return self.tables_named(&self.constants(arguments)?),
            "firndb_blocks"
            | "pragma_table_info"
            | "pragma_index_list"
            | "pragma_foreign_key_list" => return self.about_table(name, &arguments),
            "firndb_memory" if arguments.is_empty() => {
                let usage = self.scope.storage.memory();
                return Ok(provider_as_source(crate::metadata::memory(usage)?));
            }
            _ => {}
        }
        let state = &self.scope.state;
        let Some(function) = state.table_functions().get(name) else {
            let error = Error::new(
                SqlState::UndefinedFunction,
                format!("table function \"{name}\" does not exist"),
            );
            let names = state.table_functions().keys().map(String::as_str);
            return Err(match crate::error::nearest(name, names) {
                Some(near) => {
                    error.with_hint(format!("Perhaps you meant the function \"{near}\"."))
                }
                None => error,
            });
        };
        let arguments = self.constants(arguments)?;
        let (arguments, moments) = series_of_moments(name, arguments)?;
        let provider = function
            .create_table_provider_with_args(TableFunctionArgs::new(&arguments, state.as_ref()))?;
        if moments {
            return microseconds(provider, name);
        }
        if matches!(name, "range" | "generate_series") {
            return renamed(provider, &[name.to_owned()]);
        }
        let names = unique_names(&provider.schema());
        for (name, field) in names.iter().zip(provider.schema().fields()) {
            self.scope.remember(name, field.name());
        }
        renamed(provider, &names)
    }

    /// The arguments of a table function, computed as far as they are constants.
    fn constants(&self, arguments: Vec<Expr>) -> Result<Vec<Expr>> {
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.scope.state.config_options()))
            .with_query_execution_start_time(Some(self.scope.started))
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        Ok(arguments
            .into_iter()
            .map(|argument| {
                let argument = crate::expr::expression(argument, &schema)?;
                simplifier.simplify(simplifier.coerce(argument, &schema)?)
            })
            .collect::<std::result::Result<Vec<_>, DataFusionError>>()?)
    }
}

fn name_wanted(function: &str) -> Error {
    Error::new(
        SqlState::UndefinedFunction,
        format!("{function} takes the name of a table"),
    )
    .with_hint(format!("Write {function}('t')."))
}

/// The arguments of a series of dates or timestamps in the nanoseconds that DataFusion counts in, and whether they are.
fn series_of_moments(name: &str, arguments: Vec<Expr>) -> Result<(Vec<Expr>, bool)> {
    let text = |argument: &Expr| matches!(argument, Expr::Literal(value, _) if value.data_type().is_string());
    let is_moment = |argument: &Expr| matches!(argument, Expr::Literal(value, _) if matches!(value.data_type(), DataType::Timestamp(_, None) | DataType::Date32));
    if !matches!(name, "generate_series" | "range") || !arguments.iter().any(is_moment) {
        return Ok((arguments, false));
    }
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let arguments = arguments
        .into_iter()
        .map(|argument| match argument {
            // The step may be written as a text.
            Expr::Literal(value, metadata) if text(&Expr::Literal(value.clone(), None)) => {
                let interval = DataType::Interval(IntervalUnit::MonthDayNano);
                Ok(Expr::Literal(value.cast_to(&interval)?, metadata))
            }
            Expr::Literal(value, metadata) if is_moment(&Expr::Literal(value.clone(), None)) => {
                Ok(Expr::Literal(value.cast_to(&nanoseconds)?, metadata))
            }
            other => Ok(other),
        })
        .collect::<std::result::Result<Vec<_>, DataFusionError>>()?;
    Ok((arguments, true))
}

/// A series of timestamps in microseconds, its column named after the function.
fn microseconds(provider: Arc<dyn TableProvider>, name: &str) -> Result<Arc<dyn TableSource>> {
    let source = provider_as_source(provider);
    let plan = LogicalPlanBuilder::scan("source", source, None)?.build()?;
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .map(|column| {
            let stamp = DataType::Timestamp(TimeUnit::Microsecond, None);
            datafusion::logical_expr::cast(Expr::Column(Column::from(column)), stamp).alias(name)
        })
        .collect();
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
}

/// A provider under other column names: a projection over it, which the optimizer pushes down.
fn renamed(provider: Arc<dyn TableProvider>, names: &[String]) -> Result<Arc<dyn TableSource>> {
    let schema = provider.schema();
    let source = provider_as_source(provider);
    if schema
        .fields()
        .iter()
        .zip(names)
        .all(|(field, name)| field.name() == name)
    {
        return Ok(source);
    }
    let plan = LogicalPlanBuilder::scan("source", source, None)?.build()?;
    let plan = rename_plan(plan, names)?;
    Ok(provider_as_source(Arc::new(ViewTable::new(plan, None))))
}

/// A plan whose columns have these names.
fn rename_plan(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .iter()
        .zip(names)
        .map(|((qualifier, field), name)| {
            Expr::Column(Column::from((qualifier, field))).alias(name.as_str())
        })
        .collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}

/// The columns that a view had when it was created, in their order: `*` may yield more by now.
fn select_outputs(plan: LogicalPlan, view: &ViewEntry) -> Result<LogicalPlan> {
    let fields = plan.schema().fields();
    if fields.len() == view.outputs.len()
        && fields
            .iter()
            .zip(&view.outputs)
            .all(|(field, output)| field.name() == output)
    {
        return Ok(plan);
    }
    let columns: Option<Vec<Expr>> = view
        .outputs
        .iter()
        .map(|output| {
            let mut found = plan
                .schema()
                .iter()
                .filter(|(_, field)| field.name() == output);
            let column = found.next().map(|field| Expr::Column(Column::from(field)));
            column.filter(|_| found.next().is_none())
        })
        .collect();
    match columns {
        Some(columns) => Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?),
        None => Err(Error::new(
            SqlState::InvalidTableDefinition,
            format!("view \"{}\" no longer fits the tables under it", view.name),
        )
        .with_hint("Create the view again.")),
    }
}

/// The names of a foreign schema, folded; those that come again get a number.
fn unique_names(schema: &Schema) -> Vec<String> {
    let mut taken = HashSet::new();
    schema
        .fields()
        .iter()
        .map(|field| {
            let folded = fold(field.name());
            let mut name = folded.clone();
            let mut number = 1;
            while !taken.insert(name.clone()) {
                name = format!("{folded}_{number}");
                number += 1;
            }
            name
        })
        .collect()
}

/// The function that reads a file of this name.
fn reader(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    FILE_READERS
        .iter()
        .find(|(ending, _)| lower.ends_with(ending))
        .map(|(_, function)| *function)
}

impl ContextProvider for Binder<'_> {
    fn get_table_source(
        &self,
        name: TableReference,
    ) -> std::result::Result<Arc<dyn TableSource>, DataFusionError> {
        Ok(self.source(&name)?)
    }

    fn get_table_function_source(
        &self,
        name: &str,
        arguments: Vec<Expr>,
    ) -> std::result::Result<Arc<dyn TableSource>, DataFusionError> {
        Ok(self.function(name, arguments)?)
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> std::result::Result<Arc<dyn TableSource>, DataFusionError> {
        Ok(provider_as_source(Arc::new(
            scan::recursion::RecursionTable::new(name, schema),
        )))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.scope.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        forms::relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        let catalog = &self.scope.catalog;
        let schemas = self.scope.path.iter().rev().map(String::as_str);
        let named: HashMap<String, NamedType> = schemas
            .chain([TEMPORARY_SCHEMA])
            .flat_map(|schema| catalog.types(schema))
            .map(|entry| (fold(&entry.name), entry.definition.clone()))
            .collect();
        if named.is_empty() {
            return self.scope.type_planner.clone();
        }
        Some(Arc::new(TypeNames { named }))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let scope = self.scope;
        sequences::sequence_function(name, &scope.catalog, &scope.path, &scope.given)
            .or_else(|| scope.state.scalar_functions().get(name).cloned())
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.scope.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.scope.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        let known = self.scope.state.window_functions().get(name).cloned();
        known.or_else(|| excluding_function(name, |name| self.get_aggregate_meta(name)))
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.scope.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.scope
            .state
            .scalar_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.scope
            .state
            .higher_order_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.scope
            .state
            .aggregate_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.scope
            .state
            .window_functions()
            .keys()
            .cloned()
            .collect()
    }
}
