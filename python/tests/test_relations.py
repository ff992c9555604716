"""Relations: when they run, what they hold, how they look."""

from __future__ import annotations

import firndb
import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")


@pytest.fixture
def numbers(con: firndb.Connection) -> firndb.Connection:
    con.execute("CREATE TABLE t (i INTEGER)")
    con.execute("INSERT INTO t VALUES (1), (2), (3)")
    return con


def test_a_relation_knows_its_columns_before_it_runs(numbers: firndb.Connection) -> None:
    relation = numbers.sql("SELECT i, i / 0 AS wrong, 'x' AS \"Name\" FROM t")
    assert relation.columns == ["i", "wrong", "Name"]
    assert relation.types[0] == "INTEGER"
    assert [column[0] for column in relation.description] == relation.columns
    with pytest.raises(firndb.DataError):
        relation.fetchall()


def test_unknown_names_are_errors_at_once(con: firndb.Connection) -> None:
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.sql("SELECT * FROM missing")
    assert raised.value.sqlstate == "42P01"
    with pytest.raises(firndb.ProgrammingError):
        con.table("missing")


def test_an_unread_relation_takes_its_snapshot_when_read(numbers: firndb.Connection) -> None:
    relation = numbers.sql("SELECT i FROM t ORDER BY i")
    numbers.execute("INSERT INTO t VALUES (4)")
    assert relation.fetchall() == [(1,), (2,), (3,), (4,)]
    numbers.execute("DELETE FROM t")
    assert len(relation) == 4
    assert relation.arrow().num_rows == 4


def test_every_reader_sees_the_same_rows(numbers: firndb.Connection) -> None:
    relation = numbers.sql("SELECT i FROM t ORDER BY i")
    assert relation.fetchone() == (1,)
    numbers.execute("UPDATE t SET i = 0")
    assert relation.df()["i"].tolist() == [1, 2, 3]
    assert relation.fetchall() == [(2,), (3,)]
    assert relation.fetchnumpy()["i"].tolist() == [1, 2, 3]


def test_a_write_in_its_transaction_does_not_change_an_open_relation(numbers: firndb.Connection) -> None:
    with numbers.transaction():
        numbers.execute("INSERT INTO t SELECT range FROM range(4, 100001) AS r(range)")
        relation = numbers.sql("SELECT i FROM t ORDER BY i")
        assert relation.fetchone() == (1,)
        numbers.execute("DELETE FROM t")
        assert len(relation) == 100000


def test_rollback_does_not_change_an_open_result(numbers: firndb.Connection) -> None:
    numbers.begin()
    numbers.execute("INSERT INTO t SELECT range FROM range(4, 100001) AS r(range)")
    relation = numbers.sql("SELECT i FROM t ORDER BY i")
    assert relation.fetchone() == (1,)
    stream = numbers.sql("SELECT i FROM t").fetch_record_batch()
    numbers.rollback()
    assert len(relation) == 100000
    assert stream.read_all().num_rows == 100000
    assert numbers.execute("SELECT count(*) FROM t").fetchone() == (3,)


def test_statements_that_are_no_query_run_at_once(con: firndb.Connection) -> None:
    assert con.sql("CREATE TABLE t (i INTEGER)") is None
    assert con.sql("INSERT INTO t VALUES (1), (2)") is None
    returned = con.sql("INSERT INTO t VALUES (3) RETURNING i")
    assert con.execute("SELECT count(*) FROM t").fetchone() == (3,)
    assert returned.fetchall() == [(3,)]


@pytest.mark.parametrize("sql", ["DESCRIBE t", "SHOW threads", "EXPLAIN SELECT * FROM t", "SUMMARIZE t"])
def test_what_tells_about_the_database_is_a_relation(numbers: firndb.Connection, sql: str) -> None:
    assert len(numbers.sql(sql)) > 0


def test_parameters_are_kept_until_the_relation_runs(numbers: firndb.Connection) -> None:
    assert numbers.sql("SELECT i FROM t WHERE i > ? ORDER BY i", [1]).fetchall() == [(2,), (3,)]


