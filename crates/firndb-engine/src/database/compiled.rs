//! Compiled statements in their transactions.
//!
//! ```text
//! query, autocommit:  moment ─▶ catalog as it was? ─▶ read
//! write, autocommit:  begin  ─▶ catalog as it was? ─▶ write ─▶ commit;  a conflict: again, a few times
//! in a transaction:   begin_statement ─▶ run ─▶ ok, or return to the place before it
//! ```
//!
//! Whatever does not succeed here runs again the general way, which fails the transaction if it has to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast;
use firndb_storage::{Isolation, Reader};

use super::answers::strings;
use super::transaction::OpenTransaction;
use crate::catalog::CatalogState;
use crate::error::Result;

use super::session::{Inner, Session};
use crate::compiled::{self, Datum, Done, Names, Program, Stamp};
use crate::parse::{Command, ParsedText};
use crate::session::{Outcome, Parameters, Rows};

/// How often a write is tried against conflicts before it waits for its turn the general way.
const TRIES: u32 = 16;

impl Session {
    /// Runs a text that was compiled when it ran before, with values by position. `None`: nothing was done; run it by
    /// [`execute`](Self::execute), which gives the result or the error.
    ///
    /// Takes microseconds and never waits for another statement. The caller knows that the process is the one that opened the database.
    pub fn execute_compiled(&self, sql: &str, arguments: &[Datum<'_>]) -> Option<Done> {
        if self.is_closed() {
            return None;
        }
        let mut inner = self.inner.try_lock()?;
        let done = self.run_compiled(&mut inner, sql, arguments)?;
        inner.changes.note(done.tag, done.affected);
        Some(done)
    }

    /// As [`execute_compiled`](Self::execute_compiled), for whoever has the session.
    pub(super) fn try_compiled(
        &self,
        inner: &mut Inner,
        sql: &str,
        parameters: &Parameters,
    ) -> Option<Result<Outcome>> {
        let Parameters::Positional(values) = parameters else {
            return None;
        };
        if inner.programs.is_empty() {
            return None;
        }
        let arguments: Vec<Datum<'_>> = Datum::all(values)?;
        let done = self.run_compiled(inner, sql, &arguments)?;
        inner.changes.note(done.tag, done.affected);
        let outcome = |rows| Outcome {
            tag: done.tag,
            affected: done.affected,
            rows,
        };
        // It is done: an error of what shows it must not run it again.
        match done.rows {
            Some(rows) => Some(rows.into_rows().map(|rows| outcome(Some(rows)))),
            None => Some(Ok(outcome(None))),
        }
    }

    fn run_compiled(&self, inner: &mut Inner, sql: &str, arguments: &[Datum<'_>]) -> Option<Done> {
        let (program, version) = inner.programs.find(sql, &inner.temporary)?;
        if inner.transaction.is_some() {
            return self.run_program_inside(inner, &program, version, arguments);
        }
        let shared = &self.database.shared;
        if program.is_query() {
            let moment = program.table().moment();
            if shared.catalog.version() != version {
                return None;
            }
            return program
                .read(Reader::Moment(&moment), arguments)
                .unwrap_or_default();
        }
        if inner.settings.read_only || shared.read_only {
            return None;
        }
        for _ in 0..TRIES {
            let transaction = shared.storage.begin(Isolation::Snapshot);
            if shared.catalog.version() != version {
                return None;
            }
            match program.write(&transaction, arguments) {
                Ok(Some(done)) => {
                    let done = transaction.commit().is_ok().then_some(done);
                    shared.after_commit();
                    return done;
                }
                Ok(None) => return None,
                Err(error) if error.is_conflict() => {
                    drop(transaction);
                    std::thread::yield_now();
                }
                Err(_) => return None,
            }
        }
        None
    }

    fn run_program_inside(
        &self,
        inner: &mut Inner,
        program: &Program,
        version: u64,
        arguments: &[Datum<'_>],
    ) -> Option<Done> {
        let is_query = program.is_query();
        let fits = |transaction: &mut OpenTransaction| {
            !transaction.has_failed()
                && transaction.changes.version() == Some(version)
                && (is_query || !transaction.read_only)
        };
        // Taken out while it works: a panic leaves none of it behind.
        let mut transaction = inner.transaction.take_if(fits)?;
        let place = transaction.begin_statement();
        let done = match is_query {
            true => program.read(Reader::Transaction(&transaction.storage), arguments),
            false => program.write(&transaction.storage, arguments),
        };
        let done = done.unwrap_or_default();
        if done.is_none() {
            transaction.return_to(&place);
        }
        inner.transaction = Some(transaction);
        done
    }

    /// The version of the catalog that the session's next statement sees, unless it changes meanwhile; `None` in a transaction that has changed it.
    pub(super) fn catalog_version(&self, inner: &Inner) -> Option<u64> {
        match &inner.transaction {
            Some(transaction) => transaction.changes.version(),
            None => Some(self.database.shared.catalog.version()),
        }
    }

    /// Compiles a text that has just run the general way, if it can be. `version` is the catalog's before it ran: what it yielded says
    /// nothing about another catalog.
    pub(super) fn compile(
        &self,
        inner: &mut Inner,
        sql: &str,
        text: &ParsedText,
        outcome: &Outcome,
        version: Option<u64>,
    ) {
        if inner.transaction.is_none() {
            let newest = self.database.shared.catalog.version();
            inner.programs.keep_version(newest);
        }
        let again = text.parameters.positional > 0 || inner.programs.is_seen(sql);
        if again && version.is_some() && version == self.catalog_version(inner) {
            let schema = outcome.rows.as_ref().map(|rows| rows.schema());
            self.compile_as(inner, sql, text, schema, version);
        }
    }

    /// The program of a write without RETURNING, and the catalog's version that it is of.
    pub(super) fn program_of(
        &self,
        inner: &mut Inner,
        sql: &str,
        text: &ParsedText,
    ) -> Option<(Arc<Program>, u64)> {
        self.compile_as(inner, sql, text, None, None);
        inner.programs.find(sql, &inner.temporary)
    }

    fn compile_as(
        &self,
        inner: &mut Inner,
        sql: &str,
        text: &ParsedText,
        schema: Option<SchemaRef>,
        expected: Option<u64>,
    ) {
        let [statement] = text.statements.as_slice() else {
            return;
        };
        let Command::Sql(ast) = &statement.command else {
            return;
        };
        if !text.parameters.named.is_empty()
            || !compiled::is_candidate(ast)
            || !inner.texts.contains_key(sql)
        {
            return;
        }
        let Some((state, version)) = self.catalog_of(inner) else {
            return;
        };
        if expected.is_some_and(|expected| expected != version) {
            return;
        }
        let stamp = Stamp {
            version,
            temporary: Arc::clone(&inner.temporary),
        };
        if !inner.programs.wants(sql, &stamp) {
            return;
        }
        let program = compiled::compile(&names(inner, &state), ast, text.parameters.positional)
            .and_then(|program| program.with_schema(schema));
        inner.programs.put(sql, stamp, program);
    }

    /// EXPLAIN of a statement that runs without a plan.
    pub(super) fn explain_compiled(
        &self,
        inner: &mut Inner,
        statement: &ast::Statement,
    ) -> Result<Option<Outcome>> {
        let ast::Statement::Explain {
            describe_alias: ast::DescribeAlias::Explain,
            analyze: false,
            verbose: false,
            format: None,
            options: None,
            statement,
            ..
        } = statement
        else {
            return Ok(None);
        };
        let failed = |open: &OpenTransaction| open.has_failed();
        if !inner.programs.is_enabled()
            || inner.transaction.as_ref().is_some_and(failed)
            || !compiled::is_candidate(statement)
        {
            return Ok(None);
        }
        let Some((state, _)) = self.catalog_of(inner) else {
            return Ok(None);
        };
        let program = compiled::compile(&names(inner, &state), statement, 0);
        let Some(program) = program else {
            return Ok(None);
        };
        let field = Field::new("QUERY PLAN", DataType::Utf8, false);
        let schema = Arc::new(Schema::new(vec![field]));
        let line = strings([program.describe().as_str()]);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![line])?;
        let rows = Rows::from_batches(schema, vec![batch]);
        Ok(Some(Outcome::rows("EXPLAIN", rows)))
    }

    /// The catalog that a statement of the session sees, and its version; `None` in a transaction that has changed it.
    fn catalog_of(&self, inner: &Inner) -> Option<(Arc<CatalogState>, u64)> {
        match &inner.transaction {
            Some(transaction) => {
                let version = transaction.changes.version()?;
                Some((Arc::clone(transaction.changes.state()), version))
            }
            None => {
                let catalog = &self.database.shared.catalog;
                let (version, changes) = catalog.begin(&inner.temporary, || catalog.version());
                Some((Arc::clone(changes.state()), version))
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

fn names<'a>(inner: &'a Inner, catalog: &'a CatalogState) -> Names<'a> {
    Names {
        catalog,
        path: &inner.settings.path,
        registered: &inner.registered,
    }
}
