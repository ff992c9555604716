//! ON CONFLICT: which proposed rows meet an existing key, and what happens to those rows then.
//!
//! A proposed row conflicts with a stored row that the statement's snapshot sees (found through the unique index), or with a
//! row that the statement itself proposed earlier (found in a set of keys). DO NOTHING drops the row. DO UPDATE evaluates its
//! SET clause over pairs of the stored row and the row `excluded`; what meets a row of its own statement is 21000. Keys taken
//! by transactions that the snapshot does not see are found by the check at the statement's end.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, RecordBatch, UInt64Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Schema, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::sql::sqlparser::ast;
use firndb_storage::Slot;
use futures::TryStreamExt;

use super::Target;
use super::assignment::Assignments;
use super::query::{Template, alone, always, identifier, select, target, target_columns};
use super::target::Proposed;
use super::write::SlotSet;
use crate::catalog::Constraint;
use crate::{Error, Result, SqlState};

/// An ON CONFLICT clause at work.
pub(super) struct Upsert {
    arbiters: Vec<Arbiter>,
    update: Option<ConflictUpdate>,
}

/// A unique constraint that is asked for conflicts.
struct Arbiter {
    index: String,
    columns: Vec<usize>,
    converter: RowConverter,
    proposed: HashSet<Box<[u8]>, ahash::RandomState>,
}

/// DO UPDATE.
struct ConflictUpdate {
    assignments: Assignments,
    template: Template,
    updated: SlotSet,
}

/// What becomes of proposed rows, by their numbers.
pub(super) struct Resolution {
    /// Rows to insert.
    pub(super) fresh: Vec<u64>,
    /// Rows that meet a stored row.
    conflicts: Vec<(u64, Slot)>,
}

/// Stored rows that DO UPDATE changed.
pub(super) struct UpdatedRows {
    /// The proposed rows' numbers.
    pub(super) rows: Vec<u64>,
    /// The new rows, all columns.
    pub(super) columns: Vec<ArrayRef>,
}

impl Upsert {
    /// Prepares the clause of an INSERT.
    pub(super) async fn plan(
        target_table: &Target<'_>,
        clause: &ast::OnConflict,
        with: Option<&ast::With>,
    ) -> Result<Self> {
        let arbiters = match &clause.conflict_target {
            Some(wanted) => vec![named(target_table, wanted)?],
            None => unique_keys(target_table),
        };
        let update = match &clause.action {
            ast::OnConflictAction::DoNothing => None,
            ast::OnConflictAction::DoUpdate(update) => {
                if arbiters.len() != 1 {
                    return Err(Error::new(
                        SqlState::SyntaxError,
                        "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                    )
                    .with_hint("For example, ON CONFLICT (column_name)."));
                }
                Some(ConflictUpdate::plan(target_table, update, with).await?)
            }
        };
        let arbiters = arbiters
            .into_iter()
            .map(|(index, columns)| Arbiter::new(target_table, index, columns))
            .collect::<Result<_>>()?;
        Ok(Upsert { arbiters, update })
    }

    /// INSERT OR REPLACE: every column of the row with the key takes the proposed value.
    pub(super) async fn replace(target_table: &Target<'_>) -> Result<Self> {
        let excluded = ast::Ident::new("excluded");
        let assignments = target_table
            .column_names()
            .iter()
            .map(|name| ast::Assignment {
                target: ast::AssignmentTarget::ColumnName(vec![identifier(name)].into()),
                value: super::query::column(&excluded, name),
            })
            .collect();
        let clause = ast::OnConflict {
            conflict_target: None,
            action: ast::OnConflictAction::DoUpdate(ast::DoUpdate {
                assignments,
                selection: None,
            }),
        };
        Upsert::plan(target_table, &clause, None).await
    }

    /// Sorts proposed rows, which satisfy NOT NULL and CHECK, into new ones and conflicts.
    pub(super) fn resolve(
        &mut self,
        target: &Target,
        columns: &[ArrayRef],
        rows: usize,
    ) -> Result<Resolution> {
        let mut found = Vec::with_capacity(self.arbiters.len());
        let mut keys = Vec::with_capacity(self.arbiters.len());
        for arbiter in &self.arbiters {
            found.push(arbiter.stored(target, columns)?);
            keys.push(arbiter.keys(columns)?);
        }
        let mut resolution = Resolution {
            fresh: Vec::new(),
            conflicts: Vec::new(),
        };
        for row in 0..rows {
            if let Some(slot) = found.iter().find_map(|slots| slots[row]) {
                if self.update.is_some() {
                    resolution.conflicts.push((row as u64, slot));
                }
                continue;
            }
            let repeated = self.arbiters.iter().zip(&keys).any(|(arbiter, keys)| {
                keys[row]
                    .as_ref()
                    .is_some_and(|key| arbiter.proposed.contains(key))
            });
            if repeated {
                if self.update.is_some() {
                    return Err(affected_twice());
                }
                continue;
            }
            for (arbiter, keys) in self.arbiters.iter_mut().zip(&mut keys) {
                if let Some(key) = keys[row].take() {
                    arbiter.proposed.insert(key);
                }
            }
            resolution.fresh.push(row as u64);
        }
        Ok(resolution)
    }

    /// Updates the stored rows that proposed rows meet.
    pub(super) async fn update(
        &mut self,
        target: &Target<'_>,
        columns: &[ArrayRef],
        resolution: &Resolution,
    ) -> Result<UpdatedRows> {
        match &mut self.update {
            Some(update) if !resolution.conflicts.is_empty() => {
                update.apply(target, columns, &resolution.conflicts).await
            }
            _ => Ok(UpdatedRows {
                rows: Vec::new(),
                columns: columns.iter().map(|column| column.slice(0, 0)).collect(),
            }),
        }
    }
}

impl Arbiter {
    fn new(target: &Target, index: String, columns: Vec<usize>) -> Result<Self> {
        let fields = columns
            .iter()
            .map(|&column| SortField::new(target.schema().field(column).data_type().clone()))
            .collect();
        Ok(Arbiter {
            index,
            columns,
            converter: RowConverter::new(fields)?,
            proposed: HashSet::default(),
        })
    }

