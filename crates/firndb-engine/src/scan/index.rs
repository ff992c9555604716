//! Scans through an index: which ranges of its keys a scan's filters leave, and the rows there in the table's order.
//!
//! The filters stay above the scan, so an index may lead to more rows than they want, and never to fewer. Ranges are taken from comparisons of a column, or
//! of an expression that is part of an index, with a constant of its own type: `=`, `<`, `BETWEEN`, `IN`, `LIKE 'abc%'`, `IS NULL`, and OR of those.
//! How many rows an index leads to is counted, not estimated; beyond a share of the table all of it is read.

use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use firndb_storage::index::KeyRange;
use firndb_storage::{Form, Slot, Snapshot, Table};

use super::source::MorselSource;
use crate::Result;

/// An index that a scan may use.
#[derive(Debug, Clone)]
pub struct IndexPath {
    /// Its name, in storage too.
    pub name: String,
    /// The parts of its key.
    pub parts: Vec<PathPart>,
    /// Of a partial index: what each of its rows satisfies.
    pub predicate: Option<Expr>,
    /// Whether rows with a NULL in their key are in it.
    pub nulls: bool,
}

/// A part of an index's key.
#[derive(Debug, Clone)]
pub struct PathPart {
    /// A column, or an expression over columns, named as in the scan's schema.
    pub expression: Expr,
    /// Its type in scans.
    pub data_type: DataType,
    /// Whether its values order as the keys do; else they are only equal when the keys are.
    pub ordered: bool,
    /// Whether it may be NULL.
    pub nullable: bool,
}

/// Rows that are always worth an index.
const FEW: usize = 64;
/// The part of a table beyond which all of it is read.
const SHARE: usize = 16;
/// Ranges that one scan looks at.
const MOST_RANGES: usize = 4_096;
/// Slots that are read at a time.
const CHUNK: usize = 8_192;

/// What is known of a part of a key.
#[derive(Debug, Clone)]
enum Limits {
    /// One of these values; NULL is the part's NULL.
    Values(Vec<ScalarValue>),
    /// Between these.
    Between(Bound<ScalarValue>, Bound<ScalarValue>),
    /// In one of these.
    Either(Vec<(Bound<ScalarValue>, Bound<ScalarValue>)>),
}

/// The rows that the best of `paths` leads to under `filters`, if one is worth it.
pub fn choose(
    table: &Table,
    snapshot: &Snapshot,
    paths: &[IndexPath],
    filters: &[Expr],
    rows: usize,
) -> Result<Option<(String, Vec<Slot>)>> {
    let mut conjuncts = Vec::new();
    for filter in filters {
        split(filter, &mut conjuncts);
    }
    let mut most = FEW.max(rows / SHARE);
    let mut best = None;
    for path in paths {
        if let Some(predicate) = &path.predicate
            && !implies(&conjuncts, predicate)
        {
            continue;
        }
        let Some(ranges) = ranges(path, &conjuncts) else {
            continue;
        };
        if let Some(slots) = table.index_slots(snapshot, &path.name, &ranges, most)? {
            let found = slots.len();
            best = Some((path.name.clone(), slots));
            // Another one must lead to fewer.
            if found <= 1 {
                break;
            }
            most = found - 1;
        }
    }
    Ok(best)
}

fn split<'e>(filter: &'e Expr, conjuncts: &mut Vec<&'e Expr>) {
    match filter {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::And,
            right,
        }) => {
            split(left, conjuncts);
            split(right, conjuncts);
        }
        other => conjuncts.push(other),
    }
}

/// Whether each part of a predicate is among the conjuncts.
fn implies(conjuncts: &[&Expr], predicate: &Expr) -> bool {
    let mut parts = Vec::new();
    split(predicate, &mut parts);
    parts.iter().all(|part| conjuncts.contains(part))
}

