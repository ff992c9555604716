//! INSERT and loads.
//!
//! ```text
//! VALUES | SELECT | DEFAULT VALUES | stream ─▶ assign, defaults ─▶ NOT NULL, CHECK ─▶ ON CONFLICT ─▶ write ─▶ RETURNING
//! ```
//!
//! Rows go through in batches. The source reads the statement's snapshot, in which the statement's own rows are not, so writing
//! while it runs changes nothing that it reads: `INSERT INTO t SELECT … FROM t` ends.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::{interleave, take};
use datafusion::common::DFSchema;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast;
use futures::TryStreamExt;

use super::conflict::Upsert;
use super::query::identifier;
use super::returning::Returning;
use super::target::{Overriding, Proposed};
use super::write::Writer;
use super::{Numbers, Target, generated, values};
use crate::catalog::TableEntry;
use crate::parse::{OVERRIDING_SYSTEM, OVERRIDING_USER};
use crate::session::Outcome;
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState};

/// Runs an INSERT.
pub(super) async fn run(
    context: &StatementContext,
    insert: &ast::Insert,
    with: Option<&ast::With>,
) -> Result<Outcome> {
    refuse_other_dialects(insert)?;
    let ast::TableObject::TableName(name) = &insert.table else {
        return Err(Error::unsupported("INSERT into a function or a query"));
    };
    let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
    let mut target = Target::new(context, name, alias)?;
    let (given, overriding) = overriding(&insert.columns);
    target.override_identities(overriding);
    let by_name = is_by_name(given);
    let named = match by_name {
        true => None,
        false => column_list(&target, given)?,
    };
    let upsert = match (&insert.on, insert.or) {
        (Some(ast::OnInsert::OnConflict(clause)), None) => {
            Some(Upsert::plan(&target, clause, with).await?)
        }
        (None, Some(ast::SqliteOnConflict::Ignore)) => {
            let clause = ast::OnConflict {
                conflict_target: None,
                action: ast::OnConflictAction::DoNothing,
            };
            Some(Upsert::plan(&target, &clause, with).await?)
        }
        (None, Some(ast::SqliteOnConflict::Replace)) => Some(Upsert::replace(&target).await?),
        (None, None) if insert.replace_into => Some(Upsert::replace(&target).await?),
        (None, None | Some(ast::SqliteOnConflict::Abort)) => None,
        _ => return Err(Error::unsupported("this conflict clause of INSERT")),
    };
    let returning = match &insert.returning {
        Some(items) => Some(Returning::over_target(&target, items, with).await?),
        None => None,
    };
    let mut insertion = Insertion::new(&target, upsert, returning);
    match &insert.source {
        None => insertion.add(&[], Vec::new(), 1).await?,
        Some(source) => match plain_values(source) {
            Some(_) if by_name => {
                return Err(Error::new(
                    SqlState::SyntaxError,
                    "INSERT BY NAME needs a query whose columns have names",
                ));
            }
            Some(list) => {
                let width = list.rows.first().map_or(0, |row| row.content.len());
                let columns = destination(&target, named.as_deref(), width)?;
                let with = both(with, source.with.as_ref());
                let arrays = values::evaluate(&target, &columns, list, with.as_ref()).await?;
                insertion
                    .add_assigned(&columns, arrays, list.rows.len())
                    .await?;
            }
            None => {
                let mut query = source.as_ref().clone();
                query.with = both(with, source.with.as_ref());
                let plan = context.plan_query(&query, None).await?;
                let width = plan.schema().fields().len();
                let named = match by_name {
                    true => Some(columns_named(&target, plan.schema())?),
                    false => named,
                };
                let columns = destination(&target, named.as_deref(), width)?;
                if let Some(&column) = columns.iter().find(|&&one| target.is_own(one)) {
                    return Err(generated::refuse_insert(&target, column));
                }
                let stream = context.run(plan).await?;
                insertion.add_stream(&columns, stream).await?;
            }
        },
    }
    insertion.finish().await
}

/// Runs a load: see [`super::load`].
pub(super) async fn load(
    context: &StatementContext,
    table: &Arc<TableEntry>,
    columns: &[usize],
    rows: SendableRecordBatchStream,
    numbers: Numbers,
) -> Result<u64> {
    let target = Target::of(context, Arc::clone(table), identifier(&table.name))?;
    if numbers == Numbers::Own
        && let Some(&column) = columns.iter().find(|&&one| target.is_own(one))
    {
        return Err(generated::refuse_insert(&target, column));
    }
    if rows.schema().fields().len() != columns.len() {
        return Err(Error::internal(
            "a load names a column for each of its rows' columns",
        ));
    }
    let mut insertion = Insertion::new(&target, None, None);
    insertion.add_stream(columns, rows).await?;
    let outcome = insertion.finish().await?;
    Ok(outcome.affected.unwrap_or(0))
}