    /// The stored row with the key of each proposed row.
    fn stored(&self, target: &Target, columns: &[ArrayRef]) -> Result<Vec<Option<Slot>>> {
        let fields: Vec<_> = self
            .columns
            .iter()
            .map(|&column| target.schema().field(column).clone().with_nullable(true))
            .collect();
        let keys = RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            self.columns
                .iter()
                .map(|&column| Arc::clone(&columns[column]))
                .collect(),
        )?;
        let snapshot = &target.context().snapshot;
        Ok(target.table().lookup(snapshot, &self.index, &keys)?)
    }

    /// The key of each row as bytes that are equal when the keys are; none where a column is NULL.
    fn keys(&self, columns: &[ArrayRef]) -> Result<Vec<Option<Box<[u8]>>>> {
        let columns: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|&column| canonical(&columns[column]))
            .collect();
        let rows = self.converter.convert_columns(&columns)?;
        let nulls: Vec<_> = columns
            .iter()
            .filter_map(|column| column.logical_nulls())
            .collect();
        let keys = rows.iter().enumerate().map(|(number, row)| {
            let is_null = nulls.iter().any(|nulls| nulls.is_null(number));
            (!is_null).then(|| row.as_ref().into())
        });
        Ok(keys.collect())
    }
}

impl ConflictUpdate {
    async fn plan(
        table: &Target<'_>,
        update: &ast::DoUpdate,
        with: Option<&ast::With>,
    ) -> Result<Self> {
        let assignments = Assignments::resolve(table, &update.assignments)?;
        let excluded = ast::Ident::new("excluded");
        let from = vec![
            alone(target(table.name())),
            alone(target_columns(table.column_names(), &excluded)),
        ];
        let projection = assignments
            .expressions()
            .iter()
            .enumerate()
            .map(|(number, expression)| super::query::output(expression.clone(), number))
            .collect();
        let condition = update.selection.clone().unwrap_or_else(always);
        let query = select(with, projection, from, Some(condition));
        let template = Template::plan(table.context(), &query, table, "ON CONFLICT").await?;
        if template.scope().fields().len() != 2 * table.width() + 1 {
            return Err(Error::internal("ON CONFLICT ranges over two rows"));
        }
        Ok(ConflictUpdate {
            assignments,
            template,
            updated: SlotSet::default(),
        })
    }

    async fn apply(
        &mut self,
        target: &Target<'_>,
        columns: &[ArrayRef],
        conflicts: &[(u64, Slot)],
    ) -> Result<UpdatedRows> {
        let slots: Vec<Slot> = conflicts.iter().map(|(_, slot)| *slot).collect();
        let stored = target.read(&slots)?;
        let proposed = UInt64Array::from_iter_values(conflicts.iter().map(|(row, _)| *row));
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..slots.len() as u64));
        let slot_column: ArrayRef = Arc::new(UInt64Array::from_iter_values(
            slots.iter().map(|slot| slot.0),
        ));
        let mut scope: Vec<ArrayRef> = stored.columns().to_vec();
        scope.push(slot_column);
        for column in columns {
            scope.push(take(column, &proposed, None)?);
        }
        let plan = self.template.over(&[numbers], &scope, slots.len())?;
        let mut stream = target.context().run(plan).await?;
        let mut updated = UpdatedRows {
            rows: Vec::new(),
            columns: Vec::new(),
        };
        let mut parts: Vec<Vec<ArrayRef>> = Vec::new();
        while let Some(batch) = stream.try_next().await? {
            if batch.num_rows() == 0 {
                continue;
            }
            let numbers = batch.column(0).as_primitive::<UInt64Type>().clone();
            let values = self.assignments.values(target, &batch.columns()[1..])?;
            let changed: Vec<Slot> = numbers
                .values()
                .iter()
                .map(|&number| slots[number as usize])
                .collect();
            if !changed.iter().all(|slot| self.updated.insert(slot.0)) {
                return Err(affected_twice());
            }
            let mut new: Vec<ArrayRef> = stored
                .columns()
                .iter()
                .map(|column| take(column, &numbers, None))
                .collect::<std::result::Result<_, _>>()?;
            write_changes(
                target,
                &changed,
                self.assignments.columns(),
                values,
                &mut new,
            )?;
            let rows = numbers.values().iter();
            updated
                .rows
                .extend(rows.map(|&number| proposed.value(number as usize)));
            parts.push(new);
        }
        updated.columns = concat_parts(target, &parts)?;
        Ok(updated)
    }
}

