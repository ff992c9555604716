//! Running texts: statement by statement, each in its transaction.
//!
//! ```text
//! in a transaction:  begin_statement ─▶ run ─▶ ok, or return to the place before it and fail the transaction
//! autocommit:        begin ─▶ run ─▶ commit ─▶ ok; on 40001 roll back, wait a moment, again
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast;
use firndb_storage::Form;

use super::session::{Inner, Session};
use super::shown_settings::ShownSettings;
use super::transaction::{Modes, OpenTransaction};
use crate::error::{Error, Result, SqlState};
use crate::parse::{self, Arguments, Command, ParameterNames, Parsed, ParsedText, Read, Source};
use crate::scan::ScanProgress;
use crate::session::cancel::Cancellation;
use crate::session::{FrameSource, Outcome, Parameters};
use crate::statement::{self, PlanPlace, Scope, StatementContext, Work};

/// How long a statement in autocommit goes on trying against conflicts.
const CONFLICT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// Texts that a session keeps parsed, and the bytes of the longest.
const CACHED_TEXTS: usize = 128;
const CACHED_BYTES: usize = 4 << 10;

/// What a statement of a text runs with.
pub(super) struct Call {
    pub(super) arguments: Arc<Arguments>,
    pub(super) frames: Option<Arc<dyn FrameSource>>,
    pub(super) cancellation: Arc<Cancellation>,
    pub(super) aliases: Arc<HashMap<String, String>>,
    pub(super) relations: Arc<HashMap<String, String>>,
    pub(super) deep: bool,
    /// Where its plan is kept.
    pub(super) place: Option<Arc<PlanPlace>>,
}

impl Call {
    pub(super) fn new(
        statement: &Parsed,
        arguments: Arc<Arguments>,
        frames: Option<Arc<dyn FrameSource>>,
        cancellation: Arc<Cancellation>,
    ) -> Self {
        Call {
            arguments,
            frames,
            cancellation,
            aliases: Arc::clone(&statement.aliases),
            relations: Arc::clone(&statement.relations),
            deep: statement.deep,
            place: None,
        }
    }
}

