//! VACUUM and `PRAGMA freeze('t')`: what the background does anyway, at once.
//!
//! Rows move together only while no transaction is open. So the tables are looked up in the statement's transaction, and frozen after its end; in a
//! transaction of the user they freeze with their gaps.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use datafusion::sql::sqlparser::ast;

use super::answers::table;
use super::execute::Call;
use super::pragma::table_name;
use super::session::{Inner, Session};
use crate::catalog::TableEntry;
use crate::error::Result;
use crate::parse::Source;
use crate::session::Outcome;

impl Session {
    /// `PRAGMA freeze('t')`: freezes what can be frozen, cold or not, and says how many blocks did and did not.
    pub(super) fn freeze(
        &self,
        inner: &mut Inner,
        name: &str,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        let name = table_name(name)?;
        let (mut frozen, mut hot) = (0, 0);
        for entry in self.tables(inner, Some(&name), call, source)? {
            let freeze = entry.table.freeze();
            frozen += freeze.frozen;
            hot += freeze.hot;
        }
        let column = |blocks: usize| -> ArrayRef {
            Arc::new(Int32Array::from(vec![
                i32::try_from(blocks).unwrap_or(i32::MAX),
            ]))
        };
        table(&[("frozen", column(frozen)), ("hot", column(hot))])
    }

    /// `VACUUM [t]`: frees what nobody sees, fills the gaps of tables, and returns memory to the operating system.
    pub(super) fn vacuum(
        &self,
        inner: &mut Inner,
        name: Option<&ast::ObjectName>,
        call: &Call,
        source: &Source,
    ) -> Result<Outcome> {
        for entry in self.tables(inner, name, call, source)? {
            entry.table.freeze();
        }
        self.database.shared.storage.vacuum();
        Ok(Outcome::done("VACUUM"))
    }

    /// A table, or all that the session sees.
    fn tables(
        &self,
        inner: &mut Inner,
        name: Option<&ast::ObjectName>,
        call: &Call,
        source: &Source,
    ) -> Result<Vec<Arc<TableEntry>>> {
        self.run_in_transaction(
            inner,
            call,
            async |work| {
                Ok(match name {
                    Some(name) => vec![work.context.table(name)?],
                    None => work.context.scope.catalog.tables(),
                })
            },
            source,
        )
    }
}
