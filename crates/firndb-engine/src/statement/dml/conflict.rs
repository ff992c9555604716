//! ON CONFLICT: which proposed rows meet an existing key, and what happens to those rows then.
//!
//! A proposed row conflicts with a stored row that the statement's snapshot sees (found through the unique index), or with a
//! row that the statement itself proposed earlier (found in a set of keys). DO NOTHING drops the row. DO UPDATE evaluates its
//! SET clause over pairs of the stored row and the row `excluded`; what meets a row of its own statement is 21000. Keys taken
//! by transactions that the snapshot does not see are found by the check at the statement's end.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::UInt64Type;
use datafusion::sql::sqlparser::ast;
use firndb_storage::Slot;
use firndb_storage::index::Key;
use futures::TryStreamExt;

use super::Target;
use super::assignment::Assignments;
use super::query::{Template, alone, always, identifier, select, target, target_columns};
use super::target::Proposed;
use super::write::SlotSet;
use crate::catalog::{IndexKey, UniqueKey};
use crate::parse::{ConflictTarget, conflict_target, is_binary};
use crate::{Error, Result, SqlState};

/// An ON CONFLICT clause at work.
pub(super) struct Upsert {
    arbiters: Vec<Arbiter>,
    update: Option<ConflictUpdate>,
    /// INSERT OR REPLACE by several keys: the rows that went.
    replaced: Option<SlotSet>,
}