/// An INSERT at work.
struct Insertion<'t> {
    target: &'t Target<'t>,
    upsert: Option<Upsert>,
    returning: Option<Returning>,
    writer: Writer<'t>,
    updated: u64,
}

impl<'t> Insertion<'t> {
    fn new(target: &'t Target<'t>, upsert: Option<Upsert>, returning: Option<Returning>) -> Self {
        Insertion {
            target,
            upsert,
            returning,
            writer: Writer::new(target.table(), &target.context().transaction),
            updated: 0,
        }
    }

    async fn add_stream(
        &mut self,
        columns: &[usize],
        mut rows: SendableRecordBatchStream,
    ) -> Result<()> {
        while let Some(batch) = rows.try_next().await? {
            let count = batch.num_rows();
            if count > 0 {
                self.add(columns, batch.columns().to_vec(), count).await?;
            }
        }
        Ok(())
    }

    /// Adds rows of which `columns` are given, in any type.
    async fn add(&mut self, columns: &[usize], given: Vec<ArrayRef>, rows: usize) -> Result<()> {
        // ON CONFLICT and RETURNING compute with the rows; otherwise only storage sees them.
        let goes_to_storage = self.upsert.is_none() && self.returning.is_none();
        let assigned = columns
            .iter()
            .zip(&given)
            .map(|(&column, values)| match goes_to_storage {
                true => self.target.accept(values, column),
                false => self.target.assign(values, column),
            })
            .collect::<Result<_>>()?;
        self.add_assigned(columns, assigned, rows).await
    }

    /// As [`Insertion::add`], of the columns' types.
    async fn add_assigned(
        &mut self,
        columns: &[usize],
        given: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<()> {
        let mut complete: Vec<Option<ArrayRef>> = vec![None; self.target.width()];
        for (&column, values) in columns.iter().zip(given) {
            if !self.target.takes_own(column) {
                complete[column] = Some(values);
            }
        }
        self.target.number(&mut complete, columns)?;
        for (column, values) in complete.iter_mut().enumerate() {
            if values.is_none() {
                *values = Some(self.target.default(column, rows)?);
            }
        }
        self.target.generate(&mut complete, rows)?;
        self.target.enforce(&Proposed {
            columns: &complete,
            rows,
            slots: None,
        })?;
        let complete: Vec<ArrayRef> = complete.into_iter().flatten().collect();
        match self.upsert {
            Some(_) => self.merge(complete, rows).await,
            None => {
                if let Some(returning) = &mut self.returning {
                    returning.add(complete.clone(), rows)?;
                }
                self.writer.write(self.target.inserted(complete, rows)?)
            }
        }
    }

    /// Inserts what is new and updates what conflicts; RETURNING keeps the order of the proposed rows.
    async fn merge(&mut self, complete: Vec<ArrayRef>, rows: usize) -> Result<()> {
        let Some(upsert) = &mut self.upsert else {
            return Err(Error::internal("an insertion without ON CONFLICT"));
        };
        let resolution = upsert.resolve(self.target, &complete, rows)?;
        let updated = upsert.update(self.target, &complete, &resolution).await?;
        let fresh = UInt64Array::from_iter_values(resolution.fresh.iter().copied());
        let inserted: Vec<ArrayRef> = complete
            .iter()
            .map(|column| take(column, &fresh, None))
            .collect::<std::result::Result<_, _>>()?;
        if let Some(returning) = &mut self.returning {
            let mut order: Vec<(u64, (usize, usize))> = Vec::new();
            let places = |part: usize, rows: &[u64]| {
                let places = rows.iter().enumerate();
                let places = places.map(move |(place, &row)| (row, (part, place)));
                places.collect::<Vec<_>>()
            };
            order.extend(places(0, &resolution.fresh));
            order.extend(places(1, &updated.rows));
            order.sort_unstable();
            let order: Vec<(usize, usize)> = order.into_iter().map(|(_, place)| place).collect();
            let columns = inserted.iter().zip(&updated.columns);
            let columns = columns
                .map(|(inserted, updated)| {
                    interleave(&[inserted.as_ref(), updated.as_ref()], &order)
                })
                .collect::<std::result::Result<_, _>>()?;
            returning.add(columns, order.len())?;
        }
        self.updated += updated.rows.len() as u64;
        self.writer
            .write(self.target.inserted(inserted, resolution.fresh.len())?)
    }

    async fn finish(self) -> Result<Outcome> {
        let inserted = self.writer.finish()?;
        self.target.complete()?;
        let rows = match self.returning {
            Some(returning) => Some(returning.finish(self.target).await?),
            None => None,
        };
        Ok(Outcome {
            tag: "INSERT",
            affected: Some(inserted + self.updated),
            rows,
        })
    }
}

/// The positions of a column list; `None` if there is no list.
pub(super) fn column_list(
    target: &Target,
    names: &[ast::ObjectName],
) -> Result<Option<Vec<usize>>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = target.position(name)?;
        if columns.contains(&column) {
            return Err(Error::new(
                SqlState::DuplicateColumn,
                format!(
                    "column \"{}\" specified more than once",
                    target.schema().field(column).name()
                ),
            ));
        }
        columns.push(column);
    }
    Ok((!names.is_empty()).then_some(columns))
}

