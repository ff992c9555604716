//! MERGE: a join of source and target whose rows go through the WHEN clauses in their order.
//!
//! ```text
//! source LEFT (or, BY SOURCE, FULL) JOIN __firndb_target ON … ─▶ batch ─┬─ WHEN 1: rows of its kind, condition ─▶ action
//!                                                                      ├─ WHEN 2: those that are left …
//!                                                                      └─ nothing for the rest
//! ```
//!
//! A clause's condition and expressions are evaluated over the rows that reach it and no others, so `WHEN MATCHED AND d <> 0
//! THEN UPDATE SET x = n / d` never divides by zero. A target row that two source rows change is 21000.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{interleave, take};
use arrow::datatypes::UInt64Type;
use datafusion::sql::sqlparser::ast;
use firndb_storage::Slot;
use futures::TryStreamExt;

use super::assignment::Assignments;
use super::conflict::write_changes;
use super::insert::{column_list, destination};
use super::query::{
    SLOT, Template, alone, always, column, derived, identifier, is_default, output, select, target,
    target_columns,
};
use super::returning::Returning;
use super::target::Proposed;
use super::update::{finish, slots_of};
use super::write::{SlotSet, Writer};
use super::{Target, named_target};
use crate::parse::{DEFAULT_VALUES, DO_NOTHING};
use crate::session::Outcome;
use crate::statement::StatementContext;
use crate::{Error, Result, SqlState};

/// A column of the source that is never NULL.
const PRESENT: &str = "__firndb_present";

/// Runs a MERGE.
pub(super) async fn run(
    context: &StatementContext,
    merge: &ast::Merge,
    with: Option<&ast::With>,
) -> Result<Outcome> {
    let target = named_target(context, &merge.table)?;
    let mut clauses = Vec::with_capacity(merge.clauses.len());
    for clause in &merge.clauses {
        clauses.push(Clause::plan(&target, &merge.source, clause, with).await?);
    }
    let joined = Joined::plan(&target, merge, &clauses, with).await?;
    let returning = match &merge.output {
        None => None,
        Some(ast::OutputClause::Returning { select_items, .. }) => {
            let from = vec![
                alone(merge.source.clone()),
                alone(target_columns(target.column_names(), target.name())),
            ];
            Some(Returning::over(&target, select_items, from, with).await?)
        }
        Some(ast::OutputClause::Output { .. }) => {
            return Err(Error::unsupported("OUTPUT is not supported; use RETURNING"));
        }
    };
    let mut merging = Merging {
        target: &target,
        writer: Writer::new(target.table(), &context.transaction),
        returning,
        touched: SlotSet::default(),
        affected: 0,
    };
    let mut rows = context.run(joined.template.with_scope(0)?).await?;
    while let Some(batch) = rows.try_next().await? {
        if batch.num_rows() > 0 {
            let pairs = Pairs::new(&target, &batch, joined.source, joined.marked)?;
            merging.apply(&clauses, &pairs).await?;
        }
    }
    let affected = merging.affected + merging.writer.finish()?;
    target.complete()?;
    finish("MERGE", affected, merging.returning, &target).await
}

/// The join that feeds a MERGE.
struct Joined {
    template: Template,
    /// Number of the source's columns.
    source: usize,
    /// Whether a column of the source that is never NULL follows them.
    marked: bool,
}

impl Joined {
    async fn plan(
        table: &Target<'_>,
        merge: &ast::Merge,
        clauses: &[Clause],
        with: Option<&ast::With>,
    ) -> Result<Self> {
        let marked = clauses.iter().any(|clause| clause.kind == Kind::TargetOnly);
        let source = match marked {
            true => mark(&merge.source)?,
            false => merge.source.clone(),
        };
        let on = ast::JoinConstraint::On(merge.on.as_ref().clone());
        let from = ast::TableWithJoins {
            relation: source,
            joins: vec![ast::Join {
                relation: target(table.name()),
                global: false,
                join_operator: match marked {
                    true => ast::JoinOperator::FullOuter(on),
                    false => ast::JoinOperator::Left(on),
                },
            }],
        };
        let slot = output(column(table.name(), SLOT), 0);
        let query = select(with, vec![slot], vec![from], Some(always()));
        let template = Template::plan(table.context(), &query, table, "MERGE").await?;
        let others = table.width() + 1 + usize::from(marked);
        let width = template.scope().fields().len();
        let source = width
            .checked_sub(others)
            .ok_or_else(|| Error::internal("MERGE joins a source with the target"))?;
        Ok(Joined {
            template,
            source,
            marked,
        })
    }
}

