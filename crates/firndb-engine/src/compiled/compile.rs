//! From statements to programs: what is certainly a statement on a single row, and nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{self, Expr};

use super::program::{
    Arbiter, Change, Delete, Fresh, Insert, Key, Operation, Program, Returned, Select, Set, Source,
    Update,
};
use super::value::{Datum, Kind};
use crate::catalog::{CatalogState, Constraint, Relation, TEMPORARY_SCHEMA, TableEntry, fold};
use crate::parse;
use crate::session::Frame;
use crate::statement::{dml, split_name};

/// Where names are looked for.
#[derive(Debug)]
pub struct Names<'a> {
    /// The catalog.
    pub catalog: &'a CatalogState,
    /// Schemas in which names without a schema are looked for.
    pub path: &'a [String],
    /// Frames registered with the session, which queries find first.
    pub registered: &'a BTreeMap<String, Frame>,
}

/// The program of a statement with so many parameters; `None` if it takes the general way.
pub fn compile(
    names: &Names<'_>,
    statement: &ast::Statement,
    parameters: usize,
) -> Option<Program> {
    match statement {
        ast::Statement::Query(query) => select(names, query, parameters),
        ast::Statement::Update(statement) => update(names, statement, parameters),
        ast::Statement::Delete(statement) => delete(names, statement, parameters),
        ast::Statement::Insert(statement) => insert(names, statement, parameters),
        _ => None,
    }
}

/// Whether a statement is of a kind that may be compiled.
pub fn is_candidate(statement: &ast::Statement) -> bool {
    match statement {
        ast::Statement::Query(query) => matches!(
            query.body.as_ref(),
            ast::SetExpr::Select(select) if select.from.len() == 1 && select.selection.is_some()
        ),
        ast::Statement::Update(_) | ast::Statement::Delete(_) | ast::Statement::Insert(_) => true,
        _ => false,
    }
}

impl Names<'_> {
    fn table(&self, name: &ast::ObjectName, queried: bool) -> Option<Arc<TableEntry>> {
        let (schema, name) = split_name(name).ok()?;
        let relation = match schema {
            Some(schema) => self.catalog.relation(&schema, &name)?,
            None if queried && self.registered.contains_key(&fold(&name)) => return None,
            None => self.catalog.relation(TEMPORARY_SCHEMA, &name).or_else(|| {
                let mut path = self.path.iter();
                path.find_map(|schema| self.catalog.relation(schema, &name))
            })?,
        };
        match relation {
            Relation::Table(table) => Some(table),
            Relation::View(_) => None,
        }
    }
}

/// A table as a statement names it.
struct Target {
    entry: Arc<TableEntry>,
    /// What may stand before its columns.
    qualifier: String,
    names: Vec<String>,
}

impl Target {
    fn new(entry: Arc<TableEntry>, qualifier: &ast::Ident) -> Target {
        Target {
            names: entry.folded_names(),
            entry,
            qualifier: qualifier.value.clone(),
        }
    }

