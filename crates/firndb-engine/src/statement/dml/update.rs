//! UPDATE and DELETE: a query over the target yields slots, new values and what checks and RETURNING need; each batch is
//! applied as it comes.
//!
//! Applying while the query runs is sound: every scan of the statement reads the statement's snapshot, which shows none of the
//! statement's own writes, and a slot keeps naming the row that the snapshot sees. A row that several rows of FROM match is
//! changed once, by the first of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::UInt64Type;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use firndb_storage::Slot;
use futures::TryStreamExt;

use super::Target;
use super::assignment::Assignments;
use super::point::{Point, PointUpdate};
use super::query::{
    SLOT, Template, alone, always, column, output, select, target as target_relation,
    target_columns,
};
use super::returning::Returning;
use super::target::Proposed;
use super::write::SlotSet;
use crate::session::Outcome;
use crate::statement::StatementContext;
use crate::{Error, Result};

/// Runs an UPDATE.
pub(super) async fn update(
    context: &StatementContext,
    update: &ast::Update,
    with: Option<&ast::With>,
) -> Result<Outcome> {
    if update.output.is_some()
        || update.or.is_some()
        || !update.order_by.is_empty()
        || update.limit.is_some()
    {
        return Err(Error::unsupported("this form of UPDATE is not supported"));
    }
    let others = match &update.from {
        None => &[][..],
        Some(
            ast::UpdateTableFromKind::BeforeSet(from) | ast::UpdateTableFromKind::AfterSet(from),
        ) => from,
    };
    let target = find_target(context, &update.table)?;
    let assignments = Assignments::resolve(&target, &update.assignments)?;
    if others.is_empty()
        && with.is_none()
        && let Some(point) = Point::of(&target, update.selection.as_ref())
        && let Some(change) = PointUpdate::compile(&target, &assignments)
    {
        let mut returning = returning_of(&target, update.returning.as_deref()).await?;
        let slots = point.find(&target)?;
        if !slots.is_empty() {
            let row = change.apply(&target, &slots)?;
            if let Some(returning) = &mut returning {
                returning.add(row, slots.len())?;
            }
        }
        return finish("UPDATE", slots.len() as u64, returning, &target).await;
    }
    let needed = match update.returning {
        Some(_) => unset(&target, assignments.columns()),
        None => target.columns_to_check(assignments.columns()),
    };
    let mut projection = vec![column(target.name(), SLOT)];
    projection.extend_from_slice(assignments.expressions());
    projection.extend(stored(&target, &needed));
    let parts = Parts {
        target: &target,
        projection,
        others,
        condition: update.selection.as_ref(),
        returning: update.returning.as_deref(),
        with,
    };
    let (plan, mut returning) = parts.plan().await?;
    let values = assignments.expressions().len();
    let written = target.with_generated(assignments.columns());
    let mut affected = 0;
    let mut seen = Seen::new(!others.is_empty());
    let mut rows = context.run(plan).await?;
    while let Some(batch) = rows.try_next().await? {
        let Some((batch, slots)) = seen.first_matches(batch)? else {
            continue;
        };
        let results = batch.columns();
        let mut new = assignments.values(&target, &results[1..1 + values])?;
        let mut known: Vec<Option<ArrayRef>> = vec![None; target.width()];
        for (&position, column) in needed.iter().zip(&results[1 + values..]) {
            known[position] = Some(Arc::clone(column));
        }
        for (&position, column) in assignments.columns().iter().zip(&new) {
            known[position] = Some(Arc::clone(column));
        }
        target.regenerate(assignments.columns(), &mut new, &mut known, slots.len())?;
        target.enforce(&Proposed {
            columns: &known,
            rows: slots.len(),
            slots: Some(&slots),
        })?;
        target.update(&slots, &written, new)?;
        affected += slots.len() as u64;
        if let Some(returning) = &mut returning {
            let mut columns: Vec<ArrayRef> = known.into_iter().flatten().collect();
            columns.extend_from_slice(&results[1 + values + needed.len()..]);
            returning.add(columns, slots.len())?;
        }
    }
    finish("UPDATE", affected, returning, &target).await
}

/// Runs a DELETE.
pub(super) async fn delete(
    context: &StatementContext,
    delete: &ast::Delete,
    with: Option<&ast::With>,
) -> Result<Outcome> {
    if !delete.tables.is_empty()
        || delete.output.is_some()
        || !delete.order_by.is_empty()
        || delete.limit.is_some()
    {
        return Err(Error::unsupported("this form of DELETE is not supported"));
    }
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
        &delete.from;
    let [relation] = from.as_slice() else {
        return Err(Error::unsupported("DELETE from several tables"));
    };
    let target = find_target(context, relation)?;
    let others = delete.using.as_deref().unwrap_or_default();
    if others.is_empty()
        && with.is_none()
        && let Some(point) = Point::of(&target, delete.selection.as_ref())
    {
        let mut returning = returning_of(&target, delete.returning.as_deref()).await?;
        let slots = point.find(&target)?;
        if let Some(returning) = &mut returning {
            returning.add(target.read(&slots)?.columns().to_vec(), slots.len())?;
        }
        if !slots.is_empty() {
            target.delete(&slots)?;
        }
        return finish("DELETE", slots.len() as u64, returning, &target).await;
    }
    let needed = match delete.returning {
        Some(_) => unset(&target, &[]),
        None => Vec::new(),
    };
    let mut projection = vec![column(target.name(), SLOT)];
    projection.extend(stored(&target, &needed));
    let parts = Parts {
        target: &target,
        projection,
        others,
        condition: delete.selection.as_ref(),
        returning: delete.returning.as_deref(),
        with,
    };
    let (plan, mut returning) = parts.plan().await?;
    let mut affected = 0;
    let mut seen = Seen::new(!others.is_empty());
    let mut rows = context.run(plan).await?;
    while let Some(batch) = rows.try_next().await? {
        let Some((batch, slots)) = seen.first_matches(batch)? else {
            continue;
        };
        target.delete(&slots)?;
        affected += slots.len() as u64;
        if let Some(returning) = &mut returning {
            returning.add(batch.columns()[1..].to_vec(), slots.len())?;
        }
    }
    finish("DELETE", affected, returning, &target).await
}

