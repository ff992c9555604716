//! Foreign keys of writes.
//!
//! A write notes the keys that its new rows refer to and those that it takes away from rows that others may refer to. When the statement is done, what
//! depends on the keys that went is changed (CASCADE, SET NULL, SET DEFAULT), table by table until nothing more changes; each change is a statement of its own for
//! storage, which sees those before it. Then whatever must hold is checked: of each key that is referred to and each that went, that it is there or that nobody
//! refers to it. What is deferred is remembered and checked in the same way before the commit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options, filter, take};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::row::{RowConverter, SortField};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use firndb_storage::{Form, Slot, Transaction};
use parking_lot::Mutex;

use super::Target;
use super::conflict::write_changes;
use super::query::identifier;
use crate::catalog::{CatalogState, ForeignKey, ReferenceAction, TableEntry, fold};
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState};

/// Steps of cascades that one statement may take.
const MOST_STEPS: usize = 100_000;

/// Keys that are checked before the commit.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    keys: Mutex<Vec<DeferredKeys>>,
    /// What SET CONSTRAINTS said of all constraints, and after that of some.
    said: Mutex<(Option<bool>, HashMap<String, bool>)>,
}

/// Keys of a foreign key, in the types of the referring columns.
#[derive(Debug)]
struct DeferredKeys {
    schema: String,
    table: String,
    constraint: String,
    keys: Vec<ArrayRef>,
}

/// A foreign key with the two tables that it ties.
#[derive(Clone)]
struct Tie {
    key: ForeignKey,
    child: Arc<TableEntry>,
    parent: Arc<TableEntry>,
    /// The columns that are referred to, in the order of `key.columns`.
    referred: Vec<usize>,
    /// The unique key over them: its name, and the places of its columns in `referred`.
    unique: String,
    order: Vec<usize>,
}

/// What a statement did to one table that concerns foreign keys.
#[derive(Default)]
pub(super) struct Noted {
    /// Of each foreign key (by name) the keys that rows now refer to.
    added: Vec<(String, Vec<ArrayRef>)>,
    /// Columns of rows that went: all columns that others refer to, and their new values if the rows were updated.
    removed: Vec<Removed>,
}

struct Removed {
    /// Positions of the columns.
    columns: Vec<usize>,
    old: Vec<ArrayRef>,
    new: Option<Vec<ArrayRef>>,
}

impl Noted {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// Rows of a table about to be inserted, all columns.
    pub(super) fn insert(&mut self, entry: &TableEntry, columns: &[ArrayRef]) {
        for key in entry.foreign_keys() {
            let of_key = key
                .columns
                .iter()
                .map(|&column| Arc::clone(&columns[column]));
            self.added.push((key.name.clone(), of_key.collect()));
        }
    }

    /// Rows about to be updated; `stored` reads columns of them as they are.
    pub(super) fn update(
        &mut self,
        entry: &TableEntry,
        columns: &[usize],
        values: &[ArrayRef],
        stored: impl Fn(&[usize]) -> Result<Vec<ArrayRef>>,
    ) -> Result<()> {
        let new_of = |wanted: &[usize], old: &[ArrayRef]| -> Vec<ArrayRef> {
            wanted
                .iter()
                .zip(old)
                .map(|(column, old)| {
                    let place = columns.iter().position(|other| other == column);
                    Arc::clone(place.map_or(old, |place| &values[place]))
                })
                .collect()
        };
        for key in entry.foreign_keys() {
            if key.columns.iter().any(|column| columns.contains(column)) {
                let new = new_of(&key.columns, &stored(&key.columns)?);
                self.added.push((key.name.clone(), new));
            }
        }
        let referred = referred_columns(entry);
        if referred.iter().any(|column| columns.contains(column)) {
            let old = stored(&referred)?;
            let new = new_of(&referred, &old);
            self.removed.push(Removed {
                columns: referred,
                old,
                new: Some(new),
            });
        }
        Ok(())
    }

