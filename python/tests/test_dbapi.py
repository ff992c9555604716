"""PEP 249: the module, connections as cursors, exceptions."""

from __future__ import annotations

import pickle

import firndb
import pytest


def test_module_attributes() -> None:
    assert firndb.apilevel == "2.0"
    assert firndb.threadsafety == 2
    assert firndb.paramstyle == "qmark"
    assert isinstance(firndb.__version__, str)


def test_exceptions_form_the_tree_of_pep_249() -> None:
    assert issubclass(firndb.InterfaceError, firndb.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        assert issubclass(getattr(firndb, f"{name}Error"), firndb.DatabaseError)
        assert getattr(firndb.Connection, f"{name}Error") is getattr(firndb, f"{name}Error")


def test_errors_survive_pickling() -> None:
    error = firndb.DataError("bad", sqlstate="22003", hint="better", position=3, statement="SELECT")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.message, copy.sqlstate, copy.hint, copy.position) == (
        firndb.DataError, "bad", "22003", "better", 3,
    )  # fmt: skip


def test_text_of_an_error_points_into_the_statement() -> None:
    error = firndb.ProgrammingError("no", sqlstate="42703", hint="yes", position=11, statement="SELECT\n  a, bb")
    assert str(error) == "no\nLINE 2:   a, bb\n" + " " * 12 + "^\nHINT: yes"


def test_constructors() -> None:
    assert firndb.Date(2024, 2, 29).isoformat() == "2024-02-29"
    assert firndb.Timestamp(2024, 2, 29, 1, 2, 3).isoformat() == "2024-02-29T01:02:03"
    assert firndb.Binary(b"x") == b"x"
    assert firndb.DateFromTicks(0).year in (1969, 1970)


def test_a_database_in_memory_is_written() -> None:
    with pytest.raises(firndb.NotSupportedError):
        firndb.connect(read_only=True)


def test_unknown_settings_are_errors() -> None:
    with pytest.raises(firndb.ProgrammingError):
        firndb.connect(config={"no_such_setting": 1})
    with pytest.raises(firndb.ProgrammingError):
        firndb.connect(config={"x = 1; DROP": 1})
    with pytest.raises(firndb.ProgrammingError):
        firndb.connect(config={"threads": 0})


def test_settings_reach_the_database() -> None:
    with firndb.connect(config={"threads": 1, "progress_bar": False}) as con:
        assert con.execute("SHOW threads").fetchone() in [("1",), (1,)]
        assert con.progress_bar is False


def test_execute_returns_the_connection(con: firndb.Connection) -> None:
    assert con.execute("SELECT 1") is con
    assert con.fetchone() == (1,)
    assert con.fetchone() is None


def test_fetches_share_one_position(con: firndb.Connection) -> None:
    con.execute("SELECT * FROM range(10) AS r(range)")
    assert con.fetchone() == (0,)
    assert con.fetchmany(3) == [(1,), (2,), (3,)]
    assert con.fetchmany() == [(4,)]
    assert next(con) == (5,)
    assert con.fetchall() == [(6,), (7,), (8,), (9,)]
    assert con.fetchall() == []
    assert con.fetchmany(2) == []


def test_iteration_reads_every_row(con: firndb.Connection) -> None:
    assert [row[0] for row in con.execute("SELECT * FROM range(100000) AS r(range)")] == list(range(100000))


def test_description(con: firndb.Connection) -> None:
    assert con.description is None
    con.execute("SELECT 1::INTEGER AS a, 'x' AS \"B\", 1.50::DECIMAL(10,2) AS c, DATE '2024-01-01' AS d, x'00' AS e")
    assert con.description is not None
    names = [column[0] for column in con.description]
    types = [column[1] for column in con.description]
    assert names == ["a", "B", "c", "d", "e"]
    assert types[0] == firndb.NUMBER
    assert types[1] == firndb.STRING
    assert types[2] == "DECIMAL(10,2)" and types[2] == firndb.NUMBER
    assert con.description[2][4:6] == (10, 2)
    assert types[3] == firndb.DATETIME
    assert types[4] == firndb.BINARY and types[4] != firndb.STRING
    con.execute("CREATE TABLE t (i INTEGER)")
    assert con.description is None


def test_rowcount(con: firndb.Connection) -> None:
    assert con.rowcount == -1
    con.execute("CREATE TABLE t (i INTEGER)")
    assert con.execute("INSERT INTO t VALUES (1), (2), (3)").rowcount == 3
    assert con.execute("UPDATE t SET i = i + 1 WHERE i > 1").rowcount == 2
    assert con.execute("DELETE FROM t").rowcount == 3
    assert con.execute("SELECT 1").rowcount == -1


def test_fetching_without_a_result_is_an_error(con: firndb.Connection) -> None:
    for fetch in (con.fetchone, con.fetchall, con.fetchmany, con.df, con.arrow, con.fetchnumpy):
        with pytest.raises(firndb.ProgrammingError) as raised:
            fetch()
        assert raised.value.sqlstate == "24000"


def test_a_statement_that_fails_leaves_no_result(con: firndb.Connection) -> None:
    con.execute("SELECT 1")
    with pytest.raises(firndb.ProgrammingError):
        con.execute("SELECT nothing")
    with pytest.raises(firndb.ProgrammingError):
        con.fetchone()


