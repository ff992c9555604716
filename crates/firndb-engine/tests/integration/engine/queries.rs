//! The dialect, frames of the caller, order of rows, forms of results.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use firndb_engine::{Frame, FrameSource, Parameters, Result};
use firndb_storage::Form;

use crate::engine::support::{Ask, session, text};

fn frame() -> Frame {
    let schema = Arc::new(Schema::new(vec![
        Field::new("Id", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2])),
        Arc::new(StringArray::from(vec!["a", "b"])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    Frame {
        schema,
        batches: vec![batch],
    }
}

struct Caller;

impl FrameSource for Caller {
    fn find(&self, name: &str) -> Result<Option<Frame>> {
        Ok((name == "myFrame").then(frame))
    }
}

#[test]
fn duckdbs_conveniences_work() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT, c INT); INSERT INTO t VALUES (1, 2, 3), (1, 5, 6)");
    assert_eq!(session.ask("FROM t"), "1|2|3 1|5|6");
    assert_eq!(session.ask("SELECT * EXCLUDE (b) FROM t"), "1|3 1|6");
    assert_eq!(session.ask("SELECT a, sum(b) FROM t GROUP BY ALL"), "1|7");
    assert_eq!(
        session.ask("SELECT b FROM t QUALIFY row_number() OVER (ORDER BY b DESC) = 1"),
        "5"
    );
    assert_eq!(session.ask("SELECT 2 ^ 3"), "8.0");
    assert_eq!(session.ask("TABLE t LIMIT 1"), "1|2|3");
    assert_eq!(
        session.ask("SELECT b FROM t ORDER BY b FETCH FIRST 1 ROW ONLY"),
        "2"
    );
    assert_eq!(
        session.ask("WITH x AS MATERIALIZED (SELECT 1 AS y) SELECT y FROM x"),
        "1"
    );
}

#[test]
fn a_frame_of_the_caller_is_found_by_its_name() {
    let session = session();
    let outcome = session
        .execute_with(
            "SELECT id, name FROM myFrame WHERE id > 1",
            &Parameters::default(),
            Some(Arc::new(Caller)),
        )
        .unwrap();
    assert_eq!(
        outcome.rows.as_ref().unwrap().schema().field(0).name(),
        "Id"
    );
    assert_eq!(text(outcome).unwrap(), "2|b");
}

#[test]
fn a_registered_frame_is_a_relation_of_its_session() {
    let session = session();
    session.register("people", frame()).unwrap();
    assert_eq!(session.ask("SELECT max(id) FROM People"), "2");
    assert!(session.unregister("people").unwrap());
    assert!(!session.unregister("people").unwrap());
    session.fail("SELECT * FROM people");
}

#[test]
fn append_matches_columns_by_position_or_name() {
    let session = session();
    session.run("CREATE TABLE t (name TEXT, id INT)");
    let reader = || {
        let Frame { schema, batches } = frame();
        Box::new(RecordBatchIterator::new(
            batches.into_iter().map(Ok),
            schema,
        ))
    };
    assert_eq!(session.append("t", reader(), Some(true)).unwrap(), 2);
    assert_eq!(session.ask("SELECT name, id FROM t ORDER BY id"), "a|1 b|2");
    session.append("t", reader(), Some(false)).unwrap_err();
    assert_eq!(session.ask("SELECT count(*) FROM t"), "2");
}

#[test]
fn rows_come_in_the_tables_order() {
    let session = session();
    session.run("CREATE TABLE t AS SELECT value AS a FROM generate_series(1, 300000) AS g(value)");
    let rows = session.run("SELECT a FROM t WHERE a % 3 = 0").rows.unwrap();
    let mut last = 0;
    for batch in rows {
        let batch = batch.unwrap();
        let column = batch
            .column(0)
            .as_any()
            .downcast_ref::<Int64Array>()
            .unwrap();
        for value in column.values() {
            assert!(*value > last);
            last = *value;
        }
    }
    assert_eq!(last, 300_000);
}

#[test]
fn a_form_changes_types_and_not_values() {
    let session = session();
    session.run("CREATE TABLE t (s TEXT, d DECIMAL(10, 2)); INSERT INTO t VALUES ('x', 1.5)");
    for (form, string, decimal) in [
        (
            Form::Compute,
            DataType::Utf8View,
            DataType::Decimal128(10, 2),
        ),
        (Form::Consumer, DataType::Utf8, DataType::Decimal128(10, 2)),
        (Form::Native, DataType::Utf8View, DataType::Decimal64(10, 2)),
    ] {
        let mut outcome = session.run("SELECT s, d FROM t");
        let rows = outcome.rows.as_mut().unwrap();
        rows.set_form(form).unwrap();
        assert_eq!(rows.schema().field(0).data_type(), &string);
        assert_eq!(rows.schema().field(1).data_type(), &decimal);
        assert_eq!(text(outcome).unwrap(), "x|1.50");
    }
    let mut outcome = session.run("SELECT upper(s), d * 2 FROM t");
    let rows = outcome.rows.as_mut().unwrap();
    rows.set_form(Form::Consumer).unwrap();
    assert_eq!(rows.schema().field(0).data_type(), &DataType::Utf8);
    assert_eq!(text(outcome).unwrap(), "X|3.00");
}

#[test]
fn correlated_subqueries_and_recursion_run() {
    let session = session();
    session.run("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 10), (2, 20)");
    assert_eq!(
        session.ask("SELECT a, (SELECT max(u.b) FROM t u WHERE u.a = t.a - 1) FROM t ORDER BY a"),
        "1|NULL 2|10"
    );
    assert_eq!(
        session.ask("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r"),
        "15"
    );
}

#[test]
fn returning_names_its_columns_as_they_are_written() {
    let session = session();
    session.run("CREATE TABLE t (Aa INT)");
    assert_eq!(
        session.columns("INSERT INTO t VALUES (1) RETURNING aa, aa + 1 AS Bb, aa * 2"),
        "Aa,Bb,aa * 2"
    );
}

#[test]
fn an_empty_text_does_nothing() {
    let session = session();
    assert_eq!(session.run(" ; ; -- nothing").tag, "");
}