/// `(SELECT *, true AS __firndb_present FROM source) AS name`.
fn mark(source: &ast::TableFactor) -> Result<ast::TableFactor> {
    let name = match source {
        ast::TableFactor::Table {
            alias: Some(alias), ..
        }
        | ast::TableFactor::Derived {
            alias: Some(alias), ..
        }
        | ast::TableFactor::Function {
            alias: Some(alias), ..
        } => Some(alias.name.clone()),
        ast::TableFactor::Table { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).cloned()
        }
        _ => None,
    };
    let name = name.ok_or_else(|| {
        Error::unsupported("the source of MERGE … WHEN NOT MATCHED BY SOURCE needs an alias")
    })?;
    let projection = vec![
        ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default()),
        ast::SelectItem::ExprWithAlias {
            expr: always(),
            alias: identifier(PRESENT),
        },
    ];
    let query = select(None, projection, vec![alone(source.clone())], None);
    Ok(derived(query, &name))
}

/// What a joined row holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A row of the source and one of the target.
    Both,
    /// A row of the source.
    SourceOnly,
    /// A row of the target.
    TargetOnly,
}

/// A WHEN clause.
struct Clause {
    kind: Kind,
    template: Template,
    action: Action,
}

enum Action {
    Nothing,
    Delete,
    Update(Assignments),
    Insert(Vec<usize>),
}

impl Clause {
    async fn plan(
        table: &Target<'_>,
        source: &ast::TableFactor,
        clause: &ast::MergeClause,
        with: Option<&ast::With>,
    ) -> Result<Self> {
        let kind = match clause.clause_kind {
            ast::MergeClauseKind::Matched => Kind::Both,
            ast::MergeClauseKind::NotMatched | ast::MergeClauseKind::NotMatchedByTarget => {
                Kind::SourceOnly
            }
            ast::MergeClauseKind::NotMatchedBySource => Kind::TargetOnly,
        };
        let mut expressions = Vec::new();
        let action = match &clause.action {
            ast::MergeAction::Delete { .. } => Action::Delete,
            ast::MergeAction::Update(update) => {
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(Error::unsupported("WHERE in an action of MERGE"));
                }
                if sets_marker(&update.assignments) {
                    Action::Nothing
                } else {
                    let assignments = Assignments::resolve(table, &update.assignments)?;
                    expressions.extend_from_slice(assignments.expressions());
                    Action::Update(assignments)
                }
            }
            ast::MergeAction::Insert(insert) => insert_action(table, insert, &mut expressions)?,
        };
        if expressions.is_empty() {
            expressions.push(super::query::null());
        }
        let from = match kind {
            Kind::Both => vec![alone(source.clone()), alone(target(table.name()))],
            Kind::SourceOnly => vec![alone(source.clone())],
            Kind::TargetOnly => vec![alone(target(table.name()))],
        };
        let projection = expressions
            .into_iter()
            .enumerate()
            .map(|(number, expression)| output(expression, number))
            .collect();
        let condition = clause.predicate.clone().unwrap_or_else(always);
        let query = select(with, projection, from, Some(condition));
        let template = Template::plan(table.context(), &query, table, "MERGE").await?;
        Ok(Clause {
            kind,
            template,
            action,
        })
    }
}

fn sets_marker(assignments: &[ast::Assignment]) -> bool {
    matches!(assignments, [ast::Assignment { target: ast::AssignmentTarget::ColumnName(name), .. }]
        if is_marker(std::slice::from_ref(name), DO_NOTHING))
}

fn is_marker(names: &[ast::ObjectName], marker: &str) -> bool {
    matches!(names, [name] if matches!(name.0.as_slice(), [part]
        if part.as_ident().is_some_and(|ident| ident.value == marker)))
}