/// A unique index that is asked for conflicts, and the keys that the statement itself proposed.
struct Arbiter {
    index: String,
    proposed: HashSet<Key, ahash::RandomState>,
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
            .map(|index| Arbiter {
                index,
                proposed: HashSet::default(),
            })
            .collect();
        Ok(Upsert {
            arbiters,
            update,
            replaced: None,
        })
    }

    /// INSERT OR REPLACE: every column of the row with the key takes the proposed value. Where there are several keys, the rows that have any of them go.
    pub(super) async fn replace(target_table: &Target<'_>) -> Result<Self> {
        let keys = unique_keys(target_table);
        if keys.len() != 1 {
            let arbiters = keys.into_iter().map(|index| Arbiter {
                index,
                proposed: HashSet::default(),
            });
            return Ok(Upsert {
                arbiters: arbiters.collect(),
                update: None,
                replaced: Some(SlotSet::default()),
            });
        }
        let excluded = ast::Ident::new("excluded");
        let assignments = target_table
            .column_names()
            .iter()
            .enumerate()
            .filter(|(column, _)| !target_table.is_generated(*column))
            .map(|(_, name)| ast::Assignment {
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
        let proposed = target.batch(columns.to_vec(), rows)?;
        for arbiter in &self.arbiters {
            let snapshot = &target.context().snapshot;
            let table = target.table();
            let of_rows = table.conflicts(snapshot, &arbiter.index, &proposed)?;
            let (of_rows, stored): (Vec<_>, Vec<_>) = of_rows.into_iter().unzip();
            found.push(stored);
            keys.push(of_rows);
        }
        let mut resolution = Resolution {
            fresh: Vec::new(),
            conflicts: Vec::new(),
        };
        if let Some(replaced) = &mut self.replaced {
            let gone = found.iter().flatten().flatten().copied();
            let gone: Vec<Slot> = gone.filter(|slot| replaced.insert(slot.0)).collect();
            if !gone.is_empty() {
                target.delete(&gone)?;
            }
            // Each row takes the place of those before it that share a key with it.
            let mut later: Vec<HashSet<&Key, ahash::RandomState>> =
                vec![HashSet::default(); keys.len()];
            for row in (0..rows).rev() {
                let mut stays = true;
                for (later, keys) in later.iter_mut().zip(&keys) {
                    if let Some(key) = &keys[row] {
                        stays &= later.insert(key);
                    }
                }
                if stays {
                    resolution.fresh.push(row as u64);
                }
            }
            resolution.fresh.reverse();
            for (arbiter, keys) in self.arbiters.iter_mut().zip(&keys) {
                for key in keys.iter().flatten() {
                    if arbiter.proposed.contains(key) {
                        return Err(Error::unsupported(
                            "INSERT OR REPLACE of many rows that replace each other by several keys",
                        ));
                    }
                }
                arbiter.proposed.extend(keys.iter().flatten().cloned());
            }
            return Ok(resolution);
        }
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
    mut values: Vec<ArrayRef>,
    rows: &mut [ArrayRef],
) -> Result<()> {
    for (&column, value) in columns.iter().zip(&values) {
        rows[column] = Arc::clone(value);
    }
    let mut known: Vec<Option<ArrayRef>> = rows.iter().cloned().map(Some).collect();
    target.regenerate(columns, &mut values, &mut known, slots.len())?;
    let columns = &target.with_generated(columns);
    for (row, known) in rows.iter_mut().zip(&known) {
        if let Some(known) = known {
            *row = Arc::clone(known);
        }
    }
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

/// The names of the target's unique indexes.
fn unique_keys(target: &Target) -> Vec<String> {
    let keys = target.entry().unique_keys();
    keys.map(|key| key.name.to_owned()).collect()
}

/// Whether a target names just the parts of a key, in any order.
fn names_key(target: &Target, wanted: &ConflictTarget, key: &UniqueKey<'_>) -> Result<bool> {
    let mut parts = Vec::with_capacity(wanted.parts.len());
    for part in &wanted.parts {
        parts.push(match plain(part) {
            ast::Expr::Identifier(name) => Part::Column(target.find(name)?),
            other => Part::Text(other.to_string()),
        });
    }
    let of_key: Vec<Part> = match (&key.columns, key.index) {
        (Some(columns), _) => columns.iter().map(|&column| Part::Column(column)).collect(),
        (None, Some(index)) => index
            .parts
            .iter()
            .map(|part| match &part.key {
                IndexKey::Column(column) => Part::Column(*column),
                IndexKey::Expression(expression) => Part::Text(plain(expression).to_string()),
            })
            .collect(),
        (None, None) => return Ok(false),
    };
    let same = parts.iter().all(|part| of_key.contains(part))
        && of_key.iter().all(|part| parts.contains(part));
    let predicate = key.index.and_then(|index| index.predicate.as_ref());
    let implied = predicate.is_none_or(|predicate| {
        let predicate = plain(predicate).to_string();
        let mut conjuncts = Vec::new();
        if let Some(condition) = &wanted.condition {
            collect_conjuncts(condition, &mut conjuncts);
        }
        conjuncts.contains(&predicate)
    });
    Ok(same && implied)
}

/// A part of a key.
#[derive(PartialEq, Eq)]
enum Part {
    Column(usize),
    Text(String),
}

/// An expression without parentheses around it, and without the collation that all text has.
fn plain(expression: &ast::Expr) -> &ast::Expr {
    match expression {
        ast::Expr::Nested(inner) => plain(inner),
        ast::Expr::Collate { expr, collation } if is_binary(collation) => plain(expr),
        other => other,
    }
}

/// A condition and the parts that AND makes it of, as text.
fn collect_conjuncts(condition: &ast::Expr, found: &mut Vec<String>) {
    let condition = plain(condition);
    found.push(condition.to_string());
    if let ast::Expr::BinaryOp {
        left,
        op: ast::BinaryOperator::And,
        right,
    } = condition
    {
        collect_conjuncts(left, found);
        collect_conjuncts(right, found);
    }
}

/// The unique index that a conflict target names.
fn named(target: &Target, wanted: &ast::ConflictTarget) -> Result<String> {
    match wanted {
        ast::ConflictTarget::Columns(names) => {
            let wanted = conflict_target(names)?;
            let mut partial = None;
            for key in target.entry().unique_keys() {
                if names_key(target, &wanted, &key)? {
                    if key.index.is_none_or(|index| index.predicate.is_none()) {
                        return Ok(key.name.to_owned());
                    }
                    partial.get_or_insert_with(|| key.name.to_owned());
                }
            }
            partial.ok_or_else(|| {
                Error::new(
                    SqlState::InvalidColumnReference,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })
        }
        ast::ConflictTarget::OnConstraint(name) => {
            let ident = name.0.last().and_then(|part| part.as_ident());
            let wanted = ident.map_or_else(|| name.to_string(), |ident| ident.value.clone());
            let keys = unique_keys(target);
            let exact = keys.iter().position(|name| *name == wanted);
            let folded = || {
                let same = |name: &String| name.eq_ignore_ascii_case(&wanted);
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

fn affected_twice() -> Error {
    Error::new(
        SqlState::CardinalityViolation,
        "ON CONFLICT DO UPDATE command cannot affect row a second time",
    )
    .with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}