/// Checks and writes new values of some columns; `rows` holds the stored rows and becomes the new ones.
pub(super) fn write_changes(
    target: &Target,
    slots: &[Slot],
    columns: &[usize],
    values: Vec<ArrayRef>,
    rows: &mut [ArrayRef],
) -> Result<()> {
    for (&column, value) in columns.iter().zip(&values) {
        rows[column] = Arc::clone(value);
    }
    let known: Vec<Option<ArrayRef>> = rows.iter().cloned().map(Some).collect();
    target.enforce(&Proposed {
        columns: &known,
        rows: slots.len(),
        slots: Some(slots),
    })?;
    target.update(slots, columns, values)
}

/// Puts the columns of several parts under each other.
pub(super) fn concat_parts(target: &Target, parts: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>> {
    let fields = target.schema().fields().iter().enumerate();
    fields
        .map(|(column, field)| {
            let arrays: Vec<&dyn Array> = parts.iter().map(|part| part[column].as_ref()).collect();
            if arrays.is_empty() {
                return Ok(arrow::array::new_empty_array(field.data_type()));
            }
            Ok(arrow::compute::concat(&arrays)?)
        })
        .collect()
}

fn unique_keys(target: &Target) -> Vec<(String, Vec<usize>)> {
    let constraints = target.entry().constraints.iter();
    constraints
        .filter_map(|constraint| match constraint {
            Constraint::PrimaryKey { name, columns } | Constraint::Unique { name, columns } => {
                Some((name.clone(), columns.clone()))
            }
            Constraint::Check { .. } => None,
        })
        .collect()
}

/// The constraint that a conflict target names.
fn named(target: &Target, wanted: &ast::ConflictTarget) -> Result<(String, Vec<usize>)> {
    let keys = unique_keys(target);
    match wanted {
        ast::ConflictTarget::Columns(names) => {
            let mut columns: Vec<usize> = names
                .iter()
                .map(|name| target.find(name))
                .collect::<Result<_>>()?;
            columns.sort_unstable();
            columns.dedup();
            let same = |key: &(String, Vec<usize>)| {
                let mut sorted = key.1.clone();
                sorted.sort_unstable();
                sorted == columns
            };
            keys.into_iter().find(same).ok_or_else(|| {
                Error::new(
                    SqlState::InvalidColumnReference,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })
        }
        ast::ConflictTarget::OnConstraint(name) => {
            let ident = name.0.last().and_then(|part| part.as_ident());
            let wanted = ident.map_or_else(|| name.to_string(), |ident| ident.value.clone());
            let exact = keys.iter().position(|(name, _)| *name == wanted);
            let folded = || {
                let same = |(name, _): &(String, Vec<usize>)| name.eq_ignore_ascii_case(&wanted);
                keys.iter().position(same)
            };
            match exact.or_else(folded) {
                Some(position) => Ok(keys[position].clone()),
                None => Err(Error::new(
                    SqlState::UndefinedObject,
                    format!(
                        "constraint \"{wanted}\" for table \"{}\" does not exist",
                        target.entry().name
                    ),
                )),
            }
        }
    }
}

/// Floats with one zero and one NaN, as unique keys compare them.
fn canonical(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>();
            let canonical: Float64Array = values.unary(|value| {
                if value.is_nan() {
                    f64::NAN
                } else {
                    value + 0.0
                }
            });
            Arc::new(canonical)
        }
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>();
            let canonical: Float32Array = values.unary(|value| {
                if value.is_nan() {
                    f32::NAN
                } else {
                    value + 0.0
                }
            });
            Arc::new(canonical)
        }
        _ => Arc::clone(column),
    }
}

fn affected_twice() -> Error {
    Error::new(
        SqlState::CardinalityViolation,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}
