"""Formats of strings in frozen memory: what crosses, by format, and that nothing else changes."""

from __future__ import annotations

import firndb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

FORMATS = ("auto", "offset", "view", "dictionary")
ROWS = 150_000
VALUES = [None if i % 13 == 5 else f"a value that comes often {i % 9}" for i in range(ROWS)]
CODED = pa.dictionary(pa.int32(), pa.string())


@pytest.fixture(params=FORMATS)
def strings(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(con: firndb.Connection, strings: str) -> firndb.Relation:
    """Frozen blocks, and hot ones behind them."""
    con.execute(f"CREATE TABLE t (i INTEGER, s VARCHAR, b BLOB) WITH (strings = '{strings}')")
    frame = pa.table({"i": np.arange(ROWS, dtype=np.int32), "s": VALUES, "b": [v and v.encode() for v in VALUES]})
    con.append("t", frame.slice(0, 100_000))
    con.execute("PRAGMA freeze('t')")
    con.execute("UPDATE t SET s = 'changed' WHERE i BETWEEN 70000 AND 70010")
    con.append("t", frame.slice(100_000))
    return con.table("t")


def expected() -> list[str | None]:
    return ["changed" if 70_000 <= i <= 70_010 else value for i, value in enumerate(VALUES)]


def test_default_types_do_not_depend_on_the_format(table: firndb.Relation) -> None:
    arrow = table.arrow()
    assert arrow.schema.types == [pa.int32(), pa.string(), pa.binary()]
    assert arrow["s"].to_pylist() == expected()
    assert arrow["b"].to_pylist() == [v and v.encode() for v in VALUES]
    assert table.fetchall()[70_005] == (70_005, "changed", VALUES[70_005].encode())


def test_native_types_are_dictionaries_where_they_were_asked_for(table: firndb.Relation, strings: str) -> None:
    arrow = table.arrow(native=True)
    coded = strings == "dictionary"
    assert arrow.schema.field("s").type == (CODED if coded else pa.string_view())
    arrow.validate(full=True)
    assert arrow["s"].to_pylist() == expected()
    if coded:
        frame = arrow.to_pandas()
        assert isinstance(frame["s"].dtype, pd.CategoricalDtype)
        assert frame["s"].astype(object).where(frame["s"].notna(), None).tolist() == expected()


@pytest.mark.parametrize(
    "wanted",
    [pa.string(), pa.large_string(), pa.string_view(), CODED, pa.dictionary(pa.int8(), pa.string())],
    ids=str,
)
def test_requested_schemas_are_honoured_in_every_format(table: firndb.Relation, wanted: pa.DataType) -> None:
    schema = pa.schema([("i", pa.int64()), ("s", wanted), ("b", pa.large_binary())])
    arrow = pa.table(table, schema=schema)
    assert arrow.schema.types == schema.types
    arrow.validate(full=True)
    assert arrow["s"].to_pylist() == expected()
    assert arrow["i"][ROWS - 1].as_py() == ROWS - 1


def test_frozen_dictionaries_are_shown_as_they_lie(con: firndb.Connection) -> None:
    con.execute("CREATE TABLE d (s VARCHAR) WITH (strings = 'dictionary')")
    con.append("d", pa.table({"s": [f"value {i % 5}" for i in range(200_000)]}))
    con.execute("PRAGMA freeze('d')")

    def codes(wanted: pa.Table) -> list[int]:
        return [chunk.indices.buffers()[1].address for chunk in wanted["s"].chunks]

    first, second = con.table("d").arrow(native=True), con.table("d").arrow(native=True)
    assert codes(first) == codes(second)
    asked = pa.table(con.table("d"), schema=pa.schema([("s", CODED)]))
    assert codes(asked) == codes(first)
    con.execute("UPDATE d SET s = 'other'")
    con.execute("PRAGMA freeze('d')")
    assert first["s"].to_pylist() == [f"value {i % 5}" for i in range(200_000)]
    assert con.sql("SELECT DISTINCT s FROM d").fetchall() == [("other",)]


def test_frames_do_not_depend_on_the_format(table: firndb.Relation) -> None:
    assert table.pl()["s"].to_list() == expected()
    assert pl.DataFrame(table)["s"].to_list() == expected()
    frame = table.df()
    assert frame["s"].astype(object).where(frame["s"].notna(), None).tolist() == expected()
    numpy = table.fetchnumpy()["s"]
    assert [None if masked else value for value, masked in zip(numpy, np.ma.getmaskarray(numpy), strict=True)] == expected()


def test_statements_on_single_rows_read_every_format(con: firndb.Connection, strings: str) -> None:
    con.execute(f"CREATE TABLE k (id INTEGER PRIMARY KEY, s VARCHAR) WITH (strings = '{strings}')")
    con.append("k", pa.table({"id": np.arange(ROWS, dtype=np.int32), "s": VALUES}))
    con.execute("PRAGMA freeze('k')")
    for key in (0, 5, 18, 77_777, ROWS - 1):
        assert con.execute("SELECT s FROM k WHERE id = ?", [key]).fetchone() == (VALUES[key],)
        con.execute("UPDATE k SET s = s || '!' WHERE id = ?", [key])
        assert con.execute("SELECT s FROM k WHERE id = ?", [key]).fetchone() == (VALUES[key] and VALUES[key] + "!",)
