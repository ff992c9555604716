//! The places of a session's plans, by the text of their query.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;

use crate::parse::{Command, ParsedText};
use crate::statement::PlanPlace;

/// Texts that have a place, and the bytes of the longest.
const KEPT: usize = 128;
const LONGEST: usize = 4 << 10;

/// A session's places. All plans are of one version of the catalog: another one's tables are not kept.
#[derive(Default)]
pub(super) struct Plans {
    version: u64,
    places: HashMap<Box<str>, Arc<PlanPlace>>,
}

impl Plans {
    /// The place of a text, if it is one query without parameters.
    pub(super) fn place(&mut self, text: &ParsedText, version: u64) -> Option<Arc<PlanPlace>> {
        if self.version != version {
            self.clear();
            self.version = version;
        }
        let [statement] = text.statements.as_slice() else {
            return None;
        };
        let Command::Sql(statement) = &statement.command else {
            return None;
        };
        let sql = text.source.text();
        if !matches!(**statement, ast::Statement::Query(_))
            || text.parameters.count() > 0
            || text.statements.iter().any(|statement| statement.variables)
            || sql.len() > LONGEST
        {
            return None;
        }
        if let Some(place) = self.places.get(sql) {
            return Some(Arc::clone(place));
        }
        if self.places.len() >= KEPT {
            self.clear();
        }
        let place = Arc::<PlanPlace>::default();
        self.places.insert(sql.into(), Arc::clone(&place));
        Some(place)
    }

    /// Forgets all plans.
    pub(super) fn clear(&mut self) {
        self.places.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use crate::database::Database;
    use crate::session::{Config, Parameters};
    use crate::statement::PlanPlace;
    use crate::{Session, Value};

    fn session() -> Session {
        let session = Database::open(Config::default())
            .unwrap()
            .connect()
            .unwrap();
        run(
            &session,
            "create table t as select a as i, a % 7 as g from range(100000) s(a)",
        );
        session
    }

    fn run(session: &Session, sql: &str) {
        session.execute(sql, &Parameters::default()).unwrap();
    }

    /// The first value of a query, as an integer.
    fn value(session: &Session, sql: &str) -> i64 {
        let outcome = session.execute(sql, &Parameters::default()).unwrap();
        let batches = outcome.rows.unwrap().collect().unwrap();
        let column = arrow::compute::cast(batches[0].column(0), &arrow::datatypes::DataType::Int64);
        column.unwrap().as_primitive::<Int64Type>().value(0)
    }

    fn place(session: &Session, sql: &str) -> Option<Arc<PlanPlace>> {
        session.inner.lock().plans.places.get(sql).cloned()
    }

    fn is_kept(session: &Session, sql: &str) -> bool {
        place(session, sql).is_some_and(|place| place.is_kept())
    }

    #[test]
    fn a_query_is_kept_when_it_runs_again() {
        let session = session();
        let sum = "select sum(i) from t where g < 3";
        let expected = value(&session, sum);
        assert!(!is_kept(&session, sum));
        assert_eq!(value(&session, sum), expected);
        assert!(is_kept(&session, sum));
        let kept = place(&session, sum).unwrap();
        assert_eq!(value(&session, sum), expected);
        assert!(Arc::ptr_eq(&kept, &place(&session, sum).unwrap()));
    }

    #[test]
    fn a_kept_plan_sees_what_changed() {
        let session = session();
        let other = session.duplicate().unwrap();
        let sum = "select sum(i) from t";
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 4_999_950_000);
        }
        run(&other, "update t set i = i + 1 where i = 5");
        assert_eq!(value(&session, sum), 4_999_950_001);
        run(&other, "begin");
        run(&other, "delete from t where i > 10");
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 4_999_950_001);
        }
        run(&other, "commit");
        for _ in 0..3 {
            // 0 to 10 without 5, and 6 twice.
            assert_eq!(value(&session, sum), 56);
        }
    }

    #[test]
    fn a_kept_plan_is_of_its_snapshot() {
        let session = session();
        let other = session.duplicate().unwrap();
        let sum = "select sum(i) from t";
        run(&session, "begin");
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 4_999_950_000);
        }
        run(&other, "delete from t where i > 10");
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 4_999_950_000);
        }
        run(&session, "commit");
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 55);
        }
        run(&session, "begin");
        run(&session, "insert into t values (1000, 0)");
        assert_eq!(value(&session, sum), 1055);
        run(&session, "rollback");
        assert_eq!(value(&session, sum), 55);
    }

    #[test]
    fn names_that_changed_are_planned_anew() {
        let session = session();
        let sum = "select sum(i) from t";
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 4_999_950_000);
        }
        run(&session, "create temp table t as select 7 as i");
        assert_eq!(value(&session, sum), 7);
        run(&session, "drop table t");
        assert_eq!(value(&session, sum), 4_999_950_000);
        run(&session, "create schema s");
        run(&session, "create table s.t as select 8 as i");
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 4_999_950_000);
        }
        run(&session, "set search_path = s");
        for _ in 0..3 {
            assert_eq!(value(&session, sum), 8);
        }
        run(&session, "drop table s.t");
        assert!(session.execute(sum, &Parameters::default()).is_err());
    }

    #[test]
    fn queries_of_the_moment_are_not_kept() {
        let session = session();
        run(
            &session,
            "create view v as select i, now() as moment from t",
        );
        for sql in [
            "select count(*) from t where random() < 2 and i < 10",
            "select count(*) from t where i < extract(year from now())",
            "select max(i) from t where current_date > date '2000-01-01' and g = 1",
            "select count(*) from v where i < extract(year from moment)",
            "select max(i) from (select i from t limit (select max(g) from t))",
            "select i from t limit 10%",
            "select count(*) from (select nextval('q') from t where i < 3)",
        ] {
            run(&session, "create sequence if not exists q");
            for _ in 0..3 {
                value(&session, sql);
            }
            assert!(!is_kept(&session, sql), "{sql}");
        }
        let sql = "select i from t where i = $1";
        for i in 0..3 {
            let one = Parameters::Positional(vec![Value::Int64(Some(i))]);
            session.execute(sql, &one).unwrap();
        }
        assert!(place(&session, sql).is_none());
    }
}