def test_names_of_tables_are_quoted(con: firndb.Connection) -> None:
    con.execute('CREATE TABLE "order" ("group" INTEGER)')
    con.execute('INSERT INTO "order" VALUES (1)')
    assert con.table("order").fetchall() == [(1,)]
    assert con.table('"order"').fetchall() == [(1,)]
    assert con.table("main.order").fetchall() == [(1,)]
    for name in ("", "a..b", 'a" UNION SELECT 1 --'):
        with pytest.raises(firndb.ProgrammingError):
            con.table(name)


def test_shape_and_length(numbers: firndb.Connection) -> None:
    relation = numbers.table("t")
    assert relation.shape == (3, 1)
    assert len(relation) == 3


def test_the_connections_result_goes_to_one_reader(numbers: firndb.Connection) -> None:
    numbers.execute("SELECT i FROM t ORDER BY i")
    assert numbers.fetchone() == (1,)
    assert numbers.df()["i"].tolist() == [2, 3]
    with pytest.raises(firndb.InterfaceError):
        numbers.df()
    assert numbers.fetchone() is None


def test_reading_ahead_loses_no_row(con: firndb.Connection) -> None:
    con.execute("SELECT * FROM range(100) AS r(range)")
    assert [con.fetchone() for _ in range(8)] == [(i,) for i in range(8)]
    assert con.fetchnumpy()["range"].tolist() == list(range(8, 100))


def test_a_relation_is_iterable(numbers: firndb.Connection) -> None:
    assert list(numbers.sql("SELECT i FROM t ORDER BY i")) == [(1,), (2,), (3,)]


