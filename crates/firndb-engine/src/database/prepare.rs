//! PREPARE, EXECUTE, DEALLOCATE, and one statement over many rows of parameters.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, Expr, SetExpr, TableObject, Value};

use super::execute::{Call, arguments, located};
use super::session::{Inner, Session};
use crate::compiled::{Datum, Program};
use crate::error::{Error, Result, SqlState};
use crate::parse::{
    self, Arguments, Command, OVERRIDING_SYSTEM, OVERRIDING_USER, ParameterNames, Parsed,
    ParsedText, Source,
};
use crate::session::{Outcome, Parameters};
use crate::statement::{self, Numbers, Work, dml};
use crate::types::one_nan;
use crate::{expr, types};

/// A statement that PREPARE named.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    statement: Parsed,
    parameters: ParameterNames,
    types: Vec<ast::DataType>,
}

impl Session {
    /// PREPARE, EXECUTE, DEALLOCATE.
    pub(super) fn prepared_statement(
        &self,
        inner: &mut Inner,
        statement: &ast::Statement,
        parsed: &Parsed,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        match statement {
            ast::Statement::Prepare {
                name,
                data_types,
                statement,
            } => {
                if inner.prepared.contains_key(&name.value) {
                    return Err(Error::new(
                        SqlState::DuplicateObject,
                        format!("prepared statement \"{}\" already exists", name.value),
                    ));
                }
                let prepared = PreparedStatement {
                    statement: Parsed {
                        command: Command::Sql(statement.clone()),
                        inner: None,
                        ..parsed.clone()
                    },
                    parameters: parsed.inner.clone().unwrap_or_default(),
                    types: data_types.clone(),
                };
                inner.prepared.insert(name.value.clone(), prepared);
                Ok(Outcome::done("PREPARE"))
            }
            ast::Statement::Execute {
                name: Some(name),
                parameters,
                using,
                immediate: false,
                ..
            } => {
                if !using.is_empty() {
                    return Err(Error::unsupported("EXECUTE … USING is not supported"));
                }
                let name = name.to_string();
                let prepared = inner
                    .prepared
                    .get(&name)
                    .cloned()
                    .ok_or_else(|| unknown(&name))?;
                self.execute_named(inner, &prepared, parameters, call, source)
            }
            ast::Statement::Deallocate { name, .. } => {
                if name.value == "all" {
                    inner.prepared.clear();
                } else if inner.prepared.remove(&name.value).is_none() {
                    return Err(unknown(&name.value));
                }
                Ok(Outcome::done("DEALLOCATE"))
            }
            other => Err(Error::unsupported(format!("not supported: {other}"))),
        }
    }

    /// SET VARIABLE.
    pub(super) fn set_variable(
        &self,
        inner: &mut Inner,
        name: &str,
        query: &ast::Query,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let values = self.run_in_transaction(
            inner,
            call,
            async |work| evaluate(work, query).await,
            source,
        )?;
        let value = values.into_iter().next().unwrap_or(ScalarValue::Null);
        inner.variables.insert(name.to_owned(), value);
        Ok(Outcome::done("SET"))
    }

    fn execute_named(
        &self,
        inner: &mut Inner,
        prepared: &PreparedStatement,
        expressions: &[Expr],
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let (names, expressions) = named_values(expressions)?;
        let values = if expressions.is_empty() {
            Vec::new()
        } else {
            let query = values_query(&expressions)?;
            self.run_in_transaction(
                inner,
                call,
                async |work| evaluate(work, &query).await,
                source,
            )?
        };
        let values = prepared
            .types
            .iter()
            .map(Some)
            .chain(std::iter::repeat(None))
            .zip(values)
            .map(|(data_type, value)| match data_type {
                Some(data_type) => typed(&value, data_type),
                None => Ok(value),
            })
            .collect::<Result<Vec<_>>>()?;
        let given = match names {
            Some(names) => {
                let named = names.into_iter().zip(values).collect();
                Arguments::named(&prepared.parameters, &named)?
            }
            None => Arguments::positional(&prepared.parameters, &values)?,
        };
        let mut call = Call::new(
            &prepared.statement,
            Arc::new(given),
            call.frames.clone(),
            Arc::clone(&call.cancellation),
        );
        let command = self.bound(inner, &prepared.statement, &mut call)?;
        self.run_in_transaction(
            inner,
            &call,
            async |work| statement::run(work, command.as_ref()).await,
            source,
        )
    }