    fn of_factor(names: &Names<'_>, factor: &ast::TableFactor, queried: bool) -> Option<Target> {
        let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } = factor
        else {
            return None;
        };
        if !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
            return None;
        }
        let entry = names.table(name, queried)?;
        match alias {
            Some(alias) if alias.columns.is_empty() && alias.at.is_none() => {
                Some(Target::new(entry, &alias.name))
            }
            Some(_) => None,
            None => Some(Target::new(entry, name.0.last()?.as_ident()?)),
        }
    }

    fn of_relation(
        names: &Names<'_>,
        relation: &ast::TableWithJoins,
        queried: bool,
    ) -> Option<Target> {
        match relation.joins.as_slice() {
            [] => Target::of_factor(names, &relation.relation, queried),
            _ => None,
        }
    }

    fn named(&self, name: &ast::Ident) -> Option<usize> {
        self.names.iter().position(|known| *known == name.value)
    }

    /// The column that an expression is.
    fn column(&self, expression: &Expr) -> Option<usize> {
        match expression {
            Expr::Identifier(name) => self.named(name),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [qualifier, name] if qualifier.value == self.qualifier => self.named(name),
                _ => None,
            },
            _ => None,
        }
    }

    fn kind(&self, column: usize) -> Option<Kind> {
        // The column's own field: storage's has no metadata of its own.
        Kind::of(&self.entry.columns[column].field)
    }

    fn is_nullable(&self, column: usize) -> bool {
        self.entry.columns[column].field.is_nullable()
    }

    /// The key that a condition fixes, if that is all it does.
    fn key(&self, condition: Option<&Expr>) -> Option<Key> {
        let mut fixed = Vec::new();
        self.collect(condition?, &mut fixed)?;
        self.keys().into_iter().find_map(|(constraint, columns)| {
            if columns.len() != fixed.len() {
                return None;
            }
            let values = columns.iter().map(|column| {
                let (_, value) = fixed.iter().find(|(other, _)| other == column)?;
                Some((self.kind(*column)?, value.clone()))
            });
            Some(Key {
                constraint: constraint.to_owned(),
                values: values.collect::<Option<_>>()?,
            })
        })
    }

    /// The unique constraints.
    fn keys(&self) -> Vec<(&str, &[usize])> {
        let constraints = self.entry.constraints.iter();
        constraints
            .filter_map(|constraint| Some((constraint.name(), constraint.key()?)))
            .collect()
    }

    /// Adds the columns that a conjunction of equalities fixes; `None` if there is anything else in it.
    fn collect(&self, condition: &Expr, fixed: &mut Vec<(usize, Source)>) -> Option<()> {
        match condition {
            Expr::Nested(inner) => self.collect(inner, fixed),
            Expr::BinaryOp {
                left,
                op: ast::BinaryOperator::And,
                right,
            } => {
                self.collect(left, fixed)?;
                self.collect(right, fixed)
            }
            Expr::BinaryOp {
                left,
                op: ast::BinaryOperator::Eq,
                right,
            } => {
                let (column, value) = match self.column(left) {
                    Some(column) => (column, right),
                    None => (self.column(right)?, left),
                };
                if fixed.iter().any(|(other, _)| *other == column) {
                    return None;
                }
                let source = source(value)?;
                // A literal that is never a key takes the general way from the start.
                if let Source::Constant(value) = &source {
                    self.kind(column)?.compared(Datum::of(value)?)?;
                }
                fixed.push((column, source));
                Some(())
            }
            _ => None,
        }
    }

    /// Whether there are unique indexes beside those of constraints.
    fn has_unique_indexes(&self) -> bool {
        self.entry.indexes.iter().any(|index| index.unique)
    }

    /// Whether only uniqueness and NOT NULL hold for the columns.
    fn is_unchecked(&self, written: impl Fn(&str) -> bool) -> bool {
        self.entry
            .constraints
            .iter()
            .all(|constraint| match constraint {
                Constraint::PrimaryKey { .. } | Constraint::Unique { .. } => true,
                Constraint::Check { condition, .. } => !mentions(condition, &written),
                Constraint::ForeignKey(_) => false,
            })
    }

    /// Whether a write of a row is just that: no other table is concerned, and no column is computed.
    fn is_simple(&self) -> bool {
        !self.entry.has_references()
            && self
                .entry
                .columns
                .iter()
                .all(|column| column.generated.is_none() && column.identity.is_none())
    }

    /// The columns of a select list, if there is nothing but columns in it.
    fn listed(&self, items: &[ast::SelectItem]) -> Option<Vec<usize>> {
        let mut columns = Vec::new();
        for item in items {
            match item {
                ast::SelectItem::UnnamedExpr(expression)
                | ast::SelectItem::ExprWithAlias {
                    expr: expression, ..
                } => columns.push(self.column(expression)?),
                ast::SelectItem::Wildcard(options)
                    if *options == ast::WildcardAdditionalOptions::default() =>
                {
                    columns.extend(0..self.names.len());
                }
                _ => return None,
            }
        }
        Some(columns)
    }

    fn yields(&self, columns: &[usize]) -> Option<Vec<(Kind, usize)>> {
        let kinds = columns
            .iter()
            .map(|&column| Some((self.kind(column)?, column)));
        kinds.collect()
    }

    fn program(
        self,
        operation: Operation,
        parameters: usize,
        yields: Option<Vec<(Kind, usize)>>,
    ) -> Program {
        Program {
            table: self.entry,
            operation,
            parameters,
            yields,
            columns: None,
        }
    }
}