/// The ranges of an index that conjuncts leave; `None` if they say nothing about its first part.
fn ranges(path: &IndexPath, conjuncts: &[&Expr]) -> Option<Vec<KeyRange>> {
    // Rows with a NULL in any part may be missing: each part must be compared with something, or never be NULL.
    let complete = |part: &PathPart| {
        let compared = |conjunct: &&Expr| limits(part, conjunct, false).is_some();
        !part.nullable || conjuncts.iter().any(compared)
    };
    if !path.nulls && !path.parts.iter().all(complete) {
        return None;
    }
    let mut prefixes: Vec<Vec<ArrayRef>> = vec![Vec::new()];
    for (number, part) in path.parts.iter().enumerate() {
        let limits = conjuncts
            .iter()
            .filter_map(|conjunct| limits(part, conjunct, path.nulls))
            .reduce(|one, other| narrower(part, one, other));
        let bounds = match limits {
            Some(Limits::Values(values)) if prefixes.len() * values.len() <= MOST_RANGES => {
                let arrays = values
                    .iter()
                    .map(|value| value.to_array().ok())
                    .collect::<Option<Vec<_>>>()?;
                prefixes = prefixes
                    .iter()
                    .flat_map(|prefix| {
                        arrays.iter().map(|value| {
                            let mut longer = prefix.clone();
                            longer.push(Arc::clone(value));
                            longer
                        })
                    })
                    .collect();
                continue;
            }
            Some(Limits::Between(lower, upper)) if part.ordered => vec![(lower, upper)],
            Some(Limits::Either(bounds))
                if part.ordered && prefixes.len() * bounds.len() <= MOST_RANGES =>
            {
                bounds
            }
            _ if number == 0 => return None,
            _ => break,
        };
        let array = |bound: &Bound<ScalarValue>| -> Option<Bound<ArrayRef>> {
            Some(match bound {
                Bound::Included(value) => Bound::Included(value.to_array().ok()?),
                Bound::Excluded(value) => Bound::Excluded(value.to_array().ok()?),
                Bound::Unbounded => Bound::Unbounded,
            })
        };
        let mut found = Vec::new();
        for prefix in &prefixes {
            for (lower, upper) in &bounds {
                found.push(KeyRange {
                    equal: prefix.clone(),
                    lower: array(lower)?,
                    upper: array(upper)?,
                });
            }
        }
        return Some(found);
    }
    Some(prefixes.into_iter().map(KeyRange::equal).collect())
}

/// The one range of an index in which all rows are that pass the filters, and how many of its first parts it fixes; `None` if the index
/// may lack some.
pub(super) fn fixed_range(path: &IndexPath, filters: &[Expr]) -> Option<(KeyRange, usize)> {
    let mut conjuncts = Vec::new();
    for filter in filters {
        split(filter, &mut conjuncts);
    }
    if let Some(predicate) = &path.predicate
        && !implies(&conjuncts, predicate)
    {
        return None;
    }
    match ranges(path, &conjuncts).as_deref() {
        Some([range]) => Some((range.clone(), range.equal.len())),
        Some(_) => Some((KeyRange::all(), 0)),
        None => {
            let complete = path.nulls || path.parts.iter().all(|part| !part.nullable);
            complete.then(|| (KeyRange::all(), 0))
        }
    }
}