impl Session {
    /// A statement with its parameters and the session's variables and settings in their places.
    pub(super) fn bound<'s>(
        &self,
        inner: &Inner,
        statement: &'s Parsed,
        call: &mut Call,
    ) -> Result<Cow<'s, Command>> {
        if !statement.variables {
            return Ok(parse::bind(&statement.command, &call.arguments));
        }
        let value = |read: &Read| match read {
            Read::Variable(name) => {
                let value = inner.variables.get(name).cloned();
                Ok(value.unwrap_or(ScalarValue::Null))
            }
            Read::Changes => Ok(ScalarValue::from(inner.changes.last)),
            Read::AllChanges => Ok(ScalarValue::from(inner.changes.all)),
            Read::Setting(name) => Ok(ScalarValue::from(self.setting_text(inner, name)?)),
        };
        let (command, arguments) =
            parse::with_variables(&statement.command, &call.arguments, &value)?;
        call.arguments = Arc::new(arguments);
        Ok(Cow::Owned(
            parse::bind(&command, &call.arguments).into_owned(),
        ))
    }

    /// Parses a text, or finds it parsed. In a transaction an error here fails it, too.
    pub(super) fn parse(&self, inner: &mut Inner, sql: &str) -> Result<Arc<ParsedText>> {
        if let Some(text) = inner.texts.get(sql) {
            return Ok(Arc::clone(text));
        }
        let mut exact = None;
        let exact = std::cell::RefCell::new(&mut exact);
        let state = match &inner.transaction {
            Some(transaction) => Arc::clone(transaction.changes.state()),
            None => {
                let (_, changes) = self.database.shared.catalog.begin(&inner.temporary, || ());
                Arc::clone(changes.state())
            }
        };
        let keeps_case = |name: &str| {
            let mut names = exact.borrow_mut();
            names
                .get_or_insert_with(|| state.case_sensitive_names())
                .contains(name)
        };
        let parsed = parse::parse(sql, &keeps_case);
        let text = match parsed {
            Ok(text) => Arc::new(text),
            Err(error) => {
                if let Some(transaction) = &mut inner.transaction {
                    transaction.fail();
                }
                return Err(error);
            }
        };
        if sql.len() <= CACHED_BYTES && exact.borrow().is_none() {
            if inner.texts.len() >= CACHED_TEXTS {
                inner.texts.clear();
            }
            inner.texts.insert(sql.to_owned(), Arc::clone(&text));
        }
        Ok(text)
    }

    /// Runs the statements of a text.
    pub(super) fn run_text(
        &self,
        inner: &mut Inner,
        text: &ParsedText,
        parameters: &Parameters,
        frames: Option<Arc<dyn FrameSource>>,
    ) -> Result<Outcome> {
        let arguments = Arc::new(arguments(&text.parameters, parameters)?);
        let cancellation = self.running.begin();
        let Some((last, before)) = text.statements.split_last() else {
            return Ok(Outcome::done(""));
        };
        for statement in before {
            let call = Call::new(
                statement,
                Arc::clone(&arguments),
                frames.clone(),
                Arc::clone(&cancellation),
            );
            let outcome = self.run_statement(inner, statement, call, &text.source)?;
            for batch in outcome.rows.into_iter().flatten() {
                batch.map_err(|error| located(error, &text.source))?;
            }
        }
        let mut call = Call::new(last, arguments, frames, cancellation);
        let version = self.database.shared.catalog.version();
        call.place = inner.plans.place(text, version);
        self.run_statement(inner, last, call, &text.source)
    }

    fn run_statement(
        &self,
        inner: &mut Inner,
        statement: &Parsed,
        call: Call,
        source: &Source,
    ) -> Result<Outcome> {
        let mut call = call;
        let command = self
            .bound(inner, statement, &mut call)
            .map_err(|error| located(error, source))?;
        let deep = call.deep;
        let mut run = || -> Result<Outcome> {
            match command.as_ref() {
                Command::SetVariable(name, query) => {
                    return self.set_variable(inner, name, query, &call, source);
                }
                Command::ResetVariable(name) => {
                    inner.variables.remove(name);
                    return Ok(Outcome::done("RESET"));
                }
                Command::Nothing("CHECKPOINT") => {
                    self.database.shared.checkpoint(false)?;
                    return Ok(Outcome::done("CHECKPOINT"));
                }
                _ => {}
            }
            if let Command::Sql(ast) = command.as_ref()
                && let Some(outcome) = self.control(inner, ast, statement, &call, source)?
            {
                return Ok(outcome);
            }
            self.run_in_transaction(
                inner,
                &call,
                async |work| statement::run(work, command.as_ref()).await,
                source,
            )
        };
        let outcome = if deep {
            stacker::grow(DEEP_STACK, run)
        } else {
            run()
        };
        if let Ok(outcome) = &outcome {
            inner.changes.note(outcome.tag, outcome.affected);
        }
        outcome.map_err(|error| located(error, source))
    }

    /// Runs what one statement does in the session's transaction, or in one of its own.
    pub(super) fn run_in_transaction<T>(
        &self,
        inner: &mut Inner,
        call: &Call,
        body: impl AsyncFn(&mut Work<'_>) -> Result<T>,
        source: &Source,
    ) -> Result<T>
    where
        T: Watched,
    {
        let workers = Arc::clone(&self.database.shared.workers);
        if inner.transaction.is_some() {
            return workers.block_on(call.deep, self.run_inside(inner, call, &body, source));
        }
        let deadline = Instant::now() + CONFLICT_TIMEOUT;
        let mut tries = 0_u32;
        loop {
            let result = workers.block_on(call.deep, self.run_alone(inner, call, &body, source));
            match result {
                Err(error)
                    if error.state == SqlState::SerializationFailure
                        && Instant::now() < deadline =>
                {
                    tries += 1;
                    let pause = pause(tries);
                    workers.block_on(
                        false,
                        call.cancellation.guard(async {
                            tokio::time::sleep(pause).await;
                            Ok(())
                        }),
                    )?;
                }
                other => return other,
            }
        }
    }

    async fn run_inside<T: Watched>(
        &self,
        inner: &mut Inner,
        call: &Call,
        body: &impl AsyncFn(&mut Work<'_>) -> Result<T>,
        source: &Source,
    ) -> Result<T> {
        let Some(mut transaction) = inner.transaction.take() else {
            return Err(Error::internal("no transaction is open"));
        };
        let result = if transaction.has_failed() {
            Err(failed_transaction())
        } else {
            let place = transaction.begin_statement();
            let result = self
                .attempt(inner, &mut transaction, call, body, source)
                .await;
            match &result {
                Ok(outcome) => {
                    if let Some(rows) = outcome.watched() {
                        transaction.depend_on(rows);
                    }
                    if let Some(rows) = outcome.watched()
                        && (transaction.storage.has_writes() || !transaction.changes.is_empty())
                    {
                        transaction.watch(rows);
                    }
                }
                Err(_) => {
                    transaction.return_to(&place);
                    transaction.fail();
                }
            }
            result
        };
        inner.transaction = Some(transaction);
        result
    }

    async fn run_alone<T: Watched>(
        &self,
        inner: &mut Inner,
        call: &Call,
        body: &impl AsyncFn(&mut Work<'_>) -> Result<T>,
        source: &Source,
    ) -> Result<T> {
        let shared = &self.database.shared;
        let modes = Modes {
            read_only: inner.settings.read_only,
        };
        let mut transaction = OpenTransaction::begin(shared, &inner.temporary, modes);
        transaction.begin_statement();
        let result = self
            .attempt(inner, &mut transaction, call, body, source)
            .await;
        match result {
            Ok(outcome) => {
                inner.temporary = transaction.commit(shared)?;
                Ok(outcome)
            }
            Err(error) => {
                transaction.rollback();
                Err(error)
            }
        }
    }

    async fn attempt<T>(
        &self,
        inner: &mut Inner,
        transaction: &mut OpenTransaction,
        call: &Call,
        body: &impl AsyncFn(&mut Work<'_>) -> Result<T>,
        source: &Source,
    ) -> Result<T> {
        let scope = Arc::new(self.scope(inner, transaction, call));
        *self.progress.lock() = Arc::downgrade(&scope.progress);
        let context = StatementContext::new(
            scope,
            Arc::clone(&transaction.storage),
            transaction.read_only,
            Arc::clone(&transaction.deferred),
        );
        let mut work = Work {
            context: &context,
            changes: &mut transaction.changes,
            source,
        };
        call.cancellation.guard(body(&mut work)).await
    }

    fn scope(&self, inner: &Inner, transaction: &OpenTransaction, call: &Call) -> Scope {
        let shared = &self.database.shared;
        Scope {
            catalog: Arc::clone(transaction.changes.state()),
            snapshot: transaction.storage.snapshot(),
            state: Arc::clone(&inner.state),
            type_planner: shared.type_planner.clone(),
            storage: Arc::clone(&shared.storage),
            started: transaction.started,
            path: Arc::clone(&inner.settings.path),
            arguments: Arc::clone(&call.arguments),
            frames: call.frames.clone(),
            given: Arc::clone(&inner.given),
            registered: Arc::clone(&inner.registered),
            progress: Arc::new(ScanProgress::default()),
            settings: Arc::new(ShownSettings::within(shared, inner, transaction.read_only)),
            workers: Arc::clone(&shared.workers),
            cancellation: Arc::clone(&call.cancellation),
            form: Form::Compute,
            whole: false,
            aliases: Arc::clone(&call.aliases),
            relations: Arc::clone(&call.relations),
            columns: Arc::default(),
            place: call.place.clone(),
            found: Arc::default(),
        }
    }

    /// The columns of the query that a text holds.
    pub(super) fn describe_text(
        &self,
        inner: &mut Inner,
        text: &ParsedText,
        parameters: &Parameters,
        frames: Option<Arc<dyn FrameSource>>,
    ) -> Result<SchemaRef> {
        let arguments = Arc::new(arguments(&text.parameters, parameters)?);
        let [statement] = text.statements.as_slice() else {
            return Err(Error::new(
                SqlState::SyntaxError,
                "only one statement can be described",
            ));
        };
        let mut call = Call::new(statement, arguments, frames, self.running.begin());
        let command = self.bound(inner, statement, &mut call)?;
        let Command::Sql(ast) = command.as_ref() else {
            return Err(not_a_query());
        };
        let ast::Statement::Query(query) = ast.as_ref() else {
            return Err(not_a_query());
        };
        self.run_in_transaction(
            inner,
            &call,
            async |work| Ok(work.context.scope.rows(query).await?.schema()),
            &text.source,
        )
        .map_err(|error| located(error, &text.source))
    }

    /// Transaction control, settings and prepared statements: what changes the session.
    fn control(
        &self,
        inner: &mut Inner,
        statement: &ast::Statement,
        parsed: &Parsed,
        call: &Call,
        source: &Source,
    ) -> Result<Option<Outcome>> {
        use ast::Statement as Sql;
        let outcome = match statement {
            Sql::StartTransaction {
                modes,
                begin,
                statements,
                modifier,
                ..
            } => {
                if !statements.is_empty() || modifier.is_some() {
                    return Err(Error::unsupported("a block of statements is not supported"));
                }
                let modes = Modes::parse(
                    modes,
                    Modes {
                        read_only: inner.settings.read_only,
                    },
                )?;
                self.begin(inner, modes)?;
                Outcome::done(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            Sql::Commit { chain, .. } => {
                let next = chained(inner, *chain, "COMMIT AND CHAIN")?;
                let tag = self.commit(inner)?;
                if let Some(modes) = next {
                    self.begin(inner, modes)?;
                }
                Outcome::done(tag)
            }
            Sql::Rollback { chain, savepoint } => {
                let next = chained(inner, *chain, "ROLLBACK AND CHAIN")?;
                match savepoint {
                    Some(name) => {
                        let transaction = inner
                            .transaction
                            .as_mut()
                            .ok_or_else(|| no_transaction("ROLLBACK TO SAVEPOINT"))?;
                        if let Err(error) = transaction.rollback_to(&name.value) {
                            transaction.fail();
                            return Err(error);
                        }
                    }
                    None => self.rollback(inner)?,
                }
                if let Some(modes) = next {
                    self.begin(inner, modes)?;
                }
                Outcome::done("ROLLBACK")
            }
            Sql::Savepoint { name } => {
                let transaction = open(inner, "SAVEPOINT")?;
                transaction.savepoint(&name.value);
                Outcome::done("SAVEPOINT")
            }
            Sql::ReleaseSavepoint { name } => {
                let transaction = open(inner, "RELEASE SAVEPOINT")?;
                if let Err(error) = transaction.release(&name.value) {
                    transaction.fail();
                    return Err(error);
                }
                Outcome::done("RELEASE")
            }
            Sql::Set(_)
            | Sql::Reset(_)
            | Sql::ShowVariable { .. }
            | Sql::Pragma { .. }
            | Sql::Use(_) => {
                if inner
                    .transaction
                    .as_ref()
                    .is_some_and(|open| open.has_failed())
                {
                    return Err(failed_transaction());
                }
                return self.setting(inner, statement, call, source);
            }
            Sql::Prepare { .. } | Sql::Execute { .. } | Sql::Deallocate { .. } => {
                if inner
                    .transaction
                    .as_ref()
                    .is_some_and(|open| open.has_failed())
                {
                    return Err(failed_transaction());
                }
                return self
                    .prepared_statement(inner, statement, parsed, call, source)
                    .map(Some);
            }
            Sql::Vacuum(vacuum) => {
                return self
                    .vacuum(inner, vacuum.table_name.as_ref(), call, source)
                    .map(Some);
            }
            Sql::Explain { .. } => match self.explain_compiled(inner, statement)? {
                Some(outcome) => outcome,
                None => return Ok(None),
            },
            Sql::Discard { .. } => {
                inner.prepared.clear();
                Outcome::done("DISCARD ALL")
            }
            _ => return Ok(None),
        };
        Ok(Some(outcome))
    }

    fn begin(&self, inner: &mut Inner, modes: Modes) -> Result<()> {
        if let Some(open) = &mut inner.transaction {
            if open.has_failed() {
                return Err(failed_transaction());
            }
            return Err(Error::new(
                SqlState::ActiveSqlTransaction,
                "there is already a transaction in progress",
            ));
        }
        let shared = &self.database.shared;
        inner.transaction = Some(OpenTransaction::begin(shared, &inner.temporary, modes));
        self.in_transaction.store(true, Ordering::Release);
        Ok(())
    }

    /// COMMIT; of a failed transaction it is a ROLLBACK, as its tag tells.
    fn commit(&self, inner: &mut Inner) -> Result<&'static str> {
        let transaction = inner
            .transaction
            .take()
            .ok_or_else(|| no_transaction("COMMIT"))?;
        self.in_transaction.store(false, Ordering::Release);
        if transaction.has_failed() {
            transaction.rollback();
            return Ok("ROLLBACK");
        }
        inner.temporary = transaction.commit(&self.database.shared)?;
        Ok("COMMIT")
    }

    fn rollback(&self, inner: &mut Inner) -> Result<()> {
        let transaction = inner
            .transaction
            .take()
            .ok_or_else(|| no_transaction("ROLLBACK"))?;
        self.in_transaction.store(false, Ordering::Release);
        transaction.rollback();
        Ok(())
    }
}

/// Stack for planning a statement whose tree is deep.
const DEEP_STACK: usize = 64 << 20;

/// What a statement's result may leave open.
pub(super) trait Watched {
    /// Rows that are still to be read.
    fn watched(&self) -> Option<&crate::session::Rows>;
}

impl Watched for Outcome {
    fn watched(&self) -> Option<&crate::session::Rows> {
        self.rows.as_ref()
    }
}

impl Watched for u64 {
    fn watched(&self) -> Option<&crate::session::Rows> {
        None
    }
}

impl Watched for SchemaRef {
    fn watched(&self) -> Option<&crate::session::Rows> {
        None
    }
}

impl<T> Watched for Vec<T> {
    fn watched(&self) -> Option<&crate::session::Rows> {
        None
    }
}

/// The values for a text's parameters.
pub(super) fn arguments(names: &ParameterNames, parameters: &Parameters) -> Result<Arguments> {
    match parameters {
        Parameters::Positional(values) => Arguments::positional(names, values),
        Parameters::Named(values) => Arguments::named(names, values),
    }
}

/// An error with the place in the text that it speaks of: where its first quoted name stands.
pub(super) fn located(error: Error, source: &Source) -> Error {
    use SqlState as State;
    if error.position.is_some()
        || !matches!(
            error.state,
            State::UndefinedColumn
                | State::AmbiguousColumn
                | State::UndefinedTable
                | State::UndefinedFunction
                | State::UndefinedObject
                | State::InvalidSchemaName
                | State::DuplicateAlias
        )
    {
        return error;
    }
    let named = error
        .message
        .split('"')
        .nth(1)
        .map(str::to_owned)
        .or_else(|| {
            let rest = error.message.strip_prefix("function ")?;
            rest.split([' ', '(']).next().map(str::to_owned)
        });
    let Some(name) = named else { return error };
    let position = source
        .find(&name)
        .or_else(|| source.find(name.rsplit('.').next()?));
    error.at(position)
}

/// The modes of the transaction that AND CHAIN begins: those of the one that ends.
fn chained(inner: &Inner, chain: bool, command: &str) -> Result<Option<Modes>> {
    match (&inner.transaction, chain) {
        (_, false) => Ok(None),
        (Some(open), true) => Ok(Some(Modes {
            read_only: open.read_only,
        })),
        (None, true) => Err(no_transaction(command)),
    }
}

fn open<'a>(inner: &'a mut Inner, command: &str) -> Result<&'a mut OpenTransaction> {
    let transaction = inner
        .transaction
        .as_mut()
        .ok_or_else(|| no_transaction(command))?;
    if transaction.has_failed() {
        return Err(failed_transaction());
    }
    Ok(transaction)
}

fn failed_transaction() -> Error {
    Error::new(
        SqlState::InFailedSqlTransaction,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .with_hint("Use ROLLBACK, or ROLLBACK TO a savepoint.")
}

fn no_transaction(command: &str) -> Error {
    Error::new(
        SqlState::NoActiveSqlTransaction,
        format!("{command} can only be used in transaction blocks"),
    )
}

fn not_a_query() -> Error {
    Error::new(SqlState::SyntaxError, "the statement yields no rows")
}

/// A random pause before the next try, longer from try to try.
fn pause(tries: u32) -> Duration {
    let longest = Duration::from_micros(50)
        .saturating_mul(1 << tries.min(12))
        .min(LONGEST_PAUSE);
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    longest.mul_f64(f64::from(random) / f64::from(u32::MAX))
}