fn select(names: &Names<'_>, query: &ast::Query, parameters: usize) -> Option<Program> {
    let ast::SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [relation] = select.from.as_slice() else {
        return None;
    };
    let condition = select.selection.as_ref()?;
    let target = Target::of_relation(names, relation, true)?;
    let key = target.key(Some(condition))?;
    let columns = target.listed(&select.projection)?;
    if !is_bare(query) {
        return None;
    }
    let rows = target
        .entry
        .table
        .row_by_key(&key.constraint, &columns)
        .ok()?;
    let yields = target.yields(&columns)?;
    Some(target.program(
        Operation::Select(Select { key, rows }),
        parameters,
        Some(yields),
    ))
}

fn update(names: &Names<'_>, update: &ast::Update, parameters: usize) -> Option<Program> {
    let plain = update.from.is_none()
        && update.output.is_none()
        && update.or.is_none()
        && update.order_by.is_empty()
        && update.limit.is_none();
    if !plain {
        return None;
    }
    let target = Target::of_relation(names, &update.table, false)?;
    let key = target.key(update.selection.as_ref())?;
    let mut reads: Vec<usize> = Vec::new();
    let mut written: Vec<usize> = Vec::new();
    let mut sets = Vec::new();
    for assignment in &update.assignments {
        let ast::AssignmentTarget::ColumnName(name) = &assignment.target else {
            return None;
        };
        let [part] = name.0.as_slice() else {
            return None;
        };
        let column = target.named(part.as_ident()?)?;
        if written.contains(&column) {
            return None;
        }
        written.push(column);
        sets.push(Set {
            kind: target.kind(column)?,
            nullable: target.is_nullable(column),
            change: change(&target, column, &assignment.value, &mut reads)?,
        });
    }
    if sets.is_empty()
        || !target.is_simple()
        || !target.is_unchecked(|name| written.iter().any(|&at| target.names[at] == name))
    {
        return None;
    }
    let (returning, yields) = match &update.returning {
        None => (Vec::new(), None),
        Some(items) => {
            let columns = target.listed(items)?;
            let places = columns.iter().map(|column| {
                match written.iter().position(|other| other == column) {
                    Some(at) => Returned::Written(at),
                    None => Returned::Stored(place(&mut reads, *column)),
                }
            });
            (places.collect(), Some(target.yields(&columns)?))
        }
    };
    let table = &target.entry.table;
    let operation = Operation::Update(Update {
        rows: table.row_by_key(&key.constraint, &reads).ok()?,
        write: table.row_update(&written).ok()?,
        key,
        sets,
        returning,
    });
    Some(target.program(operation, parameters, yields))
}

/// What a column is set to.
fn change(target: &Target, column: usize, value: &Expr, reads: &mut Vec<usize>) -> Option<Change> {
    if let Some(source) = source(value) {
        return Some(Change::Value(source));
    }
    let field = |column: usize| &target.entry.columns[column].field;
    let same_type = |other: usize| {
        field(other).data_type() == field(column).data_type()
            && field(other).metadata() == field(column).metadata()
    };
    if let Some(other) = target.column(value) {
        return same_type(other).then(|| Change::Stored(place(reads, other)));
    }
    match value {
        Expr::Nested(inner) => change(target, column, inner, reads),
        Expr::BinaryOp { left, op, right } => {
            let minus = match op {
                ast::BinaryOperator::Plus => false,
                ast::BinaryOperator::Minus => true,
                _ => return None,
            };
            let (other, value) = match (target.column(left), target.column(right)) {
                (Some(other), None) => (other, source(right)?),
                (None, Some(other)) if !minus => (other, source(left)?),
                _ => return None,
            };
            same_type(other).then(|| Change::Sum {
                stored: place(reads, other),
                value,
                minus,
            })
        }
        _ => None,
    }
}