    /// Rows about to be deleted.
    pub(super) fn delete(
        &mut self,
        entry: &TableEntry,
        stored: impl Fn(&[usize]) -> Result<Vec<ArrayRef>>,
    ) -> Result<()> {
        let referred = referred_columns(entry);
        if !referred.is_empty() {
            self.removed.push(Removed {
                old: stored(&referred)?,
                columns: referred,
                new: None,
            });
        }
        Ok(())
    }
}

/// The columns of a table's unique keys, if others refer to it.
fn referred_columns(entry: &TableEntry) -> Vec<usize> {
    if entry.referrers.is_empty() {
        return Vec::new();
    }
    let mut columns: Vec<usize> = entry
        .unique_keys()
        .filter_map(|key| key.columns)
        .flatten()
        .collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Does what foreign keys ask for after a statement wrote to a table.
pub(super) fn settle(
    context: &StatementContext,
    entry: &Arc<TableEntry>,
    noted: Noted,
) -> Result<()> {
    if noted.is_empty() {
        return Ok(());
    }
    let mut waiting = VecDeque::from([(Arc::clone(entry), noted)]);
    // Keys to check once nothing changes any more: what to say if they are missing, too.
    let mut checks: Vec<(Tie, Vec<ArrayRef>, bool)> = Vec::new();
    let mut steps = 0;
    while let Some((entry, noted)) = waiting.pop_front() {
        for (name, keys) in noted.added {
            let key = entry.foreign_keys().find(|key| key.name == name);
            let Some(key) = key.cloned() else { continue };
            let tie = tie(&context.catalog, &entry, &key)?;
            let Some((keys, _)) = distinct(&keys, None)? else {
                continue;
            };
            checks.push((tie, keys, true));
        }
        for removed in noted.removed {
            for tie in ties_to(&context.catalog, &entry)? {
                let of_tie = |columns: &[ArrayRef]| -> Option<Vec<ArrayRef>> {
                    tie.referred
                        .iter()
                        .map(|column| {
                            let place = removed.columns.iter().position(|one| one == column)?;
                            Some(Arc::clone(&columns[place]))
                        })
                        .collect()
                };
                let Some(old) = of_tie(&removed.old) else {
                    continue;
                };
                let new = removed.new.as_ref().and_then(|new| of_tie(new));
                let Some((old, new)) = distinct(&old, new.as_deref())? else {
                    continue;
                };
                let action = match new {
                    Some(_) => tie.key.on_update,
                    None => tie.key.on_delete,
                };
                if action == ReferenceAction::NoAction {
                    checks.push((tie, old, false));
                    continue;
                }
                steps += 1;
                if steps > MOST_STEPS {
                    return Err(Error::new(
                        SqlState::StatementTooComplex,
                        "foreign keys lead too far",
                    ));
                }
                if let Some(next) = act(context, &tie, action, &old, new.as_deref())? {
                    waiting.push_back(next);
                }
            }
        }
    }
    for (tie, keys, added) in checks {
        if context.deferred.defers(&tie.key) {
            // Whoever refers to keys that went shows when they are looked for, in the child's own types.
            let keys = converted(&keys, &types_of(&tie.child, &tie.key.columns))?;
            context.deferred.keys.lock().push(DeferredKeys {
                schema: tie.child.schema.clone(),
                table: tie.child.name.clone(),
                constraint: tie.key.name.clone(),
                keys,
            });
            continue;
        }
        check(&context.transaction, &tie, &keys, added)?;
    }
    Ok(())
}

impl Deferred {
    /// Whether a foreign key is checked at the end of the transaction.
    fn defers(&self, key: &ForeignKey) -> bool {
        let said = self.said.lock();
        let named = said.1.get(&fold(&key.name)).copied();
        key.deferrable && named.or(said.0).unwrap_or(key.deferred)
    }

    /// SET CONSTRAINTS: what becomes immediate is checked now.
    pub(crate) fn set(
        &self,
        names: Option<&[String]>,
        deferred: bool,
        catalog: &CatalogState,
        transaction: &Transaction,
    ) -> Result<()> {
        match names {
            None => *self.said.lock() = (Some(deferred), HashMap::new()),
            Some(names) => {
                for name in names {
                    self.set_one(name, deferred, catalog)?;
                }
            }
        }
        if deferred {
            return Ok(());
        }
        let waiting = std::mem::take(&mut *self.keys.lock());
        let concerned =
            |keys: &DeferredKeys| names.is_none_or(|names| names.contains(&fold(&keys.constraint)));
        let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(concerned);
        *self.keys.lock() = later;
        check_all(now, catalog, transaction)
    }

    fn set_one(&self, name: &str, deferred: bool, catalog: &CatalogState) -> Result<()> {
        let mut keys = catalog.tables().into_iter().flat_map(|table| {
            let keys: Vec<ForeignKey> = table.foreign_keys().cloned().collect();
            keys
        });
        let Some(key) = keys.find(|key| fold(&key.name) == fold(name)) else {
            return Err(Error::new(
                SqlState::UndefinedObject,
                format!("constraint \"{name}\" does not exist"),
            ));
        };
        if deferred && !key.deferrable {
            return Err(Error::new(
                SqlState::WrongObjectType,
                format!("constraint \"{name}\" is not deferrable"),
            ));
        }
        self.said.lock().1.insert(fold(name), deferred);
        Ok(())
    }

    /// Checks what was deferred, as the transaction leaves it.
    pub(crate) fn check(&self, catalog: &CatalogState, transaction: &Transaction) -> Result<()> {
        let waiting = std::mem::take(&mut *self.keys.lock());
        check_all(waiting, catalog, transaction)
    }
}

fn check_all(
    waiting: Vec<DeferredKeys>,
    catalog: &CatalogState,
    transaction: &Transaction,
) -> Result<()> {
    for deferred in waiting {
        let Some(entry) = catalog.exact_table(&deferred.schema, &deferred.table) else {
            continue;
        };
        let key = entry
            .foreign_keys()
            .find(|key| key.name == deferred.constraint);
        let Some(key) = key.cloned() else { continue };
        let tie = tie(catalog, &entry, &key)?;
        check(transaction, &tie, &deferred.keys, true)?;
    }
    Ok(())
}

fn tie(catalog: &CatalogState, child: &Arc<TableEntry>, key: &ForeignKey) -> Result<Tie> {
    let own = key.table == child.name && key.schema == child.schema;
    let parent = match own {
        true => Some(Arc::clone(child)),
        false => catalog.exact_table(&key.schema, &key.table),
    };
    let vanished = || Error::internal("what a foreign key refers to vanished");
    let parent = parent.ok_or_else(vanished)?;
    let referred: Vec<usize> = key
        .referred
        .iter()
        .map(|name| parent.column(name).ok_or_else(vanished))
        .collect::<Result<_>>()?;
    let (unique, columns) = parent.unique_key_over(&referred).ok_or_else(vanished)?;
    let order = columns
        .iter()
        .map(|column| {
            referred
                .iter()
                .position(|one| one == column)
                .ok_or_else(vanished)
        })
        .collect::<Result<_>>()?;
    Ok(Tie {
        key: key.clone(),
        child: Arc::clone(child),
        parent,
        referred,
        unique,
        order,
    })
}

/// The foreign keys that refer to a table.
fn ties_to(catalog: &CatalogState, parent: &Arc<TableEntry>) -> Result<Vec<Tie>> {
    let mut ties = Vec::new();
    for referrer in &parent.referrers {
        let child = match referrer.is_of(parent) {
            true => Some(Arc::clone(parent)),
            false => catalog.exact_table(&referrer.schema, &referrer.table),
        };
        let Some(child) = child else { continue };
        let key = child
            .foreign_keys()
            .find(|key| key.name == referrer.constraint);
        if let Some(key) = key.cloned() {
            ties.push(tie(catalog, &child, &key)?);
        }
    }
    Ok(ties)
}

/// The keys without NULL among rows, each once; of updated rows only those whose key changed, with the new one.
#[expect(
    clippy::type_complexity,
    reason = "old keys, and new ones if there are"
)]
fn distinct(
    old: &[ArrayRef],
    new: Option<&[ArrayRef]>,
) -> Result<Option<(Vec<ArrayRef>, Option<Vec<ArrayRef>>)>> {
    let rows = old.first().map_or(0, |column| column.len());
    let nulls = old.iter().fold(None, |all, column| {
        NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref())
    });
    let encode = |columns: &[ArrayRef]| {
        let fields = columns
            .iter()
            .map(|column| SortField::new(column.data_type().clone()));
        RowConverter::new(fields.collect())?.convert_columns(columns)
    };
    let encoded = encode(old)?;
    let changed = match new {
        Some(new) => {
            let same_types = new
                .iter()
                .zip(old)
                .map(|(new, old)| arrow::compute::cast(new, old.data_type()))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            Some(encode(&same_types)?)
        }
        None => None,
    };
    let mut seen: HashSet<&[u8], ahash::RandomState> = HashSet::default();
    let kept: Vec<u64> = (0..rows)
        .filter(|&row| {
            let key = encoded.row(row).data();
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                && changed
                    .as_ref()
                    .is_none_or(|new| new.row(row).data() != key)
                && seen.insert(key)
        })
        .map(|row| row as u64)
        .collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let kept = UInt64Array::from(kept);
    let pick = |columns: &[ArrayRef]| {
        columns
            .iter()
            .map(|column| take(column, &kept, None))
            .collect::<std::result::Result<Vec<_>, _>>()
    };
    let new = new.map(pick).transpose()?;
    Ok(Some((pick(old)?, new)))
}

