//! Excluding other writers, retiring layouts, adding, dropping and renaming columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{FieldRef, Schema};

use super::{Layout, Table};
use crate::transaction::{Action, Transaction};
use crate::{Error, Result};

impl Table {
    /// Keeps other transactions from writing (they get `Conflict`) until this one ends; `Conflict` if another open
    /// transaction has written, or one committed that `transaction` can't see. For ALTER, TRUNCATE, DROP.
    pub fn lock_exclusive(&self, transaction: &Transaction) -> Result<()> {
        transaction.exclude(&self.relation, &self.layout)
    }

    /// When `transaction` commits, every later write through any handle with this layout (or, with `whole`, with any layout) fails
    /// with `Conflict`: the catalog shows something newer. Requires `lock_exclusive`.
    pub fn retire(&self, transaction: &Transaction, whole: bool) -> Result<()> {
        self.require_exclusive(transaction)?;
        let mut writer = transaction.write(&self.relation, &self.layout)?;
        writer.act(if whole {
            Action::RetireRelation(Arc::clone(&self.relation))
        } else {
            Action::RetireLayout(Arc::clone(&self.layout))
        });
        Ok(())
    }

    /// A handle with one more column; rows that were there read `default` (one value). Requires `lock_exclusive`.
    pub fn add_column(
        &self,
        transaction: &Transaction,
        field: FieldRef,
        default: ArrayRef,
    ) -> Result<Table> {
        self.require_exclusive(transaction)?;
        if default.len() != 1 {
            return Err(Error::Internal("a default is one value".into()));
        }
        let column = self.relation.add_column(field.data_type(), default)?;
        let mut fields: Vec<FieldRef> = self.schema().fields().iter().cloned().collect();
        fields.push(field);
        let mut columns = self.layout.columns.clone();
        columns.push(column);
        let schema = Schema::new_with_metadata(fields, self.schema().metadata().clone());
        Ok(self.with_layout(Layout::new(Arc::new(schema), columns)))
    }

    /// A handle without the column at `position`. Requires `lock_exclusive`.
    pub fn drop_column(&self, transaction: &Transaction, position: usize) -> Result<Table> {
        self.require_exclusive(transaction)?;
        self.columns(&[position])?;
        let mut fields: Vec<FieldRef> = self.schema().fields().iter().cloned().collect();
        fields.remove(position);
        let mut columns = self.layout.columns.clone();
        columns.remove(position);
        let schema = Schema::new_with_metadata(fields, self.schema().metadata().clone());
        Ok(self.with_layout(Layout::new(Arc::new(schema), columns)))
    }

    /// A handle under which a column has another name.
    pub fn rename_column(&self, position: usize, name: &str) -> Result<Table> {
        self.columns(&[position])?;
        let mut fields: Vec<FieldRef> = self.schema().fields().iter().cloned().collect();
        fields[position] = Arc::new(fields[position].as_ref().clone().with_name(name));
        let schema = Schema::new_with_metadata(fields, self.schema().metadata().clone());
        Ok(self.with_layout(Layout::new(Arc::new(schema), self.layout.columns.clone())))
    }

    pub(super) fn require_exclusive(&self, transaction: &Transaction) -> Result<()> {
        if transaction.excludes(&self.relation) {
            Ok(())
        } else {
            Err(Error::Internal(format!(
                "table \"{}\" is not locked",
                self.relation.name
            )))
        }
    }
}
