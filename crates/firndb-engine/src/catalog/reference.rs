//! Foreign keys: what a table refers to, and who refers to it.

use super::entry::{Constraint, TableEntry};
use super::state::{CatalogState, fold};
use super::{Relation, TEMPORARY_SCHEMA};

/// FOREIGN KEY. The referring table's storage has an index of the constraint's name over its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Constraint name.
    pub name: String,
    /// Positions of the referring columns.
    pub columns: Vec<usize>,
    /// The schema of the table referred to.
    pub schema: String,
    /// The table referred to.
    pub table: String,
    /// The columns referred to, by name, in the order of `columns`.
    pub referred: Vec<String>,
    /// What happens to referring rows when the row goes.
    pub on_delete: ReferenceAction,
    /// What happens to referring rows when its key changes.
    pub on_update: ReferenceAction,
    /// Whether it may be checked at the end of the transaction.
    pub deferrable: bool,
    /// Whether it is checked at the end of the transaction.
    pub deferred: bool,
}

/// What happens to rows that refer to a key which goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReferenceAction {
    /// They forbid it, once all is done.
    #[default]
    NoAction,
    /// They forbid it.
    Restrict,
    /// They go, or change with it.
    Cascade,
    /// Their references become NULL.
    SetNull,
    /// Their references become the columns' defaults.
    SetDefault,
}

impl ReferenceAction {
    /// As SQL has it.
    pub fn sql(self) -> &'static str {
        match self {
            ReferenceAction::NoAction => "NO ACTION",
            ReferenceAction::Restrict => "RESTRICT",
            ReferenceAction::Cascade => "CASCADE",
            ReferenceAction::SetNull => "SET NULL",
            ReferenceAction::SetDefault => "SET DEFAULT",
        }
    }
}

/// A foreign key of another table, or of the same, as the table knows it that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    /// The referring table's schema.
    pub schema: String,
    /// The referring table.
    pub table: String,
    /// The constraint's name there.
    pub constraint: String,
}

impl Referrer {
    /// Whether it is a foreign key of this table.
    pub fn is_of(&self, table: &TableEntry) -> bool {
        fold(&self.schema) == fold(&table.schema) && self.table == table.name
    }
}

impl TableEntry {
    /// Its foreign keys.
    pub fn foreign_keys(&self) -> impl Iterator<Item = &ForeignKey> {
        self.constraints.iter().filter_map(|one| match one {
            Constraint::ForeignKey(key) => Some(key),
            _ => None,
        })
    }

    /// Whether writes to it concern foreign keys.
    pub fn has_references(&self) -> bool {
        !self.referrers.is_empty() || self.foreign_keys().next().is_some()
    }

    /// The unique key over just these columns, in any order, and its columns in its own order.
    pub fn unique_key_over(&self, columns: &[usize]) -> Option<(String, Vec<usize>)> {
        self.unique_keys().find_map(|key| {
            let of_key = key.columns?;
            let same = of_key.len() == columns.len()
                && of_key.iter().all(|column| columns.contains(column));
            same.then(|| (key.name.to_owned(), of_key))
        })
    }
}

impl CatalogState {
    /// A table by its schema and exact name.
    pub fn exact_table(&self, schema: &str, name: &str) -> Option<std::sync::Arc<TableEntry>> {
        let schema = match fold(schema) == TEMPORARY_SCHEMA {
            true => TEMPORARY_SCHEMA,
            false => schema,
        };
        match self.relation(schema, name) {
            Some(Relation::Table(entry)) if entry.name == name => Some(entry),
            _ => None,
        }
    }
}