/// The types of columns in scans.
fn types_of(entry: &TableEntry, columns: &[usize]) -> Vec<DataType> {
    let schema = entry.stored_schema();
    columns
        .iter()
        .map(|&column| Form::Compute.data_type(schema.field(column).data_type()))
        .collect()
}

/// Keys in other types; NULL where they are not to be had.
fn converted(keys: &[ArrayRef], types: &[DataType]) -> Result<Vec<ArrayRef>> {
    let options = CastOptions {
        safe: true,
        ..CastOptions::default()
    };
    let converted = keys.iter().zip(types).map(|(key, data_type)| {
        if key.data_type() == data_type {
            return Ok(Arc::clone(key));
        }
        let there = cast_with_options(key, data_type, &options)?;
        // What does not come back as it was is no key of the other type.
        let back = cast_with_options(&there, key.data_type(), &options)?;
        let same = arrow::compute::kernels::cmp::not_distinct(&back, key)?;
        Ok(arrow::compute::nullif(
            &there,
            &arrow::compute::not(&same)?,
        )?)
    });
    converted.collect()
}

fn batch(columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, |column| column.len());
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(number, column)| Field::new(number.to_string(), column.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// Whether each key is there.
fn present(transaction: &Transaction, tie: &Tie, keys: &[ArrayRef]) -> Result<Vec<bool>> {
    let keys = converted(keys, &types_of(&tie.parent, &tie.referred))?;
    let ordered = tie.order.iter().map(|&place| Arc::clone(&keys[place]));
    let keys = batch(ordered.collect())?;
    Ok(tie.parent.table.holds(transaction, &tie.unique, &keys)?)
}

/// The rows that refer to each key.
fn referring(transaction: &Transaction, tie: &Tie, keys: &[ArrayRef]) -> Result<Vec<Vec<Slot>>> {
    let keys = converted(keys, &types_of(&tie.child, &tie.key.columns))?;
    let nulls = keys.iter().fold(None, |all, column| {
        NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref())
    });
    let mut found = tie
        .child
        .table
        .holders(transaction, &tie.key.name, &batch(keys)?)?;
    for (row, slots) in found.iter_mut().enumerate() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            slots.clear();
        }
    }
    Ok(found)
}