    /// Runs a statement once for each row of parameters, all in one statement.
    pub(super) fn run_many(
        &self,
        inner: &mut Inner,
        sql: &str,
        text: &ParsedText,
        rows: Vec<Parameters>,
    ) -> Result<u64> {
        let [statement] = text.statements.as_slice() else {
            return Err(Error::new(
                SqlState::SyntaxError,
                "exactly one statement can run with many rows of parameters",
            ));
        };
        let Command::Sql(ast) = &statement.command else {
            return Err(not_a_write());
        };
        if !matches!(
            **ast,
            ast::Statement::Insert(_)
                | ast::Statement::Update(_)
                | ast::Statement::Delete(_)
                | ast::Statement::Merge(_)
        ) {
            return Err(not_a_write());
        }
        let bound = rows
            .iter()
            .map(|row| arguments(&text.parameters, row))
            .collect::<Result<Vec<_>>>()?;
        if bound.is_empty() {
            return Ok(0);
        }
        let call = Call::new(statement, Arc::default(), None, self.running.begin());
        let load = plain_insert(ast);
        let program = match &load {
            Some(_) => None,
            None => self.program_of(inner, sql, text),
        };
        self.run_in_transaction(
            inner,
            &call,
            async |work| match &load {
                Some(insert) => {
                    let column = |parameter, field: &_| parameter_column(&bound, parameter, field);
                    load_rows(work, insert, column).await
                }
                None => {
                    self.each_row(work, statement, &bound, program.as_ref())
                        .await
                }
            },
            &text.source,
        )
        .map_err(|error| located(error, &text.source))
    }

    /// Runs an INSERT of one row of parameters for many rows, given by columns; `None` if the statement is none.
    pub(super) fn run_columns(
        &self,
        inner: &mut Inner,
        text: &ParsedText,
        columns: &[ArrayRef],
    ) -> Result<Option<u64>> {
        let [statement] = text.statements.as_slice() else {
            return Ok(None);
        };
        let Command::Sql(ast) = &statement.command else {
            return Ok(None);
        };
        let is_given = text.parameters.named.is_empty()
            && text.parameters.positional == columns.len()
            && columns.first().is_some_and(|column| !column.is_empty());
        let (true, Some(insert)) = (is_given, plain_insert(ast)) else {
            return Ok(None);
        };
        let call = Call::new(statement, Arc::default(), None, self.running.begin());
        let column = |parameter: usize, _: &FieldRef| {
            let column = columns.get(parameter);
            Ok(one_nan(column.ok_or_else(|| no_parameter(parameter))?)?)
        };
        self.run_in_transaction(
            inner,
            &call,
            async |work| load_rows(work, &insert, column).await,
            &text.source,
        )
        .map(Some)
        .map_err(|error| located(error, &text.source))
    }

    /// One after the other; each sees what the ones before it did.
    async fn each_row(
        &self,
        work: &mut Work<'_>,
        statement: &Parsed,
        rows: &[Arguments],
        program: Option<&(Arc<Program>, u64)>,
    ) -> Result<u64> {
        let program = program
            .filter(|(_, version)| {
                work.changes.version() == Some(*version) && !work.context.read_only
            })
            .map(|(program, _)| program);
        let mut affected = 0;
        for row in rows {
            work.context.cancellation().check()?;
            let transaction = &work.context.transaction;
            if let (Some(program), Some(data)) = (program, Datum::all(row.values())) {
                let place = transaction.begin_statement();
                if let Ok(Some(done)) = program.write(transaction, &data) {
                    affected += done.affected.unwrap_or(0);
                    continue;
                }
                transaction.rollback_to(&place);
            }
            let command = parse::bind(&statement.command, row);
            transaction.begin_statement();
            let context = work.context.renewed(row.clone());
            let mut step = Work {
                context: &context,
                changes: work.changes,
                source: work.source,
            };
            let outcome = statement::run(&mut step, command.as_ref()).await?;
            affected += outcome.affected.unwrap_or(0);
        }
        Ok(affected)
    }
}

