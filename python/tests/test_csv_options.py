"""Options of read_csv and COPY as DuckDB has them."""

from __future__ import annotations

import datetime
from pathlib import Path

import firndb
import pytest


@pytest.fixture
def con() -> firndb.Connection:
    return firndb.connect()


def written(folder: Path, name: str, content: str) -> str:
    path = folder / name
    path.write_bytes(content.encode())
    return str(path)


def test_columns_of_several_files_are_united_by_name(con: firndb.Connection, tmp_path: Path) -> None:
    one = written(tmp_path, "one.csv", "a,b\n1,x\n2,y\n")
    two = written(tmp_path, "two.csv", "c,a\n7,2.5\n")
    rows = con.execute("SELECT * FROM read_csv([$1, $2], union_by_name = true) ORDER BY a", [one, two])
    assert [column[0] for column in rows.description] == ["a", "b", "c"]
    assert rows.fetchall() == [(1.0, "x", None), (2.0, "y", None), (2.5, None, 7)]
    assert con.execute("SELECT c FROM read_csv([$1, $2], union_by_name = true)", [one, two]).fetchall() == [
        (None,),
        (None,),
        (7,),
    ]
    with pytest.raises(firndb.Error):
        con.execute("SELECT * FROM read_csv([$1, $2])", [one, two]).fetchall()


def test_a_column_of_two_types_in_united_files_is_text(con: firndb.Connection, tmp_path: Path) -> None:
    one = written(tmp_path, "one.csv", "a\n1\n")
    two = written(tmp_path, "two.csv", "a\nx y\n")
    rows = con.execute("SELECT a FROM read_csv([$1, $2], union_by_name = true)", [one, two]).fetchall()
    assert rows == [("1",), ("x y",)]


def test_the_names_of_files_are_a_column(con: firndb.Connection, tmp_path: Path) -> None:
    one = written(tmp_path, "one.csv", "a,b\n1,x\n")
    two = written(tmp_path, "two.csv", "a,b\n2,y\n")
    query = "SELECT {} FROM read_csv([$1, $2], filename = {}) ORDER BY a"
    assert con.execute(query.format("*", "true"), [one, two]).fetchall() == [(1, "x", one), (2, "y", two)]
    assert con.execute(query.format("source, a", "'source'"), [one, two]).fetchall() == [(one, 1), (two, 2)]
    assert con.execute(query.format("filename", "true"), [one, two]).fetchall() == [(one,), (two,)]
    parquet = str(tmp_path / "f.parquet")
    con.execute(f"COPY (SELECT 5 AS a) TO '{parquet}'")
    assert con.execute("SELECT filename, a FROM read_parquet($1, filename = true)", [parquet]).fetchall() == [(parquet, 5)]
    found = con.execute("SELECT count(*) FROM read_parquet($1, filename = true) WHERE filename = $1", [parquet])
    assert found.fetchall() == [(1,)]