fn insert_action(
    table: &Target,
    insert: &ast::MergeInsertExpr,
    expressions: &mut Vec<ast::Expr>,
) -> Result<Action> {
    if is_marker(&insert.columns, DO_NOTHING) {
        return Ok(Action::Nothing);
    }
    if is_marker(&insert.columns, DEFAULT_VALUES) {
        return Ok(Action::Insert(Vec::new()));
    }
    if insert.insert_predicate.is_some() {
        return Err(Error::unsupported("WHERE in an action of MERGE"));
    }
    let ast::MergeInsertKind::Values(values) = &insert.kind else {
        return Err(Error::unsupported("INSERT ROW in MERGE"));
    };
    let [row] = values.rows.as_slice() else {
        return Err(Error::new(
            SqlState::SyntaxError,
            "INSERT in MERGE takes one row of values",
        ));
    };
    let named = column_list(table, &insert.columns)?;
    let columns = destination(table, named.as_deref(), row.content.len())?;
    for (value, &column) in row.content.iter().zip(&columns) {
        expressions.push(match is_default(value) {
            true => table.default_expression(column),
            false => value.clone(),
        });
    }
    Ok(Action::Insert(columns))
}

/// A batch of the join, taken apart.
struct Pairs {
    kinds: Vec<Kind>,
    source: Vec<ArrayRef>,
    /// The target's columns and its slots.
    target: Vec<ArrayRef>,
}

impl Pairs {
    fn new(target: &Target, batch: &RecordBatch, source: usize, marked: bool) -> Result<Self> {
        let scope = &batch.columns()[1..];
        let slots = scope
            .last()
            .and_then(|slots| slots.as_primitive_opt::<UInt64Type>())
            .ok_or_else(|| Error::internal("a write's query yields slots"))?;
        let present = marked.then(|| &scope[source]);
        let kinds = (0..batch.num_rows()).map(|row| {
            let has_source = present.is_none_or(|present| present.is_valid(row));
            match (has_source, slots.is_valid(row)) {
                (true, true) => Kind::Both,
                (true, false) => Kind::SourceOnly,
                (false, _) => Kind::TargetOnly,
            }
        });
        let kinds = kinds.collect();
        let first = source + usize::from(marked);
        debug_assert_eq!(scope.len() - first, target.width() + 1);
        Ok(Pairs {
            kinds,
            source: scope[..source].to_vec(),
            target: scope[first..].to_vec(),
        })
    }

    /// The columns that a clause ranges over, of some rows.
    fn scope(&self, kind: Kind, rows: &UInt64Array) -> Result<Vec<ArrayRef>> {
        let columns: Vec<&ArrayRef> = match kind {
            Kind::Both => self.source.iter().chain(&self.target).collect(),
            Kind::SourceOnly => self.source.iter().collect(),
            Kind::TargetOnly => self.target.iter().collect(),
        };
        take_all(columns, rows)
    }
}

/// A MERGE at work.
struct Merging<'t> {
    target: &'t Target<'t>,
    writer: Writer<'t>,
    returning: Option<Returning>,
    touched: SlotSet,
    /// Rows updated and deleted.
    affected: u64,
}