/// An INSERT of one row of bare parameters, without anything that looks at rows one by one.
struct PlainInsert {
    table: ast::ObjectName,
    columns: Vec<ast::Ident>,
    /// The parameter for each column, from 0.
    parameters: Vec<usize>,
}

fn plain_insert(statement: &ast::Statement) -> Option<PlainInsert> {
    let ast::Statement::Insert(insert) = statement else {
        return None;
    };
    let TableObject::TableName(table) = &insert.table else {
        return None;
    };
    if insert.on.is_some() || insert.returning.is_some() || insert.or.is_some() || insert.overwrite
    {
        return None;
    }
    let source = insert.source.as_ref()?;
    if source.with.is_some() || source.order_by.is_some() || source.limit_clause.is_some() {
        return None;
    }
    let SetExpr::Values(values) = source.body.as_ref() else {
        return None;
    };
    let [row] = values.rows.as_slice() else {
        return None;
    };
    let parameters = row
        .iter()
        .map(|expression| match expression {
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => name
                    .trim_start_matches('$')
                    .parse::<usize>()
                    .ok()?
                    .checked_sub(1),
                _ => None,
            },
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    let columns = insert
        .columns
        .iter()
        .map(|name| match name.0.as_slice() {
            [part] => part
                .as_ident()
                .filter(|name| !is_overriding(&name.value))
                .cloned(),
            _ => None,
        })
        .collect::<Option<Vec<_>>>()?;
    Some(PlainInsert {
        table: table.clone(),
        columns,
        parameters,
    })
}

fn is_overriding(column: &str) -> bool {
    matches!(column, OVERRIDING_SYSTEM | OVERRIDING_USER)
}

/// Loads rows of parameters at once, which `values` gives by columns.
async fn load_rows(
    work: &mut Work<'_>,
    insert: &PlainInsert,
    values: impl Fn(usize, &FieldRef) -> Result<ArrayRef>,
) -> Result<u64> {
    let context = work.context;
    context.check_writable("INSERT")?;
    let entry = context.table(&insert.table)?;
    let positions: Vec<usize> = if insert.columns.is_empty() {
        (0..insert.parameters.len()).collect()
    } else {
        let mut positions = Vec::with_capacity(insert.columns.len());
        for column in &insert.columns {
            let position = entry
                .column(&column.value)
                .ok_or_else(|| statement::unknown_column(&entry, &column.value))?;
            if positions.contains(&position) {
                return Err(Error::new(
                    SqlState::DuplicateColumn,
                    format!("column \"{}\" specified more than once", column.value),
                ));
            }
            positions.push(position);
        }
        positions
    };
    if insert.parameters.len() > positions.len() || positions.len() > entry.columns.len() {
        return Err(Error::new(
            SqlState::SyntaxError,
            "INSERT has more expressions than target columns",
        ));
    }
    if insert.parameters.len() < positions.len() {
        return Err(Error::new(
            SqlState::SyntaxError,
            "INSERT has more target columns than expressions",
        ));
    }
    let mut fields = Vec::with_capacity(positions.len());
    let mut columns = Vec::with_capacity(positions.len());
    for (position, parameter) in positions.iter().zip(&insert.parameters) {
        let field = &entry.columns[*position].field;
        let column = values(*parameter, field)?;
        fields.push(Field::new(
            field.name().clone(),
            column.data_type().clone(),
            true,
        ));
        columns.push(column);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(
        schema,
        futures::stream::iter([Ok(batch)]),
    ));
    dml::load(context, &entry, &positions, stream, Numbers::Own).await
}

/// The k-th parameter of all rows as one array: of their own type when they agree, else of the column's.
fn parameter_column(rows: &[Arguments], parameter: usize, field: &FieldRef) -> Result<ArrayRef> {
    let values = rows
        .iter()
        .map(|row| {
            row.get(parameter)
                .cloned()
                .ok_or_else(|| no_parameter(parameter))
        })
        .collect::<Result<Vec<ScalarValue>>>()?;
    let kind = values
        .iter()
        .filter(|value| !value.is_null())
        .map(ScalarValue::data_type)
        .next()
        .unwrap_or(DataType::Null);
    let agree = values
        .iter()
        .all(|value| value.is_null() || value.data_type() == kind);
    if agree {
        let values = values.into_iter().map(|value| {
            if value.is_null() {
                ScalarValue::try_from(&kind).unwrap_or(ScalarValue::Null)
            } else {
                value
            }
        });
        return Ok(ScalarValue::iter_to_array(values)?);
    }
    let converted = values
        .iter()
        .map(|value| expr::assign(&value.to_array()?, field))
        .collect::<Result<Vec<_>>>()?;
    let parts: Vec<&dyn Array> = converted.iter().map(AsRef::as_ref).collect();
    Ok(concat(&parts)?)
}

fn no_parameter(parameter: usize) -> Error {
    Error::new(
        SqlState::UndefinedParameter,
        format!("there is no parameter ${}", parameter + 1),
    )
}

/// `SELECT e1, e2, …`.
/// The names of `EXECUTE p(name := value)`, if there are any, and the values.
fn named_values(expressions: &[Expr]) -> Result<(Option<Vec<String>>, Vec<Expr>)> {
    let mut names = Vec::new();
    let mut values = Vec::with_capacity(expressions.len());
    for expression in expressions {
        match expression {
            Expr::BinaryOp {
                left,
                op: ast::BinaryOperator::Assignment,
                right,
            } if let Expr::Identifier(name) = left.as_ref() => {
                names.push(name.value.clone());
                values.push(right.as_ref().clone());
            }
            value => values.push(value.clone()),
        }
    }
    match names.len() {
        0 => Ok((None, values)),
        named if named == values.len() => Ok((Some(names), values)),
        _ => Err(Error::new(
            SqlState::SyntaxError,
            "the parameters of EXECUTE are either all by position or all by name",
        )),
    }
}

fn values_query(expressions: &[Expr]) -> Result<ast::Query> {
    let mut query = parse::parse_query("SELECT 1")?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = expressions
            .iter()
            .enumerate()
            .map(|(number, expression)| ast::SelectItem::ExprWithAlias {
                expr: expression.clone(),
                alias: ast::Ident::with_quote('"', format!("parameter_{number}")),
            })
            .collect();
    }
    Ok(query)
}

/// The values of a query's only row.
async fn evaluate(work: &mut Work<'_>, query: &ast::Query) -> Result<Vec<ScalarValue>> {
    let context = work.context;
    let plan = context.plan_query(query, None).await?;
    let mut stream = context.run(plan).await?;
    let mut values = Vec::new();
    while let Some(batch) = futures::StreamExt::next(&mut stream).await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            for column in batch.columns() {
                values.push(ScalarValue::try_from_array(column, 0)?);
            }
        }
    }
    Ok(values)
}

/// A parameter's value in the type that PREPARE gives it.
fn typed(value: &ScalarValue, data_type: &ast::DataType) -> Result<ScalarValue> {
    let field = types::column_field("parameter", data_type, true, &|_| None)?;
    let array = expr::assign(&value.to_array()?, &field)?;
    Ok(ScalarValue::try_from_array(&array, 0)?)
}

fn unknown(name: &str) -> Error {
    Error::new(
        SqlState::InvalidSqlStatementName,
        format!("prepared statement \"{name}\" does not exist"),
    )
}

fn not_a_write() -> Error {
    Error::new(
        SqlState::FeatureNotSupported,
        "only INSERT, UPDATE, DELETE and MERGE run with many rows of parameters",
    )
}