fn delete(names: &Names<'_>, delete: &ast::Delete, parameters: usize) -> Option<Program> {
    let plain = delete.tables.is_empty()
        && delete.using.is_none()
        && delete.output.is_none()
        && delete.order_by.is_empty()
        && delete.limit.is_none();
    let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
        &delete.from;
    let ([relation], true) = (from.as_slice(), plain) else {
        return None;
    };
    let target = Target::of_relation(names, relation, false)?;
    if !target.is_simple() {
        return None;
    }
    let key = target.key(delete.selection.as_ref())?;
    let (columns, yields) = match &delete.returning {
        None => (Vec::new(), None),
        Some(items) => {
            let columns = target.listed(items)?;
            let yields = target.yields(&columns)?;
            (columns, Some(yields))
        }
    };
    let rows = target
        .entry
        .table
        .row_by_key(&key.constraint, &columns)
        .ok()?;
    Some(target.program(Operation::Delete(Delete { key, rows }), parameters, yields))
}

fn insert(names: &Names<'_>, insert: &ast::Insert, parameters: usize) -> Option<Program> {
    let plain = insert.or.is_none()
        && !insert.ignore
        && !insert.overwrite
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
        && insert.after_columns.is_empty()
        && insert.output.is_none()
        && !insert.replace_into
        && insert.priority.is_none()
        && insert.insert_alias.is_none()
        && insert.settings.is_none()
        && insert.format_clause.is_none()
        && insert.multi_table_insert_type.is_none()
        && insert.multi_table_into_clauses.is_empty();
    let (true, ast::TableObject::TableName(name)) = (plain, &insert.table) else {
        return None;
    };
    let source_query = insert.source.as_deref()?;
    let ast::SetExpr::Values(values) = source_query.body.as_ref() else {
        return None;
    };
    let [row] = values.rows.as_slice() else {
        return None;
    };
    if values.explicit_row || !is_bare(source_query) {
        return None;
    }
    let entry = names.table(name, false)?;
    let qualifier = match &insert.table_alias {
        Some(alias) => alias.alias.clone(),
        None => name.0.last()?.as_ident()?.clone(),
    };
    let target = Target::new(entry, &qualifier);
    if !target.is_simple() || !target.is_unchecked(|_| true) {
        return None;
    }
    let width = target.names.len();
    let destination: Vec<usize> = if insert.columns.is_empty() {
        (0..row.content.len()).collect()
    } else {
        let columns = insert.columns.iter().map(|name| match name.0.as_slice() {
            [part] => target.named(part.as_ident()?),
            _ => None,
        });
        columns.collect::<Option<_>>()?
    };
    let repeats = (1..destination.len()).any(|at| destination[..at].contains(&destination[at]));
    if destination.len() != row.content.len() || destination.len() > width || repeats {
        return None;
    }
    let mut columns = Vec::with_capacity(width);
    for column in 0..width {
        let given = destination.iter().position(|&other| other == column);
        let value = match (given, &target.entry.columns[column].default) {
            (Some(at), _) => Some(source(&row.content[at])?),
            (None, Some(default)) => Some(Source::Constant(dml::constant(default)?)),
            (None, None) => None,
        };
        columns.push(Fresh {
            kind: target.kind(column),
            nullable: target.is_nullable(column),
            value,
        });
    }
    let unless = match &insert.on {
        None => Vec::new(),
        Some(ast::OnInsert::OnConflict(clause)) => arbiters(&target, clause)?,
        Some(_) => return None,
    };
    let (returning, yields) = match &insert.returning {
        None => (Vec::new(), None),
        Some(items) => {
            let columns = target.listed(items)?;
            let yields = target.yields(&columns)?;
            (columns, Some(yields))
        }
    };
    let operation = Operation::Insert(Insert {
        columns,
        returning,
        unless,
    });
    Some(target.program(operation, parameters, yields))
}