/// The columns of a list without what stands behind them for OVERRIDING.
fn overriding(names: &[ast::ObjectName]) -> (&[ast::ObjectName], Option<Overriding>) {
    let marker = names
        .last()
        .and_then(|name| name.0.last()?.as_ident())
        .map(|name| name.value.as_str());
    let overriding = match marker {
        Some(OVERRIDING_SYSTEM) => Overriding::System,
        Some(OVERRIDING_USER) => Overriding::User,
        _ => return (names, None),
    };
    (&names[..names.len() - 1], Some(overriding))
}

/// Whether the list of columns is what INSERT BY NAME has in its place.
fn is_by_name(names: &[ast::ObjectName]) -> bool {
    matches!(names, [only] if only.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == crate::parse::BY_NAME))
}

/// The target's columns of the names of a query's.
fn columns_named(target: &Target, schema: &DFSchema) -> Result<Vec<usize>> {
    let names: Vec<ast::ObjectName> = schema
        .fields()
        .iter()
        .map(|field| ast::ObjectName::from(identifier(field.name())))
        .collect();
    column_list(target, &names).map(Option::unwrap_or_default)
}

/// The columns that `width` expressions go to. Without a list, the first ones; the rest take their defaults.
pub(super) fn destination(
    target: &Target,
    named: Option<&[usize]>,
    width: usize,
) -> Result<Vec<usize>> {
    // Generated columns are passed over, unless there are values for all columns: DEFAULT may stand among them.
    let ordinary: Vec<usize> = (0..target.width())
        .filter(|&column| width == target.width() || !target.is_generated(column))
        .collect();
    let available = named.map_or(ordinary.len(), <[usize]>::len);
    if width > available {
        return Err(Error::new(
            SqlState::SyntaxError,
            "INSERT has more expressions than target columns",
        ));
    }
    match named {
        Some(columns) if width < columns.len() => Err(Error::new(
            SqlState::SyntaxError,
            "INSERT has more target columns than expressions",
        )),
        Some(columns) => Ok(columns.to_vec()),
        None => Ok(ordinary[..width].to_vec()),
    }
}

/// The list of a source that is VALUES and nothing else.
fn plain_values(source: &ast::Query) -> Option<&ast::Values> {
    let ast::SetExpr::Values(values) = source.body.as_ref() else {
        return None;
    };
    let plain = source.order_by.is_none()
        && source.limit_clause.is_none()
        && source.fetch.is_none()
        && source.locks.is_empty()
        && source.for_clause.is_none()
        && source.settings.is_none()
        && source.format_clause.is_none()
        && source.pipe_operators.is_empty();
    plain.then_some(values)
}

/// The WITH clause before the statement and the one before its source, as one.
fn both(outer: Option<&ast::With>, inner: Option<&ast::With>) -> Option<ast::With> {
    match (outer, inner) {
        (Some(outer), Some(inner)) => {
            let mut both = outer.clone();
            both.recursive |= inner.recursive;
            both.cte_tables.extend(inner.cte_tables.iter().cloned());
            Some(both)
        }
        (one, other) => one.or(other).cloned(),
    }
}

fn refuse_other_dialects(insert: &ast::Insert) -> Result<()> {
    let foreign = insert.ignore
        || insert.overwrite
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || !insert.assignments.is_empty()
        || insert.output.is_some()
        || insert.priority.is_some()
        || insert.insert_alias.is_some()
        || insert.settings.is_some()
        || insert.format_clause.is_some()
        || insert.multi_table_insert_type.is_some();
    match foreign {
        true => Err(Error::unsupported("this form of INSERT is not supported")),
        false => Ok(()),
    }
}