/// 23503 when a key is referred to and not there.
fn check(transaction: &Transaction, tie: &Tie, keys: &[ArrayRef], added: bool) -> Result<()> {
    let present = present(transaction, tie, keys)?;
    if present.iter().all(|&present| present) {
        return Ok(());
    }
    let missing: BooleanArray = present.iter().map(|&present| Some(!present)).collect();
    let keys = keys
        .iter()
        .map(|column| filter(column, &missing))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let referring = referring(transaction, tie, &keys)?;
    match referring.iter().position(|slots| !slots.is_empty()) {
        Some(row) => Err(violation(tie, &keys, row, added)),
        None => Ok(()),
    }
}

fn violation(tie: &Tie, keys: &[ArrayRef], row: usize, added: bool) -> Error {
    let (child, parent, name) = (&tie.child.name, &tie.parent.name, &tie.key.name);
    let values: Vec<String> = keys
        .iter()
        .map(|column| {
            ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())
                .and_then(|text| text.value(row).try_to_string())
                .unwrap_or_default()
        })
        .collect();
    let columns: Vec<&str> = match added {
        true => tie
            .key
            .columns
            .iter()
            .map(|&column| tie.child.columns[column].field.name().as_str())
            .collect(),
        false => tie.key.referred.iter().map(String::as_str).collect(),
    };
    let key = format!("Key ({})=({})", columns.join(", "), values.join(", "));
    let (message, detail) = match added {
        true => (
            format!(
                "insert or update on table \"{child}\" violates foreign key constraint \"{name}\""
            ),
            format!("{key} is not present in table \"{parent}\"."),
        ),
        false => (
            format!(
                "update or delete on table \"{parent}\" violates foreign key constraint \"{name}\" on table \"{child}\""
            ),
            format!("{key} is still referenced from table \"{child}\"."),
        ),
    };
    Error::new(SqlState::ForeignKeyViolation, message).with_detail(detail)
}