impl Merging<'_> {
    async fn apply(&mut self, clauses: &[Clause], pairs: &Pairs) -> Result<()> {
        let mut is_open = vec![true; pairs.kinds.len()];
        let mut returned = Returned::default();
        for clause in clauses {
            let rows = UInt64Array::from_iter_values(
                (0..pairs.kinds.len())
                    .filter(|&row| is_open[row] && pairs.kinds[row] == clause.kind)
                    .map(|row| row as u64),
            );
            if rows.is_empty() {
                continue;
            }
            let scope = pairs.scope(clause.kind, &rows)?;
            let numbers: ArrayRef = Arc::new(rows.clone());
            let plan = clause.template.over(&[numbers], &scope, rows.len())?;
            let mut results = self.target.context().run(plan).await?;
            while let Some(batch) = results.try_next().await? {
                if batch.num_rows() == 0 {
                    continue;
                }
                let rows = batch.column(0).as_primitive::<UInt64Type>().clone();
                for &row in rows.values() {
                    is_open[row as usize] = false;
                }
                let columns = self.act(&clause.action, pairs, &rows, &batch.columns()[1..])?;
                if let (Some(columns), true) = (columns, self.returning.is_some()) {
                    returned.add(&rows, columns);
                }
            }
        }
        match &mut self.returning {
            Some(returning) => returned.give(pairs, returning),
            None => Ok(()),
        }
    }

    /// Carries an action out; yields the target's rows as RETURNING shows them.
    fn act(
        &mut self,
        action: &Action,
        pairs: &Pairs,
        rows: &UInt64Array,
        results: &[ArrayRef],
    ) -> Result<Option<Vec<ArrayRef>>> {
        let target = self.target;
        match action {
            Action::Nothing => Ok(None),
            Action::Delete => {
                let (stored, slots) = self.touch(pairs, rows)?;
                target.delete(&slots)?;
                Ok(Some(stored))
            }
            Action::Update(assignments) => {
                let (mut stored, slots) = self.touch(pairs, rows)?;
                let values = assignments.values(target, results)?;
                write_changes(target, &slots, assignments.columns(), values, &mut stored)?;
                Ok(Some(stored))
            }
            Action::Insert(columns) => {
                let mut new: Vec<Option<ArrayRef>> = vec![None; target.width()];
                for (&column, values) in columns.iter().zip(results) {
                    new[column] = Some(target.assign(values, column)?);
                }
                for (column, values) in new.iter_mut().enumerate() {
                    if values.is_none() {
                        *values = Some(target.default(column, rows.len())?);
                    }
                }
                target.generate(&mut new, rows.len())?;
                target.enforce(&Proposed {
                    columns: &new,
                    rows: rows.len(),
                    slots: None,
                })?;
                let new: Vec<ArrayRef> = new.into_iter().flatten().collect();
                self.writer
                    .write(target.inserted(new.clone(), rows.len())?)?;
                Ok(Some(new))
            }
        }
    }

    /// The stored rows that an action changes, each for the first time in this statement.
    fn touch(&mut self, pairs: &Pairs, rows: &UInt64Array) -> Result<(Vec<ArrayRef>, Vec<Slot>)> {
        let mut stored = take_all(pairs.target.iter().collect(), rows)?;
        let slots = stored
            .pop()
            .ok_or_else(|| Error::internal("the target has slots"))?;
        let slots = slots_of(&slots)?;
        if !slots.iter().all(|slot| self.touched.insert(slot.0)) {
            return Err(Error::new(
                SqlState::CardinalityViolation,
                "MERGE command cannot affect row a second time",
            )
            .with_hint("Ensure that not more than one source row matches any one target row."));
        }
        self.affected += slots.len() as u64;
        Ok((stored, slots))
    }
}

/// The rows that one batch of the join gives to RETURNING, action by action.
#[derive(Default)]
struct Returned {
    places: Vec<(u64, (usize, usize))>,
    parts: Vec<Vec<ArrayRef>>,
}

impl Returned {
    fn add(&mut self, rows: &UInt64Array, columns: Vec<ArrayRef>) {
        let part = self.parts.len();
        let rows = rows.values().iter().enumerate();
        self.places
            .extend(rows.map(|(place, &row)| (row, (part, place))));
        self.parts.push(columns);
    }

    /// Hands the rows on in the join's order: the source's columns, then the target's.
    fn give(mut self, pairs: &Pairs, returning: &mut Returning) -> Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        self.places.sort_unstable();
        let rows = UInt64Array::from_iter_values(self.places.iter().map(|(row, _)| *row));
        let places: Vec<(usize, usize)> = self.places.iter().map(|(_, place)| *place).collect();
        let mut columns = take_all(pairs.source.iter().collect(), &rows)?;
        let width = self.parts.first().map_or(0, Vec::len);
        for column in 0..width {
            let parts: Vec<&dyn Array> = self
                .parts
                .iter()
                .map(|part| part[column].as_ref())
                .collect();
            columns.push(interleave(&parts, &places)?);
        }
        returning.add(columns, places.len())
    }
}

fn take_all(columns: Vec<&ArrayRef>, rows: &UInt64Array) -> Result<Vec<ArrayRef>> {
    let taken = columns.into_iter().map(|column| take(column, rows, None));
    Ok(taken.collect::<std::result::Result<_, _>>()?)
}