def test_parquet_files_are_united_by_name(con: firndb.Connection, tmp_path: Path) -> None:
    con.execute(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{tmp_path}/1.parquet'")
    con.execute(f"COPY (SELECT 2 AS a, 0.5::DOUBLE AS c) TO '{tmp_path}/2.parquet'")
    rows = con.execute("SELECT a, b, c FROM read_parquet($1, union_by_name = true) ORDER BY a", [f"{tmp_path}/*.parquet"])
    assert rows.fetchall() == [(1, "x", None), (2, None, 0.5)]


def test_records_that_do_not_fit_are_passed_over_when_asked(con: firndb.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, "bad.csv", "a,b\n1,x\nfoo,y\n3,z,9\n4\n5,w\n")
    columns = "columns = {'a': 'INTEGER', 'b': 'VARCHAR'}"
    rows = f"SELECT * FROM read_csv($1, {columns}, ignore_errors = true)"
    assert con.execute(rows, [path]).fetchall() == [(1, "x"), (5, "w")]
    # Which rows there are does not depend on the columns that are read.
    only = f"FROM read_csv($1, {columns}, ignore_errors = true)"
    assert con.execute("SELECT b " + only, [path]).fetchall() == [("x",), ("w",)]
    assert con.execute("SELECT count(*) " + only, [path]).fetchall() == [(2,)]
    with pytest.raises(firndb.Error):
        con.execute(f"SELECT * FROM read_csv($1, {columns})", [path]).fetchall()
    con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
    con.execute(f"COPY t FROM '{path}' (HEADER, IGNORE_ERRORS)")
    assert con.execute("SELECT * FROM t").fetchall() == [(1, "x"), (5, "w")]


def test_numbers_with_other_separators(con: firndb.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, "dec.csv", "a;b;c\n1,5;x;1.234,5\n-2,75;y;7\n")
    rows = con.execute("SELECT * FROM read_csv($1, decimal_separator = ',', thousands = '.')", [path])
    assert rows.fetchall() == [(1.5, "x", 1234.5), (-2.75, "y", 7.0)]
    con.execute("CREATE TABLE t (a DECIMAL(10, 2), b VARCHAR, c DOUBLE)")
    con.execute(f"COPY t FROM '{path}' (DELIM ';', DECIMAL_SEPARATOR ',', THOUSANDS '.', HEADER)")
    assert con.execute("SELECT a::VARCHAR, c FROM t").fetchall() == [("1.50", 1234.5), ("-2.75", 7.0)]
    point = written(tmp_path, "point.csv", "a;b\n1.5;x\n")
    with pytest.raises(firndb.Error) as raised:
        con.execute(
            "SELECT * FROM read_csv($1, columns = {'a': 'DOUBLE', 'b': 'VARCHAR'}, decimal_separator = ',')", [point]
        ).fetchall()
    assert raised.value.sqlstate == "22P02"


def test_dates_and_timestamps_by_a_format(con: firndb.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, "dates.csv", "d,e\n31/01/2024,31.01.2024 10:00\n01/02/2024,\n")
    formats = "dateformat = '%d/%m/%Y', timestampformat = '%d.%m.%Y %H:%M'"
    wanted = [(datetime.date(2024, 1, 31), datetime.datetime(2024, 1, 31, 10, 0)), (datetime.date(2024, 2, 1), None)]
    assert con.execute(f"SELECT * FROM read_csv($1, {formats})", [path]).fetchall() == wanted
    declared = f"SELECT * FROM read_csv($1, columns = {{'d': 'DATE', 'e': 'TIMESTAMP'}}, {formats})"
    assert con.execute(declared, [path]).fetchall() == wanted
    con.execute("CREATE TABLE t (d DATE, e TIMESTAMP)")
    con.execute(f"COPY t FROM '{path}' (DATEFORMAT '%d/%m/%Y', TIMESTAMPFORMAT '%d.%m.%Y %H:%M', HEADER)")
    assert con.execute("SELECT * FROM t").fetchall() == wanted
    out = tmp_path / "out.csv"
    con.execute(f"COPY t TO '{out}' (HEADER, DATEFORMAT '%d/%m/%Y', TIMESTAMPFORMAT '%d.%m.%Y %H:%M')")
    assert out.read_text() == "d,e\n31/01/2024,31.01.2024 10:00\n01/02/2024,\n"
    with pytest.raises(firndb.Error) as raised:
        con.execute("SELECT * FROM read_csv($1, columns = {'d': 'DATE', 'e': 'VARCHAR'}, dateformat = '%Y')", [path]).fetchall()
    assert raised.value.sqlstate == "22007"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_end_as_they_do(con: firndb.Connection, tmp_path: Path, end: str) -> None:
    path = written(tmp_path, "ends.csv", end.join(["x", "a,b", '1,"p q"', "2,y", ""]))
    assert con.execute("SELECT * FROM read_csv($1, skip = 1)", [path]).fetchall() == [(1, "p q"), (2, "y")]
    assert con.execute("SELECT sum(a) FROM read_csv($1, skip = 1, new_line = $2)", [path, end]).fetchall() == [(3,)]
    con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
    con.execute(f"COPY t FROM '{path}' (SKIP 1, HEADER)")
    assert con.execute("SELECT * FROM t").fetchall() == [(1, "p q"), (2, "y")]
    out = tmp_path / "out.csv"
    con.execute(f"COPY t TO '{out}' (HEADER false, NEW_LINE '{end}')")
    assert out.read_bytes() == f"1,p q{end}2,y{end}".encode()


def test_feeds_within_quotes_of_files_of_returns(con: firndb.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, "quoted.csv", 'a,b\r1,"p\rq"\r2,y\r')
    assert con.execute("SELECT * FROM read_csv($1)", [path]).fetchall() == [(1, "p\rq"), (2, "y")]


def test_types_by_place_and_by_name(con: firndb.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, "plain.csv", "1,2024-01-01,true\n2,2024-01-02,false\n")
    kinds = "SELECT typeof(column0), typeof(column1), typeof(column2) FROM read_csv($1, {}) LIMIT 1"
    assert con.execute(kinds.format("types = ['VARCHAR', 'TIMESTAMP']"), [path]).fetchall() == [
        ("VARCHAR", "TIMESTAMP", "BOOLEAN")
    ]
    assert con.execute(kinds.format("auto_type_candidates = ['BIGINT', 'VARCHAR']"), [path]).fetchall() == [
        ("BIGINT", "VARCHAR", "VARCHAR")
    ]
    with pytest.raises(firndb.Error) as raised:
        con.execute(kinds.format("types = ['INT', 'DATE', 'INT', 'INT']"), [path])
    assert raised.value.sqlstate == "22023"


def test_declared_columns_and_a_header_with_their_names(con: firndb.Connection, tmp_path: Path) -> None:
    named = written(tmp_path, "named.csv", "a,b\n1,x\n")
    bare = written(tmp_path, "bare.csv", "1,x\n2,y\n")
    query = "SELECT * FROM read_csv($1, columns = {'a': 'INTEGER', 'b': 'VARCHAR'})"
    assert con.execute(query, [named]).fetchall() == [(1, "x")]
    assert con.execute(query, [bare]).fetchall() == [(1, "x"), (2, "y")]


def test_names_and_quoted_nulls(con: firndb.Connection, tmp_path: Path) -> None:
    path = written(tmp_path, "names.csv", 'A b,2nd\n1,""\n2,x\n')
    rows = con.execute("SELECT * FROM read_csv($1, normalize_names = true)", [path])
    assert [column[0] for column in rows.description] == ["a_b", "_2nd"]
    assert rows.fetchall() == [(1, ""), (2, "x")]
    assert con.execute("SELECT * FROM read_csv($1, allow_quoted_nulls = true)", [path]).fetchall() == [(1, None), (2, "x")]
    small = "SELECT * FROM read_csv($1, sample_size = 1, max_line_size = 100, strict_mode = false, parallel = false)"
    assert con.execute(small, [path]).fetchall()[1] == (2, "x")


@pytest.mark.parametrize(
    ("option", "state"),
    [
        ("nothing = 1", "42601"),
        ("decimal_separator = ';'", "22023"),
        ("new_line = 'x'", "22023"),
        ("types = 5", "22023"),
        ("hive_partitioning = true", "0A000"),
    ],
)
def test_options_that_are_refused(con: firndb.Connection, tmp_path: Path, option: str, state: str) -> None:
    path = written(tmp_path, "a.csv", "a\n1\n")
    with pytest.raises(firndb.Error) as raised:
        con.execute(f"SELECT * FROM read_csv($1, {option})", [path]).fetchall()
    assert raised.value.sqlstate == state


def test_files_as_values(con: firndb.Connection, tmp_path: Path) -> None:
    one = written(tmp_path, "one.txt", "h\u00e9\n")
    two = tmp_path / "two.bin"
    two.write_bytes(b"\xff\x00")
    text = con.execute("SELECT filename, content, size FROM read_text($1)", [one])
    assert text.fetchall() == [(one, "h\u00e9\n", 4)]
    assert con.execute("SELECT content FROM read_blob($1)", [str(two)]).fetchall() == [(b"\xff\x00",)]
    assert con.execute("SELECT file FROM glob($1) ORDER BY file", [f"{tmp_path}/*.*"]).fetchall() == [(one,), (str(two),)]
    assert con.execute("SELECT * FROM glob($1)", [f"{tmp_path}/*.none"]).fetchall() == []
    for call, state in [("read_text($1)", "22021"), ("read_text('/no/such/file')", "58P01")]:
        with pytest.raises(firndb.Error) as raised:
            con.execute(f"SELECT * FROM {call}", [str(two)] if "$1" in call else None).fetchall()
        assert raised.value.sqlstate == state