/// What a conjunct says about a part of a key.
fn limits(part: &PathPart, conjunct: &Expr, nulls: bool) -> Option<Limits> {
    let is_part = |expression: &Expr| *expression == part.expression;
    match conjunct {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Or,
            right,
        }) => either(limits(part, left, nulls)?, limits(part, right, nulls)?),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (value, op) = if is_part(left) {
                (constant(part, right)?, *op)
            } else if is_part(right) {
                (constant(part, left)?, op.swap()?)
            } else {
                return None;
            };
            Some(match op {
                Operator::Eq => Limits::Values(vec![value]),
                Operator::Lt => Limits::Between(Bound::Unbounded, Bound::Excluded(value)),
                Operator::LtEq => Limits::Between(Bound::Unbounded, Bound::Included(value)),
                Operator::Gt => Limits::Between(Bound::Excluded(value), Bound::Unbounded),
                Operator::GtEq => Limits::Between(Bound::Included(value), Bound::Unbounded),
                _ => return None,
            })
        }
        Expr::Between(between) if !between.negated && is_part(&between.expr) => {
            Some(Limits::Between(
                Bound::Included(constant(part, &between.low)?),
                Bound::Included(constant(part, &between.high)?),
            ))
        }
        Expr::InList(InList {
            expr,
            list,
            negated: false,
        }) if is_part(expr) => {
            let values = list.iter().filter(|item| !is_null(item));
            let values = values.map(|item| constant(part, item));
            Some(Limits::Values(values.collect::<Option<Vec<_>>>()?))
        }
        Expr::IsNull(expr) if nulls && is_part(expr) => {
            let null = ScalarValue::try_from(&part.data_type).ok()?;
            Some(Limits::Values(vec![null]))
        }
        Expr::IsTrue(expr) => limits(part, expr, nulls),
        Expr::Like(like) if !like.negated && !like.case_insensitive && is_part(&like.expr) => {
            prefix(part, constant(part, &like.pattern)?, like.escape_char)
        }
        // A truth value by itself.
        expression if part.data_type == DataType::Boolean && is_part(expression) => {
            Some(Limits::Values(vec![ScalarValue::Boolean(Some(true))]))
        }
        Expr::Not(expression) if part.data_type == DataType::Boolean && is_part(expression) => {
            Some(Limits::Values(vec![ScalarValue::Boolean(Some(false))]))
        }
        _ => None,
    }
}

fn is_null(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(value, _) if value.is_null())
}

/// A constant of a part's type that is not NULL.
fn constant(part: &PathPart, expression: &Expr) -> Option<ScalarValue> {
    let Expr::Literal(value, _) = expression else {
        return None;
    };
    if value.is_null() {
        return None;
    }
    let text = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
        )
    };
    let given = value.data_type();
    if given == part.data_type {
        return Some(value.clone());
    }
    if text(&given) && text(&part.data_type) {
        return value.cast_to(&part.data_type).ok();
    }
    None
}

/// What begins with the text before a pattern's first wildcard.
fn prefix(part: &PathPart, pattern: ScalarValue, escape: Option<char>) -> Option<Limits> {
    let pattern = pattern.try_as_str()??.to_owned();
    let escape = escape.unwrap_or('\\');
    let end = pattern.find(['%', '_', escape]);
    let text = |text: &str| {
        ScalarValue::Utf8(Some(text.to_owned()))
            .cast_to(&part.data_type)
            .ok()
    };
    let Some(end) = end else {
        return Some(Limits::Values(vec![text(&pattern)?]));
    };
    let start = &pattern[..end];
    if start.is_empty() {
        return None;
    }
    // The next text that does not begin so: the last character one higher.
    let mut next: Vec<char> = start.chars().collect();
    let upper = loop {
        let Some(last) = next.pop() else {
            break Bound::Unbounded;
        };
        let higher = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(higher) = higher {
            next.push(higher);
            let bound: String = next.iter().collect();
            break Bound::Excluded(text(&bound)?);
        }
    };
    Some(Limits::Between(Bound::Included(text(start)?), upper))
}

/// What one or the other leaves.
fn either(one: Limits, other: Limits) -> Option<Limits> {
    let bounds = |limits: Limits| match limits {
        Limits::Values(values) => {
            let bounds = values.into_iter().map(|value| {
                // NULLs are in no range between values.
                (!value.is_null()).then(|| (Bound::Included(value.clone()), Bound::Included(value)))
            });
            bounds.collect::<Option<Vec<_>>>()
        }
        Limits::Between(lower, upper) => Some(vec![(lower, upper)]),
        Limits::Either(bounds) => Some(bounds),
    };
    match (one, other) {
        (Limits::Values(mut one), Limits::Values(other)) => {
            one.extend(
                other
                    .into_iter()
                    .filter(|value| !one.contains(value))
                    .collect::<Vec<_>>(),
            );
            Some(Limits::Values(one))
        }
        (one, other) => {
            let mut all = bounds(one)?;
            all.extend(bounds(other)?);
            Some(Limits::Either(all))
        }
    }
}