def test_executemany_is_one_statement(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER PRIMARY KEY, s VARCHAR)")
    assert con.executemany("INSERT INTO t VALUES (?, ?)", [(i, str(i)) for i in range(1000)]).rowcount == 1000
    assert con.execute("SELECT count(*), sum(i) FROM t").fetchone() == (1000, 499500)
    with pytest.raises(firndb.IntegrityError):
        con.executemany("INSERT INTO t VALUES (?, ?)", [(2000, "new"), (5, "taken")])
    assert con.execute("SELECT count(*) FROM t").fetchone() == (1000,)
    con.executemany("INSERT INTO t VALUES ($i, $s)", [{"i": 3000, "s": "a"}, {"i": 3001, "s": None}])
    assert con.execute("SELECT s FROM t WHERE i >= 3000 ORDER BY i").fetchall() == [("a",), (None,)]
    assert con.executemany("INSERT INTO t VALUES (?, ?)", []).rowcount in (0, -1)


def test_a_cursor_is_an_independent_session(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    cursor = con.cursor()
    con.begin()
    con.execute("INSERT INTO t VALUES (1)")
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (0,)
    con.commit()
    assert cursor.execute("SELECT count(*) FROM t").fetchone() == (1,)
    cursor.close()
    assert con.execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_closed_connection_raises(con: firndb.Connection) -> None:
    con.execute("SELECT 1")
    relation = con.sql("SELECT 1")
    con.close()
    con.close()
    assert con.closed
    for use in (
        lambda: con.execute("SELECT 1"),
        lambda: con.sql("SELECT 1"),
        lambda: con.executemany("SELECT ?", [[1]]),
        lambda: con.append("t", {"a": [1]}),
        con.cursor,
        con.fetchone,
        con.commit,
        con.interrupt,
        relation.fetchall,
    ):
        with pytest.raises(firndb.InterfaceError) as raised:
            use()
        assert raised.value.sqlstate == "08003"
    assert "closed" in repr(con)


def test_a_connection_as_a_context_closes() -> None:
    with firndb.connect() as con:
        con.execute("SELECT 1")
    assert con.closed


def test_results_that_were_read_outlive_the_connection(con: firndb.Connection) -> None:
    relation = con.sql("SELECT * FROM range(5) AS r(range)")
    assert len(relation) == 5
    table = relation.arrow()
    con.close()
    assert relation.fetchall() == [(i,) for i in range(5)]
    assert table.num_rows == 5


def test_sizes_are_accepted_and_ignored(con: firndb.Connection) -> None:
    con.setinputsizes([1])
    con.setoutputsize(1, 2)
    assert con.arraysize == 1


def test_several_statements_leave_the_last_result(con: firndb.Connection) -> None:
    assert con.execute("CREATE TABLE t (i INTEGER); INSERT INTO t VALUES (7); SELECT i FROM t").fetchall() == [(7,)]


def test_a_cursor_is_closed_with_its_connection(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE t (i INTEGER)")
    cursor = con.cursor()
    second = cursor.cursor()
    cursor.begin()
    cursor.execute("INSERT INTO t VALUES (1)")
    second.execute("SELECT * FROM range(5) AS r(range)")
    con.close()
    assert cursor.closed and second.closed
    for use in (lambda: cursor.execute("SELECT 1"), second.fetchall, cursor.commit, second.cursor, lambda: cursor.table("t")):
        with pytest.raises(firndb.InterfaceError, match="closed") as raised:
            use()
        assert raised.value.sqlstate == "08003"


def test_a_cursor_outlives_a_connection_that_nobody_holds() -> None:
    cursor = firndb.connect().cursor()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    cursor.close()


@pytest.mark.parametrize("size", [-1, -(2**70), "2", 1.5, b"1", [1]])
def test_what_is_no_number_of_rows_is_refused(con: firndb.Connection, size: object) -> None:
    relation = con.sql("SELECT * FROM range(3) AS r(range)")
    con.execute("SELECT * FROM range(3) AS r(range)")
    for use in (con.fetchmany, relation.fetchmany, lambda size: setattr(con, "arraysize", size), relation.show):
        with pytest.raises(firndb.ProgrammingError, match="number of rows") as raised:
            use(size)
        assert raised.value.sqlstate == "22023"
    assert con.fetchmany(0) == []
    assert con.fetchmany(2**70) == [(0,), (1,), (2,)]
    assert relation.fetchmany(2**64) == [(0,), (1,), (2,)]


API = {
    "append", "arraysize", "arrow", "begin", "close", "closed", "commit", "cursor", "description", "df", "execute",
    "executemany", "fetch_record_batch", "fetchall", "fetchmany", "fetchnumpy", "fetchone", "in_transaction", "interrupt", "pl",
    "progress_bar", "register", "rollback", "rowcount", "setinputsizes", "setoutputsize", "sql", "table", "to_arrow_table",
    "transaction", "unregister",
}  # fmt: skip


def test_only_the_api_shows() -> None:
    def public(thing: object) -> set[str]:
        return {name for name in dir(thing) if not name.startswith("_")}

    assert public(firndb) == set(firndb.__all__) - {"__version__"}
    assert {name for name in public(firndb.Connection) if not name.endswith(("Error", "Warning"))} == API
    assert public(firndb.Relation) == {
        "arrow", "columns", "description", "df", "fetch_record_batch", "fetchall", "fetchmany", "fetchnumpy", "fetchone", "pl",
        "plot", "shape", "show", "to_arrow_table", "types",
    }  # fmt: skip
    assert public(firndb.Column) == {"arrow", "name", "to_list", "to_numpy", "type"}