def test_a_failed_query_can_be_read_again(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
    con.execute("INSERT INTO t VALUES (1, 0)")
    relation = con.sql("SELECT a / b AS q FROM t")
    for _ in range(2):
        with pytest.raises(firndb.DataError):
            relation.arrow()
    con.execute("UPDATE t SET b = 1")
    assert [float(row[0]) for row in relation.fetchall()] == [1.0]


def test_text_of_a_relation_is_a_table(numbers: firndb.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    relation = numbers.sql("SELECT i, CASE WHEN i > 1 THEN 'text' END AS s FROM t ORDER BY i")
    assert repr(relation).splitlines() == [
        "┌─────────┬─────────┐",
        "│ i       │ s       │",
        "│ INTEGER │ VARCHAR │",
        "├─────────┼─────────┤",
        "│       1 │ NULL    │",
        "│       2 │ text    │",
        "│       3 │ text    │",
        "└─────────┴─────────┘",
        "3 rows, 2 columns",
    ]
    relation.show(max_rows=1)
    assert "│       1 │ NULL    │" in capsys.readouterr().out


def test_wide_relations_leave_columns_out(con: firndb.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    columns = ", ".join(f"{i} AS a_rather_long_name_{i}" for i in range(20))
    text = repr(con.sql(f"SELECT {columns}"))
    assert max(map(len, text.splitlines())) <= 60
    assert "…" in text and "a_rather_long_name_0 " in text and "a_rather_long_name_19" in text


def test_long_relations_are_not_read_to_be_shown(con: firndb.Connection) -> None:
    text = repr(con.sql("SELECT * FROM range(100000000) AS r(range)"))
    assert "the first 20 rows" in text


def test_notebooks_get_html(numbers: firndb.Connection) -> None:
    page = numbers.sql("SELECT '<b>' AS \"a<b\", NULL AS n")._repr_html_()
    assert "&lt;b&gt;" in page and "a&lt;b" in page and "<i>NULL</i>" in page and "1 row" in page


@pytest.mark.parametrize("kind", ["line", "scatter", "area", "bar", "barh", "hist"])
def test_plots(con: firndb.Connection, kind: str) -> None:
    from matplotlib import pyplot

    axes = con.sql("SELECT 'k' || range AS k, range AS a, range * 1.5 AS b FROM range(5) AS r(range)").plot(kind=kind)
    assert axes.get_legend() is not None or kind == "hist"
    pyplot.close(axes.figure)


def test_columns_by_name_and_position(con: firndb.Connection) -> None:
    relation = con.sql('SELECT 1 AS a, 2 AS b, 3 AS "Other"')
    assert relation["a"].to_list() == [1]
    assert relation["B"].to_list() == [2]
    assert relation["other"].to_list() == [3]
    assert relation[-1].name == "Other"
    with pytest.raises(firndb.ProgrammingError) as raised:
        relation["missing"]
    assert raised.value.sqlstate == "42703"
    with pytest.raises(firndb.ProgrammingError) as raised:
        con.sql("SELECT * FROM (SELECT 1 AS a) AS x, (SELECT 2 AS a) AS y")["a"]
    assert raised.value.sqlstate == "42702"
    with pytest.raises(IndexError):
        relation[3]


def test_columns_are_arrays(numbers: firndb.Connection) -> None:
    column = numbers.sql("SELECT i FROM t ORDER BY i")["i"]
    assert len(column) == 3
    assert np.asarray(column).tolist() == [1, 2, 3]
    assert np.asarray(column, dtype=np.float64).dtype == np.float64
    assert np.from_dlpack(column).tolist() == [1, 2, 3]
    assert column.__dlpack_device__() == (1, 0)
    array = np.asarray(column)
    array[:] = 0
    assert np.asarray(column).tolist() == [1, 2, 3]


def test_columns_with_nulls(con: firndb.Connection) -> None:
    column = con.sql("SELECT * FROM (VALUES (1), (NULL), (3)) AS v(i)")["i"]
    values = np.asarray(column)
    assert np.isnan(values[1]) and values[2] == 3
    assert column.to_numpy().mask.tolist() == [False, True, False]
    with pytest.raises(BufferError):
        np.from_dlpack(column)


def test_relations_are_arrays_of_two_dimensions(con: firndb.Connection) -> None:
    assert np.asarray(con.sql("SELECT range AS a, range * 2 AS b FROM range(3) AS r(range)")).tolist() == [[0, 0], [1, 2], [2, 4]]
    mixed = np.asarray(con.sql("SELECT 1 AS a, 'x' AS b"))
    assert mixed.dtype == object and mixed.tolist() == [[1, "x"]]


def test_fetchall_returns_every_row_each_time(con: firndb.Connection) -> None:
    relation = con.sql("SELECT * FROM range(70000) AS r(range)")
    rows = [(i,) for i in range(70000)]
    assert relation.fetchall() == rows
    assert relation.fetchall() == rows
    assert relation.fetchone() == (0,)
    assert relation.fetchmany(2) == rows[1:3]
    assert relation.fetchall() == rows[3:]
    assert relation.fetchone() == (0,)


def test_fetches_end(con: firndb.Connection) -> None:
    relation = con.sql("SELECT * FROM range(3) AS r(range)")
    chunks = list(iter(lambda: relation.fetchmany(2), []))
    assert chunks == [[(0,), (1,)], [(2,)]]
    assert relation.fetchone() is None and relation.fetchone() is None
    assert relation.fetchall() == []
    assert len(relation.fetchall()) == 3


def test_each_loop_over_a_relation_reads_every_row(con: firndb.Connection) -> None:
    relation = con.sql("SELECT * FROM range(3000) AS r(range)")
    rows = [(i,) for i in range(3000)]
    first, second = iter(relation), iter(relation)
    assert next(first) == (0,)
    assert relation.fetchmany(10) == rows[:10]
    assert list(second) == rows
    assert list(first) == rows[1:]
    assert list(relation) == rows == list(con.sql("SELECT * FROM range(3000) AS r(range)"))
    assert relation.fetchone() == (10,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT error()",
        "  -- note\n select error();",
        "/* a /* nested */ */ (SELECT error())",
        "FROM (SELECT error())",
        "WITH a AS (SELECT 1 AS i) SELECT error() FROM a",
        "SELECT error() || 'insert; delete'",
        "SELECT error() || $$ ; insert $$",
        "SELECT error() AS \"insert\"",
        "SELECT error() || E'\\'; delete'",
    ],
)  # fmt: skip
def test_queries_are_told_from_writes(con: firndb.Connection, sql: str) -> None:
    # What runs at once fails at once.
    relation = con.sql(sql.replace("error()", "CAST(1 / (SELECT 0 FROM range(1) AS r(range)) AS VARCHAR)"))
    with pytest.raises(firndb.DataError, match="division by zero"):
        relation.fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t WITH a AS (SELECT 1 AS i) SELECT * FROM a",
        "WITH a AS (SELECT 1 AS i) INSERT INTO t SELECT * FROM a",
        "SELECT 1; INSERT INTO t VALUES (1)",
    ],
)
def test_writes_are_told_from_queries(con: firndb.Connection, sql: str) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    con.sql(sql)
    assert con.execute("SELECT i FROM t").fetchall() == [(1,)]