/// One of two limits that both hold, or both as one: any of them leads to all rows.
fn narrower(part: &PathPart, one: Limits, other: Limits) -> Limits {
    match (one, other) {
        (Limits::Values(one), Limits::Values(other)) => {
            if other.len() < one.len() {
                Limits::Values(other)
            } else {
                Limits::Values(one)
            }
        }
        (Limits::Values(values), _) | (_, Limits::Values(values)) => Limits::Values(values),
        (Limits::Between(lower, upper), Limits::Between(other_lower, other_upper)) => {
            Limits::Between(
                tighter(lower, other_lower, std::cmp::Ordering::Greater),
                tighter(upper, other_upper, std::cmp::Ordering::Less),
            )
        }
        (one @ Limits::Between(..), _) if part.ordered => one,
        (_, other) => other,
    }
}

/// The bound that leaves less, if values tell.
fn tighter(
    one: Bound<ScalarValue>,
    other: Bound<ScalarValue>,
    wanted: std::cmp::Ordering,
) -> Bound<ScalarValue> {
    let value = |bound: &Bound<ScalarValue>| match bound {
        Bound::Included(value) | Bound::Excluded(value) => Some(value.clone()),
        Bound::Unbounded => None,
    };
    match (value(&one), value(&other)) {
        (None, _) => other,
        (_, None) => one,
        (Some(a), Some(b)) => {
            if b.partial_cmp(&a) == Some(wanted) {
                other
            } else {
                one
            }
        }
    }
}

/// The visible rows at some slots, in the table's order.
#[derive(Debug)]
pub struct IndexSource {
    table: Table,
    snapshot: Snapshot,
    index: String,
    slots: Vec<Slot>,
    form: Form,
    schema: SchemaRef,
    /// Position of `__slot`, the last column, if the scan shows it.
    slot: Option<usize>,
}

impl IndexSource {
    /// The rows at ascending slots to which an index led.
    pub fn new(
        table: &Table,
        snapshot: &Snapshot,
        (index, slots): (String, Vec<Slot>),
        form: Form,
        schema: &SchemaRef,
        slot: Option<usize>,
    ) -> Self {
        IndexSource {
            table: table.clone(),
            snapshot: snapshot.clone(),
            index,
            slots,
            form,
            schema: Arc::clone(schema),
            slot,
        }
    }

    fn chunk(&self, morsel: usize) -> &[Slot] {
        let end = self.slots.len().min((morsel + 1) * CHUNK);
        &self.slots[(morsel * CHUNK).min(end)..end]
    }
}

impl MorselSource for IndexSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn morsels(&self) -> usize {
        self.slots.len().div_ceil(CHUNK)
    }

    fn rows(&self, morsel: usize) -> usize {
        self.chunk(morsel).len()
    }

    fn read(&self, morsel: usize, projection: &[usize]) -> Result<(RecordBatch, bool)> {
        let stored: Vec<usize> = projection
            .iter()
            .copied()
            .filter(|&column| Some(column) != self.slot)
            .collect();
        let chunk = self.chunk(morsel);
        let (batch, slots) = self
            .table
            .read_visible(&self.snapshot, chunk, &stored, self.form)?;
        if stored.len() == projection.len() {
            return Ok((batch, false));
        }
        let slots = UInt64Array::from_iter_values(slots.iter().map(|slot| slot.0));
        let slots: ArrayRef = Arc::new(slots);
        let mut columns = batch.columns().iter();
        let columns = projection
            .iter()
            .map(|&column| match Some(column) == self.slot {
                true => Some(Arc::clone(&slots)),
                false => columns.next().cloned(),
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| crate::Error::internal("an index scan lacks a column"))?;
        let schema = Arc::new(self.schema.project(projection)?);
        let fields: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect();
        let schema = Arc::new(arrow::datatypes::Schema::new(fields));
        Ok((RecordBatch::try_new(schema, columns)?, false))
    }

    fn statistics(&self, columns: &[usize]) -> Arc<Statistics> {
        let schema = match self.schema.project(columns) {
            Ok(schema) => schema,
            Err(_) => self.schema.as_ref().clone(),
        };
        let mut statistics = Statistics::new_unknown(&schema);
        statistics.num_rows = Precision::Inexact(self.slots.len());
        Arc::new(statistics)
    }

    fn access(&self) -> Option<&str> {
        Some(&self.index)
    }
}