/// Changes the rows that refer to keys which went, and tells what that did to their table.
fn act(
    context: &StatementContext,
    tie: &Tie,
    action: ReferenceAction,
    old: &[ArrayRef],
    new: Option<&[ArrayRef]>,
) -> Result<Option<(Arc<TableEntry>, Noted)>> {
    let transaction = &context.transaction;
    let present = present(transaction, tie, old)?;
    let referring = referring(transaction, tie, old)?;
    let mut slots = Vec::new();
    let mut numbers = Vec::new();
    for (row, of_key) in referring.into_iter().enumerate() {
        // Another row has the key now.
        if present[row] || of_key.is_empty() {
            continue;
        }
        if action == ReferenceAction::Restrict {
            return Err(violation(tie, old, row, false));
        }
        numbers.extend(std::iter::repeat_n(row as u64, of_key.len()));
        slots.extend(of_key);
    }
    if slots.is_empty() {
        return Ok(None);
    }
    // A step of its own, which sees the rows that the steps before it wrote.
    transaction.begin_statement();
    let context = context.renewed(context.scope.arguments.as_ref().clone());
    let target = Target::of(
        &context,
        Arc::clone(&tie.child),
        identifier(&tie.child.name),
    )?;
    if action == ReferenceAction::Cascade && new.is_none() {
        target.delete(&slots)?;
    } else {
        let columns = &tie.key.columns;
        let rows = slots.len();
        let values = match (action, new) {
            (ReferenceAction::Cascade, Some(new)) => {
                let numbers = UInt64Array::from(numbers);
                columns
                    .iter()
                    .zip(new)
                    .map(|(&column, new)| target.assign(&take(new, &numbers, None)?, column))
                    .collect::<Result<Vec<_>>>()?
            }
            (ReferenceAction::SetDefault, _) => columns
                .iter()
                .map(|&column| target.default(column, rows))
                .collect::<Result<Vec<_>>>()?,
            _ => types_of(&tie.child, columns)
                .iter()
                .map(|data_type| arrow::array::new_null_array(data_type, rows))
                .collect(),
        };
        let mut stored = target.read(&slots)?.columns().to_vec();
        write_changes(&target, &slots, columns, values, &mut stored)?;
    }
    target.table().check_unique(transaction)?;
    Ok(Some((Arc::clone(&tie.child), target.take_noted())))
}
