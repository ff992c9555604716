"""What users do wrong: each mistake is a clear error with its SQLSTATE, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import firndb
import pytest


@pytest.fixture
def con() -> Iterator[firndb.Connection]:
    connection = firndb.connect()
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer VARCHAR NOT NULL, amount DECIMAL(10,2))")
    connection.execute("INSERT INTO orders VALUES (1, 'Ada', 1.50), (2, 'Grace', 2.50)")
    yield connection
    connection.close()


def fails(con: firndb.Connection, sql: str, parameters: Any = None) -> firndb.Error:
    """The error of a statement."""
    with pytest.raises(firndb.Error) as caught:
        result = con.execute(sql, parameters) if parameters is not None else con.execute(sql)
        result.fetchall()
    return caught.value


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELEC 1", "42601"),
        ("SELECT * FROM ordrs", "42P01"),
        ("SELECT custommer FROM orders", "42703"),
        ("SELECT nosuchfunction(1)", "42883"),
        ("INSERT INTO orders VALUES (3, 'x', 1, 2)", "42601"),
        ("INSERT INTO orders (id, nosuch) VALUES (3, 4)", "42703"),
        ("INSERT INTO orders VALUES ('three', 'x', 1)", "22P02"),
        ("INSERT INTO orders VALUES (99999999999, 'x', 1)", "22003"),
        ("INSERT INTO orders VALUES (3, 'x', 123456789.00)", "22003"),
        ("INSERT INTO orders VALUES (1, 'x', 1)", "23505"),
        ("INSERT INTO orders VALUES (3, NULL, 1)", "23502"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT 1 // 0", "22012"),
        ("SELECT 1 % 0", "22012"),
        ("SELECT amount / 0 FROM orders", "22012"),
        ("SELECT id / (id - 1) FROM orders", "22012"),
        ("SELECT CAST(2147483647 AS INTEGER) + CAST(1 AS INTEGER)", "22003"),
        ("SELECT 9223372036854775807::BIGINT + 1::BIGINT", "22003"),
        ("SELECT -(-2147483648)::INTEGER * 2147483647::INTEGER", "22003"),
        ("SELECT CAST(300 AS TINYINT)", "22003"),
        ("SELECT CAST('abc' AS INTEGER)", "22P02"),
        ("SELECT CAST('2026-02-30' AS DATE)", "22008|22P02|22007"),
        ("CREATE TABLE orders (x INTEGER)", "42P07"),
        ("CREATE TABLE t (x INTEGER, x INTEGER)", "42701"),
        ("CREATE TABLE t (x NOSUCHTYPE)", "42704"),
        ("DROP TABLE nosuch", "42P01"),
        ("SELECT customer, count(*) FROM orders", "42803"),
        ("SELECT id FROM orders a, orders b", "42702"),
        ("UPDATE orders SET nosuch = 1", "42703"),
        ("UPDATE nosuch SET a = 1", "42P01"),
        ("DELETE FROM orders WHERE nosuch = 1", "42703"),
        ("COMMIT", "25P01"),
        ("ROLLBACK TO SAVEPOINT nosuch", "25P01|3B001"),
        ("EXECUTE nosuch", "26000"),
        ("SET nosuch = 1", "42704"),
        ("SELECT * FROM read_csv('/nosuch/file.csv')", "58P01"),
    ],
)
def test_mistake_has_its_sqlstate(con: firndb.Connection, sql: str, state: str) -> None:
    assert fails(con, sql).sqlstate in state.split("|")
    assert con.execute("SELECT count(*), sum(amount) FROM orders").fetchone()[0] == 2


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT * FROM ordrs", "orders"),
        ("SELECT custommer FROM orders", "customer"),
        ("UPDATE orders SET amont = 1", "amount"),
        ("SELECT cuont(*) FROM orders", "count"),
        ("SET memory_limt = '1GB'", "memory_limit"),
    ],
)
def test_near_name_is_hinted(con: firndb.Connection, sql: str, hint: str) -> None:
    assert hint in (fails(con, sql).hint or "")


def test_syntax_error_has_a_position(con: firndb.Connection) -> None:
    assert fails(con, "SELECT * FROM orders WHERE id == = 3").position is not None


def test_million_row_insert_that_fails_at_its_last_row_leaves_nothing(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE big (i BIGINT CHECK (i < 999999))")
    source = "SELECT value FROM range(1000000) AS r(value)"
    assert fails(con, f"INSERT INTO big {source}").sqlstate == "23514"
    assert con.execute("SELECT count(*) FROM big").fetchone() == (0,)
    con.execute("CREATE TABLE keyed (i BIGINT PRIMARY KEY)")
    assert (
        fails(con, f"INSERT INTO keyed SELECT CASE WHEN value = 999999 THEN 0 ELSE value END FROM ({source})").sqlstate == "23505"
    )
    assert con.execute("SELECT count(*) FROM keyed").fetchone() == (0,)
    con.execute(f"INSERT INTO keyed {source}")
    assert con.execute("SELECT count(*), min(i), max(i) FROM keyed").fetchone() == (1_000_000, 0, 999_999)


def test_statement_after_an_error_in_a_transaction_is_refused_until_rollback(con: firndb.Connection) -> None:
    con.execute("BEGIN")
    con.execute("INSERT INTO orders VALUES (3, 'x', 1)")
    fails(con, "SELECT 1 / 0")
    assert fails(con, "SELECT 1").sqlstate == "25P02"
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_closed_connection_says_so(con: firndb.Connection) -> None:
    con.close()
    with pytest.raises(firndb.Error, match="closed"):
        con.execute("SELECT 1")


@pytest.mark.parametrize("parameters", [[], [1, 2], {"x": 1}, [object()]])
def test_bad_parameters_are_an_error(con: firndb.Connection, parameters: Any) -> None:
    with pytest.raises(firndb.Error):
        con.execute("SELECT * FROM orders WHERE id = ?", parameters).fetchall()


def test_lone_surrogate_is_an_error(con: firndb.Connection) -> None:
    with pytest.raises((firndb.Error, UnicodeEncodeError)):
        con.execute("SELECT '\ud800'")
    with pytest.raises((firndb.Error, UnicodeEncodeError)):
        con.execute("SELECT ?", ["\ud800"])


def test_invalid_utf8_in_a_file_is_an_error(con: firndb.Connection, tmp_path: Any) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(b"id,name\n1,good\n2,\xff\xfe\n")
    con.execute("CREATE TABLE names (id INTEGER, name VARCHAR)")
    fails(con, f"COPY names FROM '{file}' (FORMAT csv, HEADER)")
    assert con.execute("SELECT count(*) FROM names").fetchone() == (0,)


def test_absurd_identifier_is_an_error_or_a_name(con: firndb.Connection) -> None:
    name = "n" * 1_000_000
    try:
        con.execute(f"SELECT 1 AS {name}").fetchall()
    except firndb.Error as error:
        assert error.sqlstate in ("42622", "54000")
    fails(con, f"SELECT {name} FROM orders")


def test_absurd_literal_comes_back(con: firndb.Connection) -> None:
    assert con.execute(f"SELECT '{'x' * 10_000_000}'").fetchone() == ("x" * 10_000_000,)
    fails(con, f"SELECT {'9' * 100_000}")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 100_000 + "1" + ")" * 100_000,
        "SELECT " + "1 + " * 50_000 + "1",
        "SELECT " + "NOT " * 50_000 + "TRUE",
        "SELECT " + "-" * 3 + "1" + " - -1" * 20_000,
        "SELECT 1" + " UNION ALL SELECT 1" * 5_000,
        "SELECT * FROM " + "(SELECT * FROM " * 2_000 + "orders" + ") AS t" * 2_000,
        "SELECT " + "abs(" * 20_000 + "1" + ")" * 20_000,
        "SELECT " + "CASE WHEN TRUE THEN " * 5_000 + "1" + " END" * 5_000,
        "SELECT id FROM orders WHERE " + "id = 1 OR " * 20_000 + "id = 2",
        "CREATE TABLE deep (a " + "STRUCT(a " * 20_000 + "INT" + ")" * 20_000 + ")",
        "CREATE TABLE deep (a " + "STRUCT<a " * 20_000 + "INT" + ">" * 20_000 + ")",
        "CREATE TABLE deep (a " + "MAP(INT, " * 20_000 + "INT" + ")" * 20_000 + ")",
        "CREATE TABLE deep (a " + "ARRAY<" * 20_000 + "INT" + ">" * 20_000 + ")",
        "CREATE TABLE deep (a INT" + "[]" * 100_000 + ")",
        "SELECT NULL::INT" + " [ ]" * 100_000,
        "SELECT " + "[" * 20_000 + "1" + "]" * 20_000,
        "SELECT " + "{'a': " * 20_000 + "1" + "}" * 20_000,
        "SELECT " + "- " * 20_000 + "1",
        "SELECT 1" + "::INT" * 20_000,
        "SELECT 1" + " EXCEPT SELECT 2" * 2_000,
        "SELECT 1" + " INTERSECT SELECT 1" * 2_000,
        "SELECT count(*) FROM orders o" + " NATURAL JOIN orders" * 2_000,
        "SELECT " + "1 BETWEEN 0 AND " * 500 + "1",
        "SELECT count(*) FROM orders GROUP BY CUBE (" + ", ".join(f"id + {i}" for i in range(40)) + ")",
        "SELECT count(*) FROM orders GROUP BY " + ", ".join(f"ROLLUP (id + {i}, id)" for i in range(40)),
    ],
    ids=(
        "parentheses additions nots subtractions unions subqueries calls cases disjunctions struct_types angle_types "
        "map_types array_types list_types cast_to_list lists structs signs casts excepts intersects joins ranges cube rollups"
    ).split(),
)
def test_deep_nesting_is_an_answer_or_an_error(con: firndb.Connection, sql: str) -> None:
    try:
        con.execute(sql).fetchall()
    except firndb.Error as error:
        assert error.sqlstate in ("54001", "54000", "42601"), error
    assert con.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_hundreds_of_joins_and_set_operations_are_an_answer(con: firndb.Connection) -> None:
    joined = " ".join(f"JOIN orders t{i} ON t{i}.id = t{i - 1}.id" for i in range(1, 200))
    assert con.execute(f"SELECT count(*) FROM orders t0 {joined}").fetchone() == (2,)
    for operation, rows in (("EXCEPT", [(1,)]), ("INTERSECT", [])):
        sql = "SELECT 1 " + " ".join(f"{operation} SELECT {i}" for i in range(2, 300))
        assert con.execute(sql).fetchall() == rows


def test_text_in_arrow_data_that_is_no_utf8(con: firndb.Connection) -> None:
    import numpy as np
    import pyarrow as pa

    offsets = pa.py_buffer(np.array([0, 2], dtype="int32"))
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff\xfe")])
    frame = pa.table({"s": broken})
    coded = pa.table({"s": pa.DictionaryArray.from_arrays(pa.array([0]), broken)})
    for rows in (frame, coded):
        with pytest.raises(firndb.DataError) as raised:
            con.append("broken", rows, create=True)
        assert raised.value.sqlstate == "22021"
        con.register("foreign_rows", rows)
        with pytest.raises(firndb.DataError) as raised:
            con.execute("SELECT upper(s) FROM foreign_rows").fetchall()
        assert raised.value.sqlstate == "22021"
    astray = pa.table({"s": pa.DictionaryArray.from_arrays(pa.array([5]), pa.array(["x"]), safe=False)})
    with pytest.raises(firndb.DataError):
        con.append("astray", astray, create=True)