/// The keys that ON CONFLICT DO NOTHING looks for.
fn arbiters(target: &Target, clause: &ast::OnConflict) -> Option<Vec<Arbiter>> {
    if clause.action != ast::OnConflictAction::DoNothing {
        return None;
    }
    let keys = target.keys();
    let wanted = match &clause.conflict_target {
        // A key of expressions has no handle.
        None if target.has_unique_indexes() => return None,
        None => keys,
        Some(ast::ConflictTarget::Columns(names)) => {
            let mut columns = names
                .iter()
                .map(|name| target.named(name))
                .collect::<Option<Vec<_>>>()?;
            columns.sort_unstable();
            let is_wanted = |key: &&(&str, &[usize])| {
                let mut sorted = key.1.to_vec();
                sorted.sort_unstable();
                sorted == columns
            };
            vec![*keys.iter().find(is_wanted)?]
        }
        Some(ast::ConflictTarget::OnConstraint(_)) => return None,
    };
    let arbiters = wanted.into_iter().map(|(constraint, columns)| {
        Some(Arbiter {
            rows: target.entry.table.row_by_key(constraint, &[]).ok()?,
            columns: columns.to_vec(),
        })
    });
    arbiters.collect()
}

/// A parameter or a literal.
fn source(expression: &Expr) -> Option<Source> {
    match expression {
        Expr::Nested(inner) => source(inner),
        Expr::Value(value) => match &value.value {
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                Some(Source::Parameter(number.checked_sub(1)?))
            }
            _ => literal(expression),
        },
        _ => literal(expression),
    }
}

fn literal(expression: &Expr) -> Option<Source> {
    let value: ScalarValue = dml::constant(expression)?;
    Datum::of(&value)?;
    Some(Source::Constant(value))
}

/// The place of a column among those that are read.
fn place(reads: &mut Vec<usize>, column: usize) -> usize {
    match reads.iter().position(|&other| other == column) {
        Some(at) => at,
        None => {
            reads.push(column);
            reads.len() - 1
        }
    }
}

/// Whether a CHECK's condition names one of the columns.
fn mentions(condition: &Expr, column: &impl Fn(&str) -> bool) -> bool {
    let flow = ast::visit_expressions(condition, |expression| {
        let name = match expression {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            // Whatever may hold columns in another form.
            Expr::Subquery(_) | Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => None,
            _ => return std::ops::ControlFlow::Continue(()),
        };
        match name {
            Some(name) if !column(&fold(&name.value)) => std::ops::ControlFlow::Continue(()),
            _ => std::ops::ControlFlow::Break(()),
        }
    });
    flow.is_break()
}

/// Whether a query is nothing but its select list, FROM and WHERE, or its VALUES.
fn is_bare(query: &ast::Query) -> bool {
    static BARE: LazyLock<Option<ast::Query>> = LazyLock::new(|| {
        Some(emptied(
            &parse::parse_query("SELECT a FROM t WHERE a").ok()?,
        ))
    });
    let Some(bare) = BARE.as_ref() else {
        return false;
    };
    if let ast::SetExpr::Values(_) = query.body.as_ref() {
        let mut without_values = query.clone();
        without_values.body.clone_from(&bare.body);
        return without_values == *bare;
    }
    emptied(query) == *bare
}

fn emptied(query: &ast::Query) -> ast::Query {
    let mut query = query.clone();
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection.clear();
        select.from.clear();
        select.selection = None;
    }
    query
}
