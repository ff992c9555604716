//! What the catalog holds: tables, views, enums and the schemas around them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::sql::sqlparser::ast;

use super::state::fold;

/// A base table.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// Its schema's name.
    pub schema: String,
    /// Its name, as written in CREATE TABLE.
    pub name: String,
    /// Its columns in order; `table.schema()` has the same fields.
    pub columns: Vec<Column>,
    /// Keys and checks. NOT NULL is the field's nullability.
    pub constraints: Vec<Constraint>,
    /// Its storage under the current layout.
    pub table: firndb_storage::Table,
    /// COMMENT ON TABLE.
    pub comment: Option<String>,
    /// Whether it belongs to one session.
    pub temporary: bool,
}

impl TableEntry {
    /// The stored schema.
    pub fn stored_schema(&self) -> &SchemaRef {
        self.table.schema()
    }

    /// A column's position: by exact name first, then without regard to case.
    pub fn column(&self, name: &str) -> Option<usize> {
        let exact = self
            .columns
            .iter()
            .position(|column| column.field.name() == name);
        exact.or_else(|| {
            let folded = fold(name);
            self.columns
                .iter()
                .position(|column| fold(column.field.name()) == folded)
        })
    }

    /// The names under which queries see the columns: folded, but exact for columns that differ by case alone.
    pub fn folded_names(&self) -> Vec<String> {
        let folded: Vec<String> = self
            .columns
            .iter()
            .map(|column| fold(column.field.name()))
            .collect();
        folded
            .iter()
            .zip(&self.columns)
            .map(|(name, column)| {
                if folded.iter().filter(|other| *other == name).count() > 1 {
                    column.field.name().clone()
                } else {
                    name.clone()
                }
            })
            .collect()
    }
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name, stored Arrow type, nullability; metadata carries the SQL type (`types`).
    pub field: FieldRef,
    /// DEFAULT.
    pub default: Option<ast::Expr>,
    /// COMMENT ON COLUMN.
    pub comment: Option<String>,
}

/// A constraint over a table's rows. Unique ones have a storage index of the same name.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a table has few, and their expressions are read in place"
)]
pub enum Constraint {
    /// PRIMARY KEY: unique, and its columns are not nullable.
    PrimaryKey {
        /// Constraint name.
        name: String,
        /// Column positions.
        columns: Vec<usize>,
    },
    /// UNIQUE.
    Unique {
        /// Constraint name.
        name: String,
        /// Column positions.
        columns: Vec<usize>,
    },
    /// CHECK.
    Check {
        /// Constraint name.
        name: String,
        /// The condition; NULL passes.
        condition: ast::Expr,
    },
}

impl Constraint {
    /// The constraint's name.
    pub fn name(&self) -> &str {
        match self {
            Constraint::PrimaryKey { name, .. }
            | Constraint::Unique { name, .. }
            | Constraint::Check { name, .. } => name,
        }
    }

    /// The key's columns, when it is a key.
    pub fn key(&self) -> Option<&[usize]> {
        match self {
            Constraint::PrimaryKey { columns, .. } | Constraint::Unique { columns, .. } => {
                Some(columns)
            }
            Constraint::Check { .. } => None,
        }
    }
}

/// A view.
#[derive(Debug, Clone)]
pub struct ViewEntry {
    /// Its schema's name.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// The columns' names with their case; as many as the definition yields.
    pub columns: Vec<String>,
    /// What the definition called them when the view was created, folded.
    pub outputs: Vec<String>,
    /// The columns' types and nullability when the view was created.
    pub fields: Vec<FieldRef>,
    /// The definition, names folded and qualified.
    pub query: Arc<ast::Query>,
    /// COMMENT ON VIEW.
    pub comment: Option<String>,
    /// Whether it belongs to one session.
    pub temporary: bool,
}

/// What a name in a schema stands for.
#[derive(Debug, Clone)]
pub enum Relation {
    /// A base table.
    Table(Arc<TableEntry>),
    /// A view.
    View(Arc<ViewEntry>),
}

impl Relation {
    /// Its name as written.
    pub fn name(&self) -> &str {
        match self {
            Relation::Table(table) => &table.name,
            Relation::View(view) => &view.name,
        }
    }

    /// Its schema's name.
    pub fn schema(&self) -> &str {
        match self {
            Relation::Table(table) => &table.schema,
            Relation::View(view) => &view.schema,
        }
    }

    /// Whether both are the same object in the same state.
    pub(super) fn same(&self, other: &Relation) -> bool {
        match (self, other) {
            (Relation::Table(a), Relation::Table(b)) => Arc::ptr_eq(a, b),
            (Relation::View(a), Relation::View(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// An enum type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumEntry {
    /// Its name as written.
    pub name: String,
    /// Its labels in order.
    pub labels: Vec<String>,
}

/// A schema and what is in it, by folded name. Names that differ by case alone share a key.
#[derive(Debug, Clone, Default)]
pub struct SchemaEntry {
    /// Its name as written.
    pub name: String,
    pub(super) relations: BTreeMap<String, Vec<Relation>>,
    pub(super) enums: BTreeMap<String, Arc<EnumEntry>>,
}

impl SchemaEntry {
    /// An empty schema.
    pub fn new(name: impl Into<String>) -> Self {
        SchemaEntry {
            name: name.into(),
            ..SchemaEntry::default()
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.enums.is_empty()
    }

    /// A relation: by exact name first, then without regard to case.
    pub fn relation(&self, name: &str) -> Option<&Relation> {
        let candidates = self.relations.get(&fold(name))?;
        candidates
            .iter()
            .find(|relation| relation.name() == name)
            .or_else(|| candidates.first())
    }

    /// An enum type.
    pub fn enumeration(&self, name: &str) -> Option<&Arc<EnumEntry>> {
        self.enums.get(&fold(name))
    }

    pub(super) fn put_relation(&mut self, relation: Relation) {
        let candidates = self.relations.entry(fold(relation.name())).or_default();
        candidates.retain(|other| other.name() != relation.name());
        candidates.push(relation);
    }

    pub(super) fn take_relation(&mut self, name: &str) {
        let key = fold(name);
        if let Some(candidates) = self.relations.get_mut(&key) {
            candidates.retain(|other| other.name() != name);
            if candidates.is_empty() {
                self.relations.remove(&key);
            }
        }
    }
}