/// A RETURNING clause over the target alone.
async fn returning_of(
    target: &Target<'_>,
    items: Option<&[ast::SelectItem]>,
) -> Result<Option<Returning>> {
    match items {
        Some(items) => Ok(Some(Returning::over_target(target, items, None).await?)),
        None => Ok(None),
    }
}

/// The slots of a column of slots.
pub(super) fn slots_of(column: &ArrayRef) -> Result<Vec<Slot>> {
    let slots = column
        .as_primitive_opt::<UInt64Type>()
        .filter(|slots| slots.null_count() == 0)
        .ok_or_else(|| Error::internal("a write's query yields slots"))?;
    Ok(slots.values().iter().map(|&slot| Slot(slot)).collect())
}

/// The end of a statement: its count and its rows.
pub(super) async fn finish(
    tag: &'static str,
    affected: u64,
    returning: Option<Returning>,
    target: &Target<'_>,
) -> Result<Outcome> {
    if affected > 0 {
        target.complete()?;
    }
    let rows = match returning {
        Some(returning) => Some(returning.finish(target).await?),
        None => None,
    };
    Ok(Outcome {
        tag,
        affected: Some(affected),
        rows,
    })
}

/// The parts of an UPDATE or DELETE from which its query is made.
struct Parts<'s> {
    target: &'s Target<'s>,
    projection: Vec<ast::Expr>,
    others: &'s [ast::TableWithJoins],
    condition: Option<&'s ast::Expr>,
    returning: Option<&'s [ast::SelectItem]>,
    with: Option<&'s ast::With>,
}

impl Parts<'_> {
    /// The query, whose output is the projection and, when RETURNING can name them, the columns of the other relations.
    async fn plan(self) -> Result<(LogicalPlan, Option<Returning>)> {
        let target = self.target;
        let projection = self
            .projection
            .into_iter()
            .enumerate()
            .map(|(number, expression)| output(expression, number))
            .collect();
        let mut from = vec![alone(target_relation(target.name()))];
        from.extend_from_slice(self.others);
        let context = target.context();
        match self.returning {
            Some(items) if !self.others.is_empty() => {
                let condition = self.condition.cloned().unwrap_or_else(always);
                let query = select(self.with, projection, from, Some(condition));
                let template = Template::plan(context, &query, target, "SET").await?;
                let plan = template.with_scope(target.width() + 1)?;
                let mut from = vec![alone(target_columns(target.column_names(), target.name()))];
                from.extend_from_slice(self.others);
                let returning = Returning::over(target, items, from, self.with).await?;
                Ok((plan, Some(returning)))
            }
            items => {
                let query = select(self.with, projection, from, self.condition.cloned());
                let plan = context.plan_query(&query, Some(target.entry())).await?;
                let returning = match items {
                    Some(items) => Some(Returning::over_target(target, items, self.with).await?),
                    None => None,
                };
                Ok((plan, returning))
            }
        }
    }
}

/// The rows that a statement has met.
struct Seen {
    slots: SlotSet,
    may_repeat: bool,
}

impl Seen {
    fn new(may_repeat: bool) -> Self {
        Seen {
            slots: SlotSet::default(),
            may_repeat,
        }
    }

    /// The rows of a batch, whose first column are slots, that were not met before; `None` if there are none.
    fn first_matches(&mut self, batch: RecordBatch) -> Result<Option<(RecordBatch, Vec<Slot>)>> {
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let slots = slots_of(batch.column(0))?;
        let is_first: Vec<bool> = slots.iter().map(|slot| self.slots.insert(slot.0)).collect();
        if is_first.iter().all(|&first| first) {
            return Ok(Some((batch, slots)));
        }
        if !self.may_repeat {
            return Err(Error::internal("a query over one table met a row twice"));
        }
        let batch = filter_record_batch(&batch, &BooleanArray::from(is_first))?;
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let slots = slots_of(batch.column(0))?;
        Ok(Some((batch, slots)))
    }
}

/// The target of an UPDATE or DELETE.
fn find_target<'c>(
    context: &'c StatementContext,
    relation: &ast::TableWithJoins,
) -> Result<Target<'c>> {
    if !relation.joins.is_empty() {
        return Err(Error::unsupported("a join as the target of a write"));
    }
    super::named_target(context, &relation.relation)
}

fn unset(target: &Target, set: &[usize]) -> Vec<usize> {
    (0..target.width())
        .filter(|column| !set.contains(column))
        .collect()
}

fn stored<'t>(target: &'t Target, columns: &'t [usize]) -> impl Iterator<Item = ast::Expr> + 't {
    columns
        .iter()
        .map(|&position| column(target.name(), &target.column_names()[position]))
}
