//! Indexes as CREATE INDEX makes them. Those behind PRIMARY KEY and UNIQUE belong to their constraints.

use std::fmt::Write;

use datafusion::sql::sqlparser::ast;

use super::entry::{Constraint, TableEntry};

/// An index of a table; storage has one of the same name.
#[derive(Debug, Clone)]
pub struct IndexEntry {
    /// Its name, as written.
    pub name: String,
    /// Whether a key may live once only. Keys with a NULL never collide.
    pub unique: bool,
    /// What its keys consist of, in order.
    pub parts: Vec<IndexPart>,
    /// Of a partial index: which rows it holds.
    pub predicate: Option<ast::Expr>,
}

/// A part of an index's key.
#[derive(Debug, Clone)]
pub struct IndexPart {
    /// What it is.
    pub key: IndexKey,
    /// DESC.
    pub descending: bool,
    /// Whether NULLs come before all values.
    pub nulls_first: bool,
}

/// What a part of a key is.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a table has few, and their expressions are read in place"
)]
pub enum IndexKey {
    /// The column at a position.
    Column(usize),
    /// An expression over the table's columns.
    Expression(ast::Expr),
}

impl IndexEntry {
    /// The columns that are its key, when it is over all rows and columns alone.
    pub fn columns(&self) -> Option<Vec<usize>> {
        if self.predicate.is_some() {
            return None;
        }
        self.parts
            .iter()
            .map(|part| match part.key {
                IndexKey::Column(position) => Some(position),
                IndexKey::Expression(_) => None,
            })
            .collect()
    }

    /// The expressions in it, the predicate last.
    pub fn expressions(&self) -> impl Iterator<Item = &ast::Expr> {
        let parts = self.parts.iter().filter_map(|part| match &part.key {
            IndexKey::Expression(expression) => Some(expression),
            IndexKey::Column(_) => None,
        });
        parts.chain(&self.predicate)
    }

    /// As [`expressions`](Self::expressions), to be changed.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut ast::Expr> {
        let parts = self
            .parts
            .iter_mut()
            .filter_map(|part| match &mut part.key {
                IndexKey::Expression(expression) => Some(expression),
                IndexKey::Column(_) => None,
            });
        parts.chain(&mut self.predicate)
    }

    /// Its key's parts as text.
    pub fn part_names(&self, table: &TableEntry) -> Vec<String> {
        self.parts
            .iter()
            .map(|part| match &part.key {
                IndexKey::Column(position) => quoted(table.columns[*position].field.name()),
                IndexKey::Expression(expression) => match expression {
                    ast::Expr::Function(_) => expression.to_string(),
                    _ => format!("({expression})"),
                },
            })
            .collect()
    }

    /// The statement that makes it, without a semicolon.
    pub fn definition(&self, table: &TableEntry) -> String {
        let unique = if self.unique { "UNIQUE " } else { "" };
        let names = self.part_names(table);
        let parts: Vec<String> = names
            .into_iter()
            .zip(&self.parts)
            .map(|(mut text, part)| {
                if part.descending {
                    text.push_str(" DESC");
                }
                match (part.descending, part.nulls_first) {
                    (true, false) => text.push_str(" NULLS LAST"),
                    (false, true) => text.push_str(" NULLS FIRST"),
                    _ => {}
                }
                text
            })
            .collect();
        let mut text = format!(
            "CREATE {unique}INDEX {} ON {}.{} USING btree ({})",
            quoted(&self.name),
            quoted(&table.schema),
            quoted(&table.name),
            parts.join(", ")
        );
        if let Some(predicate) = &self.predicate {
            // Writing to a String cannot fail.
            let _ = write!(text, " WHERE ({predicate})");
        }
        text
    }
}

/// A name as SQL has it, quoted unless it is a plain word.
pub fn quoted(name: &str) -> String {
    let plain = name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty();
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A key that lives once only: of a constraint, or of a unique index.
#[derive(Debug, Clone)]
pub struct UniqueKey<'a> {
    /// The name of the constraint, the index and its storage.
    pub name: &'a str,
    /// The columns that are the key; `None` of expressions and partial indexes.
    pub columns: Option<Vec<usize>>,
    /// The index, unless it belongs to a constraint.
    pub index: Option<&'a IndexEntry>,
}

impl TableEntry {
    /// The keys that live once only: constraints first.
    pub fn unique_keys(&self) -> impl Iterator<Item = UniqueKey<'_>> {
        let of_constraints = self.constraints.iter().filter_map(|constraint| {
            constraint.key().map(|columns| UniqueKey {
                name: constraint.name(),
                columns: Some(columns.to_vec()),
                index: None,
            })
        });
        let of_indexes = self.indexes.iter().filter(|index| index.unique);
        of_constraints.chain(of_indexes.map(|index| UniqueKey {
            name: &index.name,
            columns: index.columns(),
            index: Some(index),
        }))
    }

    /// Whether an index has exactly this name, be it a constraint's.
    pub fn has_index(&self, name: &str) -> bool {
        let keys = self.constraints.iter().filter(|one| one.key().is_some());
        keys.map(Constraint::name)
            .chain(self.indexes.iter().map(|index| index.name.as_str()))
            .any(|other| other == name)
    }
}
